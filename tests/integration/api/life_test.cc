// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lives of contexts, communicators, streams and groups: several at once, ended in good and in bad
// ways.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

class Life : public testing::Test {
 protected:
  ContextHandle context_ = make_context();
  CommSettings settings_;
};

/// One call on all ranks of a communicator that this thread holds, each on a stream of its own.
void expect_it_works(weft_context* context, const std::vector<CommHandle>& comms,
                     const std::vector<StreamHandle>& streams) {
  std::vector<std::unique_ptr<Trial>> trials;
  const auto ranks = static_cast<std::uint32_t>(comms.size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    trials.push_back(std::make_unique<Trial>(kSmallSum, rank, ranks, 1));
    must(context, trials[rank]->start(comms[rank].get(), streams[rank].get()));
  }
  for (const StreamHandle& stream : streams)
    must(context, weft_stream_synchronize(stream.get()));
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
}

/// Queries until the stream is empty; how many queries found it busy.
std::size_t query_until_done(weft_context* context, weft_stream* stream) {
  std::size_t busy = 0;
  for (;;) {
    const weft_result result = weft_stream_query(stream);
    if (result == WEFT_OK) return busy;
    if (result != WEFT_IN_PROGRESS) must(context, result);
    ++busy;
    std::this_thread::yield();
  }
}

TEST_F(Life, TellsItsVersionAndResults) {
  EXPECT_STREQ(weft_version(), WEFT_VERSION_TEXT);
  EXPECT_STREQ(weft_result_name(WEFT_ERROR_TIMEOUT), "WEFT_ERROR_TIMEOUT");
  for (weft_result result = WEFT_ERROR_INTERNAL; result <= WEFT_AGAIN; ++result) {
    EXPECT_THAT(weft_result_name(result), HasSubstr("WEFT_"));
    EXPECT_GT(std::string(weft_result_description(result)).size(), 5U);
  }
}

TEST_F(Life, ACommunicatorKnowsItsRanks) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    std::uint32_t found = 77;
    must(context_.get(), weft_comm_size(comms[rank].get(), &found));
    EXPECT_EQ(found, 3U);
    must(context_.get(), weft_comm_rank(comms[rank].get(), &found));
    EXPECT_EQ(found, rank);
  }
  const std::string pair = describe_pair(comms[0].get(), 0, 2);
  EXPECT_THAT(pair, HasSubstr("p2p: "));
  EXPECT_EQ(pair, describe_pair(comms[1].get(), 2, 0));
  EXPECT_EQ(weft_comm_describe_pair(comms[0].get(), 0, 3, nullptr, 0), 0U);
  std::array<char, 5> cut{};
  EXPECT_EQ(weft_comm_describe_pair(comms[0].get(), 0, 2, cut.data(), cut.size()), pair.size() + 1);
  EXPECT_STREQ(cut.data(), "p2p:");
}

TEST_F(Life, ACommunicatorsOwnSettingsOverrideTheContexts) {
  const std::vector<CommHandle> by_default = init_all(context_.get(), settings_, 2);
  const CommSettings settings({"transports.order", "shm"});
  const std::vector<CommHandle> overridden = init_all(context_.get(), settings, 2);
  EXPECT_THAT(describe_pair(by_default[0].get(), 0, 1), HasSubstr("p2p: "));
  EXPECT_THAT(describe_pair(overridden[0].get(), 0, 1), HasSubstr("shm: "));
  EXPECT_THAT(describe_pair(overridden[0].get(), 0, 1), HasSubstr("(communicator)"));
}

TEST_F(Life, ManyOperationsAreQueuedAndQueried) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  constexpr std::uint32_t kCalls = 2000;
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    Shape shape = kSmallSum;
    shape.count = 1 + (i % 50);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      trials.push_back(std::make_unique<Trial>(shape, rank, 2, i));
      must(context_.get(), trials.back()->start(comms[rank].get(), streams[rank].get()));
    }
  }
  for (const StreamHandle& stream : streams)
    query_until_done(context_.get(), stream.get());
  for (const auto& trial : trials)
    ASSERT_EQ(trial->wrong(), "");
}

