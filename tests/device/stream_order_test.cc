// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Streams of the host device that wait for one another: nobody blocks who does not ask to, whoever
// waits helps, and every end of work is an end.
#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/device/ring_runner.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

/// Streams of one device, with work that copies one cell to another and blocks on nobody.
class Streams {
 public:
  explicit Streams(std::size_t count, std::size_t cells = 1) : streams_(count), cells_(cells) {
    for (DeviceStream*& stream : streams_)
      EXPECT_EQ(device_.create_stream(&stream), WEFT_OK);
    cells_[0] = 5.0F;
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() {
    for (DeviceStream* stream : streams_)
      device_.destroy_stream(stream);
  }

  HostDevice& device() { return device_; }
  DeviceStream* operator[](std::size_t stream) { return streams_[stream]; }
  float& cell(std::size_t cell) { return cells_[cell]; }

  void copy(std::size_t stream, std::size_t from, std::size_t to) {
    Launch launch;
    launch.items = keep(alone_.items(0, {.count = 1}, 0, &cells_[from], &cells_[to]));
    ASSERT_EQ(device_.launch(streams_[stream], {&launch, 1}), WEFT_OK);
  }
  /// As long as the streams.
  std::span<const WorkItem> keep(std::vector<WorkItem> items) {
    return kept_.emplace_back(std::move(items));
  }
  void order(std::size_t stream, std::size_t earlier, std::uint64_t piece = kWholeStream) {
    ASSERT_EQ(device_.order_after(streams_[stream], streams_[earlier], piece), WEFT_OK);
  }
  weft_result synchronize(std::size_t stream) { return device_.synchronize(streams_[stream]); }
  void replace(std::size_t stream) {
    device_.destroy_stream(streams_[stream]);
    ASSERT_EQ(device_.create_stream(&streams_[stream]), WEFT_OK);
  }
  /// Makes synchronize() the one who claims; races against the worker until it has won often
  /// enough.
  void make_caller_claim(std::size_t stream) {
    const auto deferred = [&] { return device_.statistics().pieces_deferred; };
    for (const std::uint64_t before = deferred(); deferred() == before;) {
      copy(stream, 0, 0);
      ASSERT_EQ(synchronize(stream), WEFT_OK);
    }
  }

 private:
  HostDevice device_;
  std::vector<DeviceStream*> streams_;
  std::vector<float> cells_;
  std::deque<std::vector<WorkItem>> kept_;
  RingWorld alone_{{.ranks = 1}};
};

/// Who waits for what, in the end.
enum class Wait { kSecond, kFirst, kQuery, kDestroy };

class OrderedCalls : public ::testing::TestWithParam<std::tuple<Wait, bool>> {};

// Two calls of rank 0 on two streams, then those of rank 1, all by one thread: who blocked in
// ordering the two would never come to the others.
TEST_P(OrderedCalls, BlocksNobodyAndIsKept) {
  const auto [wait, deferred] = GetParam();
  RingWorld world({.ranks = 2});
  std::atomic<std::uint32_t> abort{0};
  std::vector<float> data[2] = {std::vector<float>(64, 1.0F), std::vector<float>(64, 2.0F)};
  Streams streams(3);
  for (std::size_t stream = 0; deferred && stream < 3; ++stream)
    streams.make_caller_claim(stream);
  const auto call = [&](std::uint32_t rank, std::size_t stream, std::uint64_t sequence) {
    const auto items =
        world.items(rank, {.count = 64}, sequence, data[rank].data(), data[rank].data());
    Launch launch;
    launch.items = streams.keep(items);
    launch.abort = &abort;
    ASSERT_EQ(streams.device().launch(streams[stream], {&launch, 1}), WEFT_OK);
  };
  call(0, 0, 0);
  streams.order(1, 0);
  call(0, 1, 1);
  streams.order(0, 1);
  call(0, 0, 2);
  EXPECT_EQ(streams.device().query(streams[1]), WEFT_IN_PROGRESS);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence)
    call(1, 2, sequence);
  switch (wait) {
    case Wait::kSecond:
      EXPECT_EQ(streams.synchronize(1), WEFT_OK);
      EXPECT_EQ(streams.synchronize(0), WEFT_OK);
      break;
    case Wait::kFirst:
      EXPECT_EQ(streams.synchronize(0), WEFT_OK);
      EXPECT_EQ(streams.device().query(streams[1]), WEFT_OK);
      break;
    case Wait::kQuery:
      while (streams.device().query(streams[0]) == WEFT_IN_PROGRESS)
        std::this_thread::yield();
      break;
    case Wait::kDestroy:
      streams.replace(1);
      streams.replace(0);
      break;
  }
  EXPECT_EQ(streams.synchronize(2), WEFT_OK);
  for (const auto& rank : data)
    EXPECT_EQ(rank, std::vector<float>(64, 12.0F));
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Wait, bool>>& info) {
  const char* const names[] = {"Second", "First", "Query", "Destroy"};
  return std::string("By") + names[static_cast<int>(std::get<0>(info.param))] +
         (std::get<1>(info.param) ? "Deferred" : "");
}
INSTANTIATE_TEST_SUITE_P(Streams, OrderedCalls,
                         ::testing::Combine(::testing::Values(Wait::kSecond, Wait::kFirst,
                                                              Wait::kQuery, Wait::kDestroy),
                                            ::testing::Bool()),
                         name_of);

