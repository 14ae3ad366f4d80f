// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Windows between ranks of the host device, whose memory is not mapped: they are registered and
// given up as others, and calls go as without them. What goes through windows needs GPUs
// (tests/gpu/windows_test.cc).
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/thread_ranks.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ApiWindows : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4096;

  void* allocate() {
    void* memory = nullptr;
    must(context(), weft_memory_allocate(context(), WEFT_DEVICE_HOST, 0, kBytes, &memory));
    return memory;
  }
  /// Both ranks, of as many bytes.
  weft_result enter(std::size_t first, std::size_t second) {
    must(context(), weft_group_start(context()));
    weft_window_register(comm(0), memory_[0], first, &windows_[0]);
    weft_window_register(comm(1), memory_[1], second, &windows_[1]);
    return weft_group_end(context());
  }
  [[nodiscard]] weft_context* context() const { return context_.get(); }
  [[nodiscard]] weft_comm* comm(std::size_t rank) const { return comms_[rank].get(); }

  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 2);
  std::vector<CommHandle> comms_ = init_all(context_.get(), CommSettings(), 2);
  std::array<void*, 2> memory_ = {allocate(), allocate()};
  std::array<weft_window*, 2> windows_{};
};

TEST_F(ApiWindows, AreRegisteredByAGroupOfOneThread) {
  must(context(), enter(kBytes, kBytes));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    void* seen = nullptr;
    must(context(), weft_window_pointer(windows_[rank], rank, &seen));
    EXPECT_EQ(seen, memory_[rank]);
    EXPECT_EQ(weft_window_pointer(windows_[rank], 1 - rank, &seen), WEFT_ERROR_UNSUPPORTED);
    EXPECT_THAT(last_error(context()),
                AllOf(StartsWith("window 1 is not mapped: rank 0: "),
                      HasSubstr("p2p: buffers of CPU ranks are not shared"),
                      EndsWith("; try: use the window in calls alone, which go another way")));
    EXPECT_EQ(weft_window_pointer(windows_[rank], 2, &seen), WEFT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(last_error(context()),
              "rank 2 is none of this communicator of 2; try: a rank counted from 0");
    EXPECT_EQ(weft_window_pointer(windows_[rank], 0, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  }
  for (weft_window* window : windows_)
    must(context(), weft_window_deregister(window));
}

TEST_F(ApiWindows, CallsGoAsWithoutThem) {
  must(context(), enter(kBytes, kBytes));
  std::array<int, 2> inputs = {3, 5};
  must(context(), weft_group_start(context()));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    weft_all_gather(&inputs[rank], memory_[rank], 1, WEFT_INT32, comm(rank), streams_[rank].get());
  }
  must(context(), weft_group_end(context()));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    must(context(), weft_stream_synchronize(streams_[rank].get()));
    std::array<int, 2> got{};
    std::memcpy(got.data(), memory_[rank], sizeof(got));
    EXPECT_THAT(got, ElementsAre(3, 5));
  }
}

TEST_F(ApiWindows, OfDifferentSizesAreRefusedAndTheCommunicatorGoesOn) {
  EXPECT_EQ(enter(kBytes, kBytes / 2), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(last_error(context()),
            "rank 0 registers a window of 4096 bytes, rank 1 one of 2048; try: register buffers of "
            "one size on all ranks");
  must(context(), enter(kBytes, kBytes));
}

// Without a group each thread waits for the others.
TEST_F(ApiWindows, AreRegisteredByAThreadEach) {
  const auto play = [&](weft_comm* comm, weft_stream* /*stream*/, std::uint32_t rank) {
    std::vector<std::byte> first(kBytes);
    std::vector<std::byte> second(2 * kBytes);
    weft_window* window = nullptr;
    must(context(), weft_window_register(comm, first.data(), first.size(), &window));
    weft_window* another = nullptr;
    must(context(), weft_window_register(comm, second.data(), second.size(), &another));
    void* seen = nullptr;
    must(context(), weft_window_pointer(another, rank, &seen));
    if (seen != second.data()) throw std::runtime_error("another buffer");
    // The other one goes with the communicator.
    must(context(), weft_window_deregister(window));
  };
  EXPECT_THAT(by_a_thread_each(context(), CommSettings(), 5, play), IsEmpty());
}

// A rank that never comes, or gives up, keeps nobody.
TEST_F(ApiWindows, ARankThatGivesUpEndsTheWaitOfOthers) {
  weft_window* window = nullptr;
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    weft_comm_abort(comm(1));
  });
  EXPECT_EQ(weft_window_register(comm(0), memory_[0], kBytes, &window), WEFT_ERROR_PEER);
  EXPECT_THAT(last_error(context()), HasSubstr("rank 1"));
}

