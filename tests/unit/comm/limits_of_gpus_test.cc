// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ranks plan by how far memory reaches that joins them, and by what their connections keep
// together: protocols of lines, wide lines, slots of both ends, channels.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/exchange.h"
#include "core/comm/exchange_plan.h"
#include "core/device/host/host_device.h"
#include "core/schedule/plan.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using test::Ranks;
using testing::HasSubstr;

/// As GPUs, whose lanes store a line together, and whose memory is out of each other's reach.
class SharingDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::uint32_t line_bytes() const override { return 128; }
};

/// The same with memory that others reach by NVLink.
class ReachedDevice : public SharingDevice {
 public:
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
};

/// The same that runs so many groups for each of so many ranks.
class RoomyDevice : public ReachedDevice {
 public:
  RoomyDevice(std::uint32_t groups, std::uint32_t ranks) : groups_(2 * groups * ranks) {}
  [[nodiscard]] std::uint32_t groups_at_once() const override { return groups_; }

 private:
  const std::uint32_t groups_;
};

/// The protocol of an all-to-all with such blocks, and "pair" where it goes in pairs.
std::string all_to_all_goes(const Ranks& ranks, std::uint64_t block) {
  const Task task{.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = block};
  const std::vector<Call> calls(ranks.communicators.size(), Call{.task = task});
  const ExchangePlan plan = ranks.communicators[0]->explain_exchange(calls);
  const auto protocol = inbox_protocol(plan.task, plan.ways.inboxes);
  return protocol ? std::string(protocol_name(*protocol)) : "pair";
}

/// Over how many channels such a block goes to another rank.
std::uint32_t exchange_channels(const Ranks& ranks, std::uint64_t block) {
  const Task task{.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = block};
  const std::vector<Call> calls(ranks.communicators.size(), Call{.task = task});
  const ExchangePlan plan = ranks.communicators[0]->explain_exchange(calls);
  return cut_message(block, plan.ways.spread).channels;
}

Task sum_by(std::optional<Protocol> protocol) {
  return {.operation = Operation::kAllReduce,
          .type = WEFT_FLOAT32,
          .reduction = WEFT_SUM,
          .root = 0,
          .count = 1000,
          .place = 0,
          .options = {.algorithm = Algorithm::kRing, .protocol = protocol}};
}

// A line by line of host memory keeps 8 bytes together, whatever a GPU knows of NVLink.
TEST(LineOrder, LanesThatShareLinesTakeAnotherProtocolWhereTheyWouldComeApart) {
  Ranks ranks(2, "shm", {{"WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL", "ll128,ll"}},
              std::make_unique<SharingDevice>());
  for (auto& communicator : ranks.communicators) {
    const auto refused = communicator->plan(sum_by(Protocol::kLL128));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().to_string(),
                HasSubstr("not all of these GPUs reach each other's memory, and elsewhere lines of "
                          "128 bytes may come apart"));
    const auto planned = communicator->plan(sum_by({}));
    ASSERT_TRUE(planned) << planned.error().to_string();
    EXPECT_EQ((*planned)->protocol, Protocol::kLL);
    EXPECT_THAT(to_text(**planned), HasSubstr("lines of 128 bytes may come apart"));
  }
}

// A lane that has a line of its own stores its payload before its flag.
TEST(LineOrder, ALaneAloneNeedsWholeWordsAlone) {
  Ranks ranks(2, "shm", {{"WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL", "ll128"}});
  const auto planned = ranks.communicators[0]->plan(sum_by(Protocol::kLL128));
  ASSERT_TRUE(planned) << planned.error().to_string();
  EXPECT_EQ((*planned)->protocol, Protocol::kLL128);
}

