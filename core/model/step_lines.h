// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the protocols LL and LL128 fill a slot: with lines that hold their own flags. One definition
// for the kernels that move the data and the planner that counts steps.
#pragma once

#include <cstdint>

#include "core/model/operation.h"
#include "core/model/ring_geometry.h"

namespace weft {

/// Whether slots are filled with lines; of those of Simple all bytes are payload.
[[nodiscard]] constexpr bool has_lines(Protocol protocol) {
  return protocol != Protocol::kSimple;
}

/// A line of LL is two words of 8 bytes, each half payload, half flag; one of LL128 ends with a
/// word that is its flag.
struct StepLine {
  std::uint32_t bytes = 0;
  std::uint32_t content = 0;  ///< Bytes that are no flag.
};

/// `protocol` has lines.
[[nodiscard]] constexpr StepLine step_line(Protocol protocol) {
  return protocol == Protocol::kLL ? StepLine{.bytes = 16, .content = 8}
                                   : StepLine{.bytes = 128, .content = 120};
}

/// Bytes that a path must keep together for a protocol: of LL a word with its flag, of LL128 a
/// line, where several lanes store it and nothing but the path keeps it whole.
[[nodiscard]] constexpr std::uint32_t least_order_bytes(Protocol protocol) {
  if (!has_lines(protocol)) return 0;
  return protocol == Protocol::kLL ? 8 : step_line(protocol).bytes;
}

/// Before the payload of a step its lines hold two words: the call's tag, the bytes of payload.
inline constexpr std::uint32_t kStepHeaderBytes = 16;

/// Bytes of payload that a slot of `slot_bytes` bytes takes: whole grains of chunks, but for
/// Simple, which takes all; 0 where not even one has room.
[[nodiscard]] constexpr std::uint32_t step_payload(Protocol protocol, std::uint32_t slot_bytes) {
  if (!has_lines(protocol)) return slot_bytes;
  const StepLine line = step_line(protocol);
  const std::uint32_t content = slot_bytes / line.bytes * line.content;
  constexpr auto kGrain = static_cast<std::uint32_t>(kChunkGrainBytes);
  return content < kStepHeaderBytes ? 0 : (content - kStepHeaderBytes) / kGrain * kGrain;
}

/// Flags of LL are the numbers of steps, counted from 1, in 32 bits. Before they begin again no
/// line may be left that was not written for long: at two places of each round, as many steps one
/// after the other as there are slots fill their slots to the end. Those of LL128 have 64 bits.
///
/// Model: tests/models/step_lines.pml
[[nodiscard]] constexpr std::uint32_t step_flag(std::uint64_t step) {
  return static_cast<std::uint32_t>(step + 1);
}
[[nodiscard]] constexpr bool fills_whole_slot(std::uint64_t step, std::uint32_t steps) {
  constexpr std::uint32_t kHalfRound = UINT32_MAX / 2;
  return (step_flag(step) & kHalfRound) > kHalfRound - steps;
}

}  // namespace weft
