// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and receives: any exchange in any order, alone and among collectives, and what is said of
// those that do not fit.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/exchange.h"
#include "tests/integration/api/handles.h"
#include "tests/integration/api/standard_error.h"
#include "tests/integration/api/trial.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kMostBytes = std::size_t{600} << 10;  // several rounds of a pair's buffer

std::uint64_t seed_for(std::uint64_t round) {
  return testing::UnitTest::GetInstance()->random_seed() * 1000003ULL + round;
}

class Pairs : public testing::TestWithParam<std::string> {
 protected:
  const ContextHandle context_ = make_context();
  const CommSettings settings_{only_transport(GetParam())};
};

TEST_P(Pairs, AnyExchangeOfOneThread) {
  for (const std::uint32_t ranks : {1U, 2U, 5U}) {
    const LocalComms local(context_.get(), settings_.get(), ranks);
    for (std::uint64_t round = 0; round < 6; ++round) {
      std::vector<std::unique_ptr<Exchange>> exchanges;
      must(context_.get(), weft_group_start(context_.get()));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        exchanges.push_back(std::make_unique<Exchange>(seed_for(round), rank, ranks, kMostBytes));
        must(context_.get(),
             exchanges.back()->start(nullptr, local.comm(rank), local.stream(rank)));
      }
      must(context_.get(), weft_group_end(context_.get()));
      local.synchronize();
      for (const auto& exchange : exchanges)
        EXPECT_EQ(exchange->wrong(), "");
    }
  }
}

// Groups of exchanges alone, with collectives before, between and behind, and several in a row
// without waiting.
TEST_P(Pairs, ExchangesAmongCollectivesOfAThreadEach) {
  constexpr std::uint32_t kRanks = 4;
  constexpr std::uint64_t kRounds = 10;
  weft_unique_id id;
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  std::mutex mutex;
  std::vector<std::string> problems;
  const auto be_rank = [&](std::uint32_t rank) {
    try {
      const StreamHandle stream = make_stream(context_.get());
      weft_comm* raw = nullptr;
      must(context_.get(),
           weft_comm_init_rank(context_.get(), settings_.get(), kRanks, &id, rank, &raw));
      const CommHandle comm(raw);
      std::vector<std::unique_ptr<Exchange>> exchanges;
      std::vector<std::unique_ptr<Trial>> trials;
      const auto call_collective = [&](std::uint64_t round) {
        trials.push_back(std::make_unique<Trial>(
            Shape{.kind = Kind::kAllReduce, .count = 1000, .type = WEFT_INT32}, rank, kRanks,
            static_cast<std::uint32_t>(round)));
        must(context_.get(), trials.back()->start(comm.get(), stream.get()));
      };
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        exchanges.push_back(std::make_unique<Exchange>(seed_for(round), rank, kRanks, kMostBytes));
        must(context_.get(), weft_group_start(context_.get()));
        if (round % 2 == 1 && rank % 2 == 0) call_collective(round);
        must(context_.get(), exchanges.back()->start(nullptr, comm.get(), stream.get()));
        if (round % 2 == 1 && rank % 2 == 1) call_collective(round);
        must(context_.get(), weft_group_end(context_.get()));
        if (round % 3 == 0) call_collective(kRounds + round);
      }
      must(context_.get(), weft_stream_synchronize(stream.get()));
      for (const auto& exchange : exchanges) {
        if (const auto text = exchange->wrong(); !text.empty()) throw std::runtime_error(text);
      }
      for (const auto& trial : trials) {
        if (const auto text = trial->wrong(); !text.empty()) throw std::runtime_error(text);
      }
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex);
      problems.push_back("rank " + std::to_string(rank) + ": " + error.what());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back(be_rank, rank);
  }
  EXPECT_EQ(problems, std::vector<std::string>());
}