TEST_F(Life, AQueryTellsThatWorkWaits) {
  std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  EXPECT_EQ(weft_stream_query(streams[0].get()), WEFT_OK);
  Trial first(kSmallSum, 0, 2, 0);
  Trial second(kSmallSum, 1, 2, 0);
  must(context_.get(), first.start(comms[0].get(), streams[0].get()));
  // Its peer has not called yet, so it cannot have ended.
  EXPECT_EQ(weft_stream_query(streams[0].get()), WEFT_IN_PROGRESS);
  must(context_.get(), second.start(comms[1].get(), streams[1].get()));
  query_until_done(context_.get(), streams[0].get());
  query_until_done(context_.get(), streams[1].get());
  EXPECT_EQ(first.wrong(), "");
  EXPECT_EQ(second.wrong(), "");
}

TEST_F(Life, OneCommunicatorOnSeveralStreams) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 6);
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t i = 0; i < 60; ++i) {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 2, i));
      must(context_.get(),
           trials.back()->start(comms[rank].get(), streams[(2 * (i % 3)) + rank].get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
  }
  for (const StreamHandle& stream : streams)
    must(context_.get(), weft_stream_synchronize(stream.get()));
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
}

TEST_F(Life, SeveralCommunicatorsAtOnce) {
  std::vector<std::vector<CommHandle>> all;
  all.push_back(init_all(context_.get(), settings_, 2));
  all.push_back(init_all(context_.get(), CommSettings(only_transport("shm")), 2));
  all.push_back(init_all(context_.get(), CommSettings(only_transport("net-socket")), 2));
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t i = 0; i < 30; ++i) {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      for (const auto& comms : all) {
        trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 2, i));
        must(context_.get(), trials.back()->start(comms[rank].get(), streams[rank].get()));
      }
    }
    must(context_.get(), weft_group_end(context_.get()));
  }
  for (const StreamHandle& stream : streams)
    must(context_.get(), weft_stream_synchronize(stream.get()));
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
}

/// How often threads of this process left their processors so far, of their own accord or not.
std::int64_t times_switched() {
  std::int64_t times = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      std::int64_t count = 0;
      if (word.ends_with("_ctxt_switches:") && status >> count) times += count;
    }
  }
  return times;
}

// Of all threads of this process: workers, reactor, engine. One that looked each ten milliseconds
// would be switched to more often, one that never sleeps would use more time; a sanitizer has a
// thread of its own that looks ten times a second.
TEST_F(Life, IdleCommunicatorsUseNoProcessor) {
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  std::vector<std::vector<CommHandle>> all;
  for (const char* transport : {"p2p", "shm", "net-socket"}) {
    all.push_back(init_all(context_.get(), CommSettings(only_transport(transport)), 2));
    for (int call = 0; call < 10; ++call)
      expect_it_works(context_.get(), all.back(), streams);
  }
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  const std::int64_t switched_before = times_switched();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  EXPECT_LT(times_switched() - switched_before, kSanitized ? 400 : 100);
  EXPECT_LT(used() - before, std::chrono::seconds(1));
  for (const auto& comms : all)
    expect_it_works(context_.get(), comms, streams);
}

/// Of this process, by its folder of /proc/self.
std::size_t count_of(const char* kind) {
  using std::filesystem::directory_iterator;
  const directory_iterator entries(std::string("/proc/self/") + kind);
  return static_cast<std::size_t>(std::distance(entries, directory_iterator()));
}

