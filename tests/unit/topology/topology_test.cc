// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Merging reports, and what is derived from the merged topology.

#include "core/topology/topology.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "core/topology/codec.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

using test::Placement;
using test::sample_report;
using test::sample_topology;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Merge, GivesHostsInTheOrderOfTheirLowestRank) {
  const Topology topology = sample_topology(std::vector<Placement>{{7, 0}, {3, 0}, {7, 1}, {3, 0}});
  ASSERT_EQ(topology.hosts.size(), 2U);
  EXPECT_EQ(topology.hosts[0].host_id, "host-7");
  EXPECT_EQ(topology.hosts[1].host_id, "host-3");
  EXPECT_EQ(topology.rank_count(), 4U);
  EXPECT_THAT(topology.ranks_on_host(0), ElementsAre(0, 2));
  EXPECT_THAT(topology.ranks_on_host(1), ElementsAre(1, 3));
  EXPECT_THAT(topology.ranks_on_host(2), IsEmpty());
}

TEST(Merge, KnowsWhoSharesHostAndProcess) {
  const Topology topology = sample_topology(std::vector<Placement>{{0, 0}, {0, 0}, {0, 1}, {1, 0}});
  EXPECT_TRUE(topology.same_host(0, 2));
  EXPECT_FALSE(topology.same_host(0, 3));
  EXPECT_TRUE(topology.same_process(0, 1));
  EXPECT_FALSE(topology.same_process(0, 2));
  EXPECT_FALSE(topology.same_process(0, 3));
  EXPECT_FALSE(topology.same_host(0, 4));
  EXPECT_FALSE(topology.same_process(9, 9));
}

TEST(Merge, KnowsWhoSharesAMemoryFabric) {
  Topology topology = sample_topology(std::vector<Placement>{{0, 0}, {0, 1}, {1, 0}, {2, 0}});
  EXPECT_TRUE(topology.same_fabric(0, 1)) << "one host";
  EXPECT_FALSE(topology.same_fabric(2, 3)) << "neither is in one";
  topology.ranks[0].memory_fabric = "rack-7";
  topology.ranks[2].memory_fabric = "rack-7";
  topology.ranks[3].memory_fabric = "rack-8";
  EXPECT_TRUE(topology.same_fabric(0, 2));
  EXPECT_FALSE(topology.same_fabric(1, 2));
  EXPECT_FALSE(topology.same_fabric(2, 3));
  EXPECT_FALSE(topology.same_fabric(2, 9));
}

TEST(Merge, ReadsWhatEachRankEncoded) {
  std::vector<std::vector<std::byte>> blobs;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    blobs.push_back(encode_report(sample_report(rank, {.host = rank % 2, .process = 0})).value());
  }
  const Result<Topology> merged = merge(blobs);
  ASSERT_TRUE(merged) << merged.error().to_string();
  EXPECT_EQ(*merged, sample_topology(std::vector<Placement>{{0, 0}, {1, 0}, {0, 0}}));
}

TEST(Merge, NamesTheRankWhoseReportIsBroken) {
  std::vector<std::vector<std::byte>> blobs(2);
  blobs[0] = encode_report(sample_report(0, {})).value();
  const Result<Topology> merged = merge(blobs);
  ASSERT_FALSE(merged);
  EXPECT_THAT(merged.error().to_string(), HasSubstr("rank 1"));
}

TEST(Merge, RefusesAReportOfAnotherRank) {
  const std::vector<RankReport> reports = {sample_report(0, {}), sample_report(5, {})};
  const Result<Topology> merged = merge_reports(reports);
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code(), WEFT_ERROR_PEER);
  EXPECT_THAT(merged.error().to_string(), HasSubstr("place 1 of 2 says it is of rank 5"));
}

TEST(Merge, NamesRanksThatClaimOneHostIdOnTwoMachines) {
  std::vector<RankReport> reports = {sample_report(0, {}), sample_report(1, {}),
                                     sample_report(2, {})};
  reports[2].host.boot_id = "another";
  reports[2].host.host_name = "elsewhere";
  const Result<Topology> merged = merge_reports(reports);
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().code(), WEFT_ERROR_MISMATCH);
  EXPECT_THAT(merged.error().to_string(), HasSubstr("ranks 0 (node0) and 2 (elsewhere)"));
  EXPECT_THAT(merged.error().to_string(), HasSubstr("boot ids differ: boot-0 and another"));
  EXPECT_THAT(merged.error().to_string(), HasSubstr("WEFT_HOST_ID"));
}

TEST(Merge, TakesAHostAsItsLowestRankSeesIt) {
  std::vector<RankReport> reports = {sample_report(0, {}), sample_report(1, {})};
  reports[1].host.nics.pop_back();
  reports[1].host.host_name = "container";
  const Result<Topology> merged = merge_reports(reports);
  ASSERT_TRUE(merged) << merged.error().to_string();
  EXPECT_EQ(merged->hosts, std::vector<HostInfo>{test::sample_host(0)});
}

TEST(Rings, KeepHostsAndProcessesTogether) {
  // Rank:                                                     0       1       2       3       4
  const Topology topology =
      sample_topology(std::vector<Placement>{{1, 1}, {0, 0}, {1, 0}, {0, 0}, {1, 1}, {0, 5}});
  EXPECT_THAT(rings(topology, 2),
              ElementsAre(ElementsAre(0, 4, 2, 1, 3, 5), ElementsAre(0, 4, 2, 1, 3, 5)));
}

