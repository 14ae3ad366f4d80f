// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-to-all, gather and scatter where ranks do not call alike, or not at all. What they move when
// they do is tried by tests/integration/api/trial.h.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/weft.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/standard_error.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

using Made = std::function<weft_result(weft_comm*, weft_stream*, const int* send, int* recv)>;

Made all_to_all(std::size_t count) {
  return [=](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    return weft_all_to_all(send, recv, count, WEFT_INT32, comm, stream);
  };
}

Made gather(std::size_t count, std::uint32_t root) {
  return [=](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    return weft_gather(send, recv, count, WEFT_INT32, root, comm, stream);
  };
}

Made scatter(std::size_t count, std::uint32_t root) {
  return [=](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    return weft_scatter(send, recv, count, WEFT_INT32, root, comm, stream);
  };
}

/// Between two ranks, nothing of their own.
Made all_to_all_v(std::size_t sent, std::size_t received) {
  return [=](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    std::uint32_t rank = 0;
    if (const weft_result result = weft_comm_rank(comm, &rank); result != WEFT_OK) return result;
    std::array<std::size_t, 2> send_counts{};
    std::array<std::size_t, 2> recv_counts{};
    const std::array<std::size_t, 2> offsets{};
    send_counts[1 - rank] = sent;
    recv_counts[1 - rank] = received;
    return weft_all_to_all_v(send, send_counts.data(), offsets.data(), recv, recv_counts.data(),
                             offsets.data(), WEFT_INT32, comm, stream);
  };
}

/// Of two ranks that have these counts.
Made all_gather_v(std::array<std::size_t, 2> counts) {
  return [=](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    const std::array<std::size_t, 2> offsets = {0, counts[0]};
    return weft_all_gather_v(send, recv, counts.data(), offsets.data(), WEFT_INT32, comm, stream);
  };
}

Made reduce_scatter_v(std::array<std::size_t, 2> counts, weft_reduction reduction) {
  return [=](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    const std::array<std::size_t, 2> offsets = {0, counts[0]};
    return weft_reduce_scatter_v(send, counts.data(), offsets.data(), recv, WEFT_INT32, reduction,
                                 comm, stream);
  };
}

