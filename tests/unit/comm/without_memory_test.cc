// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that lack memory for a moment: what they leave behind.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/comm/group.h"
#include "core/comm/later_start.h"
#include "core/comm/member.h"
#include "core/device/host/host_device.h"
#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

/// Launches end at once, as of a GPU; it keeps what the latest was to do.
class ItemDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    const std::span<const WorkItem> items = launches.back().items;
    items_ = {items.begin(), items.end()};
    return WEFT_OK;
  }
  [[nodiscard]] const std::vector<WorkItem>& items() const { return items_; }

 private:
  std::vector<WorkItem> items_;
};

TEST(WithoutMemory, ACallThatIsMadeAgainDoesNotGoAsTheOneBefore) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  auto made = std::make_unique<ItemDevice>();
  const ItemDevice& device = *made;
  const test::Ranks ranks(2, "p2p",
                          {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"},
                           {"WEFT_COLLECTIVES_BROADCAST_ALGORITHM", "ring"}},
                          std::move(made));
  auto* const place = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  const auto call_of = [&](std::size_t rank, Operation operation, std::uint64_t count) {
    return Call{.communicator = ranks.communicators[rank].get(),
                .stream = ranks.streams[rank].get(),
                .task = {.operation = operation,
                         .type = WEFT_FLOAT32,
                         .reduction = WEFT_SUM,
                         .count = count},
                .send = place,
                .recv = place + (std::size_t{1} << 30)};
  };
  const auto by_both = [](const auto& action) {
    std::thread other([&] { action(1); });
    action(0);
    other.join();
  };
  by_both([&](std::size_t rank) {
    const Call call = call_of(rank, Operation::kBroadcast, 100);
    EXPECT_TRUE(start_calls({&call, 1}));
  });
  constexpr std::uint64_t kCount = std::uint64_t{1} << 24;
  by_both([&](std::size_t rank) {
    const Call call = call_of(rank, Operation::kAllReduce, kCount);
    const Call* const batch = &call;
    Communicator& communicator = *ranks.communicators[rank];
    EXPECT_TRUE(communicator.want_connections({&batch, 1}));
    EXPECT_TRUE(communicator.wait_for_connections({&batch, 1}, 0));
    EXPECT_TRUE(communicator.bind(call));
  });
  const Call call = call_of(0, Operation::kAllReduce, kCount);
  {
    const test::NoMemory none;
    EXPECT_THROW(static_cast<void>(start_calls({&call, 1})), std::bad_alloc);
  }
  EXPECT_TRUE(start_calls({&call, 1}));
  ASSERT_FALSE(device.items().empty());
  std::uint64_t count = 0;
  for (const WorkItem& item : device.items()) {
    EXPECT_EQ(item.operation, Operation::kAllReduce);
    count += item.count;
  }
  EXPECT_EQ(count, kCount);
}

/// Runs nothing: it keeps what it would run.
class KeepingDevice : public device::HostDevice {
 public:
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    kept_.insert(kept_.end(), launches.begin(), launches.end());
    return WEFT_OK;
  }
  /// As of the kernels of launch number `i`.
  weft_result end(std::size_t i, const KernelOutcome& outcome) {
    return kept_.at(i).finished(kept_.at(i).finished_context, outcome);
  }

 private:
  std::vector<Launch> kept_;
};

/// Two ranks whose broadcast is under way until the test ends it.
class EndWithoutMemory : public testing::Test {
 protected:
  EndWithoutMemory() : EndWithoutMemory(std::make_unique<KeepingDevice>()) {}
  void SetUp() override {
    if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
    std::array<Call, 2> calls;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      calls.at(rank) = {.communicator = ranks_.communicators[rank].get(),
                        .stream = ranks_.streams[rank].get(),
                        .task = {.operation = Operation::kBroadcast,
                                 .type = WEFT_FLOAT32,
                                 .count = memory_.size()},
                        .send = memory_.data(),
                        .recv = memory_.data()};
      const Call* const batch = &calls.at(rank);
      ASSERT_TRUE(batch->communicator->want_connections({&batch, 1}));
    }
    for (const Call& call : calls)
      ASSERT_TRUE(start_calls({&call, 1}));
  }
  void TearDown() override {
    if (!IsSkipped()) device_.end(1, {.end = KernelEnd::kAborted});
  }

 private:
  explicit EndWithoutMemory(std::unique_ptr<KeepingDevice> device)
      : device_(*device),
        ranks_(2, "p2p", {{"WEFT_COLLECTIVES_BROADCAST_ALGORITHM", "ring"}}, std::move(device)) {}
  std::array<float, 16> memory_{};

 protected:
  KeepingDevice& device_;
  test::Ranks ranks_;
};

