// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that are captured once and launched again. One thread drives both ranks: were a launch to
// wait, nothing would go on.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

class Graphs : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t kCount = 20'000;
  using Values = std::vector<std::int32_t>;

  void SetUp() override { fill(); }

  std::vector<CommHandle> join(std::vector<std::string> more = {}) {
    std::vector<std::string> settings = only_transport(GetParam());
    settings.insert(settings.end(), more.begin(), more.end());
    return init_all(context_.get(), CommSettings(settings), 2);
  }
  /// Adds the values of both ranks, in place.
  void add(std::size_t rank, std::size_t stream, std::size_t count = kCount) {
    std::int32_t* buffer = buffers_[rank].data();
    must(context_.get(), weft_all_reduce(buffer, buffer, count, WEFT_INT32, WEFT_SUM,
                                         comms_[rank].get(), streams_[stream].get()));
  }
  /// Gives rank 0's values to rank 1.
  void give(std::size_t rank, std::size_t stream) {
    std::int32_t* buffer = buffers_[rank].data();
    must(context_.get(), weft_broadcast(buffer, buffer, kCount, WEFT_INT32, 0, comms_[rank].get(),
                                        streams_[stream].get()));
  }
  /// In a group, each half of the values to the other rank, the second one to itself.
  void exchange(std::size_t rank, std::size_t stream) {
    constexpr std::size_t kHalf = kCount / 2;
    weft_comm* comm = comms_[rank].get();
    weft_stream* at = streams_[stream].get();
    const auto other = static_cast<std::uint32_t>(1 - rank);
    const auto self = static_cast<std::uint32_t>(rank);
    Values& from = buffers_[rank];
    Values& to = received_[rank];
    must(context_.get(), weft_group_start(context_.get()));
    must(context_.get(), weft_send(from.data(), kHalf, WEFT_INT32, other, comm, at));
    must(context_.get(), weft_recv(to.data() + kHalf, kHalf, WEFT_INT32, self, comm, at));
    must(context_.get(), weft_recv(to.data(), kHalf, WEFT_INT32, other, comm, at));
    must(context_.get(), weft_send(from.data() + kHalf, kHalf, WEFT_INT32, self, comm, at));
    must(context_.get(), weft_group_end(context_.get()));
  }
  template <typename Calls>
  GraphHandle captured(std::size_t stream, Calls calls) {
    return capture(context_.get(), streams_[stream].get(), calls);
  }
  void launch(const GraphHandle& graph, std::size_t stream) {
    must(context_.get(), weft_graph_launch(graph.get(), streams_[stream].get()));
  }
  void synchronize(std::size_t stream) {
    must(context_.get(), weft_stream_synchronize(streams_[stream].get()));
  }
  /// New values in the same buffers.
  void fill() {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      buffers_[rank].assign(kCount, static_cast<std::int32_t>(rank + 1));
      received_[rank].assign(kCount, 0);
    }
  }
  void expect_everywhere(std::int32_t value) {
    for (const Values& buffer : buffers_)
      EXPECT_EQ(buffer, Values(kCount, value));
  }
  std::uint64_t calls_of(std::size_t rank) {
    weft_comm_properties properties{};
    properties.struct_size = sizeof(properties);
    must(context_.get(), weft_comm_get_properties(comms_[rank].get(), &properties));
    return properties.calls;
  }
  /// What an answer that is no success says.
  void expect_error(weft_result answer, weft_result expected, const std::string& text) {
    EXPECT_EQ(answer, expected) << weft_result_name(answer);
    EXPECT_THAT(last_error(context_.get()), HasSubstr(text));
  }

  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 4);
  std::array<Values, 2> buffers_;
  std::array<Values, 2> received_;
  std::vector<CommHandle> comms_ = join();
};

TEST_P(Graphs, RunWhenTheyAreLaunched) {
  const GraphHandle graph = captured(0, [&] { add(0, 0); });
  const GraphHandle nothing = captured(1, [] {});
  synchronize(0);
  EXPECT_EQ(calls_of(0), 0U);
  EXPECT_EQ(buffers_[0], Values(kCount, 1));
  // Often enough that callers end up running the work.
  for (int round = 0; round < 30; ++round) {
    fill();
    launch(graph, 0);
    launch(nothing, 0);
    EXPECT_EQ(weft_stream_query(streams_[0].get()), WEFT_IN_PROGRESS);
    add(1, 1);
    synchronize(round % 2);
    synchronize(1 - round % 2);
    expect_everywhere(3);
  }
  EXPECT_EQ(calls_of(0), 30U);
}

