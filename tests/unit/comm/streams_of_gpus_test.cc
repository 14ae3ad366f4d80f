// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Streams of devices whose kernels do not call back, as GPUs' do not: which of them a call is
// ordered after, captured ones among them, and what they tell of work that ended badly.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/member.h"
#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using test::Ranks;

/// Notes what it is asked for, and runs none of it.
class OrderedDevice : public device::HostDevice {
 public:
  using Pair = std::pair<const DeviceStream*, const DeviceStream*>;

  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> /*launches*/) override {
    return WEFT_OK;
  }
  std::uint64_t capture_number(DeviceStream* stream) override {
    const std::scoped_lock lock(mutex_);
    const auto found = captures_.find(stream);
    return found == captures_.end() ? 0 : found->second;
  }
  weft_result order_after(DeviceStream* stream, DeviceStream* earlier,
                          std::uint64_t /*piece*/) override {
    const std::scoped_lock lock(mutex_);
    orders_.emplace(stream, earlier);
    return WEFT_OK;
  }
  weft_result synchronize(DeviceStream* stream) override {
    const std::scoped_lock lock(mutex_);
    waits_.push_back(stream);
    return lost_ ? WEFT_ERROR_DEVICE : WEFT_OK;
  }
  weft_result query(DeviceStream* stream) override { return synchronize(stream); }
  void leave_stream(DeviceStream* stream) override {
    const std::scoped_lock lock(mutex_);
    left_.insert(stream);
  }
  [[nodiscard]] bool is_lasting(const DeviceStream* stream) const override {
    return stream == lasting;
  }
  bool is_lost() override {
    const std::scoped_lock lock(mutex_);
    return lost_;
  }

  /// By the capture of that number; 0: by none any more.
  void capture(const DeviceStream* stream, std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    captures_[stream] = number;
  }
  void capture(const Stream& stream, std::uint64_t number) {
    capture(stream.device_stream(), number);
  }
  void lose() {
    const std::scoped_lock lock(mutex_);
    lost_ = true;
  }
  /// Which were ordered after which, and which were waited for or asked, since this was asked last.
  std::set<Pair> orders() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(orders_, {});
  }
  /// Those that their owners have left.
  std::set<const DeviceStream*> left() {
    const std::scoped_lock lock(mutex_);
    return left_;
  }
  std::vector<const DeviceStream*> waits() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(waits_, {});
  }

  const DeviceStream* lasting = nullptr;  ///< Set before calls are made.

 private:
  std::mutex mutex_;
  std::map<const DeviceStream*, std::uint64_t> captures_;
  std::set<Pair> orders_;
  std::vector<const DeviceStream*> waits_;
  std::set<const DeviceStream*> left_;
  bool lost_ = false;
};

using Orders = std::set<OrderedDevice::Pair>;
using Waits = std::vector<const DeviceStream*>;

class StreamsOfGpus : public testing::Test {
 protected:
  OrderedDevice& device() { return dynamic_cast<OrderedDevice&>(ranks_.context().runtime()); }
  std::unique_ptr<Stream> stream() { return Ranks::value(Stream::create(ranks_.context())); }
  Communicator& communicator(std::uint32_t rank) { return *ranks_.communicators[rank]; }

  /// By both ranks, each on its own of two streams.
  void call(const std::unique_ptr<Stream> (&streams)[2]) {
    for (const Status& called : try_call(streams))
      EXPECT_TRUE(called) << test::text_of(called);
  }
  std::array<Status, 2> try_call(const std::unique_ptr<Stream> (&streams)[2]) {
    std::array<Status, 2> called;
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Call call{.task = {.operation = Operation::kAllReduce,
                           .type = WEFT_FLOAT32,
                           .reduction = WEFT_SUM,
                           .count = 1000},
                  .send = place_,
                  .recv = place_};
        call.communicator = &communicator(rank);
        call.stream = streams[rank].get();
        called[rank] = start_calls({&call, 1});
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    return called;
  }
  OrderedDevice::Pair after(const std::unique_ptr<Stream>& stream,
                            const std::unique_ptr<Stream>& earlier) {
    return {stream->device_stream(), earlier->device_stream()};
  }

  Ranks ranks_{2, "p2p", {}, std::make_unique<OrderedDevice>()};
  std::byte* const place_ = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // nobody looks
};

