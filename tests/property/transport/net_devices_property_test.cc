// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Devices of edges over any hosts: what travelled gives the same, a device is one that was offered,
// networks that do not reach each other are not paired, and channels use all equal NICs.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/topology/codec.h"
#include "core/transport/net_devices.h"
#include "core/transport/offer_codec.h"
#include "tests/support/random_topology.h"

namespace weft {
namespace {

using test::pick;

constexpr const char* kRandomNet = "net";

std::vector<PluginOffer> offers_of(std::vector<OfferedDevice> devices) {
  return {{.id = kRandomNet,
           .version = "1",
           .kind = PluginKind::kNet,
           .unusable = {},
           .devices = std::move(devices)}};
}

template <typename T>
void shuffle(std::vector<T>& list) {
  for (std::size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[pick(0, static_cast<std::uint32_t>(i))]);
}

/// Some of the NICs of each rank's host, and some that are none; addresses in four networks.
ChoiceInput random_input(Topology& topology) {
  std::uint32_t number = 1;
  for (HostInfo& host : topology.hosts) {
    for (NicInfo& nic : host.nics) {
      if (nic.loopback || nic.addresses.empty()) continue;
      nic.addresses = {fmt::format("10.0.{}.{}", pick(0, 4), number++)};
      if (pick(0, 4) != 0) nic.prefixes = {24};
    }
  }
  ChoiceInput input;
  input.topology = &topology;
  for (const RankInfo& rank : topology.ranks) {
    std::vector<OfferedDevice> devices;
    for (const NicInfo& nic : topology.hosts[rank.host].nics) {
      if (pick(0, 6) != 0) devices.push_back({.name = nic.name, .fabric_id = pick(0, 8) / 6});
    }
    for (std::uint32_t i = pick(0, 3); i > 0; --i)
      devices.push_back({.name = fmt::format("other{}", i)});
    shuffle(devices);
    if (devices.size() > kMaxOfferedDevices) devices.resize(kMaxOfferedDevices);
    input.offers.push_back(offers_of(std::move(devices)));
  }
  return input;
}

ChoiceInput travelled(const ChoiceInput& input, const Topology& topology) {
  ChoiceInput there;
  there.topology = &topology;
  for (const auto& offers : input.offers) {
    std::vector<TravellingOffer> mine;
    for (const PluginOffer& offer : offers)
      mine.push_back({.offer = offer, .peer_info = {}});
    there.offers.emplace_back();
    auto decoded = decode_offers(encode_offers(mine)).value();
    for (TravellingOffer& item : decoded)
      there.offers.back().push_back(std::move(item.offer));
  }
  return there;
}

RC_GTEST_PROP(NetDevicesProperty, AreAlikeOnAllRanksAndOffered, ()) {
  Topology topology = test::random_topology();
  const ChoiceInput input = random_input(topology);
  const Topology topology_there = decode(encode(topology).value()).value();
  const ChoiceInput there = travelled(input, topology_there);
  for (std::uint32_t from = 0; from < topology.rank_count(); ++from) {
    for (std::uint32_t to = 0; to < topology.rank_count(); ++to) {
      if (from == to) continue;
      for (const std::uint32_t channel : {0U, 1U, 2U, 5U, kPairChannel}) {
        const NetEdge edge{.channel = channel, .from = from, .to = to};
        const DevicePair pair = choose_devices(input, kRandomNet, edge);
        RC_ASSERT(pair == choose_devices(there, kRandomNet, edge));
        const auto& mine = input.offers[from][0].devices;
        const auto& theirs = input.offers[to][0].devices;
        RC_ASSERT(pair.from < std::max<std::size_t>(1, mine.size()));
        RC_ASSERT(pair.to < std::max<std::size_t>(1, theirs.size()));
        if (pair == DevicePair{} || topology.same_host(from, to)) continue;
        // Not the way out: so they may reach each other.
        const auto nic_of = [&](std::uint32_t rank, const OfferedDevice& device) {
          const auto& nics = topology.hosts[topology.ranks[rank].host].nics;
          const auto nic = std::ranges::find(nics, device.name, &NicInfo::name);
          return nic == nics.end() ? NicInfo{} : *nic;
        };
        const NicInfo a = nic_of(from, mine[pair.from]);
        const NicInfo b = nic_of(to, theirs[pair.to]);
        const std::uint64_t a_fabric = mine[pair.from].fabric_id;
        const std::uint64_t b_fabric = theirs[pair.to].fabric_id;
        RC_ASSERT(a_fabric == 0 || b_fabric == 0 || a_fabric == b_fabric);
        if (a.prefixes.empty() || b.prefixes.empty()) continue;
        const auto network = [](const NicInfo& nic) {
          return nic.addresses[0].substr(0, nic.addresses[0].rfind('.'));
        };
        RC_ASSERT(network(a) == network(b));
      }
    }
  }
}

// Two hosts with equal NICs in any order, among others that are worse, in one network or in one
// for each rail.
RC_GTEST_PROP(NetDevicesProperty, ChannelsUseAllEqualNics, ()) {
  const auto rails = pick(1, 9);
  const bool one_network = *rc::gen::arbitrary<bool>();
  Topology topology;
  ChoiceInput input;
  for (std::uint32_t number = 0; number < 2; ++number) {
    HostInfo host{.host_id = fmt::format("host-{}", number)};
    std::vector<std::uint32_t> networks(rails);
    std::iota(networks.begin(), networks.end(), 0U);
    shuffle(networks);
    for (std::uint32_t rail = 0; rail < rails; ++rail) {
      host.nics.push_back({.name = fmt::format("eth{}", rail),
                           .speed_mbps = 100000,
                           .addresses = {fmt::format("10.0.{}.{}", one_network ? 0 : networks[rail],
                                                     1 + 16 * number + rail)},
                           .prefixes = {24},
                           .up = true});
    }
    NicInfo worse = host.nics.back();
    worse.name = "management";
    worse.speed_mbps = 1000;
    host.nics.push_back(worse);
    worse = host.nics.front();
    worse.name = "bridge";
    worse.is_virtual = true;
    host.nics.push_back(worse);
    std::vector<OfferedDevice> devices;
    for (const NicInfo& nic : host.nics)
      devices.push_back({.name = nic.name});
    shuffle(devices);
    input.offers.push_back(offers_of(std::move(devices)));
    topology.ranks.push_back({.rank = number, .host = number, .process = {}, .cpus = {}});
    topology.hosts.push_back(std::move(host));
  }
  input.topology = &topology;
  const auto channels = rails + pick(0, 5);
  for (const std::uint32_t from : {0U, 1U}) {
    std::set<std::string> out;
    std::set<std::string> in;
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      const DevicePair pair =
          choose_devices(input, kRandomNet, {.channel = channel, .from = from, .to = 1 - from});
      out.insert(input.offers[from][0].devices[pair.from].name);
      in.insert(input.offers[1 - from][0].devices[pair.to].name);
    }
    RC_ASSERT(out.size() == rails && in.size() == rails);
    RC_ASSERT(!out.contains("management") && !out.contains("bridge"));
    RC_ASSERT(!in.contains("management") && !in.contains("bridge"));
  }
}

}  // namespace
}  // namespace weft
