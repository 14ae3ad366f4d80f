// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Discovery, on made-up files and on the machine that runs the test.

#include "core/topology/discover.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <net/if.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/topology/codec.h"
#include "core/topology/cpu_limit.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

class FakeFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "weft-discover-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  /// A link at `path` to `target`, both below the root.
  void link(const std::string& path, const std::string& target) {
    fs::create_directories((root_ / path).parent_path());
    fs::create_directories(root_ / target);
    fs::create_symlink(root_ / target, root_ / path);
  }

  fs::path root_;
};

using FakeSysfs = FakeFiles;

TEST_F(FakeSysfs, DescribesAPciInterface) {
  const std::string device = "devices/pci0000:80/0000:80:01.0/0000:81:00.1";
  write(device + "/net/eth7/speed", "100000\n");
  write(device + "/numa_node", "1\n");
  link("class/net/eth7", device + "/net/eth7");
  link(device + "/net/eth7/device", device);
  const std::vector<InterfaceState> interfaces = {{.name = "eth7",
                                                   .flags = IFF_UP | IFF_RUNNING,
                                                   .addresses = {"10.1.2.3", "fd00::3"},
                                                   .prefixes = {24, 64}}};
  EXPECT_THAT(describe_nics(interfaces, root_.string()),
              ElementsAre(NicInfo{.name = "eth7",
                                  .speed_mbps = 100000,
                                  .numa_node = 1,
                                  .pci_path = "0000:81:00.1",
                                  .addresses = {"10.1.2.3", "fd00::3"},
                                  .prefixes = {24, 64},
                                  .up = true}));
}

TEST_F(FakeSysfs, FindsThePciDeviceAboveAVirtioDevice) {
  const std::string pci = "devices/pci0000:00/0000:00:03.0";
  write(pci + "/numa_node", "-1\n");
  write(pci + "/virtio2/net/eth0/speed", "-1\n");
  link("class/net/eth0", pci + "/virtio2/net/eth0");
  link(pci + "/virtio2/net/eth0/device", pci + "/virtio2");
  const std::vector<InterfaceState> interfaces = {{.name = "eth0", .flags = IFF_UP}};
  EXPECT_THAT(describe_nics(interfaces, root_.string()),
              ElementsAre(NicInfo{.name = "eth0", .pci_path = "0000:00:03.0", .up = false}));
}

TEST_F(FakeSysfs, TellsVirtualInterfacesAndSortsByName) {
  link("class/net/veth0", "devices/virtual/net/veth0");
  write("devices/virtual/net/veth0/speed", "10000\n");
  link("class/net/lo", "devices/virtual/net/lo");
  const std::vector<InterfaceState> interfaces = {
      {.name = "veth0", .flags = IFF_UP | IFF_RUNNING},
      {.name = "lo", .flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK}};
  EXPECT_THAT(
      describe_nics(interfaces, root_.string()),
      ElementsAre(NicInfo{.name = "lo", .up = true, .loopback = true, .is_virtual = true},
                  NicInfo{.name = "veth0", .speed_mbps = 10000, .up = true, .is_virtual = true}));
}

TEST_F(FakeSysfs, LeavesUnknownWhatIsMissingOrNonsense) {
  link("class/net/a", "devices/a");
  write("devices/a/speed", "fast\n");
  link("class/net/b", "devices/b");
  write("devices/b/speed", "4294967295\n");
  const std::vector<InterfaceState> interfaces = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  EXPECT_THAT(describe_nics(interfaces, root_.string()),
              ElementsAre(NicInfo{.name = "a", .up = false}, NicInfo{.name = "b", .up = false},
                          NicInfo{.name = "c", .up = false}));
  EXPECT_THAT(describe_nics(interfaces, "/nonexistent/sys"),
              ElementsAre(NicInfo{.name = "a", .up = false}, NicInfo{.name = "b", .up = false},
                          NicInfo{.name = "c", .up = false}));
}