TEST_F(StreamsOfGpus, WhatIsCapturedOrdersNothingOutsideOfIt) {
  const std::unique_ptr<Stream> first[2] = {stream(), stream()};
  const std::unique_ptr<Stream> captured[2] = {stream(), stream()};
  const std::unique_ptr<Stream> forked[2] = {stream(), stream()};
  call(first);
  EXPECT_TRUE(device().orders().empty());
  for (const auto* streams : {&captured, &forked}) {
    for (const auto& each : *streams)
      device().capture(*each, 1);
  }
  call(captured);
  static_cast<void>(device().orders());  // of no effect across the border of a capture
  call(forked);
  EXPECT_EQ(device().orders(),
            (Orders{after(forked[0], captured[0]), after(forked[1], captured[1])}));
  call(captured);
  EXPECT_EQ(device().orders(),
            (Orders{after(captured[0], forked[0]), after(captured[1], forked[1])}));
  for (const auto* streams : {&captured, &forked}) {
    for (const auto& each : *streams)
      device().capture(*each, 0);
  }
  call(captured);
  EXPECT_EQ(device().orders(),
            (Orders{after(captured[0], first[0]), after(captured[1], first[1])}));
  call(captured);
  EXPECT_TRUE(device().orders().empty());
}

// What such a stream was given since is no part of it.
TEST_F(StreamsOfGpus, OneThatJoinsACaptureComesAfterWhatThatHolds) {
  const std::unique_ptr<Stream> joining[2] = {stream(), stream()};
  const std::unique_ptr<Stream> origin[2] = {stream(), stream()};
  call(joining);
  for (const auto& each : origin)
    device().capture(*each, 1);
  call(origin);
  call(joining);
  for (const auto& each : joining)
    device().capture(*each, 1);
  static_cast<void>(device().orders());
  call(joining);
  EXPECT_EQ(device().orders(),
            (Orders{after(joining[0], origin[0]), after(joining[1], origin[1])}));
  call(joining);
  EXPECT_TRUE(device().orders().empty());
}

TEST_F(StreamsOfGpus, EachOfSeveralCapturesKeepsItsOrder) {
  std::unique_ptr<Stream> fork[2] = {stream(), stream()};
  const std::unique_ptr<Stream> other[2] = {stream(), stream()};
  const std::unique_ptr<Stream> origin[2] = {stream(), stream()};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    device().capture(*fork[rank], 1);
    device().capture(*other[rank], 2);
    device().capture(*origin[rank], 1);
  }
  call(fork);
  call(other);
  EXPECT_TRUE(device().orders().empty());
  const DeviceStream* const left[2] = {fork[0]->device_stream(), fork[1]->device_stream()};
  for (auto& each : fork)
    each.reset();
  call(origin);
  EXPECT_EQ(device().orders(),
            (Orders{{origin[0]->device_stream(), left[0]}, {origin[1]->device_stream(), left[1]}}));
  call(other);
  EXPECT_TRUE(device().orders().empty());
}

// Of one that its owner has left nothing tells when its capture ends.
TEST_F(StreamsOfGpus, ThoseLeftWithinCapturesAreNotAllKept) {
  std::weak_ptr<DeviceStream> first;
  for (std::uint64_t capture = 1; capture <= 100; ++capture) {
    const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
    for (const auto& each : streams)
      device().capture(*each, capture);
    call(streams);
    if (capture == 1) first = streams[0]->handle();
  }
  EXPECT_TRUE(first.expired());
}

// What is under way on the one cannot be waited for by the other meanwhile, and they would run side
// by side.
TEST_F(StreamsOfGpus, NoCallComesAfterOneThatIsCapturedOnlyNow) {
  const std::unique_ptr<Stream> first[2] = {stream(), stream()};
  const std::unique_ptr<Stream> second[2] = {stream(), stream()};
  call(first);
  for (const auto& each : first)
    device().capture(*each, 1);
  for (int time = 0; time < 2; ++time) {
    for (const Status& refused : try_call(second)) {
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), WEFT_ERROR_INVALID_USAGE);
    }
    call(first);  // as part of the capture
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(communicator(rank).async_error(), WEFT_OK) << "rank " << rank;
  for (const auto& each : second)
    device().capture(*each, 1);
  call(second);  // by the same capture
  for (const auto* streams : {&first, &second}) {
    for (const auto& each : *streams)
      device().capture(*each, 0);
  }
  static_cast<void>(device().orders());
  call(second);
  EXPECT_EQ(device().orders(), (Orders{after(second[0], first[0]), after(second[1], first[1])}));
}