TEST_F(EndWithoutMemory, ACallThatCannotTellWhyItFailedEnds) {
  weft_result told = WEFT_OK;
  {
    const test::NoMemory none;
    told = device_.end(0, {.end = KernelEnd::kPeerError, .peer = 1, .found = 2});
  }
  EXPECT_EQ(told, WEFT_ERROR_OUT_OF_MEMORY);
  const Status ended = ranks_.streams[0]->synchronize();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
}

TEST_F(EndWithoutMemory, AStreamTellsLaterWhatItCouldNotTell) {
  ranks_.communicators[0]->abort();
  EXPECT_EQ(device_.end(0, {.end = KernelEnd::kAborted}), WEFT_ERROR_ABORTED);
  {
    const test::NoMemory none(1);  // for the list of failures alone
    EXPECT_THROW(static_cast<void>(ranks_.streams[0]->synchronize()), std::bad_alloc);
  }
  const Status ended = ranks_.streams[0]->synchronize();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), WEFT_ERROR_ABORTED);
}

/// Two ranks whose latest call was a small one: what that took memory for is there.
class CountedWithoutMemory : public testing::Test {
 protected:
  static constexpr std::uint64_t kSmall = 16;
  static constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
  using Members = std::vector<std::unique_ptr<Communicator>>;

  void SetUp() override {
    if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
    for (auto& memory : memory_)
      memory.resize(2 * kLarge);
    run_small(ranks_.communicators);
  }

  template <class Action>
  static void by_both(const Action& action) {
    std::thread other([&] { action(std::size_t{1}); });
    action(std::size_t{0});
    other.join();
  }

  [[nodiscard]] Call call_of(std::size_t rank, const Members& members, Operation operation,
                             std::uint64_t count) {
    return {.communicator = members[rank].get(),
            .stream = ranks_.streams[rank].get(),
            .task = {.operation = operation,
                     .type = WEFT_FLOAT32,
                     .reduction = WEFT_SUM,
                     .root = joins_pair(operation) ? static_cast<std::uint32_t>(1 - rank) : 0,
                     .count = count},
            .send = memory_[rank].data(),
            .recv = memory_[rank].data() + kLarge};
  }

  void run_small(const Members& members) {
    by_both([&](std::size_t rank) {
      const Call call = call_of(rank, members, Operation::kAllReduce, kSmall);
      EXPECT_TRUE(start_calls({&call, 1}));
      EXPECT_TRUE(ranks_.streams[rank]->synchronize());
    });
  }

  static void connect(const Call& call) {
    const Call* const batch = &call;
    EXPECT_TRUE(call.communicator->want_connections({&batch, 1}));
    EXPECT_TRUE(call.communicator->wait_for_connections({&batch, 1}, 0));
    EXPECT_TRUE(call.communicator->is_connected(call));
    if (!is_planned(call.task.operation)) return;
    EXPECT_TRUE(call.communicator->bind(call));
  }

  /// Rank 0 lacks memory for the call of `operations`, each rank's own.
  void expect_that_both_fail(std::array<Operation, 2> operations, std::uint64_t count) {
    by_both([&](std::size_t rank) {
      connect(call_of(rank, ranks_.communicators, operations[rank], count));
    });
    const Call others = call_of(1, ranks_.communicators, operations[1], count);
    EXPECT_TRUE(start_calls({&others, 1}));
    const Call call = call_of(0, ranks_.communicators, operations[0], count);
    Status started;
    {
      const test::NoMemory none;
      started = start_calls({&call, 1});
    }
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
    // Nobody has asked rank 0 anything.
    const Status ended = ranks_.streams[1]->synchronize();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code(), WEFT_ERROR_PEER);
    EXPECT_EQ(ranks_.communicators[0]->async_error(), WEFT_ERROR_OUT_OF_MEMORY);
  }

  std::array<std::vector<float>, 2> memory_;
  test::Ranks ranks_{2,
                     "p2p",
                     {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"},
                      {"WEFT_CHANNELS_MAX", "4"},
                      {"WEFT_CHANNELS_LEAST_BYTES", "64KiB"}}};
};

TEST_F(CountedWithoutMemory, ACallWithAPlanIsTheEndOnAllRanks) {
  expect_that_both_fail({Operation::kAllReduce, Operation::kAllReduce}, kLarge);
}