// A rendezvous serves from a thread of its own, and nobody comes where there is one rank.
TEST_F(Life, OneRankLeavesNothingBehind) {
  const auto make_one = [&] { EXPECT_EQ(init_all(context_.get(), settings_, 1).size(), 1U); };
  make_one();
  const std::size_t threads = count_of("task");
  const std::size_t descriptors = count_of("fd");
  for (int i = 0; i < 5; ++i)
    make_one();
  // One that was joined stands in /proc a moment longer.
  for (int i = 0; i < 1000 && count_of("task") > threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(count_of("task"), threads);  // one more may have been counted before
  EXPECT_EQ(count_of("fd"), descriptors);
}

// Whoever tries again and again would run out of them.
TEST_F(Life, RanksThatCannotJoinLeaveNothingBehind) {
  const CommSettings wrong({"transports.ordr", "shm"});
  weft_comm_config background = *wrong.get();
  background.nonblocking = 1;
  const std::size_t threads = count_of("task");
  const std::size_t descriptors = count_of("fd");
  for (const weft_comm_config* config : {wrong.get(), &std::as_const(background)}) {
    std::array<weft_comm*, 2> comms{};
    EXPECT_EQ(weft_comm_init_all(context_.get(), config, 2, comms.data()), WEFT_ERROR_CONFIG);
  }
  for (int i = 0; i < 1000 && count_of("task") > threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LE(count_of("task"), threads);
  EXPECT_EQ(count_of("fd"), descriptors);
}

/// Names of this process's threads, as top -H shows them.
std::set<std::string> thread_names() {
  std::set<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    for (std::string name; std::getline(file, name);)
      names.insert(name);
  }
  return names;
}

TEST_F(Life, ThreadsTellByTheirNamesWhatTheyAreFor) {
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  const std::vector<CommHandle> comms =
      init_all(context_.get(), CommSettings(only_transport("net-socket")), 2);
  expect_it_works(context_.get(), comms, streams);
  const auto has = [](const char* name) {
    // They name themselves, so that one may still be about to.
    for (int i = 0; i < 1000 && !thread_names().contains(name); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return thread_names().contains(name);
  };
  EXPECT_TRUE(has("weft-reactor"));
  EXPECT_TRUE(has("weft-stream"));
  EXPECT_TRUE(has("weft-port"));
}

TEST_F(Life, SeveralContextsShareNothing) {
  const ContextHandle other = make_context();
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  {
    const std::vector<StreamHandle> other_streams = make_streams(other.get(), 2);
    const std::vector<CommHandle> other_comms = init_all(other.get(), settings_, 2);
    expect_it_works(other.get(), other_comms, other_streams);
    expect_it_works(context_.get(), comms, streams);
    EXPECT_EQ(weft_group_end(other.get()), WEFT_ERROR_INVALID_USAGE);
    EXPECT_NE(last_error(other.get()), "");
    EXPECT_EQ(last_error(context_.get()), "");
  }
  must(other.get(), weft_context_destroy(ContextHandle(make_context()).release()));
  expect_it_works(context_.get(), comms, streams);
}

TEST_F(Life, RanksOfOneCommunicatorMayBelongToSeveralContexts) {
  const ContextHandle other = make_context();
  weft_unique_id id;
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  weft_comm* first = nullptr;
  weft_comm* second = nullptr;
  std::thread joiner([&] {
    EXPECT_EQ(weft_comm_init_rank(other.get(), nullptr, 2, &id, 1, &second), WEFT_OK)
        << last_error(other.get());
  });
  EXPECT_EQ(weft_comm_init_rank(context_.get(), nullptr, 2, &id, 0, &first), WEFT_OK)
      << last_error(context_.get());
  joiner.join();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  const CommHandle comm(first);
  const CommHandle other_comm(second);
  const StreamHandle stream = make_stream(context_.get());
  const StreamHandle other_stream = make_stream(other.get());
  Trial mine(kSmallSum, 0, 2, 0);
  Trial theirs(kSmallSum, 1, 2, 0);
  must(context_.get(), mine.start(comm.get(), stream.get()));
  must(other.get(), theirs.start(other_comm.get(), other_stream.get()));
  must(context_.get(), weft_stream_synchronize(stream.get()));
  must(other.get(), weft_stream_synchronize(other_stream.get()));
  EXPECT_EQ(mine.wrong(), "");
  EXPECT_EQ(theirs.wrong(), "");
}

TEST_F(Life, GroupsNest) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const StreamHandle stream = make_stream(context_.get());
  Trial first(kSmallSum, 0, 2, 0);
  Trial second(kSmallSum, 1, 2, 0);
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), first.start(comms[0].get(), stream.get()));
  must(context_.get(), weft_group_end(context_.get()));
  EXPECT_EQ(weft_stream_query(stream.get()), WEFT_OK) << "an inner end has started work";
  must(context_.get(), second.start(comms[1].get(), stream.get()));
  must(context_.get(), weft_group_end(context_.get()));
  must(context_.get(), weft_stream_synchronize(stream.get()));
  EXPECT_EQ(first.wrong(), "");
  EXPECT_EQ(second.wrong(), "");
}

