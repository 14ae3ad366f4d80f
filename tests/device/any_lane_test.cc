// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What GPUs run by a reduction that is looked up when it runs, by many lanes: rings, one-shots and
// two-shots of all types by all reductions.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/any_lane_loops.h"
#include "core/device/any_reduction.h"
#include "core/device/one_shot_blocks.h"
#include "core/device/work_item_kernel.h"
#include "tests/device/direct_world.h"
#include "tests/device/every_type.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/narrow_sums.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kLanes = 8;

/// As memory of GPUs that calls the loops of all types.
class AnyLaneMemory : public LaneMemory {
 public:
  using LaneMemory::LaneMemory;

  template <class G>
  void premultiply_copy(const AnyReduction& reduction, G& group, std::byte* to,
                        const std::byte* input, std::uint64_t count) {
    lane_premultiply(reduction, group, *this, to, input, count);
  }
  template <class G>
  void premultiply_reduce(const AnyReduction& reduction, G& group, std::byte* first,
                          std::byte* second, const std::byte* other, const std::byte* input,
                          std::uint64_t count, bool /*input_first*/) {
    lane_premultiply_reduce(reduction, group, *this, first, second, other, input, count);
  }
};

KernelOutcome run_item(LaneGroup& group, AnyLaneMemory& memory, const WorkItem& item) {
  const AnyReduction reduction(item.type, item.reduction, item.ranks, item.factor,
                               item.rounds_each);
  if (item.direct == nullptr) return run_ring_item(group, memory, item, reduction);
  if (item.protocol == Protocol::kLL128) {
    return run_wide_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction, 0, 1);
  }
  if (item.algorithm == Algorithm::kTwoShot) {
    return run_two_shot_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction, 0, 1);
  }
  if (item.operation != Operation::kAllReduce) {
    return run_blocks_item<kMostDirectRanks, true>(group, memory, item, *item.direct, reduction, 0,
                                                   1);
  }
  return run_direct_item<kMostDirectRanks>(group, memory, item, *item.direct, reduction, 0, 1);
}

std::vector<KernelOutcome> run_lanes(const std::vector<WorkItem>& items,
                                     std::uint32_t lanes = kLanes) {
  const std::atomic<std::uint32_t> abort{0};
  LaneTeams teams;
  std::vector<KernelOutcome> outcomes(items.size() * lanes);
  for (std::size_t rank = 0; rank < items.size(); ++rank) {
    teams.add(rank_name(rank), lanes, [&, rank](LaneGroup& group) {
      AnyLaneMemory memory(abort);
      outcomes[rank * lanes + group.rank()] = run_item(group, memory, items[rank]);
    });
  }
  teams.run();
  return outcomes;
}

/// Of sums of multiplied inputs rank 1 doubles its own.
std::int32_t multiplier_of(std::uint32_t rank) {
  return rank == 1 ? 2 : 1;
}

template <class T>
T expected_any(const Task& task, std::uint32_t rank, std::uint64_t i) {
  if (task.reduction != kPremulSum) return expected_element<T>(task, rank, kRanks, i);
  const std::uint64_t at = task.operation == Operation::kReduceScatter ? rank * task.count + i : i;
  std::int32_t total = 0;
  for (std::uint32_t other = 0; other < kRanks; ++other)
    total += multiplier_of(other) * sample_number<T>(other, at);
  return as_element<T>(total);
}

class AnyLanes : public ::testing::TestWithParam<weft_reduction> {
 protected:
  /// `item_of(rank, task, sequence, send, recv)` answers the rank's item.
  template <class T, class ItemOf>
  void check(Operation operation, std::uint64_t count, const Buffers& how, const ItemOf& item_of) {
    const Task task{.operation = operation,
                    .type = kTypeOf<T>,
                    .reduction = GetParam(),
                    .root = has_root(operation) ? 1U : 0U,
                    .count = count};
    SCOPED_TRACE(std::string(operation_name(operation)) + " of " +
                 std::string(data_type_name(task.type)));
    std::vector<RankBuffers<T>> buffers;
    std::vector<T> factors;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      RankBuffers<T>& own = buffers.emplace_back(task, rank, kRanks, how);
      for (std::uint64_t i = 0; i < own.send_count(); ++i)
        own.send()[i] = sample<T>(rank, i, task.reduction);
      factors.push_back(as_element<T>(multiplier_of(rank)));
    }
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      RankBuffers<T>& own = buffers[rank];
      items.push_back(item_of(rank, task, sequence_, own.send(), own.recv()));
      WorkItem& item = items.back();
      if (rank == 1) item.factor.from = reinterpret_cast<const std::byte*>(&factors[rank]);
      if (rank != 1) std::memcpy(&item.factor.bits, &factors[rank], sizeof(T));
    }
    ++sequence_;
    for (const KernelOutcome& outcome : run_lanes(items))
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::uint64_t i = 0; gets_result(task, rank) && i < buffers[rank].recv_count(); ++i) {
        ASSERT_EQ(buffers[rank].recv()[i], expected_any<T>(task, rank, i))
            << "rank " << rank << " element " << i;
      }
      buffers[rank].check_guards();
    }
  }

  std::uint64_t sequence_ = 0;
};

TEST_P(AnyLanes, Rings) {
  for_each_type([this]<class T>() {
    RingWorld world({.ranks = kRanks, .steps = 3, .downwards = true});
    const auto item_of = [&](auto&&... call) { return world.items(call...)[0]; };
    check<T>(Operation::kAllReduce, 333, {}, item_of);
    check<T>(Operation::kReduceScatter, 150, {.in_place = true, .shift = 3}, item_of);
    check<T>(Operation::kReduce, 97, {.in_place = true}, item_of);
  });
}

