// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Communicators that join and end in the background. No deadline ends a join in here: where one
// ends that lacks ranks, the call under test has ended it.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

std::vector<std::string> without_deadline(std::vector<std::string> pairs = {}) {
  pairs.insert(pairs.end(), {"timeouts.bootstrap", "off"});
  return pairs;
}

class Nonblocking : public testing::Test {
 protected:
  weft_comm_config config_of(const CommSettings& settings) {
    weft_comm_config config = *settings.get();
    config.nonblocking = 1;
    return config;
  }
  weft_unique_id make_id() {
    weft_unique_id id;
    must(context_.get(), weft_get_unique_id(context_.get(), &id));
    return id;
  }
  CommHandle start(const weft_unique_id& id, std::uint32_t rank, std::uint32_t ranks,
                   const CommSettings& settings) {
    const weft_comm_config config = config_of(settings);
    weft_comm* comm = nullptr;
    EXPECT_EQ(weft_comm_init_rank(context_.get(), &config, ranks, &id, rank, &comm),
              WEFT_IN_PROGRESS)
        << last_error(context_.get());
    EXPECT_NE(comm, nullptr);
    return CommHandle(comm);
  }
  static weft_result state_of(weft_comm* comm) {
    weft_result state = WEFT_ERROR_INTERNAL;
    EXPECT_EQ(weft_comm_get_async_error(comm, &state), WEFT_OK);
    return state;
  }
  static weft_result wait_for(weft_comm* comm) {
    while (true) {
      const weft_result state = state_of(comm);
      if (state != WEFT_IN_PROGRESS) return state;
      look_later();
    }
  }
  weft_result call(weft_comm* comm) {
    std::int32_t value = 1;
    return weft_all_reduce(&value, &value, 1, WEFT_INT32, WEFT_SUM, comm, stream_.get());
  }
  void expect_they_work(const std::vector<CommHandle>& comms) {
    std::vector<std::unique_ptr<Trial>> trials;
    const auto ranks = static_cast<std::uint32_t>(comms.size());
    const std::vector<StreamHandle> streams = make_streams(context_.get(), ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      trials.push_back(std::make_unique<Trial>(kSmallSum, rank, ranks, 1));
      const weft_result begun = trials[rank]->start(comms[rank].get(), streams[rank].get());
      // A first call connects its ranks in the background.
      EXPECT_TRUE(begun == WEFT_OK || begun == WEFT_IN_PROGRESS) << last_error(context_.get());
    }
    for (const CommHandle& comm : comms)
      EXPECT_EQ(wait_for(comm.get()), WEFT_OK) << last_error(context_.get());
    for (const StreamHandle& stream : streams)
      must(context_.get(), weft_stream_synchronize(stream.get()));
    for (const auto& trial : trials)
      EXPECT_EQ(trial->wrong(), "");
  }

  ContextHandle context_ = make_context();
  StreamHandle stream_ = make_stream(context_.get());
  CommSettings settings_{without_deadline()};
};

TEST_F(Nonblocking, AThreadJoinsOneRankAfterTheOther) {
  const weft_unique_id id = make_id();
  std::vector<CommHandle> comms;
  comms.push_back(start(id, 0, 2, settings_));
  // Its peer has not been asked yet, so it cannot have ended.
  EXPECT_EQ(state_of(comms[0].get()), WEFT_IN_PROGRESS);
  std::uint32_t number = 77;
  EXPECT_EQ(weft_comm_size(comms[0].get(), &number), WEFT_OK);
  EXPECT_EQ(number, 2U);
  EXPECT_EQ(weft_comm_rank(comms[0].get(), &number), WEFT_OK);
  EXPECT_EQ(number, 0U);
  EXPECT_EQ(weft_comm_describe_pair(comms[0].get(), 0, 1, nullptr, 0), 0U);
  for (const weft_result answer : {call(comms[0].get()), weft_comm_finalize(comms[0].get())}) {
    EXPECT_EQ(answer, WEFT_ERROR_INVALID_USAGE);
    EXPECT_EQ(last_error(context_.get()),
              "rank 0 of 2 is still joining its communicator; try: ask weft_comm_get_async_error "
              "until it no longer tells WEFT_IN_PROGRESS");
  }
  comms.push_back(start(id, 1, 2, settings_));
  for (const CommHandle& comm : comms)
    EXPECT_EQ(wait_for(comm.get()), WEFT_OK) << last_error(context_.get());
  EXPECT_THAT(describe_pair(comms[0].get(), 0, 1), HasSubstr("p2p: "));
  expect_they_work(comms);
}

