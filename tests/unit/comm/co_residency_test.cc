// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that share a device share the groups that it runs at once.
#include "core/comm/co_residency.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <sched.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/cuda/direct_shape.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

/// `addresses` by rank, all on the host of that number.
Topology ranks_on(const std::vector<std::pair<std::uint32_t, std::string>>& places) {
  Topology topology;
  for (const auto& [host, address] : places) {
    if (host >= topology.hosts.size()) topology.hosts.resize(host + 1);
    topology.hosts[host].host_name = "node" + std::to_string(host);
    RankInfo rank;
    rank.rank = topology.rank_count();
    rank.host = host;
    rank.device_pci = address;
    topology.ranks.push_back(rank);
  }
  return topology;
}

TEST(CoResidency, DevicesWithoutLimitHaveNone) {
  const auto groups = groups_of_each_rank(ranks_on({{0, ""}, {0, ""}}), std::vector{0U, 0U});
  ASSERT_TRUE(groups);
  EXPECT_EQ(groups->all, 0U);
}

/// Of all, of a kernel that waits, and of one beside which the next may wait.
using Share = std::array<std::uint32_t, 3>;
Share share_of(const Topology& topology, const std::vector<std::uint32_t>& groups_at_once) {
  const GroupShare share = groups_of_each_rank(topology, groups_at_once).value_or(GroupShare{});
  return {share.all, share.channels, share.parts};
}

// Of both a kernel of all that it may have, and a small one that is there early.
TEST(CoResidency, TwoCommunicatorsFitOntoADeviceOfItsOwn) {
  const Topology topology = ranks_on({{0, "a"}, {0, "b"}});
  EXPECT_EQ(share_of(topology, {132, 132}), (Share{132, 64, 64}));
  for (const std::uint32_t groups : {6U, 20U, 78U, 108U, 114U, 132U, 148U}) {
    const auto [all, channels, parts] = share_of(topology, {groups, 200});
    EXPECT_EQ(all, groups);
    EXPECT_LE((channels + kGroupsThatMayComeEarly) * 2, groups);
    EXPECT_GT((channels + 1 + kGroupsThatMayComeEarly) * 2, groups) << "what there is, is used";
    EXPECT_EQ(parts, channels);
  }
  EXPECT_EQ(share_of(topology, {1, 1}), (Share{1, 1, 1}));
}

// Alike for all ranks, while each knows of its own whether others are there.
TEST(CoResidency, ALargerDeviceIsNotTakenForASharedOne) {
  const Topology topology = ranks_on({{0, "a"}, {0, "b"}, {0, "b"}, {1, "b"}, {1, ""}, {1, ""}});
  EXPECT_FALSE(shares_device(topology, 0));
  EXPECT_TRUE(shares_device(topology, 1));
  EXPECT_TRUE(shares_device(topology, 2));
  EXPECT_FALSE(shares_device(topology, 3));
  EXPECT_FALSE(shares_device(topology, 4));
}

// They have multiprocessors of their own, though one address.
TEST(CoResidency, InstancesOfADeviceAreNotShared) {
  Topology topology = ranks_on({{0, "a"}, {0, "a"}});
  EXPECT_TRUE(shares_device(topology, 0));
  EXPECT_EQ(share_of(topology, {42, 42}), (Share{10, 10, 5}));
  topology.ranks[0].device_id = "first";
  topology.ranks[1].device_id = "second";
  EXPECT_FALSE(shares_device(topology, 0));
  EXPECT_EQ(share_of(topology, {42, 42}), (Share{42, 19, 19}));
}

