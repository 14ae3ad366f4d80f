// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The waiter and its poster: every phase of a wait ends when the counter comes.
#include "core/base/wait.h"

#include <atomic>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr auto kNever = [] { return false; };
constexpr auto kNothing = [](bool /*about_to_sleep*/) { return false; };

struct alignas(128) Counter {
  std::uint64_t value = 0;
  std::uint32_t waiters = 0;
};

TEST(Wait, ReadyAnswersAtOnceWithWhatItSaw) {
  Counter counter;
  post(&counter.value, &counter.waiters, 7);
  Waiter waiter;
  EXPECT_EQ(waiter.wait(&counter.value, &counter.waiters, 3, kNever, kNothing), 7U);
  EXPECT_EQ(waiter.sleeps(), 0U);
}

TEST(Wait, ASleeperIsWoken) {
  Counter counter;
  int payload = 0;
  std::uint64_t sleeps = 0;
  std::thread sleeper([&] {
    Waiter waiter;
    EXPECT_EQ(waiter.wait(&counter.value, &counter.waiters, 1, kNever, kNothing), 1U);
    EXPECT_EQ(payload, 42);
    sleeps = waiter.sleeps();
  });
  while (std::atomic_ref<std::uint32_t>(counter.waiters).load() == 0)
    std::this_thread::yield();
  payload = 42;
  post(&counter.value, &counter.waiters, 1);
  sleeper.join();
  EXPECT_GE(sleeps, 1U);
  EXPECT_EQ(counter.waiters, 0U);
}

TEST(Wait, WhoNeedsProgressMakesItAtOnce) {
  Counter counter;
  Waiter waiter;
  EXPECT_GT(waiter.spins(), 0U);
  waiter.expect_progress(true);
  EXPECT_EQ(waiter.spins(), 0U);
  int calls = 0;
  const auto bring = [&](bool about_to_sleep) {
    EXPECT_FALSE(about_to_sleep);
    post(&counter.value, &counter.waiters, ++calls == 2 ? 1 : 0);
    return true;
  };
  EXPECT_EQ(waiter.wait(&counter.value, &counter.waiters, 1, kNever, bring), 1U);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(waiter.sleeps(), 0U);
  EXPECT_EQ(waiter.spins(), 0U) << "whatever it has learnt";
}

TEST(Wait, WithAProcessorOfItsOwnItSleepsInTheEnd) {
  Counter counter;
  std::thread sleeper([&] {
    Waiter waiter;
    waiter.expect_own_processor(true);
    EXPECT_EQ(waiter.wait(&counter.value, &counter.waiters, 1, kNever, kNothing), 1U);
  });
  while (std::atomic_ref<std::uint32_t>(counter.waiters).load() == 0)
    std::this_thread::yield();
  post(&counter.value, &counter.waiters, 1);
  sleeper.join();
}

TEST(Wait, ASleepWithoutLimitIsWoken) {
  Counter counter;
  std::thread sleeper([&] {
    while (load_counter(&counter.value) < 1) {
      sleep_on(&counter.value, &counter.waiters, 1, std::chrono::nanoseconds(-1));
    }
  });
  while (std::atomic_ref<std::uint32_t>(counter.waiters).load() == 0)
    std::this_thread::yield();
  post(&counter.value, &counter.waiters, 1);
  sleeper.join();
}

TEST(Wait, WithoutAWaitersWordItNaps) {
  Counter counter;
  std::atomic<std::uint32_t> asked{0};
  std::thread sleeper([&] {
    Waiter waiter;
    const auto count = [&] {
      asked.fetch_add(1);
      return false;
    };
    EXPECT_EQ(waiter.wait(&counter.value, nullptr, 1, count, kNothing), 1U);
    EXPECT_EQ(waiter.sleeps(), 0U);
  });
  while (asked.load() < 3)
    std::this_thread::yield();
  post(&counter.value, nullptr, 1);
  sleeper.join();
}

TEST(Wait, LeavesWhenTold) {
  Counter counter;
  Waiter waiter;
  int asked = 0;
  const auto leave = [&] { return ++asked == 5; };
  EXPECT_EQ(waiter.wait(&counter.value, &counter.waiters, 1, leave, kNothing), 0U);
  EXPECT_EQ(asked, 5);
}

TEST(Wait, ProgressThatAchievesSomethingPutsOffSleep) {
  Counter counter;
  Waiter waiter;
  int calls = 0;
  const auto progress = [&](bool /*about_to_sleep*/) {
    if (++calls == 1000) post(&counter.value, &counter.waiters, 1);
    return true;
  };
  EXPECT_EQ(waiter.wait(&counter.value, &counter.waiters, 1, kNever, progress), 1U);
  EXPECT_EQ(calls, 1000);
  EXPECT_EQ(waiter.sleeps(), 0U);
}

TEST(Wait, NoPostIsLostBetweenTwoThreadsThatTakeTurns) {
  Counter ping;
  Counter pong;
  constexpr std::uint64_t kTurns = 20000;
  // Sleeping at once, the handshake alone must keep both going: no timeout helps.
  const auto wait = [](Counter& counter, std::uint64_t turn) {
    while (load_counter(&counter.value) < turn) {
      sleep_on(&counter.value, &counter.waiters, turn, std::chrono::nanoseconds(-1));
    }
  };
  std::thread other([&] {
    for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
      wait(ping, turn);
      post(&pong.value, &pong.waiters, turn);
    }
  });
  for (std::uint64_t turn = 1; turn <= kTurns; ++turn) {
    post(&ping.value, &ping.waiters, turn);
    wait(pong, turn);
  }
  other.join();
}

}  // namespace
}  // namespace weft