// Of a group nothing is started then, though one of its calls could be.
TEST_F(StreamsOfGpus, AGroupOfWhichOneCallCannotBeOrderedIsLeftOutAsAWhole) {
  const std::unique_ptr<Stream> first[2] = {stream(), stream()};
  const std::unique_ptr<Stream> second[2] = {stream(), stream()};
  call(first);
  device().capture(*first[1], 1);
  std::vector<Call> calls;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Call& call = calls.emplace_back(Call{.task = {.operation = Operation::kAllReduce,
                                                  .type = WEFT_FLOAT32,
                                                  .reduction = WEFT_SUM,
                                                  .count = 1000},
                                         .send = place_,
                                         .recv = place_});
    call.communicator = &communicator(rank);
    call.stream = second[rank].get();
  }
  const std::uint64_t before = communicator(0).facts().calls;
  const Status refused = start_calls(calls);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_INVALID_USAGE);
  EXPECT_EQ(communicator(0).facts().calls, before);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(communicator(rank).async_error(), WEFT_OK) << "rank " << rank;
}

// Sends and receives of a group are one launch, on one of its streams.
TEST_F(StreamsOfGpus, AGroupOfTransfersIsCapturedOnAllItsStreamsOrOnNone) {
  const std::unique_ptr<Stream> sends[2] = {stream(), stream()};
  const std::unique_ptr<Stream> receives[2] = {stream(), stream()};
  const auto exchange = [&](std::uint32_t rank) {
    const auto transfer = [&](Operation operation, const std::unique_ptr<Stream>& on) {
      Call call{
          .task = {.operation = operation, .type = WEFT_FLOAT32, .root = 1 - rank, .count = 1000},
          .send = place_,
          .recv = place_};
      call.communicator = &communicator(rank);
      call.stream = on.get();
      return call;
    };
    return start_calls(std::array{transfer(Operation::kSend, sends[rank]),
                                  transfer(Operation::kRecv, receives[rank])});
  };
  const auto both = [&](const auto& expect) {
    std::thread other([&] { expect(exchange(1)); });
    expect(exchange(0));
    other.join();
  };
  const auto succeeds = [](const Status& called) { EXPECT_TRUE(called) << test::text_of(called); };
  const auto is_refused = [](const Status& called) {
    ASSERT_FALSE(called);
    EXPECT_EQ(called.error().code(), WEFT_ERROR_INVALID_USAGE);
  };
  both(succeeds);
  for (const auto* captured : {&sends, &receives}) {
    for (const auto& each : *captured)
      device().capture(*each, 1);
    if (captured == &sends) both(is_refused);
  }
  both(succeeds);
  for (const auto& each : sends)
    device().capture(*each, 0);
  both(is_refused);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(communicator(rank).async_error(), WEFT_OK) << "rank " << rank;
}

// Its owner ended it within the capture: nobody could ever end that for it.
TEST_F(StreamsOfGpus, OneThatWasLeftWithinACaptureKeepsNoCallFromBeingMade) {
  std::unique_ptr<Stream> first[2] = {stream(), stream()};
  call(first);
  for (auto& each : first) {
    device().capture(*each, 1);
    each.reset();
  }
  const std::unique_ptr<Stream> second[2] = {stream(), stream()};
  call(second);
}

// Nor can it be for the null stream, which all wrap that want to, while one is captured that would
// wait for it: it is used and asked again afterwards.
TEST_F(StreamsOfGpus, NoCallComesAfterOneOnTheNullStreamWhileAnotherIsCaptured) {
  std::unique_ptr<Stream> null[2] = {stream(), stream()};
  const std::unique_ptr<Stream> other[2] = {stream(), stream()};
  const DeviceStream* const lasting = null[0]->device_stream();
  device().lasting = lasting;
  call(null);
  device().capture(lasting, 1);
  null[0].reset();
  const Status refused = try_call(other)[0];
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_INVALID_USAGE);
  device().capture(lasting, 0);
  EXPECT_TRUE(try_call(other)[0]);
  EXPECT_TRUE(device().orders().contains({other[0]->device_stream(), lasting}));
}