// Neither end knows of a group: each call waits for its partner in its own stream.
TEST_P(Pairs, OutsideOfGroups) {
  const LocalComms local(context_.get(), settings_.get(), 2);
  std::vector<int> sent(100000);
  std::iota(sent.begin(), sent.end(), 7);
  std::vector<int> received(sent.size());
  for (int round = 0; round < 3; ++round) {
    std::ranges::fill(received, 0);
    must(context_.get(),
         weft_send(sent.data(), sent.size(), WEFT_INT32, 1, local.comm(0), local.stream(0)));
    must(context_.get(), weft_recv(received.data(), received.size(), WEFT_INT32, 0, local.comm(1),
                                   local.stream(1)));
    local.synchronize();
    EXPECT_EQ(received, sent);
  }
}

// A group's sends and receives are one operation, though they were called on several streams.
TEST_P(Pairs, OfSeveralStreams) {
  const LocalComms local(context_.get(), settings_.get(), 2);
  const std::array other = {make_stream(context_.get()), make_stream(context_.get())};
  std::vector<std::vector<int>> sent(2, std::vector<int>(100000));
  std::vector<std::vector<int>> received(2, std::vector<int>(100000));
  for (int value = 1; value < 4; ++value) {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::ranges::fill(sent[rank], value * 10 + static_cast<int>(rank));
      must(context_.get(), weft_send(sent[rank].data(), sent[rank].size(), WEFT_INT32, 1 - rank,
                                     local.comm(rank), local.stream(rank)));
      must(context_.get(), weft_recv(received[rank].data(), received[rank].size(), WEFT_INT32,
                                     1 - rank, local.comm(rank), other[rank].get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
    // The receive's own stream knows when the data is there.
    for (const StreamHandle& stream : other)
      must(context_.get(), weft_stream_synchronize(stream.get()));
    EXPECT_EQ(received[0], sent[1]);
    EXPECT_EQ(received[1], sent[0]);
  }
}

// Ranks of one thread that share two streams, and of which each names another one first.
TEST_P(Pairs, OfRanksThatShareSeveralStreams) {
  std::vector<std::string> words = only_transport(GetParam());
  words.insert(words.end(), {"timeouts.operation", "20s"});
  const CommSettings settings(words);
  const LocalComms local(context_.get(), settings.get(), 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  std::vector<std::vector<int>> sent(2, std::vector<int>(100000));
  std::vector<std::vector<int>> received(2, std::vector<int>(100000));
  for (int value = 1; value < 4; ++value) {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::ranges::fill(sent[rank], value * 10 + static_cast<int>(rank));
      must(context_.get(), weft_send(sent[rank].data(), sent[rank].size(), WEFT_INT32, 1 - rank,
                                     local.comm(rank), streams[rank].get()));
      must(context_.get(), weft_recv(received[rank].data(), received[rank].size(), WEFT_INT32,
                                     1 - rank, local.comm(rank), streams[1 - rank].get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
    for (const StreamHandle& stream : streams)
      must(context_.get(), weft_stream_synchronize(stream.get()));
    EXPECT_EQ(received[0], sent[1]);
    EXPECT_EQ(received[1], sent[0]);
  }
}

TEST_P(Pairs, ThatDifferAreNamedByBoth) {
  std::vector<int> data(100);  // before the ranks, whose ends wait for the send that nobody does
  const LocalComms local(context_.get(), settings_.get(), 2);
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_send(data.data(), 8, WEFT_INT32, 1, local.comm(0), local.stream(0)));
  must(context_.get(),
       weft_recv(data.data() + 50, 9, WEFT_UINT32, 0, local.comm(1), local.stream(1)));
  must(context_.get(), weft_group_end(context_.get()));
  EXPECT_EQ(weft_stream_synchronize(local.stream(1)), WEFT_ERROR_MISMATCH);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("rank 0 called send of 8 int32 to rank 1 (call 1), but rank 1 called "
                        "recv of 9 uint32 from rank 0 (call 1)"));
  weft_result error = WEFT_OK;
  while (error == WEFT_OK) {  // told by rank 1
    look_later();
    must(context_.get(), weft_comm_get_async_error(local.comm(0), &error));
  }
  EXPECT_EQ(error, WEFT_ERROR_MISMATCH);
  EXPECT_THAT(
      last_error(context_.get()),
      HasSubstr("rank 0 called send of 8 int32 to rank 1 (call 1), but rank 1 called recv"));
}

TEST_P(Pairs, ARankThatLeftIsNamedByItsPartner) {
  const ContextHandle other = make_context();
  weft_unique_id id;
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  std::thread leaver([&] {
    weft_comm* raw = nullptr;
    must(other.get(), weft_comm_init_rank(other.get(), settings_.get(), 2, &id, 1, &raw));
    const CommHandle comm(raw);
  });
  weft_comm* raw = nullptr;
  must(context_.get(), weft_comm_init_rank(context_.get(), settings_.get(), 2, &id, 0, &raw));
  const CommHandle comm(raw);
  leaver.join();
  const StreamHandle stream = make_stream(context_.get());
  int value = 0;
  const weft_result called = weft_recv(&value, 1, WEFT_INT32, 1, comm.get(), stream.get());
  EXPECT_EQ(called, WEFT_ERROR_PEER);
  EXPECT_THAT(last_error(context_.get()),
              AllOf(HasSubstr("rank 1"), HasSubstr("has left the communicator")));
}

// Who left cuts the ring that connects ranks while they join: those that stay can still meet.
TEST_P(Pairs, RanksThatMeetWhenOthersHaveLeft) {
  std::vector<std::string> words = only_transport(GetParam());
  words.insert(words.end(), {"timeouts.bootstrap", "20s"});
  const CommSettings settings(words);
  std::vector<CommHandle> comms = init_all(context_.get(), settings, 8);
  std::vector<StreamHandle> streams = make_streams(context_.get(), 8);
  for (const std::size_t leaver : {2U, 5U})
    comms[leaver].reset();
  const std::vector<int> sent = {1, 2, 3};
  for (const auto& [from, to] : {std::pair(0U, 4U), std::pair(6U, 1U)}) {
    std::vector<int> received(3);
    must(context_.get(), weft_group_start(context_.get()));
    must(context_.get(), weft_send(sent.data(), sent.size(), WEFT_INT32, to, comms[from].get(),
                                   streams[from].get()));
    must(context_.get(), weft_recv(received.data(), received.size(), WEFT_INT32, from,
                                   comms[to].get(), streams[to].get()));
    // Meets nobody, so it misses nobody.
    must(context_.get(),
         weft_send(nullptr, 0, WEFT_INT32, 5, comms[from].get(), streams[from].get()));
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_stream_synchronize(streams[from].get()));
    must(context_.get(), weft_stream_synchronize(streams[to].get()));
    EXPECT_EQ(received, sent);
  }
  // Rank 4's part of the ring ends at 5, so it knows how that one left, and nobody there of
  // another.
  comms[1].reset();
  int value = 0;
  EXPECT_EQ(weft_recv(&value, 1, WEFT_INT32, 1, comms[4].get(), streams[4].get()), WEFT_ERROR_PEER);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("rank 1 has left the communicator"));
}

TEST_P(Pairs, EachLongWaitIsReported) {
  std::vector<std::string> words = only_transport(GetParam());
  words.insert(words.end(), {"timeouts.report", "100ms"});
  const CommSettings settings(words);
  const LocalComms local(context_.get(), settings.get(), 2);
  const StandardError written;
  const std::string kReport = "in recv of 1 int32 from rank 0";
  int value = 7;
  int got = 0;
  for (std::size_t wait = 1; wait <= 2; ++wait) {
    must(context_.get(), weft_recv(&got, 1, WEFT_INT32, 0, local.comm(1), local.stream(1)));
    std::thread receiver([&] { must(context_.get(), weft_stream_synchronize(local.stream(1))); });
    // Bounded, so that a report that never comes is a failure and no hang.
    for (int look = 0; look < 1000 && written.count(kReport) < wait; ++look)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    must(context_.get(), weft_send(&value, 1, WEFT_INT32, 1, local.comm(0), local.stream(0)));
    must(context_.get(), weft_stream_synchronize(local.stream(0)));
    receiver.join();
    EXPECT_EQ(got, value++);
  }
  EXPECT_EQ(written.count(kReport), 2U);
}

INSTANTIATE_TEST_SUITE_P(Transports, Pairs, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           return info.param == "net-socket" ? std::string("net_socket")
                                                             : info.param;
                         });

