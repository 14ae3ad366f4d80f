// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The ring kernels with 8 and 32 lanes a rank. Each connection is mapped once, since a second
// mapping would hide races from it.
#include "tests/device/lane_model.h"

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/lane_teams.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {
namespace {

#if defined(WEFT_LANE_MODEL_PLANTED_BUG) || defined(WEFT_LANE_MODEL_PLANTED_MISSING_BARRIER)
using RingReductions = Reductions<Sum<float>>;  // is enough for a planted defect
#else
using RingReductions =
    Reductions<Sum<float>, Max<float>, Min<float>, Average<float>, Sum<std::int32_t>,
               Max<std::int32_t>, Average<std::int32_t>, Sum<Float16>, Prod<Float16>, Max<Float16>,
               Average<Float16>, Sum<Bfloat16>, Max<Bfloat16>>;
#endif

/// Runs one item a rank with all lanes, and what else is in `teams`; answers each lane's outcome.
/// Other memories only add floats.
template <class Memory>
std::vector<std::vector<KernelOutcome>> run_lanes(const std::vector<WorkItem>& items,
                                                  std::uint32_t lanes,
                                                  const std::atomic<std::uint32_t>& abort,
                                                  LaneTeams&& teams = {}) {
  std::vector<std::vector<KernelOutcome>> outcomes(items.size(), std::vector<KernelOutcome>(lanes));
  for (std::size_t rank = 0; rank < items.size(); ++rank) {
    teams.add(rank_name(rank), lanes, [&, rank](LaneGroup& group) {
      Memory memory(abort);
      const auto run = [&](const auto& reduction) {
        return run_work_item(group, memory, items[rank], reduction);
      };
      using These = std::conditional_t<std::is_same_v<Memory, LaneMemory>, RingReductions,
                                       Reductions<Sum<float>>>;
      outcomes[rank][group.rank()] = with_reduction(These{}, items[rank], run);
    });
  }
  teams.run();
  return outcomes;
}

class LaneModel
    : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t, Protocol>> {
 protected:
  template <class T, class Memory = LaneMemory>
  void all_reduce(RingWorld& world, std::uint64_t count, std::uint64_t shift, bool in_place,
                  weft_reduction reduction, std::uint64_t sequence) {
    const auto ranks = std::get<0>(GetParam());
    const auto lanes = std::get<1>(GetParam());
    std::vector<std::vector<T>> input(ranks, std::vector<T>(count + shift));
    std::vector<std::vector<T>> output(ranks, std::vector<T>(count + shift));
    std::vector<WorkItem> items;
    const Task task{.type = kTypeOf<T>, .reduction = reduction, .count = count};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<T>& source = in_place ? output[rank] : input[rank];
      for (std::uint64_t i = 0; i < count; ++i)
        source[shift + i] = sample<T>(rank, i);
      items.push_back(
          world.items(rank, task, sequence, source.data() + shift, output[rank].data() + shift)[0]);
    }
    for (const auto& outcomes : run_lanes<Memory>(items, lanes, abort_)) {
      for (const KernelOutcome& outcome : outcomes)
        ASSERT_EQ(outcome.end, KernelEnd::kDone);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(output[rank][shift + i], expected_sample<T>(ranks, i, reduction))
            << "rank " << rank << " element " << i;
      }
    }
  }

  // An odd number of wide lines, which lanes share in pairs: more than eight have at once.
  static RingShape shape(bool downwards = false) {
    return {.ranks = std::get<0>(GetParam()),
            .steps = 3,
            .step_bytes = std::get<2>(GetParam()) == Protocol::kLL128 ? 1152U : 256U,
            .downwards = downwards,
            .protocol = std::get<2>(GetParam())};
  }

  std::atomic<std::uint32_t> abort_{0};
};

TEST_P(LaneModel, AllReduce) {
  RingWorld world(shape());
  all_reduce<float>(world, 700, 0, false, WEFT_SUM, 0);
  all_reduce<float>(world, 301, 1, true, WEFT_MAX, 1);
  all_reduce<std::int32_t>(world, 129, 0, true, WEFT_SUM, 2);
  all_reduce<std::int32_t>(world, 1, 0, false, WEFT_MAX, 3);
  all_reduce<Float16>(world, 700, 0, false, WEFT_SUM, 4);
  all_reduce<Bfloat16>(world, 301, 1, true, WEFT_SUM, 5);
  all_reduce<Float16>(world, 33, 8, true, WEFT_MAX, 6);
  all_reduce<Bfloat16>(world, 129, 0, false, WEFT_MAX, 7);
}

