// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines of 128 bytes are taken where each device that stores them was asked about each that gets
// them, by all ranks alike.
#include "core/comm/whole_lines.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

/// GPUs of one host, by the last part of their addresses.
std::string gpu_address(std::uint32_t number) {
  return "0000:" + std::to_string(10 + number) + ":00.0";
}

/// A rank on a GPU of a host, whose process sees some.
struct SeeingRank {
  std::uint32_t host = 0;
  std::uint32_t gpu = 0;
  std::vector<std::uint32_t> sees{};
  std::uint32_t line_bytes = 128;
};

std::uint32_t line_bytes_among(const std::vector<SeeingRank>& seeing) {
  Topology topology;
  std::vector<Hello> hellos;
  for (const SeeingRank& rank : seeing) {
    while (topology.hosts.size() <= rank.host)
      topology.hosts.push_back({.host_id = "host-" + std::to_string(topology.hosts.size())});
    RankInfo info;
    info.rank = topology.rank_count();
    info.host = rank.host;
    info.device_pci = gpu_address(rank.gpu);
    topology.ranks.push_back(std::move(info));
    Hello& hello = hellos.emplace_back();
    hello.line_bytes = rank.line_bytes;
    for (const std::uint32_t gpu : rank.sees) {
      if (gpu != rank.gpu) hello.line_peers.push_back(gpu_address(gpu));
    }
  }
  return common_line_bytes(topology, hellos);
}

TEST(WholeLines, AreThereWhereEachProcessSeesAllGpus) {
  const std::vector<std::uint32_t> all = {0, 1, 2};
  EXPECT_EQ(line_bytes_among({{.gpu = 0, .sees = all}, {.gpu = 1, .sees = all}}), 128U);
  EXPECT_EQ(
      line_bytes_among({{.gpu = 0, .sees = all}, {.gpu = 1, .sees = all}, {.gpu = 2, .sees = all}}),
      128U);
  EXPECT_EQ(line_bytes_among({{.gpu = 0, .sees = all}}), 128U);
}

// What joins 0 and 2 may be PCIe, though NVLink joins 0 with 1 and 2 with 3.
TEST(WholeLines, AreNotThereBetweenGpusThatNoProcessSeesTogether) {
  EXPECT_EQ(line_bytes_among({{.gpu = 0, .sees = {0, 1}},
                              {.gpu = 1, .sees = {0, 1}},
                              {.gpu = 2, .sees = {2, 3}},
                              {.gpu = 3, .sees = {2, 3}}}),
            8U);
  EXPECT_EQ(line_bytes_among({{.gpu = 0, .sees = {0, 1}}, {.gpu = 2, .sees = {2, 3}}}), 8U);
}

// Either may store.
TEST(WholeLines, AreAskedAboutBothWays) {
  EXPECT_EQ(line_bytes_among({{.gpu = 0, .sees = {0, 1}}, {.gpu = 1, .sees = {1, 2}}}), 8U);
  EXPECT_EQ(line_bytes_among({{.gpu = 1, .sees = {1, 2}}, {.gpu = 0, .sees = {0, 1}}}), 8U);
}

TEST(WholeLines, AreThereOnOneGpuThatVouchesForOthers) {
  EXPECT_EQ(line_bytes_among({{.gpu = 0, .sees = {0, 1}}, {.gpu = 0, .sees = {0, 2}}}), 128U);
}

TEST(WholeLines, AreAsLongAsTheLeastOfAll) {
  EXPECT_EQ(
      line_bytes_among({{.gpu = 0, .sees = {0, 1}}, {.gpu = 1, .sees = {0, 1}, .line_bytes = 8}}),
      8U);
}

// The same address on another host is another device.
TEST(WholeLines, AreNotAskedAboutByAddressesOfAnotherHost) {
  const std::vector<std::uint32_t> both = {0, 1};
  EXPECT_EQ(line_bytes_among({{.host = 0, .gpu = 0, .sees = both},
                              {.host = 0, .gpu = 1, .sees = both},
                              {.host = 1, .gpu = 2, .sees = {2, 3}},
                              {.host = 1, .gpu = 3, .sees = {2, 3}}}),
            128U);
  EXPECT_EQ(line_bytes_among({{.host = 0, .gpu = 0, .sees = both},
                              {.host = 1, .gpu = 0, .sees = both},
                              {.host = 1, .gpu = 2, .sees = {2, 0}}}),
            8U);
}

TEST(WholeLines, AreNotThereForDevicesWithoutAnAddress) {
  Topology topology;
  topology.hosts.push_back({.host_id = "host"});
  topology.ranks.resize(2);
  topology.ranks[1].rank = 1;
  std::vector<Hello> hellos(2);
  for (Hello& hello : hellos) {
    hello.line_bytes = 128;
    hello.line_peers = {""};
  }
  EXPECT_EQ(common_line_bytes(topology, hellos), 8U);
}

/// Stands for a GPU whose memory others reach, and whose process sees some.
class SeeingDevice : public device::HostDevice {
 public:
  SeeingDevice(std::uint32_t gpu, const std::vector<std::uint32_t>& sees)
      : address_(gpu_address(gpu)) {
    for (const std::uint32_t peer : sees)
      peers_.push_back(gpu_address(peer));
  }
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return address_; }
  [[nodiscard]] std::uint32_t line_bytes() const override { return 128; }
  [[nodiscard]] std::span<const std::string> line_peers() const override { return peers_; }

 private:
  const std::string address_;
  std::vector<std::string> peers_;
};

/// What each of two ranks, on GPUs 0 and 2, says of an all-reduce by LL128, joined by memory of
/// these: the protocol, or why not.
std::vector<std::string> protocols_of_two(const std::vector<std::uint32_t>& first_sees,
                                          const std::vector<std::uint32_t>& second_sees) {
  auto context = Context::create("", test::environment_with({{"WEFT_TRANSPORTS_ORDER", "p2p"},
                                                             {"WEFT_TIMEOUTS_OPERATION", "10s"}}));
  if (!context) return {context.error().to_string()};
  SeeingDevice devices[] = {{0, first_sees}, {2, second_sees}};
  const auto id = (*context)->serve_rendezvous((*context)->config());
  if (!id) return {id.error().to_string()};
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto joined =
          Communicator::join(**context, (*context)->config(), *id, rank, 2, devices[rank]);
      if (!joined) {
        said[rank] = joined.error().to_string();
        return;
      }
      const auto plan = (*joined)->plan({.operation = Operation::kAllReduce,
                                         .type = WEFT_FLOAT32,
                                         .count = 1000,
                                         .options = {.protocol = Protocol::kLL128}});
      said[rank] = plan ? std::string(protocol_name((*plan)->protocol)) : plan.error().to_string();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return said;
}

TEST(WholeLines, ArePlannedByWhatRanksTellEachOther) {
  for (const std::string& said : protocols_of_two({2}, {0}))
    EXPECT_EQ(said, "ll128");
  for (const std::string& said : protocols_of_two({1}, {3})) {
    EXPECT_THAT(said, HasSubstr("nobody knows that lines of 128 bytes arrive whole"));
  }
}

}  // namespace
}  // namespace weft