TEST_F(CountedWithoutMemory, ASendIsTheEndOnBothRanks) {
  expect_that_both_fail({Operation::kSend, Operation::kRecv}, kSmall);
}

TEST_F(CountedWithoutMemory, AnExchangeIsTheEndOnAllRanks) {
  expect_that_both_fail({Operation::kAllToAll, Operation::kAllToAll}, kSmall);
}

TEST_F(CountedWithoutMemory, ALaunchThatTheDeviceRefusesIsTheEndOnAllRanks) {
  // A stream's first launch takes memory.
  ranks_.streams[0] = test::Ranks::value(Stream::create(ranks_.context()));
  expect_that_both_fail({Operation::kAllReduce, Operation::kAllReduce}, kSmall);
}

/// Two communicators of both ranks, in the order in which a group has them.
class GroupWithoutMemory : public CountedWithoutMemory {
 protected:
  void SetUp() override {
    CountedWithoutMemory::SetUp();
    if (IsSkipped()) return;
    ranks_.join(others_, 2);
    run_small(others_);
    if (others_.front()->number() < ranks_.communicators.front()->number()) {
      std::swap(others_, ranks_.communicators);
    }
    by_both(
        [&](std::size_t rank) { connect(call_of(rank, others_, Operation::kAllReduce, kLarge)); });
  }

  [[nodiscard]] Call small_call(std::size_t rank, const Members& members) {
    return call_of(rank, members, Operation::kAllReduce, kSmall);
  }
  [[nodiscard]] Call large_call(std::size_t rank) {
    return call_of(rank, others_, Operation::kAllReduce, kLarge);
  }

  Members others_;
};

TEST_F(GroupWithoutMemory, WhatWasPreparedBeforeIsWithdrawn) {
  const std::array theirs{small_call(1, ranks_.communicators), large_call(1)};
  EXPECT_TRUE(start_calls(theirs));
  const std::array calls{small_call(0, ranks_.communicators), large_call(0)};
  CallCutter cutter;
  const std::span<Piece> pieces = cutter.cut(calls);
  ASSERT_EQ(pieces.size(), 1U);
  Piece& piece = pieces.front();
  piece.launches.reserve(2);
  piece.communicators.reserve(2);
  Status started;
  {
    const test::NoMemory none;
    started = start_piece(piece, *piece.stream, IfOneFails::kNoneStarts);
  }
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(ranks_.streams[1]->synchronize());
  for (const Members* const members : {&ranks_.communicators, &others_}) {
    EXPECT_EQ(members->at(0)->async_error(), WEFT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(members->at(1)->async_error(), WEFT_ERROR_PEER);
  }
}

TEST_F(GroupWithoutMemory, WhatIsStartedLaterDoesNotGoMissingInSilence) {
  const std::unique_ptr<Stream> second = test::Ranks::value(Stream::create(ranks_.context()));
  const std::array theirs{small_call(1, ranks_.communicators), large_call(1)};
  EXPECT_TRUE(start_calls(theirs));
  std::array calls{small_call(0, ranks_.communicators), large_call(0)};
  calls[1].stream = second.get();
  CallCutter cutter;
  const std::span<Piece> pieces = cutter.cut(calls);
  ASSERT_EQ(pieces.size(), 2U);
  // There is memory for the first piece.
  pieces.front().launches.reserve(1);
  pieces.front().communicators.reserve(1);
  Stream& first = *ranks_.streams[0];
  ASSERT_EQ(first.runtime().reserve(first.device_stream(), {.pieces = 2, .launches = 1}), WEFT_OK);
  Status started;
  {
    const test::NoMemory none;
    started = start_calls(calls, cutter);
  }
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(ranks_.streams[1]->synchronize());
  EXPECT_TRUE(first.synchronize());
  EXPECT_EQ(others_[0]->async_error(), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(others_[1]->async_error(), WEFT_ERROR_PEER);
  for (const auto& member : ranks_.communicators)
    EXPECT_EQ(member->async_error(), WEFT_OK);
}

// Its retry would have another number than that of the other ranks.
TEST(WithoutMemory, ACountedCallOfAGpuIsTheEnd) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  test::Ranks ranks(2, "p2p", {{"WEFT_COLLECTIVES_BROADCAST_ALGORITHM", "ring"}},
                    std::make_unique<ItemDevice>());
  std::array<float, 16> memory{};
  const auto call_on = [&](std::size_t rank, Stream& stream) {
    return Call{
        .communicator = ranks.communicators[rank].get(),
        .stream = &stream,
        .task = {.operation = Operation::kBroadcast, .type = WEFT_FLOAT32, .count = memory.size()},
        .send = memory.data(),
        .recv = memory.data()};
  };
  std::thread other([&] {
    const Call call = call_on(1, *ranks.streams[1]);
    EXPECT_TRUE(start_calls({&call, 1}));
  });
  const Call first = call_on(0, *ranks.streams[0]);
  EXPECT_TRUE(start_calls({&first, 1}));
  other.join();
  const auto another = test::Ranks::value(Stream::create(ranks.context()));
  const Call call = call_on(0, *another);
  Status started;
  {
    const test::NoMemory none;
    started = start_calls({&call, 1});
  }
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  // Nobody has asked rank 0 anything.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ranks.communicators[1]->async_error() == WEFT_OK &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ranks.communicators[1]->async_error(), WEFT_ERROR_PEER);
  EXPECT_EQ(ranks.communicators[0]->async_error(), WEFT_ERROR_OUT_OF_MEMORY);
}

TEST(WithoutMemory, RanksThatCannotBeConnectedAreTold) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  test::Ranks ranks(2, "p2p");
  const Call call{
      .communicator = ranks.communicators[0].get(),
      .stream = ranks.streams[0].get(),
      .task = {.operation = Operation::kSend, .type = WEFT_FLOAT32, .root = 1, .count = 1}};
  const Call* const batch = &call;
  {
    const test::ReactorWithoutMemory none(ranks.context().reactor());
    EXPECT_TRUE(call.communicator->want_connections({&batch, 1}));
    none.await_refusal();
  }
  const Status connected = call.communicator->wait_for_connections({&batch, 1}, 0);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ranks.communicators[1]->async_error() == WEFT_OK &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ranks.communicators[1]->async_error(), WEFT_ERROR_PEER);
}