class Exchanges : public testing::TestWithParam<std::string> {
 protected:
  /// The text that each of two ranks gets of one call each.
  void expect_mismatch(const Made& one, const Made& other, const std::string& expression) {
    const LocalComms local(context_.get(), settings_.get(), 2);
    std::vector<int> data(400);
    must(context_.get(), weft_group_start(context_.get()));
    must(context_.get(), one(local.comm(0), local.stream(0), data.data(), data.data() + 100));
    must(context_.get(),
         other(local.comm(1), local.stream(1), data.data() + 200, data.data() + 300));
    must(context_.get(), weft_group_end(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      weft_result error = WEFT_OK;
      // At first there may be no more than the news that the other rank has failed.
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (error != WEFT_ERROR_MISMATCH && std::chrono::steady_clock::now() < end) {
        look_later();
        must(context_.get(), weft_comm_get_async_error(local.comm(rank), &error));
      }
      EXPECT_EQ(error, WEFT_ERROR_MISMATCH) << last_error(context_.get());
      // Nor may the other rank have said yet what it called; who waits for its work hears that.
      weft_stream_synchronize(local.stream(rank));
      must(context_.get(), weft_comm_get_async_error(local.comm(rank), &error));
      EXPECT_THAT(last_error(context_.get()), ContainsRegex(expression));
    }
  }
  const ContextHandle context_ = make_context();
  const CommSettings settings_{only_transport(GetParam())};
};

TEST_P(Exchanges, CountsThatDifferAreNamedByBoth) {
  expect_mismatch(all_to_all(8), all_to_all(9),
                  "rank 0 called all_to_all of 8 int32 .call 1., but rank 1 called all_to_all of 9 "
                  "int32 .call 1.|rank 1 called all_to_all of 9 int32 .call 1., but rank 0 called "
                  "all_to_all of 8 int32 .call 1.");
  expect_mismatch(gather(8, 0), gather(9, 0),
                  "rank 1 called gather of 9 int32 to rank 0 .call 1., but rank 0 called gather of "
                  "8 int32 to rank 0 .call 1.");
  expect_mismatch(
      scatter(8, 0), scatter(9, 0),
      "rank 0 called scatter of 8 int32 from rank 0 .call 1., but rank 1 called scatter "
      "of 9 int32 from rank 0 .call 1.");
  expect_mismatch(all_to_all_v(8, 8), all_to_all_v(8, 9),
                  "rank 0 called all_to_all_v of 8 int32 .call 1., but rank 1 called all_to_all_v "
                  "of 9 int32 .call 1.");
}

// The sum is the same, and so is the longest.
TEST_P(Exchanges, BlocksThatDifferAreNamedByBoth) {
  expect_mismatch(all_gather_v({3, 5}), all_gather_v({5, 3}),
                  "called all_gather_v of 8 int32 by counts of checksum [0-9]+ .call 1., but rank "
                  "[01] called all_gather_v of 8 int32 by counts of checksum [0-9]+ .call 1.");
  expect_mismatch(reduce_scatter_v({3, 5}, WEFT_SUM), reduce_scatter_v({3, 5}, WEFT_MAX),
                  "called reduce_scatter_v of 8 int32 by .* by counts of checksum [0-9]+ .call 1., "
                  "but rank [01] called reduce_scatter_v of 8 int32 by ");
}

// No data meets: whoever waits asks.
TEST_P(Exchanges, RootsThatDifferAreNamedByBoth) {
  expect_mismatch(gather(8, 0), gather(8, 1),
                  "rank [01] called gather of 8 int32 to rank [01] .call 1., but rank [01] called "
                  "gather of 8 int32 to rank [01] .call 1.");
  expect_mismatch(scatter(8, 1), scatter(8, 0),
                  "rank [01] called scatter of 8 int32 from rank [01] .call 1., but rank [01] "
                  "called scatter of 8 int32 from rank [01] .call 1.");
}

TEST_P(Exchanges, OtherCallsAreNamed) {
  const Made all_reduce = [](weft_comm* comm, weft_stream* stream, const int* send, int* recv) {
    return weft_all_reduce(send, recv, 8, WEFT_INT32, WEFT_SUM, comm, stream);
  };
  expect_mismatch(all_to_all(8), all_reduce,
                  "all_to_all of 8 int32 .call 1., but.*all_reduce of 8 int32 by sum .call 1.|"
                  "all_reduce of 8 int32 by sum .call 1., but.*all_to_all of 8 int32 .call 1.");
  const Made send_and_receive = [](weft_comm* comm, weft_stream* stream, const int* send,
                                   int* recv) {
    const weft_result sent = weft_send(send, 8, WEFT_INT32, 0, comm, stream);
    return sent != WEFT_OK ? sent : weft_recv(recv, 8, WEFT_INT32, 0, comm, stream);
  };
  expect_mismatch(all_to_all(8), send_and_receive,
                  "all_to_all of 8 int32 .call 1., but.*recv of 8 int32 from rank 0 .call 1.|"
                  "send of 8 int32 to rank 0 .call 1., but.*all_to_all of 8 int32 .call 1.");
  // A call without elements counts.
  expect_mismatch(all_to_all(0), all_to_all(1), "all_to_all of 0 int32 .call 1.");
}

TEST_P(Exchanges, ARankThatLeftIsNamed) {
  LocalComms stays(context_.get(), settings_.get(), 3);
  std::array<int, 8> data{};
  stays.leave(2);
  const auto call = [&](std::uint32_t rank) {
    return weft_all_to_all(data.data(), data.data() + 4, 1, WEFT_INT32, stays.comm(rank),
                           stays.stream(rank));
  };
  // A neighbour knows before it is connected.
  weft_result result = call(1);
  if (result == WEFT_OK) result = weft_stream_synchronize(stays.stream(1));
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  EXPECT_THAT(last_error(context_.get()),
              AllOf(HasSubstr("rank 2 left the communicator before any call"),
                    HasSubstr("rank 1 called all_to_all of 1 int32 (call 1)")));
}

TEST_P(Exchanges, ALongWaitNamesTheCall) {
  std::vector<std::string> words = only_transport(GetParam());
  words.insert(words.end(), {"timeouts.report", "100ms"});
  const CommSettings settings(words);
  const LocalComms local(context_.get(), settings.get(), 2);
  const StandardError written;
  std::array<int, 2> sent = {1, 2};
  std::array<int, 2> got{};
  must(context_.get(),
       weft_all_to_all(sent.data(), got.data(), 1, WEFT_INT32, local.comm(1), local.stream(1)));
  std::thread waits([&] { must(context_.get(), weft_stream_synchronize(local.stream(1))); });
  // Bounded, so that a report that never comes is a failure and no hang.
  for (int look = 0; look < 1000 && written.count("in all_to_all of 1 int32 (call 1)") == 0; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::array<int, 2> theirs = {3, 4};
  std::array<int, 2> got_there{};
  must(context_.get(), weft_all_to_all(theirs.data(), got_there.data(), 1, WEFT_INT32,
                                       local.comm(0), local.stream(0)));
  must(context_.get(), weft_stream_synchronize(local.stream(0)));
  waits.join();
  EXPECT_EQ(got, (std::array<int, 2>{4, 2}));
  EXPECT_EQ(got_there, (std::array<int, 2>{3, 1}));
  EXPECT_EQ(written.count("in all_to_all of 1 int32 (call 1)"), 1U);
}

INSTANTIATE_TEST_SUITE_P(Transports, Exchanges, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           return info.param == "net-socket" ? std::string("net_socket")
                                                             : info.param;
                         });

class ExchangeArguments : public testing::Test {
 protected:
  const ContextHandle context_ = make_context();
  const LocalComms local_{context_.get(), nullptr, 2};
  std::array<int, 8> data_{};

