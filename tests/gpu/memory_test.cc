// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What communicators take of a GPU's memory, once they have made small and large calls and
// exchanged all with all.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include "tests/gpu/calls.h"
#include "tests/gpu/job.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kFirstMost = 96 * kMiB;
constexpr std::size_t kNextMost = 32 * kMiB;

/// Two buffers of each device, made before anything is measured.
class Buffers {
 public:
  Buffers(std::uint32_t devices, std::size_t bytes) : of_(devices) {
    for (std::uint32_t device = 0; device < devices; ++device) {
      use_device(static_cast<int>(device));
      for (void*& buffer : of_[device]) {
        CUDA(cudaMalloc(&buffer, bytes));
        CUDA(cudaMemset(buffer, 0, bytes));
      }
      CUDA(cudaDeviceSynchronize());
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (std::size_t device = 0; device < of_.size(); ++device) {
      static_cast<void>(cudaSetDevice(static_cast<int>(device)));
      for (void* buffer : of_[device])
        static_cast<void>(cudaFree(buffer));
    }
  }
  [[nodiscard]] const void* send(const Member& member) const { return of_[member.rank][0]; }
  [[nodiscard]] void* recv(const Member& member) const { return of_[member.rank][1]; }

 private:
  std::vector<std::array<void*, 2>> of_;
};

std::vector<std::size_t> free_memory_of(std::uint32_t devices) {
  std::vector<std::size_t> all(devices);
  for (std::uint32_t device = 0; device < devices; ++device) {
    std::size_t total = 0;
    use_device(static_cast<int>(device));
    CUDA(cudaMemGetInfo(&all[device], &total));
  }
  return all;
}

void all_reduce(Team& team, const Buffers& buffers, std::size_t bytes) {
  team.issue([&](Member& member) {
    check(weft_all_reduce(buffers.send(member), buffers.recv(member), bytes / sizeof(float),
                          WEFT_FLOAT32, WEFT_SUM, member.comm, member.stream),
          "weft_all_reduce");
  });
  team.synchronize();
}

/// Of all sizes, which go by inboxes, by lines and by slots.
void all_to_alls(Team& team, const Buffers& buffers, std::size_t bytes) {
  const std::size_t most = bytes / team.layout().ranks / sizeof(float);
  for (std::size_t count = 1; count <= most; count *= 2) {
    team.issue([&](Member& member) {
      check(weft_all_to_all(buffers.send(member), buffers.recv(member), count, WEFT_FLOAT32,
                            member.comm, member.stream),
            "weft_all_to_all");
    });
  }
  team.synchronize();
}

/// To the next rank, of all sizes.
void sends(Team& team, const Buffers& buffers, std::size_t bytes) {
  const std::uint32_t ranks = team.layout().ranks;
  for (std::size_t count = 1; count <= bytes / sizeof(float); count *= 2) {
    team.each([&](Member& member) {
      check(weft_group_start(context()), "weft_group_start");
      check(weft_send(buffers.send(member), count, WEFT_FLOAT32, (member.rank + 1) % ranks,
                      member.comm, member.stream),
            "weft_send");
      check(weft_recv(buffers.recv(member), count, WEFT_FLOAT32, (member.rank + ranks - 1) % ranks,
                      member.comm, member.stream),
            "weft_recv");
      check(weft_group_end(context()), "weft_group_end");
    });
  }
  team.synchronize();
}

class Memory : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam());
  }
};

TEST_P(Memory, OfCommunicatorsThatHaveCalled) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const std::uint32_t devices = GetParam().ranks;
  const Buffers buffers(devices, kBytes);
  std::vector<std::unique_ptr<Team>> teams;
  for (const std::size_t most : {kFirstMost, kNextMost}) {
    const std::vector<std::size_t> before = free_memory_of(devices);
    const auto begin = std::chrono::steady_clock::now();
    teams.push_back(std::make_unique<Team>(Mode::kThreads, GetParam()));
    const std::chrono::duration<double> joined = std::chrono::steady_clock::now() - begin;
    Team& team = *teams.back();
    // What is gone of each device, by its driver, and what of it the rank holds for connections.
    const auto tell = [&](const std::string& after) {
      const std::vector<std::size_t> now = free_memory_of(devices);
      std::vector<std::size_t> taken;
      std::cout << "communicator " << teams.size() << ", after " << after;
      for (const Member& member : team.members()) {
        weft_comm_properties held{};
        held.struct_size = sizeof(held);
        check(weft_comm_get_properties(member.comm, &held), "weft_comm_get_properties");
        const auto device = static_cast<std::size_t>(member.device);
        taken.push_back(before[device] - std::min(before[device], now[device]));
        std::cout << ", device " << device << ": " << taken.back() / kMiB << " MiB, "
                  << held.bytes_held / kMiB << " for connections";
      }
      std::cout << std::endl;
      return taken;
    };
    tell("joining in " + std::to_string(joined.count()) + " s");
    all_reduce(team, buffers, 8);
    tell("8 B");
    all_reduce(team, buffers, kBytes);
    tell("1 GiB");
    all_to_alls(team, buffers, kBytes);
    for (const std::size_t taken : tell("all-to-alls")) {
      EXPECT_LE(taken, most) << "communicator " << teams.size();
    }
    // Before the next one is looked at; these have no bar.
    sends(team, buffers, kBytes);
    tell("sends");
  }
}