TEST_F(Life, AGroupBelongsToItsThread) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 1);
  const StreamHandle stream = make_stream(context_.get());
  must(context_.get(), weft_group_start(context_.get()));
  std::thread([&] {
    Trial trial(kSmallSum, 0, 1, 0);
    must(context_.get(), trial.start(comms[0].get(), stream.get()));
    must(context_.get(), weft_stream_synchronize(stream.get()));
    EXPECT_EQ(trial.wrong(), "") << "it waits for the other thread's group";
  }).join();
  must(context_.get(), weft_group_end(context_.get()));
}

TEST_F(Life, FinalizeWaitsAndDestroyFollows) {
  std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 2, i));
      must(context_.get(), trials.back()->start(comms[rank].get(), streams[rank].get()));
    }
  }
  for (const CommHandle& comm : comms)
    must(context_.get(), weft_comm_finalize(comm.get()));
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
  for (CommHandle& comm : comms)
    EXPECT_EQ(weft_comm_destroy(comm.release()), WEFT_OK);
}

// Two roots send and nobody waits for data: the end is where it shows.
TEST_F(Life, FinalizeTellsRanksThatAllTookThemselvesForTheRoot) {
  std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  std::array<float, 2> data{};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    must(context_.get(), weft_broadcast(&data[rank], &data[rank], 1, WEFT_FLOAT32, rank,
                                        comms[rank].get(), streams[rank].get()));
    must(context_.get(), weft_stream_synchronize(streams[rank].get()));
  }
  for (const CommHandle& comm : comms) {
    EXPECT_EQ(weft_comm_finalize(comm.get()), WEFT_ERROR_MISMATCH);
    EXPECT_THAT(last_error(context_.get()),
                AllOf(HasSubstr("rank 0 called broadcast of 1 float32 from rank 0 (call 1)"),
                      HasSubstr("rank 1 called broadcast of 1 float32 from rank 1 (call 1)")));
  }
}

// Of blocks that differ one rank may have all, and then it only sends.
TEST_F(Life, FinalizeTellsRanksThatEachTookAllBlocksForTheirs) {
  const auto expect_named = [&](const std::string& operation, auto call) {
    const LocalComms local(context_.get(), settings_.get(), 2);
    std::array<float, 4> data{};
    constexpr std::array<std::size_t, 2> kOffsets{};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::array<std::size_t, 2> counts{};
      counts[rank] = 2;
      must(context_.get(), call(rank, local, data.data(), counts.data(), kOffsets.data()));
      must(context_.get(), weft_stream_synchronize(local.stream(rank)));
    }
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(weft_comm_finalize(local.comm(rank)), WEFT_ERROR_MISMATCH);
      EXPECT_THAT(last_error(context_.get()),
                  AllOf(HasSubstr("rank 0 called " + operation + " of 2 float32"),
                        HasSubstr("rank 1 called " + operation + " of 2 float32")));
    }
  };
  expect_named("all_gather_v", [](std::uint32_t rank, const LocalComms& local, float* data,
                                  const std::size_t* counts, const std::size_t* offsets) {
    return weft_all_gather_v(data + 2, data, counts, offsets, WEFT_FLOAT32, local.comm(rank),
                             local.stream(rank));
  });
  expect_named("reduce_scatter_v", [](std::uint32_t rank, const LocalComms& local, float* data,
                                      const std::size_t* counts, const std::size_t* offsets) {
    const std::array<std::size_t, 2> of_other = {counts[1], counts[0]};
    return weft_reduce_scatter_v(data, of_other.data(), offsets, data + 2, WEFT_FLOAT32, WEFT_SUM,
                                 local.comm(rank), local.stream(rank));
  });
}

