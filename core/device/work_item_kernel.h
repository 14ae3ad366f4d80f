// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a work item to the template that runs it: the one place that says what kernels exist.
#pragma once

#include <cstdint>

#include "core/device/one_shot_all_reduce.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/primitives_simple.h"
#include "core/device/reductions.h"
#include "core/device/ring_all_reduce.h"
#include "core/device/ring_broadcast.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"

namespace weft::device {

WEFT_HD inline KernelOutcome unsupported() {
  return KernelOutcome{.end = KernelEnd::kUnsupported, .peer = 0, .expected = 0, .found = 0};
}

/// Whether a view can carry steps of this element; both ends of a channel use one step size.
WEFT_HD inline bool usable(const ConnectionView& view, std::uint32_t element_bytes) {
  return view.buffer != nullptr && view.cursor != nullptr && view.head != nullptr &&
         view.tail != nullptr && view.slots != nullptr && view.steps != 0 && view.step_bytes != 0 &&
         view.step_bytes % element_bytes == 0;
}

template <class Reduction, class G, class M>
WEFT_HD KernelOutcome all_reduce_item(G& group, M& memory, const WorkItem& item) {
  constexpr std::uint32_t kBytes = sizeof(typename Reduction::Element);
  if (item.count == 0) return {};
  if (item.ranks == 1) {
    if (item.send != item.recv) {
      memory.copy(group, item.recv, nullptr, item.send, item.count * kBytes);
    }
    return {};
  }
  if (item.ranks == 0 || item.ring_position >= item.ranks || item.chunk == 0 ||
      !usable(item.from_previous, kBytes) || !usable(item.to_next, kBytes) ||
      item.from_previous.step_bytes != item.to_next.step_bytes ||
      !ring_all_reduce_fits(item, kBytes)) {
    return unsupported();
  }
  SimplePrimitives<G, M, Reduction> primitives(group, memory, item, kBytes, true, true);
  ring_all_reduce(primitives, item, kBytes);
  return primitives.finish();
}

template <class T, class G, class M>
WEFT_HD KernelOutcome all_reduce_of(G& group, M& memory, const WorkItem& item) {
  if (item.reduction == WEFT_SUM) return all_reduce_item<Sum<T>>(group, memory, item);
  if (item.reduction == WEFT_MAX) return all_reduce_item<Max<T>>(group, memory, item);
  return unsupported();
}

template <class G, class M>
WEFT_HD KernelOutcome broadcast_item(G& group, M& memory, const WorkItem& item) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  if (bytes == 0) return unsupported();
  if (item.count == 0) return {};
  if (item.ranks == 1) {
    if (item.send != item.recv) {
      memory.copy(group, item.recv, nullptr, item.send, item.count * bytes);
    }
    return {};
  }
  const bool receives = item.ring_position != 0;
  const bool sends = item.ring_position + 1 < item.ranks;
  if (item.ranks == 0 || item.ring_position >= item.ranks || item.chunk == 0 ||
      (receives && !usable(item.from_previous, bytes)) || (sends && !usable(item.to_next, bytes)) ||
      (receives && sends && item.from_previous.step_bytes != item.to_next.step_bytes)) {
    return unsupported();
  }
  SimplePrimitives<G, M, NoReduction> primitives(group, memory, item, bytes, receives, sends);
  ring_broadcast(primitives, item);
  return primitives.finish();
}

/// Runs one item to its end. All lanes call it; the leader's answer is the complete one.
/// kUnsupported also answers an item whose views cannot carry it.
template <class G, class M>
  requires lane_group<G> && device_memory<M, G>
WEFT_HD KernelOutcome run_work_item(G& group, M& memory, const WorkItem& item) {
  if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) {
    return unsupported();
  }
  if (item.operation == Operation::kBroadcast) return broadcast_item(group, memory, item);
  if (item.operation != Operation::kAllReduce) return unsupported();
  switch (item.type) {
    case WEFT_FLOAT32:
      return all_reduce_of<float>(group, memory, item);
    case WEFT_INT32:
      return all_reduce_of<std::int32_t>(group, memory, item);
    case WEFT_FLOAT16:
      return all_reduce_of<Float16>(group, memory, item);
    case WEFT_BFLOAT16:
      return all_reduce_of<Bfloat16>(group, memory, item);
    default:
      return unsupported();
  }
}

/// Whether a direct call fits between these peers, of which a kernel knows at most `most_ranks`.
WEFT_HD inline bool fits_directly(const WorkItem& item, const DirectPeers& peers,
                                  std::uint32_t most_ranks) {
  return item.algorithm == Algorithm::kDirect && item.protocol == Protocol::kLL &&
         item.operation == Operation::kAllReduce && peers.ranks <= most_ranks &&
         peers.rank < peers.ranks && peers.positions != nullptr &&
         direct_half_bytes(item.count * element_size(item.type)) <= peers.half_bytes;
}

template <std::uint32_t kRanks, class T, class G, class M>
WEFT_HD KernelOutcome one_shot_of(G& group, M& memory, const WorkItem& item,
                                  const DirectPeers& peers, std::uint32_t part,
                                  std::uint32_t parts) {
  if (item.reduction == WEFT_SUM) {
    return OneShotAllReduce<kRanks, Sum<T>, G, M>(group, memory, item, peers, part, parts).run();
  }
  if (item.reduction == WEFT_MAX) {
    return OneShotAllReduce<kRanks, Max<T>, G, M>(group, memory, item, peers, part, parts).run();
  }
  return unsupported();
}

/// Runs one part of a direct call to its end; otherwise as run_work_item.
template <std::uint32_t kRanks, class G, class M>
  requires lane_group<G> && flagged_memory<M>
WEFT_HD KernelOutcome run_direct_item(G& group, M& memory, const WorkItem& item,
                                      const DirectPeers& peers, std::uint32_t part,
                                      std::uint32_t parts) {
  if (!fits_directly(item, peers, kRanks)) return unsupported();
  switch (item.type) {
    case WEFT_FLOAT32:
      return one_shot_of<kRanks, float>(group, memory, item, peers, part, parts);
    case WEFT_INT32:
      return one_shot_of<kRanks, std::int32_t>(group, memory, item, peers, part, parts);
    case WEFT_FLOAT16:
      return one_shot_of<kRanks, Float16>(group, memory, item, peers, part, parts);
    case WEFT_BFLOAT16:
      return one_shot_of<kRanks, Bfloat16>(group, memory, item, peers, part, parts);
    default:
      return unsupported();
  }
}

/// Whether run_work_item has a kernel for it, so that a call can be refused before it is planned.
[[nodiscard]] constexpr bool kernel_exists(Operation operation, weft_data_type type,
                                           weft_reduction reduction) {
  if (operation == Operation::kBroadcast) return element_size(type) != 0;
  const bool type_known =
      type == WEFT_FLOAT32 || type == WEFT_INT32 || type == WEFT_FLOAT16 || type == WEFT_BFLOAT16;
  return operation == Operation::kAllReduce && type_known &&
         (reduction == WEFT_SUM || reduction == WEFT_MAX);
}

}  // namespace weft::device
