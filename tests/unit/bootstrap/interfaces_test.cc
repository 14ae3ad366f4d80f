// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The rule that selects network interfaces, as a pure function.

#include "core/bootstrap/interfaces.h"

#include <netinet/in.h>

#include <gtest/gtest.h>

namespace weft {
namespace {

const std::vector<InterfaceAddress> kHost{
    {.name = "lo", .address = *SocketAddress::parse("127.0.0.1", 0), .up = true, .loopback = true},
    {.name = "docker0", .address = *SocketAddress::parse("172.17.0.1", 0)},
    {.name = "eth0", .address = *SocketAddress::parse("10.0.0.1", 0)},
    {.name = "eth0", .address = *SocketAddress::parse("fd00::1", 0)},
    {.name = "eth01", .address = *SocketAddress::parse("10.1.0.1", 0)},
    {.name = "eth2", .address = *SocketAddress::parse("10.2.0.1", 0), .up = false},
};

std::string picked(const std::vector<std::string>& selection) {
  const auto chosen = select_interfaces(kHost, selection);
  if (!chosen) return "error";
  std::string text;
  for (const auto& entry : *chosen) {
    text += entry.name + " ";
  }
  return text;
}

TEST(Interfaces, AreSelectedByPrefixExactNameAndExclusion) {
  EXPECT_EQ(picked({}), "docker0 eth0 eth0 eth01 ");
  EXPECT_EQ(picked({"eth"}), "eth0 eth0 eth01 ");
  EXPECT_EQ(picked({"=eth0"}), "eth0 eth0 ");
  EXPECT_EQ(picked({"^docker"}), "eth0 eth0 eth01 ");
  EXPECT_EQ(picked({"^=eth0"}), "docker0 eth01 ");
  EXPECT_EQ(picked({"^eth0"}), "docker0 ");
  EXPECT_EQ(picked({"eth", "^=eth01"}), "eth0 eth0 ");
  EXPECT_EQ(picked({"=lo", "docker"}), "docker0 lo ");
  EXPECT_EQ(picked({"lo"}), "lo ");
  EXPECT_EQ(picked({"^eth", "^docker"}), "lo ");
}

TEST(Interfaces, ASelectionThatMatchesNothingListsWhatExists) {
  const std::vector<std::string> selection{"=ib0", "eth2"};
  const auto chosen = select_interfaces(kHost, selection);
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code(), WEFT_ERROR_CONFIG);
  EXPECT_EQ(chosen.error().what(),
            "bootstrap.interfaces [=ib0, eth2] matches no interface that is up; this host has: "
            "lo (127.0.0.1), docker0 (172.17.0.1), eth0 (10.0.0.1), eth0 (fd00::1), eth01 "
            "(10.1.0.1), eth2 (10.2.0.1, down)");
  for (const char* empty : {"", "^", "=", "^="}) {
    EXPECT_EQ(picked({empty}), "error");
  }
}

TEST(Interfaces, LoopbackServesWhenThereIsNothingElse) {
  const auto chosen = select_interfaces(std::span(kHost).first(1), {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->front().name, "lo");
  EXPECT_FALSE(select_interfaces({}, {}));
}

TEST(Interfaces, ThoseOfThisHostAreListed) {
  const auto all = list_interfaces();
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->empty());
  for (const auto& entry : *all) {
    EXPECT_FALSE(entry.address.family == SocketAddress::Family::kV6 &&
                 entry.address.is_link_local());
  }
}

TEST(SocketAddress, PrintsAndParses) {
  EXPECT_EQ(SocketAddress::parse("10.0.0.1", 80)->to_string(), "10.0.0.1:80");
  EXPECT_EQ(SocketAddress::parse("fd00::1", 80)->to_string(), "[fd00::1]:80");
  EXPECT_FALSE(SocketAddress::parse("host", 80));
  EXPECT_TRUE(SocketAddress::parse("127.0.1.1", 0)->is_loopback());
  EXPECT_FALSE(SocketAddress::parse("127.0.1.1", 0)->is_this_host());
  EXPECT_TRUE(SocketAddress::parse("127.0.0.1", 0)->is_this_host());
  EXPECT_TRUE(SocketAddress::parse("::1", 0)->is_this_host());
  EXPECT_TRUE(SocketAddress::parse("fe80::1", 0)->is_link_local());
  sockaddr_storage native{};
  const auto address = *SocketAddress::parse("fd00::1", 80);
  EXPECT_EQ(address.to_native(native), sizeof(sockaddr_in6));
  EXPECT_EQ(SocketAddress::from_native(reinterpret_cast<sockaddr*>(&native)), address);
}

}  // namespace
}  // namespace weft