  void expect_refusal(weft_result result, weft_result code, const std::string& text) {
    EXPECT_EQ(result, code);
    EXPECT_THAT(last_error(context_.get()), HasSubstr(text));
  }
};

TEST_F(ExchangeArguments, AreChecked) {
  weft_comm* const comm = local_.comm(1);
  weft_stream* const stream = local_.stream(1);
  int* const data = data_.data();
  expect_refusal(weft_all_to_all(data, data, 2, WEFT_INT32, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "the buffers of all_to_all overlap, which cannot work in place");
  expect_refusal(weft_all_to_all(data + 3, data, 2, WEFT_INT32, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "the buffers of all_to_all overlap");
  expect_refusal(weft_all_to_all(data, nullptr, 2, WEFT_INT32, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "the receive buffer is NULL, and count is 2");
  expect_refusal(weft_all_to_all(data, data + 4, SIZE_MAX / 20, WEFT_INT32, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "2 blocks of ");
  expect_refusal(weft_gather(data, nullptr, 2, WEFT_INT32, 1, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "the receive buffer is NULL, and count is 2");
  expect_refusal(weft_gather(data, data, 2, WEFT_INT32, 2, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "root 2 is not a rank of this communicator of 2");
  expect_refusal(weft_scatter(nullptr, data, 2, WEFT_INT32, 1, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "the send buffer is NULL, and count is 2");
  expect_refusal(weft_scatter(data, data, 2, 99, 0, comm, stream), WEFT_ERROR_INVALID_ARGUMENT,
                 "99 is no element type");

  const std::array<std::size_t, 2> counts = {1, 1};
  const std::array<std::size_t, 2> others = {1, 2};
  const std::array<std::size_t, 2> offsets = {0, 1};
  const std::array<std::size_t, 2> none{};
  const auto exchange = [&](const int* send, const std::size_t* send_counts, int* recv,
                            const std::size_t* recv_counts, const std::size_t* recv_offsets) {
    return weft_all_to_all_v(send, send_counts, offsets.data(), recv, recv_counts, recv_offsets,
                             WEFT_INT32, comm, stream);
  };
  expect_refusal(exchange(data, nullptr, data + 4, counts.data(), offsets.data()),
                 WEFT_ERROR_INVALID_ARGUMENT, "send_counts is NULL");
  expect_refusal(exchange(data, counts.data(), data + 4, counts.data(), nullptr),
                 WEFT_ERROR_INVALID_ARGUMENT, "recv_offsets is NULL");
  expect_refusal(exchange(nullptr, counts.data(), data + 4, counts.data(), offsets.data()),
                 WEFT_ERROR_INVALID_ARGUMENT, "the send buffer is NULL, and count is 2");
  expect_refusal(exchange(data, counts.data(), nullptr, counts.data(), offsets.data()),
                 WEFT_ERROR_INVALID_ARGUMENT, "the receive buffer is NULL, and count is 2");
  expect_refusal(
      exchange(data, counts.data(), data + 4, others.data(), offsets.data()), WEFT_ERROR_MISMATCH,
      "rank 1 sends 1 int32 to itself and receives 2 int32; try: make both halves alike");
  const std::array<std::size_t, 2> huge = {1, SIZE_MAX / 8};
  expect_refusal(exchange(data, counts.data(), data + 4, huge.data(), offsets.data()),
                 WEFT_ERROR_INVALID_ARGUMENT, "recv_counts[1] is ");

  expect_refusal(
      weft_all_gather_v(data, data + 4, nullptr, offsets.data(), WEFT_INT32, comm, stream),
      WEFT_ERROR_INVALID_ARGUMENT, "recv_counts is NULL");
  expect_refusal(
      weft_all_gather_v(nullptr, data + 4, counts.data(), offsets.data(), WEFT_INT32, comm, stream),
      WEFT_ERROR_INVALID_ARGUMENT, "the send buffer is NULL, and count is 1");
  expect_refusal(
      weft_all_gather_v(data, nullptr, others.data(), offsets.data(), WEFT_INT32, comm, stream),
      WEFT_ERROR_INVALID_ARGUMENT, "the receive buffer is NULL, and count is 3");
  expect_refusal(weft_reduce_scatter_v(data, counts.data(), nullptr, data + 4, WEFT_INT32, WEFT_SUM,
                                       comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "send_offsets is NULL");
  expect_refusal(weft_reduce_scatter_v(data, counts.data(), offsets.data(), data + 4, WEFT_INT32,
                                       99, comm, stream),
                 WEFT_ERROR_INVALID_ARGUMENT, "99 is no reduction");

  // None of these was started; one without any elements is, on all ranks.
  for (const std::uint32_t rank : {0U, 1U}) {
    must(context_.get(),
         weft_all_to_all_v(nullptr, none.data(), none.data(), nullptr, none.data(), none.data(),
                           WEFT_INT32, local_.comm(rank), local_.stream(rank)));
    must(context_.get(),
         weft_gather(nullptr, nullptr, 0, WEFT_INT32, 0, local_.comm(rank), local_.stream(rank)));
  }
  local_.synchronize();
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  must(context_.get(), weft_comm_get_properties(comm, &properties));
  EXPECT_EQ(properties.calls, 2U);
}

}  // namespace
}  // namespace weft::test