// A link is filled by many CTAs, host memory by fewer, which pass smaller steps on.
TEST(RingsOfGpus, HaveChannelsAndStepsByTheMemoryThatJoinsThem) {
  const auto ring_of = [](const Ranks& ranks, Operation operation, std::uint64_t bytes) {
    const Task task{.operation = operation,
                    .type = WEFT_INT8,
                    .reduction = WEFT_SUM,
                    .root = 0,
                    .count = bytes,
                    .place = 0,
                    .options = {.algorithm = Algorithm::kRing, .protocol = Protocol::kSimple}};
    const auto plan = ranks.communicators[0]->plan(task);
    EXPECT_TRUE(plan) << plan.error().to_string();
    return std::pair((*plan)->channels.size(), (*plan)->step_bytes);
  };
  using Shape = std::pair<std::size_t, std::uint32_t>;
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const Ranks staged(4, "shm", {}, std::make_unique<SharingDevice>());
  EXPECT_EQ(ring_of(staged, Operation::kAllReduce, kMiB), Shape(16, 64 << 10));
  EXPECT_EQ(ring_of(staged, Operation::kBroadcast, kMiB), Shape(24, 64 << 10));
  EXPECT_EQ(ring_of(staged, Operation::kAllReduce, 64 * kMiB), Shape(24, 64 << 10));
  const Ranks linked(4, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(ring_of(linked, Operation::kAllReduce, kMiB), Shape(16, 80 << 10));
  EXPECT_EQ(ring_of(linked, Operation::kBroadcast, kMiB), Shape(64, 80 << 10));
  EXPECT_EQ(ring_of(linked, Operation::kAllReduce, 64 * kMiB), Shape(64, 80 << 10));
  const Ranks two(2, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(ring_of(two, Operation::kAllReduce, 64 * kMiB), Shape(64, 128 << 10));
}

constexpr std::uint64_t kLineKiB = 1024;
constexpr std::uint64_t kLineMiB = 1024 * kLineKiB;

TEST(WideLines, TakeAllToAllsWhereTheyAreFasterThanLLAndPairs) {
  const Ranks two(2, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(all_to_all_goes(two, 1), "ll");
  EXPECT_EQ(all_to_all_goes(two, 128 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(two, 192 * kLineKiB), "ll128");
  EXPECT_EQ(all_to_all_goes(two, 12 * kLineMiB), "ll128");
  EXPECT_EQ(all_to_all_goes(two, 12 * kLineMiB + 1), "pair");
  const Ranks four(4, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(all_to_all_goes(four, 64 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(four, 128 * kLineKiB), "ll128");
  EXPECT_EQ(all_to_all_goes(four, 4 * kLineMiB), "ll128");
  EXPECT_EQ(all_to_all_goes(four, 4 * kLineMiB + 1), "pair");
}

// Lines of LL are twice their payload, and through host memory few large parts beat many small
// ones.
TEST(StagedExchanges, GoByFewPairsSoonerThanWhereLinksJoin) {
  const Ranks two(2, "shm", {}, std::make_unique<SharingDevice>());
  EXPECT_EQ(all_to_all_goes(two, 128 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(two, 128 * kLineKiB + 1), "pair");
  const Ranks four(4, "shm", {}, std::make_unique<SharingDevice>());
  EXPECT_EQ(all_to_all_goes(four, 32 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(four, 64 * kLineKiB), "pair");
  const Ranks set(4, "shm", {{"WEFT_BUFFERS_DIRECT", "256KiB"}}, std::make_unique<SharingDevice>());
  EXPECT_EQ(all_to_all_goes(set, 128 * kLineKiB), "ll");
  EXPECT_EQ(exchange_channels(two, 256 * kLineKiB), 8U);
  EXPECT_EQ(exchange_channels(two, 512 * kLineKiB), 8U);
  EXPECT_EQ(exchange_channels(two, kLineMiB), 16U);
  EXPECT_EQ(exchange_channels(two, 64 * kLineMiB), 16U);
}

// Small calls go one way over a net, larger ones over several ports; CPUs' messages hold no lines.
// The more stripes messages of lines have, the larger a call may be.
TEST(InboxesOfANet, TakeSmallCallsOfGpus) {
  const auto goes = [](const Ranks& ranks, Operation operation, std::uint64_t bytes) {
    const Task task{.operation = operation,
                    .type = WEFT_INT8,
                    .reduction = WEFT_SUM,
                    .root = 0,
                    .count = bytes};
    const auto plan = ranks.communicators[0]->plan(task);
    EXPECT_TRUE(plan) << plan.error().to_string();
    return std::string(algorithm_name((*plan)->algorithm));
  };
  const auto with_stripes = [](std::uint32_t ranks, const char* stripes) {
    return Ranks(ranks, "net-socket", {{"WEFT_TRANSPORTS_NET_STRIPES", stripes}},
                 std::make_unique<SharingDevice>());
  };
  const Ranks two = with_stripes(2, "1");
  for (const Operation operation :
       {Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter}) {
    SCOPED_TRACE(operation_name(operation));
    EXPECT_EQ(goes(two, operation, 8), "direct");
    EXPECT_EQ(goes(two, operation, 4 * kLineKiB), "direct");
    EXPECT_EQ(goes(two, operation, 32 * kLineKiB), "ring");
  }
  EXPECT_EQ(goes(two, Operation::kAllReduce, 16 * kLineKiB), "direct") << "one way instead of two";
  EXPECT_EQ(goes(two, Operation::kAllGather, 8 * kLineKiB), "direct");
  EXPECT_EQ(goes(two, Operation::kBroadcast, 8), "ring") << "one after the other they overlap";
  EXPECT_EQ(all_to_all_goes(two, 8 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(two, 8 * kLineKiB + 1), "pair");
  const Ranks two_by_four = with_stripes(2, "4");
  EXPECT_EQ(goes(two_by_four, Operation::kAllReduce, 64 * kLineKiB), "direct");
  EXPECT_EQ(goes(two_by_four, Operation::kAllGather, 16 * kLineKiB), "direct");
  EXPECT_EQ(goes(two_by_four, Operation::kAllGather, 64 * kLineKiB), "ring");
  EXPECT_EQ(all_to_all_goes(two_by_four, 32 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(two_by_four, 32 * kLineKiB + 1), "pair");
  const Ranks four = with_stripes(4, "1");
  EXPECT_EQ(exchange_channels(four, 15 * kLineKiB), 1U) << "partners have a port each already";
  EXPECT_EQ(exchange_channels(four, 64 * kLineKiB), 2U);
  EXPECT_EQ(exchange_channels(four, kLineMiB), 8U);
  EXPECT_EQ(goes(four, Operation::kAllReduce, 32 * kLineKiB), "direct") << "one way instead of six";
  EXPECT_EQ(goes(four, Operation::kAllReduce, 128 * kLineKiB), "ring");
  EXPECT_EQ(goes(four, Operation::kAllGather, 16 * kLineKiB), "direct") << "side by side";
  EXPECT_EQ(goes(four, Operation::kAllGather, 64 * kLineKiB), "ring");
  const Ranks four_by_two = with_stripes(4, "2");
  EXPECT_EQ(goes(four_by_two, Operation::kAllGather, 32 * kLineKiB), "direct");
  const Ranks set(2, "net-socket", {{"WEFT_BUFFERS_DIRECT", "64KiB"}},
                  std::make_unique<SharingDevice>());
  EXPECT_EQ(all_to_all_goes(set, 32 * kLineKiB), "ll");
  const Ranks none(2, "net-socket", {{"WEFT_BUFFERS_DIRECT", "0"}},
                   std::make_unique<SharingDevice>());
  EXPECT_EQ(goes(none, Operation::kAllGather, 8), "ring");
  const Ranks cpus(2, "net-socket");
  EXPECT_NE(goes(cpus, Operation::kAllGather, 8), "direct");
}

// Parts beyond that would cost a port more by lines than slots wait for.
TEST(SmallSendsOfANet, GoByLinesOfGpus) {
  const auto most = [](const Ranks& ranks) {
    Task task{.operation = Operation::kSend, .type = WEFT_INT8, .root = 1, .count = 8};
    std::vector<Call> calls(2, Call{.task = task});
    calls[1].task.root = 0;
    return ranks.communicators[0]->explain_exchange(calls).ways.spread.most_by_lines_of_net;
  };
  EXPECT_EQ(most(Ranks(2, "net-socket", {}, std::make_unique<SharingDevice>())), 8 * kLineKiB);
  EXPECT_EQ(most(Ranks(2, "shm", {}, std::make_unique<SharingDevice>())), 0U);
  EXPECT_EQ(most(Ranks(2, "net-socket")), 0U);
}

// Kernels meet in inboxes before copy engines write into windows: a net's are none to meet in.
TEST(InboxesOfANet, AreNoneForWindows) {
  const Task task{.operation = Operation::kAllToAll, .type = WEFT_INT8, .count = kLineMiB};
  const std::vector<Call> calls(2, Call{.task = task});
  const Ranks joined(2, "shm", {}, std::make_unique<SharingDevice>());
  EXPECT_NE(joined.communicators[0]->explain_exchange(calls).ways.window_bytes, 0U);
  const Ranks apart(2, "net-socket", {}, std::make_unique<SharingDevice>());
  EXPECT_EQ(apart.communicators[0]->explain_exchange(calls).ways.window_bytes, 0U);
}

// Each end has a CTA, and what a rank copies to itself has some: what does not fit comes
// afterwards.
TEST(LinkedExchanges, LeaveRoomForCopiesWithinRanks) {
  constexpr std::uint32_t kGroups = 132;
  constexpr std::uint32_t kMostEnds = 128;
  for (const std::uint32_t count : {3U, 4U, 5U, 8U}) {
    SCOPED_TRACE(count);
    const Ranks ranks(count, "p2p", {}, std::make_unique<RoomyDevice>(kGroups, count));
    const std::uint32_t others = count - 1;
    const std::uint32_t room = std::min(kGroups - (10 + others - 1) / others, kMostEnds);
    EXPECT_EQ(exchange_channels(ranks, 512 * kLineMiB), room / 2 / others);
  }
  const Ranks two(2, "p2p", {}, std::make_unique<RoomyDevice>(kGroups, 2));
  EXPECT_EQ(exchange_channels(two, 512 * kLineMiB), 32U) << "those of sends";
  const Ranks few(3, "p2p", {}, std::make_unique<RoomyDevice>(2, 3));
  EXPECT_EQ(exchange_channels(few, 512 * kLineMiB), 1U);
}

TEST(WideLines, TakeSendsBetweenThoseOfLLAndOfSimple) {
  using Way = std::pair<std::string, std::uint32_t>;
  const auto way_of = [](const Ranks& ranks, std::uint64_t bytes) {
    Task task{.operation = Operation::kSend, .type = WEFT_INT8, .root = 1, .count = bytes};
    std::vector<Call> calls(ranks.communicators.size(), Call{.task = task});
    calls[1].task.root = 0;
    const ExchangePlan plan = ranks.communicators[0]->explain_exchange(calls);
    const PairCut cut = cut_message(bytes, plan.ways.spread);
    if (cut.goes_by_lines()) return Way("ll", cut.line_channels);
    return Way(cut.goes_by_wide_lines() ? "ll128" : "simple", cut.channels);
  };
  const Ranks linked(2, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(way_of(linked, 256 * kLineKiB), Way("ll", 16));
  EXPECT_EQ(way_of(linked, 512 * kLineKiB), Way("ll128", 16));
  EXPECT_EQ(way_of(linked, 8 * kLineMiB), Way("ll128", 31));
  EXPECT_EQ(way_of(linked, 8 * kLineMiB + 1), Way("simple", 32));
  const Ranks staged(2, "shm", {}, std::make_unique<SharingDevice>());
  EXPECT_EQ(way_of(staged, 8 * kLineMiB).first, "simple");
  const Ranks four(4, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(way_of(four, kLineMiB), Way("ll128", 31));
  const Ranks five(5, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_EQ(way_of(five, kLineMiB), Way("simple", 16)) << "too few channels";
}

TEST(WideLines, LeaveLLInboxesForSmallCallsWhereTheyMayCarryAllOthers) {
  const auto gathers = [](const Ranks& ranks, std::uint64_t block) {
    const Task task{.operation = Operation::kGather, .type = WEFT_INT8, .count = block};
    const std::vector<Call> calls(ranks.communicators.size(), Call{.task = task});
    return ranks.communicators[0]->explain_exchange(calls).goes_by_inboxes();
  };
  const auto refuses = [](const Ranks& ranks, std::uint64_t bytes) {
    const Task task{.operation = Operation::kAllReduce,
                    .type = WEFT_INT8,
                    .count = bytes,
                    .options = {.algorithm = Algorithm::kDirect, .protocol = Protocol::kLL}};
    return !ranks.communicators[0]->plan(task);
  };
  const Ranks usual(2, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_TRUE(gathers(usual, 256 * kLineKiB));
  EXPECT_FALSE(gathers(usual, 256 * kLineKiB + 1));
  EXPECT_FALSE(refuses(usual, 256 * kLineKiB));
  EXPECT_TRUE(refuses(usual, 257 * kLineKiB));
  const Ranks lacking(2, "p2p", {{"WEFT_COLLECTIVES_REDUCE_PROTOCOL", "simple,ll"}},
                      std::make_unique<ReachedDevice>());
  EXPECT_TRUE(gathers(lacking, 512 * kLineKiB));
  EXPECT_FALSE(gathers(lacking, 512 * kLineKiB + 1));
  EXPECT_FALSE(refuses(lacking, kLineMiB));
  const Ranks named(2, "p2p", {{"WEFT_BUFFERS_DIRECT", "1MiB"}}, std::make_unique<ReachedDevice>());
  EXPECT_FALSE(refuses(named, kLineMiB));
}

TEST(BothEnds, HoldStepsOfTwoGpusThatNvlinkJoins) {
  const auto goes = [](const Ranks& ranks, std::uint64_t bytes) {
    const Task task{.operation = Operation::kBroadcast,
                    .type = WEFT_INT8,
                    .count = bytes,
                    .options = {.algorithm = Algorithm::kRing}};
    return ranks.communicators[0]->plan(task).value()->both_ends;
  };
  const Ranks linked(2, "p2p", {}, std::make_unique<ReachedDevice>());
  EXPECT_TRUE(goes(linked, 2 * kLineMiB));
  EXPECT_FALSE(goes(linked, 2 * kLineMiB - 1));
  const Ranks staged(2, "shm", {}, std::make_unique<SharingDevice>());
  EXPECT_FALSE(goes(staged, 64 * kLineMiB));
  const Ranks without(2, "p2p", {{"WEFT_BUFFERS_BOTH_ENDS_FROM", "0"}},
                      std::make_unique<ReachedDevice>());
  EXPECT_FALSE(goes(without, 64 * kLineMiB));
  const Ranks later(2, "p2p", {{"WEFT_BUFFERS_BOTH_ENDS_FROM", "64MiB"}},
                    std::make_unique<ReachedDevice>());
  EXPECT_FALSE(goes(later, 32 * kLineMiB));
  EXPECT_TRUE(goes(later, 64 * kLineMiB));
}

TEST(Channels, CarrySoMuchOfEachRankAtLeast) {
  const auto channels = [](const Ranks& ranks) {
    const Task task{.operation = Operation::kAllGather,
                    .type = WEFT_INT8,
                    .count = 64 * kLineKiB,
                    .options = {.algorithm = Algorithm::kRing}};
    return ranks.communicators[0]->plan(task).value()->channels.size();
  };
  const auto ranks = [](const char* transport, const char* least) {
    std::map<std::string, std::string> variables;
    if (least != nullptr) variables["WEFT_CHANNELS_LEAST_BYTES"] = least;
    return Ranks(2, transport, std::move(variables), std::make_unique<SharingDevice>());
  };
  EXPECT_EQ(channels(ranks("shm", nullptr)), 4U);
  EXPECT_EQ(channels(ranks("shm", "32KiB")), 2U);
  EXPECT_EQ(channels(ranks("net-socket", nullptr)), 4U);
  EXPECT_EQ(channels(ranks("net-socket", "64KiB")), 1U);
}

TEST(WideLines, TakeNoAllToAllsThatTheConfigurationKeepsFromThem) {
  const auto ranks = [](const char* protocols) {
    return Ranks(2, "p2p", {{"WEFT_COLLECTIVES_ALL_TO_ALL_PROTOCOL", protocols}},
                 std::make_unique<ReachedDevice>());
  };
  const Ranks by_ll = ranks("ll");
  EXPECT_EQ(all_to_all_goes(by_ll, 192 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(by_ll, kLineMiB), "pair");
  const Ranks by_wide = ranks("ll128");
  EXPECT_EQ(all_to_all_goes(by_wide, 1), "ll128");
  EXPECT_EQ(all_to_all_goes(by_wide, 13 * kLineMiB), "pair");
}

// A list of one operation that has them is enough.
TEST(WideLines, AreThereForTheOperationsWhoseListsHaveThem) {
  const Ranks ranks(4, "p2p",
                    {{"WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL", "simple,ll"},
                     {"WEFT_COLLECTIVES_ALL_GATHER_PROTOCOL", "simple,ll"},
                     {"WEFT_COLLECTIVES_REDUCE_SCATTER_PROTOCOL", "simple,ll"},
                     {"WEFT_COLLECTIVES_BROADCAST_PROTOCOL", "simple,ll"},
                     {"WEFT_COLLECTIVES_ALL_TO_ALL_PROTOCOL", "ll"}},
                    std::make_unique<ReachedDevice>());
  const auto goes = [&](Operation operation, std::uint64_t bytes) {
    const Task task{.operation = operation, .type = WEFT_FLOAT32, .count = bytes / 4};
    const auto planned = ranks.communicators[0]->plan(task);
    return planned ? (*planned)->protocol : Protocol::kSimple;
  };
  EXPECT_EQ(goes(Operation::kReduce, 512 * kLineKiB), Protocol::kLL128);
  EXPECT_EQ(goes(Operation::kReduce, kLineMiB), Protocol::kSimple);
  EXPECT_EQ(goes(Operation::kReduce, 64 * kLineKiB), Protocol::kLL);
  EXPECT_NE(goes(Operation::kBroadcast, 512 * kLineKiB), Protocol::kLL128);
  EXPECT_NE(goes(Operation::kAllGather, 512 * kLineKiB), Protocol::kLL128);
  EXPECT_EQ(all_to_all_goes(ranks, 512 * kLineKiB), "ll");
}

// Where LL has less room than it is faster for.
TEST(WideLines, TakeAllToAllsThatHaveNoRoomByLL) {
  const Ranks ranks(2, "p2p", {{"WEFT_BUFFERS_DIRECT", "64KiB"}},
                    std::make_unique<ReachedDevice>());
  EXPECT_EQ(all_to_all_goes(ranks, 60 * kLineKiB), "ll");
  EXPECT_EQ(all_to_all_goes(ranks, 64 * kLineKiB), "ll128");
}

TEST(WideLines, AreNotThereForGpusThatShareHostMemory) {
  const Ranks ranks(2, "shm", {{"WEFT_COLLECTIVES_ALL_TO_ALL_PROTOCOL", "ll128"}},
                    std::make_unique<ReachedDevice>());
  EXPECT_EQ(all_to_all_goes(ranks, kLineKiB), "pair");
}

}  // namespace
}  // namespace weft