TEST_F(Nonblocking, AllRanksOfAProcess) {
  const weft_comm_config config = config_of(settings_);
  std::vector<weft_comm*> raw(3);
  ASSERT_EQ(weft_comm_init_all(context_.get(), &config, 3, raw.data()), WEFT_IN_PROGRESS);
  const std::vector<CommHandle> comms(raw.begin(), raw.end());
  for (const CommHandle& comm : comms)
    EXPECT_EQ(wait_for(comm.get()), WEFT_OK) << last_error(context_.get());
  expect_they_work(comms);
}

TEST_F(Nonblocking, AnOnlyRank) {
  std::vector<CommHandle> comms;
  comms.push_back(start(make_id(), 0, 1, settings_));
  EXPECT_EQ(wait_for(comms[0].get()), WEFT_OK) << last_error(context_.get());
  expect_they_work(comms);
}

TEST_F(Nonblocking, AGroupDoesNotHoldAJoinBack) {
  const weft_unique_id id = make_id();
  std::vector<CommHandle> comms;
  must(context_.get(), weft_group_start(context_.get()));
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    comms.push_back(start(id, rank, 2, settings_));
  for (const CommHandle& comm : comms)
    EXPECT_EQ(wait_for(comm.get()), WEFT_OK) << last_error(context_.get());
  must(context_.get(), weft_group_end(context_.get()));
  expect_they_work(comms);
}

TEST_F(Nonblocking, ACallInAGroupIsRefusedByItsEnd) {
  const CommHandle comm = start(make_id(), 0, 2, settings_);
  must(context_.get(), weft_group_start(context_.get()));
  EXPECT_EQ(call(comm.get()), WEFT_ERROR_INVALID_USAGE);
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("still joining"));
}

TEST_F(Nonblocking, WrongArgumentsAreToldAtOnce) {
  const weft_unique_id id = make_id();
  const weft_comm_config config = config_of(settings_);
  weft_comm* comm = nullptr;
  EXPECT_EQ(weft_comm_init_rank(context_.get(), &config, 2, &id, 2, &comm),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(context_.get()),
            "rank 2 of 2: ranks count from 0; try: give each rank a number of its own below the "
            "number of ranks");
  const CommSettings unknown({"transports.ordr", "shm"});
  const weft_comm_config wrong = config_of(unknown);
  EXPECT_EQ(weft_comm_init_all(context_.get(), &wrong, 1, &comm), WEFT_ERROR_CONFIG);
  EXPECT_EQ(comm, nullptr);
}

TEST_F(Nonblocking, AProgramOfAnEarlierVersionBlocks) {
  weft_comm_config config = config_of(settings_);
  config.struct_size = offsetof(weft_comm_config, nonblocking);
  weft_comm* comm = nullptr;
  EXPECT_EQ(weft_comm_init_all(context_.get(), &config, 1, &comm), WEFT_OK);
  const CommHandle owner(comm);
}

TEST_F(Nonblocking, AnAbortEndsAJoin) {
  const CommHandle comm = start(make_id(), 0, 2, settings_);
  EXPECT_EQ(weft_comm_abort(comm.get()), WEFT_OK);
  EXPECT_EQ(wait_for(comm.get()), WEFT_ERROR_ABORTED);
  const std::string why =
      "rank 0 of 2 cannot join its communicator: rank 0 was aborted by its user; try: see why the "
      "program of that rank gave up";
  EXPECT_EQ(last_error(context_.get()), why);
  EXPECT_EQ(call(comm.get()), WEFT_ERROR_ABORTED);
  EXPECT_EQ(weft_comm_finalize(comm.get()), WEFT_ERROR_ABORTED);
  EXPECT_EQ(weft_comm_abort(comm.get()), WEFT_OK);
}

