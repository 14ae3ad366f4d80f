// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings and primitives by lines, LL and LL128: each primitive alone, rings of all shapes, and
// whatever may lie in a slot that is not the step that is waited for.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/flagged_line.h"
#include "core/device/host/host_memory.h"
#include "core/device/primitives_ll.h"
#include "core/model/step_lines.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

constexpr std::array kLineProtocols = {Protocol::kLL, Protocol::kLL128};

TEST(StepLines, TakeWholeGrains) {
  // 16 lines of 8 bytes less the header, and 2 of 120.
  EXPECT_EQ(step_payload(Protocol::kLL, 256), 64U);
  EXPECT_EQ(step_payload(Protocol::kLL128, 256), 192U);
  EXPECT_EQ(step_payload(Protocol::kLL, 16384), 8128U);
  EXPECT_EQ(step_payload(Protocol::kLL128, 16384), 15296U);
  EXPECT_EQ(step_payload(Protocol::kSimple, 1000), 1000U);
  EXPECT_EQ(step_payload(Protocol::kLL128, 0), 0U);
  EXPECT_EQ(step_payload(Protocol::kLL, 16), 0U);
}

TEST(StepLines, EachSlotIsFilledTwiceInARoundOfFlags) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 31U;
  for (const std::uint32_t steps : {2U, 8U}) {
    for (const std::uint64_t end : {kHalf, 2 * kHalf, 3 * kHalf}) {
      for (std::uint64_t step = end - 20; step < end + 20; ++step) {
        const bool last = step + 1 < end && step + 1 + steps >= end;
        EXPECT_EQ(fills_whole_slot(step, steps), last) << step << " of " << steps;
      }
    }
    EXPECT_FALSE(fills_whole_slot(0, steps));
  }
}

class LineRings : public ::testing::TestWithParam<Protocol> {};

TEST_P(LineRings, EveryOperationTypeAndSize) {
  for (const std::uint32_t ranks : {2U, 3U, 5U}) {
    RingWorld world({.ranks = ranks, .step_bytes = 512, .protocol = GetParam()});
    RingRunner runner(ranks);
    std::uint64_t sequence = 0;
    const auto check = [&]<class T>(T, Operation operation, weft_reduction reduction) {
      for (const std::uint64_t count : {0, 1, 7, 61, 240, 3000}) {
        const Task task{.operation = operation,
                        .type = kTypeOf<T>,
                        .reduction = reduction,
                        .root = has_root(operation) ? ranks - 1 : 0,
                        .count = count};
        check_operation<T>(world, runner, task,
                           {.in_place = sequence % 2 == 1,
                            .shift = static_cast<std::uint32_t>(sequence % 5),
                            .sequence = sequence});
        ++sequence;
      }
    };
    check(float{}, Operation::kAllReduce, WEFT_SUM);
    check(Bfloat16{}, Operation::kAllReduce, WEFT_AVG);
    check(std::int8_t{}, Operation::kAllReduce, WEFT_MAX);
    check(double{}, Operation::kReduceScatter, WEFT_AVG);
    check(std::uint8_t{}, Operation::kAllGather, WEFT_SUM);
    check(Float16{}, Operation::kReduce, WEFT_PROD);
    check(std::uint8_t{}, Operation::kBroadcast, WEFT_SUM);
  }
}

TEST_P(LineRings, LargeStepsTakeSeveralPartsEach) {
  RingWorld world({.ranks = 3, .step_bytes = 16384, .protocol = GetParam()});
  RingRunner runner(3, RingRunner::Threads::kOnePerRank);
  check_all_reduce<float>(world, runner, 50'001, WEFT_SUM, {.in_place = true});
}

TEST_P(LineRings, NarrowestConnectionsStillFlow) {
  RingWorld world({.ranks = 4,
                   .steps = 2,
                   .step_bytes = 256,
                   .chunk_steps = 1,
                   .sleepers = false,
                   .protocol = GetParam()});
  RingRunner runner(4);
  check_all_reduce<float>(world, runner, 3000, WEFT_SUM, {});
}

// Flags of 32 bits begin again here; what lies in the slots is from before.
TEST_P(LineRings, FlagsBeginAgain) {
  for (const std::uint64_t round : {std::uint64_t{1} << 31U, std::uint64_t{1} << 32U}) {
    RingWorld world({.ranks = 2, .steps = 4, .step_bytes = 512, .protocol = GetParam()});
    RingRunner runner(2);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      Link& link = world.link(rank);
      const std::uint64_t begin = round - 9;
      link.head() = link.tail() = begin;
      link.sender_cursor().step = link.receiver_cursor().step = begin;
    }
    for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
      check_all_reduce<float>(world, runner, sequence % 3 == 0 ? 300 : 5, WEFT_SUM,
                              {.sequence = sequence});
    }
    EXPECT_GT(world.link(0).tail(), round + 20);
  }
}

