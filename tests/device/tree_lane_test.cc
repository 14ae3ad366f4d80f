// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernels of trees with several lanes a rank: results by every protocol, over calls that use
// the same slots, and what ends them.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"
#include "core/device/work_item_kernel.h"
#include "core/model/step_lines.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_ranks.h"
#include "tests/device/lane_teams.h"
#include "tests/device/ring_world.h"
#include "tests/device/typed_dispatch.h"

namespace weft::device::testing {
namespace {

constexpr std::uint32_t kTreeSteps = 2;
constexpr std::uint32_t kTreeStepBytes = 512;

struct TreeCase {
  std::uint32_t ranks = 2;
  std::uint32_t most_children = 2;
  Operation operation = Operation::kAllReduce;
  Protocol protocol = Protocol::kSimple;
  std::uint64_t count = 0;
  weft_reduction reduction = WEFT_SUM;
  bool in_place = false;
  std::uint64_t first_step = 0;
  std::uint32_t small_calls = 0;  ///< So many before one of `count` elements.
};

/// Ranks, their buffers and their connections; rank 0 is the root. Small whole numbers as floats,
/// whose sums are exact in any order.
class TreeWorld {
 public:
  explicit TreeWorld(const TreeCase& of) : of_(of), links_(of.ranks) {
    for (std::uint32_t rank = 0; rank < of.ranks; ++rank) {
      inputs_.emplace_back(of.count);
      outputs_.emplace_back(of.count, -1.0F);
    }
    fill();
    links_[0].root = true;
    for (std::uint32_t rank = 1; rank < of.ranks; ++rank) {
      const std::uint32_t parent = (rank - 1) / of.most_children;
      TreeLinks& above = links_[parent];
      Link& up = connect();
      links_[rank].to_parent = up.sender(parent);
      above.from_child[above.children] = up.receiver(rank);
      Link& down = connect();
      above.to_child[above.children] = down.sender(rank);
      links_[rank].from_parent = down.receiver(parent);
      ++above.children;
    }
  }

  /// Before each call: what was reduced in place is gone.
  void fill() {
    for (std::uint32_t rank = 0; rank < of_.ranks; ++rank) {
      for (std::uint64_t i = 0; i < of_.count; ++i)
        (of_.in_place ? outputs_ : inputs_)[rank][i] = value(rank, i);
    }
  }

  WorkItem item(std::uint32_t rank, OperationTag tag) {
    WorkItem item;
    item.operation = of_.operation;
    item.algorithm = Algorithm::kTree;
    item.protocol = of_.protocol;
    item.type = WEFT_FLOAT32;
    item.reduction = of_.reduction;
    auto& input = of_.in_place ? outputs_[rank] : inputs_[rank];
    item.send = reinterpret_cast<const std::byte*>(input.data());
    item.recv = reinterpret_cast<std::byte*>(outputs_[rank].data());
    item.count = tag <= of_.small_calls ? 5 : of_.count;
    item.chunk = step_payload(of_.protocol, kTreeStepBytes) / sizeof(float);
    item.ranks = of_.ranks;
    item.tag = tag;
    item.tree = &links_[rank];
    return item;
  }

  void check() const {
    for (std::uint32_t rank = 0; rank < of_.ranks; ++rank) {
      if (of_.operation == Operation::kReduce && rank != 0) continue;
      for (std::uint64_t i = 0; i < of_.count; ++i) {
        float due = value(0, i);
        if (of_.operation != Operation::kBroadcast) {
          for (std::uint32_t other = 1; other < of_.ranks; ++other)
            due += value(other, i);
          if (of_.reduction == WEFT_AVG) due /= static_cast<float>(of_.ranks);
        }
        ASSERT_EQ(outputs_[rank][i], due) << "rank " << rank << ", element " << i;
      }
    }
  }

  TreeLinks& links(std::uint32_t rank) { return links_[rank]; }
  /// From the first rank below rank 0 to it.
  Link& up() { return connections_.front(); }

 private:
  static float value(std::uint32_t rank, std::uint64_t index) {
    return static_cast<float>((13 * rank + 7 * index) % 101);
  }

  Link& connect() {
    Link& made = connections_.emplace_back(kTreeSteps, kTreeStepBytes, false);
    made.head() = made.tail() = of_.first_step;
    made.sender_cursor().step = made.receiver_cursor().step = of_.first_step;
    return made;
  }

