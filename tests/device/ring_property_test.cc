// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Any ring, any sizes, any run of operations: all ranks hold the sum, the guards stand, and the
// cursors of both ends of each connection agree.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

/// One call of any operation; a type is drawn by its place among all that reduce.
void any_operation(RingWorld& world, RingRunner& runner, std::uint64_t sequence) {
  const std::uint32_t ranks = world.shape().ranks;
  Task task;
  task.operation =
      *rc::gen::element(Operation::kAllReduce, Operation::kBroadcast, Operation::kAllGather,
                        Operation::kReduceScatter, Operation::kReduce);
  task.reduction = *rc::gen::inRange<weft_reduction>(WEFT_SUM, WEFT_AVG + 1);
  if (has_root(task.operation)) task.root = *rc::gen::inRange<std::uint32_t>(0, ranks);
  task.count = *rc::gen::inRange<std::uint64_t>(0, has_blocks(task.operation) ? 2000 : 6000);
  const Buffers how{.in_place = *rc::gen::arbitrary<bool>(),
                    .shift = *rc::gen::inRange<std::uint32_t>(0, 16),
                    .sequence = sequence};
  const auto check = [&]<class T>(T) {
    task.type = kTypeOf<T>;
    check_operation<T>(world, runner, task, how);
  };
  switch (*rc::gen::inRange(0, 12)) {
    case 0:
      return check(float{});
    case 1:
      return check(double{});
    case 2:
      return check(Float16{});
    case 3:
      return check(Bfloat16{});
    case 4:
      return check(std::int8_t{});
    case 5:
      return check(std::uint8_t{});
    case 6:
      return check(std::int32_t{});
    case 7:
      return check(std::uint32_t{});
    case 8:
      return check(std::int64_t{});
    case 9:
      return check(Float8E4M3{});
    case 10:
      return check(Float8E5M2{});
    default:
      return check(std::uint64_t{});
  }
}

void any_run_of_operations() {
  RingShape shape;
  shape.ranks = *rc::gen::inRange<std::uint32_t>(1, 9);
  shape.channels = *rc::gen::inRange<std::uint32_t>(1, 5);
  shape.steps = *rc::gen::inRange<std::uint32_t>(2, 9);
  // Small ones for many steps; large ones for chunks that may be cut smaller at the end.
  shape.step_bytes = *rc::gen::element(64U, 64U, 4096U) * *rc::gen::inRange<std::uint32_t>(1, 9);
  shape.chunk_steps = *rc::gen::inRange<std::uint32_t>(1, shape.steps);
  shape.sleepers = *rc::gen::arbitrary<bool>();
  shape.downwards = *rc::gen::arbitrary<bool>();
  shape.protocol = *rc::gen::element(Protocol::kSimple, Protocol::kLL, Protocol::kLL128);
  if (has_lines(shape.protocol)) shape.step_bytes = (shape.step_bytes + 255) / 256 * 256;
  const auto threads =
      *rc::gen::element(RingRunner::Threads::kOne, RingRunner::Threads::kOnePerRank);
  RingWorld world(shape);
  RingRunner runner(shape.ranks, threads);
  const int operations = *rc::gen::inRange(1, 4);
  for (int i = 0; i < operations; ++i) {
    any_operation(world, runner, static_cast<std::uint64_t>(i));
    RC_ASSERT(!::testing::Test::HasFailure());
  }
  if (shape.ranks == 1) return;
  for (std::uint32_t channel = 0; channel < shape.channels; ++channel) {
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      Link& link = world.link(rank, channel);
      RC_ASSERT(link.sender_cursor().step == link.receiver_cursor().step);
      RC_ASSERT(link.head() == link.tail());
      RC_ASSERT(link.tail() == link.sender_cursor().step);
    }
  }
}

TEST(RingProperty, AnyRunOfOperations) {
  EXPECT_TRUE(rc::check("rings carry any run of operations", any_run_of_operations));
}

}  // namespace
}  // namespace weft::device::testing