TEST_P(LineRings, ViewsThatDoNotCarryLinesAreRefused) {
  RingWorld world({.ranks = 2, .step_bytes = 512, .protocol = GetParam()});
  RingRunner runner(2);
  std::vector<float> data(10);
  const auto outcome_of = [&](auto change) {
    auto items = world.items(0, {.count = 10}, 0, data.data(), data.data());
    change(items[0]);
    EXPECT_EQ(runner.launch(0, items), WEFT_OK);
    runner.device().synchronize(runner.stream(0));
    return runner.outcome(0).end;
  };
  EXPECT_EQ(outcome_of([](WorkItem& item) { item.to_next.order_bytes = 4; }),
            KernelEnd::kUnsupported);
  EXPECT_EQ(outcome_of([](WorkItem& item) { item.from_previous.step_bytes = 64; }),
            KernelEnd::kUnsupported);
  EXPECT_EQ(outcome_of([](WorkItem& item) { item.to_next.buffer = nullptr; }),
            KernelEnd::kUnsupported);
}

TEST_P(LineRings, DifferentCallsEndWithBothTags) {
  RingWorld world({.ranks = 2, .protocol = GetParam()});
  RingRunner runner(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(200));
  const Task tasks[] = {{.count = 200}, {.reduction = WEFT_MAX, .count = 200}};
  runner.run([&](std::uint32_t rank) {
    return world.items(rank, tasks[rank], 3, data[rank].data(), data[rank].data());
  });
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(runner.outcome(rank).end, KernelEnd::kTagMismatch);
    EXPECT_EQ(runner.outcome(rank).peer, 1 - rank);
    EXPECT_EQ(runner.outcome(rank).expected, make_operation_tag(tasks[rank], 3));
    EXPECT_EQ(runner.outcome(rank).found, make_operation_tag(tasks[1 - rank], 3));
  }
}

TEST_P(LineRings, DifferentSizesUnderOneTagEnd) {
  RingWorld world({.ranks = 2, .step_bytes = 65536, .protocol = GetParam()});
  RingRunner runner(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(5000));
  runner.run([&](std::uint32_t rank) {
    auto items = world.items(rank, {.count = 5000}, 0, data[rank].data(), data[rank].data());
    if (rank == 1) items[0].count = 4500;
    return items;
  });
  EXPECT_EQ(runner.outcome(0).end, KernelEnd::kSizeMismatch);
  EXPECT_EQ(runner.outcome(0).expected, 2488U * 4);
  EXPECT_EQ(runner.outcome(0).found, 2244U * 4);
  EXPECT_EQ(runner.outcome(1).end, KernelEnd::kSizeMismatch);
}

INSTANTIATE_TEST_SUITE_P(Protocols, LineRings, ::testing::ValuesIn(kLineProtocols));

/// Rank 1 of three; what comes from rank 0 is sent by primitives of its own.
template <Protocol kProtocol>
class LineWorld {
 public:
  static constexpr std::uint64_t kCount = 100;
  using Primitives = LinePrimitives<kProtocol, SingleLane, HostMemory, HostReduction>;