TEST(Order, ChainsOverThreeStreams) {
  constexpr std::size_t kLinks = 300;
  for (const bool deferred : {false, true}) {
    Streams streams(3, kLinks + 1);
    for (std::size_t stream = 0; deferred && stream < 3; ++stream)
      streams.make_caller_claim(stream);
    for (std::size_t link = 0; link < kLinks; ++link) {
      if (link != 0) streams.order(link % 3, (link - 1) % 3);
      streams.copy(link % 3, link, link + 1);
    }
    ASSERT_EQ(streams.synchronize((kLinks - 1) % 3), WEFT_OK);
    EXPECT_EQ(streams.cell(kLinks), 5.0F);
  }
}

// What was ordered counts for those who wait, though nothing was launched after it.
TEST(Order, CountsForWhoWaitsForTheStream) {
  for (int i = 0; i < 200; ++i) {
    Streams streams(2, 2);
    streams.copy(0, 0, 1);
    streams.order(1, 0);
    streams.order(1, 0);
    if (i % 2 == 0) {
      ASSERT_EQ(streams.synchronize(1), WEFT_OK);
    } else {
      while (streams.device().query(streams[1]) == WEFT_IN_PROGRESS)
        std::this_thread::yield();
    }
    ASSERT_EQ(streams.cell(1), 5.0F);
  }
}

TEST(Order, OfAStreamAfterItselfOrAfterNothingIsNothing) {
  Streams streams(2, 2);
  streams.order(0, 0);
  streams.order(0, 1);
  EXPECT_EQ(streams.device().query(streams[0]), WEFT_OK);
  EXPECT_EQ(streams.device().statistics().threads, 0U);
}

// Work that waits for a peer which never comes ends by the abort; what comes after it runs.
TEST(Order, IsPassedWhenTheFirstWorkFails) {
  for (const bool helps : {false, true}) {
    RingWorld world({.ranks = 2});
    Streams streams(2, 2);
    std::atomic<std::uint32_t> abort{0};
    std::vector<float> data(64, 1.0F);
    const auto items = world.items(0, {.count = 64}, 0, data.data(), data.data());
    Launch launch;
    launch.items = streams.keep(items);
    launch.abort = &abort;
    ASSERT_EQ(streams.device().launch(streams[0], {&launch, 1}), WEFT_OK);
    streams.order(1, 0);
    streams.copy(1, 0, 1);
    EXPECT_EQ(streams.device().query(streams[1]), WEFT_IN_PROGRESS);
    if (helps) {
      std::thread aborter([&] { abort = 1; });
      EXPECT_EQ(streams.synchronize(1), WEFT_OK);
      aborter.join();
    } else {
      abort = 1;
      while (streams.device().query(streams[1]) == WEFT_IN_PROGRESS)
        std::this_thread::yield();
    }
    EXPECT_EQ(streams.cell(1), 5.0F);
    // The error stays where the work was.
    EXPECT_EQ(streams.synchronize(0), WEFT_ERROR_ABORTED);
  }
}

// A thread that helps runs what it needs and no more: the work behind that is left to its worker.
TEST(Order, HelpsOnlyAsFarAsNeeded) {
  RingWorld world({.ranks = 2});
  for (std::uint64_t sequence = 0; sequence < 50; ++sequence) {
    Streams streams(3, 2);
    std::atomic<std::uint32_t> abort{0};
    std::vector<float> data[2] = {std::vector<float>(64, 1.0F), std::vector<float>(64, 2.0F)};
    const auto call = [&](std::uint32_t rank, std::size_t stream) {
      const auto items =
          world.items(rank, {.count = 64}, sequence, data[rank].data(), data[rank].data());
      Launch launch;
      launch.items = streams.keep(items);
      launch.abort = &abort;
      ASSERT_EQ(streams.device().launch(streams[stream], {&launch, 1}), WEFT_OK);
    };
    streams.copy(0, 0, 1);
    streams.order(1, 0);
    streams.copy(1, 1, 1);
    call(0, 0);  // its peer comes when stream 1 is done
    ASSERT_EQ(streams.synchronize(1), WEFT_OK);
    call(1, 2);
    while (streams.device().query(streams[0]) == WEFT_IN_PROGRESS ||
           streams.device().query(streams[2]) == WEFT_IN_PROGRESS)
      std::this_thread::yield();
    EXPECT_EQ(data[0], std::vector<float>(64, 3.0F));
  }
}

