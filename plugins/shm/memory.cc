// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// memfd, seals and mappings.
#include "plugins/shm/memory.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "plugins/common/available_memory.h"

namespace weft::shm {
namespace {

using plugins::Host;
using plugins::Mapping;
using plugins::OwnedFd;

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/// Without F_SEAL_SHRINK a peer could cut the file and have this process killed by a SIGBUS.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr const char* kMemoryHint =
    "free memory on this host, or use fewer channels or smaller buffers";

std::string subject(std::uint64_t size, std::uint32_t peer) {
  return std::to_string(size) + " bytes of memory to share with rank " + std::to_string(peer);
}

const char* memfd_hint(int error) {
  switch (error) {
    case EPERM:
    case EACCES:
    case ENOSYS:
      return "the sandbox of this process forbids memfd_create: allow it, or leave shm out of "
             "transports.order";
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENFILE:
      return "raise the system's limit of open files (fs.file-max)";
    default:
      return kMemoryHint;
  }
}

int open_memfd() {
  // Kernels before 6.3 do not know the flag, and later ones may insist on it.
  const int fd = ::memfd_create("weft-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return ::memfd_create("weft-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/// ftruncate beyond this limit would end the process by a signal.
bool within_file_limit(std::uint64_t size) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         size <= limit.rlim_cur;
}

weft_result map(const Host& host, int descriptor, std::uint64_t size, bool huge_pages,
                std::uint32_t peer, Mapping* out) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) {
    return host.fail_errno(errno, "shm: cannot map " + subject(size, peer),
                           "raise the limit of address space (ulimit -v), or use fewer channels or "
                           "smaller buffers");
  }
  Mapping mapping(address, size);
  // Hints: a kernel that refuses them costs speed or a little memory.
  if (huge_pages) ::madvise(address, size, MADV_HUGEPAGE);
  ::madvise(address, size, MADV_DONTFORK);
  *out = std::move(mapping);
  return WEFT_OK;
}

}  // namespace

weft_result create_memory(const Host& host, std::uint64_t size, bool huge_pages, std::uint32_t peer,
                          SharedMemory* out) {
  SharedMemory memory;
  memory.descriptor.reset(open_memfd());
  if (!memory.descriptor) {
    const int error = errno;
    return host.fail_errno(error, "shm: memfd_create for " + subject(size, peer) + " refused",
                           memfd_hint(error));
  }
  if (size > plugins::available_memory()) {
    return host.fail_errno(ENOMEM, "shm: cannot make " + subject(size, peer), kMemoryHint);
  }
  if (!within_file_limit(size)) {
    return host.fail_errno(EFBIG, "shm: cannot make " + subject(size, peer),
                           "raise the limit of file size (ulimit -f)");
  }
  const int fd = memory.descriptor.get();
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return host.fail_errno(errno, "shm: cannot make " + subject(size, peer), kMemoryHint);
  }
  weft_result result = map(host, fd, size, huge_pages, peer, &memory.mapping);
  if (result != WEFT_OK) return result;
  int status = 0;
  do {
    status = ::fallocate(fd, 0, 0, static_cast<off_t>(size));
  } while (status != 0 && errno == EINTR);
  if (status != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    return host.fail_errno(errno, "shm: cannot reserve " + subject(size, peer), kMemoryHint);
  }
  if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    return host.fail_errno(errno, "shm: cannot seal " + subject(size, peer),
                           "leave shm out of transports.order");
  }
  *out = std::move(memory);
  return WEFT_OK;
}

weft_result map_memory(const Host& host, const OwnedFd& descriptor, std::uint64_t size,
                       bool huge_pages, std::uint32_t peer, Mapping* out) {
  struct stat facts{};
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (!descriptor || seals < 0 || (seals & kSeals) != kSeals ||
      ::fstat(descriptor.get(), &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != size) {
    return host.fail_peer("shm: rank " + std::to_string(peer) +
                          " passed something else than sealed memory of " + std::to_string(size) +
                          " bytes");
  }
  return map(host, descriptor.get(), size, huge_pages, peer, out);
}

}  // namespace weft::shm
