// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which CTA moves which of a launch's sends and receives: host code, pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/device/cuda/kernels.h"
#include "core/model/pair_transfer.h"

namespace weft::device::cuda {

/// Transfers in the order of their groups, each of which one CTA moves on its own.
struct PairGroups {
  /// The numbers that they have in the launch; and PairTransfer::after of each, which counts from
  /// the first of the group.
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> after;
  /// As a whole: of group_transfers() alone.
  std::vector<PairTransfer> transfers;
  /// Group g has transfers begin[g] to begin[g + 1] - 1, in the order in which they were called.
  std::vector<std::uint32_t> begin;

  /// Room for who divides.
  std::vector<std::uint32_t> places{};

  /// What order, after and begin hang on: calls of a program are mostly alike.
  struct Known {
    const ConnectionCursor* end = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t after = kNoTransfer;
    bool sends = false;

    bool operator==(const Known&) const = default;
  };
  std::vector<Known> known{};
  std::uint32_t most_groups = 0;  ///< Of that division.

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(begin.size()) - 1; }
};

/// Those of one end of a connection are in one group, which alone knows where that end stands. No
/// more groups than `most_groups`, which is not 0, and none is empty. What `groups` held before is
/// replaced, and its memory kept; or it is kept as well, where transfers like these were divided.
void divide_transfers(std::span<const PairTransfer> transfers, std::uint32_t most_groups,
                      PairGroups& groups);
/// And copies them.
void group_transfers(std::span<const PairTransfer> transfers, std::uint32_t most_groups,
                     PairGroups& groups);

/// Whether so many groups could be, of which CTAs that another communicator has to fit beside are
/// too few, that all of the device's are worth it. A few more are not: those have little to move.
[[nodiscard]] constexpr bool want_the_device(std::uint32_t groups, std::uint32_t ctas) {
  return groups > ctas + ctas / 4;
}
/// The same of a launch. What goes through memory of the stream has no room for so many groups.
[[nodiscard]] inline bool wants_the_device(const Launch& launch) {
  if (launch.items.empty() || !launch.own_processors || launch.is_bounded) return false;
  const WorkItem& item = launch.items.front();
  const bool in_argument = item.transfer_count <= kMostWholePairs || launch.pair_views != nullptr;
  return item.algorithm == Algorithm::kPair && in_argument &&
         want_the_device(item.transfer_count, item.most_parts);
}

/// Whether copies within the rank, of so many bytes, go on a stream beside the launch's, by CTAs
/// of their own. CTAs would move nothing over links meanwhile, but of 16 and 64 MiB the two streams
/// cost more than that.
[[nodiscard]] constexpr bool copies_go_beside(const Launch& launch, std::uint64_t bytes) {
  constexpr std::uint64_t kLeastBytes = std::uint64_t{128} << 20;
  return bytes >= kLeastBytes && !launch.shares_device && !launch.is_bounded;
}

}  // namespace weft::device::cuda