// Of LL128: eight lanes share a line.
TEST_P(AnyLanes, RingsByLines) {
  for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128}) {
    for_each_type([this, protocol]<class T>() {
      RingWorld world({.ranks = kRanks, .steps = 3, .downwards = true, .protocol = protocol});
      const auto item_of = [&](auto&&... call) { return world.items(call...)[0]; };
      check<T>(Operation::kAllReduce, 333, {}, item_of);
      check<T>(Operation::kReduceScatter, 150, {.in_place = true, .shift = 3}, item_of);
      check<T>(Operation::kReduce, 97, {.in_place = true}, item_of);
    });
  }
}

TEST_P(AnyLanes, OneShots) {
  for_each_type([this]<class T>() {
    DirectWorld world(kRanks, 4096);
    for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128}) {
      const auto item_of = [&](auto&&... call) {
        WorkItem item = world.item(call...);
        item.protocol = protocol;
        return item;
      };
      check<T>(Operation::kAllReduce, 301, {}, item_of);
      check<T>(Operation::kAllReduce, 77, {.in_place = true, .shift = 1}, item_of);
    }
  });
}

TEST_P(AnyLanes, ReducesByWideLines) {
  for_each_type([this]<class T>() {
    DirectWorld world(kRanks, 4096);
    const auto item_of = [&](std::uint32_t rank, const Task& task, auto&&... call) {
      WorkItem item = world.item(rank, task, call...);
      item.protocol = Protocol::kLL128;
      item.ring_position = (rank + kRanks - task.root) % kRanks;
      return item;
    };
    check<T>(Operation::kReduce, 301, {}, item_of);
    check<T>(Operation::kReduce, 77, {.in_place = true, .shift = 1}, item_of);
  });
}

TEST_P(AnyLanes, TwoShots) {
  for_each_type([this]<class T>() {
    DirectWorld world(kRanks, 512, kFlagPeriod, 1);
    const auto item_of = [&](auto&&... call) { return world.two_shot_item(call...); };
    check<T>(Operation::kAllReduce, 403, {}, item_of);
    check<T>(Operation::kAllReduce, 301, {.in_place = true, .shift = 1}, item_of);
  });
}

INSTANTIATE_TEST_SUITE_P(Reductions, AnyLanes,
                         ::testing::Values(WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG,
                                           kPremulSum),
                         [](const auto& info) { return std::string(reduction_name(info.param)); });

/// Ranks, and lanes of each.
class NarrowLanes : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t>> {
 protected:
  template <class ItemOf>
  void check(NarrowCall call, const ItemOf& item_of) {
    const auto [ranks, lanes] = GetParam();
    call.ranks = ranks;
    // Of most lanes some: what lies where in a line is the same on all.
    const bool every = ranks * lanes <= 24;
    for (const Rounding rounding : {Rounding::kOnce, Rounding::kEachStep}) {
      call.rounding = rounding;
      for_each_narrow([&, lanes = lanes]<class T>(weft_reduction reduction) {
        if (!every && (sizeof(T) == 1 ? reduction != WEFT_SUM : reduction != WEFT_AVG)) return;
        call.reduction = reduction;
        check_narrow<T>(
            call,
            [&](std::uint32_t rank, const Task& task, const void* send, void* recv) {
              return item_of(rank, task, sequence_, send, recv);
            },
            [lanes](const std::vector<WorkItem>& items) { return run_lanes(items, lanes); });
        ++sequence_;
      });
    }
  }

  DirectWorld world_{std::get<0>(GetParam()), 1024, kFlagPeriod, 1};
  std::uint64_t sequence_ = 0;
};

TEST_P(NarrowLanes, OneShots) {
  for (const Protocol protocol : {Protocol::kLL, Protocol::kLL128}) {
    check({.count = 203, .shift = 1}, [&](auto&&... call) {
      WorkItem item = world_.item(call...);
      item.protocol = protocol;
      return item;
    });
  }
}

TEST_P(NarrowLanes, OneShotsOfBlocks) {
  for (const std::uint64_t count : {48U, 51U}) {
    check({.operation = Operation::kReduceScatter, .count = count},
          [&](auto&&... call) { return world_.item(call...); });
  }
  check({.operation = Operation::kReduce, .count = 51}, [&](std::uint32_t rank, auto&&... call) {
    WorkItem item = world_.item(rank, call...);
    item.ring_position = rank;
    return item;
  });
}

TEST_P(NarrowLanes, TwoShots) {
  for (const std::uint64_t shift : {0U, 3U}) {
    check({.count = 403, .shift = shift, .in_place = shift != 0},
          [&](auto&&... call) { return world_.two_shot_item(call...); });
  }
}

TEST_P(NarrowLanes, ReducesByWideLines) {
  for (const std::uint64_t count : {256U, 301U}) {
    check({.operation = Operation::kReduce, .count = count},
          [&](std::uint32_t rank, auto&&... call) {
            WorkItem item = world_.item(rank, call...);
            item.protocol = Protocol::kLL128;
            item.ring_position = rank;
            return item;
          });
  }
}

TEST_P(NarrowLanes, RangesByWideLines) {
  for (const Operation operation : {Operation::kAllReduce, Operation::kReduceScatter}) {
    for (const std::uint64_t count : {256U, 301U}) {
      check({.operation = operation, .count = count},
            [&](auto&&... call) { return world_.wide_ranges_item(call...); });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RanksAndLanes, NarrowLanes,
                         ::testing::Values(std::tuple(3U, 8U), std::tuple(8U, 8U),
                                           std::tuple(3U, 32U)));

}  // namespace
}  // namespace weft::device::testing