// One that is destroyed at once may be asked meanwhile to pass on what others compare. Contexts of
// their own, as of processes: else one thread would see to all ranks.
TEST_F(Life, RanksLeaveWhileOthersCompare) {
  constexpr std::uint32_t kRanks = 3;
  std::vector<ContextHandle> contexts;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    contexts.push_back(make_context());
  for (std::uint32_t turn = 0; turn < (kSanitized ? 25 : 100); ++turn) {
    weft_unique_id id;
    must(contexts[0].get(), weft_get_unique_id(contexts[0].get(), &id));
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        weft_context* const context = contexts[rank].get();
        weft_comm* comm = nullptr;
        must(context, weft_comm_init_rank(context, nullptr, kRanks, &id, rank, &comm));
        const CommHandle owner(comm);
        const StreamHandle stream = make_stream(context);
        float data = 0;
        must(context, weft_broadcast(&data, &data, 1, WEFT_FLOAT32, 0, comm, stream.get()));
        must(context, weft_stream_synchronize(stream.get()));
        if (rank != turn % kRanks) must(context, weft_comm_finalize(comm));
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
}

TEST_F(Life, DestroyWaitsForWhatIsQueued) {
  std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint32_t i = 0; i < 100; ++i) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 2, i));
      must(context_.get(), trials.back()->start(comms[rank].get(), streams[rank].get()));
    }
  }
  comms.clear();
  for (const auto& trial : trials)
    EXPECT_EQ(trial->wrong(), "");
  for (const StreamHandle& stream : streams)
    EXPECT_EQ(weft_stream_synchronize(stream.get()), WEFT_OK);
}

class Abort : public testing::TestWithParam<std::string> {};

TEST_P(Abort, EndsABlockedCallFromAnotherThread) {
  const ContextHandle context = make_context();
  std::vector<CommHandle> comms =
      init_all(context.get(), CommSettings(only_transport(GetParam())), 2);
  const std::vector<StreamHandle> streams = make_streams(context.get(), 2);
  // Of a small call all that the other rank needs may have left before the abort. Here each rank
  // reduces a share that the other has to wait for.
  Shape shape = kSmallSum;
  shape.count = 100'000;
  Trial waiting(shape, 0, 2, 0);
  std::atomic<bool> started{false};
  std::thread blocked([&] {
    EXPECT_EQ(waiting.start(comms[0].get(), streams[0].get()), WEFT_OK);
    started = true;
    EXPECT_EQ(weft_stream_synchronize(streams[0].get()), WEFT_ERROR_ABORTED);
    EXPECT_EQ(last_error(context.get()),
              "rank 0 was aborted by its user; try: see why the program of that rank gave up");
  });
  while (!started)
    look_later();
  weft_result error = WEFT_ERROR_INTERNAL;
  EXPECT_EQ(weft_comm_get_async_error(comms[0].get(), &error), WEFT_OK);
  EXPECT_EQ(error, WEFT_OK);
  EXPECT_EQ(weft_comm_abort(comms[0].get()), WEFT_OK);
  blocked.join();
  EXPECT_EQ(weft_comm_get_async_error(comms[0].get(), &error), WEFT_OK);
  EXPECT_EQ(error, WEFT_ERROR_ABORTED);

  // The other rank's call ends with an error that names the one who gave up.
  Trial other(shape, 1, 2, 0);
  weft_result result = other.start(comms[1].get(), streams[1].get());
  if (result == WEFT_OK) result = weft_stream_synchronize(streams[1].get());
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  EXPECT_THAT(last_error(context.get()), HasSubstr("rank 0"));
  EXPECT_THAT(last_error(context.get()), HasSubstr("aborted by its user"));
  EXPECT_EQ(weft_comm_get_async_error(comms[1].get(), &error), WEFT_OK);
  EXPECT_EQ(error, WEFT_ERROR_PEER);

  // Nothing more can be called, and the end does not wait.
  EXPECT_EQ(other.start(comms[1].get(), streams[1].get()), WEFT_ERROR_PEER);
  EXPECT_EQ(weft_comm_finalize(comms[0].get()), WEFT_ERROR_ABORTED);
  comms.clear();
  // The context is none the worse for it.
  std::vector<CommHandle> anew = init_all(context.get(), CommSettings(), 2);
  expect_it_works(context.get(), anew, streams);
}