// The null stream itself is never captured: a call there would end the other one's capture.
TEST_F(StreamsOfGpus, NoCallIsMadeOnTheNullStreamWhileAnotherIsCaptured) {
  const std::unique_ptr<Stream> null[2] = {stream(), stream()};
  const std::unique_ptr<Stream> other[2] = {stream(), stream()};
  const DeviceStream* const lasting = null[0]->device_stream();
  device().lasting = lasting;
  for (const bool was_called_there : {false, true}) {
    device().capture(lasting, 1);
    const Status refused = try_call(null)[0];
    ASSERT_FALSE(refused) << was_called_there;
    EXPECT_EQ(refused.error().code(), WEFT_ERROR_INVALID_USAGE);
    EXPECT_EQ(communicator(0).async_error(), WEFT_OK);
    device().capture(lasting, 0);
    EXPECT_TRUE(try_call(null)[0]);
  }
  EXPECT_TRUE(try_call(other)[0]);
}

TEST_F(StreamsOfGpus, WorkBeforeACaptureIsWaitedFor) {
  const std::unique_ptr<Stream> first[2] = {stream(), stream()};
  const std::unique_ptr<Stream> captured[2] = {stream(), stream()};
  call(first);
  for (const auto& each : captured)
    device().capture(*each, 1);
  call(captured);
  static_cast<void>(device().waits());
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_EQ(device().waits(), (Waits{first[0]->device_stream()}));
}

// Where a graph is replayed; each replay counts as a call.
TEST_F(StreamsOfGpus, ThatWereCapturedAreWaitedForOnceTheyNoLongerAre) {
  const std::unique_ptr<Stream> captured[2] = {stream(), stream()};
  for (const auto& each : captured)
    device().capture(*each, 1);
  call(captured);
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_TRUE(device().waits().empty());
  for (const auto& each : captured)
    device().capture(*each, 0);
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_EQ(device().waits(), (Waits{captured[0]->device_stream()}));
  const std::unique_ptr<Stream> other[2] = {stream(), stream()};
  call(other);
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_EQ(device().waits(), (Waits{other[0]->device_stream(), captured[0]->device_stream()}));
}

// A call before on the same stream, as programs warm up by, changes nothing about that.
TEST_F(StreamsOfGpus, ThatWereCapturedAfterACallAreWaitedForOnceTheyNoLongerAre) {
  const std::unique_ptr<Stream> captured[2] = {stream(), stream()};
  call(captured);
  for (const auto& each : captured)
    device().capture(*each, 1);
  call(captured);
  for (const auto& each : captured)
    device().capture(*each, 0);
  const std::unique_ptr<Stream> other[2] = {stream(), stream()};
  call(other);
  static_cast<void>(device().waits());
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_EQ(device().waits(), (Waits{other[0]->device_stream(), captured[0]->device_stream()}));
}

// A stream of the program's, wrapped anew where the wrapper before had been.
TEST_F(StreamsOfGpus, OneThatComesToBeWhereOneWasIsAnother) {
  for (int time = 0; time < 2; ++time) {
    const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
    call(streams);
    static_cast<void>(device().waits());
    EXPECT_TRUE(communicator(0).finish());
    EXPECT_EQ(device().waits(), (Waits{streams[0]->device_stream()}));
  }
}

// Its owner may end a stream that the program has wrapped while its work runs.
TEST_F(StreamsOfGpus, WhatIsLeftOfOneIsWaitedForAndComesFirst) {
  std::unique_ptr<Stream> first[2] = {stream(), stream()};
  call(first);
  const DeviceStream* const left[2] = {first[0]->device_stream(), first[1]->device_stream()};
  for (auto& each : first)
    each.reset();
  EXPECT_EQ(device().left(), (std::set{left[0], left[1]}));
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_EQ(device().waits(), (Waits{left[0]}));
  const std::unique_ptr<Stream> second[2] = {stream(), stream()};
  call(second);
  EXPECT_EQ(device().orders(),
            (Orders{{second[0]->device_stream(), left[0]}, {second[1]->device_stream(), left[1]}}));
}

