// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a peer as what ranks tell each other about calls: a question, a complaint, a roll call.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/comm/call_history.h"
#include "core/comm/roll_call.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kRanks = 8;
  const weft::CallNote own{.sequence = 3, .tag = 0x300000000, .count = 8};
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto note = weft::decode_call_note(bytes)) {
    if (weft::decode_call_note(weft::encode_call_note(*note)) != note) std::abort();
    if (weft::describe_call(*note).empty()) std::abort();
    (void)weft::find_mismatch(own, 0, *note, 1);
  }
  if (const auto complaint = weft::decode_complaint(bytes)) {
    const auto back = weft::decode_complaint(weft::encode_complaint(*complaint));
    if (!back || back->peer != complaint->peer || back->waiting != complaint->waiting) std::abort();
    for (const weft::CallNote& call : complaint->calls)
      (void)weft::find_mismatch(own, 0, call, 1);
  }
  if (const auto roll = weft::decode_roll_call(bytes, kRanks)) {
    if (weft::decode_roll_call(weft::encode_roll_call(*roll), kRanks) != roll) std::abort();
    if (weft::describe_roll_call(*roll).empty()) std::abort();
  }
  return 0;
}