INSTANTIATE_TEST_SUITE_P(Wires, Abort, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(Life, RanksThatCallDifferentThingsAreTold) {
  std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const std::vector<StreamHandle> streams = make_streams(context_.get(), 2);
  Shape other = kSmallSum;
  other.reduction = WEFT_MAX;
  Trial first(kSmallSum, 0, 2, 0);
  Trial second(other, 1, 2, 0);
  must(context_.get(), first.start(comms[0].get(), streams[0].get()));
  must(context_.get(), second.start(comms[1].get(), streams[1].get()));
  std::vector<weft_result> results;
  std::vector<std::string> texts;
  for (const StreamHandle& stream : streams) {
    results.push_back(weft_stream_synchronize(stream.get()));
    texts.push_back(last_error(context_.get()));
  }
  // One finds it; the other finds it too, or hears of it.
  EXPECT_EQ(std::ranges::count(results, WEFT_OK), 0);
  EXPECT_GE(std::ranges::count(results, WEFT_ERROR_MISMATCH), 1);
  for (const std::string& text : texts) {
    EXPECT_THAT(text, HasSubstr("by sum"));
    EXPECT_THAT(text, HasSubstr("by max"));
  }
}

TEST_F(Life, AForkedChildIsRefused) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
  const StreamHandle stream = make_stream(context_.get());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    weft_stream* out = nullptr;
    weft_result error = WEFT_OK;
    float number = 0;
    // The number of the first call that was not refused, or 0.
    int status = 0;
    if (weft_stream_create(context_.get(), &out) != WEFT_ERROR_INVALID_USAGE)
      status = 1;
    else if (weft_all_reduce(&number, &number, 1, WEFT_FLOAT32, WEFT_SUM, comms[0].get(),
                             stream.get()) != WEFT_ERROR_INVALID_USAGE)
      status = 2;
    else if (weft_stream_synchronize(stream.get()) != WEFT_ERROR_INVALID_USAGE)
      status = 3;
    else if (weft_comm_get_async_error(comms[0].get(), &error) != WEFT_ERROR_INVALID_USAGE)
      status = 4;
    else if (weft_context_destroy(context_.get()) != WEFT_ERROR_INVALID_USAGE)
      status = 5;
    else if (last_error(context_.get()).find("fork") == std::string::npos)
      status = 6;
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "that check of the child failed";
  expect_it_works(context_.get(), comms, make_streams(context_.get(), 2));
}

/// Two ranks of this thread that have made the same broadcast often enough for it to be remembered.
class RepeatedCall : public Life {
 protected:
  static constexpr std::size_t kCount = 4;

  void SetUp() override {
    for (int i = 0; i < 20; ++i)
      expect_it_arrives();
  }
  weft_result call(std::uint32_t rank, std::size_t count = kCount) {
    return weft_broadcast(data_[rank].data(), data_[rank].data(), count, WEFT_FLOAT32, 0,
                          comms_[rank].get(), streams_[rank].get());
  }
  void expect_it_arrives() {
    data_[0].fill(++latest_);
    data_[1].fill(0);
    for (const std::uint32_t rank : {0U, 1U})
      must(context_.get(), call(rank));
    for (const StreamHandle& stream : streams_)
      must(context_.get(), weft_stream_synchronize(stream.get()));
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_EQ(data_[1][i], latest_);
  }

  std::vector<CommHandle> comms_ = init_all(context_.get(), settings_, 2);
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 2);
  std::array<std::array<float, 2 * kCount>, 2> data_{};
  float latest_ = 0;
};

TEST_F(RepeatedCall, IsCheckedAsTheFirstWas) {
  weft_comm* const comm = comms_[0].get();
  weft_stream* const stream = streams_[0].get();
  float* const data = data_[0].data();
  const auto broadcast = [&](void* buffer, std::uint32_t root, weft_stream* on) {
    return weft_broadcast(buffer, buffer, kCount, WEFT_FLOAT32, root, comm, on);
  };
  const ContextHandle other = make_context();
  const StreamHandle others_stream = make_stream(other.get());
  void* const odd = reinterpret_cast<std::byte*>(data) + 1;
  EXPECT_EQ(broadcast(nullptr, 0, stream), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("the receive buffer is NULL, and count is 4"));
  EXPECT_EQ(broadcast(odd, 0, stream), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("is not aligned to its elements of 4 bytes"));
  EXPECT_EQ(weft_broadcast(odd, data, kCount, WEFT_FLOAT32, 0, comm, stream),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(broadcast(data, 2, stream), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(broadcast(data, 0, others_stream.get()), WEFT_ERROR_INVALID_ARGUMENT);
  expect_it_arrives();
}

TEST_F(RepeatedCall, IsNotMadeAfterAnAbort) {
  must(context_.get(), weft_comm_abort(comms_[0].get()));
  EXPECT_EQ(call(0), WEFT_ERROR_ABORTED);
  EXPECT_EQ(weft_stream_synchronize(streams_[0].get()), WEFT_OK) << "nothing was started";
}

// As all other calls of a communicator that has failed.
TEST_F(RepeatedCall, IsNotMadeAfterAnAbortThoughItHasNoElements) {
  must(context_.get(), weft_comm_abort(comms_[0].get()));
  EXPECT_EQ(call(0, 0), WEFT_ERROR_ABORTED);
  EXPECT_EQ(weft_send(nullptr, 0, WEFT_FLOAT32, 1, comms_[0].get(), streams_[0].get()),
            WEFT_ERROR_ABORTED);
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), call(0, 0));
  must(context_.get(), call(0, 0));
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_ABORTED);
}