TEST_F(Nonblocking, WhoeverIsMissedGivesUpWithTheOthers) {
  const weft_unique_id id = make_id();
  const CommHandle first = start(id, 0, 3, settings_);
  const CommHandle second = start(id, 1, 3, settings_);
  EXPECT_EQ(weft_comm_abort(second.get()), WEFT_OK);
  EXPECT_EQ(wait_for(second.get()), WEFT_ERROR_ABORTED);
  // Whether the others learn of it depends on whether rank 1 had come at all.
  EXPECT_EQ(weft_comm_abort(first.get()), WEFT_OK);
  EXPECT_THAT(wait_for(first.get()), testing::AnyOf(WEFT_ERROR_ABORTED, WEFT_ERROR_PEER));
}

TEST_F(Nonblocking, DestroyEndsAJoin) {
  CommHandle comm = start(make_id(), 0, 2, settings_);
  EXPECT_EQ(weft_comm_destroy(comm.release()), WEFT_OK);
}

// Wherever in the join the abort meets it.
TEST_F(Nonblocking, ARankThatJoinsNoMoreLeavesAGroupAsItIs) {
  CommHandle gone = start(make_id(), 0, 2, settings_);
  const weft_unique_id id = make_id();
  weft_comm* joined = nullptr;
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_comm_init_rank(context_.get(), nullptr, 1, &id, 0, &joined));
  gone.reset();
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_OK) << last_error(context_.get());
  EXPECT_NE(joined, nullptr);
  const CommHandle comm(joined);
}

TEST_F(Nonblocking, AnAbortAtAnyMoment) {
  for (const char* transport : {"p2p", "shm", "net-socket"}) {
    // A p2p end that gives up may close a pipe while the other looks whether it is still there,
    // and then looks once more at a duplicate: right, but a race to a sanitizer.
    if (kSanitized && std::string(transport) == "p2p") continue;
    const CommSettings settings(without_deadline(only_transport(transport)));
    for (int round = 0; round < 40; ++round) {
      const weft_unique_id id = make_id();
      std::vector<CommHandle> comms;
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        comms.push_back(start(id, rank, 3, settings));
      for (int i = 0; i < round * 8; ++i) {
        static_cast<void>(state_of(comms[0].get()));
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      std::thread([&] { EXPECT_EQ(weft_comm_abort(comms[1].get()), WEFT_OK); }).join();
      EXPECT_EQ(wait_for(comms[1].get()), WEFT_ERROR_ABORTED) << last_error(context_.get());
      // If rank 1 left before it came to the rendezvous, nobody tells the others.
      if (round % 2 == 0) comms[0].reset();
      comms.clear();
    }
  }
}

TEST_F(Nonblocking, AJoinThatFailsTellsWhyToWhoeverAsks) {
  const weft_unique_id id = make_id();
  const CommSettings other(without_deadline({"buffers.step", "64KiB"}));
  std::vector<CommHandle> comms;
  comms.push_back(start(id, 0, 2, settings_));
  comms.push_back(start(id, 1, 2, other));
  for (const CommHandle& comm : comms) {
    EXPECT_EQ(wait_for(comm.get()), WEFT_ERROR_CONFIG);
    EXPECT_THAT(last_error(context_.get()), HasSubstr("buffers.step"));
    std::thread([&] {
      EXPECT_EQ(state_of(comm.get()), WEFT_ERROR_CONFIG);
      EXPECT_THAT(last_error(context_.get()), HasSubstr("buffers.step"));
      EXPECT_EQ(call(comm.get()), WEFT_ERROR_CONFIG);
    }).join();
  }
}

class NonblockingEnd : public Nonblocking {
 protected:
  void SetUp() override {
    const weft_comm_config config = config_of(settings_);
    std::vector<weft_comm*> raw(2);
    ASSERT_EQ(weft_comm_init_all(context_.get(), &config, 2, raw.data()), WEFT_IN_PROGRESS);
    comms_ = {raw.begin(), raw.end()};
    for (const CommHandle& comm : comms_)
      ASSERT_EQ(wait_for(comm.get()), WEFT_OK) << last_error(context_.get());
    streams_ = make_streams(context_.get(), 2);
    expect_they_work(comms_);  // so they are connected
  }
  std::vector<StreamHandle> streams_;
  std::vector<CommHandle> comms_;
};

TEST_F(NonblockingEnd, FinalizeWaitsInTheBackground) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 2, 0));
    must(context_.get(), trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
    EXPECT_EQ(weft_comm_finalize(comms_[rank].get()), WEFT_IN_PROGRESS);
    if (rank > 0) continue;
    // Its peer has not called yet, so it cannot have ended.
    EXPECT_EQ(state_of(comms_[0].get()), WEFT_IN_PROGRESS);
    EXPECT_EQ(weft_comm_finalize(comms_[0].get()), WEFT_IN_PROGRESS);
  }
  for (const CommHandle& comm : comms_) {
    EXPECT_EQ(wait_for(comm.get()), WEFT_OK) << last_error(context_.get());
    EXPECT_EQ(weft_comm_finalize(comm.get()), WEFT_OK);
    EXPECT_EQ(call(comm.get()), WEFT_ERROR_INVALID_USAGE);
    EXPECT_THAT(last_error(context_.get()), HasSubstr("has finalized its communicator"));
  }
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
}

