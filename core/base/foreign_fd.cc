// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/foreign_fd.h"

#include <cerrno>
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
  return fail(
      Error::from_errno(errno, fmt::format("cannot take a descriptor of process {}", pid),
                        "let processes of a user trace each other: kernel.yama.ptrace_scope 0"));
}

}  // namespace weft