TEST_F(StreamsOfGpus, ACaptureUnderWayIsLeftAlone) {
  const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
  call(streams);
  device().capture(*streams[0], 1);
  static_cast<void>(device().waits());
  EXPECT_TRUE(communicator(0).finish());
  EXPECT_TRUE(device().waits().empty());
}

// The program's stream would lose its capture.
TEST_F(StreamsOfGpus, AreNeitherWaitedForNorAskedWhileTheyAreCaptured) {
  const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
  call(streams);
  device().capture(*streams[0], 1);
  static_cast<void>(device().waits());
  const Status waited = streams[0]->synchronize();
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code(), WEFT_ERROR_INVALID_USAGE);
  const auto asked = streams[0]->query();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code(), WEFT_ERROR_INVALID_USAGE);
  EXPECT_TRUE(device().waits().empty());
  device().capture(*streams[0], 0);
  EXPECT_TRUE(streams[0]->synchronize());
  EXPECT_EQ(device().waits(), (Waits{streams[0]->device_stream()}));
}

TEST_F(StreamsOfGpus, TellOfACommunicatorThatHasGone) {
  const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
  call(streams);
  communicator(0).abort();
  ranks_.communicators[0].reset();
  const Status told = streams[0]->synchronize();
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), WEFT_ERROR_ABORTED);
  EXPECT_TRUE(streams[0]->synchronize()) << "it was told";
}

TEST_F(StreamsOfGpus, TellNothingOfOneWhoseWorkHadEndedWell) {
  const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
  call(streams);
  EXPECT_TRUE(streams[0]->synchronize());
  communicator(0).abort();
  ranks_.communicators[0].reset();
  const Status told = streams[0]->synchronize();
  EXPECT_TRUE(told) << test::text_of(told);
}

// Also those who only received, say, in a group of several streams.
TEST_F(StreamsOfGpus, OfAGroupAllTell) {
  const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Stream> second = rank == 0 ? nullptr : stream();
      std::vector<Call> calls(2);
      for (std::size_t i = 0; i < 2; ++i) {
        calls[i].task = {.operation = i == 0 ? Operation::kSend : Operation::kRecv,
                         .type = WEFT_FLOAT32,
                         .root = 1 - rank,
                         .count = 1000};
        (i == 0 ? calls[i].send = place_ : calls[i].recv = place_);
        calls[i].communicator = &communicator(rank);
        calls[i].stream = rank == 0 ? streams[i].get() : second.get();
      }
      const Status called = start_calls(calls);
      EXPECT_TRUE(called) << test::text_of(called);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  communicator(0).abort();
  for (const auto& each : streams) {
    const Status told = each->synchronize();
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code(), WEFT_ERROR_ABORTED);
  }
}

// Of a group of one thread for both ranks, the calls of one rank on a stream of its own each. What
// has no elements is started without a look at captures.
TEST(StreamsOfGpusOverANet, AGroupThatACaptureCannotHoldIsLeftOutAsAWhole) {
  Ranks ranks(2, "net-socket", {}, std::make_unique<OrderedDevice>());
  auto& device = dynamic_cast<OrderedDevice&>(ranks.context().runtime());
  std::byte* const place = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  std::vector<Call> calls;
  for (const std::uint64_t count : {0U, 1000U}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      Call call{.task = {.operation = Operation::kBroadcast, .type = WEFT_FLOAT32, .count = count},
                .send = place,
                .recv = place};
      call.communicator = ranks.communicators[rank].get();
      call.stream = ranks.streams[rank].get();
      calls.push_back(call);
    }
  }
  for (const auto& stream : ranks.streams)
    device.capture(*stream, 1);
  const Status refused = start_calls(calls);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_UNSUPPORTED);
  for (const auto& stream : ranks.streams)
    device.capture(*stream, 0);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(ranks.communicators[rank]->async_error(), WEFT_OK) << "rank " << rank;
  const Status started = start_calls(calls);
  EXPECT_TRUE(started) << test::text_of(started);
  for (const auto& communicator : ranks.communicators)
    communicator->abort();  // no kernel sends what their ends would wait for
}