  LineWorld() {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      arriving[i] = sample<float>(0, i);
      input[i] = sample<float>(1, i);
    }
    items = world.items(1, task, 0, input.data(), output.data());
  }
  void feed() {
    const auto feeder = world.items(0, task, 0, arriving.data(), nullptr);
    Primitives primitives(lane, memory, feeder[0], sum, 4, false, true);
    EXPECT_TRUE(primitives.send(kExtent));
    EXPECT_EQ(primitives.finish().end, KernelEnd::kDone);
  }
  Primitives primitives() { return {lane, memory, items[0], sum, 4, true, true}; }
  /// What rank 2 receives.
  std::vector<float> passed_on() {
    std::vector<float> got(kCount, -1.0F);
    const auto taker = world.items(2, task, 0, nullptr, got.data());
    Primitives primitives(lane, memory, taker[0], sum, 4, true, false);
    EXPECT_TRUE(primitives.recv(kExtent));
    EXPECT_EQ(primitives.finish().end, KernelEnd::kDone);
    return got;
  }
  std::vector<float> reduced() {
    std::vector<float> result(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i)
      result[i] = arriving[i] + input[i];
    return result;
  }

  static constexpr Extent kExtent{.offset = 0, .count = kCount};
  const Task task{.count = kCount};
  RingWorld world{{.ranks = 3, .step_bytes = 512, .protocol = kProtocol}};
  std::atomic<std::uint32_t> failed{0};
  Launch launch;
  Waiter waiter;
  SingleLane lane;
  const HostReduction sum{best_element_loops(), WEFT_FLOAT32, WEFT_SUM, 1};
  HostMemory memory{best_element_loops(), waiter, launch, failed};
  std::vector<float> arriving = std::vector<float>(kCount);
  std::vector<float> input = std::vector<float>(kCount);
  std::vector<float> output = std::vector<float>(kCount, -1.0F);
  std::vector<WorkItem> items;
};

template <Protocol kProtocol>
void check_each_primitive() {
  using World = LineWorld<kProtocol>;
  const std::vector<float> untouched(World::kCount, -1.0F);
  const auto run = [](World& world, auto primitive) {
    world.feed();
    auto primitives = world.primitives();
    EXPECT_TRUE(primitive(primitives));
    EXPECT_EQ(primitives.finish().end, KernelEnd::kDone);
  };
  {
    World world;
    run(world, [](auto& all) { return all.send(World::kExtent); });
    EXPECT_EQ(world.output, untouched);
    EXPECT_EQ(world.world.link(0).head(), 0U);
    EXPECT_EQ(world.passed_on(), world.input);
  }
  {
    World world;
    run(world, [](auto& all) { return all.send_from_output(World::kExtent); });
    EXPECT_EQ(world.output, untouched);
    EXPECT_EQ(world.passed_on(), untouched);
  }
  {
    World world;
    run(world, [](auto& all) { return all.recv(World::kExtent); });
    EXPECT_EQ(world.output, world.arriving);
    EXPECT_EQ(world.world.link(0).head(), world.world.link(0).tail());
    EXPECT_EQ(world.world.link(1).tail(), 0U);
  }
  {
    World world;
    run(world, [](auto& all) { return all.copy_send(World::kExtent); });
    EXPECT_EQ(world.output, world.input);
    EXPECT_EQ(world.passed_on(), world.input);
  }
  {
    World world;
    run(world, [](auto& all) { return all.recv_copy_send(World::kExtent); });
    EXPECT_EQ(world.output, world.arriving);
    EXPECT_EQ(world.passed_on(), world.arriving);
  }
  {
    World world;
    run(world, [](auto& all) { return all.recv_reduce_copy(World::kExtent); });
    EXPECT_EQ(world.output, world.reduced());
    EXPECT_EQ(world.world.link(1).tail(), 0U);
  }
  {
    World world;
    run(world, [](auto& all) { return all.recv_reduce_send(World::kExtent); });
    EXPECT_EQ(world.output, untouched);
    EXPECT_EQ(world.passed_on(), world.reduced());
  }
  {
    World world;
    run(world, [](auto& all) { return all.recv_reduce_copy_send(World::kExtent); });
    EXPECT_EQ(world.output, world.reduced());
    EXPECT_EQ(world.passed_on(), world.reduced());
  }
  {
    World world;
    run(world,
        [](auto& all) { return all.recv_reduce_copy_send({.offset = World::kCount, .count = 0}); });
    EXPECT_EQ(world.output, untouched);
    EXPECT_EQ(world.world.link(0).head(), 0U);
  }
}

TEST(LinePrimitives, DoWhatTheirNamesSay) {
  check_each_primitive<Protocol::kLL>();
  check_each_primitive<Protocol::kLL128>();
}

