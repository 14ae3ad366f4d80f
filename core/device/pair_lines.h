// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks that are one step of lines of LL: who receives one looks at its lines
// and at no counter, and no store has to wait for another. Head gives slots back as for Simple;
// nobody sleeps on tail, so it is not posted.
//
// A step begins with the call's tag and the bytes of its payload, in lines that every lane reads
// with its own first one: so each leaves by itself where another call's step came. Nothing that a
// peer wrote bounds a loop or forms an address.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/slot_check.h"
#include "core/device/step_lines.h"
#include "core/model/pair_transfer.h"
#include "core/model/step_lines.h"

namespace weft::device {

/// All lanes make the same one and call the same; a transfer is one step, `at` is its number.
template <class Group, class Memory>
  requires lane_group<Group> && device_memory<Memory, Group> && line_memory<Memory>
class PairLines {
 public:
  WEFT_HD PairLines(Group& group, Memory& memory) : group_(group), memory_(memory) {}

  /// Whether slots of this view have room for so many bytes.
  [[nodiscard]] WEFT_HD static bool fits(const ConnectionView& view, std::uint64_t bytes) {
    return bytes <= step_payload(Protocol::kLL, view.step_bytes);
  }

  /// Fills the slot, which is free.
  WEFT_HD void put(const PairTransfer& transfer, std::uint64_t at) {
    std::byte* const slot = slot_of(transfer.view, at);
    const std::uint32_t flag = step_flag(at);
    const std::uint32_t lines = kHeaderLines + payload_lines(transfer.bytes);
    for (std::uint32_t line = group_.rank(); line < lines; line += group_.size()) {
      std::uint64_t word = line == 0 ? transfer.tag : transfer.bytes;
      if (line >= kHeaderLines) {
        const std::uint64_t done = (line - kHeaderLines) * std::uint64_t{kLinePayload};
        word = Words::load_payload(transfer.from + done, transfer.bytes - done);
      }
      memory_.store_words(slot + line * sizeof(Line), flagged_line(word, flag));
    }
    if (!fills_whole_slot(at, transfer.view.steps)) return;
    for (std::uint32_t line = lines + group_.rank(); line < transfer.view.step_bytes / sizeof(Line);
         line += group_.size()) {
      memory_.store_words(slot + line * sizeof(Line), flagged_line(0, flag));
    }
  }

  /// Any lane: whether the step's header has come.
  [[nodiscard]] WEFT_HD bool has_come(const ConnectionView& view, std::uint64_t at) {
    const std::byte* const slot = slot_of(view, at);
    const std::uint32_t flag = step_flag(at);
    return has_flag(memory_.load_words(slot), flag) &&
           has_flag(memory_.load_words(slot + sizeof(Line)), flag);
  }

  /// Waits for the step, and empties it. Each lane's answer is its own.
  [[nodiscard]] WEFT_HD KernelOutcome take(const PairTransfer& transfer, std::uint64_t at) {
    const std::byte* const slot = slot_of(transfer.view, at);
    const std::uint32_t flag = step_flag(at);
    const std::uint32_t lines = kHeaderLines + payload_lines(transfer.bytes);
    std::uint32_t line = kHeaderLines + group_.rank();
    Line tag;
    Line bytes;
    Line first{};
    const auto begun = [&] {
      tag = memory_.load_words(slot);
      bytes = memory_.load_words(slot + sizeof(Line));
      if (line < lines) first = memory_.load_words(slot + line * sizeof(Line));
      return has_flag(tag, flag) && has_flag(bytes, flag);
    };
    KernelOutcome end = wait_for(transfer.view, begun);
    if (end.end != KernelEnd::kDone) return end;
    const SlotMeta meta{
        .size = static_cast<std::uint32_t>(payload_of(bytes)), .offset = 0, .tag = payload_of(tag)};
    end = check_slot(meta, transfer.view, transfer.tag, static_cast<std::uint32_t>(transfer.bytes));
    for (bool is_first = true; line < lines && end.end == KernelEnd::kDone;
         line += group_.size(), is_first = false) {
      const std::byte* const place = slot + line * sizeof(Line);
      Line words = is_first ? first : memory_.load_words(place);
      if (!has_flag(words, flag)) {
        end = wait_for(transfer.view, [&] {
          words = memory_.load_words(place);
          return has_flag(words, flag);
        });
        if (end.end != KernelEnd::kDone) break;
      }
      const std::uint64_t done = (line - kHeaderLines) * std::uint64_t{kLinePayload};
      Words::store_payload(transfer.to + done, payload_of(words), transfer.bytes - done);
    }
    return end;
  }

 private:
  using Words = TypedReduction<std::uint8_t, Add>;
  static constexpr std::uint32_t kHeaderLines = kStepHeaderBytes / kLinePayload;
  static constexpr std::uint32_t kTurnsBetweenWords = 64;

  [[nodiscard]] WEFT_HD static std::uint32_t payload_lines(std::uint64_t bytes) {
    return static_cast<std::uint32_t>((bytes + kLinePayload - 1) / kLinePayload);
  }
  [[nodiscard]] WEFT_HD static std::byte* slot_of(const ConnectionView& view, std::uint64_t at) {
    return view.buffer + at % view.steps * view.step_bytes;
  }

  template <class Come>
  WEFT_HD KernelOutcome wait_for(const ConnectionView& view, const Come& come) {
    for (std::uint32_t turn = 0; !come(); ++turn) {
      const KernelOutcome end = memory_.pause(turn);
      if (end.end != KernelEnd::kDone) return end;
      if (turn % kTurnsBetweenWords != kTurnsBetweenWords - 1 || view.error == nullptr) continue;
      const std::uint32_t told = memory_.load_word(view.error);
      // What it wrote before it gave up may just have come.
      if (told != 0 && !come()) {
        return {.end = KernelEnd::kPeerError, .peer = view.peer, .expected = 0, .found = told};
      }
      if (told != 0) return {};
    }
    return {};
  }

  Group& group_;
  Memory& memory_;
};

}  // namespace weft::device
