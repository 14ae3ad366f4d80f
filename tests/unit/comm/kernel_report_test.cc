// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a rank says of a kernel that ended badly on its own.
#include "core/comm/kernel_report.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <new>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/operation_tag.h"
#include "tests/support/memory_runtime.h"
#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

OperationTag tag_of(Operation operation, std::uint64_t count, std::uint32_t root = 0) {
  return make_operation_tag(
      {.operation = operation, .type = WEFT_FLOAT32, .root = root, .count = count}, 7);
}

/// What rank 1 of 3 says where its kernel found another tag than its own at rank 2.
std::string said_of(OperationTag own, OperationTag found) {
  test::MemoryRuntime runtime;
  const auto failure = std::make_shared<Failure>();
  const auto report = KernelReport::create(runtime, 1, 3, failure).value();
  *report->outcome() = {.end = KernelEnd::kTagMismatch, .peer = 2, .expected = own, .found = found};
  report->look();
  const auto known = failure->known();
  return known ? known->to_string() : "nothing";
}

// A stream that has been waited for, and the watch of the kernels, look at the same time.
TEST(KernelReport, WhoeverLooksFindsTheFailureRaised) {
  test::MemoryRuntime runtime;
  for (std::uint32_t time = 0; time < 2000; ++time) {
    const auto failure = std::make_shared<Failure>();
    const auto report = KernelReport::create(runtime, 1, 3, failure).value();
    *report->outcome() = {.end = KernelEnd::kTagMismatch,
                          .peer = 2,
                          .expected = tag_of(Operation::kAllGather, 10),
                          .found = tag_of(Operation::kAllGather, 20)};
    std::barrier together(2);
    std::uint32_t raised = 0;
    const auto look = [&] {
      together.arrive_and_wait();
      report->look();
      return failure->stopped();
    };
    auto other = std::async(std::launch::async, look);
    raised += look() ? 1 : 0;
    raised += other.get() ? 1 : 0;
    ASSERT_EQ(raised, 2U) << "time " << time;
  }
}

// A kernel has begun to tell, and its stream is waited for, another one of the communicator.
TEST(KernelReport, WhatIsBeingToldIsAwaited) {
  test::MemoryRuntime runtime;
  const auto failure = std::make_shared<Failure>();
  const auto report = KernelReport::create(runtime, 1, 3, failure).value();
  KernelOutcome& outcome = *report->outcome();
  outcome.end = KernelEnd::kBeingTold;
  auto looking = std::async(std::launch::async, [&] {
    report->look();
    return failure->known();
  });
  EXPECT_EQ(looking.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  outcome.peer = 2;
  outcome.expected = tag_of(Operation::kAllGather, 10);
  outcome.found = tag_of(Operation::kBroadcast, 10, 2);
  std::atomic_ref(outcome.end).store(KernelEnd::kTagMismatch, std::memory_order_release);
  const auto known = looking.get();
  ASSERT_TRUE(known.has_value());
  EXPECT_THAT(known->to_string(), HasSubstr("rank 2 called broadcast of as many float32"));
}

// Its device died in between: nobody waits for long.
TEST(KernelReport, WhatIsNeverToldToItsEndKeepsNobody) {
  test::MemoryRuntime runtime;
  const auto failure = std::make_shared<Failure>();
  const auto report = KernelReport::create(runtime, 1, 3, failure).value();
  report->outcome()->end = KernelEnd::kBeingTold;
  report->look();
  const auto begin = std::chrono::steady_clock::now();
  for (int look = 0; look < 20; ++look)
    report->look();  // now and then, by those who must not block
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_FALSE(failure->stopped());
}

// And nobody who looks meanwhile waits for ever.
TEST(KernelReport, WhatThereIsNoMemoryToTellIsToldLater) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  test::MemoryRuntime runtime;
  const auto failure = std::make_shared<Failure>();
  const auto report = KernelReport::create(runtime, 1, 3, failure).value();
  *report->outcome() = {.end = KernelEnd::kTagMismatch,
                        .peer = 2,
                        .expected = tag_of(Operation::kAllGather, 10),
                        .found = tag_of(Operation::kAllGather, 20)};
  const auto look_without_memory = [&] {
    const test::NoMemory none;
    report->look();
  };
  EXPECT_THROW(look_without_memory(), std::bad_alloc);
  EXPECT_FALSE(failure->stopped());
  auto looking = std::async(std::launch::async, [&] { report->look(); });
  // What never ends must not keep the test.
  if (looking.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
    ADD_FAILURE() << "it waits for the one that had no memory";
    failure->suspect(Error(WEFT_ERROR_INTERNAL, "so that it ends"));
  }
  looking.get();
  const auto known = failure->known();
  ASSERT_TRUE(known.has_value());
  EXPECT_THAT(known->to_string(), HasSubstr("rank 2 called all_gather"));
}

