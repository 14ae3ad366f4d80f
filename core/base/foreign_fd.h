// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors of other processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace weft {

/// A descriptor of this process for what is behind `descriptor` of process `pid`, as this process
/// numbers it. The kernel lets those do so who may trace that one.
/// What is behind it is not known: whoever uses it checks.
[[nodiscard]] Result<UniqueFd> copy_foreign_fd(std::uint64_t pid, int descriptor);

/// Shows to others which process is meant by a pid: where processes have namespaces of their own
/// the same number is another's elsewhere, and once a process has ended, anybody's. They find the
/// same bytes behind its descriptor.
struct ProcessWitness {
  UniqueFd descriptor;
  std::array<std::byte, 16> bytes{};

  [[nodiscard]] static Result<ProcessWitness> create();
};

/// Whether process `pid` is the one whose witness has these bytes behind that descriptor.
[[nodiscard]] Status check_witness(std::uint64_t pid, int descriptor,
                                   const std::array<std::byte, 16>& bytes);

}  // namespace weft
