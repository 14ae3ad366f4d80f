// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of ranks that joined without blocking, where ranks must be connected first: they answer
// WEFT_IN_PROGRESS and go on in the background. A partner that is stopped holds that up, for as
// long as a test needs it.
#include <array>
#include <cstdint>
#include <memory>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"
#include "tests/support/process.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

constexpr const char* kStillConnecting =
    "rank 0 of 2 is still connecting for an earlier call; try: ask weft_comm_get_async_error until "
    "it no longer tells WEFT_IN_PROGRESS";
constexpr const char* kStreamIsHeld =
    "an earlier call on the stream is still connecting its ranks; try: ask "
    "weft_comm_get_async_error of that call's communicator until it no longer tells "
    "WEFT_IN_PROGRESS";

weft_result state_of_rank(weft_comm* comm) {
  weft_result state = WEFT_ERROR_INTERNAL;
  EXPECT_EQ(weft_comm_get_async_error(comm, &state), WEFT_OK);
  return state;
}

weft_result end_of(weft_comm* comm) {
  while (true) {
    const weft_result state = state_of_rank(comm);
    if (state != WEFT_IN_PROGRESS) return state;
    look_later();
  }
}

// Of a call whose partner has called before: that one may have connected both.
bool is_begun(weft_result answer) {
  return answer == WEFT_IN_PROGRESS || answer == WEFT_OK;
}

class NonblockingCalls : public testing::Test {
 protected:
  using Settings = std::vector<std::string>;

  std::vector<CommHandle> join_all(std::uint32_t ranks, const Settings& settings) {
    const CommSettings named(settings);
    weft_comm_config config = *named.get();
    config.nonblocking = 1;
    std::vector<weft_comm*> raw(ranks);
    EXPECT_EQ(weft_comm_init_all(context_.get(), &config, ranks, raw.data()), WEFT_IN_PROGRESS);
    std::vector<CommHandle> comms(raw.begin(), raw.end());
    for (const CommHandle& comm : comms)
      EXPECT_EQ(end_of(comm.get()), WEFT_OK) << last_error(context_.get());
    return comms;
  }
  weft_result send(weft_comm* comm, std::uint32_t to, weft_stream* stream) {
    return weft_send(&sent_, 1, WEFT_INT32, to, comm, stream);
  }
  weft_result receive(weft_comm* comm, std::uint32_t from, weft_stream* stream) {
    return weft_recv(&received_, 1, WEFT_INT32, from, comm, stream);
  }
  void expect_ok(const std::vector<CommHandle>& comms) {
    for (const CommHandle& comm : comms)
      EXPECT_EQ(end_of(comm.get()), WEFT_OK) << last_error(context_.get());
  }
  void synchronize() {
    for (const StreamHandle& stream : streams_)
      must(context_.get(), weft_stream_synchronize(stream.get()));
  }

  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 4);
  std::int32_t sent_ = 4711;
  std::int32_t received_ = 0;
};

TEST_F(NonblockingCalls, TheFirstOfAPairConnectsInTheBackground) {
  for (const char* transport : {"p2p", "shm", "net-socket"}) {
    const std::vector<CommHandle> comms = join_all(2, only_transport(transport));
    for (int round = 0; round < 2; ++round) {
      received_ = 0;
      // From the second on nothing is left to connect.
      EXPECT_EQ(send(comms[0].get(), 1, streams_[0].get()), round == 0 ? WEFT_IN_PROGRESS : WEFT_OK)
          << last_error(context_.get());
      const weft_result answer = receive(comms[1].get(), 0, streams_[1].get());
      EXPECT_TRUE(round == 0 ? is_begun(answer) : answer == WEFT_OK) << last_error(context_.get());
      expect_ok(comms);
      synchronize();
      EXPECT_EQ(received_, sent_) << transport;
    }
  }
}

