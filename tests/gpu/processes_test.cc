// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All kinds of calls between ranks that are processes, and a process that is killed.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <tuple>
#include <unistd.h>

#include "tests/gpu/calls.h"
#include "tests/gpu/job.h"
#include "tests/gpu/operations.h"

namespace weft::gpu_test {
namespace {

using namespace std::chrono_literals;

// ---- in a process of its own ----

void say(const std::string& line) {
  std::cout << line << std::endl;
}

void calls_of(const Type& type) {
  Team team(Mode::kProcess, layout_of_job());
  // Processes take turns on one device: a call takes as long as the turns.
  run_calls(team, type, options().one_device);
}
TEST(RankOfJob, Calls_float32) {
  calls_of(kFloat32);
}
TEST(RankOfJob, Calls_int32) {
  calls_of(kInt32);
}
TEST(RankOfJob, Calls_float16) {
  calls_of(kFloat16);
}
TEST(RankOfJob, Calls_bfloat16) {
  calls_of(kBfloat16);
}
TEST(RankOfJob, Graphs) {
  Team team(Mode::kProcess, layout_of_job());
  capture_first_use(team);
  if (options().small || options().one_device) return;
  capture_many_channels_first(team);
  replay_alternately(team);
  if (!options().host) replay_often(team, kInt32, true);
}
TEST(RankOfJob, Transport) {
  Team team(Mode::kProcess, layout_of_job());
  std::array<char, 256> pair{};
  weft_comm_describe_pair(team.members()[0].comm, 0, 1, pair.data(), pair.size());
  EXPECT_TRUE(std::string(pair.data()).starts_with(std::getenv("WEFT_TRANSPORTS_ORDER")))
      << pair.data();
  if (options().one_device) {
    Trial(team, {.type = kFloat32, .count = 65537}).run(options().seed);
  } else {
    run_transport_calls(team);
  }
}

TEST(RankOfJob, Operations) {
  Team team(Mode::kProcess, layout_of_job());
  for (const Operation operation : kCollectives) {
    if (!is_wanted(operation)) continue;
    run_operation(team, operation, options().one_device);
    if (has_tables(operation)) run_tables(team, operation, options().one_device);
  }
  if (is_wanted(Operation::kExchange)) {
    run_exchanges(team, options().one_device);
    Team other(Mode::kProcess, layout_of_job());
    run_two_communicators(team, other, options().one_device);
  }
  if (options().operation) return;
  run_mix(team, 1, options().one_device);
  run_mix(team, 2, options().one_device);
}
TEST(RankOfJob, Types) {
  Team team(Mode::kProcess, layout_of_job());
  for (const Type& type : kAllTypes) {
    // Of each size one, where calls take long.
    const bool every_third = type.weft % 3 == 0;
    if (!options().one_device || every_third) run_type(team, type, options().one_device);
  }
}
TEST(RankOfJob, OperationGraphs) {
  Team team(Mode::kProcess, layout_of_job());
  for (const Operation operation : kCollectives) {
    if (is_wanted(operation)) replay_operation(team, operation, options().one_device);
  }
  if (is_wanted(Operation::kExchange)) {
    replay_operation(team, Operation::kExchange, options().one_device);
  }
  if (options().operation) return;
  replay_tables(team, options().one_device);
  replay_mix(team, options().one_device);
}
TEST(RankOfJob, HostsOperations) {
  const Layout layout = layout_of_job();
  Team team(Mode::kProcess, layout);
  std::array<char, 256> pair{};
  weft_comm_describe_pair(team.members()[0].comm, 0, layout.ranks - 1, pair.data(), pair.size());
  EXPECT_TRUE(std::string(pair.data()).starts_with("net-socket: ")) << pair.data();
  if (layout.ranks > 2) {
    weft_comm_describe_pair(team.members()[0].comm, 0, 1, pair.data(), pair.size());
    EXPECT_FALSE(std::string(pair.data()).starts_with("net-socket: ")) << pair.data();
  }
  run_few_of_each(team);
  run_mix(team, 1, true);
}
TEST(RankOfJob, TransportOperations) {
  Team team(Mode::kProcess, layout_of_job());
  run_few_of_each(team);
}
// Else ranks that were to see a device each may have shared the first.
TEST(RankOfJob, OperationsOnTheOnlyDevice) {
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  ASSERT_EQ(devices, 1);
  Team team(Mode::kProcess, layout_of_job());
  run_few_of_each(team);
}

TEST(RankOfJob, GraphsOnTheOnlyDevice) {
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  ASSERT_EQ(devices, 1);
  Team team(Mode::kProcess, layout_of_job());
  capture_first_use(team);
  capture_many_channels_first(team);
  replay_alternately(team);
  replay_often(team, kInt32, true);
}

// Rank 1 is killed while the others' kernels wait for it.
TEST(RankOfJob, Bereaved) {
  const Layout layout = layout_of_job();
  {
    Team team(Mode::kProcess, layout);
    Trial trial(team, {.type = kFloat32, .count = 4093});
    trial.run(options().seed);
    trial.prepare(options().seed + 1);
    if (team.members()[0].rank == 1) {
      say("READY");
      pause();
    }
    team.issue([&](Member& member) { trial.issue(member); });
    say("READY");
    const weft_result result = weft_stream_synchronize(team.members()[0].stream);
    say(std::string("RETURNED ") + weft_result_name(result) + " " + last_error());
    EXPECT_EQ(result, WEFT_ERROR_PEER);
    EXPECT_NE(last_error().find("rank 1"), std::string::npos) << last_error();
  }
  // This process goes on, with ranks of its own.
  Team next(Mode::kThreads, {2, true});
  Trial(next, {.type = kInt32, .count = 65537}).run(options().seed);
}

/// The device is of no use to this process any more: a kernel traps.
void break_device(const Member& member) {
  constexpr const char* kTrap =
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry fault() { trap; }\n";
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  CUDA(cudaLibraryLoadData(&library, kTrap, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUDA(cudaLibraryGetKernel(&kernel, library, "fault"));
  CUDA(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, member.cuda));
}

// The device of rank 1 faults before a call that all make.
TEST(RankOfJob, OnAFaultyDevice) {
  const Layout layout = layout_of_job();
  Team team(Mode::kProcess, layout);
  Team beside(Mode::kProcess, layout);
  Member& member = team.members()[0];
  Trial trial(team, {.type = kFloat32, .count = 4093});
  trial.run(options().seed);
  Trial(beside, {.type = kInt32, .count = 257}).run(options().seed);
  const bool faulty = member.rank == 1;
  if (faulty) {
    break_device(member);
    static_cast<void>(cudaStreamSynchronize(member.cuda));
    EXPECT_NE(cudaGetLastError(), cudaSuccess);
  }
  // What a call says of a device that is lost already, or what comes of it later.
  weft_result result = WEFT_OK;
  std::string text;
  try {
    trial.issue(member);
    result = weft_stream_synchronize(member.stream);
    text = last_error();
  } catch (const Problem& problem) {
    result = problem.code;
    text = problem.what();
  }
  say(std::string("RETURNED ") + weft_result_name(result) + " " + text);
  EXPECT_EQ(result, faulty ? WEFT_ERROR_DEVICE : WEFT_ERROR_PEER) << text;
  EXPECT_NE(text.find(faulty ? "device" : "rank 1"), std::string::npos) << text;
  // Also the communicator that called nothing since.
  for (Team* const each : {&team, &beside}) {
    weft_result error = WEFT_OK;
    for (const auto deadline = std::chrono::steady_clock::now() + 5s;
         error == WEFT_OK && std::chrono::steady_clock::now() < deadline;
         std::this_thread::sleep_for(1ms)) {
      const Member& one = each->members()[0];
      static_cast<void>(weft_stream_query(one.stream));
      check(weft_comm_get_async_error(one.comm, &error), "weft_comm_get_async_error");
    }
    EXPECT_EQ(error, faulty ? WEFT_ERROR_DEVICE : WEFT_ERROR_PEER);
  }
  beside.leave();
  team.leave();
  if (!faulty) return;
  // Nothing of the device can be given back, so what follows a test does not come.
  say_bits(own_bits());
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// ---- who starts them ----

using LayoutAndType = std::tuple<Layout, Type>;

class Processes : public testing::TestWithParam<LayoutAndType> {};
TEST_P(Processes, AllCalls) {
  const auto& [layout, type] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Job(layout, std::string("Calls_") + type.name).expect_success();
}
INSTANTIATE_TEST_SUITE_P(Gpu, Processes,
                         testing::Combine(testing::ValuesIn(kLayouts), testing::ValuesIn(kTypes)),
                         [](const testing::TestParamInfo<LayoutAndType>& info) {
                           return std::get<0>(info.param).name() + "_" +
                                  std::get<1>(info.param).name;
                         });

void kill_one(const Layout& layout, const Placement& placement) {
  Job job(layout, "Bereaved", {}, placement);
  const std::uint32_t ranks = layout.ranks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(job[rank].wait_for_output("READY\n", 30s))
        << "rank " << rank << ": " << indented(job[rank].out() + job[rank].err());
  }
  std::this_thread::sleep_for(300ms);
  job[1].send_signal(SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == 1) continue;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    EXPECT_TRUE(job[rank].wait_for_output("RETURNED", std::max(left, 1ms)))
        << "rank " << rank << " still waits for the rank that was killed";
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const test::Outcome outcome = job[rank].wait(30s);
    if (rank == 1) continue;
    EXPECT_EQ(outcome.exit_status, 0) << "rank " << rank << ": " << indented(outcome.describe());
  }
}

class ProcessPairs : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }
};
TEST_P(ProcessPairs, Graphs) {
  Job(GetParam(), "Graphs").expect_success();
}
TEST_P(ProcessPairs, Transport_p2p) {
  SKIP_ON_HOST();
  Job(GetParam(), "Transport", {{"WEFT_TRANSPORTS_ORDER", "p2p"}}).expect_success();
}
TEST_P(ProcessPairs, Transport_shm) {
  Job(GetParam(), "Transport", {{"WEFT_TRANSPORTS_ORDER", "shm"}}).expect_success();
}
TEST_P(ProcessPairs, Transport_net) {
  Job(GetParam(), "Transport",
      {{"WEFT_TRANSPORTS_ORDER", "net"}, {"WEFT_TRANSPORTS_NET", "net-socket"}})
      .expect_success();
}
TEST_P(ProcessPairs, KillOne) {
  kill_one(GetParam(), {});
}
TEST_P(ProcessPairs, FaultOfADevice) {
  SKIP_ON_HOST();
  Job(GetParam(), "OnAFaultyDevice").expect_success();
}
INSTANTIATE_TEST_SUITE_P(Gpu, ProcessPairs, testing::ValuesIn(kPairs), layout_name<Layout>);