/// A communicator of two ranks on GPUs that a net joins, and which go on in the background.
class StreamsOfGpusInTheBackground : public testing::Test {
 protected:
  StreamsOfGpusInTheBackground() {
    Context& context = ranks_.context();
    const UniqueId id = Ranks::value(context.serve_rendezvous(context.config()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto joining =
          Ranks::value(Communicator::create(context, context.config(), rank, 2, context.runtime()));
      members_[rank] = Ranks::value(Member::start(std::move(joining), id, {}));
    }
    for (const auto& member : members_) {
      EXPECT_EQ(end_of(*member), WEFT_OK);
      communicators_.push_back(Ranks::value(member->for_calls()));
    }
  }
  // No kernel sends what their ends would wait for.
  ~StreamsOfGpusInTheBackground() override {
    for (Communicator* communicator : communicators_)
      communicator->abort();
  }

  static weft_result end_of(Member& member) {
    for (;;) {
      const auto asked = member.query();
      if (!asked) return asked.error().code();
      if (*asked != WEFT_IN_PROGRESS) return *asked;
      std::this_thread::yield();
    }
  }
  Call broadcast(std::uint32_t rank, std::uint32_t stream) {
    std::byte* const place = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    Call call{.task = {.operation = Operation::kBroadcast, .type = WEFT_FLOAT32, .count = 1000},
              .send = place,
              .recv = place};
    call.communicator = communicators_[rank];
    call.background = members_[rank].get();
    call.stream = ranks_.streams[stream].get();
    return call;
  }
  void capture(std::uint64_t number) {
    for (const auto& stream : ranks_.streams)
      dynamic_cast<OrderedDevice&>(ranks_.context().runtime()).capture(*stream, number);
  }
  void expect_all_well() {
    for (const auto& member : members_)
      EXPECT_EQ(end_of(*member), WEFT_OK);
  }

  Ranks ranks_{2, "net-socket", {}, std::make_unique<OrderedDevice>()};
  std::unique_ptr<Member> members_[2];
  std::vector<Communicator*> communicators_;
};

// Where it is refused nothing goes on, and nobody fails.
TEST_F(StreamsOfGpusInTheBackground, ACallThatACaptureCannotHoldIsRefusedAtOnce) {
  capture(1);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto refused = begin_calls(broadcast(rank, rank));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), WEFT_ERROR_UNSUPPORTED);
  }
  expect_all_well();
  capture(0);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_TRUE(begin_calls(broadcast(rank, rank))) << "rank " << rank;
  expect_all_well();
}

TEST_F(StreamsOfGpusInTheBackground, AGroupThatACaptureCannotHoldIsRefusedAtOnce) {
  const std::vector<Call> calls = {broadcast(0, 0), broadcast(1, 1)};
  CallCutter cutter;
  capture(1);
  const auto refused = begin_calls(calls, cutter);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_UNSUPPORTED);
  expect_all_well();
  capture(0);
  EXPECT_TRUE(begin_calls(calls, cutter));
  expect_all_well();
}

// Sends and receives on streams of which one is captured.
TEST_F(StreamsOfGpusInTheBackground, AGroupThatIsHalfCapturedIsRefusedAtOnce) {
  std::vector<Call> calls = {broadcast(0, 0), broadcast(0, 1)};
  for (Call& call : calls)
    call.task.root = 1;
  calls[0].task.operation = Operation::kSend;
  calls[1].task.operation = Operation::kRecv;
  dynamic_cast<OrderedDevice&>(ranks_.context().runtime()).capture(*ranks_.streams[1], 1);
  CallCutter cutter;
  const auto refused = begin_calls(calls, cutter);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_INVALID_USAGE);
  expect_all_well();
}

TEST_F(StreamsOfGpus, ALostDeviceIsTheEndOfItsCommunicators) {
  const std::unique_ptr<Stream> streams[2] = {stream(), stream()};
  call(streams);
  device().lose();
  const Status told = streams[0]->synchronize();
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), WEFT_ERROR_DEVICE);
  EXPECT_EQ(communicator(0).async_error(), WEFT_ERROR_DEVICE);
  while (communicator(1).async_error() == WEFT_OK)
    std::this_thread::yield();
  EXPECT_EQ(communicator(1).async_error(), WEFT_ERROR_PEER);
}

}  // namespace
}  // namespace weft