TEST_P(Graphs, AreTheCallsThatTheyHold) {
  const auto calls = [&](std::size_t rank) {
    add(rank, rank);
    exchange(rank, rank);
    give(rank, rank);
    add(rank, rank, 0);
    must(context_.get(), weft_group_start(context_.get()));
    add(rank, rank);
    give(rank, rank);
    must(context_.get(), weft_group_end(context_.get()));
  };
  fill();
  // The pair is not connected yet.
  const std::array<GraphHandle, 2> graphs = {captured(0, [&] { calls(0); }),
                                             captured(1, [&] { calls(1); })};
  // Each rank now calls, now launches, also twice before anybody waits.
  for (int round = 0; round < 16; ++round) {
    SCOPED_TRACE(round);
    fill();
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (int time = 0; time < 2; ++time) {
        if (((round >> (2 * rank + time)) & 1) != 0) {
          launch(graphs[rank], rank);
        } else {
          calls(rank);
        }
      }
    }
    synchronize(0);
    synchronize(1);
    // 3 is exchanged and doubled, then 12.
    expect_everywhere(24);
    for (const Values& values : received_)
      EXPECT_EQ(values, Values(kCount, 12));
  }
  EXPECT_EQ(calls_of(0), 16U * 2 * 5);
  EXPECT_EQ(calls_of(1), calls_of(0));
}

// The communicator's calls keep their order, on whichever stream they are.
TEST_P(Graphs, AreLaunchedOnAnyStream) {
  const GraphHandle graph = captured(0, [&] {
    add(0, 0);
    give(0, 0);
  });
  streams_[0].reset();
  for (int round = 0; round < 20; ++round) {
    fill();
    launch(graph, 1);
    launch(graph, 2);
    add(0, 1);
    launch(graph, 2);
    for (int time = 0; time < 3; ++time) {
      add(1, 3);
      give(1, 3);
      if (time == 1) add(1, 3);
    }
    synchronize(round % 2 == 0 ? 3 : 2);
    synchronize(2);
    synchronize(1);
    synchronize(3);
    expect_everywhere(24);
  }
}

TEST_P(Graphs, OfSeveralRanksAndCommunicatorsInOneGroup) {
  const auto others = join();
  std::array<Values, 2> largest;
  for (Values& values : largest)
    values.resize(kCount);
  const GraphHandle graph = captured(0, [&] {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      exchange(rank, 0);
      must(context_.get(),
           weft_all_reduce(buffers_[rank].data(), largest[rank].data(), kCount, WEFT_INT32,
                           WEFT_MAX, others[1 - rank].get(), streams_[0].get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
  });
  for (int round = 0; round < 5; ++round) {
    fill();
    for (Values& values : largest)
      values.assign(kCount, 0);
    launch(graph, 1);
    launch(graph, 1);
    synchronize(1);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(largest[rank], Values(kCount, 2));
      Values due(kCount, rank == 0 ? 2 : 1);
      std::fill(due.begin() + kCount / 2, due.end(), rank == 0 ? 1 : 2);
      EXPECT_EQ(received_[rank], due);
    }
  }
}

// Plans are kept while work goes by them, whatever becomes of the graph and of the plans that the
// communicator remembers.
TEST_P(Graphs, MayBeDestroyedWhileTheirWorkGoesOn) {
  constexpr std::size_t kHalf = kCount / 2;
  const auto gather = [&](std::size_t rank, std::size_t stream, std::size_t count) {
    must(context_.get(), weft_all_gather(buffers_[rank].data(), received_[rank].data(), count,
                                         WEFT_INT32, comms_[rank].get(), streams_[stream].get()));
  };
  fill();
  GraphHandle graph = captured(0, [&] { gather(0, 0, kHalf); });
  launch(graph, 0);
  graph.reset();
  // More shapes than are remembered.
  constexpr std::size_t kShapes = 1100;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    if (rank == 1) gather(1, 1, kHalf);
    for (std::size_t count = 1; count <= kShapes; ++count)
      gather(rank, rank, count);
  }
  synchronize(0);
  synchronize(1);
  for (const Values& values : received_) {
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[kShapes], 2);
    EXPECT_EQ(values[kHalf], 2);
  }
}

