// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sizes and durations as people write them: `128KiB`, `60s`. Used by the configuration and by
// command-line options alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace weft {

/// Bytes from a whole number and B, KiB, MiB or GiB; a number alone counts bytes.
/// WEFT_ERROR_INVALID_ARGUMENT says what is wrong with the text.
[[nodiscard]] Result<std::int64_t> parse_bytes(std::string_view text);

/// The shortest exact spelling that parse_bytes reads: `128KiB`, `1000B`. Never negative.
[[nodiscard]] std::string print_bytes(std::int64_t bytes);

/// A duration from a whole number and ns, us, ms, s, min or h; the unit is needed.
/// WEFT_ERROR_INVALID_ARGUMENT says what is wrong with the text.
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// A spelling that is exact and that parse_duration reads: `1ms`, `60s`, `2min`. Never negative.
[[nodiscard]] std::string print_duration(std::chrono::nanoseconds duration);

/// A whole decimal number, a minus sign allowed, nothing before or after it.
[[nodiscard]] Result<std::int64_t> parse_integer(std::string_view text);

}  // namespace weft
