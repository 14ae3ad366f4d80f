// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// process_vm_readv, and the proof that the process read from was the right one.
#include "plugins/shm/peer_process.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <sys/uio.h>
#include <system_error>
#include <vector>

namespace weft::shm {
namespace {

/// 0 or an errno. The kernel copies at most 2 GiB at once, and less where a page is missing.
int copy_from(std::uint64_t pid, void* destination, std::uint64_t address, std::uint64_t size) {
  auto* to = static_cast<std::byte*>(destination);
  while (size > 0) {
    const iovec local{.iov_base = to, .iov_len = size};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process.
    const iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = size};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
    if (got < 0) return errno;
    if (got == 0) return EFAULT;
    to += got;
    address += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
  }
  return 0;
}

}  // namespace

std::string obstacle_to_reading(const plugins::ProcessIdentity& process, std::uint64_t address,
                                const void* expected, std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  const int error = copy_from(process.pid, bytes.data(), address, size);
  if (error == EPERM) {
    return "the kernel forbids to read the other's memory (EPERM: kernel.yama.ptrace_scope, "
           "sandbox)";
  }
  if (error != 0) {
    return "cannot read the other's memory (errno " + std::to_string(error) + ", " +
           std::generic_category().message(error) + ")";
  }
  if (std::memcmp(bytes.data(), expected, size) != 0) {
    return "what was read is not the other's memory";
  }
  return {};
}

weft_result PeerReader::read(const plugins::Host& host, const plugins::ProcessIdentity& process,
                             std::uint32_t peer, void* destination, std::uint64_t address,
                             std::uint64_t size) {
  const auto ended = [&] {
    return host.fail_peer("shm: rank " + std::to_string(peer) + " (pid " +
                              std::to_string(process.pid) + ") has ended",
                          "look for the first error of that rank");
  };
  const plugins::OwnedFd* watch = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (!opened_) {
      watch_ = plugins::watch_process(process, &ended_);
      opened_ = true;
    }
    if (ended_) return ended();
    watch = &watch_;  // Never changes again.
  }
  const int error = copy_from(process.pid, destination, address, size);
  // Asked afterwards: while the peer lives, nobody else can have had its pid.
  if (error == ESRCH || plugins::has_ended(*watch)) return ended();
  if (error == EPERM) {
    return host.fail_errno(
        error, "shm: may not read the memory of rank " + std::to_string(peer),
        "allow ptrace between the ranks (kernel.yama.ptrace_scope, sandbox), or set "
        "transports.single_copy to 0");
  }
  if (error != 0) {
    return host.fail_errno(error, "shm: cannot read " + std::to_string(size) +
                                      " bytes of memory of rank " + std::to_string(peer));
  }
  return WEFT_OK;
}

}  // namespace weft::shm