TEST_P(Graphs, OutliveCommunicatorsAndAreOfNoUseThen) {
  const auto others = join();
  const GraphHandle graph = captured(0, [&] {
    add(0, 0);
    must(context_.get(), weft_all_reduce(received_[0].data(), received_[0].data(), kCount,
                                         WEFT_INT32, WEFT_SUM, others[0].get(), streams_[0].get()));
  });
  launch(graph, 0);
  add(1, 1);
  must(context_.get(), weft_all_reduce(received_[1].data(), received_[1].data(), kCount, WEFT_INT32,
                                       WEFT_SUM, others[1].get(), streams_[1].get()));
  must(context_.get(), weft_comm_finalize(comms_[0].get()));
  expect_error(weft_graph_launch(graph.get(), streams_[0].get()), WEFT_ERROR_INVALID_USAGE,
               "rank 0 of 2, whose calls the graph holds");
  comms_[0].reset();
  expect_error(weft_graph_launch(graph.get(), streams_[0].get()), WEFT_ERROR_INVALID_USAGE,
               "rank 0 of 2, whose calls the graph holds");
  synchronize(0);
  synchronize(1);
  expect_everywhere(3);
  // Nothing was started: the other communicator has made one call.
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  must(context_.get(), weft_comm_get_properties(others[0].get(), &properties));
  EXPECT_EQ(properties.calls, 1U);
}

TEST_P(Graphs, OfAnAbortedCommunicatorFailAndDoNotKeepOthersWaiting) {
  const auto others = join();
  const GraphHandle graph = captured(0, [&] {
    give(0, 0);
    must(context_.get(), weft_all_reduce(received_[0].data(), received_[0].data(), kCount,
                                         WEFT_INT32, WEFT_SUM, others[0].get(), streams_[0].get()));
    add(0, 0);
  });
  // Once while it is under way, then before.
  add(0, 0);
  launch(graph, 0);
  must(context_.get(), weft_comm_abort(comms_[0].get()));
  expect_error(weft_graph_launch(graph.get(), streams_[0].get()), WEFT_ERROR_ABORTED, "rank 0");
  for (int call = 0; call < 2; ++call) {
    must(context_.get(), weft_all_reduce(received_[1].data(), received_[1].data(), kCount,
                                         WEFT_INT32, WEFT_SUM, others[1].get(), streams_[1].get()));
  }
  EXPECT_EQ(weft_stream_synchronize(streams_[0].get()), WEFT_ERROR_ABORTED);
  synchronize(1);
}

// Else a later call of that one would meet what others of its ranks called there.
TEST_P(Graphs, OfAGroupGoOnWhereOneOfItIsAborted) {
  for (const bool aborts_first : {true, false}) {
    comms_ = join();
    auto others = join();
    auto& aborted = aborts_first ? comms_ : others;
    auto& living = aborts_first ? others : comms_;
    fill();
    std::array<Values, 2> later = buffers_;
    for (Values& values : received_)
      values.assign(kCount, 5);
    const auto sum = [&](Values& values, const CommHandle& comm, std::size_t stream) {
      must(context_.get(), weft_all_reduce(values.data(), values.data(), kCount, WEFT_INT32,
                                           WEFT_SUM, comm.get(), streams_[stream].get()));
    };
    Values untouched(kCount, 9);
    const GraphHandle graph = captured(0, [&] {
      must(context_.get(), weft_group_start(context_.get()));
      sum(untouched, aborted[0], 0);
      sum(received_[0], living[0], 0);
      must(context_.get(), weft_group_end(context_.get()));
      sum(later[0], living[0], 0);
    });
    must(context_.get(), weft_comm_abort(aborted[0].get()));
    expect_error(weft_graph_launch(graph.get(), streams_[0].get()), WEFT_ERROR_ABORTED, "rank 0");
    sum(received_[1], living[1], 1);
    sum(later[1], living[1], 1);
    synchronize(1);
    synchronize(0);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(received_[rank], Values(kCount, 10));
      EXPECT_EQ(later[rank], Values(kCount, 3));
    }
    EXPECT_EQ(untouched, Values(kCount, 9));
  }
}

// Sends and receives know where they were called: that is no stream of the graph's.
TEST_P(Graphs, OfSendsTellNothingToTheStreamOfTheirCapture) {
  for (const bool is_gone : {false, true}) {
    comms_ = join();
    streams_ = make_streams(context_.get(), 4);
    const GraphHandle graph = captured(0, [&] { exchange(0, 0); });
    if (is_gone) streams_[0].reset();
    launch(graph, 2);
    must(context_.get(), weft_comm_abort(comms_[0].get()));
    EXPECT_EQ(weft_stream_synchronize(streams_[2].get()), WEFT_ERROR_ABORTED);
    if (!is_gone) synchronize(0);
  }
}

