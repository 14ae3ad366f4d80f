// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory of calls by multicast, which notices who touches it at a wrong time. The exchanges of
// a part come in twos: after an even number of them it touches its own rank's memory alone, after
// an odd one nothing but the range that it owns, of all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device/policies.h"
#include "core/model/multicast.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/inboxes.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

class StagedMemory {
 public:
  /// `bytes` of each of `ranks`, which meet by `inboxes`.
  StagedMemory(Report& report, const Inboxes& inboxes, std::uint32_t ranks, std::uint64_t bytes);

  [[nodiscard]] const MulticastView& view(std::uint32_t rank) const { return views_[rank]; }
  [[nodiscard]] bool holds(const std::byte* at) const {
    return at >= first() && at < first() + memory_.size() * sizeof(device::Line);
  }
  /// Whether the actor may touch all of it now by its ordinary address; reports where not.
  [[nodiscard]] bool may_touch(const Actor& actor, const std::byte* at, std::uint64_t bytes,
                               bool writes);
  /// Whether it may touch 8 bytes by the address of all ranks.
  [[nodiscard]] bool may_touch_all(const Actor& actor, std::uint64_t at);

  enum class Staged : std::uint8_t { kByNone, kBySome, kByAll };
  /// How many ranks have put something there for the piece that the actor is in, and whether one
  /// has.
  [[nodiscard]] Staged staged(const Actor& actor, std::uint64_t at) const;
  [[nodiscard]] bool staged_by(const Actor& actor, std::uint32_t rank, std::uint64_t at) const;
  [[nodiscard]] Value& value(std::uint32_t rank, std::uint64_t at) {
    return reinterpret_cast<Value*>(each_[rank])[at / sizeof(Value)];
  }

 private:
  struct Touched {
    std::uint64_t exchanges = UINT64_MAX;  ///< That the part had behind it,
    std::uint32_t rank = 0;
  };
  struct Owned {
    std::uint32_t call = UINT32_MAX;
    std::uint32_t part = 0;
  };
  [[nodiscard]] const std::byte* first() const {
    return reinterpret_cast<const std::byte*>(memory_.data());
  }
  bool touch_range(const Actor& actor, std::uint64_t word, std::uint64_t exchanges);
  bool wrong(const Actor& actor, Rule rule, const char* what);

  Report& report_;
  const Inboxes& inboxes_;
  const std::uint32_t ranks_;
  const std::uint64_t words_;  // of a rank
  std::vector<device::Line> memory_;
  std::vector<std::byte*> each_;
  std::vector<MulticastView> views_;
  std::vector<std::uint64_t> staged_;  // exchanges behind whoever put it there, by rank and word
  std::vector<Owned> owned_;           // by rank and word
  std::vector<Touched> touched_;       // after an odd number of exchanges, by word
};

}  // namespace weft::checker
