// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Communicators of several ranks in one process: groups, ends in any order, calls that differ.
#include "core/comm/communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/comm/group.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using test::Ranks;
using test::text_of;

Task sum_of(std::uint64_t count) {
  return {.operation = Operation::kAllReduce,
          .type = WEFT_FLOAT32,
          .reduction = WEFT_SUM,
          .root = 0,
          .count = count};
}
Task broadcast_of(std::uint64_t count) {
  return {.operation = Operation::kBroadcast,
          .type = WEFT_FLOAT32,
          .reduction = WEFT_SUM,
          .root = 0,
          .count = count};
}

class OverTransport : public testing::TestWithParam<const char*> {};
std::string name_of(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  std::erase(name, ' ');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, OverTransport,
                         testing::Values("p2p", "shm", "net-socket", "p2p direct", "shm direct"),
                         name_of);

// One thread, two ranks, each with its calls on two streams: a call on another stream waits for the
// one before, which needs the other rank's call of this same group.
TEST_P(OverTransport, GroupStartsWhatItsOwnCallsWaitFor) {
  Ranks ranks(2, GetParam());
  std::vector<std::unique_ptr<Stream>> others;
  for (int rank = 0; rank < 2; ++rank)
    others.push_back(Ranks::value(Stream::create(ranks.context())));
  std::vector<std::vector<float>> first(2, std::vector<float>(1000, 1));
  std::vector<std::vector<float>> second(2, std::vector<float>(500, 2));
  std::vector<Call> calls;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    calls.push_back({.communicator = ranks.communicators[rank].get(),
                     .stream = ranks.streams[rank].get(),
                     .task = sum_of(1000),
                     .send = first[rank].data(),
                     .recv = first[rank].data()});
    calls.push_back({.communicator = ranks.communicators[rank].get(),
                     .stream = others[rank].get(),
                     .task = sum_of(500),
                     .send = second[rank].data(),
                     .recv = second[rank].data()});
  }
  EXPECT_EQ(text_of(start_calls(calls)), "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(text_of(ranks.streams[rank]->synchronize()), "");
    EXPECT_EQ(text_of(others[rank]->synchronize()), "");
    EXPECT_EQ(first[rank], std::vector<float>(1000, 2));
    EXPECT_EQ(second[rank], std::vector<float>(500, 4));
  }
}

// Of three communicators the second has failed: the first one's call is made, and the third one's
// ranks learn that theirs is not.
TEST(Groups, ThatFailHalfWayLeaveNobodyWaiting) {
  std::vector<std::vector<float>> values(6, std::vector<float>(1000, 1));
  Ranks ranks(2, "shm");
  std::vector<std::vector<std::unique_ptr<Communicator>>> joined(2);
  for (auto& communicators : joined)
    ranks.join(communicators, 2);
  // In the order in which groups start them.
  std::vector<std::vector<std::unique_ptr<Communicator>>*> all{&ranks.communicators, &joined[0],
                                                               &joined[1]};
  std::ranges::sort(all, {}, [](const auto* each) { return each->front()->number(); });
  const auto communicator = [&](std::size_t which, std::size_t rank) {
    return (*all[which])[rank].get();
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 6; ++i)
    streams.push_back(Ranks::value(Stream::create(ranks.context())));
  const auto calls_of = [&](std::size_t rank, std::vector<std::size_t> which) {
    std::vector<Call> calls;
    for (const std::size_t i : which) {
      float* const buffer = values[3 * rank + i].data();
      calls.push_back({.communicator = communicator(i, rank),
                       .stream = streams[3 * rank + i].get(),
                       .task = sum_of(1000),
                       .send = buffer,
                       .recv = buffer});
    }
    return calls;
  };
  std::thread other([&] { EXPECT_EQ(text_of(start_calls(calls_of(1, {0, 1, 2}))), ""); });
  EXPECT_EQ(text_of(start_calls(calls_of(0, {0, 1, 2}))), "");
  other.join();
  for (const auto& stream : streams)
    EXPECT_EQ(text_of(stream->synchronize()), "");

  communicator(1, 0)->abort();
  const Status started = start_calls(calls_of(0, {0, 1, 2}));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code(), WEFT_ERROR_ABORTED);
  EXPECT_EQ(communicator(0, 0)->async_error(), WEFT_OK);
  EXPECT_EQ(communicator(2, 0)->async_error(), WEFT_ERROR_ABORTED);
  EXPECT_EQ(text_of(start_calls(calls_of(1, {0}))), "");
  EXPECT_EQ(text_of(streams[0]->synchronize()), "");
  EXPECT_EQ(text_of(streams[3]->synchronize()), "");
  EXPECT_EQ(values[0], std::vector<float>(1000, 4));
  const Status called = start_calls(calls_of(1, {2}));
  const Status told = called ? streams[5]->synchronize() : called;
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), WEFT_ERROR_PEER);
  EXPECT_NE(text_of(told).find("a communicator of the group failed"), std::string::npos)
      << text_of(told);
}