// The memory may go once a window has ended.
TEST_F(NonblockingCalls, AWindowOutlivesAFinalizeThatGoesOn) {
  const std::vector<CommHandle> comms = join_all(2, {});
  std::array<std::vector<std::int32_t>, 2> memory{std::vector<std::int32_t>(1024, 1),
                                                  std::vector<std::int32_t>(1024, 1)};
  std::array<weft_window*, 2> windows{};
  must(context_.get(), weft_group_start(context_.get()));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    must(context_.get(),
         weft_window_register(comms[rank].get(), memory[rank].data(), 4096, &windows[rank]));
  }
  must(context_.get(), weft_group_end(context_.get()));
  const auto sum = [&](std::size_t rank) {
    return weft_all_reduce(memory[rank].data(), memory[rank].data(), 1024, WEFT_INT32, WEFT_SUM,
                           comms[rank].get(), streams_[rank].get());
  };
  // The first one connects both.
  EXPECT_TRUE(is_begun(sum(0)));
  EXPECT_TRUE(is_begun(sum(1)));
  expect_ok(comms);
  synchronize();
  EXPECT_EQ(sum(0), WEFT_OK);
  EXPECT_EQ(weft_comm_finalize(comms[0].get()), WEFT_IN_PROGRESS);
  EXPECT_EQ(weft_window_deregister(windows[0]), WEFT_ERROR_INVALID_USAGE);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("rank 0 of 2 has finalized its communicator"));
  EXPECT_EQ(sum(1), WEFT_OK);
  expect_ok(comms);
  EXPECT_EQ(weft_window_deregister(windows[0]), WEFT_OK);
  EXPECT_EQ(weft_window_deregister(windows[1]), WEFT_OK);
  EXPECT_EQ(memory[0], std::vector<std::int32_t>(1024, 4));
}

TEST_F(NonblockingCalls, AStreamWaitsForWhatIsStillToCome) {
  const std::vector<CommHandle> comms = join_all(2, {});
  EXPECT_EQ(send(comms[0].get(), 1, streams_[0].get()), WEFT_IN_PROGRESS);
  EXPECT_TRUE(is_begun(receive(comms[1].get(), 0, streams_[1].get())));
  must(context_.get(), weft_stream_synchronize(streams_[1].get()));
  EXPECT_EQ(received_, sent_);
  // Nor is the rank held when the stream has ended.
  EXPECT_EQ(state_of_rank(comms[1].get()), WEFT_OK);
}

// With sends to and from, on streams of their own, of two communicators.
TEST_F(NonblockingCalls, AGroupGoesOnInTheBackground) {
  const std::vector<CommHandle> some = join_all(2, {});
  const std::vector<CommHandle> others = join_all(2, {});
  std::array<std::int32_t, 4> got{};
  const auto group = [&] {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t i = 0; i < 4; ++i) {
      weft_comm* comm = (i < 2 ? some : others)[i % 2].get();
      EXPECT_EQ(send(comm, 1 - i % 2, streams_[i].get()), WEFT_OK);
      EXPECT_EQ(weft_recv(&got[i], 1, WEFT_INT32, 1 - i % 2, comm, streams_[i].get()), WEFT_OK);
    }
    return weft_group_end(context_.get());
  };
  for (const weft_result due : {WEFT_IN_PROGRESS, WEFT_OK}) {
    got = {};
    EXPECT_EQ(group(), due) << last_error(context_.get());
    expect_ok(some);
    expect_ok(others);
    synchronize();
    EXPECT_THAT(got, testing::Each(sent_));
  }
}

TEST_F(NonblockingCalls, AGroupWithARankThatBlocksBlocks) {
  const std::vector<CommHandle> comms = join_all(2, {});
  const std::vector<CommHandle> blocking = init_all(context_.get(), CommSettings(), 2);
  std::int32_t got = 0;
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), send(comms[0].get(), 1, streams_[0].get()));
  must(context_.get(), receive(comms[1].get(), 0, streams_[1].get()));
  must(context_.get(), send(blocking[0].get(), 1, streams_[2].get()));
  must(context_.get(), weft_recv(&got, 1, WEFT_INT32, 0, blocking[1].get(), streams_[3].get()));
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_OK) << last_error(context_.get());
  synchronize();
  EXPECT_EQ(received_, sent_);
  EXPECT_EQ(got, sent_);
}

