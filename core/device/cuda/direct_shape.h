// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How many CTAs a call takes that goes directly, and of how many threads: host code, pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device/cuda/kernels.h"
#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "core/model/operation.h"
#include "core/model/two_shot.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {

/// How a direct call is spread. A thread stores a line for every other rank and looks for one of
/// each: few threads keep a multiprocessor busy with that, so there are more parts before there are
/// more threads in each, and a line a thread as far as both suffice.
struct DirectShape {
  std::uint32_t parts = 1;
  std::uint32_t threads = 32;  ///< Of each part.
};
/// Of so many lines, and `headers` that each part has besides.
[[nodiscard]] constexpr DirectShape direct_shape(std::uint64_t lines, std::uint32_t most_parts,
                                                 std::uint32_t headers = 0,
                                                 std::uint32_t most_threads = kThreads) {
  constexpr std::uint64_t kFew = 128;
  const std::uint64_t of_part = kFew - headers;
  const std::uint64_t wanted = lines == 0 ? 1 : (lines + of_part - 1) / of_part;
  const auto parts = static_cast<std::uint32_t>(wanted < most_parts ? wanted : most_parts);
  const std::uint64_t lanes = (lines + parts - 1) / parts + headers;
  // As many times through all threads as there have to be, each time with as many lines.
  const std::uint64_t rounds = (lanes + most_threads - 1) / most_threads;
  const std::uint64_t of_round = (lanes + rounds - 1) / rounds;
  const auto threads = static_cast<std::uint32_t>((of_round + kWarp - 1) / kWarp * kWarp);
  // Where threads are rounded up, fewer parts may have all lines, and each part is to have one to
  // push (core/device/one_shot_all_reduce.h): a header is one.
  const std::uint64_t busy = headers == 0 ? (lines + threads - 1) / threads : parts;
  return {.parts = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(busy, 1, parts)),
          .threads = threads};
}

/// The same of a two-shot, of whose own range each part has a share: 16 bytes a thread.
[[nodiscard]] constexpr DirectShape two_shot_shape(std::uint64_t range_bytes,
                                                   std::uint32_t most_parts) {
  constexpr std::uint64_t kLineBytes = 16;
  return direct_shape((range_bytes + kLineBytes - 1) / kLineBytes, most_parts);
}

/// Of an item that goes directly, whose ranks all have the same one. What its call and its
/// communicator allow bounds it.
[[nodiscard]] inline DirectShape direct_shape_of(const WorkItem& item) {
  const DirectPeers& peers = *item.direct;
  const std::uint64_t bytes = element_size(item.type);
  const std::uint32_t most_plain = std::min(item.most_parts, peers.plain_headers);
  const std::uint32_t most = std::min(item.most_parts, peers.most_parts);
  if (item.algorithm == Algorithm::kMulticast) {
    const RingLoop first =
        multicast_piece(item.operation, 0, item.count, item.chunk, peers.ranks, bytes);
    return two_shot_shape(first.chunk * bytes, most_plain);
  }
  const std::uint64_t range =
      item.algorithm == Algorithm::kTwoShot
          ? two_shot_piece(0, item.count, item.chunk, peers.ranks, bytes).chunk
          : std::min(item.count, item.chunk);
  if (item.protocol == Protocol::kLL128) {
    return direct_shape(wide_pairs(range * bytes) * kWideLineLanes, most, 0, kWideThreads);
  }
  if (item.algorithm == Algorithm::kTwoShot) return two_shot_shape(range * bytes, most_plain);
  if (item.operation != Operation::kAllReduce) {
    return direct_shape(direct_lines(item.count * bytes) - 1, most, 1);
  }
  return direct_shape(direct_lines(item.count * bytes), most);
}

}  // namespace weft::device::cuda