TEST_P(Graphs, ThatDifferFromOtherRanksCallsAreNamed) {
  const GraphHandle graph = captured(0, [&] {
    add(0, 0);
    add(0, 0);
  });
  launch(graph, 0);
  launch(graph, 0);
  for (int call = 0; call < 3; ++call)
    add(1, 1);
  give(1, 1);
  const weft_result mine = weft_stream_synchronize(streams_[0].get());
  const std::string text = last_error(context_.get());
  EXPECT_EQ(mine, WEFT_ERROR_MISMATCH);
  EXPECT_THAT(text, HasSubstr("all_reduce of 20000 int32 by sum (call 4)"));
  EXPECT_THAT(text, HasSubstr("broadcast of 20000 int32 from rank 0 (call 4)"));
  EXPECT_EQ(weft_stream_synchronize(streams_[1].get()), WEFT_ERROR_MISMATCH);
  expect_error(weft_graph_launch(graph.get(), streams_[0].get()), WEFT_ERROR_MISMATCH, "(call 4)");
}

TEST_P(Graphs, ThatNobodyAnswersAreReportedAsCalls) {
  comms_ = join({"timeouts.operation", "1s"});
  const GraphHandle graph = captured(0, [&] { add(0, 0); });
  launch(graph, 0);
  expect_error(weft_stream_synchronize(streams_[0].get()), WEFT_ERROR_TIMEOUT,
               "in all_reduce of 20000 int32 by sum (call 1)");
}

// What fails is not recorded; the rest is.
TEST_P(Graphs, HoldNoCallsThatFailed) {
  const GraphHandle graph = captured(0, [&] {
    std::int32_t* buffer = buffers_[0].data();
    expect_error(weft_all_reduce(nullptr, buffer, kCount, WEFT_INT32, WEFT_SUM, comms_[0].get(),
                                 streams_[0].get()),
                 WEFT_ERROR_INVALID_ARGUMENT, "send buffer is NULL");
    expect_error(weft_send(buffer, kCount, WEFT_INT32, 0, comms_[0].get(), streams_[0].get()),
                 WEFT_ERROR_INVALID_USAGE, "sends to itself");
    must(context_.get(), weft_group_start(context_.get()));
    add(0, 0);
    add(0, 1);
    expect_error(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE, "on another one");
    add(0, 0);
  });
  launch(graph, 0);
  add(1, 1);
  synchronize(0);
  synchronize(1);
  expect_everywhere(3);
}

// They move nothing, and fail as they would if they were made.
TEST_P(Graphs, HoldNoCallsWithoutElementsOfACommunicatorThatFailed) {
  ASSERT_EQ(weft_comm_abort(comms_[0].get()), WEFT_OK);
  const GraphHandle graph = captured(0, [&] {
    expect_error(weft_all_reduce(nullptr, nullptr, 0, WEFT_INT32, WEFT_SUM, comms_[0].get(),
                                 streams_[0].get()),
                 WEFT_ERROR_ABORTED, "aborted by its user");
    expect_error(weft_send(nullptr, 0, WEFT_INT32, 1, comms_[0].get(), streams_[0].get()),
                 WEFT_ERROR_ABORTED, "aborted by its user");
  });
  launch(graph, 0);
  synchronize(0);
}

TEST_P(Graphs, CaptureRefusesWhatCannotBe) {
  weft_context* context = context_.get();
  weft_stream* stream = streams_[0].get();
  weft_graph* out = nullptr;
  expect_error(weft_stream_end_capture(stream, &out), WEFT_ERROR_INVALID_USAGE, "is not captured");
  must(context, weft_group_start(context));
  expect_error(weft_stream_begin_capture(stream), WEFT_ERROR_INVALID_USAGE, "inside a group");
  must(context, weft_group_end(context));

  fill();
  must(context, weft_stream_begin_capture(stream));
  expect_error(weft_stream_begin_capture(stream), WEFT_ERROR_INVALID_USAGE, "is captured");
  expect_error(weft_stream_synchronize(stream), WEFT_ERROR_INVALID_USAGE, "is captured");
  expect_error(weft_stream_query(stream), WEFT_ERROR_INVALID_USAGE, "is captured");
  must(context, weft_group_start(context));
  add(0, 0);
  expect_error(weft_stream_end_capture(stream, &out), WEFT_ERROR_INVALID_USAGE, "inside a group");
  must(context, weft_group_end(context));
  EXPECT_EQ(out, nullptr);
  must(context, weft_stream_end_capture(stream, &out));
  const GraphHandle graph(out);

  must(context, weft_group_start(context));
  expect_error(weft_graph_launch(graph.get(), stream), WEFT_ERROR_INVALID_USAGE, "inside a group");
  must(context, weft_group_end(context));
  const GraphHandle outer = captured(0, [&] {
    expect_error(weft_graph_launch(graph.get(), stream), WEFT_ERROR_INVALID_USAGE, "is captured");
  });
  const ContextHandle other = make_context();
  const StreamHandle others = make_stream(other.get());
  expect_error(weft_graph_launch(graph.get(), others.get()), WEFT_ERROR_INVALID_ARGUMENT,
               "another context than the graph");
  EXPECT_EQ(calls_of(0), 0U);
  // The group was recorded all the same.
  launch(graph, 0);
  add(1, 1);
  synchronize(0);
  synchronize(1);
  expect_everywhere(3);
  // A capture that is never ended goes with its stream.
  must(context, weft_stream_begin_capture(stream));
  add(0, 0);
  streams_[0].reset();
  EXPECT_EQ(calls_of(0), 1U);
}

