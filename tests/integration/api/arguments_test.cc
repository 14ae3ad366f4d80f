// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the public functions answer to arguments that cannot be, each with its text, and to calls at
// a wrong time.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/support/process.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Arguments : public testing::Test {
 protected:
  /// That a call on this test's context answered so, with this text.
  void expect_refusal(weft_result result, weft_result code, const std::string& text) const {
    EXPECT_EQ(result, code) << last_error(context_.get());
    EXPECT_EQ(last_error(context_.get()), text);
  }

  const ContextHandle context_ = make_context();
  const std::vector<CommHandle> comms_ = init_all(context_.get(), CommSettings(), 2);
  const StreamHandle stream_ = make_stream(context_.get());
  weft_comm* comm_ = comms_[0].get();
  std::array<float, 4> send_{};
  std::array<float, 4> recv_{};

  weft_result all_reduce(const void* send, void* recv, std::size_t count, weft_data_type type,
                         weft_reduction reduction) const {
    return weft_all_reduce(send, recv, count, type, reduction, comm_, stream_.get());
  }
};

TEST_F(Arguments, OfContexts) {
  EXPECT_EQ(weft_context_create(nullptr, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(nullptr), "out is NULL");
  weft_context_options options{};
  options.struct_size = 4;
  weft_context* out = nullptr;
  EXPECT_EQ(weft_context_create(&options, &out), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(nullptr),
            "weft_context_options.struct_size is 4, less than the 16 of this version; try: set it "
            "to sizeof(weft_context_options)");
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(weft_context_destroy(nullptr), WEFT_OK);
}

TEST_F(Arguments, OfContextsWithAFile) {
  const ScratchFolder folder;
  const std::string file = folder.write("weft.yaml", "version: 1\ntransports: {ordr: [shm]}\n");
  weft_context_options options{};
  options.struct_size = sizeof(options);
  options.config_file = file.c_str();
  weft_context* out = nullptr;
  EXPECT_EQ(weft_context_create(&options, &out), WEFT_ERROR_CONFIG);
  EXPECT_THAT(last_error(nullptr),
              HasSubstr(file + ":2:14: unknown key \"ordr\"; did you mean \"order\"?"));
  EXPECT_EQ(out, nullptr);

  const std::string good = folder.write("good.yaml", "version: 1\ntransports: {order: [shm]}\n");
  options.config_file = good.c_str();
  ASSERT_EQ(weft_context_create(&options, &out), WEFT_OK) << last_error(nullptr);
  const ContextHandle context(out);
  const std::vector<CommHandle> comms = init_all(context.get(), CommSettings(), 2);
  EXPECT_THAT(describe_pair(comms[0].get(), 0, 1), AllOf(StartsWith("shm: "), HasSubstr(good)));
}

TEST_F(Arguments, AContextInUseIsKept) {
  expect_refusal(
      weft_context_destroy(context_.get()), WEFT_ERROR_INVALID_USAGE,
      "3 communicators, streams and graphs of the context are alive; try: destroy them before "
      "the context");
  // It still works.
  make_stream(context_.get());
}

TEST_F(Arguments, OfUniqueIds) {
  weft_unique_id id;
  expect_refusal(weft_get_unique_id(context_.get(), nullptr), WEFT_ERROR_INVALID_ARGUMENT,
                 "out is NULL");
  EXPECT_EQ(weft_get_unique_id(nullptr, &id), WEFT_ERROR_INVALID_ARGUMENT);
}

TEST_F(Arguments, OfInitRank) {
  weft_unique_id id{};
  weft_comm* out = nullptr;
  weft_context* context = context_.get();
  const CommSettings settings;
  expect_refusal(weft_comm_init_rank(context, nullptr, 1, &id, 0, nullptr),
                 WEFT_ERROR_INVALID_ARGUMENT, "out is NULL");
  expect_refusal(weft_comm_init_rank(context, nullptr, 1, nullptr, 0, &out),
                 WEFT_ERROR_INVALID_ARGUMENT, "id is NULL");
  EXPECT_EQ(weft_comm_init_rank(nullptr, nullptr, 1, &id, 0, &out), WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_comm_init_rank(context, nullptr, 2, &id, 2, &out),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "rank 2 of 2: ranks count from 0; try: give each rank a number of its own below "
                 "the number of ranks");
  expect_refusal(weft_comm_init_rank(context, nullptr, 0, &id, 0, &out),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "rank 0 of 0: ranks count from 0; try: give each rank a number of its own below "
                 "the number of ranks");
  EXPECT_EQ(weft_comm_init_rank(context, nullptr, UINT32_MAX, &id, 0, &out),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context), HasSubstr("4294967295 ranks are more than the "));
  EXPECT_EQ(weft_comm_init_rank(context, nullptr, 2, &id, 0, &out), WEFT_ERROR_INVALID_ARGUMENT)
      << "an id of zeros";
  EXPECT_THAT(last_error(context), HasSubstr("unique id"));
  EXPECT_EQ(out, nullptr);
}

