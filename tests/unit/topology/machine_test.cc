// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Machines of files: what is read of them, what is refused, and that an export can be imported.

#include "core/topology/machine.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/topology/codec.h"
#include "core/topology/import.h"
#include "core/topology/pci_tree.h"
#include "core/topology/xml_limits.h"
#include "tests/support/fixture_machines.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::fixture_host;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(FixtureMachines, ALaptopHasOneTree) {
  const HostInfo host = fixture_host("laptop");
  EXPECT_EQ(host.host_id, "laptop");
  EXPECT_EQ(host.host_name, "laptop");
  EXPECT_EQ(host.boot_id, "");
  EXPECT_EQ(host.packages, 1U);
  EXPECT_EQ(host.cores, 4U);
  EXPECT_EQ(host.hardware_threads, 8U);
  EXPECT_EQ(host.memory_bytes, std::uint64_t{16} << 30);
  EXPECT_THAT(host.numa_nodes, ElementsAre(NumaNode{.number = 0,
                                                    .memory_bytes = std::uint64_t{16} << 30,
                                                    .cpus = {{.first = 0, .last = 7}}}));
  EXPECT_THAT(host.pci,
              ElementsAre(PciNode{.kind = PciKind::kRoot, .address = "0000:00", .parent = 0},
                          PciNode{.kind = PciKind::kGpu, .address = "0000:00:02.0"},
                          PciNode{.kind = PciKind::kNic, .address = "0000:00:14.3"},
                          PciNode{.kind = PciKind::kNic, .address = "0000:01:00.0", .bridges = 1}));
  EXPECT_THAT(
      host.nics,
      ElementsAre(
          NicInfo{.name = "enp1s0", .speed_mbps = 1000, .pci_path = "0000:01:00.0", .up = false},
          NicInfo{.name = "wlp0s20f3",
                  .pci_path = "0000:00:14.3",
                  .addresses = {"192.0.2.7"},
                  .up = true}));
}

TEST(FixtureMachines, NicsOfTwoSocketsHaveNodesOfTheirOwn) {
  const HostInfo host = fixture_host("two-sockets-two-nics");
  ASSERT_EQ(host.numa_nodes.size(), 2U);
  EXPECT_THAT(host.numa_nodes[1].cpus,
              ElementsAre(CpuRange{.first = 4, .last = 7}, CpuRange{.first = 12, .last = 15}));
  EXPECT_THAT(
      host.pci,
      ElementsAre(
          PciNode{.kind = PciKind::kRoot, .address = "0000:17", .parent = 0, .numa_node = 0},
          PciNode{.kind = PciKind::kNic, .address = "0000:18:00.0", .parent = 0, .bridges = 1},
          PciNode{.kind = PciKind::kRoot, .address = "0000:97", .parent = 2, .numa_node = 1},
          PciNode{.kind = PciKind::kNic, .address = "0000:98:00.0", .parent = 2, .bridges = 1}));
  EXPECT_THAT(host.nics, ElementsAre(NicInfo{.name = "eth0",
                                             .speed_mbps = 100000,
                                             .numa_node = 0,
                                             .pci_path = "0000:18:00.0",
                                             .addresses = {"10.0.0.1", "fe80::1"},
                                             .up = true},
                                     NicInfo{.name = "eth1",
                                             .speed_mbps = 100000,
                                             .numa_node = 1,
                                             .pci_path = "0000:98:00.0",
                                             .addresses = {"10.0.1.1", "fe80::2"},
                                             .up = true}));
}

TEST(FixtureMachines, SwitchesStayWherePathsPart) {
  const HostInfo host = fixture_host("hgx");
  ASSERT_EQ(host.pci.size(), 26U) << "5 roots, 4 switches, 8 GPUs, 9 NICs; the console is no GPU";
  EXPECT_EQ(host.pci[1],
            (PciNode{.kind = PciKind::kNic, .address = "0000:03:00.0", .parent = 0, .bridges = 1}));
  EXPECT_EQ(host.pci[2],
            (PciNode{.kind = PciKind::kRoot, .address = "0000:15", .parent = 2, .numa_node = 0}));
  EXPECT_EQ(
      host.pci[3],
      (PciNode{.kind = PciKind::kBridge, .address = "0000:16:00.0", .parent = 2, .bridges = 1}));
  EXPECT_EQ(host.pci[4],
            (PciNode{.kind = PciKind::kGpu, .address = "0000:18:00.0", .parent = 3, .bridges = 1}));
  EXPECT_EQ(host.nics.size(), 9U);
}