TEST(CoResidency, TheMostSharedDeviceDecidesForAll) {
  // Two ranks on one device, one alone on another; the same address on another host is another.
  const Topology topology = ranks_on({{0, "a"}, {0, "b"}, {0, "b"}, {1, "b"}});
  EXPECT_EQ(share_of(topology, {132, 132, 132, 132}), (Share{33, 33, 16}));
  EXPECT_EQ(share_of(topology, {132, 132, 132, 20}), (Share{20, 8, 8}));
  // Alike for all, whichever device has as many as fall to each rank.
  EXPECT_EQ(share_of(topology, {33, 132, 132, 66}), (Share{33, 14, 14}));
  EXPECT_EQ(share_of(topology, {132, 3, 3, 132}), (Share{1, 1, 1}));
  EXPECT_EQ(share_of(topology, {132, 0, 0, 132}), (Share{132, 64, 64}));
}

TEST(CoResidency, AnUnknownAddressIsNobodyElses) {
  const Topology topology = ranks_on({{0, ""}, {0, ""}});
  EXPECT_EQ(share_of(topology, {8, 8}), (Share{8, 2, 2}));
}

TEST(CoResidency, MoreRanksThanGroupsAreRefused) {
  const auto groups =
      groups_of_each_rank(ranks_on({{0, "a"}, {0, "a"}, {0, "a"}}), std::vector{2U, 2U, 2U});
  ASSERT_FALSE(groups);
  EXPECT_EQ(groups.error().code(), WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_THAT(groups.error().to_string(),
              HasSubstr("3 ranks share device a of node0, which runs 2 groups at once"));
}

TEST(OwnProcessors, EachProcessorCountsOnceForTheRanksOfItsHost) {
  Topology topology = ranks_on({{0, ""}, {0, ""}, {1, ""}});
  topology.ranks[0].cpus = {{0, 1}, {4, 4}};
  topology.ranks[1].cpus = {{1, 2}, {4, 4}};
  topology.ranks[2].cpus = {{0, 0}};
  EXPECT_TRUE(have_own_processors(topology, 0, 2));  // 0, 1, 2 and 4 for two ranks
  EXPECT_FALSE(have_own_processors(topology, 1, 3));
  EXPECT_TRUE(have_own_processors(topology, 2, 1));
  EXPECT_FALSE(have_own_processors(topology, 2, 2));
  EXPECT_EQ(processors_of_each(topology, 0), 2U);
  EXPECT_EQ(processors_of_each(topology, 2), 1U);
}

TEST(OwnProcessors, AreSharedByRanksWhereThoseAreMore) {
  Topology topology = ranks_on({{0, ""}, {0, ""}, {0, ""}, {0, ""}, {0, ""}, {1, ""}});
  EXPECT_EQ(ranks_of_each_processor(topology, 0), 1U) << "nothing is known";
  for (RankInfo& rank : topology.ranks)
    rank.cpus = {{0, 1}};
  EXPECT_EQ(ranks_of_each_processor(topology, 0), 3U) << "five have two";
  EXPECT_EQ(ranks_of_each_processor(topology, 5), 1U);
}

TEST(OwnProcessors, NoneAreKnownOfRanksThatTellNone) {
  EXPECT_FALSE(have_own_processors(ranks_on({{0, ""}}), 0, 1));
  EXPECT_EQ(processors_of_each(ranks_on({{0, ""}}), 0), 0U);
}

TEST(OwnProcessors, ARangeOfAllNumbersIsCounted) {
  Topology topology = ranks_on({{0, ""}, {0, ""}});
  topology.ranks[0].cpus = {{0, UINT32_MAX}};
  topology.ranks[1].cpus = {{7, 9}};
  EXPECT_TRUE(have_own_processors(topology, 0, 1U << 31));
}

TEST(OwnProcessors, OneHostThatIsShortIsEnough) {
  Topology topology = ranks_on({{0, ""}, {1, ""}, {1, ""}});
  topology.ranks[0].cpus = {{0, 7}};
  topology.ranks[1].cpus = topology.ranks[2].cpus = {{0, 1}};
  EXPECT_TRUE(all_have_own_processors(topology, 1));
  topology.ranks[1].cpus = topology.ranks[2].cpus = {{1, 1}};
  EXPECT_TRUE(have_own_processors(topology, 0, 1));
  EXPECT_FALSE(all_have_own_processors(topology, 1));
}

/// So many hosts of `ranks` ranks each, and of so many processors.
Topology hosts_of(std::uint32_t hosts, std::uint32_t ranks, std::uint32_t processors) {
  Topology topology;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    for (std::uint32_t i = 0; i < ranks; ++i) {
      RankInfo rank;
      rank.rank = topology.rank_count();
      rank.host = host;
      rank.cpus = {{0, processors - 1}};
      topology.ranks.push_back(rank);
    }
  }
  topology.hosts.resize(hosts);
  return topology;
}