TEST_F(Arguments, OfSettings) {
  weft_comm* out = nullptr;
  weft_comm_config config{};
  config.struct_size = 3;
  config.setting_count = 1;
  expect_refusal(weft_comm_init_all(context_.get(), &config, 1, &out), WEFT_ERROR_INVALID_ARGUMENT,
                 "nothing of the group was started: weft_comm_config.struct_size is 3, less than "
                 "the 16 of the first version; try: set it to sizeof(weft_comm_config)");
  const std::array<const char*, 2> half = {"transports.order", nullptr};
  config.struct_size = sizeof(config);
  config.settings = half.data();
  expect_refusal(weft_comm_init_all(context_.get(), &config, 1, &out), WEFT_ERROR_INVALID_ARGUMENT,
                 "nothing of the group was started: weft_comm_config.settings: pair 0 holds NULL; "
                 "try: give setting_count pairs of a key and a value");
  config.settings = nullptr;
  expect_refusal(weft_comm_init_all(context_.get(), &config, 1, &out), WEFT_ERROR_INVALID_ARGUMENT,
                 "nothing of the group was started: weft_comm_config.settings is NULL, and "
                 "setting_count is 1; try: give setting_count pairs of a key and a value");
  const auto text_of = [&](const std::vector<std::string>& pairs) {
    EXPECT_EQ(weft_comm_init_all(context_.get(), CommSettings(pairs).get(), 1, &out),
              WEFT_ERROR_CONFIG);
    return last_error(context_.get());
  };
  EXPECT_THAT(text_of({"transports.ordr", "shm"}),
              HasSubstr("unknown key \"transports.ordr\"; did you mean \"transports.order\"?"));
  EXPECT_THAT(text_of({"buffers.step", "5000"}), HasSubstr("buffers.step"));
  EXPECT_EQ(out, nullptr);
}

TEST_F(Arguments, OfInitAll) {
  weft_comm* out = nullptr;
  expect_refusal(weft_comm_init_all(context_.get(), nullptr, 2, nullptr),
                 WEFT_ERROR_INVALID_ARGUMENT, "out is NULL");
  EXPECT_EQ(weft_comm_init_all(nullptr, nullptr, 2, &out), WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_comm_init_all(context_.get(), nullptr, 0, &out), WEFT_ERROR_INVALID_ARGUMENT,
                 "a communicator of 0 ranks; try: 1 rank or more");
  for (const std::uint32_t nonblocking : {0U, 1U}) {
    weft_comm_config config{};
    config.struct_size = sizeof(config);
    config.nonblocking = nonblocking;
    EXPECT_EQ(weft_comm_init_all(context_.get(), &config, UINT32_MAX, &out),
              WEFT_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(context_.get()), StartsWith("4294967295 ranks are more than the "));
  }
  must(context_.get(), weft_group_start(context_.get()));
  expect_refusal(weft_comm_init_all(context_.get(), nullptr, 1, &out), WEFT_ERROR_INVALID_USAGE,
                 "weft_comm_init_all inside a group: it is a group of its own; try: call it "
                 "outside of weft_group_start and weft_group_end");
  must(context_.get(), weft_group_end(context_.get()));
}

