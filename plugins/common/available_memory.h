// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How much memory this host has left. Asking for more would not fail: Linux grants it and ends some
// process later on.
#pragma once

#include <cstdint>

namespace weft::plugins {

/// Bytes that can still be used, by the kernel's estimate, swap included; all ones if unknown. The
/// limit of a control group is not counted: reaching it cannot be seen in advance.
std::uint64_t available_memory();

}  // namespace weft::plugins