TEST(NetPortsOfGpus, HalfOfTheProcessorsOfEachRankServeThem) {
  EXPECT_EQ(device_net_ports(hosts_of(1, 2, 1), 0), 1U);
  EXPECT_EQ(device_net_ports(hosts_of(1, 2, 8), 0), 2U);
  EXPECT_EQ(device_net_ports(hosts_of(1, 2, 256), 1), 8U);
}

TEST(NetPortsOfGpus, AreAsFewAsAControlGroupLeavesProcessorsFor) {
  Topology topology = hosts_of(1, 2, 64);
  for (RankInfo& rank : topology.ranks) {
    rank.cpu_limit = 8;
    rank.cpu_group = "a";
  }
  EXPECT_EQ(device_net_ports(topology, 0), 2U);
  EXPECT_FALSE(have_own_processors(topology, 0, 5));
}

TEST(NetPortsOfGpus, LittleGoesOverFewOfThemAlikeOnAllRanks) {
  EXPECT_EQ(few_net_ports(hosts_of(1, 2, 64)), 4U);
  EXPECT_EQ(few_net_ports(hosts_of(1, 4, 64)), 2U);
  EXPECT_EQ(few_net_ports(hosts_of(2, 2, 64)), 2U);
  EXPECT_EQ(few_net_ports(hosts_of(1, 16, 256)), 1U);
  EXPECT_EQ(few_net_ports(hosts_of(1, 2, 8)), 2U) << "no more than there are";
  EXPECT_EQ(net_stripes(hosts_of(1, 2, 64)), 4U);
  EXPECT_EQ(net_stripes(hosts_of(1, 2, 16)), 2U) << "others receive meanwhile";
  EXPECT_EQ(net_stripes(hosts_of(1, 4, 64)), 2U);
  EXPECT_EQ(net_stripes(hosts_of(1, 2, 2)), 1U);
  Topology topology = hosts_of(2, 1, 64);
  topology.ranks[1].cpus = {{0, 5}};
  EXPECT_EQ(few_net_ports(topology), 3U) << "the rank that has the fewest";
}

/// Bytes of a step between ranks that a net joins, in a process that may run on `processors`.
std::uint32_t message_step(std::uint32_t count, const cpu_set_t& processors,
                           std::map<std::string, std::string> set) {
  EXPECT_EQ(sched_setaffinity(0, sizeof(processors), &processors), 0);
  const test::Ranks ranks(count, "net", std::move(set));
  const auto plan = ranks.communicators[0]->plan({.operation = Operation::kAllReduce,
                                                  .type = WEFT_FLOAT32,
                                                  .reduction = WEFT_SUM,
                                                  .root = 0,
                                                  .count = std::uint64_t{1} << 20});
  return plan ? (*plan)->step_bytes : 0;
}

TEST(OwnProcessors, MessagesAreLongerWhereTwoRanksHaveThem) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  EXPECT_EQ(message_step(2, one, {}), 128U << 10);
  EXPECT_EQ(message_step(2, all, {{"WEFT_BUFFERS_STEP", "64KiB"}}), 64U << 10);
  EXPECT_EQ(message_step(3, all, {}), 128U << 10);
  EXPECT_EQ(message_step(2, all, {}), (CPU_COUNT(&all) == 1 ? 128U : 256U) << 10);
}

class GroupDevice : public device::HostDevice {
 public:
  explicit GroupDevice(std::uint32_t groups = 132) : groups_(groups) {}
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::uint32_t groups_at_once() const override { return groups_; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }

 private:
  std::uint32_t groups_;
};

// Kernels of two communicators may have to run side by side.
TEST(OwnDevice, IsThatOfTheOnlyCommunicator) {
  test::Ranks ranks(1, "shm", {}, std::make_unique<GroupDevice>());
  const Communicator& first = *ranks.communicators[0];
  EXPECT_TRUE(first.has_device_for_itself());
  std::vector<std::unique_ptr<Communicator>> second;
  ranks.join(second, 1);
  EXPECT_FALSE(first.has_device_for_itself());
  EXPECT_FALSE(second[0]->has_device_for_itself());
  second.clear();
  EXPECT_TRUE(first.has_device_for_itself());
}

// One communicator may wait for a late rank, and another one goes on meanwhile.
TEST(OwnDevice, WhereRanksShareItTwoCommunicatorsFit) {
  constexpr std::uint32_t kGroups = 40;
  constexpr std::uint32_t kRanks = 2;
  const test::Ranks ranks(kRanks, "shm", {}, std::make_unique<GroupDevice>(kGroups));
  const auto plan = ranks.communicators[0]->plan({.operation = Operation::kAllReduce,
                                                  .type = WEFT_FLOAT32,
                                                  .reduction = WEFT_SUM,
                                                  .root = 0,
                                                  .count = std::uint64_t{1} << 28});
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_LE(2 * kRanks * (*plan)->channels.size(), kGroups);
  EXPECT_GT((*plan)->channels.size(), 1U);
}

/// That tells what a GPU would take.
class ShapingDevice : public GroupDevice {
 public:
  [[nodiscard]] LaunchShape shape_of(std::span<const WorkItem> items,
                                     bool /*into_outputs*/) const override {
    if (items.front().direct == nullptr)
      return {.groups = static_cast<std::uint32_t>(items.size())};
    const device::cuda::DirectShape shape = device::cuda::direct_shape_of(items.front());
    return {.groups = shape.parts, .lanes = shape.threads};
  }
};

/// CTAs that a one-shot all-reduce of 64 KiB takes.
std::string ctas_of(std::map<std::string, std::string> set, std::uint32_t most_of_call = 0) {
  const test::Ranks ranks(2, "shm", std::move(set), std::make_unique<ShapingDevice>());
  const auto plan = ranks.communicators[0]->plan(
      {.operation = Operation::kAllReduce,
       .type = WEFT_FLOAT32,
       .reduction = WEFT_SUM,
       .root = 0,
       .count = 16 << 10,
       .place = 0,
       .options = {.algorithm = Algorithm::kDirect, .max_channels = most_of_call}});
  if (!plan) return plan.error().to_string();
  const std::string text = ranks.communicators[0]->describe_launch(**plan);
  return text.substr(0, text.find(" of "));
}

/// Whose launches have other lanes where a ring's data goes through the host's memory.
class FarDevice : public GroupDevice {
 public:
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] LaunchShape shape_of(std::span<const WorkItem> items,
                                     bool /*into_outputs*/) const override {
    const WorkItem& item = items.front();
    const bool far = item.from_previous.in_host_memory && item.to_next.in_host_memory;
    return {.groups = static_cast<std::uint32_t>(items.size()), .lanes = far ? 544U : 96U};
  }
};

TEST(Rings, TellTheLanesTheyHaveThroughTheMemoryThatJoinsThem) {
  const auto told = [](const char* transport) {
    const test::Ranks ranks(2, transport, {}, std::make_unique<FarDevice>());
    const auto plan = ranks.communicators[0]->plan({.operation = Operation::kBroadcast,
                                                    .type = WEFT_INT8,
                                                    .root = 0,
                                                    .count = std::uint64_t{64} << 20,
                                                    .place = 0,
                                                    .options = {.algorithm = Algorithm::kRing}});
    return ranks.communicators[0]->describe_launch(**plan);
  };
  EXPECT_THAT(told("p2p"), HasSubstr(" of 96 threads"));
  EXPECT_THAT(told("shm"), HasSubstr(" of 544 threads"));
}

