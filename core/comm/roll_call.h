// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which ranks keep one waiting: a text that goes once round all ranks, each of which adds where it
// is, and comes back to the one that waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/call_history.h"

namespace weft {

/// Where a rank is, seen from a call that another one waits in.
enum class Whereabouts : std::uint8_t {
  kNotThere,   ///< It has not made that call.
  kWaits,      ///< It waits there, too.
  kElsewhere,  ///< It has made it, and is in another call.
  kQuiet,      ///< It has made it, and nothing tells whether its device is there or past it.
  kThrough,    ///< Its part is over.
  /// As kQuiet, and other ranks have that device, too: streams may hold each other up there.
  kQuietOnSharedDevice,
};
inline constexpr std::uint8_t kWhereaboutsCount = 6;

/// What one rank adds.
struct RankAnswer {
  std::uint32_t rank = 0;
  Whereabouts where = Whereabouts::kWaits;
  /// kNotThere: the call that it made last, 0 before the first. kElsewhere: the call that it is in,
  /// 0 for a send, a receive, or a graph's call that is long gone.
  std::uint64_t number = 0;

  bool operator==(const RankAnswer&) const = default;
};

struct RollCall {
  static constexpr std::size_t kMostNamed = 32;

  CallNote call;              ///< The one that its asker waits in, which has a number.
  bool has_turned = false;    ///< A rank has left: it is on its way back, and nobody adds to it.
  std::uint32_t waiting = 0;  ///< Ranks that wait in that call, too: the others have names below.
  std::uint32_t more = 0;     ///< Ranks for whose names there was no place.
  std::vector<RankAnswer> others{};

  void add(const RankAnswer& answer);
  bool operator==(const RollCall&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode_roll_call(const RollCall& roll);
/// Nothing for bytes that are none, which all other texts of ranks are, or that name a rank beyond
/// `ranks`.
[[nodiscard]] std::optional<RollCall> decode_roll_call(std::span<const std::byte> bytes,
                                                       std::uint32_t ranks);

/// "rank 1 has made no call yet; 2 others wait in it"
[[nodiscard]] std::string describe_roll_call(const RollCall& roll);

/// What came back last, for the one call that a rank waits in. Threads: all members from any.
class LatestRoll {
 public:
  using Clock = std::chrono::steady_clock;

  /// A text is about to be sent. What came back in an earlier wait is old: that in another call,
  /// or, as where a graph is replayed, in the same one; `is_first` of a wait.
  void ask(std::uint64_t call, bool is_first, Clock::time_point now);
  /// The text is back.
  void answer(RollCall roll, Clock::time_point now);
  /// For a report about that call: "asked 4s ago: rank 1 has made no call yet"; empty where nothing
  /// is known.
  [[nodiscard]] std::string describe(std::uint64_t call, Clock::time_point now) const;

 private:
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::uint64_t call_ = 0;   // its number; 0: none
  Clock::time_point since_;  // of answer_, or when the first was asked for
  std::optional<RollCall> answer_;
};

}  // namespace weft
