// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a net may bring straight to a caller's output: exactly the chunks of a ring all-reduce that
// others complete, in the steps in which they come.
#include "core/model/landing.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/operation.h"
#include "core/schedule/planner.h"

namespace weft {
namespace {

Topology ranks_in_one_process(std::uint32_t ranks) {
  Topology topology;
  topology.hosts.emplace_back();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankInfo info;
    info.rank = rank;
    topology.ranks.push_back(info);
  }
  return topology;
}

TEST(Landing, BringsEachElementThatOthersCompleteOnce) {
  for (const std::uint32_t ranks : {2U, 3U, 5U, 8U}) {
    const Topology topology = ranks_in_one_process(ranks);
    for (const std::uint64_t count : {1UL, 16UL, 2047UL, 2048UL, 40'000UL, 100'003UL}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << count << " elements");
      const auto plan = make_plan({.operation = Operation::kAllReduce, .count = count},
                                  {.topology = topology, .limits = {.step_bytes = 4096}});
      ASSERT_TRUE(plan);
      ASSERT_EQ(plan->channels.size(), 1U);
      const ChannelPlan& channel = plan->channels[0];
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        std::vector<std::byte> output(4 * count);
        LandingWalk walk{.output = output.data(),
                         .count = channel.count,
                         .chunk = channel.chunk,
                         .ranks = ranks,
                         .position = ring_place(*plan, 0, rank).position,
                         .element_bytes = 4,
                         .step_bytes = plan->step_bytes};
        std::vector<int> brought(4 * count);
        std::uint64_t steps = 0;
        for (LandingWalk::Step step = walk.next(); step.bytes != 0; step = walk.next()) {
          ++steps;
          EXPECT_LE(step.bytes, plan->step_bytes);
          if (step.target == nullptr) continue;
          const auto begin = static_cast<std::size_t>(step.target - output.data());
          ASSERT_LE(begin + step.bytes, brought.size());
          for (std::size_t i = begin; i < begin + step.bytes; ++i)
            ++brought[i];
        }
        EXPECT_EQ(steps, steps_received(*plan, 0, rank));
        // Each loop's chunk of hop ranks - 1 is the one that this rank completes itself.
        std::vector<int> expected(4 * count, 1);
        for (std::uint64_t base = 0; base < count;) {
          const RingLoop loop = ring_loop(base, count, channel.chunk, ranks, 4);
          const Extent own = loop.extent(ring_chunk(walk.position, ranks - 1, ranks), count);
          for (std::uint64_t i = 4 * own.offset; i < 4 * (own.offset + own.count); ++i)
            expected[i] = 0;
          base += loop.chunk * ranks;
        }
        EXPECT_EQ(brought, expected);
      }
    }
  }
}

}  // namespace
}  // namespace weft
