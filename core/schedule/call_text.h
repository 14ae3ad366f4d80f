// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls in words, for `weft explain` and refusals.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/operation.h"

namespace weft {

/// 65536 is "64 KiB", 1536 is "1.5 KiB", 1500 is "1500 B": exact or in bytes.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// " as ring with ll": what the options name, to go behind an operation; empty where that is
/// nothing.
[[nodiscard]] std::string way_text(const WayOptions& options);

/// "all_reduce of 8 MiB: 2097152 x float32, sum".
[[nodiscard]] std::string task_text(const Task& task);

}  // namespace weft