TEST_F(RepeatedCall, IsComparedWithThoseOfOtherRanks) {
  must(context_.get(), call(0));
  must(context_.get(), call(1, kCount + 1));
  EXPECT_EQ(weft_stream_synchronize(streams_[1].get()), WEFT_ERROR_MISMATCH);
  EXPECT_THAT(last_error(context_.get()),
              AllOf(HasSubstr("rank 0 called broadcast of 4 float32 from rank 0 (call 21)"),
                    HasSubstr("rank 1 called broadcast of 5 float32 from rank 0 (call 21)")));
}

TEST_F(RepeatedCall, GoesOnWithOtherStreamsAtTheSamePlace) {
  for (int round = 0; round < 20; ++round) {
    streams_.clear();
    streams_ = make_streams(context_.get(), 2);
    expect_it_arrives();
  }
}

TEST_F(RepeatedCall, IsRecordedWhereItsStreamIsCaptured) {
  std::vector<GraphHandle> graphs;
  for (const std::uint32_t rank : {0U, 1U}) {
    graphs.push_back(
        capture(context_.get(), streams_[rank].get(), [&] { must(context_.get(), call(rank)); }));
  }
  data_[0].fill(-7);
  data_[1].fill(0);
  for (const StreamHandle& stream : streams_)
    must(context_.get(), weft_stream_synchronize(stream.get()));
  EXPECT_EQ(data_[1].front(), 0) << "it was made";
  for (const std::uint32_t rank : {0U, 1U})
    must(context_.get(), weft_graph_launch(graphs[rank].get(), streams_[rank].get()));
  for (const StreamHandle& stream : streams_)
    must(context_.get(), weft_stream_synchronize(stream.get()));
  EXPECT_EQ(data_[1].front(), -7);
  expect_it_arrives();
}

TEST_F(RepeatedCall, LooksItsReductionUpEachTime) {
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 1);
  const float two = 2;
  weft_premul_sum_options factor{};
  factor.struct_size = sizeof(factor);
  factor.type = WEFT_FLOAT32;
  factor.residence = WEFT_SCALAR_NOW;
  factor.scalar = &two;
  weft_reduction made = WEFT_SUM;
  must(context_.get(), weft_reduction_create_premul_sum(comms[0].get(), &factor, &made));
  const std::array<float, kCount> in{1, 2, 3, 4};
  std::array<float, kCount> out{};
  const auto sum = [&] {
    return weft_all_reduce(in.data(), out.data(), kCount, WEFT_FLOAT32, made, comms[0].get(),
                           streams_[0].get());
  };
  for (int i = 0; i < 10; ++i) {
    must(context_.get(), sum());
    must(context_.get(), weft_stream_synchronize(streams_[0].get()));
    EXPECT_EQ(out.back(), 8);
  }
  must(context_.get(), weft_reduction_destroy(comms[0].get(), made));
  EXPECT_EQ(sum(), WEFT_ERROR_INVALID_ARGUMENT);
}

