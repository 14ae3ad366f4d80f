// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which devices of a net carry an edge: rails, nearness, turns, networks that do not reach each
// other, and what is left where nothing is known.
#include "core/transport/net_devices.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fixture_machines.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using test::fixture_topology;
using test::Placement;

constexpr const char* kNet = "net-socket";

NicInfo nic(std::string name, std::string address, std::uint8_t prefix = 24) {
  return {.name = std::move(name),
          .speed_mbps = 10000,
          .addresses = {std::move(address)},
          .prefixes = {prefix},
          .up = true};
}

NicInfo as_virtual(NicInfo nic) {
  nic.is_virtual = true;
  return nic;
}

// One rank on each of two hosts with the NICs of `a` and of `b`, all of which the net offers in
// that order.
class Devices {
 public:
  Devices(std::vector<NicInfo> a, std::vector<NicInfo> b)
      : Devices(test::sample_topology(std::vector<Placement>{{.host = 0}, {.host = 1}})) {
    topology_.hosts[0].nics = std::move(a);
    topology_.hosts[1].nics = std::move(b);
    offer_all();
  }
  explicit Devices(Topology topology) : topology_(std::move(topology)) {
    input_.topology = &topology_;
    offer_all();
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  void offer_all() {
    input_.offers.clear();
    for (const RankInfo& rank : topology_.ranks) {
      PluginOffer offer{
          .id = kNet, .version = "1", .kind = PluginKind::kNet, .unusable = {}, .devices = {}};
      for (const NicInfo& one : topology_.hosts[rank.host].nics)
        offer.devices.push_back({.name = one.name});
      input_.offers.push_back({std::move(offer)});
    }
  }
  Topology& topology() { return topology_; }
  std::vector<OfferedDevice>& offered(std::uint32_t rank) { return input_.offers[rank][0].devices; }
  [[nodiscard]] const ChoiceInput& input() const { return input_; }

  // "eth0>eth1"
  [[nodiscard]] std::string of(std::uint32_t channel, std::uint32_t from = 0,
                               std::uint32_t to = 1) const {
    const DevicePair pair =
        choose_devices(input_, kNet, {.channel = channel, .from = from, .to = to});
    return input_.offers[from][0].devices.at(pair.from).name + ">" +
           input_.offers[to][0].devices.at(pair.to).name;
  }

 private:
  Topology topology_;
  ChoiceInput input_;
};

TEST(NetDevices, OneOnEachSideIsTaken) {
  const Devices devices({nic("eth0", "10.0.0.1")}, {nic("ib7", "192.168.0.1")});
  for (std::uint32_t channel = 0; channel < 4; ++channel)
    EXPECT_EQ(devices.of(channel), "eth0>ib7");
  EXPECT_EQ(devices.of(kPairChannel), "eth0>ib7");
}

TEST(NetDevices, ChannelsTakeTurns) {
  const Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")},
                        {nic("eth0", "10.0.0.2"), nic("eth1", "10.0.1.2")});
  EXPECT_EQ(devices.of(0), "eth0>eth0");
  EXPECT_EQ(devices.of(1), "eth1>eth1");
  EXPECT_EQ(devices.of(2), "eth0>eth0");
  EXPECT_EQ(devices.of(3, 1, 0), "eth1>eth1");
}

TEST(NetDevices, StayOnOneRailInOneNetwork) {
  const Devices devices(
      {nic("eth0", "10.0.0.1"), nic("eth1", "10.0.0.2"), nic("eth2", "10.0.0.3")},
      {nic("eth0", "10.0.0.4"), nic("eth1", "10.0.0.5"), nic("eth2", "10.0.0.6")});
  EXPECT_EQ(devices.of(0), "eth0>eth0");
  EXPECT_EQ(devices.of(1), "eth1>eth1");
  EXPECT_EQ(devices.of(5), "eth2>eth2");
}

TEST(NetDevices, UseAllOfBothEndsWhereTheyHaveDifferentlyMany) {
  const Devices devices({nic("a0", "10.0.0.1"), nic("a1", "10.0.0.2")},
                        {nic("b0", "10.0.0.4"), nic("b1", "10.0.0.5"), nic("b2", "10.0.0.6")});
  std::set<char> from;
  std::set<char> to;
  for (std::uint32_t channel = 0; channel < 3; ++channel) {
    from.insert(devices.of(channel).at(1));
    to.insert(devices.of(channel).at(4));
  }
  EXPECT_EQ(from.size(), 2U);
  EXPECT_EQ(to.size(), 3U);
}

TEST(NetDevices, FollowNetworksAcrossNames) {
  const Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")},
                        {nic("eth0", "10.0.1.2"), nic("eth1", "10.0.0.2")});
  EXPECT_EQ(devices.of(0), "eth0>eth1");
  EXPECT_EQ(devices.of(1), "eth1>eth0");
}