weft_device_memory library_memory(int device) {
  weft_device_memory memory{};
  memory.struct_size = sizeof(memory);
  check(weft_context_get_device_memory(context(), device, &memory),
        "weft_context_get_device_memory");
  return memory;
}

// What it tells is gone of the device, too, and what communicators leave is there for the next.
TEST_P(Memory, IsToldOfTheContext) {
  constexpr std::size_t kBytes = 16 * kMiB;
  const std::uint32_t devices = GetParam().ranks;
  const Buffers buffers(devices, kBytes);
  const auto tell = [&] {
    std::vector<weft_device_memory> of_each;
    for (std::uint32_t device = 0; device < devices; ++device)
      of_each.push_back(library_memory(static_cast<int>(device)));
    return of_each;
  };
  const std::vector<std::size_t> free = free_memory_of(devices);
  const std::vector<weft_device_memory> before = tell();
  std::vector<weft_device_memory> first;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<weft_device_memory> called;
    {
      Team team(Mode::kThreads, GetParam());
      all_reduce(team, buffers, kBytes);
      called = tell();
      const std::vector<std::size_t> now = free_memory_of(devices);
      for (std::uint32_t device = 0; device < devices; ++device) {
        EXPECT_GT(called[device].in_use, before[device].in_use + kMiB) << "device " << device;
        EXPECT_GT(called[device].host_in_use, before[device].host_in_use) << "device " << device;
        // What is small the driver gives out of pieces that it has.
        EXPECT_LE(called[device].in_use + called[device].kept + now[device],
                  before[device].in_use + before[device].kept + free[device] + 2 * kMiB)
            << "device " << device;
      }
    }
    const std::vector<weft_device_memory> after = tell();
    for (std::uint32_t device = 0; device < devices; ++device) {
      EXPECT_EQ(after[device].in_use, before[device].in_use) << "device " << device;
      EXPECT_EQ(after[device].host_in_use, before[device].host_in_use) << "device " << device;
      EXPECT_EQ(after[device].in_use + after[device].kept,
                called[device].in_use + called[device].kept)
          << "device " << device;
      if (turn == 0) continue;
      EXPECT_EQ(after[device].kept, first[device].kept) << "out of what the first one left";
    }
    first = after;
  }
}

/// Whether this process has a context on a device, which takes half a gigabyte of it.
bool has_context(int device) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CUDA(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &function, 12000,
                                        cudaEnableDefault, &found));
  unsigned flags = 0;
  int active = 0;
  const CUresult told =
      reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(function)(device, &flags, &active);
  if (told != CUDA_SUCCESS) throw std::runtime_error("the driver does not tell of its contexts");
  return active != 0;
}

void expect_context_alone_on(int own) {
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device)
    EXPECT_EQ(has_context(device), device == own) << "device " << device;
}

TEST(RankOfJob, ContextOfItsDeviceAlone) {
  Team team(Mode::kProcess, layout_of_job());
  run_few_of_each(team);
  expect_context_alone_on(team.members()[0].device);
}