// Its calls are remembered where they stood, as communicators and buffers are.
TEST_F(Life, ARepeatedGroupIsOfItsOwnCommunicatorAndBuffers) {
  const StreamHandle stream = make_stream(context_.get());
  for (int life = 0; life < 5; ++life) {
    const std::vector<CommHandle> comms = init_all(context_.get(), settings_, 2);
    std::array<std::array<std::array<float, 8>, 2>, 3> sent{};
    std::array<std::array<std::array<float, 8>, 2>, 3> received{};
    for (std::size_t round = 0; round < 12; ++round) {
      const std::size_t set = round % 3;
      const std::size_t count = round < 9 ? 4 : 8;
      for (std::size_t rank = 0; rank < 2; ++rank) {
        sent[set][rank].fill(static_cast<float>(100 * life + 10 * round + rank));
        received[set][rank].fill(-1);
      }
      must(context_.get(), weft_group_start(context_.get()));
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        must(context_.get(), weft_send(sent[set][rank].data(), count, WEFT_FLOAT32, 1 - rank,
                                       comms[rank].get(), stream.get()));
        must(context_.get(), weft_recv(received[set][rank].data(), count, WEFT_FLOAT32, 1 - rank,
                                       comms[rank].get(), stream.get()));
      }
      must(context_.get(), weft_group_end(context_.get()));
      must(context_.get(), weft_stream_synchronize(stream.get()));
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(received[set][rank][count - 1], sent[set][1 - rank].front());
        EXPECT_EQ(received[set][rank].back(), count == 8 ? sent[set][1 - rank].front() : -1);
      }
    }
  }
}

/// Groups of messages between two ranks of this thread, each message to and fro.
class RepeatedMessages : public Life {
 protected:
  static constexpr std::size_t kMost = 1024;  // elements

  RepeatedMessages() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      sent_[rank].resize(kMost);
      received_[rank].resize(kMost);
    }
  }

  /// A group of one rank: its messages of so many elements lie one behind the other.
  void call(std::uint32_t rank, std::initializer_list<std::size_t> counts) {
    must(context_.get(), weft_group_start(context_.get()));
    add_to_group(rank, counts);
    must(context_.get(), weft_group_end(context_.get()));
  }

  /// A group of both ranks, and its end.
  void exchange(std::initializer_list<std::size_t> counts) {
    renew();
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      add_to_group(rank, counts);
    must(context_.get(), weft_group_end(context_.get()));
    finish();
    expect_received(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  }

  void renew() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      std::iota(sent_[rank].begin(), sent_[rank].end(), next_ += 1000);
      std::ranges::fill(received_[rank], -1);
    }
  }

  void finish() {
    for (const StreamHandle& stream : streams_)
      must(context_.get(), weft_stream_synchronize(stream.get()));
  }

  void expect_received(std::size_t count) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const auto sent = std::span(sent_[1 - rank]).first(count);
      EXPECT_TRUE(std::ranges::equal(std::span(received_[rank]).first(count), sent));
      EXPECT_EQ(received_[rank][count], -1);
    }
  }

 private:
  void add_to_group(std::uint32_t rank, std::initializer_list<std::size_t> counts) {
    std::size_t begin = 0;
    for (const std::size_t count : counts) {
      must(context_.get(), weft_send(sent_[rank].data() + begin, count, WEFT_INT32, 1 - rank,
                                     comms_[rank].get(), streams_[rank].get()));
      begin += count;
    }
    begin = 0;
    for (const std::size_t count : counts) {
      must(context_.get(), weft_recv(received_[rank].data() + begin, count, WEFT_INT32, 1 - rank,
                                     comms_[rank].get(), streams_[rank].get()));
      begin += count;
    }
  }

  std::vector<CommHandle> comms_ = init_all(context_.get(), settings_, 2);
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 2);
  std::array<std::vector<std::int32_t>, 2> sent_, received_;
  std::int32_t next_ = 0;
};

// What a launch looked at may have moved meanwhile: a larger group makes room for all.
TEST_F(RepeatedMessages, GoOnAfterALargerGroup) {
  exchange({4});
  for (const bool larger_follows : {true, false}) {
    renew();
    // The other rank has not called yet: so two of one rank are under way at a time.
    for (const std::uint32_t rank : {0U, 1U}) {
      call(rank, {4});
      call(rank, {4});
    }
    finish();
    expect_received(4);
    if (larger_follows) exchange({4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  }
}

}  // namespace
}  // namespace weft::test