// The other rank never calls.
TEST_P(OverTransport, GroupThatFailsIsToldOnAllOfItsStreams) {
  std::vector<float> values(2000, 1);
  Ranks ranks(2, GetParam());
  const auto received = Ranks::value(Stream::create(ranks.context()));
  const Task task{.type = WEFT_FLOAT32, .root = 1, .count = 1000};
  std::vector<Call> calls(2, Call{.communicator = ranks.communicators[0].get(), .task = task});
  calls[0].task.operation = Operation::kSend;
  calls[0].stream = ranks.streams[0].get();
  calls[0].send = values.data();
  calls[1].task.operation = Operation::kRecv;
  calls[1].stream = received.get();
  calls[1].recv = values.data() + 1000;
  EXPECT_EQ(text_of(start_calls(calls)), "");
  ranks.communicators[0]->abort();
  for (Stream* const stream : {ranks.streams[0].get(), received.get()}) {
    const Status told = stream->synchronize();
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code(), WEFT_ERROR_ABORTED);
  }
}

TEST_P(OverTransport, GroupRunsManyCallsOfOneCommunicatorInOrder) {
  Ranks ranks(2, GetParam());
  std::vector<std::unique_ptr<Communicator>> more;
  ranks.join(more, 2);
  std::vector<std::vector<float>> data(2, std::vector<float>(100, 1));
  std::vector<std::vector<float>> aside(2, std::vector<float>(10, 3));
  std::vector<Call> calls;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 5; ++i) {
      calls.push_back({.communicator = ranks.communicators[rank].get(),
                       .stream = ranks.streams[rank].get(),
                       .task = sum_of(100),
                       .send = data[rank].data(),
                       .recv = data[rank].data()});
    }
    calls.push_back({.communicator = more[rank].get(),
                     .stream = ranks.streams[rank].get(),
                     .task = sum_of(10),
                     .send = aside[rank].data(),
                     .recv = aside[rank].data()});
  }
  EXPECT_EQ(text_of(start_calls(calls)), "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(text_of(ranks.streams[rank]->synchronize()), "");
    EXPECT_EQ(data[rank], std::vector<float>(100, 32));
    EXPECT_EQ(aside[rank], std::vector<float>(10, 6));
  }
}

// The root is done, and gone, before the other has begun to look.
TEST_P(OverTransport, LastDataArrivesThoughItsSenderHasLeft) {
  for (const std::uint64_t count : {1U, 5000U}) {
    Ranks ranks(2, GetParam());
    std::vector<float> sent(count, 7);
    std::vector<float> got(count, 0);
    ASSERT_EQ(text_of(start_calls({{{.communicator = ranks.communicators[0].get(),
                                     .stream = ranks.streams[0].get(),
                                     .task = broadcast_of(count),
                                     .send = sent.data(),
                                     .recv = sent.data()}}})),
              "");
    EXPECT_EQ(text_of(ranks.streams[0]->synchronize()), "");
    // Orderly: the other still has its call before it. Over a net the engine may have to wait for
    // the other to take what was sent, so it leaves by a thread of its own.
    std::thread leaving([&] { ranks.communicators[0].reset(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(text_of(start_calls({{{.communicator = ranks.communicators[1].get(),
                                     .stream = ranks.streams[1].get(),
                                     .task = broadcast_of(count),
                                     .send = nullptr,
                                     .recv = got.data()}}})),
              "");
    EXPECT_EQ(text_of(ranks.streams[1]->synchronize()), "");
    leaving.join();
    EXPECT_EQ(got, sent);
  }
}

TEST_P(OverTransport, RanksLeaveInAnyOrder) {
  for (const bool backwards : {false, true}) {
    Ranks ranks(3, GetParam());
    std::vector<std::vector<float>> data(3, std::vector<float>(64, 1));
    std::vector<Call> calls;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      calls.push_back({.communicator = ranks.communicators[rank].get(),
                       .stream = ranks.streams[rank].get(),
                       .task = sum_of(64),
                       .send = data[rank].data(),
                       .recv = data[rank].data()});
    }
    ASSERT_EQ(text_of(start_calls(calls)), "");
    // One after the other, in one thread: none waits for those behind it.
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t rank = backwards ? 2 - i : i;
      EXPECT_EQ(text_of(ranks.communicators[rank]->finish()), "");
      ranks.communicators[rank].reset();
    }
    for (const auto& values : data)
      EXPECT_EQ(values, std::vector<float>(64, 3));
  }
}

// A call without elements moves nothing, but it is a call: who leaves it out calls other things.
TEST_P(OverTransport, CallWithoutElementsOnOneRankAloneIsNamed) {
  Ranks ranks(2, GetParam());
  std::vector<std::vector<float>> data(2, std::vector<float>(64, 1));
  const auto call = [&](std::size_t rank, std::uint64_t count) {
    return Call{.communicator = ranks.communicators[rank].get(),
                .stream = ranks.streams[rank].get(),
                .task = sum_of(count),
                .send = data[rank].data(),
                .recv = data[rank].data()};
  };
  ASSERT_EQ(text_of(start_calls({{call(0, 0)}})), "");
  ASSERT_EQ(text_of(start_calls({{call(0, 64), call(1, 64)}})), "");
  const std::string at_0 = text_of(ranks.streams[0]->synchronize());
  const std::string at_1 = text_of(ranks.streams[1]->synchronize());
  // Data of call 2 has met data of call 1; what is wrong is call 1.
  for (const std::string& text : {at_0, at_1}) {
    EXPECT_NE(text.find("rank 0 called all_reduce of 0 float32 by sum (call 1)"), std::string::npos)
        << text;
    EXPECT_NE(text.find("rank 1 called all_reduce of 64 float32 by sum (call 1)"),
              std::string::npos)
        << text;
  }
}

// A tag has 16 bits of a call's number, and a hash of its count.
TEST_P(OverTransport, CallsAreNamedWithAllOfTheirNumberAndCount) {
  Ranks ranks(2, GetParam());
  constexpr std::uint64_t kBefore = 70'000;
  std::vector<std::vector<float>> data(2, std::vector<float>(64, 1));
  std::vector<Call> calls;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::uint64_t call = 0; call < kBefore; ++call)
      ranks.communicators[rank]->pass_over(sum_of(0));
    calls.push_back({.communicator = ranks.communicators[rank].get(),
                     .stream = ranks.streams[rank].get(),
                     .task = sum_of(63 + rank),
                     .send = data[rank].data(),
                     .recv = data[rank].data()});
  }
  ASSERT_EQ(text_of(start_calls(calls)), "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string text = text_of(ranks.streams[rank]->synchronize());
    EXPECT_NE(text.find("rank 0 called all_reduce of 63 float32 by sum (call 70001)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("rank 1 called all_reduce of 64 float32 by sum (call 70001)"),
              std::string::npos)
        << text;
  }
}