// Others wait for it in each step, and count the window.
TEST(WithoutMemory, ARankThatCannotRegisterAWindowSaysSo) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  test::Ranks ranks(2, "p2p", {{"WEFT_TIMEOUTS_BOOTSTRAP", "3s"}}, std::make_unique<ItemDevice>());
  std::array<float, 16> memory{};
  // So far it gets before it writes a document: the library for those ends a process that lacks
  // memory as it takes one apart.
  constexpr std::uint64_t kMost = 12;
  for (std::uint64_t more = 0; more < kMost; ++more) {
    std::vector<std::unique_ptr<Communicator>> members;
    ranks.join(members, 2);
    std::array<weft_result, 2> codes{};
    const auto register_one = [&](std::size_t rank) {
      const auto window = members[rank]->register_window(memory.data(), sizeof(memory));
      codes.at(rank) = window ? WEFT_OK : window.error().code();
    };
    std::thread other([&] { register_one(1); });
    try {
      const test::NoMemory none(more);
      register_one(0);
    } catch (const std::bad_alloc&) {
      codes[0] = WEFT_ERROR_INTERNAL;  // before anybody could be told
    }
    other.join();
    ASSERT_EQ(codes[0], WEFT_ERROR_OUT_OF_MEMORY) << "after " << more;
    ASSERT_EQ(codes[1], WEFT_ERROR_PEER) << "after " << more;
    ASSERT_EQ(members[0]->async_error(), WEFT_ERROR_OUT_OF_MEMORY) << "after " << more;
  }
}

/// A context as the C API has it.
class ApiWithoutMemory : public testing::Test {
 protected:
  ApiWithoutMemory() { owner_.context.reset(&ranks_.context()); }
  ~ApiWithoutMemory() override {
    static_cast<void>(owner_.context.release());  // it is ranks_'s
  }
  [[nodiscard]] bool is_in_group() { return owner_.context->open_group() != nullptr; }

  test::Ranks ranks_{1, "p2p"};
  weft_context owner_;
};