TEST_F(Arguments, OfInitEnv) {
  weft_comm* out = nullptr;
  expect_refusal(weft_comm_init_env(context_.get(), nullptr, nullptr), WEFT_ERROR_INVALID_ARGUMENT,
                 "out is NULL");
  EXPECT_EQ(weft_comm_init_env(nullptr, nullptr, &out), WEFT_ERROR_INVALID_ARGUMENT);
  // This process was started by no launcher.
  EXPECT_LT(weft_comm_init_env(context_.get(), nullptr, &out), 0);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("WEFT_RANK"));
  EXPECT_EQ(out, nullptr);
}

/// Variables of this process for as long as it lives.
class Variables {
 public:
  ~Variables() {
    for (const std::string& name : names_)
      unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    names_.insert(name);
  }

 private:
  std::set<std::string> names_;
};

// One rank's first call fails since its variables are not there yet, the other's by its settings.
TEST_F(Arguments, CallsOfInitEnvThatFailAreCounted) {
  const ContextHandle other = make_context();
  weft_comm* out = nullptr;
  EXPECT_EQ(weft_comm_init_env(context_.get(), nullptr, &out), WEFT_ERROR_CONFIG);
  Variables variables;
  std::random_device random;
  std::string secret;
  while (secret.size() < 64)
    secret += "0123456789abcdef"[random() % 16];
  variables.set("WEFT_SECRET", secret);
  variables.set("WORLD_SIZE", "2");
  variables.set("LOCAL_WORLD_SIZE", "2");
  variables.set("RANK", "1");
  EXPECT_EQ(weft_comm_init_env(other.get(), CommSettings({"transports.ordr", "shm"}).get(), &out),
            WEFT_ERROR_CONFIG);
  const CommSettings settings({"timeouts.bootstrap", "20s"});
  weft_comm_config config = *settings.get();
  config.nonblocking = 1;
  std::vector<CommHandle> comms;
  for (const char* rank : {"0", "1"}) {
    variables.set("RANK", rank);
    weft_context* const context = comms.empty() ? context_.get() : other.get();
    ASSERT_EQ(weft_comm_init_env(context, &config, &out), WEFT_IN_PROGRESS) << last_error(context);
    comms.emplace_back(out);
  }
  for (const CommHandle& comm : comms) {
    weft_result state = WEFT_IN_PROGRESS;
    for (; state == WEFT_IN_PROGRESS; look_later())
      ASSERT_EQ(weft_comm_get_async_error(comm.get(), &state), WEFT_OK);
    EXPECT_EQ(state, WEFT_OK);
  }
}