// Two counts with one hash: 1-byte elements whose number differs by what the hash does not see.
TEST(DirectCalls, CountsOfOneHashAreNoMatch) {
  const auto find_twin = [](std::uint64_t count) {
    std::uint64_t twin = count + 1;
    while (size_fingerprint(twin, 0, 0) != size_fingerprint(count, 0, 0))
      ++twin;
    return twin;
  };
  std::uint64_t count = 1;
  while (find_twin(count) > 65'536)
    ++count;
  Ranks ranks(2, "shm direct");
  std::vector<std::vector<float>> data(2, std::vector<float>(65'536 / 4, 0));
  std::vector<Call> calls;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Task task = sum_of(rank == 0 ? count : find_twin(count));
    task.type = WEFT_INT8;
    calls.push_back({.communicator = ranks.communicators[rank].get(),
                     .stream = ranks.streams[rank].get(),
                     .task = task,
                     .send = data[rank].data(),
                     .recv = data[rank].data()});
  }
  ASSERT_EQ(text_of(start_calls(calls)), "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string text = text_of(ranks.streams[rank]->synchronize());
    for (const std::uint64_t called : {count, find_twin(count)}) {
      EXPECT_NE(text.find("all_reduce of " + std::to_string(called) + " int8 by sum (call 1)"),
                std::string::npos)
          << text;
    }
  }
}

TEST_P(OverTransport, CallsThatDifferAreBothNamed) {
  Ranks ranks(2, GetParam());
  std::vector<std::vector<float>> data(2, std::vector<float>(64, 1));
  Task other = sum_of(64);
  other.reduction = WEFT_MAX;
  ASSERT_EQ(text_of(start_calls({{{.communicator = ranks.communicators[0].get(),
                                   .stream = ranks.streams[0].get(),
                                   .task = sum_of(64),
                                   .send = data[0].data(),
                                   .recv = data[0].data()},
                                  {.communicator = ranks.communicators[1].get(),
                                   .stream = ranks.streams[1].get(),
                                   .task = other,
                                   .send = data[1].data(),
                                   .recv = data[1].data()}}})),
            "");
  const std::string at_0 = text_of(ranks.streams[0]->synchronize());
  const std::string at_1 = text_of(ranks.streams[1]->synchronize());
  EXPECT_NE((at_0 + at_1).find("all_reduce of 64 float32 by sum (call 1)"), std::string::npos)
      << at_0 << "\n"
      << at_1;
  EXPECT_NE((at_0 + at_1).find("all_reduce of 64 float32 by max"), std::string::npos)
      << at_0 << at_1;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks.communicators[rank]->async_error(),
              ranks.communicators[rank]->finish().error().code());
    // Nothing more can be started.
    EXPECT_NE(text_of(start_calls({{{.communicator = ranks.communicators[rank].get(),
                                     .stream = ranks.streams[rank].get(),
                                     .task = sum_of(1),
                                     .send = data[rank].data(),
                                     .recv = data[rank].data()}}})),
              "");
  }
}

