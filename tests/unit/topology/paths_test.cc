// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Paths, nearest NICs, rails and the rings that follow from them, on the machines of
// tests/fixtures/topology.

#include "core/topology/paths.h"

#include <cstdint>
#include <sched.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/topology/thread_place.h"
#include "tests/support/fixture_machines.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using test::fixture_host;
using test::fixture_topology;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> names(const HostInfo& host, const std::vector<std::uint32_t>& nics) {
  std::vector<std::string> result;
  for (const std::uint32_t nic : nics)
    result.push_back(host.nics.at(nic).name);
  return result;
}

std::string first_nic(const Topology& topology, std::uint32_t rank) {
  return topology.hosts[topology.ranks[rank].host].nics[nearest_nics(topology, rank).at(0)].name;
}

TEST(Paths, HaveTheNamesOfTheField) {
  EXPECT_EQ(path_name(Path::kSelf), "self");
  EXPECT_EQ(path_name(Path::kPix), "pix");
  EXPECT_EQ(path_name(Path::kPxb), "pxb");
  EXPECT_EQ(path_name(Path::kPhb), "phb");
  EXPECT_EQ(path_name(Path::kNode), "node");
  EXPECT_EQ(path_name(Path::kSys), "sys");
  EXPECT_EQ(path_name(Path::kUnknown), "unknown");
  EXPECT_LT(Path::kSys, Path::kUnknown);
}

TEST(Paths, BetweenDevicesOfABigMachine) {
  const HostInfo host = fixture_host("hgx");
  EXPECT_EQ(path_between(host, "0000:18:00.0", "0000:18:00.0"), Path::kSelf);
  EXPECT_EQ(path_between(host, "0000:18:00.0", "0000:1a:00.0"), Path::kPix);
  EXPECT_EQ(path_between(host, "0000:1a:00.0", "0000:18:00.0"), Path::kPix);
  EXPECT_EQ(path_between(host, "0000:18:00.0", "0000:3c:00.0"), Path::kNode);
  EXPECT_EQ(path_between(host, "0000:18:00.0", "0000:03:00.0"), Path::kNode);
  EXPECT_EQ(path_between(host, "0000:18:00.0", "0000:bd:00.0"), Path::kSys);
  EXPECT_EQ(path_between(host, "0000:18:00.0", "0000:ff:00.0"), Path::kUnknown);
  EXPECT_EQ(path_between(host, "0000:16:00.0", "0000:18:00.0"), Path::kUnknown) << "a bridge";
  EXPECT_EQ(path_between(host, "", ""), Path::kUnknown);
}

TEST(Paths, ThroughSwitchesBelowASwitch) {
  const HostInfo host = fixture_host("cascade");
  EXPECT_EQ(path_between(host, "0000:45:00.0", "0000:47:00.0"), Path::kPix);
  EXPECT_EQ(path_between(host, "0000:45:00.0", "0000:4c:00.0"), Path::kPxb);
  EXPECT_EQ(path_between(host, "0000:61:00.0", "0000:61:00.1"), Path::kPix) << "ports of a card";
  EXPECT_EQ(path_between(host, "0000:45:00.0", "0000:61:00.0"), Path::kUnknown)
      << "of the second host bridge the file does not say where it is";
}

TEST(Paths, OneBridgeMoreThanASwitchHas) {
  HostInfo host;
  host.pci = {{.kind = PciKind::kRoot, .address = "0000:00", .parent = 0},
              {.kind = PciKind::kBridge, .address = "0000:00:01.0", .parent = 0},
              {.kind = PciKind::kNic, .address = "0000:01:00.0", .parent = 1, .bridges = 1},
              {.kind = PciKind::kGpu, .address = "0000:02:00.0", .parent = 1, .bridges = 2},
              {.kind = PciKind::kGpu, .address = "0000:03:00.0", .parent = 1}};
  EXPECT_EQ(path_between(host, "0000:01:00.0", "0000:03:00.0"), Path::kPix);
  EXPECT_EQ(path_between(host, "0000:01:00.0", "0000:02:00.0"), Path::kPxb);
}

TEST(Paths, OverTheHostBridge) {
  EXPECT_EQ(path_between(fixture_host("laptop"), "0000:00:02.0", "0000:01:00.0"), Path::kPhb);
  EXPECT_EQ(path_between(fixture_host("cloud"), "0000:00:03.0", "0000:00:04.0"), Path::kPhb);
}

