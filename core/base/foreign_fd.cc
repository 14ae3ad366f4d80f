// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/foreign_fd.h"

#include <cerrno>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

namespace weft {

// By number: older C libraries have neither function.
Result<UniqueFd> copy_foreign_fd(std::uint64_t pid, int descriptor) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  int copy = -1;
  if (process) copy = static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), descriptor, 0));
  if (copy >= 0) return UniqueFd(copy);
  const int why = errno;
  const char* const hint =
      why == EPERM ? "let processes of a user trace each other: kernel.yama.ptrace_scope 0" : "";
  return fail(
      Error::from_errno(why, fmt::format("cannot take a descriptor of process {}", pid), hint));
}

Result<ProcessWitness> ProcessWitness::create() {
  ProcessWitness witness;
  auto& bytes = witness.bytes;
  witness.descriptor.reset(::memfd_create("weft-witness", MFD_CLOEXEC));
  const bool made =
      witness.descriptor &&
      ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) &&
      ::pwrite(witness.descriptor.get(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size());
  if (!made) return fail(Error::from_errno(errno, "cannot make a witness of this process"));
  return witness;
}

Status check_witness(std::uint64_t pid, int descriptor, const std::array<std::byte, 16>& bytes) {
  WEFT_TRY_ASSIGN(const UniqueFd copy, copy_foreign_fd(pid, descriptor));
  std::array<std::byte, 16> found{};
  if (::pread(copy.get(), found.data(), found.size(), 0) != static_cast<ssize_t>(found.size()) ||
      found != bytes) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("process {} is another one than it was said to be", pid),
                "let the ranks of a host share a namespace of processes");
  }
  return {};
}

}  // namespace weft