// Tail promises a step whose lines are not those of the step: old, none, or of a peer that lies.
template <Protocol kProtocol>
void check_lines_that_have_not_come() {
  using World = LineWorld<kProtocol>;
  constexpr StepLine kLine = step_line(kProtocol);
  // The last word of the last line of the first step, and the first of its first.
  constexpr std::uint32_t kFirstStep =
      std::min<std::uint32_t>(step_payload(kProtocol, 512), World::kCount * sizeof(float));
  constexpr std::uint32_t kLines =
      (kStepHeaderBytes + kFirstStep + kLine.content - 1) / kLine.content;
  for (const std::size_t place :
       {std::size_t{kLine.bytes} - 8, std::size_t{kLines} * kLine.bytes - 8}) {
    World world;
    world.feed();
    std::byte* const word = world.world.link(0).sender(1).buffer + place;
    std::memset(word, 0, 8);
    auto primitives = world.primitives();
    EXPECT_FALSE(primitives.recv(World::kExtent));
    const KernelOutcome outcome = primitives.finish();
    EXPECT_EQ(outcome.end, KernelEnd::kSizeMismatch);
    EXPECT_EQ(outcome.expected, kFirstStep);
    EXPECT_EQ(world.world.link(0).head(), 0U);
  }
}

TEST(LinePrimitives, ATailThatPromisesTooMuchEndsTheKernel) {
  check_lines_that_have_not_come<Protocol::kLL>();
  check_lines_that_have_not_come<Protocol::kLL128>();
}

TEST(LinePrimitives, ATagOfAnotherCallIsSeenBeforeItsData) {
  LineWorld<Protocol::kLL> world;
  world.feed();
  world.items[0].tag ^= 1U;
  auto primitives = world.primitives();
  EXPECT_FALSE(primitives.recv(LineWorld<Protocol::kLL>::kExtent));
  EXPECT_EQ(primitives.finish().end, KernelEnd::kTagMismatch);
  EXPECT_EQ(world.output[0], -1.0F);
}

// Twice in a round of flags no line of a slot keeps an older one.
TEST(LinePrimitives, TheRestOfASlotIsFilledInTime) {
  LineWorld<Protocol::kLL> world;
  Link& link = world.world.link(0);
  const std::uint64_t begin = (std::uint64_t{1} << 31U) - link.steps() - 1;
  link.head() = link.tail() = begin;
  link.sender_cursor().step = link.receiver_cursor().step = begin;
  world.feed();
  ASSERT_EQ(link.tail(), begin + 3) << "two full steps and a part";
  const auto lines_with_flag = [&](std::uint64_t step) {
    std::uint32_t lines = 0;
    const std::byte* const slot = link.sender(1).buffer + step % link.steps() * 512;
    for (std::uint32_t place = 0; place < 512; place += sizeof(Line)) {
      Line line;
      std::memcpy(&line, slot + place, sizeof(line));
      lines += has_flag(line, step_flag(step)) ? 1 : 0;
    }
    return lines;
  };
  EXPECT_EQ(lines_with_flag(begin), 32U);
  EXPECT_EQ(lines_with_flag(begin + 1), 32U);
  EXPECT_EQ(lines_with_flag(begin + 2), 32U);
}

// An old line stays when a shorter step is written over it; the flag of another step is none.
TEST(LinePrimitives, LinesOfOlderStepsAreNotTakenForNewOnes) {
  LineWorld<Protocol::kLL> world;
  std::byte* const buffer = world.world.link(0).sender(1).buffer;
  // All lines of slot 0 are of step 8 - 8 of connections with 8 slots, except for those of step 8.
  for (std::uint32_t line = 0; line < 32; ++line) {
    const Line old = flagged_line(7, step_flag(0));
    std::memcpy(buffer + line * sizeof(old), &old, sizeof(old));
  }
  Link& link = world.world.link(0);
  link.head() = link.tail() = 8;
  link.sender_cursor().step = link.receiver_cursor().step = 8;
  world.items = world.world.items(1, world.task, 0, world.input.data(), world.output.data());
  std::atomic<std::uint32_t> abort{0};
  world.launch.abort = &abort;
  world.launch.progress = [](void* flag, bool) {
    static_cast<std::atomic<std::uint32_t>*>(flag)->store(1);
    return true;
  };
  world.launch.progress_context = &abort;
  auto primitives = world.primitives();
  EXPECT_FALSE(primitives.recv(LineWorld<Protocol::kLL>::kExtent));
  EXPECT_EQ(primitives.finish().end, KernelEnd::kAborted) << "it did not wait";
}

}  // namespace
}  // namespace weft::device::testing
