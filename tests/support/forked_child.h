// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cerrno>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::test {

/// What `ask` answers, 0 to 254, in a child that this process forks now and that goes on without
/// exec; -1 where it does not end well. It may not wait for what other threads hold.
template <typename Ask>
int in_forked_child(const Ask& ask) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ask());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// Whether such a child has a copy of a descriptor.
inline bool is_open_in_children(int descriptor) {
  return in_forked_child(
             [=] { return ::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF ? 1 : 0; }) != 0;
}

}  // namespace weft::test