TEST_F(ApiWindows, AnAbortEndsTheRanksOwnWait) {
  weft_window* window = nullptr;
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    weft_comm_abort(comm(0));
  });
  EXPECT_EQ(weft_window_register(comm(0), memory_[0], kBytes, &window), WEFT_ERROR_ABORTED);
}

TEST_F(ApiWindows, ARankThatNeverComesIsNamedAtTheDeadline) {
  const std::vector<CommHandle> hasty =
      init_all(context(), CommSettings({"timeouts.bootstrap", "2s"}), 2);
  weft_window* window = nullptr;
  EXPECT_EQ(weft_window_register(hasty[0].get(), memory_[0], kBytes, &window), WEFT_ERROR_TIMEOUT);
  EXPECT_THAT(last_error(context()), HasSubstr("buffers of a window"));
  // They no longer agree on what exists.
  weft_result error = WEFT_OK;
  must(context(), weft_comm_get_async_error(hasty[0].get(), &error));
  EXPECT_EQ(error, WEFT_ERROR_TIMEOUT);
  // The other one has all that it needs, until it hears of it.
  for (error = WEFT_OK; error == WEFT_OK; look_later())
    must(context(), weft_comm_get_async_error(hasty[1].get(), &error));
  EXPECT_EQ(weft_window_register(hasty[1].get(), memory_[1], kBytes, &window), WEFT_ERROR_PEER);
}

TEST_F(ApiWindows, OfNothingAreRefused) {
  weft_window* window = nullptr;
  EXPECT_EQ(weft_window_register(comm(0), nullptr, kBytes, &window), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context()), StartsWith("a window of 4096 bytes at "));
  EXPECT_EQ(weft_window_register(comm(0), memory_[0], 0, &window), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_window_register(comm(0), memory_[0], 1, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_window_register(nullptr, memory_[0], 1, &window), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_window_deregister(nullptr), WEFT_OK);
  // An error that is noted in a group keeps all of it from being started.
  must(context(), weft_group_start(context()));
  EXPECT_EQ(weft_window_register(comm(0), memory_[0], 0, &window), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_window_register(comm(1), memory_[1], kBytes, &window), WEFT_OK);
  EXPECT_EQ(weft_group_end(context()), WEFT_ERROR_INVALID_ARGUMENT);
}

TEST_F(ApiWindows, MemoryIsZeroedAndGivenBackOnce) {
  void* memory = allocate();
  std::vector<char> got(kBytes);
  std::memcpy(got.data(), memory, kBytes);
  EXPECT_THAT(got, Each(0));
  must(context(), weft_memory_free(context(), memory));
  EXPECT_EQ(weft_memory_free(context(), memory), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context()),
              HasSubstr("is no memory of weft_memory_allocate, or was freed"));
  must(context(), weft_memory_free(context(), nullptr));
  EXPECT_EQ(weft_memory_allocate(context(), WEFT_DEVICE_HOST, 0, 0, &memory),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_memory_allocate(context(), 17, 0, 1, &memory), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context()), StartsWith("the device kind 17 is none"));
  EXPECT_EQ(weft_memory_allocate(context(), WEFT_DEVICE_HOST, 0, 1, nullptr),
            WEFT_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace weft::test