TEST_F(NonblockingCalls, EdgesOfTreesAreConnectedInTheBackground) {
  const std::vector<CommHandle> comms = join_all(4, {"collectives.all_reduce.algorithm", "tree"});
  for (std::uint32_t round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<Trial>> trials;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      trials.push_back(std::make_unique<Trial>(kSmallSum, rank, 4, round));
      const weft_result answer = trials[rank]->start(comms[rank].get(), streams_[rank].get());
      EXPECT_TRUE(round == 0 ? is_begun(answer) : answer == WEFT_OK) << last_error(context_.get());
      if (round == 0 && rank == 0) {
        EXPECT_EQ(answer, WEFT_IN_PROGRESS);
      }
    }
    expect_ok(comms);
    synchronize();
    for (const auto& trial : trials)
      EXPECT_EQ(trial->wrong(), "");
  }
}

TEST_F(NonblockingCalls, ACaptureConnectsInTheBackground) {
  const std::vector<CommHandle> comms = join_all(2, {});
  std::array<GraphHandle, 2> graphs;
  must(context_.get(), weft_stream_begin_capture(streams_[0].get()));
  must(context_.get(), weft_stream_begin_capture(streams_[1].get()));
  EXPECT_EQ(send(comms[0].get(), 1, streams_[0].get()), WEFT_IN_PROGRESS);
  EXPECT_TRUE(is_begun(receive(comms[1].get(), 0, streams_[1].get())));
  expect_ok(comms);
  for (std::size_t i = 0; i < 2; ++i) {
    weft_graph* graph = nullptr;
    must(context_.get(), weft_stream_end_capture(streams_[i].get(), &graph));
    graphs[i].reset(graph);
    must(context_.get(), weft_graph_launch(graph, streams_[i].get()));
  }
  synchronize();
  EXPECT_EQ(received_, sent_);
}

// Rank 0 here, rank 1 a process that stops when both have joined.
class NonblockingWithAStopped : public NonblockingCalls {
 protected:
  void start(const Settings& settings) {
    ASSERT_NO_FATAL_FAILURE(join(settings));
    ASSERT_EQ(send(comm_.get(), 1, streams_[0].get()), WEFT_IN_PROGRESS);
  }
  void join(const Settings& settings) {
    ASSERT_NO_FATAL_FAILURE(join_one_that_is_to("stop-and-receive", settings));
    ASSERT_NO_FATAL_FAILURE(wait_until_it_stops());
  }
  void join_one_that_is_to(const std::string& task, const Settings& settings) {
    weft_unique_id id;
    must(context_.get(), weft_get_unique_id(context_.get(), &id));
    std::string hex;
    for (const std::uint8_t byte : id.bytes) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
    std::vector<std::string> words = {RANK_PROGRAM, task, hex, "1", "2"};
    words.insert(words.end(), settings.begin(), settings.end());
    partner_ = std::make_unique<Process>(
        Command{.arguments = std::move(words), .environment = {}, .input = {}});
    const CommSettings named(settings);
    weft_comm_config config = *named.get();
    config.nonblocking = 1;
    weft_comm* comm = nullptr;
    ASSERT_EQ(weft_comm_init_rank(context_.get(), &config, 2, &id, 0, &comm), WEFT_IN_PROGRESS);
    comm_.reset(comm);
    ASSERT_EQ(end_of(comm), WEFT_OK) << last_error(context_.get());
  }
  void wait_until_it_stops() {
    ASSERT_TRUE(partner_->wait_for_output("joined\n")) << partner_->err();
    // It has stopped once the system says so.
    siginfo_t stopped{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(partner_->pid()), &stopped, WSTOPPED | WNOWAIT), 0);
  }
  void go_on() { partner_->send_signal(SIGCONT); }
  void expect_received() {
    const Outcome outcome = partner_->wait();
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(outcome.out, HasSubstr("received " + std::to_string(sent_)));
  }

  std::unique_ptr<Process> partner_;
  CommHandle comm_;
};