TEST_F(ApiWithoutMemory, AGroupEndsWithTheLackOfIt) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  weft_comm* comm = nullptr;
  ASSERT_EQ(weft_comm_init_all(&owner_, nullptr, 1, &comm), WEFT_OK);
  weft_stream* stream = nullptr;
  ASSERT_EQ(weft_stream_create(&owner_, &stream), WEFT_OK);
  float value = 3;
  const auto call = [&] {
    return weft_all_reduce(&value, &value, 1, WEFT_FLOAT32, WEFT_SUM, comm, stream);
  };
  ASSERT_EQ(weft_group_start(&owner_), WEFT_OK);
  {
    const test::NoMemory none;
    weft_result noted = WEFT_OK;
    for (int i = 0; i < 1000 && noted == WEFT_OK; ++i)
      noted = call();
    EXPECT_EQ(noted, WEFT_ERROR_OUT_OF_MEMORY);
  }
  EXPECT_EQ(weft_group_end(&owner_), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(is_in_group());
  EXPECT_EQ(weft_group_start(&owner_), WEFT_OK);
  EXPECT_EQ(call(), WEFT_OK);
  EXPECT_EQ(weft_group_end(&owner_), WEFT_OK);
  EXPECT_EQ(weft_stream_synchronize(stream), WEFT_OK);
  EXPECT_EQ(weft_stream_destroy(stream), WEFT_OK);
  EXPECT_EQ(weft_comm_destroy(comm), WEFT_OK);
}

TEST_F(ApiWithoutMemory, TheLastErrorIsToldAsItWas) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  EXPECT_EQ(weft_group_end(&owner_), WEFT_ERROR_INVALID_USAGE);
  std::array<char, 200> before{};
  weft_last_error(&owner_, before.data(), before.size());
  std::array<char, 200> without{};
  {
    const test::NoMemory none;
    weft_last_error(&owner_, without.data(), without.size());
  }
  EXPECT_STREQ(without.data(), before.data());
}

TEST_F(ApiWithoutMemory, ALackOfItIsTheLastErrorThen) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  EXPECT_EQ(weft_group_end(&owner_), WEFT_ERROR_INVALID_USAGE);
  weft_stream* stream = nullptr;
  weft_result answer = WEFT_OK;
  {
    const test::NoMemory none;
    answer = weft_stream_create(&owner_, &stream);
  }
  EXPECT_EQ(answer, WEFT_ERROR_OUT_OF_MEMORY);
  std::array<char, 200> text{};
  weft_last_error(&owner_, text.data(), text.size());
  EXPECT_STREQ(text.data(), "out of memory");
}

// A thread's first failure takes some for its text.
TEST_F(ApiWithoutMemory, NothingIsThrownWhereAnErrorFindsNoRoom) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  std::thread([&] {
    std::array<weft_result, 2> answers{};
    std::size_t size = 0;
    {
      const test::NoMemory none;
      answers = {weft_stream_create(&owner_, nullptr),
                 weft_comm_init_rank(&owner_, nullptr, 1, nullptr, 0, nullptr)};
      size = weft_last_error(&owner_, nullptr, 0);
    }
    for (const weft_result answer : answers)
      EXPECT_EQ(answer, WEFT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(size, 1U);
  }).join();
}

TEST_F(ApiWithoutMemory, AContextThatCannotBeMadeSaysSo) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  weft_context* context = nullptr;
  weft_result answer = WEFT_OK;
  {
    const test::NoMemory none;
    answer = weft_context_create(nullptr, &context);
  }
  EXPECT_EQ(answer, WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(context, nullptr);
}

TEST_F(ApiWithoutMemory, NoPairIsDescribed) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  std::array<weft_comm*, 2> comms{};
  ASSERT_EQ(weft_comm_init_all(&owner_, nullptr, comms.size(), comms.data()), WEFT_OK);
  const auto describe = [&] { return weft_comm_describe_pair(comms[0], 0, 1, nullptr, 0); };
  {
    const test::NoMemory none;
    EXPECT_EQ(describe(), 0U);
  }
  EXPECT_GT(describe(), 0U);
  for (weft_comm* const comm : comms)
    EXPECT_EQ(weft_comm_destroy(comm), WEFT_OK);
}

