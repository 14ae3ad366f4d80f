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
// Models: tests/models/step_lines.pml; before a net tests/models/line_steps.pml
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

  /// What this lane's first line of a send will hold: to be asked for while something else is, too.
  [[nodiscard]] WEFT_HD std::uint64_t first_word(const PairTransfer& transfer) const {
    return group_.rank() < lines_of(transfer) ? word_of(transfer, group_.rank()) : 0;
  }

  /// Fills the slot, which is free. `word`: the first one.
  WEFT_HD void put(const PairTransfer& transfer, std::uint64_t at, std::uint64_t word) {
    std::byte* const slot = slot_of(transfer.view, at);
    const std::uint32_t flag = step_flag(at);
    const std::uint32_t lines = lines_of(transfer);
    for (std::uint32_t line = group_.rank(); line < lines; line += group_.size()) {
      if (line != group_.rank()) word = word_of(transfer, line);
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
    return load_header(view, at).has_come;
  }

  /// Waits for the step, and empties it. Each lane's answer is its own: where another's is not
  /// kDone, the leader's may be the header's, by compare_header().
  ///
  /// Each lane looks at the line alone that it waits for: where slots are far from who polls them,
  /// looks hold each other up.
  [[nodiscard]] WEFT_HD KernelOutcome take(const PairTransfer& transfer, std::uint64_t at) {
    const std::byte* const slot = slot_of(transfer.view, at);
    const std::uint32_t lines = lines_of(transfer);
    for (std::uint32_t line = group_.rank(); line < lines; line += group_.size()) {
      Line words;
      KernelOutcome end = wait_for(transfer, at, [&] {
        words = memory_.load_words(slot + line * sizeof(Line));
        return has_flag(words, step_flag(at));
      });
      if (line < kHeaderLines && end.end == KernelEnd::kDone) {
        const std::uint64_t said = payload_of(words);
        end = line == 0 ? compare(transfer, said, transfer.bytes)
                        : compare(transfer, transfer.tag, said);
      }
      if (end.end != KernelEnd::kDone) return end;
      if (line < kHeaderLines) continue;
      const std::uint64_t done = (line - kHeaderLines) * std::uint64_t{kLinePayload};
      Words::store_payload(transfer.to + done, payload_of(words), transfer.bytes - done);
    }
    return {};
  }

  /// Any lane: what a header that has come says against the transfer.
  [[nodiscard]] WEFT_HD KernelOutcome compare_header(const PairTransfer& transfer,
                                                     std::uint64_t at) {
    const Header header = load_header(transfer.view, at);
    return header.has_come ? compare(transfer, header.tag, header.bytes) : KernelOutcome{};
  }

 private:
  using Words = TypedReduction<std::uint8_t, Add>;
  static constexpr std::uint32_t kHeaderLines = kStepHeaderBytes / kLinePayload;
  static constexpr std::uint32_t kTurnsBetweenWords = 64;

  [[nodiscard]] WEFT_HD static std::uint32_t lines_of(const PairTransfer& transfer) {
    return kHeaderLines + payload_lines(transfer.bytes);
  }
  /// Of a send: what a line holds.
  [[nodiscard]] WEFT_HD static std::uint64_t word_of(const PairTransfer& transfer,
                                                     std::uint32_t line) {
    if (line < kHeaderLines) return line == 0 ? transfer.tag : transfer.bytes;
    const std::uint64_t done = (line - kHeaderLines) * std::uint64_t{kLinePayload};
    return Words::load_payload(transfer.from + done, transfer.bytes - done);
  }
  [[nodiscard]] WEFT_HD static std::uint32_t payload_lines(std::uint64_t bytes) {
    return static_cast<std::uint32_t>((bytes + kLinePayload - 1) / kLinePayload);
  }
  [[nodiscard]] WEFT_HD static std::byte* slot_of(const ConnectionView& view, std::uint64_t at) {
    return view.buffer + std::uint64_t{slot_index(at, view.steps)} * view.step_bytes;
  }

  struct Header {
    bool has_come = false;
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] WEFT_HD Header load_header(const ConnectionView& view, std::uint64_t at) {
    const std::byte* const slot = slot_of(view, at);
    const Line tag = memory_.load_words(slot);
    const Line bytes = memory_.load_words(slot + sizeof(Line));
    return {.has_come = has_flag(tag, step_flag(at)) && has_flag(bytes, step_flag(at)),
            .tag = payload_of(tag),
            .bytes = payload_of(bytes)};
  }

  WEFT_HD static KernelOutcome compare(const PairTransfer& transfer, std::uint64_t tag,
                                       std::uint64_t bytes) {
    return check_slot({.size = static_cast<std::uint32_t>(bytes), .offset = 0, .tag = tag},
                      transfer.view, transfer.tag, static_cast<std::uint32_t>(transfer.bytes));
  }

  /// Lanes leave, too, where the header says that what they wait for will not come.
  template <class Come>
  WEFT_HD KernelOutcome wait_for(const PairTransfer& transfer, std::uint64_t at, const Come& come) {
    const ConnectionView& view = transfer.view;
    for (std::uint32_t turn = 0; !come(); ++turn) {
      KernelOutcome end = memory_.pause(turn);
      if (end.end != KernelEnd::kDone) return end;
      if (turn % kTurnsBetweenWords != kTurnsBetweenWords - 1) continue;
      end = compare_header(transfer, at);
      if (end.end != KernelEnd::kDone) return end;
      const std::uint32_t told = view.error == nullptr ? 0 : memory_.load_word(view.error);
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
