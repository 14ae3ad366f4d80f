// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The lines of a step of the protocols LL and LL128: how one lane writes and reads them. How eight
// share a line of LL128 stands in shared_lines.h.
//
// Model: tests/models/step_lines.pml
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "core/device/flagged_line.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/model/operation_tag.h"
#include "core/model/step_lines.h"

namespace weft::device {

/// Memory in which steps of lines are waited for. Any lane calls it.
///  - load_words, store_words: as of flagged_memory.
///  - look_again(turn): whether to look once more for a line that has not come, after a breath,
///    before its counter is waited for; `turn` counts the looks from 0.
template <class T>
concept line_memory =
    requires(T& memory, std::byte* to, const std::byte* from, Line line, std::uint32_t turn) {
      { memory.load_words(from) } -> std::same_as<Line>;
      memory.store_words(to, line);
      { memory.look_again(turn) } -> std::same_as<bool>;
    };

/// A memory policy whose kernels run rings and trees by lines. A lane alone takes lines of so many
/// bytes of content at once: some, where loops over elements are called that pay from some on; 0:
/// one line.
template <class Memory>
concept runs_lines = line_memory<Memory> && requires { Memory::kLineBytesAtOnce; };

/// Whether kernels of a memory policy run a protocol: each that they can, unless it says otherwise.
template <class Memory>
[[nodiscard]] constexpr bool runs_protocol(Protocol protocol) {
  if constexpr (requires { Memory::runs(protocol); }) {
    return Memory::runs(protocol);
  } else {
    return !has_lines(protocol) || runs_lines<Memory>;
  }
}

template <class Memory>
inline constexpr std::uint32_t kLineBytesAtOnce = 0;
template <runs_lines Memory>
inline constexpr std::uint32_t kLineBytesAtOnce<Memory> = Memory::kLineBytesAtOnce;

/// What a lane does at once: bytes [begin, end) of a step's content, of which the first
/// kStepHeaderBytes are the header.
struct LinePart {
  std::uint32_t line;   ///< That holds the first byte.
  std::uint32_t begin;  ///< Of a line.
  std::uint32_t end;

  [[nodiscard]] WEFT_HD std::uint32_t bytes() const { return end - begin; }
  /// Bytes that are the header's.
  [[nodiscard]] WEFT_HD std::uint32_t header() const {
    return begin < kStepHeaderBytes ? kStepHeaderBytes - begin : 0;
  }
};

/// Of one step: what its header says.
struct StepHeader {
  OperationTag tag = 0;
  std::uint64_t bytes = 0;
};

template <Protocol kProtocol, class Memory, class Loops>
  requires line_memory<Memory>
class StepLines {
 public:
  static constexpr StepLine kLine = step_line(kProtocol);
  static constexpr bool kWide = kProtocol == Protocol::kLL128;
  /// Lines that a lane alone takes at once.
  static constexpr std::uint32_t kMostAtOnce =
      kLineBytesAtOnce<Memory> < kLine.content ? 1 : kLineBytesAtOnce<Memory> / kLine.content;

  /// The content of a part, its header's place included.
  struct alignas(64) Content {
    std::byte bytes[kMostAtOnce * kLine.content];
  };

  WEFT_HD StepLines(Memory& memory, Loops& loops) : memory_(memory), loops_(loops) {}

  /// Lines that hold a step of so many bytes of payload.
  [[nodiscard]] WEFT_HD static std::uint32_t lines_of(std::uint32_t bytes) {
    return (kStepHeaderBytes + bytes + kLine.content - 1) / kLine.content;
  }

  /// Calls `move(part)` for this lane's parts of a step of `bytes` of payload, until it answers
  /// false: one lane alone has lines that follow each other, several have one each in turn.
  template <class Group, class Move>
  WEFT_HD static bool each_part(const Group& group, std::uint32_t bytes, const Move& move) {
    const std::uint32_t lines = lines_of(bytes);
    const std::uint32_t content = kStepHeaderBytes + bytes;
    const std::uint32_t at_once = group.size() == 1 ? kMostAtOnce : 1;
    for (std::uint32_t line = group.rank() * at_once; line < lines;
         line += group.size() * at_once) {
      const std::uint32_t begin = line * kLine.content;
      const std::uint32_t end = begin + at_once * kLine.content;
      if (!move(LinePart{.line = line, .begin = begin, .end = end < content ? end : content})) {
        return false;
      }
    }
    return true;
  }

  /// Writes a part, whose content from its beginning lies at `content` but for the header's.
  WEFT_HD void put(std::byte* slot, std::uint64_t step, const LinePart& part,
                   const std::byte* content, const StepHeader& header) {
    if constexpr (!kWide) {
      std::uint32_t line = part.line;
      for (std::uint32_t at = part.begin; at < part.end; at += kLine.content, ++line) {
        std::uint64_t word = at == 0 ? header.tag : header.bytes;
        if (at >= kStepHeaderBytes) word = word_of(content + (at - part.begin), part.end - at);
        memory_.store_words(at_line(slot, line), flagged_line(word, step_flag(step)));
      }
    } else {
      if (part.header() != 0) {
        memory_.store_release(words_of(slot), header.tag);
        memory_.store_release(words_of(slot) + 1, header.bytes);
      }
      each_line(part, [&](std::uint32_t line, std::uint32_t place, std::uint32_t at,
                          std::uint32_t bytes) {
        if (bytes != 0) {
          loops_.copy(at_line(slot, line) + place, nullptr, content + (at - part.begin), bytes);
        }
        memory_.store_release(flag_of(slot, line), step + 1);
        return true;
      });
    }
  }

