// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors of other processes.
#pragma once

#include <cstdint>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace weft {

/// A descriptor of this process for what is behind `descriptor` of process `pid`, as this process
/// numbers it. The kernel lets those do so who may trace that one.
/// What is behind it is not known: whoever uses it checks.
[[nodiscard]] Result<UniqueFd> copy_foreign_fd(std::uint64_t pid, int descriptor);

}  // namespace weft