/// Gives `action`, which answers a Result<weft_result>, ever more memory until it is in progress;
/// calls `look` wherever it lacked some.
template <class Action, class Look>
void give_more_until_in_progress(const Action& action, const Look& look) {
  constexpr std::uint64_t kMost = 1000;
  for (std::uint64_t more = 0; more < kMost; ++more) {
    Result<weft_result> answer = WEFT_OK;
    try {
      const test::NoMemory none(more);
      answer = action();
    } catch (const std::bad_alloc&) {
      answer = fail(no_memory());
    }
    if (answer) {
      EXPECT_EQ(*answer, WEFT_IN_PROGRESS);
      return;
    }
    ASSERT_EQ(answer.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
    look();
  }
  FAIL() << "it never had enough";
}

/// Two ranks that call and end in the background.
class BackgroundWithoutMemory : public ApiWithoutMemory {
 protected:
  void SetUp() override {
    if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
    weft_comm_config config{};
    config.struct_size = sizeof(config);
    config.nonblocking = 1;
    ASSERT_EQ(weft_comm_init_all(&owner_, &config, 2, comms_.data()), WEFT_IN_PROGRESS);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(await(rank), WEFT_OK);
      ASSERT_EQ(weft_stream_create(&owner_, &streams_.at(rank)), WEFT_OK);
    }
  }
  void TearDown() override {
    for (weft_comm* const comm : comms_)
      EXPECT_EQ(weft_comm_destroy(comm), WEFT_OK);
    for (weft_stream* const stream : streams_)
      EXPECT_EQ(weft_stream_destroy(stream), WEFT_OK);
  }

  [[nodiscard]] Member& member(std::size_t rank) { return *comms_.at(rank)->member; }
  [[nodiscard]] weft_result await(std::size_t rank) {
    weft_result state = WEFT_IN_PROGRESS;
    while (state == WEFT_IN_PROGRESS) {
      std::this_thread::yield();
      EXPECT_EQ(weft_comm_get_async_error(comms_.at(rank), &state), WEFT_OK);
    }
    return state;
  }
  void expect_ready(std::size_t rank) {
    const auto state = member(rank).query();
    ASSERT_TRUE(state);
    ASSERT_EQ(*state, WEFT_OK);
  }

  std::array<weft_comm*, 2> comms_{};
  std::array<weft_stream*, 2> streams_{};
};

TEST_F(BackgroundWithoutMemory, ACallThatHasNoThreadLeavesItsRankReady) {
  std::array<float, 2> values{1, 2};
  const auto call_of = [&](std::size_t rank) {
    return Call{.communicator = member(rank).joined(),
                .stream = streams_.at(rank)->stream.get(),
                .task = {.operation = Operation::kAllReduce,
                         .type = WEFT_FLOAT32,
                         .reduction = WEFT_SUM,
                         .count = 1},
                .send = &values.at(rank),
                .recv = &values.at(rank),
                .background = &member(rank)};
  };
  const Call call = call_of(0);
  give_more_until_in_progress([&] { return start_later({&call, 1}); }, [&] { expect_ready(0); });
  const Call other = call_of(1);
  EXPECT_TRUE(start_later({&other, 1}));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(await(rank), WEFT_OK);
    EXPECT_EQ(weft_stream_synchronize(streams_.at(rank)), WEFT_OK);
    EXPECT_EQ(values.at(rank), 3);
  }
}

TEST_F(BackgroundWithoutMemory, ARankThatHasNoThreadToEndOnCanBeFinalizedAgain) {
  give_more_until_in_progress([&] { return member(0).finalize(); }, [&] { expect_ready(0); });
  EXPECT_TRUE(member(1).finalize());
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(await(rank), WEFT_OK);
}

TEST(WithoutMemory, ARankThatHasNoThreadToJoinOnGoes) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  test::Ranks ranks(1, "p2p");
  Context& context = ranks.context();
  const UniqueId id = test::Ranks::value(context.serve_rendezvous(context.config()));
  std::unique_ptr<Member> joining;
  std::unique_ptr<Communicator> communicator;
  const auto start = [&]() -> Result<weft_result> {
    WEFT_TRY_ASSIGN(joining, Member::start(std::move(communicator), id, {}));
    return WEFT_IN_PROGRESS;
  };
  const auto make = [&] {
    communicator = test::Ranks::value(
        Communicator::create(context, context.config(), 0, 1, context.runtime()));
  };
  make();
  give_more_until_in_progress(start, make);
  while (*joining->query() == WEFT_IN_PROGRESS)
    std::this_thread::yield();
  EXPECT_EQ(*joining->query(), WEFT_OK);
}

// Threads of those before it wait to be told whether they begin.
TEST(WithoutMemory, AGroupThatHasNoThreadForARankEnds) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  std::atomic<int> run = 0;
  Group group;
  const auto end = [&]() -> Result<weft_result> {
    WEFT_TRY(group.end());
    return WEFT_IN_PROGRESS;
  };
  const auto fill = [&] {
    EXPECT_EQ(run, 0);
    group.start();
    for (int i = 0; i < 4; ++i) {
      group.add_blocking(
          nullptr,
          [&run]() -> Status {
            ++run;
            return {};
          },
          [] {}, [] {});
    }
  };
  fill();
  give_more_until_in_progress(end, fill);
  EXPECT_EQ(run, 4);
}

}  // namespace
}  // namespace weft