TEST_F(FakeSysfs, TellsTheNumaNodesOfTrees) {
  write("bus/pci/devices/0000:81:00.0/numa_node", "1\n");
  write("bus/pci/devices/0000:03:00.0/numa_node", "-1\n");
  write("bus/pci/devices/0000:c1:00.0/numa_node", "0\n");
  std::vector<PciNode> pci = {
      {.kind = PciKind::kRoot, .address = "0000:80", .parent = 0},
      {.kind = PciKind::kBridge, .address = "0000:80:01.0", .parent = 0},
      {.kind = PciKind::kNic, .address = "0000:81:00.0", .parent = 1},
      {.kind = PciKind::kRoot, .address = "0000:00", .parent = 3},
      {.kind = PciKind::kNic, .address = "0000:03:00.0", .parent = 3},
      {.kind = PciKind::kRoot, .address = "0000:c0", .parent = 5, .numa_node = 2},
      {.kind = PciKind::kNic, .address = "0000:c1:00.0", .parent = 5},
  };
  ask_sysfs(root_.string(), pci);
  EXPECT_EQ(pci[0].numa_node, 1U);
  EXPECT_FALSE(pci[3].numa_node);
  EXPECT_EQ(pci[5].numa_node, 2U) << "hwloc said so already";
}

TEST(HostId, AcceptsPlainNamesOnly) {
  EXPECT_TRUE(check_host_id("rack-3.node_7"));
  EXPECT_TRUE(check_host_id(std::string(64, 'x')));
  for (const std::string& id : {std::string(), std::string(65, 'x'), std::string("a b"),
                                std::string("a/b"), std::string("h\xc3\xb6")}) {
    const Status status = check_host_id(id);
    ASSERT_FALSE(status) << id;
    EXPECT_EQ(status.error().code(), WEFT_ERROR_CONFIG);
    EXPECT_THAT(status.error().to_string(), HasSubstr("WEFT_HOST_ID"));
  }
  EXPECT_THAT(check_host_id("a\nb").error().to_string(), HasSubstr("\"a?b\""));
}