TEST_P(LaneModel, CountersPostedApart) {
  RingWorld world(shape());
  all_reduce<float, PostingLaneMemory>(world, 700, 0, false, WEFT_SUM, 0);
  all_reduce<float, PostingLaneMemory>(world, 301, 1, true, WEFT_SUM, 1);
}

TEST_P(LaneModel, EveryOperation) {
  const auto [ranks, lanes, protocol] = GetParam();
  RingWorld world(shape(true));
  std::uint64_t sequence = 0;
  const auto run = [&]<class T>(Operation operation, weft_reduction reduction, T) {
    for (const bool in_place : {false, true}) {
      const Task task{.operation = operation,
                      .type = kTypeOf<T>,
                      .reduction = reduction,
                      .root = has_root(operation) ? 1U : 0U,
                      .count = 230};
      std::vector<RankBuffers<T>> buffers;
      std::vector<WorkItem> items;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        RankBuffers<T>& own = buffers.emplace_back(
            task, rank, ranks, Buffers{.in_place = in_place, .shift = in_place ? 3U : 0U});
        for (std::uint64_t i = 0; i < own.send_count(); ++i)
          own.send()[i] = sample<T>(rank, i, reduction);
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        RankBuffers<T>& own = buffers[rank];
        items.push_back(world.items(rank, task, sequence, own.send(), own.recv())[0]);
      }
      ++sequence;
      for (const auto& outcomes : run_lanes<LaneMemory>(items, lanes, abort_)) {
        for (const KernelOutcome& outcome : outcomes)
          ASSERT_EQ(outcome.end, KernelEnd::kDone);
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (std::uint64_t i = 0; gets_result(task, rank) && i < buffers[rank].recv_count(); ++i) {
          ASSERT_EQ(buffers[rank].recv()[i], expected_element<T>(task, rank, ranks, i))
              << operation_name(operation) << ", rank " << rank << " element " << i;
        }
      }
    }
  };
  run(Operation::kAllReduce, WEFT_AVG, float{});
  run(Operation::kAllReduce, WEFT_PROD, Float16{});
  run(Operation::kAllGather, WEFT_SUM, float{});
  run(Operation::kReduceScatter, WEFT_SUM, Bfloat16{});
  run(Operation::kReduceScatter, WEFT_AVG, std::int32_t{});
  run(Operation::kReduce, WEFT_MIN, float{});
  run(Operation::kReduce, WEFT_AVG, Float16{});
}

TEST_P(LaneModel, Broadcast) {
  const auto [ranks, lanes, protocol] = GetParam();
  RingWorld world(shape());
  for (const std::uint64_t shift : {0, 1, 4}) {
    constexpr std::uint64_t kCount = 4111;
    const Task task{
        .operation = Operation::kBroadcast, .type = WEFT_UINT8, .root = 1, .count = kCount};
    std::vector<std::vector<std::uint8_t>> data(ranks, std::vector<std::uint8_t>(kCount + shift));
    std::vector<WorkItem> items;
    for (std::uint64_t i = 0; i < kCount; ++i)
      data[1][shift + i] = static_cast<std::uint8_t>(i);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::uint8_t* own = data[rank].data() + shift;
      items.push_back(world.items(rank, task, shift, own, own)[0]);
    }
    run_lanes<LaneMemory>(items, lanes, abort_);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      ASSERT_EQ(data[rank], data[1]);
  }
}

TEST_P(LaneModel, AllLanesLeaveTogether) {
  const auto [ranks, lanes, protocol] = GetParam();
  RingWorld world({.ranks = ranks, .protocol = protocol});
  std::vector<std::vector<float>> data(ranks, std::vector<float>(500));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const Task task{.reduction = rank == 0 ? WEFT_MAX : WEFT_SUM, .count = 500};
    items.push_back(world.items(rank, task, 0, data[rank].data(), data[rank].data())[0]);
  }
  if (ranks > 2) items.resize(2);  // rank 1 finds rank 0's tag; rank 0 waits until it is aborted
  LaneTeams teams;
  teams.add_abort(abort_, [&] { return std::atomic_ref(world.link(1).tail()).load() != 0; });
  const auto outcomes = run_lanes<LaneMemory>(items, lanes, abort_, std::move(teams));
  for (const auto& rank : outcomes) {
    for (const KernelOutcome& outcome : rank) {
      EXPECT_NE(outcome.end, KernelEnd::kDone);
      EXPECT_EQ(outcome.end, rank[0].end);
    }
  }
}