// The worker rests while a helper runs the head; when that goes, the worker has to come back.
TEST(Order, WhoHelpedLeavesTheRestToTheWorker) {
  for (bool helped = false; !helped;) {
    RingWorld world({.ranks = 2});
    Streams streams(3, 2);
    streams.make_caller_claim(0);
    streams.make_caller_claim(1);
    std::atomic<std::uint32_t> abort{0};
    std::vector<float> data[2] = {std::vector<float>(64, 1.0F), std::vector<float>(64, 2.0F)};
    const auto call = [&](std::uint32_t rank, std::size_t stream, std::uint64_t sequence) {
      const auto items =
          world.items(rank, {.count = 64}, sequence, data[rank].data(), data[rank].data());
      Launch launch;
      launch.items = streams.keep(items);
      launch.abort = &abort;
      ASSERT_EQ(streams.device().launch(streams[stream], {&launch, 1}), WEFT_OK);
    };
    const HostDeviceStatistics before = streams.device().statistics();
    call(0, 0, 0);
    streams.order(1, 0);
    streams.copy(1, 0, 1);
    call(0, 0, 1);
    std::thread helper([&] { EXPECT_EQ(streams.synchronize(1), WEFT_OK); });
    HostDeviceStatistics now = before;
    while (now.pieces_by_caller == before.pieces_by_caller &&
           now.pieces_by_worker == before.pieces_by_worker) {
      now = streams.device().statistics();
    }
    helped = now.pieces_by_caller != before.pieces_by_caller;
    for (; helped && now.threads_resting != now.threads; now = streams.device().statistics())
      std::this_thread::yield();
    call(1, 2, 0);
    call(1, 2, 1);
    helper.join();
    while (streams.device().query(streams[0]) == WEFT_IN_PROGRESS)
      std::this_thread::yield();
    EXPECT_EQ(streams.synchronize(2), WEFT_OK);
    EXPECT_EQ(data[0], std::vector<float>(64, 6.0F));
  }
}

TEST(Order, HoldsOnStreamsThatAreDestroyedMeanwhile) {
  for (int i = 0; i < 200; ++i) {
    Streams streams(3, 4);
    streams.copy(0, 0, 1);
    streams.order(1, 0);
    streams.copy(1, 1, 2);
    streams.order(2, 1);
    streams.copy(2, 2, 3);
    streams.replace(static_cast<std::size_t>(i % 3));
    streams.replace(static_cast<std::size_t>((i / 3) % 3));
    ASSERT_EQ(streams.synchronize(2), WEFT_OK);
    ASSERT_EQ(streams.cell(3), 5.0F);
  }
}

// Random programs: each piece copies what the last piece of a random stream wrote, after which it
// was ordered. Two threads wait for different streams at the same time.
TEST(Order, HoldsInRandomPrograms) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::size_t kStreams = 5;
  constexpr std::size_t kPieces = 60;
  for (int program = 0; program < 100; ++program) {
    Streams streams(kStreams, kPieces + 1);
    std::vector<std::size_t> newest(kStreams, 0);  // the cell that a stream wrote last
    for (std::size_t piece = 1; piece <= kPieces; ++piece) {
      const std::size_t stream = below(kStreams);
      const std::size_t earlier = below(kStreams);
      streams.order(stream, earlier);
      streams.copy(stream, newest[earlier], piece);
      newest[stream] = piece;
      switch (below(16)) {
        case 0:
          ASSERT_EQ(streams.synchronize(below(kStreams)), WEFT_OK);
          break;
        case 1:
          streams.replace(below(kStreams));
          break;
        case 2:
          static_cast<void>(streams.device().query(streams[below(kStreams)]));
          break;
        default:
          break;
      }
    }
    std::thread other([&] {
      for (std::size_t stream = 0; stream < kStreams; stream += 2)
        EXPECT_EQ(streams.synchronize(stream), WEFT_OK);
    });
    for (std::size_t stream = 1; stream < kStreams; stream += 2)
      EXPECT_EQ(streams.synchronize(stream), WEFT_OK);
    other.join();
    for (std::size_t piece = 1; piece <= kPieces; ++piece)
      ASSERT_EQ(streams.cell(piece), 5.0F) << piece;
  }
}

}  // namespace
}  // namespace weft::device::testing
