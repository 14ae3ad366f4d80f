// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks of one process that write into each other's inboxes: what transports give to the direct
// kernels, made by hand.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "core/model/operation_tag.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device::testing {

class DirectWorld {
 public:
  /// `period`: small ones let flags begin again soon. `plain_parts`: plain halves lie beside those
  /// for lines, as on GPUs, with ranges of up to `most_bytes` and so many headers; 0: they are the
  /// same, as on CPUs.
  DirectWorld(std::uint32_t ranks, std::uint64_t most_bytes, std::uint32_t period = kFlagPeriod,
              std::uint32_t plain_parts = 0)
      : peers_(ranks),
        errors_(std::size_t{ranks} * ranks),
        positions_(ranks),
        wide_positions_(ranks),
        plain_positions_(ranks) {
    const std::uint64_t half = direct_half_bytes(most_bytes);
    const std::uint64_t plain = plain_parts == 0 ? 0 : plain_half_bytes(most_bytes, plain_parts);
    const std::uint64_t wide = wide_half_bytes(most_bytes);
    const std::uint64_t box = (half + wide + plain) * kDirectHalves;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      inboxes_.emplace_back(box * ranks / sizeof(Block));
      positions_[rank].resize(kMostDirectParts);
      wide_positions_[rank].resize(kMostDirectParts);
      plain_positions_[rank].resize(plain_parts);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      DirectPeers& own = peers_[rank];
      own.ranks = ranks;
      own.rank = rank;
      own.half_bytes = static_cast<std::uint32_t>(half);
      own.period = period;
      own.positions = positions_[rank].data();
      own.wide_positions = wide_positions_[rank].data();
      own.wide_begin = static_cast<std::uint32_t>(half * kDirectHalves);
      own.wide_half_bytes = static_cast<std::uint32_t>(wide);
      own.plain_positions = plain_positions_[rank].data();
      if (plain_parts == 0) own.plain_positions = reinterpret_cast<std::uint64_t*>(own.positions);
      own.plain_begin =
          plain_parts == 0 ? 0 : static_cast<std::uint32_t>((half + wide) * kDirectHalves);
      own.plain_half_bytes = static_cast<std::uint32_t>(plain_parts == 0 ? half : plain);
      own.plain_headers = plain_parts == 0 ? 1 : plain_parts;
      for (std::uint32_t peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        own.inbox[peer] = inboxes_[rank].data()->bytes + box * peer;
        own.outbox[peer] = inboxes_[peer].data()->bytes + box * rank;
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
  /// Calls by wide lines.
  [[nodiscard]] const std::vector<std::uint64_t>& wide_positions(std::uint32_t rank) const {
    return wide_positions_[rank];
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
    item.chunk = task.count;
    item.ranks = static_cast<std::uint32_t>(peers_.size());
    item.tag = make_operation_tag(task, sequence);
    item.direct = &peers_[rank];
    return item;
  }
  /// A two-shot with ranges of up to `range_bytes`, or as large as they may be.
  [[nodiscard]] WorkItem two_shot_item(std::uint32_t rank, const Task& task, std::uint64_t sequence,
                                       const void* send, void* recv,
                                       std::uint64_t range_bytes = UINT64_MAX) const {
    const DirectPeers& own = peers_[rank];
    const std::uint64_t most = plain_range_bytes(own.plain_half_bytes, own.plain_headers);
    WorkItem item = this->item(rank, task, sequence, send, recv);
    item.algorithm = Algorithm::kTwoShot;
    item.protocol = Protocol::kSimple;
    item.chunk = std::min(most, range_bytes) / element_size(task.type);
    return item;
  }
  /// A call by wide lines of which each rank has a range, of up to `range_bytes` at a time or as
  /// much as there may be.
  [[nodiscard]] WorkItem wide_ranges_item(std::uint32_t rank, const Task& task,
                                          std::uint64_t sequence, const void* send, void* recv,
                                          std::uint64_t range_bytes = UINT64_MAX) const {
    constexpr std::uint64_t kPairBytes = 2 * kWideLineBytes;
    const std::uint64_t most = (peers_[rank].wide_half_bytes / kPairBytes - 1) * kWidePairPayload /
                               kChunkGrainBytes * kChunkGrainBytes;
    WorkItem item = this->item(rank, task, sequence, send, recv);
    if (!has_blocks(task.operation)) item.algorithm = Algorithm::kTwoShot;
    item.protocol = Protocol::kLL128;
    item.chunk = std::min(most, range_bytes) / element_size(task.type);
    return item;
  }
  /// Memory of each rank, of so many bytes, that stands behind one address. Once.
  void add_multicast(std::uint64_t bytes) {
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
      staged_.emplace_back((bytes + sizeof(Block) - 1) / sizeof(Block));
      each_.push_back(staged_.back().data()->bytes);
    }
    for (std::byte* own : each_) {
      views_.push_back({.own = own,
                        .all = nullptr,
                        .each = each_.data(),
                        .ranks = static_cast<std::uint32_t>(peers_.size()),
                        .bytes = bytes});
    }
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank)
      peers_[rank].multicast = &views_[rank];
  }
  /// A call by it with ranges of up to `range_bytes`, or as large as they may be.
  [[nodiscard]] WorkItem multicast_item(std::uint32_t rank, const Task& task,
                                        std::uint64_t sequence, const void* send, void* recv,
                                        std::uint64_t range_bytes = UINT64_MAX) const {
    const DirectPeers& own = peers_[rank];
    const std::uint64_t most =
        multicast_range_bytes(own.multicast->bytes, own.ranks, own.plain_headers);
    WorkItem item = this->item(rank, task, sequence, send, recv);
    item.algorithm = Algorithm::kMulticast;
    item.protocol = Protocol::kSimple;
    item.chunk = std::min(most, range_bytes) / element_size(task.type);
    item.stride = has_blocks(task.operation) ? task.count : 0;
    return item;
  }
  [[nodiscard]] const std::vector<std::uint64_t>& plain_positions(std::uint32_t rank) const {
    return plain_positions_[rank];
  }

 private:
  struct alignas(128) Block {
    std::byte bytes[128];
  };
  std::vector<DirectPeers> peers_;
  std::vector<std::uint32_t> errors_;
  std::vector<std::vector<std::uint32_t>> positions_;
  std::vector<std::vector<std::uint64_t>> wide_positions_;
  std::vector<std::vector<std::uint64_t>> plain_positions_;
  std::vector<std::vector<Block>> inboxes_;
  std::vector<std::vector<Block>> staged_;
  std::vector<std::byte*> each_;
  std::vector<MulticastView> views_;
};

}  // namespace weft::device::testing