TEST_F(NonblockingEnd, TheStreamMayBeUsedWhileItEnds) {
  Trial first(kSmallSum, 0, 2, 0);
  Trial second(kSmallSum, 1, 2, 0);
  must(context_.get(), first.start(comms_[0].get(), streams_[0].get()));
  EXPECT_EQ(weft_comm_finalize(comms_[0].get()), WEFT_IN_PROGRESS);
  std::thread waits([&] { must(context_.get(), weft_stream_synchronize(streams_[0].get())); });
  must(context_.get(), second.start(comms_[1].get(), streams_[1].get()));
  must(context_.get(), weft_stream_synchronize(streams_[1].get()));
  waits.join();
  EXPECT_EQ(wait_for(comms_[0].get()), WEFT_OK);
  EXPECT_EQ(first.wrong(), "");
}

TEST_F(NonblockingEnd, AnAbortEndsIt) {
  Trial waiting(kSmallSum, 0, 2, 0);
  must(context_.get(), waiting.start(comms_[0].get(), streams_[0].get()));
  EXPECT_EQ(weft_comm_finalize(comms_[0].get()), WEFT_IN_PROGRESS);
  std::thread([&] { EXPECT_EQ(weft_comm_abort(comms_[0].get()), WEFT_OK); }).join();
  EXPECT_EQ(wait_for(comms_[0].get()), WEFT_ERROR_ABORTED);
  EXPECT_EQ(last_error(context_.get()),
            "rank 0 was aborted by its user; try: see why the program of that rank gave up");
}

TEST_F(NonblockingEnd, DestroyWaitsForIt) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 2, 0));
    must(context_.get(), trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
    EXPECT_EQ(weft_comm_finalize(comms_[rank].get()), WEFT_IN_PROGRESS);
  }
  comms_.clear();
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
}

// A root that only sends is through before the other rank calls.
TEST_F(NonblockingEnd, DestroyWaitsForNoOtherRanksCall) {
  float value = 1;
  float got = 0;
  const auto broadcast = [&](std::size_t rank, float* at) {
    const weft_result result =
        weft_broadcast(at, at, 1, WEFT_FLOAT32, 0, comms_[rank].get(), streams_[rank].get());
    ASSERT_GE(result, WEFT_OK) << last_error(context_.get());
    ASSERT_EQ(wait_for(comms_[rank].get()), WEFT_OK) << last_error(context_.get());
  };
  broadcast(0, &value);
  must(context_.get(), weft_stream_synchronize(streams_[0].get()));
  ASSERT_EQ(weft_comm_finalize(comms_[0].get()), WEFT_IN_PROGRESS);
  // Bounded, so that a wait is a failure and no hang.
  auto gone = std::async(std::launch::async, [&] { comms_[0].reset(); });
  EXPECT_EQ(gone.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  broadcast(1, &got);
  must(context_.get(), weft_stream_synchronize(streams_[1].get()));
  EXPECT_EQ(got, 1.0F);
}

TEST_F(Nonblocking, AfterABlockingFinalizeNothingMayBeCalled) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 1);
  EXPECT_EQ(call(comms[0].get()), WEFT_OK);
  EXPECT_EQ(weft_comm_finalize(comms[0].get()), WEFT_OK);
  EXPECT_EQ(call(comms[0].get()), WEFT_ERROR_INVALID_USAGE);
  EXPECT_EQ(state_of(comms[0].get()), WEFT_OK);
}

}  // namespace
}  // namespace weft::test