TEST_F(Arguments, OfCommunicators) {
  std::uint32_t number = 7;
  expect_refusal(weft_comm_size(comm_, nullptr), WEFT_ERROR_INVALID_ARGUMENT, "out is NULL");
  expect_refusal(weft_comm_rank(comm_, nullptr), WEFT_ERROR_INVALID_ARGUMENT, "out is NULL");
  expect_refusal(weft_comm_get_async_error(comm_, nullptr), WEFT_ERROR_INVALID_ARGUMENT,
                 "out is NULL");
  weft_result error = WEFT_OK;
  EXPECT_EQ(weft_comm_size(nullptr, &number), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_comm_rank(nullptr, &number), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_comm_get_async_error(nullptr, &error), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_comm_finalize(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_comm_abort(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_comm_destroy(nullptr), WEFT_OK);
  EXPECT_EQ(weft_comm_describe_pair(nullptr, 0, 1, nullptr, 0), 0U);
  EXPECT_EQ(number, 7U);
}

TEST_F(Arguments, OfGroups) {
  EXPECT_EQ(weft_group_start(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_group_end(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE,
                 "weft_group_end without weft_group_start on this thread; try: call both on one "
                 "thread, as often as each other");
}

TEST_F(Arguments, OfStreams) {
  expect_refusal(weft_stream_create(context_.get(), nullptr), WEFT_ERROR_INVALID_ARGUMENT,
                 "out is NULL");
  weft_stream* out = nullptr;
  EXPECT_EQ(weft_stream_create(nullptr, &out), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_stream_synchronize(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_stream_query(nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(weft_stream_destroy(nullptr), WEFT_OK);
}

// No machine has so many: what is asked for is refused, with or without a driver.
TEST_F(Arguments, OfDevices) {
  weft_stream* stream = nullptr;
  EXPECT_EQ(weft_stream_from_cuda(nullptr, 0, nullptr, &stream), WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_stream_from_cuda(context_.get(), 0, nullptr, nullptr),
                 WEFT_ERROR_INVALID_ARGUMENT, "out is NULL");
  EXPECT_LT(weft_stream_from_cuda(context_.get(), 1000, nullptr, &stream), WEFT_OK);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("CUDA device 1000 cannot be used: "));
  EXPECT_EQ(stream, nullptr);
  // Of whichever device: each thread would have another stream of that name.
  void* const per_thread = reinterpret_cast<void*>(std::uintptr_t{2});
  for (const std::int32_t device : {0, 1000}) {
    expect_refusal(weft_stream_from_cuda(context_.get(), device, per_thread, &stream),
                   WEFT_ERROR_INVALID_ARGUMENT,
                   "cudaStreamPerThread is another stream in each thread, and Weft has threads of "
                   "its own; try: pass a stream of cudaStreamCreate, and order its work by events");
  }
  EXPECT_EQ(stream, nullptr);

  weft_comm* out = nullptr;
  weft_comm_config config{};
  config.struct_size = sizeof(config);
  config.device_kind = WEFT_DEVICE_CUDA;
  config.device = 1000;
  EXPECT_LT(weft_comm_init_all(context_.get(), &config, 1, &out), WEFT_OK);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("CUDA device 1000 cannot be used: "));
  config.device_kind = 7;
  EXPECT_EQ(weft_comm_init_all(context_.get(), &config, 1, &out), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("weft_comm_config.device_kind 7 is none"));
}

TEST_F(Arguments, OfCollectives) {
  float* send = send_.data();
  float* recv = recv_.data();
  expect_refusal(weft_all_reduce(send, recv, 4, WEFT_FLOAT32, WEFT_SUM, nullptr, stream_.get()),
                 WEFT_ERROR_INVALID_ARGUMENT, "comm is NULL");
  expect_refusal(weft_all_reduce(send, recv, 4, WEFT_FLOAT32, WEFT_SUM, comm_, nullptr),
                 WEFT_ERROR_INVALID_ARGUMENT, "stream is NULL");
  EXPECT_EQ(weft_all_reduce(send, recv, 4, WEFT_FLOAT32, WEFT_SUM, nullptr, nullptr),
            WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(all_reduce(nullptr, recv, 4, WEFT_FLOAT32, WEFT_SUM), WEFT_ERROR_INVALID_ARGUMENT,
                 "the send buffer is NULL, and count is 4; try: pass a buffer, or a count of 0");
  expect_refusal(all_reduce(send, nullptr, 4, WEFT_FLOAT32, WEFT_SUM), WEFT_ERROR_INVALID_ARGUMENT,
                 "the receive buffer is NULL, and count is 4; try: pass a buffer, or a count of 0");
  EXPECT_EQ(all_reduce(reinterpret_cast<char*>(send) + 2, recv, 3, WEFT_FLOAT32, WEFT_SUM),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(
      last_error(context_.get()),
      AllOf(StartsWith("buffer 0x"), HasSubstr("is not aligned to its elements of 4 bytes")));
  EXPECT_EQ(all_reduce(reinterpret_cast<char*>(send) + 1, recv, 3, WEFT_FLOAT16, WEFT_SUM),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("is not aligned to its elements of 2 bytes"));
  expect_refusal(all_reduce(send, recv, 4, 99, WEFT_SUM), WEFT_ERROR_INVALID_ARGUMENT,
                 "99 is no element type; try: one of the WEFT_INT8 to WEFT_FLOAT8_E5M2 constants");
  expect_refusal(
      all_reduce(send, recv, 4, WEFT_FLOAT32, 99), WEFT_ERROR_INVALID_ARGUMENT,
      "99 is no reduction; try: one of WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG");
  EXPECT_EQ(all_reduce(send, recv, SIZE_MAX, WEFT_FLOAT32, WEFT_SUM), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("are more than memory can hold"));
  expect_refusal(weft_broadcast(send, recv, 4, WEFT_FLOAT32, 2, comm_, stream_.get()),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "root 2 is not a rank of this communicator of 2; try: a rank counted from 0");
  expect_refusal(weft_broadcast(nullptr, recv, 4, WEFT_FLOAT32, 0, comm_, stream_.get()),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "the send buffer is NULL, and count is 4; try: pass a buffer, or a count of 0");
  expect_refusal(weft_reduce(send, recv, 4, WEFT_FLOAT32, WEFT_SUM, 2, comm_, stream_.get()),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "root 2 is not a rank of this communicator of 2; try: a rank counted from 0");
  expect_refusal(weft_reduce(send, nullptr, 4, WEFT_FLOAT32, WEFT_SUM, 0, comm_, stream_.get()),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "the receive buffer is NULL, and count is 4; try: pass a buffer, or a count of 0");
  expect_refusal(weft_reduce_scatter(send, recv, 4, WEFT_FLOAT32, -1, comm_, stream_.get()),
                 WEFT_ERROR_INVALID_ARGUMENT,
                 "-1 is no reduction; try: one of WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, "
                 "WEFT_AVG");
  EXPECT_EQ(weft_all_gather(send, recv, SIZE_MAX / 20, WEFT_FLOAT32, comm_, stream_.get()),
            WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), StartsWith("2 blocks of "));
  for (const CommHandle& comm : comms_) {
    EXPECT_EQ(weft_broadcast(nullptr, nullptr, 0, WEFT_FLOAT32, 0, comm.get(), stream_.get()),
              WEFT_OK)
        << "no elements need no buffers";
  }

  // None of these was started, and the communicator is none the worse.
  weft_result error = WEFT_ERROR_INTERNAL;
  must(context_.get(), weft_comm_get_async_error(comm_, &error));
  EXPECT_EQ(error, WEFT_OK);
  const StreamHandle other = make_stream(context_.get());
  send_ = {1, 2, 3, 4};
  must(context_.get(), all_reduce(send, recv, 4, WEFT_FLOAT32, WEFT_SUM));
  std::array<float, 4> peer = {4, 3, 2, 1};
  must(context_.get(), weft_all_reduce(peer.data(), peer.data(), 4, WEFT_FLOAT32, WEFT_SUM,
                                       comms_[1].get(), other.get()));
  must(context_.get(), weft_stream_synchronize(stream_.get()));
  must(context_.get(), weft_stream_synchronize(other.get()));
  EXPECT_EQ(recv_, (std::array<float, 4>{5, 5, 5, 5}));
}

// "counts on the root alone": others may pass whatever they have there.
TEST_F(Arguments, WhatCountsOnTheRootAloneIsNotLookedAtElsewhere) {
  std::array<float, 4> mine = {1, 2, 3, 4};
  std::array<float, 4> got{};
  char* const odd = reinterpret_cast<char*>(recv_.data()) + 1;
  weft_comm* const other = comms_[1].get();
  weft_stream* const stream = stream_.get();
  const auto in_a_group = [&](weft_result root, weft_result rest) {
    EXPECT_EQ(root, WEFT_OK);
    EXPECT_EQ(rest, WEFT_OK) << last_error(context_.get());
    EXPECT_EQ(weft_group_end(context_.get()), WEFT_OK) << last_error(context_.get());
    EXPECT_EQ(weft_stream_synchronize(stream), WEFT_OK);
  };
  must(context_.get(), weft_group_start(context_.get()));
  in_a_group(weft_broadcast(mine.data(), mine.data(), 4, WEFT_FLOAT32, 0, comm_, stream),
             weft_broadcast(odd, got.data(), 4, WEFT_FLOAT32, 0, other, stream));
  EXPECT_EQ(got, mine);
  must(context_.get(), weft_group_start(context_.get()));
  in_a_group(weft_reduce(mine.data(), send_.data(), 4, WEFT_FLOAT32, WEFT_SUM, 0, comm_, stream),
             weft_reduce(got.data(), odd, 4, WEFT_FLOAT32, WEFT_SUM, 0, other, stream));
  EXPECT_EQ(send_, (std::array<float, 4>{2, 4, 6, 8}));
  must(context_.get(), weft_group_start(context_.get()));
  in_a_group(weft_gather(mine.data(), send_.data(), 2, WEFT_FLOAT32, 0, comm_, stream),
             weft_gather(got.data(), odd, 2, WEFT_FLOAT32, 0, other, stream));
  EXPECT_EQ(send_, (std::array<float, 4>{1, 2, 1, 2}));
  must(context_.get(), weft_group_start(context_.get()));
  in_a_group(weft_scatter(mine.data(), send_.data(), 2, WEFT_FLOAT32, 0, comm_, stream),
             weft_scatter(odd, got.data(), 2, WEFT_FLOAT32, 0, other, stream));
  EXPECT_EQ(got, (std::array<float, 4>{3, 4, 3, 4}));
  EXPECT_EQ(recv_, (std::array<float, 4>{}));
}

TEST_F(Arguments, HandlesOfAnotherContext) {
  const ContextHandle other = make_context();
  const StreamHandle stream = make_stream(other.get());
  expect_refusal(
      weft_all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM, comm_, stream.get()),
      WEFT_ERROR_INVALID_ARGUMENT,
      "the stream belongs to another context than the communicator; try: make streams with the "
      "context of the communicator");
}

TEST_F(Arguments, OfAThreadThatHasEndedAreNoOthers) {
  std::thread([&] {
    EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE);
    EXPECT_NE(last_error(context_.get()), "");
  }).join();
  // The system gives its number to the next one.
  std::thread([&] { EXPECT_EQ(last_error(context_.get()), ""); }).join();
}

TEST_F(Arguments, ACommunicatorThatGoesTakesItsCallsOutOfTheGroup) {
  std::vector<CommHandle> gone = init_all(context_.get(), CommSettings(), 1);
  weft_window* window = nullptr;
  const auto left_out = [&] {
    gone.clear();
    EXPECT_EQ(all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM), WEFT_OK);
    expect_refusal(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE,
                   "nothing of the group was started: a communicator was destroyed in the group "
                   "that had noted calls of it; try: destroy it after weft_group_end");
  };
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM,
                                       gone[0].get(), stream_.get()));
  left_out();
  gone = init_all(context_.get(), CommSettings(), 1);
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), weft_window_register(gone[0].get(), send_.data(), sizeof(send_), &window));
  left_out();
  EXPECT_EQ(window, nullptr);
  // One of which there is nothing may go.
  gone = init_all(context_.get(), CommSettings(), 1);
  must(context_.get(), weft_group_start(context_.get()));
  gone.clear();
  must(context_.get(), weft_group_end(context_.get()));
}

