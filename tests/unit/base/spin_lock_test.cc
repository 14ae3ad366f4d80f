// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/spin_lock.h"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(SpinLock, LetsOneInAtATime) {
  constexpr int kThreads = 8;
  constexpr int kTurns = 500;
  SpinLock lock;
  int inside = 0;
  int turns = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::scoped_lock held(lock);
        EXPECT_EQ(++inside, 1);
        ++turns;
        std::this_thread::yield();  // the others run meanwhile
        --inside;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
}

TEST(SpinLock, TellsWhetherItIsTaken) {
  SpinLock lock;
  EXPECT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

}  // namespace
}  // namespace weft