TEST(HostId, DependsOnBootNameAndNetworkNamespace) {
  const std::string id = derive_host_id("boot", "name", "net:[1]");
  EXPECT_THAT(id, MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(derive_host_id("boot", "name", "net:[1]"), id);
  EXPECT_NE(derive_host_id("boot2", "name", "net:[1]"), id);
  EXPECT_NE(derive_host_id("boot", "name2", "net:[1]"), id);
  EXPECT_NE(derive_host_id("boot", "name", "net:[2]"), id);
  EXPECT_NE(derive_host_id("bootn", "ame", "net:[1]"), id);
}

TEST_F(FakeFiles, HostIdentityComesFromProc) {
  write("sys/kernel/random/boot_id", "11111111-2222\n");
  fs::create_directories(root_ / "self/ns");
  fs::create_symlink("net:[7]", root_ / "self/ns/net");
  const DiscoverySources sources{.proc_root = root_.string()};
  const Result<HostInfo> host = discover_host("", sources);
  ASSERT_TRUE(host) << host.error().to_string();
  EXPECT_EQ(host->boot_id, "11111111-2222");
  EXPECT_EQ(host->host_id, derive_host_id("11111111-2222", host->host_name, "net:[7]"));
  EXPECT_EQ(discover_host("mine", sources).value().host_id, "mine");
  EXPECT_EQ(discover_host("not mine", sources).error().code(), WEFT_ERROR_CONFIG);
}

TEST_F(FakeFiles, AProcessIsKnownByItsStartTime) {
  std::string stat = "12 (a ) b) S";
  for (int field = 4; field < 22; ++field)
    stat += fmt::format(" {}", field);
  write("self/stat", stat + " 777 23 24\n");
  fs::create_directories(root_ / "self/ns");
  fs::create_symlink("pid:[9]", root_ / "self/ns/pid");
  const Result<RankInfo> rank =
      discover_process(HostInfo{.host_id = "h"}, "", {.proc_root = root_.string()});
  ASSERT_TRUE(rank) << rank.error().to_string();
  EXPECT_EQ(rank->process, "h/pid:[9]/" + std::to_string(getpid()) + "/777");
}

TEST_F(FakeFiles, ReadsProcessorsFromAnHwlocFile) {
  write("machine.xml", R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f"
          allowed_cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003"
          allowed_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
            nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
              nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3"
              local_memory="1073741824"/>
      <object type="L3Cache" cpuset="0x00000003" complete_cpuset="0x00000003"
              nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4"
              cache_size="8388608" depth="3" cache_linesize="64" cache_associativity="16"
              cache_type="0">
        <object type="Core" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
                nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5">
          <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
                  nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6"/>
          <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
                  nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c"
            nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c"
              nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9"
              local_memory="1073741824"/>
      <object type="Core" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c"
              nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="10">
        <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004"
                nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="11"/>
        <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008"
                nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="12"/>
      </object>
    </object>
  </object>
</topology>
)");
  const Result<HostInfo> host = discover_host("h", {.hwloc_xml = (root_ / "machine.xml").string()});
  ASSERT_TRUE(host) << host.error().to_string();
  EXPECT_EQ(host->packages, 2U);
  EXPECT_THAT(
      host->numa_nodes,
      ElementsAre(
          NumaNode{.number = 0, .memory_bytes = 1 << 30, .cpus = {{.first = 0, .last = 1}}},
          NumaNode{.number = 1, .memory_bytes = 1 << 30, .cpus = {{.first = 2, .last = 3}}}));
  EXPECT_TRUE(host->nics.empty()) << "this machine's interfaces are not that one's";
  EXPECT_EQ(host->cores, 2U);
  EXPECT_EQ(host->hardware_threads, 4U);
  EXPECT_EQ(host->memory_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(host->l2_bytes, 0U);
  EXPECT_EQ(host->l3_bytes, 8U << 20);
}

/// Control groups, and the line that tells which of them a process is in.
class FakeCgroups : public FakeFiles {
 protected:
  void lies_in(const std::string& lines) { write("proc/self/cgroup", lines); }
  [[nodiscard]] CpuLimit limit() const {
    return cpu_limit_of_process(
        {.sys_root = (root_ / "sys").string(), .proc_root = (root_ / "proc").string()});
  }
};

TEST_F(FakeCgroups, LeaveAllTimeWithoutALimit) {
  EXPECT_EQ(limit(), CpuLimit{}) << "no control groups";
  lies_in("0::/\n");
  EXPECT_EQ(limit(), CpuLimit{}) << "the root has no file";
  lies_in("0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(limit(), CpuLimit{});
  for (const char* nonsense : {"", "100000", "800000 0", "-1 100000", "a b"}) {
    write("sys/fs/cgroup/job/cpu.max", nonsense);
    EXPECT_EQ(limit(), CpuLimit{}) << nonsense;
  }
  // Whoever took such a line for one of a group would find these.
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  write("sys/fs/cgroup/job/cpu.max", "200000 100000\n");
  for (const char* nonsense : {"\n", ":\n", "::\n", "0:\n", "cpu\n"}) {
    lies_in(nonsense);
    EXPECT_EQ(limit(), CpuLimit{}) << nonsense;
  }
}

TEST_F(FakeCgroups, TheLeastLimitOnTheWayUpCounts) {
  lies_in("0::/pod/job\n");
  write("sys/fs/cgroup/pod/job/cpu.max", "850000 100000\n");
  EXPECT_EQ(limit(), (CpuLimit{.processors = 9, .group = "/pod/job"})) << "rounded up";
  write("sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
  EXPECT_EQ(limit(), (CpuLimit{.processors = 4, .group = "/pod"}));
  write("sys/fs/cgroup/pod/job/cpu.max", "1000 100000\n");
  EXPECT_EQ(limit(), (CpuLimit{.processors = 1, .group = "/pod/job"}));
}

TEST_F(FakeCgroups, OfContainersBeginWhereTheirMountDoes) {
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  for (const char* unseen : {"0::/\n", "0::/host/path/unseen\n", "0::/../../elsewhere\n"}) {
    lies_in(unseen);
    EXPECT_EQ(limit(), (CpuLimit{.processors = 2, .group = "/"})) << unseen;
  }
}

TEST_F(FakeCgroups, OfVersionOneCountAsWell) {
  lies_in("4:memory:/job\n3:cpuset,cpu:/job\n1:cpuacct:/job\n0::/job\n");
  write("sys/fs/cgroup/cpuset,cpu/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpuset,cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limit(), CpuLimit{});
  write("sys/fs/cgroup/cpuset,cpu/job/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(limit(), (CpuLimit{.processors = 2, .group = "/job"}));
  lies_in("3:cpuset:/job\n");
  EXPECT_EQ(limit(), CpuLimit{}) << "another controller";
}

TEST_F(FakeCgroups, LimitWhatAProcessTellsOfItself) {
  lies_in("0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  const DiscoverySources sources{.sys_root = (root_ / "sys").string(),
                                 .proc_root = (root_ / "proc").string()};
  const RankInfo rank = discover_process(HostInfo{}, "", sources).value();
  EXPECT_EQ(rank.cpu_limit, 1U);
  EXPECT_EQ(rank.cores, 1U);
  EXPECT_EQ(rank.cpu_group.size(), 16U);
  EXPECT_EQ(discover_process(HostInfo{}, "", sources).value().cpu_group, rank.cpu_group);
  lies_in("0::/job/other\n");
  EXPECT_EQ(discover_process(HostInfo{}, "", sources).value().cpu_group, rank.cpu_group)
      << "the limit is that of the group above";
  write("sys/fs/cgroup/job/other/cpu.max", "50000 100000\n");
  EXPECT_NE(discover_process(HostInfo{}, "", sources).value().cpu_group, rank.cpu_group)
      << "this one has less";
}

TEST_F(FakeFiles, ReportsAnUnreadableHwlocFile) {
  const std::string path = (root_ / "none.xml").string();
  const Result<HostInfo> host = discover_host("h", {.hwloc_xml = path});
  ASSERT_FALSE(host);
  EXPECT_THAT(host.error().to_string(), HasSubstr(path));
}

TEST(Discover, DescribesThisMachineSoThatPeersCanReadIt) {
  const Result<HostInfo> host = discover_host("");
  ASSERT_TRUE(host) << host.error().to_string();
  EXPECT_GE(host->cores, 1U);
  EXPECT_GE(host->hardware_threads, host->cores);
  EXPECT_EQ(host->host_id, discover_host("").value().host_id);
  const Result<RankInfo> rank = discover_process(*host, "");
  ASSERT_TRUE(rank) << rank.error().to_string();
  EXPECT_EQ(rank->pid, static_cast<std::uint64_t>(getpid()));
  EXPECT_GE(rank->cores, 1U);
  EXPECT_FALSE(rank->cpus.empty());
  EXPECT_EQ(*rank, discover_process(*host, "").value());
  const RankReport report{.rank = *rank, .host = *host};
  const auto bytes = encode_report(report);
  ASSERT_TRUE(bytes) << bytes.error().to_string();
  EXPECT_EQ(decode_report(*bytes).value(), report);
}

TEST(Discover, ListsInterfacesByName) {
  const auto interfaces = interface_states();
  ASSERT_TRUE(interfaces) << interfaces.error().to_string();
  EXPECT_TRUE(std::ranges::is_sorted(*interfaces, {}, &InterfaceState::name));
  for (const InterfaceState& interface : *interfaces) {
    ASSERT_EQ(interface.prefixes.size(), interface.addresses.size()) << interface.name;
    for (std::size_t i = 0; i < interface.addresses.size(); ++i) {
      const std::string& address = interface.addresses[i];
      if (address == "127.0.0.1") {
        EXPECT_EQ(interface.prefixes[i], 8);
      } else if (address == "::1") {
        EXPECT_EQ(interface.prefixes[i], 128);
      }
    }
  }
}

}  // namespace
}  // namespace weft