TEST_F(Arguments, ACommunicatorWithCallsInAGroupIsNotFinalized) {
  const std::vector<CommHandle> comms = init_all(context_.get(), CommSettings(), 1);
  const auto call = [&] {
    return weft_all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM, comms[0].get(),
                           stream_.get());
  };
  must(context_.get(), weft_group_start(context_.get()));
  must(context_.get(), call());
  expect_refusal(weft_comm_finalize(comms[0].get()), WEFT_ERROR_INVALID_USAGE,
                 "weft_comm_finalize inside a group: its calls are not made yet; try: "
                 "weft_group_end first");
  must(context_.get(), weft_group_end(context_.get()));
  EXPECT_EQ(call(), WEFT_OK);
  must(context_.get(), weft_stream_synchronize(stream_.get()));
  // One of which there is nothing may end.
  must(context_.get(), weft_group_start(context_.get()));
  EXPECT_EQ(weft_comm_finalize(comms[0].get()), WEFT_OK);
  must(context_.get(), weft_group_end(context_.get()));
}

TEST_F(Arguments, AnErrorInAGroupEndsIt) {
  must(context_.get(), weft_group_start(context_.get()));
  EXPECT_EQ(all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM), WEFT_OK);
  EXPECT_EQ(all_reduce(send_.data(), nullptr, 4, WEFT_FLOAT32, WEFT_SUM),
            WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_group_end(context_.get()), WEFT_ERROR_INVALID_ARGUMENT,
                 "nothing of the group was started: the receive buffer is NULL, and count is 4; "
                 "try: pass a buffer, or a count of 0");
  EXPECT_EQ(weft_stream_query(stream_.get()), WEFT_OK);
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE) << "the group is still open";
}