// Where calls differ so that no data comes, nothing on a slot shows it: the waiting rank asks.
class WithoutData : public OverTransport {
 protected:
  static Call call_of(Ranks& ranks, std::size_t rank, const Task& task, std::vector<float>& data) {
    return {.communicator = ranks.communicators[rank].get(),
            .stream = ranks.streams[rank].get(),
            .task = task,
            .send = data.data(),
            .recv = data.data()};
  }
  static Task from_root(std::uint32_t root) {
    Task task = broadcast_of(64);
    task.root = root;
    return task;
  }
  std::vector<std::vector<float>> data_ =
      std::vector<std::vector<float>>(3, std::vector<float>(64, 1));
};
INSTANTIATE_TEST_SUITE_P(All, WithoutData,
                         testing::Values("p2p", "shm", "net-socket", "shm direct"), name_of);

TEST_P(WithoutData, RanksThatAllTakeAnotherForTheRootLearnIt) {
  Ranks ranks(2, GetParam());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Call call = call_of(ranks, rank, from_root(1 - rank), data_[rank]);
    ASSERT_EQ(text_of(start_calls({{call}})), "");
  }
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto result = ranks.streams[rank]->synchronize();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), WEFT_ERROR_MISMATCH);
    const std::string text = text_of(result);
    EXPECT_NE(text.find("broadcast of 64 float32 from rank 0 (call 1)"), std::string::npos) << text;
    EXPECT_NE(text.find("broadcast of 64 float32 from rank 1 (call 1)"), std::string::npos) << text;
  }
}

TEST_P(WithoutData, LastCallThatHasNoElementsOnOneRankIsNamed) {
  Ranks ranks(3, GetParam());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Call call = call_of(ranks, rank, sum_of(rank == 1 ? 0 : 64), data_[rank]);
    ASSERT_EQ(text_of(start_calls({{call}})), "");
  }
  for (const std::size_t rank : {0U, 2U}) {
    const auto result = ranks.streams[rank]->synchronize();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), WEFT_ERROR_MISMATCH);
    const std::string text = text_of(result);
    EXPECT_NE(text.find("rank 1 called all_reduce of 0 float32 by sum (call 1)"), std::string::npos)
        << text;
    EXPECT_NE(text.find("called all_reduce of 64 float32 by sum (call 1)"), std::string::npos)
        << text;
  }
  EXPECT_EQ(ranks.communicators[1]->finish().error().code(), WEFT_ERROR_MISMATCH);
}

TEST_P(WithoutData, CallAfterARankHasLeftNamesThatRank) {
  Ranks ranks(3, GetParam());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Call call = call_of(ranks, rank, sum_of(64), data_[rank]);
    ASSERT_EQ(text_of(start_calls({{call}})), "");
  }
  for (std::size_t rank = 0; rank < 3; ++rank)
    ASSERT_EQ(text_of(ranks.streams[rank]->synchronize()), "");
  ranks.communicators[1].reset();
  for (const std::size_t rank : {0U, 2U}) {
    const Call call = call_of(ranks, rank, sum_of(64), data_[rank]);
    static_cast<void>(start_calls({{call}}));
  }
  for (const std::size_t rank : {0U, 2U}) {
    const auto result = ranks.communicators[rank]->finish();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), WEFT_ERROR_PEER);
    EXPECT_NE(text_of(result).find("rank 1"), std::string::npos) << text_of(result);
  }
}

// Two roots send and nobody waits: the calls end well, but not unseen.
TEST_P(WithoutData, RanksThatBothTakeThemselvesForTheRootLearnItWhenOneLeaves) {
  Ranks ranks(2, GetParam());
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const Call call = call_of(ranks, rank, from_root(rank), data_[rank]);
    ASSERT_EQ(text_of(start_calls({{call}})), "");
    ASSERT_EQ(text_of(ranks.streams[rank]->synchronize()), "");
  }
  std::thread leaving([&] { ranks.communicators[0].reset(); });
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  while (ranks.communicators[1]->async_error() == WEFT_OK &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(ranks.communicators[1]->async_error(), WEFT_OK);
  leaving.join();
}

