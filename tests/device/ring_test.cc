// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings on the host device: every rank is a stream of one device, launched and synchronized by one
// thread, or by a thread of its own.
#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "core/device/host/host_device.h"
#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

TEST(Ring, TwoRanksSumInOneThread) {
  RingWorld world({.ranks = 2});
  RingRunner runner(2);
  check_all_reduce<float>(world, runner, 1000, WEFT_SUM, {});
}

}  // namespace
}  // namespace weft::device::testing
