// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernel of parallel aggregated trees with several lanes a rank: results, over calls that use
// the same slots, and what ends it.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_ranks.h"
#include "tests/device/ring_world.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {
namespace {

constexpr std::uint32_t kSteps = 2;
constexpr std::uint32_t kStepBytes = 192;

/// Ranks in the order of a ring that goes by no numbers, and their buffers.
class PatWorld {
 public:
  PatWorld(std::uint32_t ranks, Operation operation, std::uint64_t count, weft_reduction reduction,
           std::uint32_t row = 1, bool gathers_inputs = false)
      : ranks_(ranks),
        operation_(operation),
        count_(count),
        reduction_(reduction),
        gathers_inputs_(gathers_inputs),
        links_(ranks) {
    const Operation moved = pat_operation(operation, gathers_inputs);
    gathered_.assign(ranks, std::vector<std::int32_t>(kMostGatheredBytes / sizeof(std::int32_t)));
    for (std::uint32_t i = 0; i < ranks; ++i)
      ring_.push_back((i * 3 + 1) % ranks);  // of 5, 7, 8: each once
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      inputs_.emplace_back(operation == Operation::kReduceScatter ? count * ranks : count);
      outputs_.emplace_back(operation == Operation::kAllGather ? count * ranks : count, -1);
      for (std::size_t i = 0; i < inputs_[rank].size(); ++i)
        inputs_[rank][i] = value(rank, i);
    }
    for (std::uint32_t position = 0; position < ranks; ++position) {
      links_[ring_[position]].row = row;
      for (std::uint32_t distance = 1; distance < ranks; distance *= 2) {
        const bool inside = distance < row;
        const std::uint32_t begin = position - position % row;
        const std::uint32_t here = ring_[position];
        const std::uint32_t ahead =
            ring_[inside ? begin + (position + distance) % row : (position + distance) % ranks];
        const auto level = static_cast<std::uint32_t>(std::bit_width(distance) - 1);
        if (pat_scatters(moved)) join(&PatLinks::scatter, level, ahead, here);
        if (pat_gathers(moved)) join(&PatLinks::gather, level, here, ahead);
        links_[here].levels = std::max(links_[here].levels, level + 1);
      }
    }
  }

  WorkItem item(std::uint32_t rank, OperationTag tag) {
    WorkItem item;
    item.operation = operation_;
    item.algorithm = Algorithm::kPat;
    item.type = WEFT_INT32;
    item.reduction = reduction_;
    item.send = reinterpret_cast<const std::byte*>(inputs_[rank].data());
    item.recv = reinterpret_cast<std::byte*>(outputs_[rank].data());
    item.count = count_;
    item.chunk = std::min<std::uint64_t>(count_, kStepBytes / 4);
    item.gathers_inputs = gathers_inputs_;
    item.stride = count_;
    item.ring = ring_.data();
    item.ranks = ranks_;
    while (ring_[item.ring_position] != rank)
      ++item.ring_position;
    item.tag = tag;
    item.pat = &links_[rank];
    return item;
  }

  void check() const {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (std::uint64_t i = 0; i < outputs_[rank].size(); ++i) {
        std::int32_t due = 0;
        if (operation_ == Operation::kAllGather) {
          due = value(static_cast<std::uint32_t>(i / count_), i % count_);
        } else {
          const std::uint64_t first = operation_ == Operation::kReduceScatter ? rank * count_ : 0;
          for (std::uint32_t other = 0; other < ranks_; ++other)
            due += value(other, first + i);
          if (reduction_ == WEFT_AVG) due /= static_cast<std::int32_t>(ranks_);
        }
        ASSERT_EQ(outputs_[rank][i], due) << "rank " << rank << ", element " << i;
      }
    }
  }
  [[nodiscard]] const std::vector<std::uint32_t>& ring() const { return ring_; }
  /// That rank's, of what all bring.
  std::byte* gathered(const WorkItem& item) {
    return reinterpret_cast<std::byte*>(gathered_[ring_[item.ring_position]].data());
  }

 private:
  /// What is ahead may be behind as well: then both halves have one connection.
  void join(PatHalf PatLinks::* half, std::uint32_t level, std::uint32_t from, std::uint32_t to) {
    Link& link = connections_.try_emplace({from, to}, kSteps, kStepBytes, false).first->second;
    (links_[from].*half).to[level] = link.sender(to);
    (links_[to].*half).from[level] = link.receiver(from);
  }
  static std::int32_t value(std::uint32_t rank, std::uint64_t index) {
    return static_cast<std::int32_t>(1000 * rank + 7 * index + 1);
  }

  std::uint32_t ranks_;
  Operation operation_;
  std::uint64_t count_;
  weft_reduction reduction_;
  bool gathers_inputs_;
  std::vector<std::uint32_t> ring_;
  std::vector<std::vector<std::int32_t>> gathered_;
  std::vector<std::vector<std::int32_t>> inputs_;
  std::vector<std::vector<std::int32_t>> outputs_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> connections_;
  std::vector<PatLinks> links_;
};

LaneOutcomes run_pat(PatWorld& world, const LaneCalls& of) {
  return run_lanes(world, of, Reductions<Sum<std::int32_t>, Average<std::int32_t>>{},
                   [&](auto& group, auto& memory, const WorkItem& item, const auto& reduction) {
                     return run_pat_item(group, memory, item, reduction, world.gathered(item));
                   });
}