TEST_F(NonblockingWithAStopped, NothingElseIsDoneWithRankAndStream) {
  ASSERT_NO_FATAL_FAILURE(start({}));
  EXPECT_EQ(state_of_rank(comm_.get()), WEFT_IN_PROGRESS);
  for (const weft_result answer :
       {send(comm_.get(), 1, streams_[1].get()), weft_comm_finalize(comm_.get())}) {
    EXPECT_EQ(answer, WEFT_ERROR_INVALID_USAGE);
    EXPECT_EQ(last_error(context_.get()), kStillConnecting);
  }
  weft_stream* const held = streams_[0].get();
  const std::vector<CommHandle> others = init_all(context_.get(), CommSettings(), 1);
  std::int32_t value = 0;
  weft_graph* graph = nullptr;
  for (const weft_result answer :
       {weft_all_reduce(&value, &value, 1, WEFT_INT32, WEFT_SUM, others[0].get(), held),
        weft_stream_begin_capture(held), weft_stream_end_capture(held, &graph)}) {
    EXPECT_EQ(answer, WEFT_ERROR_INVALID_USAGE);
    EXPECT_EQ(last_error(context_.get()), kStreamIsHeld);
  }
  EXPECT_EQ(weft_stream_query(held), WEFT_IN_PROGRESS);
  // What may be asked of any rank that has joined.
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  EXPECT_EQ(weft_comm_get_properties(comm_.get(), &properties), WEFT_OK);
  EXPECT_EQ(properties.ranks, 2U);
  EXPECT_EQ(state_of_rank(comm_.get()), WEFT_IN_PROGRESS);
  go_on();
  EXPECT_EQ(end_of(comm_.get()), WEFT_OK) << last_error(context_.get());
  must(context_.get(), weft_stream_synchronize(held));
  expect_received();
}

TEST_F(NonblockingWithAStopped, GraphsOfItsCallsAreNotLaunched) {
  ASSERT_NO_FATAL_FAILURE(join_one_that_is_to("stop-after-sum", {}));
  std::int32_t value = 1;
  const auto all_reduce = [&] {
    return weft_all_reduce(&value, &value, 1, WEFT_INT32, WEFT_SUM, comm_.get(), streams_[1].get());
  };
  EXPECT_TRUE(is_begun(all_reduce())) << last_error(context_.get());
  EXPECT_EQ(end_of(comm_.get()), WEFT_OK) << last_error(context_.get());
  must(context_.get(), weft_stream_synchronize(streams_[1].get()));
  ASSERT_NO_FATAL_FAILURE(wait_until_it_stops());
  const GraphHandle graph =
      capture(context_.get(), streams_[1].get(), [&] { must(context_.get(), all_reduce()); });
  ASSERT_EQ(send(comm_.get(), 1, streams_[0].get()), WEFT_IN_PROGRESS);
  EXPECT_EQ(weft_graph_launch(graph.get(), streams_[1].get()), WEFT_ERROR_INVALID_USAGE);
  EXPECT_EQ(last_error(context_.get()), kStillConnecting);
  EXPECT_EQ(weft_graph_launch(graph.get(), streams_[0].get()), WEFT_ERROR_INVALID_USAGE);
  EXPECT_EQ(last_error(context_.get()), kStreamIsHeld);
  go_on();
  EXPECT_EQ(end_of(comm_.get()), WEFT_OK) << last_error(context_.get());
  must(context_.get(), weft_stream_synchronize(streams_[0].get()));
  expect_received();
}