// A thread of the library joins, connects and calls.
TEST(RankOfJob, ContextOfItsDeviceAloneInTheBackground) {
  const int device = std::atoi(std::getenv("WEFT_RANK"));
  CommConfig given(options().settings);
  weft_comm_config config = given.config;
  config.device_kind = WEFT_DEVICE_CUDA;
  config.device = device;
  config.nonblocking = 1;
  weft_comm* comm = nullptr;
  const auto await = [&](weft_result answer) {
    for (weft_result now = answer; answer == WEFT_IN_PROGRESS && now == WEFT_IN_PROGRESS;
         std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      check(weft_comm_get_async_error(comm, &now), "weft_comm_get_async_error");
      if (now != WEFT_IN_PROGRESS) check(now, "in the background");
    }
    if (answer != WEFT_IN_PROGRESS) check(answer, "a call in the background");
  };
  await(weft_comm_init_env(context(), &config, &comm));
  const Stream stream = open_stream(device);
  constexpr std::size_t kCount = 65537;
  Zone zone(device, kCount * sizeof(float), 0);
  zone.write({}, 0, stream.cuda);
  await(
      weft_all_reduce(zone.data(), zone.data(), kCount, WEFT_FLOAT32, WEFT_SUM, comm, stream.weft));
  check(weft_stream_synchronize(stream.weft), "weft_stream_synchronize");
  expect_context_alone_on(device);
  check(weft_comm_destroy(comm), "weft_comm_destroy");
  close_stream(device, stream);
}

/// Of two ranks, each on the device of its number; a call of 64 MiB.
void call_beside(const weft_unique_id& id, std::uint32_t rank) {
  constexpr std::size_t kCount = 16 * kMiB;
  const auto device = static_cast<int>(rank);
  CommConfig given(options().settings);
  weft_comm_config config = given.config;
  config.device_kind = WEFT_DEVICE_CUDA;
  config.device = device;
  weft_comm* comm = nullptr;
  check(weft_comm_init_rank(context(), &config, 2, &id, rank, &comm), "weft_comm_init_rank");
  const Stream stream = open_stream(device);
  {
    Zone zone(device, kCount * sizeof(float), 0);
    zone.write({}, 0, stream.cuda);
    check(weft_all_reduce(zone.data(), zone.data(), kCount, WEFT_FLOAT32, WEFT_SUM, comm,
                          stream.weft),
          "weft_all_reduce");
    check(weft_stream_synchronize(stream.weft), "weft_stream_synchronize");
  }
  check(weft_comm_destroy(comm), "weft_comm_destroy");
  close_stream(device, stream);
}

TEST(RankOfJob, CallsBesideOneThatStays) {
  weft_unique_id id{};
  std::cin.read(reinterpret_cast<char*>(id.bytes), sizeof(id.bytes));
  ASSERT_TRUE(std::cin.good());
  call_beside(id, 1);
}

// This process stays, and calls beside one new process after another: memory of those that have
// ended must not be held by what this one had mapped of them.
TEST(MemoryOfPeers, EndsWithThem) {
  SKIP_ON_HOST();
  const Layout pair{2, false};
  SKIP_UNLESS_POSSIBLE(pair);
  std::vector<std::size_t> free;
  for (int peer = 0; peer < 4; ++peer) {
    weft_unique_id id{};
    check(weft_get_unique_id(context(), &id), "weft_get_unique_id");
    Environment environment = environment_of_library();
    environment["WEFT_RANK"] = "1";
    test::Process other({.arguments = arguments_of_rank("CallsBesideOneThatStays", false),
                         .environment = environment,
                         .input = {std::begin(id.bytes), std::end(id.bytes)}});
    call_beside(id, 0);
    const test::Outcome outcome = other.wait();
    ASSERT_EQ(outcome.exit_status, 0) << indented(outcome.describe());
    free.push_back(free_memory_of(2)[1]);
    std::cout << "after " << peer + 1 << " peers " << free.back() / kMiB << " MiB are free"
              << std::endl;
  }
  EXPECT_GE(free.back() + 4 * kMiB, free[1]);
}

class MemoryOfProcesses : public Memory {};
TEST_P(MemoryOfProcesses, IsOfTheirOwnDevices) {
  Job(GetParam(), "ContextOfItsDeviceAlone").expect_success();
}
TEST_P(MemoryOfProcesses, IsOfTheirOwnDevicesInTheBackground) {
  Job(GetParam(), "ContextOfItsDeviceAloneInTheBackground").expect_success();
}

INSTANTIATE_TEST_SUITE_P(Gpu, MemoryOfProcesses,
                         testing::Values(Layout{2, false}, Layout{4, false}), layout_name<Layout>);
INSTANTIATE_TEST_SUITE_P(Gpu, Memory, testing::Values(Layout{2, false}, Layout{4, false}),
                         layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