TEST(Paths, FromCpusToANic) {
  const HostInfo host = fixture_host("two-sockets-two-nics");
  const std::vector<CpuRange> first = {{.first = 0, .last = 3}};
  const std::vector<CpuRange> second = {{.first = 12, .last = 12}};
  const std::vector<CpuRange> both = {{.first = 3, .last = 4}};
  EXPECT_EQ(path_between(host, first, host.nics[0]), Path::kNode);
  EXPECT_EQ(path_between(host, first, host.nics[1]), Path::kSys);
  EXPECT_EQ(path_between(host, second, host.nics[1]), Path::kNode);
  EXPECT_EQ(path_between(host, both, host.nics[0]), Path::kNode);
  EXPECT_EQ(path_between(host, both, host.nics[1]), Path::kNode);
  EXPECT_EQ(path_between(host, std::vector<CpuRange>{}, host.nics[0]), Path::kUnknown);
  NicInfo untold = host.nics[1];
  untold.numa_node.reset();
  EXPECT_EQ(path_between(host, second, untold), Path::kNode) << "its tree tells";
  untold.pci_path.clear();
  EXPECT_EQ(path_between(host, second, untold), Path::kUnknown);
}

TEST(NearCpus, AreThoseOfTheNodeThatADeviceHangsOn) {
  Topology topology = fixture_topology("hgx", 1, 4);
  const HostInfo& host = topology.hosts[0];
  ASSERT_EQ(host.numa_nodes.size(), 2U);
  const char* const devices[] = {"0000:18:00.0", "0000:bd:00.0", "0000:ff:00.0", ""};
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    topology.ranks[rank].device_pci = devices[rank];
  EXPECT_EQ(cpus_near_device(topology, 0), host.numa_nodes[0].cpus);
  EXPECT_EQ(cpus_near_device(topology, 1), host.numa_nodes[1].cpus);
  EXPECT_THAT(cpus_near_device(topology, 2), IsEmpty()) << "no such device";
  EXPECT_THAT(cpus_near_device(topology, 3), IsEmpty()) << "the host device";
}

std::vector<int> own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

TEST(ThreadPlace, IsAmongTheCpusThatTheThreadHas) {
  const std::vector<int> before = own_cpus();
  const auto last = static_cast<std::uint32_t>(before.back());
  {
    const std::vector<CpuRange> near{{.first = last, .last = last + 1000}};
    const ThreadPlace place(near);
    EXPECT_THAT(own_cpus(), ElementsAre(last));
  }
  EXPECT_EQ(own_cpus(), before);
  const std::vector<CpuRange> elsewhere{{.first = last + 1, .last = UINT32_MAX}};
  const ThreadPlace nowhere(elsewhere);
  const ThreadPlace unknown({});
  EXPECT_EQ(own_cpus(), before);
}

TEST(NearestNics, ShareThoseOfASwitchBetweenItsGpus) {
  const Topology topology = fixture_topology("hgx", 1, 8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(first_nic(topology, rank), "rail" + std::to_string(rank));
  }
  EXPECT_THAT(
      names(topology.hosts[0], nearest_nics(topology, 3)),
      ElementsAre("rail3", "rail2", "rail0", "rail1", "eth0", "rail4", "rail5", "rail6", "rail7"))
      << "by path, then by speed";
}

TEST(NearestNics, AreThoseOfTheNumaNode) {
  const Topology topology = fixture_topology("two-sockets-two-nics", 1, 4);
  EXPECT_EQ(first_nic(topology, 0), "eth0");
  EXPECT_EQ(first_nic(topology, 1), "eth0");
  EXPECT_EQ(first_nic(topology, 2), "eth1");
  EXPECT_EQ(first_nic(topology, 3), "eth1");
}

TEST(NearestNics, AreSharedInTurnWhereNothingIsKnown) {
  const Topology topology = fixture_topology("cloud", 1, 4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(first_nic(topology, rank), rank % 2 == 0 ? "eth0" : "eth1");
  }
}