TEST(NetDevices, OneRailThatMatchesKeepsNobodyElseIdle) {
  const Devices devices(
      {nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1"), nic("eth2", "10.0.2.1")},
      {nic("eth0", "10.0.0.2"), nic("eth1", "10.0.2.2"), nic("eth2", "10.0.1.2")});
  EXPECT_EQ(devices.of(0), "eth0>eth0");
  EXPECT_EQ(devices.of(1), "eth1>eth2");
  EXPECT_EQ(devices.of(2), "eth2>eth1");
}

TEST(NetDevices, PairOnlyWhatSharesANetwork) {
  const Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")},
                        {nic("eth0", "10.9.9.2"), nic("eth1", "10.0.1.2")});
  EXPECT_EQ(devices.of(0), "eth1>eth1");
  EXPECT_EQ(devices.of(1), "eth1>eth1");
  EXPECT_EQ(devices.of(0, 1, 0), "eth1>eth1");
}

TEST(NetDevices, FallBackToTheFirstOfBoth) {
  const std::vector<NicInfo> routed = {nic("eth0", "10.0.2.1"), nic("eth1", "10.0.3.1")};
  const Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")}, routed);
  EXPECT_EQ(devices.of(0), "eth0>eth0");
  EXPECT_EQ(devices.of(1), "eth0>eth0");
  // Networks of one address tell nothing.
  const Devices alone({nic("eth0", "10.0.0.1", 32), nic("eth1", "10.0.0.2", 32)},
                      {nic("eth0", "10.0.0.1", 32), nic("eth1", "10.0.0.2", 32)});
  EXPECT_EQ(alone.of(1), "eth0>eth0");
}

TEST(NetDevices, NetworksNeedTheSamePrefix) {
  const Devices devices({nic("eth0", "10.0.0.1", 20), nic("eth1", "10.1.15.255", 20)},
                        {nic("eth0", "10.0.0.2", 24), nic("eth1", "10.1.0.1", 20)});
  EXPECT_EQ(devices.of(0), "eth1>eth1");
  const Devices apart({nic("eth0", "10.0.0.1", 24), nic("eth1", "10.1.15.255", 20)},
                      {nic("eth0", "10.0.0.2", 24), nic("eth1", "10.1.16.1", 20)});
  EXPECT_EQ(apart.of(1), "eth0>eth0");
}

TEST(NetDevices, BothFamiliesMustAgree) {
  const auto both = [](std::string name, std::string v4, std::string v6) {
    NicInfo one = nic(std::move(name), std::move(v4));
    one.addresses.push_back(std::move(v6));
    one.prefixes.push_back(64);
    return one;
  };
  const Devices devices({both("eth0", "10.0.0.1", "fd00::1"), both("eth1", "10.0.1.1", "fd01::1")},
                        {both("eth0", "10.0.0.2", "fd09::2"), both("eth1", "10.0.1.2", "fd01::2")});
  EXPECT_EQ(devices.of(0), "eth1>eth1");
  // Networks of one address tell nothing, so the other family decides.
  const auto single = [&](std::string name, std::string v4, std::string v6, bool v4_is) {
    NicInfo one = both(std::move(name), std::move(v4), std::move(v6));
    one.prefixes[v4_is ? 0 : 1] = v4_is ? 32 : 128;
    return one;
  };
  for (const bool v4 : {true, false}) {
    const Devices one({nic("eth0", "10.5.0.1"), single("eth1", "10.0.1.1", "fd01::1", v4)},
                      {nic("eth0", "10.6.0.2"), single("eth1", "10.0.1.2", "fd01::2", v4)});
    EXPECT_EQ(one.of(0), "eth1>eth1") << v4;
  }
  // Every link has fe80::/64.
  const Devices links({nic("eth0", "fe80::1", 64), nic("eth1", "10.0.1.1")},
                      {nic("eth0", "fe80::3", 64), nic("eth1", "10.0.1.2")});
  EXPECT_EQ(links.of(0), "eth1>eth1");
  const Devices local({both("eth0", "10.0.0.1", "fe80::1"), both("eth1", "10.0.1.1", "fe80::2")},
                      {both("eth0", "10.0.2.2", "fe80::3"), both("eth1", "10.0.1.2", "fe80::4")});
  EXPECT_EQ(local.of(0), "eth1>eth1");
}

TEST(NetDevices, BridgesOfContainersJoinNothing) {
  const NicInfo bridge = as_virtual(nic("docker0", "172.17.0.1", 16));
  const Devices devices({as_virtual(nic("eth0", "10.0.0.1")), bridge},
                        {as_virtual(nic("eth0", "10.0.0.2")), bridge});
  EXPECT_EQ(devices.of(0), "eth0>eth0");
  EXPECT_EQ(devices.of(1), "eth0>eth0");
}

