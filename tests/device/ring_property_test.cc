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

void any_run_of_operations() {
  RingShape shape;
  shape.ranks = *rc::gen::inRange<std::uint32_t>(1, 9);
  shape.channels = *rc::gen::inRange<std::uint32_t>(1, 5);
  shape.steps = *rc::gen::inRange<std::uint32_t>(2, 9);
  shape.step_bytes = 64 * *rc::gen::inRange<std::uint32_t>(1, 9);
  shape.chunk_steps = *rc::gen::inRange<std::uint32_t>(1, shape.steps);
  shape.sleepers = *rc::gen::arbitrary<bool>();
  const auto threads =
      *rc::gen::element(RingRunner::Threads::kOne, RingRunner::Threads::kOnePerRank);
  RingWorld world(shape);
  RingRunner runner(shape.ranks, threads);
  const int operations = *rc::gen::inRange(1, 4);
  for (int i = 0; i < operations; ++i) {
    const auto count = *rc::gen::inRange<std::uint64_t>(0, 6000);
    const auto reduction = *rc::gen::element<weft_reduction>(WEFT_SUM, WEFT_MAX);
    const Buffers how{.in_place = *rc::gen::arbitrary<bool>(),
                      .shift = *rc::gen::inRange<std::uint32_t>(0, 16),
                      .sequence = static_cast<std::uint64_t>(i)};
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        check_all_reduce<float>(world, runner, count, reduction, how);
        break;
      case 1:
        check_all_reduce<std::int32_t>(world, runner, count, reduction, how);
        break;
      case 2:
        check_all_reduce<Float16>(world, runner, count, reduction, how);
        break;
      case 3:
        check_all_reduce<Bfloat16>(world, runner, count, reduction, how);
        break;
      default:
        check_broadcast<std::int16_t>(world, runner, count, WEFT_FLOAT16,
                                      *rc::gen::inRange<std::uint32_t>(0, shape.ranks), how);
    }
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
