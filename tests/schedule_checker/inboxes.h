// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The inboxes of direct algorithms, which notice a half that is written while its owner may still
// need what lies in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/direct_peers.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

class Inboxes {
 public:
  /// For calls of up to `payload` bytes between `ranks`, which count to `period`.
  Inboxes(Report& report, std::uint32_t ranks, std::uint64_t payload, std::uint32_t period);

  [[nodiscard]] const DirectPeers& peers(std::uint32_t rank) const { return peers_[rank]; }

  [[nodiscard]] bool holds(const std::byte* at) const {
    return at >= first() && at < first() + memory_.size() * sizeof(Block);
  }
  /// Of memory that it holds: whether the actor may touch all of it now; reports where not.
  [[nodiscard]] bool may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes);

  /// The actor sent so much to another rank.
  void sent(const Actor& actor, std::uint64_t bytes) { bytes_[actor.rank] += bytes; }
  /// Bytes of payload that a rank sent, over all calls.
  [[nodiscard]] std::uint64_t bytes(std::uint32_t rank) const { return bytes_[rank]; }
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
  [[nodiscard]] std::uint32_t owner(const std::byte* at) const {
    return static_cast<std::uint32_t>(box(at) / ranks_);
  }
  [[nodiscard]] std::uint32_t writer(const std::byte* at) const {
    return static_cast<std::uint32_t>(box(at) % ranks_);
  }
  [[nodiscard]] bool within_half(const std::byte* at, std::uint64_t bytes) const;

  Report& report_;
  const std::uint32_t ranks_;
  const std::uint64_t half_bytes_;
  const std::uint64_t box_bytes_;
  std::vector<Block> memory_;
  std::vector<DirectPeers> peers_;
  std::vector<std::vector<std::uint64_t>> positions_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint32_t> ended_;
};

}  // namespace weft::checker