class OperationProcesses : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }
};
TEST_P(OperationProcesses, Calls) {
  Job(GetParam(), "Operations").expect_success();
}
TEST_P(OperationProcesses, Types) {
  Job(GetParam(), "Types").expect_success();
}
TEST_P(OperationProcesses, Graphs) {
  Job(GetParam(), "OperationGraphs").expect_success();
}
TEST_P(OperationProcesses, Transport_p2p) {
  SKIP_ON_HOST();
  Job(GetParam(), "TransportOperations", {{"WEFT_TRANSPORTS_ORDER", "p2p"}}).expect_success();
}
TEST_P(OperationProcesses, Transport_shm) {
  Job(GetParam(), "TransportOperations", {{"WEFT_TRANSPORTS_ORDER", "shm"}}).expect_success();
}
TEST_P(OperationProcesses, Transport_net) {
  Job(GetParam(), "TransportOperations",
      {{"WEFT_TRANSPORTS_ORDER", "net"}, {"WEFT_TRANSPORTS_NET", "net-socket"}})
      .expect_success();
}
INSTANTIATE_TEST_SUITE_P(Gpu, OperationProcesses, testing::ValuesIn(kPairs), layout_name<Layout>);

class HiddenDevices : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam());
  }
  static constexpr Placement kHidden{.sees_own_device_alone = true};
};
TEST_P(HiddenDevices, Operations) {
  Job(GetParam(), "OperationsOnTheOnlyDevice", {{"WEFT_TRANSPORTS_ORDER", "p2p"}}, kHidden)
      .expect_success();
}
TEST_P(HiddenDevices, Graphs) {
  Job(GetParam(), "GraphsOnTheOnlyDevice", {}, kHidden).expect_success();
}
TEST_P(HiddenDevices, KillOne) {
  kill_one(GetParam(), kHidden);
}
INSTANTIATE_TEST_SUITE_P(Gpu, HiddenDevices, testing::Values(Layout{2, false}, Layout{4, false}),
                         layout_name<Layout>);

// Of one machine, whose devices are divided between what is taken for two: sockets join these, and
// nothing else, and memory joins what is on one of them.
class TwoHosts : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }
};
TEST_P(TwoHosts, Operations) {
  Job(GetParam(), "HostsOperations",
      {{"WEFT_TRANSPORTS_NET", "net-socket"}, {"WEFT_NET_SOCKET_INTERFACES", "=lo"}}, {.hosts = 2})
      .expect_success();
}
TEST_P(TwoHosts, Types) {
  Job(GetParam(), "Types",
      {{"WEFT_TRANSPORTS_NET", "net-socket"}, {"WEFT_NET_SOCKET_INTERFACES", "=lo"}}, {.hosts = 2})
      .expect_success();
}
INSTANTIATE_TEST_SUITE_P(Gpu, TwoHosts, testing::Values(Layout{2, false}, Layout{4, false}),
                         layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