TEST(NearestNics, LeaveOutWhatCarriesNothing) {
  Topology topology = test::one_host(1);
  EXPECT_THAT(names(topology.hosts[0], nearest_nics(topology, 0)), ElementsAre("eth0"));
  topology.hosts[0].nics[0].up.reset();
  EXPECT_THAT(names(topology.hosts[0], nearest_nics(topology, 0)), ElementsAre("eth0"))
      << "not known to be down";
  topology.hosts[0].nics[0].up = false;
  EXPECT_THAT(nearest_nics(topology, 0), IsEmpty());
}

TEST(Rails, AreTheFastestOfAHost) {
  HostInfo host = fixture_host("hgx");
  EXPECT_THAT(names(host, rails(host)),
              ElementsAre("rail0", "rail1", "rail2", "rail3", "rail4", "rail5", "rail6", "rail7"));
  EXPECT_THAT(rails(fixture_host("laptop")), IsEmpty());
  EXPECT_THAT(rails(fixture_host("cloud")), IsEmpty()) << "speeds unknown";
  host.nics[2].up = false;
  host.nics[3].up.reset();
  host.nics[4].speed_mbps = 200000;
  host.nics[5].addresses.clear();
  host.nics[6].pci_path = "0000:ff:00.0";
  host.nics[7].is_virtual = true;
  EXPECT_THAT(names(host, rails(host)), ElementsAre("rail0", "rail7"));
  host.nics[8].speed_mbps = 100;
  EXPECT_THAT(rails(host), IsEmpty()) << "one is left";
}

TEST(RailRings, LeaveHostsByTheRanksNearestToEachRail) {
  const Topology topology = fixture_topology("two-sockets-two-nics", 2, 4);
  EXPECT_THAT(rings(topology, 5),
              ElementsAre(ElementsAre(1, 2, 3, 0, 5, 6, 7, 4),  // eth0: ranks 0 and 1
                          ElementsAre(3, 0, 1, 2, 7, 4, 5, 6),  // eth1: ranks 2 and 3
                          ElementsAre(1, 2, 3, 0, 5, 6, 7, 4), ElementsAre(3, 0, 1, 2, 7, 4, 5, 6),
                          ElementsAre(1, 2, 3, 0, 5, 6, 7, 4)));
}

TEST(RailRings, SpreadOverRanksThatAreEquallyNear) {
  Topology topology = fixture_topology("two-sockets-two-nics", 2, 3);
  for (RankInfo& rank : topology.ranks)
    rank.cpus = {{.first = 0, .last = 15}};
  EXPECT_THAT(rings(topology, 4),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(1, 2, 0, 4, 5, 3),
                          ElementsAre(2, 0, 1, 5, 3, 4), ElementsAre(0, 1, 2, 3, 4, 5)));
}

TEST(RailRings, OfABigMachineEnterAndLeaveBelowTheRailsSwitch) {
  const auto found = rings(fixture_topology("hgx", 2, 8), 8);
  EXPECT_THAT(found[0], ElementsAre(1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 8));
  EXPECT_EQ(found[1], found[0]) << "both rails of a switch";
  EXPECT_THAT(found[2], ElementsAre(3, 4, 5, 6, 7, 0, 1, 2, 11, 12, 13, 14, 15, 8, 9, 10));
  EXPECT_THAT(found[7], ElementsAre(7, 0, 1, 2, 3, 4, 5, 6, 15, 8, 9, 10, 11, 12, 13, 14));
}

TEST(RailRings, KeepOneOrderWithoutRails) {
  const std::vector<std::uint32_t> plain = {0, 1, 2, 3};
  EXPECT_THAT(rings(fixture_topology("cloud", 2, 2), 3), ElementsAre(plain, plain, plain));
  EXPECT_THAT(rings(fixture_topology("hgx", 1, 4), 2), ElementsAre(plain, plain)) << "one host";
  Topology placeless = fixture_topology("two-sockets-two-nics", 2, 2);
  for (RankInfo& rank : placeless.ranks)
    rank.cpus.clear();
  EXPECT_THAT(rings(placeless, 2), ElementsAre(plain, plain)) << "where ranks run is unknown";
}

