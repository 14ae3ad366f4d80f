// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The inboxes of direct algorithms, which notice a half that is written while its owner may still
// need what lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/direct_peers.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

class Inboxes {
 public:
  struct Geometry {
    std::uint64_t half_bytes = 0;
    std::uint32_t period = kFlagPeriod;  ///< That flags of lines count to.
    /// Of two-shots and by multicast: headers at the beginning of each half. 0: all other calls, of
    /// which a rank fills a half once.
    std::uint32_t headers = 0;
    /// Whether who reads a line says that it took it: then none may be overwritten before.
    bool lines_are_taken = false;
  };
  /// Between `ranks`.
  Inboxes(Report& report, std::uint32_t ranks, const Geometry& geometry);

  [[nodiscard]] const DirectPeers& peers(std::uint32_t rank) const { return peers_[rank]; }

  [[nodiscard]] bool holds(const std::byte* at) const {
    return at >= first() && at < first() + memory_.size() * sizeof(Block);
  }
  /// Of memory that it holds: the rank whose inbox it is in.
  [[nodiscard]] std::uint32_t owner(const std::byte* at) const {
    return static_cast<std::uint32_t>(box(at) / ranks_);
  }
  /// Whether the actor may touch all of it now; reports where not.
  [[nodiscard]] bool may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes);

  /// The actor took a line whole, or a part of one.
  void taken(const std::byte* at, std::uint64_t bytes);
  /// The actor sent so much to another rank.
  void sent(const Actor& actor, std::uint64_t bytes) { bytes_[actor.rank] += bytes; }
  /// Bytes of payload that a rank sent, over all calls.
  [[nodiscard]] std::uint64_t bytes(std::uint32_t rank) const { return bytes_[rank]; }
  /// The actor posted, or saw, the header of an exchange.
  void posted(const Actor& actor, const std::uint64_t* header, std::uint64_t exchange);
  void seen(const Actor& actor, const std::uint64_t* header, std::uint64_t exchange);
  /// Exchanges of two-shots and by multicast that the actor's part has behind it with all ranks;
  /// none while it is in one.
  [[nodiscard]] std::optional<std::uint64_t> exchanges(const Actor& actor) const;
  /// What the rank's peers tell from now on.
  void set_multicast(std::uint32_t rank, const MulticastView* view) {
    peers_[rank].multicast = view;
  }
  /// All parts of a rank have ended one more call.
  void ended(std::uint32_t rank) { ++ended_[rank]; }
  /// Whether the place lies in an inbox of another rank, and so is on its way.
  [[nodiscard]] bool leaves(const Actor& actor, const std::byte* at) const {
    return owner(at) != actor.rank;
  }

 private:
  struct alignas(128) Block {
    std::byte bytes[128];
  };
  [[nodiscard]] const std::byte* first() const {
    return reinterpret_cast<const std::byte*>(memory_.data());
  }
  [[nodiscard]] std::uint64_t box(const std::byte* at) const {
    return static_cast<std::uint64_t>(at - first()) / box_bytes_;
  }
  [[nodiscard]] std::uint32_t writer(const std::byte* at) const {
    return static_cast<std::uint32_t>(box(at) % ranks_);
  }
  [[nodiscard]] bool within_half(const std::byte* at, std::uint64_t bytes) const;
  [[nodiscard]] bool is_free(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool was_taken(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] std::size_t progress_at(std::uint32_t of, std::uint32_t towards,
                                        std::uint32_t part) const {
    return (std::size_t{of} * ranks_ + towards) * kMostDirectParts + part;
  }
  /// Who filled 8 bytes last.
  struct Filled {
    std::uint32_t call = UINT32_MAX;
    std::uint32_t part = 0;
  };

  Report& report_;
  const std::uint32_t ranks_;
  const Geometry geometry_;
  const std::uint64_t half_bytes_;
  const std::uint64_t box_bytes_;
  std::vector<Block> memory_;
  std::vector<DirectPeers> peers_;
  std::vector<std::vector<std::uint64_t>> positions_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint32_t> ended_;
  // Of two-shots, by progress_at: exchanges that a part posted towards a rank, and saw from it.
  std::vector<std::uint64_t> posted_;
  std::vector<std::uint64_t> seen_;
  std::vector<Filled> filled_;
  std::vector<bool> untaken_;  // by words of 8 bytes, where lines are taken
};

}  // namespace weft::checker