TEST(KernelReport, ANumberThatDiffersIsCalledAnother) {
  const std::string text =
      said_of(tag_of(Operation::kAllGather, 10), tag_of(Operation::kAllGather, 20));
  EXPECT_THAT(text, HasSubstr("rank 1 called all_gather of some float32 (call 7)"));
  EXPECT_THAT(text, HasSubstr("rank 2 called all_gather of another number of float32 (call 7)"));
}

TEST(KernelReport, AWindowIsNamed) {
  Task task{.operation = Operation::kAllGather, .type = WEFT_FLOAT32, .count = 10};
  const OperationTag outside = make_operation_tag(task, 7);
  task.place = 1;
  const OperationTag here = make_operation_tag(task, 7);
  task.place = 2;
  const OperationTag there = make_operation_tag(task, 7);
  EXPECT_THAT(said_of(outside, here),
              HasSubstr("rank 1 called all_gather of some float32 (call 7), but rank 2 called "
                        "all_gather of another number of float32 through a window (call 7);"));
  EXPECT_THAT(said_of(here, there),
              HasSubstr("rank 2 called all_gather of another number of float32 through a window "
                        "(call 7), or at another place of it"));
}

// Whose limit of channels may be all that differs.
TEST(KernelReport, OptionsAreNamed) {
  Task task{.operation = Operation::kAllReduce, .type = WEFT_FLOAT32, .count = 10};
  const OperationTag free = make_operation_tag(task, 7);
  task.options = {.algorithm = Algorithm::kDirect, .protocol = Protocol::kLL128};
  const OperationTag named = make_operation_tag(task, 7);
  task.options.max_channels = 2;
  const OperationTag limited = make_operation_tag(task, 7);
  EXPECT_THAT(said_of(free, named),
              HasSubstr("rank 1 called all_reduce of some float32 by sum (call 7), but rank 2 "
                        "called all_reduce of as many float32 by sum as direct with ll128 (call"));
  EXPECT_THAT(said_of(named, limited),
              HasSubstr("rank 2 called all_reduce of perhaps another number of float32 by sum as "
                        "direct with ll128 on a limited number of channels (call 7)"));
}

TEST(KernelReport, AnotherOperationOnAsManyElements) {
  EXPECT_THAT(said_of(tag_of(Operation::kAllGather, 10), tag_of(Operation::kAllToAll, 10)),
              HasSubstr("rank 2 called all_to_all of as many float32"));
}

// Both ends of a message have its sender's call for a tag.
TEST(KernelReport, WhoReceivesSaysSo) {
  const std::string text =
      said_of(tag_of(Operation::kSend, 10, 1), tag_of(Operation::kSend, 20, 1));
  EXPECT_THAT(text, HasSubstr("rank 1 called recv of some float32 from rank 2"));
  EXPECT_THAT(text, HasSubstr("rank 2 called send of another number of float32 to rank 1"));
}

TEST(KernelReport, WhoSendsSaysThat) {
  EXPECT_THAT(said_of(tag_of(Operation::kSend, 10, 2), tag_of(Operation::kSend, 20, 2)),
              HasSubstr("rank 1 called send of some float32 to rank 2"));
}

}  // namespace
}  // namespace weft