// Without a stream, too, or of a rank that is to join: the others would wait for it.
TEST_F(Arguments, AnErrorInAGroupEndsItWhateverItIsOf) {
  must(context_.get(), weft_group_start(context_.get()));
  EXPECT_EQ(all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM), WEFT_OK);
  EXPECT_EQ(weft_all_reduce(send_.data(), recv_.data(), 4, WEFT_FLOAT32, WEFT_SUM, comm_, nullptr),
            WEFT_ERROR_INVALID_ARGUMENT);
  expect_refusal(weft_group_end(context_.get()), WEFT_ERROR_INVALID_ARGUMENT,
                 "nothing of the group was started: stream is NULL");
  EXPECT_EQ(weft_stream_query(stream_.get()), WEFT_OK);

  weft_unique_id id{};
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  std::array<weft_comm*, 2> joined{};
  must(context_.get(), weft_group_start(context_.get()));
  EXPECT_EQ(weft_comm_init_rank(context_.get(), nullptr, 2, &id, 0, joined.data()), WEFT_OK);
  EXPECT_EQ(weft_comm_init_rank(context_.get(), CommSettings({"transports.ordr", "shm"}).get(), 2,
                                &id, 1, &joined[1]),
            WEFT_ERROR_CONFIG);
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_CONFIG);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("unknown key \"transports.ordr\""));
  EXPECT_EQ(joined[0], nullptr);
}

TEST_F(Arguments, LastErrors) {
  EXPECT_EQ(last_error(context_.get()), "");
  EXPECT_EQ(weft_last_error(context_.get(), nullptr, 0), 1U);
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_INVALID_USAGE);
  const std::string text =
      "weft_group_end without weft_group_start on this thread; try: call both on one thread, as "
      "often as each other";
  std::array<char, 8> cut{};
  EXPECT_EQ(weft_last_error(context_.get(), cut.data(), cut.size()), text.size() + 1);
  EXPECT_STREQ(cut.data(), "weft_gr");
  std::thread([&] { EXPECT_EQ(last_error(context_.get()), ""); }).join();
  must(context_.get(), weft_stream_synchronize(stream_.get()));
  EXPECT_EQ(last_error(context_.get()), text) << "a success has taken the last failure away";
}

}  // namespace
}  // namespace weft::test