TEST(NetDevices, HardwareBeforeVirtualBeforeLoopbackBeforeDown) {
  NicInfo loopback = as_virtual(nic("lo", "127.0.0.1", 8));
  loopback.loopback = true;
  NicInfo down = nic("eth9", "10.0.0.9");
  down.up = false;
  const NicInfo tunnel = as_virtual(nic("tun0", "10.0.0.8"));
  const std::vector<NicInfo> other = {nic("x", "10.0.0.100")};
  const NicInfo eth0 = nic("eth0", "10.0.0.1");
  for (const std::uint32_t channel : {0U, 1U}) {
    EXPECT_EQ(Devices({loopback, down, tunnel, eth0}, other).of(channel), "eth0>x");
    EXPECT_EQ(Devices({loopback, down, tunnel}, other).of(channel), "tun0>x");
    EXPECT_EQ(Devices({loopback, down}, other).of(channel), "lo>x");
  }
}

TEST(NetDevices, TheFastestBeforeTheNearest) {
  NicInfo slow = nic("eth0", "10.0.0.1");
  slow.speed_mbps = 1000;
  slow.numa_node = 0;  // where the rank runs
  const Devices devices({slow, nic("eth1", "10.0.0.2")},
                        {nic("eth0", "10.0.0.3"), nic("eth1", "10.0.0.4")});
  EXPECT_EQ(devices.of(0).substr(0, 5), "eth1>");
  EXPECT_EQ(devices.of(1).substr(0, 5), "eth1>");
}

TEST(NetDevices, FabricsThatDifferDoNotReachEachOther) {
  Devices devices({nic("a", "10.0.0.1"), nic("b", "10.0.0.2")},
                  {nic("a", "10.0.0.3"), nic("b", "10.0.0.4")});
  devices.offered(0)[0].fabric_id = 5;
  devices.offered(1)[0].fabric_id = 6;
  devices.offered(1)[1].fabric_id = 5;
  EXPECT_EQ(devices.of(0), "a>b");
  EXPECT_EQ(devices.of(1), "b>a") << "b says nothing of its own";
  devices.offered(0)[1].fabric_id = 9;
  EXPECT_EQ(devices.of(0), "a>b");
  devices.offered(0)[0].fabric_id = 9;
  EXPECT_EQ(devices.of(0), "a>a") << "the first of both";
}

TEST(NetDevices, WithoutANicAreAllEquallyNear) {
  Devices devices({nic("eth0", "10.0.0.1")}, {nic("eth0", "10.0.0.2")});
  devices.offered(0) = {{.name = "mlx5_0"}, {.name = "mlx5_1"}};
  devices.offered(1) = {{.name = "mlx5_0"}, {.name = "mlx5_1"}};
  EXPECT_EQ(devices.of(0), "mlx5_0>mlx5_0");
  EXPECT_EQ(devices.of(1), "mlx5_1>mlx5_1");
  // A reach that is known comes first.
  devices.offered(0).push_back({.name = "eth0"});
  devices.offered(1).push_back({.name = "eth0"});
  EXPECT_EQ(devices.of(0), "eth0>eth0");
}