// The next call whose data meets shows it, on whichever connections it does.
TEST_P(WithoutData, RanksThatAllTakeThemselvesForTheRootLearnItByTheNextCall) {
  Ranks ranks(3, GetParam());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Call root = call_of(ranks, rank, from_root(rank), data_[rank]);
    ASSERT_EQ(text_of(start_calls({{root}})), "");
  }
  std::vector<Call> calls;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    calls.push_back(call_of(ranks, rank, sum_of(2), data_[rank]));
  // The first two ranks may learn it before the third is started, which then refuses the call.
  static_cast<void>(start_calls(calls));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const auto result = ranks.communicators[rank]->finish();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), WEFT_ERROR_MISMATCH);
    const std::string text = text_of(result);
    std::size_t named = 0;
    for (const char* root : {"0", "1", "2"}) {
      const std::string called =
          fmt::format("rank {} called broadcast of 64 float32 from rank {} (call 1)", root, root);
      if (text.find(called) != std::string::npos) ++named;
    }
    EXPECT_EQ(named, 2U) << text;
  }
}

/// What each of `ranks` gets that shows its last calls to the others, all at once.
std::vector<std::string> compare_on_all(Ranks& ranks) {
  std::vector<std::string> texts(ranks.communicators.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    threads.emplace_back(
        [&, rank] { texts[rank] = text_of(ranks.communicators[rank]->compare_last_calls()); });
  }
  for (auto& thread : threads)
    thread.join();
  return texts;
}

TEST_P(WithoutData, RanksThatAllTakeThemselvesForTheRootLearnItAtTheEnd) {
  Ranks ranks(3, GetParam());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Call root = call_of(ranks, rank, from_root(rank), data_[rank]);
    ASSERT_EQ(text_of(start_calls({{root}})), "");
    ASSERT_EQ(text_of(ranks.streams[rank]->synchronize()), "");
    ASSERT_EQ(text_of(ranks.communicators[rank]->finish()), "");
  }
  for (const std::string& text : compare_on_all(ranks)) {
    std::size_t named = 0;
    for (const char* root : {"0", "1", "2"}) {
      const std::string called =
          fmt::format("rank {} called broadcast of 64 float32 from rank {} (call 1)", root, root);
      if (text.find(called) != std::string::npos) ++named;
    }
    EXPECT_EQ(named, 2U) << text;
  }
}

// Rank 3 alone differs, and rank 1 is no neighbour of it.
TEST_P(WithoutData, EveryRankLearnsItAtTheEndOfOneThatDiffers) {
  Ranks ranks(4, GetParam());
  data_.resize(4, data_.front());
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    for (std::uint64_t call = 0; call < (rank == 3 ? 2U : 1U); ++call)
      ranks.communicators[rank]->pass_over(from_root(0));
    if (rank != 3) ranks.communicators[rank]->pass_over(from_root(1));
  }
  for (const std::string& text : compare_on_all(ranks)) {
    EXPECT_NE(text.find("rank 3 called broadcast of 64 float32 from rank 0 (call 2)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("called broadcast of 64 float32 from rank 1 (call 2)"), std::string::npos)
        << text;
  }
}

TEST_P(WithoutData, TheEndOfARootWaitsForTheCallsOfOthers) {
  Ranks ranks(3, GetParam());
  const auto call = [&](std::uint32_t rank) {
    EXPECT_EQ(text_of(start_calls({{call_of(ranks, rank, from_root(0), data_[rank])}})), "");
    EXPECT_EQ(text_of(ranks.streams[rank]->synchronize()), "");
  };
  call(0);
  std::atomic<bool> ended = false;
  std::thread root([&] {
    EXPECT_EQ(text_of(ranks.communicators[0]->compare_last_calls()), "");
    ended = true;
  });
  call(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // after a question, too
  EXPECT_FALSE(ended);
  call(2);
  root.join();
  // All have met by now, whoever is asked.
  for (const std::string& text : compare_on_all(ranks))
    EXPECT_EQ(text, "");
}

TEST_P(WithoutData, TheEndOfARootPassesOverRanksThatHaveLeft) {
  Ranks ranks(4, GetParam());
  data_.resize(4, data_.front());
  std::vector<Call> calls;
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    calls.push_back(call_of(ranks, rank, from_root(0), data_[rank]));
  ASSERT_EQ(text_of(start_calls(calls)), "");
  for (const std::size_t rank : {2U, 1U, 3U}) {
    EXPECT_EQ(text_of(ranks.communicators[rank]->finish()), "");
    ranks.communicators[rank].reset();
    EXPECT_EQ(text_of(ranks.communicators[0]->finish()), "");
    EXPECT_EQ(text_of(ranks.communicators[0]->compare_last_calls()), "");
  }
}

TEST_P(WithoutData, LateRankIsNoMistake) {
  Ranks ranks(2, GetParam());
  const Call early = call_of(ranks, 0, sum_of(64), data_[0]);
  ASSERT_EQ(text_of(start_calls({{early}})), "");
  // Long enough for the first questions.
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    const Call late = call_of(ranks, 1, sum_of(64), data_[1]);
    EXPECT_EQ(text_of(start_calls({{late}})), "");
    EXPECT_EQ(text_of(ranks.streams[1]->synchronize()), "");
  });
  EXPECT_EQ(text_of(ranks.streams[0]->synchronize()), "");
  other.join();
  EXPECT_EQ(data_[0], std::vector<float>(64, 2));
  EXPECT_EQ(data_[1], std::vector<float>(64, 2));
}

