// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Whether the kernel lets a process read another one's memory, for tests of what Weft can do only
// then. They ask the kernel themselves, since Weft's own answer is what they are about.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <sys/uio.h>

namespace weft::test {

/// Why the kernel, by its rules, does not let the caller read a byte of process `pid`; empty where
/// it does. Empty also after other errors, which are no reason to skip a test: it is to fail.
inline std::string rule_against_reading(pid_t pid, std::uint64_t address) {
  std::byte byte{};
  const iovec local{.iov_base = &byte, .iov_len = 1};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process.
  const iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = 1};
  if (::process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1) return {};
  if (errno == EPERM) {
    return "the kernel forbids process_vm_readv of these processes (EPERM: "
           "kernel.yama.ptrace_scope, a sandbox or the like)";
  }
  if (errno == ENOSYS) return "the kernel has no process_vm_readv (ENOSYS)";
  return {};
}

}  // namespace weft::test