/// What lies in a buffer of `OfRanksWithThreadsOfTheirOwn`: in the first place, in the others of
/// the first hundred, and in the rest.
struct Three {
  std::int32_t first = 0;
  std::int32_t others = 0;
  std::int32_t rest = 0;

  [[nodiscard]] std::vector<std::int32_t> of(std::size_t count) const {
    std::vector<std::int32_t> values(count, rest);
    std::fill_n(values.begin(), 100, others);
    values[0] = first;
    return values;
  }
};

// Each rank has its thread, which launches several graphs; the other one calls now and then.
TEST_P(Graphs, OfRanksWithThreadsOfTheirOwn) {
  constexpr int kRounds = 200;
  fill();
  const auto be_rank = [&](std::size_t rank) {
    std::array<Three, 2> due = {Three{1, 1, 1}, Three{2, 2, 2}};
    const auto calls = [&] {
      add(rank, rank, 1);
      give(rank, rank);
    };
    const GraphHandle first = captured(rank, calls);
    for (int round = 0; round < kRounds; ++round) {
      const bool adds = round % 3 == 0;
      GraphHandle second = captured(rank, [&] {
        exchange(rank, rank);
        if (adds) add(rank, rank, 100);
      });
      if ((round + static_cast<int>(rank)) % 4 == 0) {
        calls();
      } else {
        launch(first, rank + 2 * (round % 2));
      }
      launch(second, rank);
      second.reset();
      due[0].first += due[1].first;
      due[1] = due[0];
      const Three exchanged = due[0];
      for (Three& values : due) {
        if (!adds) break;
        values.first *= 2;
        values.others *= 2;
      }
      if (round % 8 != 0 && round + 1 != kRounds) continue;
      synchronize(rank);
      synchronize(rank + 2);
      EXPECT_EQ(buffers_[rank], due[rank].of(kCount)) << round;
      EXPECT_EQ(received_[rank], exchanged.of(kCount)) << round;
      due[0] = {round, round + 1, round + 2};
      // In place: graphs have the address.
      if (rank == 0) std::ranges::copy(due[0].of(kCount), buffers_[0].begin());
    }
  };
  {
    const std::jthread other([&] { be_rank(1); });
    be_rank(0);
  }
  EXPECT_EQ(calls_of(0), calls_of(1));
}

INSTANTIATE_TEST_SUITE_P(Wires, Graphs, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(GraphArguments, MayBeNullWhereThatMeansNothing) {
  EXPECT_EQ(weft_stream_begin_capture(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_stream_end_capture(nullptr, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_graph_launch(nullptr, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_graph_destroy(nullptr), WEFT_OK);
  const ContextHandle context = make_context();
  StreamHandle stream = make_stream(context.get());
  EXPECT_EQ(weft_graph_launch(nullptr, stream.get()), WEFT_ERROR_INVALID_ARGUMENT);
  must(context.get(), weft_stream_begin_capture(stream.get()));
  EXPECT_EQ(weft_stream_end_capture(stream.get(), nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  weft_graph* out = nullptr;
  must(context.get(), weft_stream_end_capture(stream.get(), &out));
  const GraphHandle graph(out);
  EXPECT_EQ(weft_graph_launch(graph.get(), nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  must(context.get(), weft_graph_launch(graph.get(), stream.get()));
  must(context.get(), weft_stream_synchronize(stream.get()));
  // It is independent of the stream, not of the context.
  stream.reset();
  EXPECT_EQ(weft_context_destroy(context.get()), WEFT_ERROR_INVALID_USAGE);
}

}  // namespace
}  // namespace weft::test