TEST(FixtureMachines, WhatAFileDoesNotTellIsUnknown) {
  const HostInfo host = fixture_host("cloud");
  ASSERT_EQ(host.pci.size(), 4U) << "a NIC without an interface is one, too";
  EXPECT_FALSE(host.pci[0].numa_node);
  ASSERT_EQ(host.nics.size(), 2U);
  EXPECT_EQ(host.nics[0].up, true);
  EXPECT_FALSE(host.nics[1].up.has_value()) << "unknown, not down";
  for (const NicInfo& nic : host.nics) {
    EXPECT_FALSE(nic.speed_mbps);
    EXPECT_FALSE(nic.numa_node);
  }
}

TEST(FixtureMachines, TravelInFewBytes) {
  const Topology topology = test::fixture_topology("hgx", 1, 8);
  const auto bytes = encode_report({.rank = topology.ranks[0], .host = topology.hosts[0]});
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  RecordProperty("bytes", static_cast<int>(bytes->size()));
  EXPECT_LT(bytes->size(), 3072U) << "2 sockets, 8 GPUs, 9 NICs";
  const auto back = decode_report(*bytes);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->host, topology.hosts[0]);
  EXPECT_EQ(back->rank.device_pci, "0000:18:00.0");
}

std::string text_of(const std::string& fixture) {
  std::ifstream file(test::fixture_path(fixture));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class MachineFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "weft-machine-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  /// What reading a file of this text answers.
  std::string complaint(std::string_view text) {
    const fs::path path = root_ / "machine.xml";
    std::ofstream(path) << text;
    const Result<HostInfo> host = import_host(path.string(), "");
    if (host) return "accepted";
    const std::string said = host.error().to_string();
    EXPECT_THAT(said, HasSubstr(path.string()));
    return said;
  }
  fs::path root_;
};

TEST_F(MachineFiles, AnExportIsReadAsItWas) {
  const std::vector<NicInfo> nics = fixture_host("two-sockets-two-nics").nics;
  const Machine machine = parse_machine(text_of("two-sockets-two-nics")).value();
  std::vector<NicInfo> changed = nics;
  changed[0].name = "none";
  const Result<std::string> text = export_machine(machine, changed);
  ASSERT_TRUE(text) << text.error().to_string();
  const Result<Machine> again = parse_machine(*text);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(machine_nics(*again), nics);
  EXPECT_EQ(machine_name(*again), "twin");
  HostInfo first;
  HostInfo second;
  describe_machine(machine, first);
  describe_machine(*again, second);
  EXPECT_EQ(first, second);
}

TEST_F(MachineFiles, ExportAddsWhatHwlocDoesNotTell) {
  const Machine machine = parse_machine(text_of("cloud")).value();
  const std::vector<NicInfo> known = {{.name = "eth1", .speed_mbps = 25000, .up = false}};
  const std::string text = export_machine(machine, known).value();
  const std::vector<NicInfo> nics = machine_nics(parse_machine(text).value());
  ASSERT_EQ(nics.size(), 2U);
  EXPECT_EQ(nics[1].speed_mbps, 25000U);
  EXPECT_EQ(nics[1].up, false);
  EXPECT_FALSE(nics[0].speed_mbps);
}

TEST_F(MachineFiles, ThisMachineCanBeExported) {
  const std::string path = (root_ / "here.xml").string();
  const Status written = export_host(path);
  ASSERT_TRUE(written) << written.error().to_string();
  const Result<HostInfo> here = discover_host("h");
  const Result<HostInfo> read = discover_host("h", {.hwloc_xml = path});
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->cores, here->cores);
  EXPECT_EQ(read->numa_nodes, here->numa_nodes);
  EXPECT_EQ(read->pci.size(), here->pci.size());
  const Status refused = export_host((root_ / "no" / "folder.xml").string());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("no/folder.xml"));
}

