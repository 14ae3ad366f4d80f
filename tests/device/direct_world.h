// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of one process that write into each other's inboxes: what transports give to the direct
// kernels, made by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/direct_peers.h"
#include "core/model/operation_tag.h"
#include "core/model/work_item.h"

namespace weft::device::testing {

class DirectWorld {
 public:
  /// `period`: small ones let flags begin again soon.
  DirectWorld(std::uint32_t ranks, std::uint64_t most_bytes, std::uint32_t period = kFlagPeriod)
      : peers_(ranks), errors_(std::size_t{ranks} * ranks), positions_(ranks) {
    const std::uint64_t half = direct_half_bytes(most_bytes);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      inboxes_.emplace_back(half * kDirectHalves * ranks / sizeof(Block));
      positions_[rank].resize(kMostDirectParts);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      DirectPeers& own = peers_[rank];
      own.ranks = ranks;
      own.rank = rank;
      own.half_bytes = static_cast<std::uint32_t>(half);
      own.period = period;
      own.positions = positions_[rank].data();
      for (std::uint32_t peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        own.inbox[peer] = inboxes_[rank].data()->bytes + half * kDirectHalves * peer;
        own.outbox[peer] = inboxes_[peer].data()->bytes + half * kDirectHalves * rank;
        own.error[peer] = &errors_[rank * ranks + peer];
        own.peer_error[peer] = &errors_[peer * ranks + rank];
      }
    }
  }

  [[nodiscard]] const DirectPeers& peers(std::uint32_t rank) const { return peers_[rank]; }
  /// Of all parts; also for the memory of another process: what `rank` shows to `peer`.
  [[nodiscard]] std::uint32_t& error(std::uint32_t rank, std::uint32_t peer) {
    return errors_[rank * peers_.size() + peer];
  }
  [[nodiscard]] const std::vector<std::uint32_t>& positions(std::uint32_t rank) const {
    return positions_[rank];
  }
  /// As if so many calls had been.
  void go_to(std::uint32_t position) {
    for (auto& words : positions_)
      words.assign(words.size(), position);
  }

  [[nodiscard]] WorkItem item(std::uint32_t rank, const Task& task, std::uint64_t sequence,
                              const void* send, void* recv) const {
    WorkItem item;
    item.operation = task.operation;
    item.algorithm = Algorithm::kDirect;
    item.protocol = Protocol::kLL;
    item.type = task.type;
    item.reduction = task.reduction;
    item.send = static_cast<const std::byte*>(send);
    item.recv = static_cast<std::byte*>(recv);
    item.count = task.count;
    item.ranks = static_cast<std::uint32_t>(peers_.size());
    item.tag = make_operation_tag(task, sequence);
    item.direct = &peers_[rank];
    return item;
  }

 private:
  struct alignas(128) Block {
    std::byte bytes[128];
  };
  std::vector<DirectPeers> peers_;
  std::vector<std::uint32_t> errors_;
  std::vector<std::vector<std::uint32_t>> positions_;
  std::vector<std::vector<Block>> inboxes_;
};

}  // namespace weft::device::testing