class PatLanes : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(PatLanes, GatherAndReduce) {
  struct Ranks {
    std::uint32_t ranks;
    std::uint32_t row;
  };
  for (const auto [ranks, row] :
       {Ranks{2, 1}, Ranks{5, 1}, Ranks{7, 1}, Ranks{4, 2}, Ranks{8, 1}, Ranks{8, 4}}) {
    if (ranks == 8 && GetParam() > 8) break;
    // All blocks of a distance in one message, two, one, parts of one. Of an all-reduce ranges most
    // of which are empty, some, none, and a second round.
    for (const std::uint64_t part : {3U, 20U, 48U, 101U}) {
      for (const Operation operation :
           {Operation::kAllGather, Operation::kReduceScatter, Operation::kAllReduce}) {
        const std::uint64_t count =
            operation == Operation::kAllReduce && part > 20 ? part * ranks - 2 * part / 3 : part;
        const weft_reduction reduction = part == 20 ? WEFT_AVG : WEFT_SUM;
        PatWorld world(ranks, operation, count, reduction, row);
        ASSERT_NO_FATAL_FAILURE(
            expect_all_done(run_pat(world, {.ranks = ranks, .lanes = GetParam()})));
        ASSERT_NO_FATAL_FAILURE(world.check())
            << ranks << " ranks in rows of " << row << ", " << count << " elements";
      }
    }
  }
}

// What all ranks bring is summed up by each, whole or not in lines, in messages of several blocks.
TEST_P(PatLanes, GatherInputs) {
  for (const std::uint32_t ranks : {2U, 5U, 7U}) {
    for (const std::uint64_t count : {1U, 3U, 20U, 48U}) {
      const weft_reduction reduction = count == 20 ? WEFT_AVG : WEFT_SUM;
      PatWorld world(ranks, Operation::kAllReduce, count, reduction, 1, true);
      ASSERT_NO_FATAL_FAILURE(
          expect_all_done(run_pat(world, {.ranks = ranks, .lanes = GetParam()})));
      ASSERT_NO_FATAL_FAILURE(world.check()) << ranks << " ranks, " << count << " elements";
    }
  }
}

TEST_P(PatLanes, AnotherTagEndsAllLanes) {
  constexpr std::uint32_t kRanks = 2;
  for (const Operation operation : {Operation::kReduceScatter, Operation::kAllReduce}) {
    PatWorld world(kRanks, operation, 20, WEFT_SUM);
    expect_tag_found(run_pat(world, {.ranks = kRanks, .lanes = GetParam(), .wrong_rank = 1}));
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, PatLanes, ::testing::Values(1U, 8U, 32U));

TEST(PatItem, ThatCannotRunIsRefused) {
  PatWorld gathering(5, Operation::kAllGather, 3, WEFT_SUM);
  PatWorld reducing(5, Operation::kAllReduce, 3, WEFT_SUM);
  std::atomic<std::uint32_t> abort = 0;
  LaneTeam team(1);
  LaneGroup group(team, 0);
  LaneMemory memory(abort);
  const auto end_in = [&](PatWorld& world, auto change) {
    WorkItem item = world.item(0, 1);
    PatLinks links = *item.pat;
    item.pat = &links;
    change(item, links);
    return run_pat_item(group, memory, item, Sum<std::int32_t>{}, world.gathered(item)).end;
  };
  const auto end_of = [&](auto change) { return end_in(gathering, change); };
  constexpr KernelEnd kRefused = KernelEnd::kUnsupported;
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.pat = nullptr; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.ring = nullptr; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.ranks = 9; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.chunk = kStepBytes; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.ring_position = 5; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.operation = Operation::kBroadcast; }),
            kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.operation = Operation::kAllReduce; }),
            kRefused)
      << "without the half that reduces";
  EXPECT_EQ(end_of([](WorkItem&, PatLinks& links) { links.levels = 2; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, PatLinks& links) { links.row = 2; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, PatLinks& links) { links.row = 0; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, PatLinks& links) { links.gather.to[1].steps = 1; }), kRefused);
  EXPECT_EQ(end_of([](WorkItem&, PatLinks& links) { links.gather.from[2].step_bytes = 64; }),
            kRefused);
  EXPECT_EQ(end_of([](WorkItem& item, PatLinks&) { item.count = 0; }), KernelEnd::kDone);
  PatWorld gathers(5, Operation::kAllReduce, 3, WEFT_SUM, 1, true);
  EXPECT_EQ(end_in(gathers, [](WorkItem& item, PatLinks&) { item.chunk = 2; }), kRefused);
  EXPECT_EQ(end_in(gathers,
                   [](WorkItem& item, PatLinks&) { item.operation = Operation::kReduceScatter; }),
            kRefused);
  const auto too_many = [](WorkItem& item, PatLinks& links) {
    item.count = item.chunk = kMostGatheredBytes / sizeof(std::int32_t) / 5 + 1;
    for (PatHalf* half : {&links.scatter, &links.gather}) {
      for (ConnectionView& view : half->to)
        view.step_bytes = kMostGatheredBytes;
      for (ConnectionView& view : half->from)
        view.step_bytes = kMostGatheredBytes;
    }
  };
  EXPECT_EQ(end_in(gathers, too_many), kRefused);
  for (PatHalf PatLinks::* const half : {&PatLinks::scatter, &PatLinks::gather}) {
    EXPECT_EQ(end_in(reducing, [&](WorkItem&, PatLinks& links) { (links.*half).to[1].steps = 1; }),
              kRefused);
    EXPECT_EQ(end_in(reducing,
                     [&](WorkItem&, PatLinks& links) { (links.*half).from[0].step_bytes = 64; }),
              kRefused);
  }
}

}  // namespace
}  // namespace weft::device::testing