TEST_F(MachineFiles, NamesWhatIsWrongAndWhere) {
  EXPECT_THAT(complaint(""), HasSubstr("holds no element"));
  EXPECT_THAT(complaint("no XML at all"), HasSubstr("holds no element"));
  EXPECT_THAT(complaint("<topology>\n<object>\n</topology>"),
              HasSubstr("line 3: the file closes an element that is not open"));
  EXPECT_THAT(complaint("<topology><object/>"), HasSubstr("ends before <topology> is closed"));
  EXPECT_THAT(complaint("<topology><object name=\"a>"), HasSubstr("ends within an element"));
  EXPECT_THAT(complaint("<topology><object <object/></topology>"), HasSubstr("is not ended"));
  EXPECT_THAT(complaint("<?xml version=\"<t>\"?><t/>"), HasSubstr("header that is not ended"));
  EXPECT_THAT(complaint("<a/><b/>"), HasSubstr("second outermost element"));
  EXPECT_THAT(complaint("<a><!-- b --></a>"), HasSubstr("something else than elements"));
  EXPECT_THAT(complaint("<!DOCTYPE t [<!ENTITY a \"b\">]><t/>"),
              HasSubstr("declares things of its own"));
  EXPECT_THAT(complaint(std::string("<t>\0</t>", 8)), HasSubstr("zero bytes"));
  EXPECT_THAT(complaint("<topology version=\"2.0\"></topology>"), HasSubstr("hwloc"));
  EXPECT_THAT(complaint("<html><body>404</body></html>"), HasSubstr("hwloc"));
}

TEST_F(MachineFiles, SurvivesWhatHwlocDiesOf) {
  // Found by fuzzing: hwloc 2.9 takes for granted that all processors have this. Others may refuse
  // it, or not mind.
  const std::string attribute = " complete_cpuset=\"0x00000008\"";
  std::string text = text_of("laptop");
  const std::size_t at = text.rfind(attribute);
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(complaint(text.erase(at, attribute.size())),
              testing::AnyOf(HasSubstr("hwloc"), HasSubstr("accepted")));
}

TEST_F(MachineFiles, HoldsFilesToTheirLimits) {
  std::string deep;
  for (std::size_t i = 0; i <= kMaxXmlDepth; ++i)
    deep += "<object>";
  EXPECT_THAT(complaint(deep), HasSubstr("nested deeper than 64"));
  std::string many = "<topology>";
  for (std::size_t i = 0; i <= kMaxXmlElements; ++i)
    many += "<a/>";
  EXPECT_THAT(complaint(many), HasSubstr("more than 262144 elements"));
  EXPECT_THAT(complaint(std::string(kMaxXmlBytes + 5, ' ')), HasSubstr("16777216 are allowed"));
  EXPECT_THAT(import_host(root_.string(), "").error().to_string(), HasSubstr("is no regular file"));
}

TEST(PciTree, PruningKeepsWhatPartsPaths) {
  // A root over two bridges: one leads nowhere, the other to a bridge with a NIC and a GPU.
  const std::vector<PciNode> all = {{.kind = PciKind::kRoot, .address = "r", .parent = 0},
                                    {.kind = PciKind::kBridge, .address = "none", .parent = 0},
                                    {.kind = PciKind::kBridge, .address = "only", .parent = 0},
                                    {.kind = PciKind::kBridge, .address = "fork", .parent = 2},
                                    {.kind = PciKind::kNic, .address = "n", .parent = 3},
                                    {.kind = PciKind::kBridge, .address = "port", .parent = 3},
                                    {.kind = PciKind::kGpu, .address = "g", .parent = 5},
                                    {.kind = PciKind::kRoot, .address = "empty", .parent = 7}};
  const std::vector<PciNode> kept = prune(all);
  EXPECT_THAT(
      kept,
      ElementsAre(PciNode{.kind = PciKind::kRoot, .address = "r", .parent = 0},
                  PciNode{.kind = PciKind::kBridge, .address = "fork", .parent = 0, .bridges = 1},
                  PciNode{.kind = PciKind::kNic, .address = "n", .parent = 1},
                  PciNode{.kind = PciKind::kGpu, .address = "g", .parent = 1, .bridges = 1}));
  EXPECT_TRUE(is_forest(kept));
  EXPECT_THAT(prune({}), IsEmpty());
}

TEST(PciTree, KnowsAForest) {
  const PciNode root{.kind = PciKind::kRoot, .address = "r", .parent = 0};
  const auto node = [](PciKind kind, std::uint32_t parent) {
    return PciNode{.kind = kind, .address = "x", .parent = parent};
  };
  EXPECT_TRUE(is_forest({}));
  EXPECT_TRUE(is_forest({root, node(PciKind::kBridge, 0), node(PciKind::kNic, 1)}));
  EXPECT_FALSE(is_forest({node(PciKind::kNic, 0)})) << "its own parent";
  EXPECT_FALSE(is_forest({root, node(PciKind::kNic, 2), node(PciKind::kBridge, 0)}));
  EXPECT_FALSE(is_forest({root, node(PciKind::kNic, 0), node(PciKind::kNic, 1)}));
  EXPECT_FALSE(is_forest({root, node(PciKind::kRoot, 0)}));
}

}  // namespace
}  // namespace weft