class PairArguments : public testing::Test {
 protected:
  const ContextHandle context_ = make_context();
  const LocalComms local_{context_.get(), nullptr, 2};
  std::array<int, 8> data_{};

  void expect_refusal(weft_result result, weft_result code, const std::string& text) {
    EXPECT_EQ(result, code);
    EXPECT_EQ(last_error(context_.get()), text);
  }
};

TEST_F(PairArguments, AreChecked) {
  weft_comm* const comm = local_.comm(0);
  weft_stream* const stream = local_.stream(0);
  expect_refusal(weft_send(data_.data(), 1, WEFT_INT32, 2, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "partner 2 is not a rank of this communicator of 2; try: a rank counted from 0");
  expect_refusal(weft_send(nullptr, 1, WEFT_INT32, 1, comm, stream), WEFT_ERROR_INVALID_ARGUMENT,
                 "the send buffer is NULL, and count is 1; try: pass a buffer, or a count of 0");
  expect_refusal(weft_recv(nullptr, 1, WEFT_INT32, 1, comm, stream), WEFT_ERROR_INVALID_ARGUMENT,
                 "the receive buffer is NULL, and count is 1; try: pass a buffer, or a count of 0");
  expect_refusal(weft_recv(data_.data(), 1, 99, 1, comm, stream), WEFT_ERROR_INVALID_ARGUMENT,
                 "99 is no element type; try: one of the WEFT_INT8 to WEFT_FLOAT8_E5M2 constants");
  EXPECT_EQ(weft_send(nullptr, 0, WEFT_INT32, 1, comm, stream), WEFT_OK);
  EXPECT_EQ(weft_stream_synchronize(stream), WEFT_OK);
}

TEST_F(PairArguments, WhatARankSendsToItselfMustBeReceivedInTheSameGroup) {
  weft_comm* const comm = local_.comm(0);
  weft_stream* const stream = local_.stream(0);
  expect_refusal(weft_send(data_.data(), 1, WEFT_INT32, 0, comm, stream), WEFT_ERROR_INVALID_USAGE,
                 "rank 0 sends to itself and does not receive in the same group; try: put both "
                 "between weft_group_start and weft_group_end");
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_send(data_.data(), 2, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_recv(data_.data() + 4, 3, WEFT_INT32, 0, comm, stream));
  expect_refusal(
      weft_group_end(context_.get()), WEFT_ERROR_MISMATCH,
      "rank 0 sends 2 int32 to itself and receives 3 int32; try: make both halves alike");
  // None of these was started, and the communicator is none the worse.
  data_ = {1, 2, 0, 0};
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_recv(data_.data() + 2, 2, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_send(data_.data(), 2, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_group_end(context_.get()));
  must(context_.get(), weft_stream_synchronize(stream));
  EXPECT_EQ(data_, (std::array<int, 8>{1, 2, 1, 2}));
}

// As between two ranks: a program that makes a call for each partner may have nothing for itself.
TEST_F(PairArguments, ACallOfARankWithItselfWithoutElementsMeetsNobody) {
  weft_comm* const comm = local_.comm(0);
  weft_stream* const stream = local_.stream(0);
  data_ = {1, 2};
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_recv(nullptr, 0, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_send(nullptr, 0, WEFT_INT8, 1, comm, stream));
  must(context_.get(), weft_group_end(context_.get()));
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_send(nullptr, 0, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_send(data_.data(), 2, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_recv(data_.data() + 2, 2, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_group_end(context_.get()));
  must(context_.get(), weft_stream_synchronize(stream));
  EXPECT_EQ(data_, (std::array<int, 8>{1, 2, 1, 2}));
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_send(nullptr, 0, WEFT_INT32, 0, comm, stream));
  must(context_.get(), weft_recv(data_.data(), 2, WEFT_INT32, 0, comm, stream));
  expect_refusal(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE,
                 "rank 0 receives from itself and does not send in the same group; try: put both "
                 "between weft_group_start and weft_group_end");
}

}  // namespace
}  // namespace weft::test