TEST_P(OverTransport, AbortEndsACallThatNobodyAnswers) {
  Ranks ranks(2, GetParam());
  std::vector<float> data(64, 1);
  ASSERT_EQ(text_of(start_calls({{{.communicator = ranks.communicators[0].get(),
                                   .stream = ranks.streams[0].get(),
                                   .task = sum_of(64),
                                   .send = data.data(),
                                   .recv = data.data()}}})),
            "");
  std::thread aborting([&] { ranks.communicators[0]->abort(); });
  EXPECT_EQ(text_of(ranks.streams[0]->synchronize()),
            "rank 0 was aborted by its user; try: see why the program of that rank gave up");
  aborting.join();
  EXPECT_EQ(ranks.communicators[0]->async_error(), WEFT_ERROR_ABORTED);
  // The other is told, though it has called nothing.
  while (ranks.communicators[1]->async_error() == WEFT_OK)
    std::this_thread::yield();
  EXPECT_NE(text_of(ranks.communicators[1]->finish()).find("rank 0"), std::string::npos);
}

/// Remembers how the rings' ends of what it ran were.
class ViewsDevice : public device::HostDevice {
 public:
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override {
    {
      const std::scoped_lock lock(mutex_);
      for (const Launch& launch : launches)
        for (const WorkItem& item : launch.items)
          ends_.emplace_back(item.from_previous, item.to_next);
    }
    return device::HostDevice::launch(stream, launches);
  }
  std::vector<std::pair<ConnectionView, ConnectionView>> ends() {
    const std::scoped_lock lock(mutex_);
    return ends_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<ConnectionView, ConnectionView>> ends_;
};

/// Whoever awaits a stream does so until its owner has ended it.
class DeviceWithPatience : public device::HostDevice {
 public:
  weft_result await_stream(DeviceStream* stream) override {
    note(awaited_);
    const weft_result ended = HostDevice::await_stream(stream);
    wait_for(left_);
    const std::scoped_lock lock(mutex_);
    awaited_ = false;
    return ended;
  }
  void destroy_stream(DeviceStream* stream) override {
    {
      const std::scoped_lock lock(mutex_);
      was_in_use_ = was_in_use_ || awaited_;
      ++destroyed_;
    }
    HostDevice::destroy_stream(stream);
  }

  void wait_until_awaited() { wait_for(awaited_); }
  void note_left() { note(left_); }
  [[nodiscard]] int destroyed() {
    const std::scoped_lock lock(mutex_);
    return destroyed_;
  }
  [[nodiscard]] bool was_in_use() {
    const std::scoped_lock lock(mutex_);
    return was_in_use_;
  }

