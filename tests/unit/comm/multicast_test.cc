// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Communicators with multicast, on a device that acts as if it had any: when it is made, taken and
// given back, and why it is not.
#include "core/comm/multicast.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/group.h"
#include "tests/support/multicast_device.h"
#include "tests/support/sample_topology.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using test::MulticastDevice;
using test::Ranks;
using test::text_of;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kRanks = 3;
using Variables = std::map<std::string, std::string>;
const Variables kAskedFor = {{"WEFT_BUFFERS_MULTICAST", "64KiB"}};

Task task_of(Operation operation, std::uint64_t count, weft_reduction reduction = WEFT_SUM) {
  return {.operation = operation,
          .type = WEFT_FLOAT32,
          .reduction = reduces(operation) ? reduction : WEFT_SUM,
          .root = 0,
          .count = count,
          .place = 0,
          .options = {.algorithm = Algorithm::kMulticast}};
}

class Multicasts : public testing::Test {
 protected:
  void join(const Variables& variables, const std::string& transport = "shm") {
    auto device = std::make_unique<MulticastDevice>();
    device->fails_at = fails_at_;
    device->forks = forks_;
    device_ = device.get();
    ranks_ = std::make_unique<Ranks>(kRanks, transport, variables, std::move(device));
  }
  [[nodiscard]] Communicator& first() { return *ranks_->communicators[0]; }
  /// Why an all-reduce cannot go by multicast, as each rank says; "" where it can.
  std::string refusal() {
    std::string all;
    for (auto& communicator : ranks_->communicators) {
      const auto planned = communicator->plan({.count = 1000});
      if (!planned) return planned.error().to_string();
      const auto way =
          std::ranges::find((*planned)->alternatives, "multicast", &Alternative::algorithm);
      if (way == (*planned)->alternatives.end()) return "not considered";
      if (communicator != ranks_->communicators[0] && way->refused != all) return "ranks differ";
      all = way->refused;
    }
    return all;
  }
  /// One call of all ranks, each with inputs of its rank and the element's number.
  void check(const Task& task, std::uint64_t sum_of_ranks_by) {
    const bool gathers = task.operation == Operation::kAllGather;
    const bool scatters = task.operation == Operation::kReduceScatter;
    std::vector<std::vector<float>> input(kRanks);
    std::vector<std::vector<float>> output(
        kRanks, std::vector<float>(task.count * (gathers ? kRanks : 1), -1));
    std::vector<Call> calls;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::uint64_t i = 0; i < task.count * (scatters ? kRanks : 1); ++i)
        input[rank].push_back(static_cast<float>(rank + i % 100));
      calls.push_back({.communicator = ranks_->communicators[rank].get(),
                       .stream = ranks_->streams[rank].get(),
                       .task = task,
                       .send = input[rank].data(),
                       .recv = output[rank].data()});
    }
    EXPECT_EQ(text_of(start_calls(calls)), "");
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      ASSERT_EQ(text_of(ranks_->streams[rank]->synchronize()), "");
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::uint64_t i = 0; i < output[rank].size(); ++i) {
        const std::uint64_t at = scatters ? rank * task.count + i : i;
        const std::uint64_t wanted = gathers ? i / task.count + i % task.count % 100
                                             : (3 + kRanks * (at % 100)) / sum_of_ranks_by;
        ASSERT_EQ(output[rank][i], static_cast<float>(wanted))
            << operation_name(task.operation) << ", rank " << rank << ", element " << i;
      }
    }
  }

  MulticastDevice::Step fails_at_ = MulticastDevice::Step::kNone;
  bool forks_ = false;
  MulticastDevice* device_ = nullptr;
  std::unique_ptr<Ranks> ranks_;
};

TEST_F(Multicasts, CallsThatNameItGoByIt) {
  join(kAskedFor);
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(device_->teams, static_cast<int>(kRanks));
  EXPECT_GE(first().facts().bytes_held, std::uint64_t{64} << 10);
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{1001}, std::uint64_t{50003}}) {
    for (const Operation operation :
         {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
      const auto planned = first().plan(task_of(operation, count));
      ASSERT_TRUE(planned) << planned.error().to_string();
      EXPECT_EQ((*planned)->algorithm, Algorithm::kMulticast);
      ASSERT_NO_FATAL_FAILURE(check(task_of(operation, count), 1));
    }
    ASSERT_NO_FATAL_FAILURE(check(task_of(Operation::kAllReduce, count, WEFT_AVG), kRanks));
  }
  ranks_->communicators.clear();
  EXPECT_EQ(device_->teams, 0);
  EXPECT_EQ(device_->left_to_peers, 0);
}