/// Memory whose wide lines nothing keeps together but the path, as that of GPUs.
class PathMemory : public LaneMemory {
 public:
  static constexpr bool kOrdersWideLines = false;
  using LaneMemory::LaneMemory;
};

// Lanes that share a line need a path that keeps it whole, if they do not order it themselves;
// others, and LL, need whole words.
TEST_P(LaneModel, ViewsMustKeepTogetherWhatLanesStoreTogether) {
  const auto [ranks, lanes, protocol] = GetParam();
  RingWorld world(shape());
  std::vector<std::vector<float>> data(ranks, std::vector<float>(100));
  const auto end_by = [&]<class Memory>(std::uint8_t order, std::uint64_t sequence, const Memory*) {
    std::vector<WorkItem> items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      items.push_back(world.items(rank, {.count = data[rank].size()}, sequence, data[rank].data(),
                                  data[rank].data())[0]);
      items.back().from_previous.order_bytes = items.back().to_next.order_bytes = order;
    }
    const auto outcomes = run_lanes<Memory>(items, lanes, abort_);
    EXPECT_EQ(outcomes[0][lanes - 1].end, outcomes[0][0].end);
    return outcomes[0][0].end;
  };
  const PathMemory* const by_path = nullptr;
  const LaneMemory* const by_order = nullptr;
  const bool needs_lines = protocol == Protocol::kLL128 && lanes % kWideLineLanes == 0;
  for (const std::uint8_t order : {8, 16}) {
    EXPECT_EQ(end_by(order, order, by_path),
              needs_lines ? KernelEnd::kUnsupported : KernelEnd::kDone)
        << int{order};
  }
  EXPECT_EQ(end_by(128, 128, by_path), KernelEnd::kDone);
  EXPECT_EQ(end_by(8, 129, by_order), KernelEnd::kDone);
}

TEST(LaneFibers, SayWhoWaitsForWhatWhenNobodyGetsOn) {
  LaneTeams teams;
  const std::atomic<std::uint32_t> abort{0};
  std::uint64_t counter = 3;
  std::uint32_t error = 0;
  teams.add("rank 0", 2, [&](LaneGroup& group) {
    LaneMemory memory(abort);
    if (group.leader()) memory.wait_at_least(&counter, nullptr, 5, &error);
    group.sync();
  });
  std::string said;
  try {
    teams.run();
  } catch (const std::runtime_error& failure) {
    said = failure.what();
  }
  for (const char* const part :
       {"by seed ", "rank 0 lane 0 waits for a counter to be 5, which is 3",
        "rank 0 lane 1 waits for the other lanes at a barrier"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in: " << said;
  }
}

TEST(LaneFibers, TakeTurnsInAnOrderThatFollowsFromTheSeed) {
  const auto order_by = [](std::uint64_t seed) {
    constexpr std::uint32_t kLanes = 8;
    std::vector<std::uint32_t> order(kLanes);
    std::atomic<std::uint32_t> at{0};
    LaneFibers fibers(seed);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      fibers.add("a lane", [&order, &at, lane] {
        LaneFibers::look_again({.what = "a turn"});
        order[at.fetch_add(1, std::memory_order_relaxed)] = lane;
      });
    }
    fibers.run();
    return order;
  };
  EXPECT_EQ(order_by(1), order_by(1));
  EXPECT_NE(order_by(1), order_by(2));
}

std::string name_of(const ::testing::TestParamInfo<LaneModel::ParamType>& info) {
  const auto [ranks, lanes, protocol] = info.param;
  return std::to_string(ranks) + "_ranks_" + std::to_string(lanes) + "_lanes_" +
         std::string(protocol_name(protocol));
}

constexpr Protocol kProtocols[] = {Protocol::kSimple, Protocol::kLL, Protocol::kLL128};

INSTANTIATE_TEST_SUITE_P(Lanes, LaneModel,
                         ::testing::Combine(::testing::Values(2U, 3U), ::testing::Values(8U),
                                            ::testing::ValuesIn(kProtocols)),
                         name_of);
// Lines of LL128 are shared by eight lanes each, or by none.
INSTANTIATE_TEST_SUITE_P(MoreLanes, LaneModel,
                         ::testing::Combine(::testing::Values(2U), ::testing::Values(3U, 32U),
                                            ::testing::ValuesIn(kProtocols)),
                         name_of);

}  // namespace
}  // namespace weft::device::testing
