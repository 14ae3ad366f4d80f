// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which process this is, so that two ranks can tell whether they are in one, and whether another
// one still lives.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plugins/common/owned.h"

namespace weft::plugins {

/// A process among all processes of all hosts. Plain data without padding: it travels. Facts that
/// cannot be read (no /proc) are zero.
struct ProcessIdentity {
  std::array<char, 40> boot_id{};   ///< Of the running kernel.
  std::uint64_t pid_namespace = 0;  ///< Inode number.
  std::uint64_t start_time = 0;     ///< Clock ticks after boot: tells a reused pid apart.
  std::uint64_t pid = 0;            ///< In that namespace.

  bool operator==(const ProcessIdentity&) const = default;
};
static_assert(sizeof(ProcessIdentity) == 64);

/// Of the calling process. [any-thread]
ProcessIdentity this_process();

/// Inode number of /proc/self/ns/`name`, 0 if unknown.
std::uint64_t namespace_inode(const std::string& name);

/// A descriptor that becomes readable when `process` ends; none where the kernel has no such
/// descriptors, where the process is out of sight, or where it has ended (`ended` then says so).
OwnedFd watch_process(const ProcessIdentity& process, bool* ended);

/// Whether the process behind a descriptor of watch_process has ended. Does not wait.
bool has_ended(const OwnedFd& process);

}  // namespace weft::plugins