TEST(CallsThatGoDirectly, TellTheirStripesOverANet) {
  const auto told = [](std::uint64_t bytes, const char* transport, const char* stripes) {
    const test::Ranks ranks(2, transport, {{"WEFT_TRANSPORTS_NET_STRIPES", stripes}},
                            std::make_unique<ShapingDevice>());
    const auto plan = ranks.communicators[0]->plan({.operation = Operation::kAllReduce,
                                                    .type = WEFT_INT8,
                                                    .reduction = WEFT_SUM,
                                                    .root = 0,
                                                    .count = bytes,
                                                    .place = 0,
                                                    .options = {.algorithm = Algorithm::kDirect}});
    const std::string text = ranks.communicators[0]->describe_launch(**plan);
    return text.substr(std::min(text.find(';'), text.size()));
  };
  EXPECT_EQ(told(16 << 10, "net-socket", "4"), "; messages over a net in 4 stripes");
  EXPECT_EQ(told(16 << 10, "net-socket", "2"), "; messages over a net in 2 stripes");
  EXPECT_EQ(told(8 << 10, "net-socket", "4"), "");
  EXPECT_EQ(told(16 << 10, "shm", "4"), "");
}

TEST(MostCtas, BoundCallsThatGoDirectly) {
  EXPECT_EQ(ctas_of({}), "16 CTAs") << "half of the 33 that two communicators leave to each of two";
  EXPECT_EQ(ctas_of({{"WEFT_CHANNELS_MAX", "3"}}), "3 CTAs");
  EXPECT_EQ(ctas_of({}, 5), "5 CTAs");
  EXPECT_EQ(ctas_of({{"WEFT_CHANNELS_MAX", "3"}}, 5), "3 CTAs");
  EXPECT_EQ(ctas_of({{"WEFT_CHANNELS_MAX", "5"}}, 1), "1 CTA");
}

TEST(MostCtas, BoundEachWayOfGoingDirectly) {
  constexpr std::pair<Algorithm, Protocol> kWays[] = {{Algorithm::kDirect, Protocol::kLL},
                                                      {Algorithm::kDirect, Protocol::kLL128},
                                                      {Algorithm::kTwoShot, Protocol::kSimple},
                                                      {Algorithm::kTwoShot, Protocol::kLL128},
                                                      {Algorithm::kMulticast, Protocol::kSimple}};
  DirectPeers peers;
  peers.ranks = 2;
  peers.plain_headers = peers.most_parts;
  for (const auto& [algorithm, protocol] : kWays) {
    WorkItem item;
    item.algorithm = algorithm;
    item.protocol = protocol;
    item.count = item.chunk = std::uint64_t{1} << 20;
    item.ranks = peers.ranks;
    item.direct = &peers;
    EXPECT_EQ(device::cuda::direct_shape_of(item).parts, kMostDirectParts);
    item.most_parts = 7;
    EXPECT_EQ(device::cuda::direct_shape_of(item).parts, 7U) << static_cast<int>(algorithm);
  }
}

TEST(OwnDevice, IsNobodysWhereRanksShareIt) {
  const test::Ranks ranks(2, "shm", {}, std::make_unique<GroupDevice>());
  for (const auto& communicator : ranks.communicators)
    EXPECT_FALSE(communicator->has_device_for_itself());
}

// A part that pushes nothing would wipe inboxes in no order with what others push.
TEST(DirectShape, HasNoPartWithoutALine) {
  for (const std::uint32_t most : {1U, 3U, 8U, 16U, 32U, 64U}) {
    for (std::uint64_t lines = 1; lines <= 9000; ++lines) {
      const auto shape = device::cuda::direct_shape(lines, most);
      ASSERT_LE(shape.parts, most);
      ASSERT_LE(shape.threads, device::cuda::kThreads);
      ASSERT_LT(std::uint64_t{shape.parts - 1} * shape.threads, lines) << most;
    }
  }
}

}  // namespace
}  // namespace weft
