// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The first cause stays, suspicions wait for something better, and the hook runs once.
#include "core/comm/failure.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

Error suspicion() {
  return {WEFT_ERROR_PEER, "rank 2 hung up"};
}
Error cause(const std::string& what = "rank 1 died") {
  return {WEFT_ERROR_TIMEOUT, what};
}

struct Hooked {
  explicit Hooked(Failure& failure) {
    failure.set_hook([this](const Error& error, bool tell) {
      ++calls;
      what = error.what();
      tell_others = tell;
    });
  }
  std::atomic<int> calls{0};
  std::string what;
  bool tell_others = false;
};

TEST(Failure, BeginsWithNone) {
  Failure failure;
  EXPECT_FALSE(failure.stopped());
  EXPECT_EQ(failure.abort_flag().load(), 0U);
  EXPECT_EQ(failure.code(), WEFT_OK);
  EXPECT_FALSE(failure.settle());
}

TEST(Failure, KeepsTheFirstCauseAndTellsItOnce) {
  Failure failure;
  const Hooked hook(failure);
  failure.establish(cause(), true);
  failure.establish(cause("another"), false);
  failure.suspect(suspicion());
  EXPECT_TRUE(failure.stopped());
  EXPECT_EQ(failure.code(), WEFT_ERROR_TIMEOUT);
  EXPECT_EQ(failure.settle()->what(), "rank 1 died");
  EXPECT_EQ(hook.calls, 1);
  EXPECT_EQ(hook.what, "rank 1 died");
  EXPECT_TRUE(hook.tell_others);
}

TEST(Failure, TellsAHookThatComesLate) {
  Failure failure;
  failure.establish(cause(), false);
  const Hooked hook(failure);
  EXPECT_EQ(hook.calls, 1);
  EXPECT_FALSE(hook.tell_others);
  const Hooked second(failure);
  EXPECT_EQ(second.calls, 0);
}

TEST(Failure, StopsAtASuspicionAndTakesTheBetterCause) {
  Failure failure;
  const Hooked hook(failure);
  failure.suspect(suspicion());
  EXPECT_TRUE(failure.stopped());
  EXPECT_EQ(failure.code(), WEFT_ERROR_PEER);
  EXPECT_EQ(hook.calls, 0);
  std::thread watch([&] { failure.establish(cause(), false); });
  EXPECT_EQ(failure.settle()->what(), "rank 1 died");
  watch.join();
  EXPECT_EQ(failure.code(), WEFT_ERROR_TIMEOUT);
  EXPECT_EQ(hook.calls, 1);
  EXPECT_FALSE(hook.tell_others);
}

TEST(Failure, TakesTheSuspicionWhenNothingBetterComes) {
  Failure failure;
  const Hooked hook(failure);
  failure.suspect(suspicion());
  failure.suspect({WEFT_ERROR_SYSTEM, "a second one"});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(failure.settle()->what(), "rank 2 hung up");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, Failure::kPatience / 2);
  EXPECT_EQ(hook.calls, 1);
  EXPECT_TRUE(hook.tell_others);
  // Settled: nobody waits again, and what comes now is too late.
  failure.establish(cause(), false);
  EXPECT_EQ(failure.settle()->what(), "rank 2 hung up");
  EXPECT_EQ(hook.calls, 1);
}

TEST(Failure, EstablishesOneOfManyCausesAtOnce) {
  for (int round = 0; round < 50; ++round) {
    Failure failure;
    const Hooked hook(failure);
    std::latch start(4);
    std::vector<std::thread> threads;
    std::vector<std::string> seen(4);
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        if (i == 0) failure.suspect(suspicion());
        failure.establish(cause(std::to_string(i)), i % 2 == 0);
        seen[i] = failure.settle()->what();
      });
    }
    for (auto& thread : threads)
      thread.join();
    EXPECT_EQ(hook.calls, 1);
    for (const auto& what : seen)
      EXPECT_EQ(what, hook.what);
  }
}

// Whoever has the cause may free its buffers, from which the hook has yet to drive the connections.
TEST(Failure, AnswersTheCauseOnceTheHookHasRun) {
  Failure failure;
  std::latch running(1);
  std::atomic<bool> answered{false};
  std::atomic<bool> too_soon{false};
  failure.set_hook([&](const Error&, bool) {
    running.count_down();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (!answered && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    too_soon = answered.load();
  });
  std::thread other([&] { failure.establish(cause(), true); });
  running.wait();
  EXPECT_TRUE(failure.settle());
  answered = true;
  other.join();
  EXPECT_FALSE(too_soon);
}

// What the hook uses may go once clear_hook has returned.
// Else nobody would be told, and who asks for the cause would wait for ever.
TEST(Failure, LetsAHookRunAgainThatLackedMemory) {
  Failure failure;
  int calls = 0;
  failure.set_hook([&](const Error&, bool) {
    if (++calls <= 3) throw std::bad_alloc();
  });
  EXPECT_THROW(failure.establish(cause(), true), std::bad_alloc);
  EXPECT_THROW(failure.establish(cause("another"), true), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(failure.known()), std::bad_alloc);
  EXPECT_EQ(failure.settle()->what(), "rank 1 died");
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(failure.code(), WEFT_ERROR_TIMEOUT);
  EXPECT_EQ(calls, 4);
}

// Others wait to be told, and nobody here need ask.
TEST(Failure, HasAnAlarmRunAHookThatLackedMemory) {
  Failure failure;
  std::vector<std::chrono::nanoseconds> alarms;
  failure.set_alarm([&](std::chrono::nanoseconds in) { alarms.push_back(in); });
  int calls = 0;
  failure.set_hook([&](const Error&, bool) {
    if (++calls <= 2) throw std::bad_alloc();
  });
  EXPECT_THROW(failure.establish(cause(), true), std::bad_alloc);
  EXPECT_EQ(alarms.size(), 1U);
  EXPECT_THROW(static_cast<void>(failure.known()), std::bad_alloc);
  EXPECT_EQ(alarms.size(), 2U);
  EXPECT_TRUE(failure.known());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(alarms.size(), 2U);
}

TEST(Failure, WaitsForARunningHookBeforeItIsCleared) {
  Failure failure;
  std::latch running(1);
  std::atomic<bool> done{false};
  failure.set_hook([&](const Error&, bool) {
    running.count_down();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  std::thread other([&] { failure.establish(cause(), true); });
  running.wait();
  failure.clear_hook();
  EXPECT_TRUE(done);
  other.join();
}

TEST(Failure, LetsNoHookRunOnceItWasCleared) {
  Failure failure;
  const Hooked hook(failure);
  failure.clear_hook();
  failure.establish(cause(), true);
  EXPECT_EQ(hook.calls, 0);
  EXPECT_TRUE(failure.settle());
}

}  // namespace
}  // namespace weft
