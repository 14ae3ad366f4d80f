// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls over inboxes between ranks that sockets join: the whole way through communicators, ports
// with threads of their own, and TCP, with the kernels of a GPU run by the thread that calls.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/comm/start.h"
#include "core/device/any_reduction.h"
#include "core/device/host/host_device.h"
#include "core/device/one_shot_blocks.h"
#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using device::testing::LaneGroup;
using device::testing::LaneMemory;
using device::testing::LaneTeam;

constexpr std::int32_t kUnset = -5;

/// Waits by letting other threads run, and no longer than a defect takes to be seen.
class YieldingMemory : public LaneMemory {
 public:
  using LaneMemory::LaneMemory;
  [[nodiscard]] KernelOutcome keep_waiting(std::uint32_t /*turn*/, const DirectPeers& peers) const {
    std::this_thread::yield();
    if (patience_.passed()) {
      return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
    }
    return why_leave(peers);
  }

 private:
  const Deadline patience_ = Deadline::after(std::chrono::seconds(10));
};

/// Stores lines into inboxes and looks for them there, as a GPU does, by one lane.
class LineDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] LaunchShape shape_of(std::span<const WorkItem> /*items*/,
                                     bool /*into_outputs*/) const override {
    return {.groups = 1, .lanes = 1, .processors = 1};
  }
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override {
    for (const Launch& launch : launches) {
      if (launch.items.size() != 1 || launch.items.front().algorithm != Algorithm::kDirect) {
        return HostDevice::launch(stream, launches);
      }
      const KernelOutcome outcome = run_item(launch.items.front(), *launch.abort);
      if (outcome.end != KernelEnd::kDone && launch.outcome != nullptr) *launch.outcome = outcome;
    }
    return WEFT_OK;
  }

 private:
  static KernelOutcome run_item(const WorkItem& item, const std::atomic<std::uint32_t>& abort) {
    LaneTeam team(1);
    LaneGroup group(team, 0);
    YieldingMemory memory(abort);
    if (!reduces(item.operation)) {
      return device::run_blocks_item<kMostDirectRanks, false>(
          group, memory, device::moved_as_bytes(item), *item.direct, device::MovedBytes{}, 0, 1);
    }
    const device::Sum<std::int32_t> sum;
    if (item.operation == Operation::kAllReduce) {
      return device::run_direct_item<kMostDirectRanks>(group, memory, item, *item.direct, sum, 0,
                                                       1);
    }
    return device::run_blocks_item<kMostDirectRanks, true>(group, memory, item, *item.direct, sum,
                                                           0, 1);
  }
};

std::int32_t element_of(std::uint32_t rank, std::uint64_t at, std::uint64_t call) {
  return static_cast<std::int32_t>(rank * 100'003 + at * 17 + call * 5);
}

struct SocketShape {
  std::uint32_t ranks;
  std::uint32_t stripes;
  std::uint32_t ports;
};

class InboxesOverSockets : public testing::TestWithParam<SocketShape> {};

// Messages of all sizes that have one stripe and several, by turns, each rank a thread.
TEST_P(InboxesOverSockets, CarryCallsWhateverTheirStripes) {
  const SocketShape& shape = GetParam();
  const test::Ranks ranks(shape.ranks, "net-socket",
                          {{"WEFT_TRANSPORTS_NET_STRIPES", std::to_string(shape.stripes)},
                           {"WEFT_TRANSPORTS_NET_PORTS", std::to_string(shape.ports)},
                           {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "direct"},
                           {"WEFT_COLLECTIVES_ALL_GATHER_ALGORITHM", "direct"},
                           {"WEFT_COLLECTIVES_REDUCE_SCATTER_ALGORITHM", "direct"}},
                          std::make_unique<LineDevice>());
  const auto run_rank = [&](std::uint32_t rank) -> std::string {
    CallCutter cutter;
    std::uint64_t number = 0;
    for (const std::uint64_t count : {1U, 900U, 3072U, 3501U, 5U, 16'000U}) {
      for (const Operation operation :
           {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
        ++number;
        const std::uint64_t inputs = operation == Operation::kReduceScatter ? shape.ranks : 1;
        const std::uint64_t outputs = operation == Operation::kAllGather ? shape.ranks : 1;
        std::vector<std::int32_t> input(count * inputs);
        std::vector<std::int32_t> output(count * outputs + 1, kUnset);
        for (std::uint64_t at = 0; at < input.size(); ++at)
          input[at] = element_of(rank, at, number);
        std::vector<Call> calls(1);
        calls[0].communicator = ranks.communicators[rank].get();
        calls[0].stream = ranks.streams[rank].get();
        calls[0].task = {
            .operation = operation, .type = WEFT_INT32, .reduction = WEFT_SUM, .count = count};
        calls[0].send = input.data();
        calls[0].recv = output.data();
        Status ended = start_calls(calls, cutter);
        if (ended) ended = ranks.streams[rank]->synchronize();
        if (!ended) return test::text_of(ended);
        for (std::uint64_t at = 0; at < output.size(); ++at) {
          std::int32_t wanted = kUnset;
          if (at + 1 < output.size() && operation == Operation::kAllGather) {
            wanted = element_of(static_cast<std::uint32_t>(at / count), at % count, number);
          } else if (at + 1 < output.size()) {
            const std::uint64_t from =
                operation == Operation::kReduceScatter ? rank * count + at : at;
            wanted = 0;
            for (std::uint32_t other = 0; other < shape.ranks; ++other)
              wanted += element_of(other, from, number);
          }
          if (output[at] == wanted) continue;
          return std::string(operation_name(operation)) + " of " + std::to_string(count) +
                 ": element " + std::to_string(at);
        }
      }
    }
    return "";
  };
  std::vector<std::string> mistakes(shape.ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank)
    threads.emplace_back([&, rank] { mistakes[rank] = run_rank(rank); });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(mistakes, std::vector<std::string>(shape.ranks));
}

INSTANTIATE_TEST_SUITE_P(All, InboxesOverSockets,
                         testing::Values(SocketShape{2, 1, 2}, SocketShape{2, 4, 8},
                                         SocketShape{2, 4, 1}, SocketShape{3, 2, 4}),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(info.param.ranks) + "Stripes" +
                                  std::to_string(info.param.stripes) + "Ports" +
                                  std::to_string(info.param.ports);
                         });

}  // namespace
}  // namespace weft
