// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of one communicator on several streams. One thread drives both ranks, and makes the calls
// of rank 1 when those of rank 0 have returned: were one of these to wait, nothing would go on.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"

namespace weft::test {
namespace {

class SeveralStreams : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t kCount = 20'000;

  /// Adds the values of both ranks, in place.
  void add(std::size_t rank, std::size_t stream) {
    std::int32_t* buffer = buffers_[rank].data();
    must(context_.get(), weft_all_reduce(buffer, buffer, kCount, WEFT_INT32, WEFT_SUM,
                                         comms_[rank].get(), streams_[stream].get()));
  }
  /// Gives rank 0's values to rank 1.
  void give(std::size_t rank, std::size_t stream) {
    std::int32_t* buffer = buffers_[rank].data();
    must(context_.get(), weft_broadcast(buffer, buffer, kCount, WEFT_INT32, 0, comms_[rank].get(),
                                        streams_[stream].get()));
  }
  void synchronize(std::size_t stream) {
    must(context_.get(), weft_stream_synchronize(streams_[stream].get()));
  }
  void fill() {
    buffers_[0].assign(kCount, 1);
    buffers_[1].assign(kCount, 2);
  }
  void expect_everywhere(std::int32_t value) {
    for (const auto& buffer : buffers_)
      EXPECT_EQ(buffer, std::vector<std::int32_t>(kCount, value));
  }

  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_ = make_streams(context_.get(), 4);
  std::vector<CommHandle> comms_ =
      init_all(context_.get(), CommSettings(only_transport(GetParam())), 2);
  std::array<std::vector<std::int32_t>, 2> buffers_;
};

TEST_P(SeveralStreams, NoCallWaitsForAnother) {
  // Often enough that callers end up running the work.
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    fill();
    add(0, 0);
    give(0, 1);
    add(0, 2);
    add(0, 0);
    EXPECT_EQ(weft_stream_query(streams_[1].get()), WEFT_IN_PROGRESS);
    add(1, 3);
    give(1, 3);
    add(1, 3);
    add(1, 3);
    // By whichever stream it is waited for.
    switch (round % 4) {
      case 0:
        synchronize(0);
        synchronize(3);
        break;
      case 1:
        synchronize(3);
        synchronize(2);
        synchronize(0);
        break;
      case 2:
        while (weft_stream_query(streams_[0].get()) == WEFT_IN_PROGRESS)
          std::this_thread::yield();
        synchronize(3);
        break;
      default:
        synchronize(1);
        synchronize(2);
        synchronize(3);
        synchronize(0);
    }
    expect_everywhere(12);
  }
}

TEST_P(SeveralStreams, AbortEndsAllOfThem) {
  fill();
  add(0, 0);
  add(0, 1);
  add(0, 2);
  must(context_.get(), weft_comm_abort(comms_[0].get()));
  for (const std::size_t stream : {2, 0, 1}) {
    EXPECT_EQ(weft_stream_synchronize(streams_[stream].get()), WEFT_ERROR_ABORTED);
    EXPECT_EQ(weft_stream_query(streams_[stream].get()), WEFT_OK);
  }
}

TEST_P(SeveralStreams, StreamsAndCommunicatorsEndWithTheirWork) {
  fill();
  add(0, 0);
  add(0, 1);
  add(0, 2);
  for (int call = 0; call < 3; ++call)
    add(1, 3);
  streams_[1].reset();
  comms_[0].reset();
  comms_[1].reset();
  expect_everywhere(12);
  streams_[0].reset();
  synchronize(2);
}

TEST_P(SeveralStreams, AGroupOnSeveralStreamsIsPassedByAllOfThem) {
  for (int round = 0; round < 20; ++round) {
    fill();
    must(context_.get(), weft_group_start(context_.get()));
    add(0, 0);
    add(1, 1);
    give(0, 2);
    give(1, 3);
    must(context_.get(), weft_group_end(context_.get()));
    // Each rank's last call was on a stream of its own.
    for (const std::size_t rank : {0, 1}) {
      synchronize(2 + rank);
      EXPECT_EQ(buffers_[rank], std::vector<std::int32_t>(kCount, 3));
    }
    for (std::size_t stream = 0; stream < streams_.size(); ++stream)
      synchronize(stream);
  }
}

// Two communicators change streams, and rank 1 calls them in the other order. Each call waits for
// the earlier one of its communicator; were it to wait for all that the stream got since, each rank
// would begin with the call that the other one ends with.
TEST_P(SeveralStreams, CommunicatorsThatChangeStreamsDoNotWaitForEachOther) {
  std::vector<std::string> config = only_transport(GetParam());
  config.insert(config.end(), {"timeouts.operation", "10s"});
  const CommSettings settings(config);
  const auto gates = init_all(context_.get(), settings, 2);
  const auto ones = init_all(context_.get(), settings, 2);
  const auto others = init_all(context_.get(), settings, 2);
  // Ranks 0 and 1 have streams 0 and 1, 2 and 3; rank 1's gates have the last.
  const auto streams = make_streams(context_.get(), 5);
  std::array<std::int32_t, 12> values{};
  values.fill(1);
  std::size_t next = 0;
  const auto call = [&](const CommHandle& comm, std::size_t stream) {
    std::int32_t* value = &values.at(next++);
    must(context_.get(),
         weft_all_reduce(value, value, 1, WEFT_INT32, WEFT_SUM, comm.get(), streams[stream].get()));
  };
  call(gates[0], 0);
  call(gates[0], 1);
  call(ones[0], 1);
  call(others[0], 0);
  call(ones[0], 0);
  call(others[0], 1);
  call(ones[1], 3);
  call(others[1], 2);
  call(others[1], 3);
  call(ones[1], 2);
  call(gates[1], 4);
  call(gates[1], 4);
  for (const auto& stream : streams)
    EXPECT_EQ(weft_stream_synchronize(stream.get()), WEFT_OK);
  for (const std::int32_t value : values)
    EXPECT_EQ(value, 2);
}

INSTANTIATE_TEST_SUITE_P(Wires, SeveralStreams, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft::test