 private:
  void note(bool& what) {
    const std::scoped_lock lock(mutex_);
    what = true;
    changed_.notify_all();
  }
  void wait_for(const bool& what) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return what; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool awaited_ = false;
  bool left_ = false;
  bool was_in_use_ = false;  // as it was destroyed
  int destroyed_ = 0;
};

TEST(RanksOfOneProcess, EndBesideTheirStreams) {
  Ranks ranks(2, "shm", {}, std::make_unique<DeviceWithPatience>());
  auto& device = dynamic_cast<DeviceWithPatience&>(ranks.context().runtime());
  std::vector<float> data(4);
  const auto call = [&](std::uint32_t rank) {
    Call sum{.task = sum_of(2), .send = data.data() + 2 * rank, .recv = data.data() + 2 * rank};
    sum.communicator = ranks.communicators[rank].get();
    sum.stream = ranks.streams[rank].get();
    EXPECT_EQ(text_of(start_calls({&sum, 1})), "");
  };
  call(0);
  std::thread ends_communicator([&] { EXPECT_EQ(text_of(ranks.communicators[0]->finish()), ""); });
  device.wait_until_awaited();
  std::thread ends_stream([&] {
    ranks.streams[0].reset();
    device.note_left();
  });
  call(1);
  EXPECT_EQ(text_of(ranks.streams[1]->synchronize()), "");
  ends_stream.join();
  ends_communicator.join();
  EXPECT_FALSE(device.was_in_use());
  EXPECT_EQ(device.destroyed(), 1);
}

TEST(RanksOfOneProcess, ReadEachOthersBuffersWhereEachHasACoreWhicheverTransportHasTheSlots) {
  const std::uint32_t too_many = std::thread::hardware_concurrency() + 1;
  for (const auto& [transport, count] :
       {std::pair("p2p", 2U), std::pair("shm", 2U), std::pair("p2p", std::max(too_many, 3U))}) {
    auto made = std::make_unique<ViewsDevice>();
    ViewsDevice& device = *made;
    Ranks ranks(count, transport, {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}},
                std::move(made));
    std::vector<std::vector<float>> data(count, std::vector<float>(100'000, 1));
    std::vector<Call> calls;
    for (std::size_t rank = 0; rank < count; ++rank) {
      calls.push_back({.communicator = ranks.communicators[rank].get(),
                       .stream = ranks.streams[rank].get(),
                       .task = sum_of(data[rank].size()),
                       .send = data[rank].data(),
                       .recv = data[rank].data()});
    }
    ASSERT_EQ(text_of(start_calls(calls)), "");
    for (const auto& stream : ranks.streams)
      EXPECT_EQ(text_of(stream->synchronize()), "");
    for (const auto& each : data)
      EXPECT_EQ(each, std::vector<float>(100'000, static_cast<float>(count)));
    const bool read = count <= ranks.communicators[0]->topology().ranks[0].cores;
    EXPECT_FALSE(read && count > 2);
    const auto ends = device.ends();
    EXPECT_GE(ends.size(), 2U);
    for (const auto& [from, to] : ends) {
      EXPECT_TRUE(from.reads_lent == read && to.reads_lent == read && to.borrows == read)
          << count << " over " << transport;
      EXPECT_FALSE(from.borrows || from.lands || to.lands) << transport;
      EXPECT_TRUE(from.in_host_memory && to.in_host_memory) << transport;
    }
  }
}

TEST(RanksOfOneProcess, GatherAndScatterWhatTheyReadWhereItLies) {
  constexpr std::size_t kCount = 600'000;
  Ranks ranks(2, "p2p");
  std::vector<std::vector<float>> gathered(2, std::vector<float>(2 * kCount));
  std::vector<std::vector<float>> scattered(2, std::vector<float>(2 * kCount));
  for (std::size_t round = 1; round < 6; ++round) {
    std::vector<Call> calls;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::size_t i = 0; i < kCount; ++i)
        gathered[rank][rank * kCount + i] = static_cast<float>(i * round + rank);
      for (std::size_t i = 0; i < 2 * kCount; ++i)
        scattered[rank][i] = static_cast<float>((i + rank) * round % 1000);
      Call call{.communicator = ranks.communicators[rank].get(),
                .stream = ranks.streams[rank].get(),
                .task = {.operation = Operation::kAllGather,
                         .type = WEFT_FLOAT32,
                         .reduction = WEFT_SUM,
                         .count = kCount},
                .send = gathered[rank].data() + rank * kCount,
                .recv = gathered[rank].data()};
      calls.push_back(call);
      call.task.operation = Operation::kReduceScatter;
      call.send = scattered[rank].data();
      call.recv = scattered[rank].data() + rank * kCount;
      calls.push_back(call);
    }
    ASSERT_EQ(text_of(start_calls(calls)), "");
    for (const auto& stream : ranks.streams)
      ASSERT_EQ(text_of(stream->synchronize()), "");
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t at = rank * kCount + i;
        ASSERT_EQ(gathered[rank][i], static_cast<float>(i * round));
        ASSERT_EQ(gathered[rank][kCount + i], static_cast<float>(i * round + 1));
        ASSERT_EQ(scattered[rank][at],
                  static_cast<float>(at * round % 1000 + (at + 1) * round % 1000));
      }
    }
  }
}

TEST(DirectCalls, AreForRanksThatMemoryJoins) {
  for (const char* transport : {"p2p direct", "shm direct"}) {
    Ranks ranks(2, transport);
    const auto plan = Ranks::value(ranks.communicators[0]->plan(sum_of(16)));
    EXPECT_EQ(plan->algorithm, Algorithm::kDirect) << transport;
    EXPECT_EQ(plan->protocol, Protocol::kLL) << transport;
    const auto too_large = ranks.communicators[0]->plan(sum_of(16385));
    ASSERT_FALSE(too_large) << transport;
    EXPECT_NE(too_large.error().what().find("65536 bytes of buffers.direct"), std::string::npos);
  }
  Ranks ranks(2, "net-socket", {{"WEFT_BUFFERS_DIRECT", "64KiB"}});
  EXPECT_EQ(Ranks::value(ranks.communicators[0]->plan(sum_of(16)))->algorithm, Algorithm::kPat);
  EXPECT_EQ(Ranks::value(ranks.communicators[0]->plan(sum_of(16384)))->algorithm, Algorithm::kRing);
}

