// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines of LL in host memory, of the processor's side: a GPU's kernel stores them, or looks for
// them there. A line tells by itself that it has come, so neither side waits for the other's
// stores, nor reads a counter over PCIe.
//
// Order: words of 8 bytes are stored and loaded whole, and hold payload and flag (litmus
// "ll-from-gpu", "ll-to-gpu" in tests/gpu/litmus.cu).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

/// As core/device/flagged_line.h has it: two words, each with half of the payload below the flag.
inline constexpr std::uint32_t kLineBytes = 16;
inline constexpr std::uint32_t kLinePayloadBytes = 8;
inline constexpr std::size_t kWordsOfLine = 2;

/// Lines that hold so many bytes of payload.
[[nodiscard]] constexpr std::uint64_t payload_lines(std::uint64_t bytes) {
  return (bytes + kLinePayloadBytes - 1) / kLinePayloadBytes;
}

/// Where the payload of a line lies in that of all.
[[nodiscard]] constexpr std::size_t payload_at(std::uint32_t line) {
  return std::size_t{line} * kLinePayloadBytes;
}

/// Whether the line at `line` has the flag; then its payload.
bool load_line(std::uint64_t* line, std::uint32_t flag, std::uint64_t& payload);
void store_line(std::uint64_t* line, std::uint64_t payload, std::uint32_t flag);

/// Takes the payload of `lines` lines to `to` up to the first that has not come; answers how many.
/// What follows the last one may be asked of memory as well, and is not looked at.
std::uint32_t collect_lines(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
                            std::byte* to);
/// Stores `lines` lines with the payload at `from`.
void deliver_lines(std::uint64_t* line, std::uint32_t lines, std::uint32_t flag,
                   const std::byte* from);

}  // namespace weft