TEST(Rings, AreEmptyWhereThereIsNothing) {
  EXPECT_THAT(rings(Topology{}, 1), ElementsAre(IsEmpty()));
  EXPECT_THAT(rings(test::one_host(3), 0), IsEmpty());
}

TEST(UsableCpus, AreNoMoreThanControlGroupsLeaveTheTimeOf) {
  Topology topology = test::one_host(3);  // of 16 hardware threads
  EXPECT_EQ(usable_cpus(topology, 0), 16U);
  topology.ranks[0].cpu_limit = topology.ranks[1].cpu_limit = 4;
  topology.ranks[0].cpu_group = topology.ranks[1].cpu_group = "a";
  EXPECT_EQ(usable_cpus(topology, 0), 16U) << "one has no limit";
  topology.ranks[2].cpu_limit = 3;
  topology.ranks[2].cpu_group = "b";
  EXPECT_EQ(usable_cpus(topology, 0), 7U) << "two share one";
  EXPECT_EQ(host_channels(topology), 1U) << "3 cores of 3 ranks";
  topology.ranks[2].cpu_limit = 100;
  EXPECT_EQ(usable_cpus(topology, 0), 16U) << "more than there are";
  EXPECT_EQ(usable_cpus(topology, 7), 0U);
}

TEST(HostChannels, FollowTheCoresOfTheMostCrowdedHost) {
  EXPECT_EQ(host_channels(test::one_host(1)), 4U);  // 8 cores, at most 4
  EXPECT_EQ(host_channels(test::one_host(2)), 4U);
  EXPECT_EQ(host_channels(test::one_host(4)), 2U);
  EXPECT_EQ(host_channels(test::one_host(5)), 1U);
  EXPECT_EQ(host_channels(test::one_host(100)), 1U);
  EXPECT_EQ(host_channels(Topology{}), 4U);
  EXPECT_EQ(host_channels(sample_topology(std::vector<Placement>{{0, 0}, {1, 0}, {1, 1}, {1, 2}})),
            2U);
}

TEST(HostChannels, CountOnlyTheCpusThatRanksMayUse) {
  Topology topology = test::one_host(2);
  // Each rank is bound to a core of two hardware threads of its own.
  topology.ranks[0].cpus = {{.first = 0, .last = 1}};
  topology.ranks[1].cpus = {{.first = 2, .last = 3}};
  EXPECT_EQ(host_channels(topology), 1U);
  topology.ranks[0].cpus = {{.first = 0, .last = 3}};
  topology.ranks[1].cpus = {{.first = 4, .last = 7}};
  EXPECT_EQ(host_channels(topology), 2U);
  // Both share the same four.
  topology.ranks[1].cpus = {{.first = 0, .last = 3}};
  EXPECT_EQ(host_channels(topology), 1U);
  // Unknown CPUs: what the ranks counted themselves.
  topology.ranks[0].cpus.clear();
  topology.ranks[1].cpus.clear();
  topology.ranks[0].cores = topology.ranks[1].cores = 6;
  EXPECT_EQ(host_channels(topology), 3U);
}

TEST(TopologyText, IsYamlThatSaysUnknown) {
  Topology topology = sample_topology(std::vector<Placement>{{0, 0}, {1, 3}});
  topology.ranks[1].cpus = {{.first = 0, .last = 3}, {.first = 8, .last = 8}};
  const YAML::Node yaml = YAML::Load(to_yaml(topology));
  ASSERT_EQ(yaml["hosts"].size(), 2U);
  EXPECT_EQ(yaml["hosts"][1]["host_id"].as<std::string>(), "host-1");
  const YAML::Node nics = yaml["hosts"][0]["nics"];
  EXPECT_EQ(nics[0]["speed_mbps"].as<int>(), 25000);
  EXPECT_EQ(nics[0]["pci"].as<std::string>(), "0000:00:03.0");
  EXPECT_EQ(nics[0]["addresses"][1].as<std::string>(), "fe80::1");
  EXPECT_EQ(nics[1]["speed_mbps"].as<std::string>(), "unknown");
  EXPECT_TRUE(nics[1]["loopback"].as<bool>());
  EXPECT_EQ(yaml["ranks"][1]["host"].as<std::string>(), "host-1");
  EXPECT_EQ(yaml["ranks"][1]["cpus"].as<std::string>(), "0-3,8");
}

TEST(TopologyText, IsDotWithQuotedNames) {
  Topology topology = sample_topology(std::vector<Placement>{{0, 0}, {0, 0}, {1, 0}});
  topology.hosts[0].host_name = "a\"b\\c";
  const std::string dot = to_dot(topology);
  EXPECT_THAT(dot, HasSubstr("subgraph cluster_host1"));
  EXPECT_THAT(dot, HasSubstr(R"(label="a\"b\\c (host-0), 8 cores")"));
  EXPECT_THAT(dot, HasSubstr("rank0 -> rank1 ["));
  EXPECT_THAT(dot, HasSubstr("rank1 -> rank2 ["));
  EXPECT_THAT(dot, HasSubstr("rank2 -> rank0 ["));
  EXPECT_THAT(to_dot(test::one_host(1)), testing::Not(HasSubstr("->")));
}

}  // namespace
}  // namespace weft