TEST(NetDevices, RanksOfOneHostMeetOnOneDevice) {
  Devices devices(test::one_host(2));
  devices.topology().hosts[0].nics = {nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")};
  devices.offer_all();
  EXPECT_EQ(devices.of(0), "eth0>eth0");
  EXPECT_EQ(devices.of(1), "eth1>eth1");
}

TEST(NetDevices, LoopbackIsLeftOutWithinAHostToo) {
  Devices devices(test::one_host(2));
  NicInfo loopback = as_virtual(nic("lo", "127.0.0.1", 8));
  loopback.loopback = true;
  devices.topology().hosts[0].nics = {as_virtual(nic("eth0", "10.0.0.1")), loopback};
  devices.offer_all();
  EXPECT_EQ(devices.of(1), "eth0>eth0");
}

TEST(NetDevices, AreTheRanksNearestOnes) {
  // Ranks 0 and 1 run beside eth0, 2 and 3 beside eth1; so do 4 and 5, 6 and 7 of the other host.
  const Devices devices(fixture_topology("two-sockets-two-nics", 2, 4));
  EXPECT_EQ(devices.of(0, 0, 5), "eth0>eth0");
  EXPECT_EQ(devices.of(1, 0, 5), "eth0>eth0");
  EXPECT_EQ(devices.of(0, 2, 7), "eth1>eth1");
  EXPECT_EQ(devices.of(kPairChannel, 3, 6), "eth1>eth1");
  // Between rails the sender's counts.
  EXPECT_EQ(devices.of(0, 0, 7), "eth0>eth0");
  EXPECT_EQ(devices.of(0, 7, 0), "eth1>eth1");
}

TEST(NetDevices, AreTheReceiversNearestWhereTheSenderHasNoNearer) {
  Topology topology = fixture_topology("two-sockets-two-nics", 2, 2);
  topology.ranks[0].cpus.clear();
  const Devices devices(std::move(topology));
  EXPECT_EQ(devices.of(0, 0, 3), "eth1>eth1");
  EXPECT_EQ(devices.of(1, 0, 2), "eth0>eth0");
}

TEST(NetDevices, FollowTheRingsOfABigMachine) {
  const Devices devices(fixture_topology("hgx", 2, 8));
  const auto found = rings(*devices.input().topology, 8);
  for (std::uint32_t channel = 0; channel < 8; ++channel) {
    const std::string rail = "rail" + std::to_string(channel);
    for (std::size_t i = 0; i < found[channel].size(); ++i) {
      const std::uint32_t from = found[channel][i];
      const std::uint32_t to = found[channel][(i + 1) % found[channel].size()];
      if (devices.input().topology->same_host(from, to)) continue;
      EXPECT_EQ(devices.of(channel, from, to), rail + ">" + rail) << from << " to " << to;
    }
  }
}

// Whichever of the other host's ranks each of a host sends to, as in a shift, and where all send to
// one of them.
TEST(NetDevices, RanksThatSendAtOnceUseAllDevices) {
  for (const std::uint32_t count : {2U, 3U, 4U, 8U}) {
    std::vector<Placement> places;
    for (std::uint32_t rank = 0; rank < 2 * count; ++rank)
      places.push_back({.host = rank / count});
    Topology topology = test::sample_topology(places);
    for (std::uint32_t host = 0; host < 2; ++host) {
      topology.hosts[host].nics.clear();
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::string number = std::to_string(i);
        topology.hosts[host].nics.push_back(
            nic("eth" + number, "10.0." + number + "." + std::to_string(host + 1)));
      }
    }
    const Devices devices(std::move(topology));
    for (std::uint32_t distance = 0; distance < count; ++distance) {
      std::set<std::string> by_shift;
      std::set<std::string> to_one;
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        by_shift.insert(devices.of(kPairChannel, rank, count + ((rank + distance) % count)));
        to_one.insert(devices.of(kPairChannel, rank, count + distance));
      }
      EXPECT_EQ(by_shift.size(), count) << distance;
      EXPECT_EQ(to_one.size(), count) << distance;
    }
  }
}

// Also between two ranks.
TEST(NetDevices, ChannelsOfAPairOfRanksTakeTurns) {
  const Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")},
                        {nic("eth0", "10.0.0.2"), nic("eth1", "10.0.1.2")});
  EXPECT_EQ(devices.of(kPairChannel), "eth0>eth0");
  EXPECT_EQ(devices.of(kPairChannel + 1), "eth1>eth1");
}

TEST(NetDevices, NothingOfferedIsTheFirst) {
  Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")},
                  {nic("eth0", "10.0.0.2"), nic("eth1", "10.0.1.2")});
  devices.offered(1).clear();
  const NetEdge edge{.channel = 1, .from = 0, .to = 1};
  EXPECT_EQ(choose_devices(devices.input(), kNet, edge), DevicePair{});
  EXPECT_EQ(choose_devices(devices.input(), "another", edge), DevicePair{});
}

TEST(NetDevices, AreDescribedByChannel) {
  const Devices devices({nic("eth0", "10.0.0.1"), nic("eth1", "10.0.1.1")},
                        {nic("eth2", "10.0.0.2"), nic("eth3", "10.0.1.2")});
  for (const std::uint32_t first : {0U, kFirstTreeChannel}) {
    std::vector<NetEdge> edges;
    for (std::uint32_t i = 0; i < 3; ++i)
      edges.push_back({.channel = first + i, .from = 0, .to = 1});
    EXPECT_EQ(describe_devices(devices.input(), kNet, edges),
              "eth0 to eth2 on channels 0, 2; eth1 to eth3 on channel 1");
  }
  std::vector<NetEdge> stripes;
  for (std::uint32_t i = 0; i < 3; ++i)
    stripes.push_back({.channel = inbox_channel(i), .from = 0, .to = 1});
  EXPECT_EQ(describe_devices(devices.input(), kNet, stripes),
            "eth0 to eth2 in stripe 1; eth1 to eth3 in stripes 0, 2");
  EXPECT_EQ(describe_devices(devices.input(), kNet, {}), "");
}

}  // namespace
}  // namespace weft