// Plans and connects as one that has processors of its own.
class OtherDevice : public device::HostDevice {
 public:
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] bool reports_ends() const override { return false; }
};

// Of CPUs so many of any processors; memory that joins ranks is faster by other ways.
TEST(GatheredInputs, AreOfFewRanksThatANetJoins) {
  const auto gathers = [](const Ranks& ranks) {
    return Ranks::value(ranks.communicators[0]->plan(sum_of(2)))->gathers_inputs;
  };
  EXPECT_TRUE(gathers(Ranks(4, "net-socket")));
  EXPECT_FALSE(gathers(Ranks(9, "shm")));
  EXPECT_TRUE(gathers(Ranks(9, "net-socket", {}, std::make_unique<OtherDevice>())));
  EXPECT_FALSE(gathers(Ranks(4, "shm", {}, std::make_unique<OtherDevice>())));
}

TEST(CommunicatorAlone, ChecksTasks) {
  Ranks ranks(1, "p2p");
  const Communicator& alone = *ranks.communicators[0];
  EXPECT_TRUE(alone.check_task(sum_of(1)));
  EXPECT_TRUE(alone.check_task(sum_of(0)));
  Task task = sum_of(1);
  task.type = 99;
  EXPECT_EQ(text_of(alone.check_task(task)),
            "99 is no element type; try: one of the WEFT_INT8 to WEFT_FLOAT8_E5M2 constants");
  task = sum_of(UINT64_MAX / 8);
  EXPECT_EQ(text_of(alone.check_task(task)),
            "2305843009213693951 elements of 4 bytes are more than memory can hold; try: check the "
            "count, which is of elements");
  task = broadcast_of(1);
  task.root = 1;
  EXPECT_EQ(text_of(alone.check_task(task)),
            "root 1 is not a rank of this communicator of 1; try: a rank counted from 0");
  task = sum_of(1);
  task.reduction = 77;
  EXPECT_EQ(text_of(alone.check_task(task)),
            "77 is no reduction; try: one of WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG");
  task = sum_of(1);
  for (const weft_data_type type : {WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2}) {
    task.type = type;
    EXPECT_TRUE(alone.check_task(task));
  }
  EXPECT_EQ(alone.describe_pair(0, 0), "the same rank: memory");
  EXPECT_EQ(alone.describe_pair(0, 1), "");
}

TEST(CommunicatorAlone, RefusesRanksThatCannotBe) {
  const auto context = Ranks::value(Context::create("", test::environment_with({})));
  const UniqueId id = Ranks::value(context->serve_rendezvous(context->config()));
  for (const auto& [rank, count, why] :
       {std::tuple(0U, 0U, "rank 0 of 0: ranks count from 0"),
        std::tuple(3U, 3U, "rank 3 of 3: ranks count from 0"),
        std::tuple(0U, 1U << 20, "1048576 ranks are more than the 65536 that are possible")}) {
    const auto joined =
        Communicator::join(*context, context->config(), id, rank, count, context->runtime());
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code(), WEFT_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(joined.error().to_string().find(why), std::string::npos)
        << joined.error().to_string();
  }
  EXPECT_FALSE(
      Communicator::join(*context, context->config(), UniqueId{}, 0, 2, context->runtime()));
}

/// Has no memory for the first that asks for some that its kernels share with the host.
class ShortDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  weft_result allocate_shared(std::size_t bytes, void** out) override {
    if (!refused_.exchange(true)) return WEFT_ERROR_OUT_OF_MEMORY;
    return HostDevice::allocate_shared(bytes, out);
  }

 private:
  std::atomic<bool> refused_{false};
};

// The others have joined hands with it by then, and wait.
TEST(Joins, ThatLackMemoryAtOnceAreToldToTheOthers) {
  const auto context =
      Ranks::value(Context::create("", test::environment_with({{"WEFT_TRANSPORTS_ORDER", "p2p"}}),
                                   std::make_unique<ShortDevice>()));
  const UniqueId id = Ranks::value(context->serve_rendezvous(context->config()));
  std::array<std::string, 2> said;
  std::array<weft_result, 2> codes{};
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto joined =
          Communicator::join(*context, context->config(), id, rank, 2, context->runtime());
      if (joined) return;
      said.at(rank) = joined.error().to_string();
      codes.at(rank) = joined.error().code();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(std::ranges::count(codes, WEFT_ERROR_OUT_OF_MEMORY), 1) << said[0] << said[1];
  EXPECT_EQ(std::ranges::count(codes, WEFT_ERROR_PEER), 1) << said[0] << said[1];
  const std::string& other = codes[0] == WEFT_ERROR_PEER ? said[0] : said[1];
  EXPECT_NE(other.find("WEFT_ERROR_OUT_OF_MEMORY"), std::string::npos) << other;
}

}  // namespace
}  // namespace weft