// The end of a window waits for the rank's work, which is only about to begin.
TEST_F(NonblockingWithAStopped, WindowsAreKept) {
  ASSERT_NO_FATAL_FAILURE(join_one_that_is_to("stop-with-window", {}));
  weft_window* window = nullptr;
  must(context_.get(), weft_window_register(comm_.get(), &received_, sizeof(received_), &window));
  ASSERT_NO_FATAL_FAILURE(wait_until_it_stops());
  ASSERT_EQ(send(comm_.get(), 1, streams_[0].get()), WEFT_IN_PROGRESS);
  ASSERT_EQ(weft_window_deregister(window), WEFT_ERROR_INVALID_USAGE);
  EXPECT_EQ(last_error(context_.get()), kStillConnecting);
  void* seen = nullptr;
  EXPECT_EQ(weft_window_pointer(window, 0, &seen), WEFT_OK) << last_error(context_.get());
  EXPECT_EQ(seen, &received_);
  go_on();
  EXPECT_EQ(end_of(comm_.get()), WEFT_OK) << last_error(context_.get());
  EXPECT_EQ(weft_window_deregister(window), WEFT_OK) << last_error(context_.get());
  must(context_.get(), weft_stream_synchronize(streams_[0].get()));
  expect_received();
}

TEST_F(NonblockingWithAStopped, AnAbortEndsIt) {
  ASSERT_NO_FATAL_FAILURE(start({"timeouts.bootstrap", "off"}));
  EXPECT_EQ(weft_comm_abort(comm_.get()), WEFT_OK);
  EXPECT_EQ(end_of(comm_.get()), WEFT_ERROR_ABORTED);
  EXPECT_EQ(send(comm_.get(), 1, streams_[0].get()), WEFT_ERROR_ABORTED);
  EXPECT_EQ(weft_stream_synchronize(streams_[0].get()), WEFT_OK);
}

TEST_F(NonblockingWithAStopped, TheDeadlineIsToldToWhoeverAsks) {
  ASSERT_NO_FATAL_FAILURE(start({"timeouts.bootstrap", "2s"}));
  EXPECT_EQ(end_of(comm_.get()), WEFT_ERROR_TIMEOUT);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("rank 0 is not connected with rank 1 at the deadline"));
  EXPECT_EQ(send(comm_.get(), 1, streams_[0].get()), WEFT_ERROR_TIMEOUT);
}

// The group's other communicator has no partner that is stopped: its other rank waits for the call.
TEST_F(NonblockingWithAStopped, WhatFailsFailsAllOfItsGroup) {
  ASSERT_NO_FATAL_FAILURE(join({"timeouts.bootstrap", "off"}));
  const std::vector<CommHandle> others = join_all(2, {});
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), send(others[0].get(), 1, streams_[1].get()));
  must(context_.get(), send(comm_.get(), 1, streams_[0].get()));
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_IN_PROGRESS);
  EXPECT_EQ(state_of_rank(others[0].get()), WEFT_IN_PROGRESS);
  EXPECT_TRUE(is_begun(receive(others[1].get(), 0, streams_[2].get())));
  EXPECT_EQ(weft_comm_abort(comm_.get()), WEFT_OK);
  for (weft_comm* comm : {comm_.get(), others[0].get()}) {
    EXPECT_EQ(end_of(comm), WEFT_ERROR_ABORTED);
    EXPECT_THAT(last_error(context_.get()), HasSubstr("rank 0 was aborted by its user"));
  }
  // Whether it was connected before or not.
  weft_result state = WEFT_OK;
  while (state >= WEFT_OK)
    state = state_of_rank(others[1].get());
  EXPECT_EQ(state, WEFT_ERROR_PEER);
}

TEST_F(NonblockingWithAStopped, DestroyWaitsForIt) {
  ASSERT_NO_FATAL_FAILURE(start({}));
  go_on();
  EXPECT_EQ(weft_comm_destroy(comm_.release()), WEFT_OK);
  streams_.clear();
  expect_received();
}

TEST_F(NonblockingWithAStopped, DestroyOfTheStreamWaitsForIt) {
  ASSERT_NO_FATAL_FAILURE(start({}));
  go_on();
  streams_[0].reset();
  EXPECT_EQ(state_of_rank(comm_.get()), WEFT_OK);
  expect_received();
}

}  // namespace
}  // namespace weft::test