  /// Reads a part, but for the header, to `content`. `wait_for(come)` waits for a line; where it
  /// answers false this does as well.
  template <class WaitFor>
  WEFT_HD bool take(const std::byte* slot, std::uint64_t step, const LinePart& part,
                    std::byte* content, const WaitFor& wait_for) {
    if constexpr (!kWide) {
      const std::uint32_t flag = step_flag(step);
      const std::uint32_t header = part.header();
      std::uint32_t line = part.line + header / kLine.content;
      for (std::uint32_t at = part.begin + header; at < part.end; at += kLine.content, ++line) {
        const std::byte* const place = slot + std::uint64_t{line} * kLine.bytes;
        Line words = memory_.load_words(place);
        if (!has_flag(words, flag)) {
          const auto come = [&] {
            words = memory_.load_words(place);
            return has_flag(words, flag);
          };
          if (!wait_for(come)) return false;
        }
        *reinterpret_cast<std::uint64_t*>(content + (at - part.begin)) = payload_of(words);
      }
      return true;
    } else {
      return each_line(part, [&](std::uint32_t line, std::uint32_t place, std::uint32_t at,
                                 std::uint32_t bytes) {
        if (!await_line(slot, step, line, wait_for)) return false;
        if (bytes != 0) {
          loops_.copy(content + (at - part.begin), nullptr,
                      slot + std::uint64_t{line} * kLine.bytes + place, bytes);
        }
        return true;
      });
    }
  }

  template <class WaitFor>
  WEFT_HD bool read_header(const std::byte* slot, std::uint64_t step, StepHeader& header,
                           const WaitFor& wait_for) {
    if constexpr (kWide) {
      if (!await_line(slot, step, 0, wait_for)) return false;
      std::uint64_t* const words = words_of(const_cast<std::byte*>(slot));
      header = {.tag = memory_.load_acquire(words), .bytes = memory_.load_acquire(words + 1)};
      return true;
    } else {
      const std::uint32_t flag = step_flag(step);
      const auto come = [&] {
        const Line first = memory_.load_words(slot);
        const Line second = memory_.load_words(slot + kLine.bytes);
        header = {.tag = payload_of(first), .bytes = payload_of(second)};
        return has_flag(first, flag) && has_flag(second, flag);
      };
      return come() || wait_for(come);
    }
  }

  /// Of LL: lanes fill a slot from line `first` on; see fills_whole_slot().
  template <class Group>
  WEFT_HD void fill_rest(Group& group, std::byte* slot, std::uint64_t step, std::uint32_t first,
                         std::uint32_t slot_bytes) {
    const Line empty = flagged_line(0, step_flag(step));
    for (std::uint32_t line = first + group.rank(); line < slot_bytes / kLine.bytes;
         line += group.size()) {
      memory_.store_words(at_line(slot, line), empty);
    }
  }

 private:
  // Of LL128.
  template <class WaitFor>
  WEFT_HD bool await_line(const std::byte* slot, std::uint64_t step, std::uint32_t line,
                          const WaitFor& wait_for) {
    std::uint64_t* const flag = flag_of(const_cast<std::byte*>(slot), line);
    const auto come = [&] { return memory_.load_acquire(flag) == step + 1; };
    return come() || wait_for(come);
  }

  [[nodiscard]] WEFT_HD static std::byte* at_line(std::byte* slot, std::uint32_t line) {
    return slot + std::uint64_t{line} * kLine.bytes;
  }
  [[nodiscard]] WEFT_HD static std::uint64_t* words_of(std::byte* at) {
    return reinterpret_cast<std::uint64_t*>(at);
  }
  [[nodiscard]] WEFT_HD static std::uint64_t* flag_of(std::byte* slot, std::uint32_t line) {
    return words_of(at_line(slot, line) + kLine.content);
  }

  // The first 8 of `left` bytes, zeros beyond.
  [[nodiscard]] WEFT_HD static std::uint64_t word_of(const std::byte* from, std::uint32_t left) {
    const std::uint64_t word = *reinterpret_cast<const std::uint64_t*>(from);
    return left < sizeof(word) ? word & ((std::uint64_t{1} << (8 * left)) - 1) : word;
  }

  // Calls `body(line, place in the line, place in the content, bytes)` for what is payload of each
  // line of a part of LL128, until it answers false.
  template <class Body>
  WEFT_HD static bool each_line(const LinePart& part, const Body& body) {
    std::uint32_t at = part.begin;
    for (std::uint32_t line = part.line; at < part.end; ++line) {
      const std::uint32_t next = (line + 1) * kLine.content;
      const std::uint32_t end = part.end < next ? part.end : next;
      const std::uint32_t begin = at < kStepHeaderBytes ? kStepHeaderBytes : at;
      const std::uint32_t bytes = begin < end ? end - begin : 0;
      if (!body(line, begin - line * kLine.content, begin, bytes)) return false;
      at = end;
    }
    return true;
  }

  Memory& memory_;
  Loops& loops_;
};

}  // namespace weft::device