  TreeCase of_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::deque<Link> connections_;
  std::vector<TreeLinks> links_;
};

template <class Memory = LaneMemory>
LaneOutcomes run_tree(TreeWorld& world, const LaneCalls& of) {
  return run_lanes<Memory>(
      world, of, Reductions<Sum<float>, Average<float>>{},
      [](auto& group, auto& memory, const WorkItem& item, const auto& reduction) {
        return run_tree_item(group, memory, item, reduction);
      });
}

class TreeLanes : public ::testing::TestWithParam<std::tuple<std::uint32_t, Protocol>> {
 protected:
  void expect_done(const TreeCase& of, std::uint32_t calls) {
    TreeWorld world(of);
    ASSERT_NO_FATAL_FAILURE(
        expect_all_done(run_tree(world, {.ranks = of.ranks, .lanes = lanes_, .calls = calls})));
    ASSERT_NO_FATAL_FAILURE(world.check())
        << operation_name(of.operation) << ", " << of.ranks << " ranks, " << of.count << " elements"
        << (of.in_place ? ", in place" : "");
  }

  const std::uint32_t lanes_ = std::get<0>(GetParam());
  const Protocol protocol_ = std::get<1>(GetParam());
};

TEST_P(TreeLanes, EveryOperation) {
  struct Size {
    std::uint32_t ranks;
    std::uint32_t children;
  };
  for (const auto& [ranks, children] : {Size{2, 1}, Size{4, 3}, Size{6, 2}}) {
    if (ranks == 6 && lanes_ > 8) break;
    for (const std::uint64_t count : {1U, 31U, 475U}) {
      for (const Operation operation :
           {Operation::kAllReduce, Operation::kReduce, Operation::kBroadcast}) {
        TreeCase of{.ranks = ranks,
                    .most_children = children,
                    .operation = operation,
                    .protocol = protocol_,
                    .count = count,
                    .reduction = count == 31 && reduces(operation) ? WEFT_AVG : WEFT_SUM};
        ASSERT_NO_FATAL_FAILURE(expect_done(of, 3));
        of.in_place = true;
        ASSERT_NO_FATAL_FAILURE(expect_done(of, 1));
      }
    }
  }
}

// Of a rank with more edges below than above, and of one with none.
TEST_P(TreeLanes, CountersPostedApart) {
  TreeWorld world({.ranks = 4, .most_children = 3, .protocol = protocol_, .count = 475});
  ASSERT_NO_FATAL_FAILURE(expect_all_done(
      run_tree<PostingLaneMemory>(world, {.ranks = 4, .lanes = lanes_, .calls = 3})));
  ASSERT_NO_FATAL_FAILURE(world.check());
}

// Flags of 32 bits begin again with the first step of the last call; most lines of its slot were
// never written, and hold zeros.
TEST_P(TreeLanes, FlagsBeginAgain) {
  for (const std::uint64_t round : {std::uint64_t{1} << 31U, std::uint64_t{1} << 32U}) {
    ASSERT_NO_FATAL_FAILURE(expect_done({.ranks = 3,
                                         .protocol = protocol_,
                                         .count = 200,
                                         .first_step = round - 5,
                                         .small_calls = 4},
                                        5));
  }
}

// Of what comes from the second rank below, the lines of the first lanes have come, and no others.
TEST(LineTreeLanes, APeerThatFailedIsNoSizeThatDiffers) {
  constexpr std::uint32_t kLanes = 8;
  constexpr std::uint32_t kReason = 3;
  TreeWorld world(
      {.ranks = 3, .operation = Operation::kReduce, .protocol = Protocol::kLL, .count = 40});
  std::atomic<std::uint32_t> abort{0};
  const auto run = [&]<class Memory>(Memory memory, LaneGroup& group, std::uint32_t rank) {
    const WorkItem item = world.item(rank, 1);
    return run_tree_item(group, memory, item, TypedReduction<float, Add>{});
  };
  LaneTeams below;
  for (const std::uint32_t rank : {1U, 2U}) {
    below.add(rank_name(rank), kLanes, [&, rank](LaneGroup& group) {
      EXPECT_EQ(run(LaneMemory(abort), group, rank).end, KernelEnd::kDone);
    });
  }
  below.run();
  const ConnectionView& failed = world.links(0).from_child[1];
  *failed.tail = 0;
  *failed.error = kReason;
  std::memset(failed.buffer + std::size_t{kLanes - 1} * sizeof(Line), 0, sizeof(Line));
  std::vector<KernelOutcome> outcomes(kLanes);
  LaneTeams root;
  root.add("root", kLanes, [&](LaneGroup& group) {
    outcomes[group.rank()] = run(TailAfterError(abort), group, 0);
  });
  root.run();
  EXPECT_EQ(outcomes[0].end, KernelEnd::kPeerError);
  EXPECT_EQ(outcomes[0].found, kReason);
  EXPECT_EQ(outcomes[0].peer, 2U);
}

// What keeps lines from being taken for those of a round later, however few are used.
TEST_P(TreeLanes, SlotsAreFilledBeforeFlagsBeginAgain) {
  if (protocol_ != Protocol::kLL) return;
  const std::uint64_t first = (std::uint64_t{1} << 32U) - 3;
  ASSERT_TRUE(fills_whole_slot(first, kTreeSteps) && fills_whole_slot(first + 1, kTreeSteps));
  TreeWorld world({.ranks = 3, .protocol = protocol_, .count = 5, .first_step = first});
  ASSERT_NO_FATAL_FAILURE(
      expect_all_done(run_tree(world, {.ranks = 3, .lanes = lanes_, .calls = kTreeSteps})));
  for (const std::uint32_t child : {1U, 2U}) {
    for (const ConnectionView& edge :
         {world.links(child).to_parent, world.links(child).from_parent}) {
      for (std::uint32_t at = 0; at < kTreeSteps * kTreeStepBytes; at += sizeof(Line)) {
        const std::uint64_t slot = at / kTreeStepBytes;
        const std::uint64_t step = first % kTreeSteps == slot ? first : first + 1;
        ASSERT_TRUE(has_flag(LaneMemory::load_words(edge.buffer + at), step_flag(step)))
            << "rank " << child << ", byte " << at;
      }
    }
  }
}

TEST_P(TreeLanes, AnotherTagEndsAllLanes) {
  constexpr std::uint32_t kRanks = 3;
  for (const Operation operation : {Operation::kAllReduce, Operation::kBroadcast}) {
    TreeWorld world({.ranks = kRanks, .operation = operation, .protocol = protocol_, .count = 20});
    expect_tag_found(run_tree(world, {.ranks = kRanks, .lanes = lanes_, .wrong_rank = 1}));
  }
}

// The peer's error word is all that tells.
TEST_P(TreeLanes, APeerThatGaveUpEndsAllLanes) {
  TreeWorld world({.ranks = 2, .protocol = protocol_, .count = 20});
  world.up().receiver_error() = 7;
  std::atomic<std::uint32_t> abort = 0;
  LaneTeams teams;
  std::vector<KernelOutcome> outcomes(lanes_);
  teams.add("rank 0", lanes_, [&](LaneGroup& group) {
    LaneMemory memory(abort);
    outcomes[group.rank()] = run_tree_item(group, memory, world.item(0, 1), Sum<float>{});
  });
  teams.run();
  for (const KernelOutcome& outcome : outcomes)
    EXPECT_EQ(outcome.end, KernelEnd::kPeerError);
  EXPECT_EQ(outcomes[0].peer, 1U);
  EXPECT_EQ(outcomes[0].found, 7U);
}

INSTANTIATE_TEST_SUITE_P(Lanes, TreeLanes,
                         ::testing::Combine(::testing::Values(1U, 8U, 32U),
                                            ::testing::Values(Protocol::kSimple, Protocol::kLL,
                                                              Protocol::kLL128)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_lanes_" +
                                  std::string(protocol_name(std::get<1>(info.param)));
                         });

TEST(TreeItem, ThatCannotRunIsRefused) {
  std::atomic<std::uint32_t> abort = 0;
  LaneTeam team(1);
  LaneGroup group(team, 0);
  LaneMemory memory(abort);
  for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
    TreeWorld world({.ranks = 3, .protocol = protocol, .count = 3});
    const auto end_of = [&](std::uint32_t rank, auto change) {
      WorkItem item = world.item(rank, 1);
      TreeLinks links = *item.tree;
      item.tree = &links;
      change(item, links);
      return run_tree_item(group, memory, item, Sum<float>{}).end;
    };
    constexpr KernelEnd kRefused = KernelEnd::kUnsupported;
    EXPECT_EQ(end_of(1, [](WorkItem& item, TreeLinks&) { item.tree = nullptr; }), kRefused);
    EXPECT_EQ(end_of(1, [](WorkItem& item, TreeLinks&) { item.chunk = 0; }), kRefused);
    EXPECT_EQ(end_of(1, [](WorkItem& item, TreeLinks&) { ++item.chunk; }), kRefused);
    EXPECT_EQ(end_of(1, [](WorkItem& item, TreeLinks&) { item.operation = Operation::kAllGather; }),
              kRefused);
    EXPECT_EQ(end_of(1, [](WorkItem&, TreeLinks& links) { links.to_parent = {}; }), kRefused);
    EXPECT_EQ(end_of(1, [](WorkItem&, TreeLinks& links) { links.from_parent.step_bytes = 64; }),
              kRefused);
    EXPECT_EQ(end_of(0, [](WorkItem&, TreeLinks& links) { links.from_child[1] = {}; }), kRefused);
    EXPECT_EQ(end_of(0, [](WorkItem&, TreeLinks& links) { links.children = 4; }), kRefused);
    EXPECT_EQ(end_of(0, [](WorkItem& item, TreeLinks&) { item.count = 0; }), KernelEnd::kDone);
    if (protocol == Protocol::kSimple) continue;
    EXPECT_EQ(end_of(0, [](WorkItem&, TreeLinks& links) { links.to_child[0].order_bytes = 4; }),
              kRefused);
  }
}

}  // namespace
}  // namespace weft::device::testing