TEST(Placement, SpreadsRanksOverNodesAndGpus) {
  const Topology twin = fixture_topology("two-sockets-two-nics", 2, 2);
  EXPECT_EQ(twin.hosts[0].host_id, "two-sockets-two-nics-0");
  EXPECT_EQ(twin.ranks[1].cpus, twin.hosts[0].numa_nodes[1].cpus);
  EXPECT_EQ(twin.ranks[1].cores, 4U);
  EXPECT_EQ(twin.ranks[2].host, 1U);
  EXPECT_FALSE(twin.same_process(0, 2));
  const Topology alone = fixture_topology("two-sockets-two-nics", 1, 1);
  EXPECT_EQ(alone.ranks[0].cores, 8U) << "nothing says which of the two";
  const Topology many = fixture_topology("hgx", 1, 9);
  EXPECT_EQ(many.ranks[8].device_pci, many.ranks[0].device_pci);
  EXPECT_EQ(many.ranks[4].cpus, many.hosts[0].numa_nodes[1].cpus);
}

TEST(TopologyText, ShowsTheTreeOfAMachine) {
  EXPECT_EQ(
      to_text(fixture_topology("two-sockets-two-nics", 1, 2)),
      R"(host twin (two-sockets-two-nics): 2 packages, 2 NUMA nodes, 8 cores, 16 hardware threads, 256 GiB
  NUMA node 0: CPUs 0-3,8-11, 128 GiB
    PCI 0000:17
      NIC 0000:18:00.0 eth0, 100 Gbit/s, up, 10.0.0.1 fe80::1
  NUMA node 1: CPUs 4-7,12-15, 128 GiB
    PCI 0000:97
      NIC 0000:98:00.0 eth1, 100 Gbit/s, up, 10.0.1.1 fe80::2
ranks
  rank 0: twin, pid 1, device host, CPUs 0-3,8-11, nearest NIC eth0 (node)
  rank 1: twin, pid 2, device host, CPUs 4-7,12-15, nearest NIC eth1 (node)
rings
  every channel: 0 -> 1
)");
}

TEST(TopologyText, SaysWhatIsUnknown) {
  EXPECT_EQ(to_text(fixture_topology("cloud", 1, 0)),
            R"(host cloud (cloud): 1 package, 1 NUMA node, 2 cores, 4 hardware threads, 8 GiB
  NUMA node 0: CPUs 0-3, 8 GiB
  NUMA node unknown
    PCI 0000:00
      NIC 0000:00:03.0 eth0, speed unknown, up, 172.16.0.4
      NIC 0000:00:04.0 eth1, speed unknown, state unknown, 172.16.1.4
      NIC 0000:00:06.0, no interface
)");
}

TEST(TopologyText, ShowsSwitchesGpusAndPaths) {
  EXPECT_EQ(to_text(fixture_topology("cascade", 1, 1)),
            R"(host cascade (cascade): 1 package, 1 NUMA node, 8 cores, 16 hardware threads, 256 GiB
  NUMA node 0: CPUs 0-15, 256 GiB
  NUMA node unknown
    PCI 0000:40
      switch 0000:41:00.0
        switch 0000:43:00.0
          GPU 0000:45:00.0, rank 0
          GPU 0000:46:00.0
          NIC 0000:47:00.0 eth0, 200 Gbit/s, up, 10.2.0.1
        switch 0000:48:00.0
          GPU 0000:4a:00.0
          GPU 0000:4b:00.0
          NIC 0000:4c:00.0 eth1, 200 Gbit/s, up, 10.2.1.1
    PCI 0000:60
      bridge 0000:60:01.0
        NIC 0000:61:00.0 ens1f0, 25 Gbit/s, up, 10.3.0.1
        NIC 0000:61:00.1 ens1f1, 25 Gbit/s, down
  paths           eth0     eth1     ens1f0   ens1f1
    0000:45:00.0  pix      pxb      unknown  unknown
    0000:46:00.0  pix      pxb      unknown  unknown
    0000:4a:00.0  pxb      pix      unknown  unknown
    0000:4b:00.0  pxb      pix      unknown  unknown
ranks
  rank 0: cascade, pid 1, device cuda 0000:45:00.0, CPUs 0-15, nearest NIC eth0 (pix)
)");
}

TEST(TopologyText, ShowsRingsThatDiffer) {
  const std::string text = to_text(fixture_topology("two-sockets-two-nics", 2, 2));
  EXPECT_THAT(text.substr(text.find("rings\n")), StartsWith("rings\n"
                                                            "  channel 0: 1 -> 0 -> 3 -> 2\n"
                                                            "  channel 1: 0 -> 1 -> 2 -> 3\n"));
}

}  // namespace
}  // namespace weft