TEST_F(Multicasts, NobodyElsesDo) {
  join(kAskedFor);
  const auto planned = first().plan({.count = 1000});
  ASSERT_TRUE(planned);
  EXPECT_NE((*planned)->algorithm, Algorithm::kMulticast);
  const auto way =
      std::ranges::find((*planned)->alternatives, "multicast", &Alternative::algorithm);
  EXPECT_THAT(way->note, StartsWith("nobody has checked its costs"));
}

TEST_F(Multicasts, AListThatLeavesNothingElseNamesIt) {
  Variables variables = kAskedFor;
  variables["WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM"] = "multicast";
  join(variables);
  const auto planned = first().plan({.count = 1000});
  ASSERT_TRUE(planned);
  EXPECT_EQ((*planned)->algorithm, Algorithm::kMulticast);
  EXPECT_THAT(to_text(**planned), HasSubstr("combined and stored by a switch"));
  const auto wrong = first().plan({.reduction = WEFT_PROD, .count = 1000});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what(), HasSubstr("switches do not combine float32 by prod"));
}

TEST_F(Multicasts, OffUnlessAskedFor) {
  join({});
  EXPECT_EQ(refusal(), "buffers.multicast is 0");
  EXPECT_EQ(device_->teams, 0);
}

TEST_F(Multicasts, RefusedWhereRanksHaveNowhereToMeet) {
  join(kAskedFor, "net-socket");
  EXPECT_THAT(refusal(), StartsWith("these ranks have no inboxes to meet in"));
  EXPECT_EQ(device_->teams, 0);
}

TEST_F(Multicasts, RefusedWhereThereIsNoGrainForEachRank) {
  join({{"WEFT_BUFFERS_MULTICAST", "128B"}});
  EXPECT_EQ(refusal(), "buffers.multicast is too small");
}

TEST_F(Multicasts, RefusedWhereADeviceHasNone) {
  ranks_ = std::make_unique<Ranks>(kRanks, "shm", kAskedFor);
  EXPECT_EQ(refusal(), "rank 0: its device has no multicast");
}

TEST_F(Multicasts, RefusedAlikeWhereOneRankFails) {
  for (const auto step :
       {MulticastDevice::Step::kBegin, MulticastDevice::Step::kJoin, MulticastDevice::Step::kMap}) {
    fails_at_ = step;
    join(kAskedFor);
    EXPECT_THAT(refusal(), HasSubstr(": the switch said no"));
    EXPECT_EQ(device_->teams, 0) << "step " << static_cast<int>(step);
    ASSERT_NO_FATAL_FAILURE(check(
        [] {
          Task task = task_of(Operation::kAllReduce, 1000);
          task.options = {};
          return task;
        }(),
        1));
    ranks_.reset();
  }
}

// A child that lives on would else keep the memory.
TEST_F(Multicasts, NotKeptByForkedChildren) {
  forks_ = true;
  join(kAskedFor);
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(device_->in_children, 0);
}

TEST_F(Multicasts, LeftToPeersAfterAFailure) {
  join(kAskedFor);
  for (auto& communicator : ranks_->communicators)
    communicator->abort();
  ranks_->communicators.clear();
  EXPECT_EQ(device_->teams, 0);
  EXPECT_EQ(device_->left_to_peers, static_cast<int>(kRanks));
}

TEST(NoMulticastBetween, NamesTheRanks) {
  EXPECT_EQ(no_multicast_between(test::one_host(8)), "");
  EXPECT_EQ(no_multicast_between(test::one_host(9)), "more than 8 ranks have no multicast");
  const std::vector<test::Placement> two_hosts = {{.host = 0}, {.host = 1}};
  EXPECT_EQ(no_multicast_between(test::sample_topology(two_hosts)),
            "ranks 0 and 1 are on two hosts, and multicast is within one");
  Topology topology = test::one_host(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    topology.ranks[rank].device_pci = rank == 0 ? "0000:18:00.0" : "0000:2a:00.0";
  EXPECT_EQ(no_multicast_between(topology),
            "ranks 1 and 2 share a GPU, which has one place in multicast");
}

}  // namespace
}  // namespace weft
