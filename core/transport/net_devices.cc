// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/net_devices.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/network.h"
#include "core/topology/paths.h"

namespace weft {
namespace {

/// An address and the network it lies in.
struct Interface {
  IpAddress address;
  int prefix = 0;
};

/// What all know of one device at one end of an edge.
struct Device {
  std::uint32_t index = 0;
  const OfferedDevice* offered = nullptr;
  const NicInfo* nic = nullptr;  // null: the host has none of that name
  Path path = Path::kUnknown;
  std::uint32_t speed_mbps = 0;  // 0: unknown
  std::optional<std::uint32_t> rail{};
  std::vector<Interface> interfaces{};  // those whose networks tell who can be reached
};

/// One end of an edge.
struct End {
  std::vector<Device> devices;
  std::vector<std::size_t> rails{};  // which of the devices they are
};

enum class Reach : std::uint8_t { kKnown = 0, kPossible = 1, kNone = 2 };

const PluginOffer* find_offer(const ChoiceInput& input, std::string_view plugin,
                              std::uint32_t rank) {
  const auto found = std::ranges::find(input.offers[rank], plugin, &PluginOffer::id);
  return found == input.offers[rank].end() ? nullptr : &*found;
}

bool same_bits(const IpAddress& a, const IpAddress& b, int bits) {
  for (std::size_t i = 0; i < a.bytes.size() && bits > 0; ++i, bits -= 8) {
    const int differing = a.bytes[i] ^ b.bytes[i];
    if ((bits >= 8 ? differing : differing >> (8 - bits)) != 0) return false;
  }
  return true;
}

/// Networks that exist on every link, and those of a single address, tell nothing.
bool tells_network(const Interface& interface) {
  const auto& bytes = interface.address.bytes;
  if (interface.prefix <= 0) return false;
  if (!interface.address.v6) {
    return interface.prefix < 32 && bytes[0] != 127 && !(bytes[0] == 169 && bytes[1] == 254);
  }
  return interface.prefix < 128 && !(bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80);
}

std::vector<Interface> interfaces_of(const NicInfo& nic) {
  std::vector<Interface> interfaces;
  for (std::size_t i = 0; i < std::min(nic.addresses.size(), nic.prefixes.size()); ++i) {
    const auto address = parse_address(nic.addresses[i]);
    if (!address) continue;
    const Interface interface{.address = *address, .prefix = nic.prefixes[i]};
    if (tells_network(interface)) interfaces.push_back(interface);
  }
  return interfaces;
}

/// What one family of addresses says: nothing where an end has none of it.
std::optional<bool> share_network(const Device& a, const Device& b, bool v6) {
  bool told = false;
  bool shared = false;
  for (const Interface& one : a.interfaces) {
    for (const Interface& other : b.interfaces) {
      if (one.address.v6 != v6 || other.address.v6 != v6) continue;
      told = true;
      // Bridges of container hosts have one address everywhere, and join nothing.
      if (one.address == other.address) return false;
      shared |= one.prefix == other.prefix && same_bits(one.address, other.address, one.prefix);
    }
  }
  return told ? std::optional(shared) : std::nullopt;
}

bool addresses_known(const Device& device) {
  return device.nic != nullptr && !device.nic->addresses.empty() && !device.nic->prefixes.empty();
}

Reach reach_of(const Device& a, const Device& b, bool same_host) {
  if (a.offered->fabric_id != 0 && b.offered->fabric_id != 0 &&
      a.offered->fabric_id != b.offered->fabric_id) {
    return Reach::kNone;
  }
  if (same_host && a.offered->name == b.offered->name) return Reach::kKnown;
  const std::optional<bool> v4 = share_network(a, b, false);
  const std::optional<bool> v6 = share_network(a, b, true);
  // Nobody tells which family the plugin uses.
  if (v4 == false || v6 == false) return Reach::kNone;
  if (v4 || v6) return Reach::kKnown;
  return addresses_known(a) && addresses_known(b) ? Reach::kNone : Reach::kPossible;
}

/// Takes out what `unwanted` says, unless that is everything.
template <typename Predicate>
void prefer(std::vector<Device>& devices, Predicate unwanted) {
  if (!std::ranges::all_of(devices, unwanted)) std::erase_if(devices, unwanted);
}

End end_of(const ChoiceInput& input, const PluginOffer& offer, std::uint32_t rank) {
  const Topology& topology = *input.topology;
  const HostInfo& host = topology.hosts[topology.ranks[rank].host];
  End end;
  for (const OfferedDevice& offered : offer.devices) {
    Device device{.index = static_cast<std::uint32_t>(end.devices.size()), .offered = &offered};
    const auto nic = std::ranges::find(host.nics, offered.name, &NicInfo::name);
    if (nic != host.nics.end()) {
      device.nic = &*nic;
      device.path =
          path_to_nic(topology, rank, static_cast<std::uint32_t>(nic - host.nics.begin()));
      device.speed_mbps = nic->speed_mbps.value_or(0);
      device.interfaces = interfaces_of(*nic);
    }
    end.devices.push_back(std::move(device));
  }
  const auto is = [](const Device& device, auto what) {
    return device.nic != nullptr && what(*device.nic);
  };
  prefer(end.devices, [&](const Device& device) {
    return is(device, [](const NicInfo& nic) { return nic.up == false; });
  });
  prefer(end.devices, [&](const Device& device) {
    return is(device, [](const NicInfo& nic) { return nic.loopback; });
  });
  prefer(end.devices, [&](const Device& device) {
    return is(device, [](const NicInfo& nic) { return nic.is_virtual; });
  });

  std::uint32_t fastest = 0;
  for (const Device& device : end.devices)
    fastest = std::max(fastest, device.speed_mbps);
  for (std::size_t i = 0; i < end.devices.size(); ++i) {
    if (end.devices[i].speed_mbps == fastest) end.rails.push_back(i);
  }
  // As rails() orders them; names decide where places are unknown.
  std::ranges::stable_sort(end.rails, {}, [&](std::size_t i) {
    const Device& device = end.devices[i];
    return std::pair<std::string_view, std::string_view>(
        device.nic != nullptr ? std::string_view(device.nic->pci_path) : std::string_view(),
        device.offered->name);
  });
  for (std::uint32_t rail = 0; rail < end.rails.size(); ++rail)
    end.devices[end.rails[rail]].rail = rail;
  return end;
}

/// Whether each rail of one end reaches that of the same number at the other: else their numbers
/// mean nothing.
bool rails_match(const End& from, const End& to, bool same_host) {
  if (from.rails.size() != to.rails.size()) return false;
  for (std::size_t rail = 0; rail < from.rails.size(); ++rail) {
    const Device& a = from.devices[from.rails[rail]];
    const Device& b = to.devices[to.rails[rail]];
    if (reach_of(a, b, same_host) == Reach::kNone) return false;
  }
  return true;
}

/// All pairs than which none is better.
std::vector<DevicePair> best_pairs(const End& from, const End& to, bool same_host) {
  using Cost = std::tuple<Reach, std::int64_t, bool, int, Path>;
  std::vector<DevicePair> best;
  std::optional<Cost> least;
  const bool by_rail = rails_match(from, to, same_host);
  for (const Device& a : from.devices) {
    for (const Device& b : to.devices) {
      const Reach reach = reach_of(a, b, same_host);
      if (reach == Reach::kNone) continue;
      const bool crosses = by_rail && (!a.rail || a.rail != b.rail);
      const Cost cost(reach, -static_cast<std::int64_t>(std::min(a.speed_mbps, b.speed_mbps)),
                      crosses, static_cast<int>(a.path) + static_cast<int>(b.path), a.path);
      if (least && *least < cost) continue;
      if (!least || cost < *least) best.clear();
      least = cost;
      best.push_back({.from = a.index, .to = b.index});
    }
  }
  return best;
}

/// The `turn`-th of a sequence that goes round all `pairs` and comes to each device as soon and as
/// often as to the others.
DevicePair take_turn(const std::vector<DevicePair>& pairs, std::uint64_t turn) {
  std::array<std::uint32_t, kMaxOfferedDevices> sent{};
  std::array<std::uint32_t, kMaxOfferedDevices> received{};
  DevicePair taken;
  for (std::uint64_t i = 0; i <= turn % pairs.size(); ++i) {
    taken = *std::ranges::min_element(pairs, {}, [&](const DevicePair& pair) {
      return sent.at(pair.from) + received.at(pair.to);
    });
    ++sent.at(taken.from);
    ++received.at(taken.to);
  }
  return taken;
}

/// How many ranks stand before `rank` on its host.
std::uint64_t place_on_host(const Topology& topology, std::uint32_t rank) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(topology.ranks, [&](const RankInfo& other) {
        return other.rank < rank && other.host == topology.ranks[rank].host;
      }));
}

/// The number's last bits in reverse, as many as numbers below `places` have: neighbours lie far
/// apart, so that the next few places of one are not those of another.
std::size_t spread_apart(std::uint32_t number, std::size_t places) {
  std::size_t reversed = 0;
  for (std::size_t rest = places - 1; rest > 0; rest >>= 1U, number >>= 1U)
    reversed = reversed << 1U | (number & 1U);
  return reversed;
}

std::string name_of(const ChoiceInput& input, std::string_view plugin, std::uint32_t rank,
                    std::uint32_t device) {
  const PluginOffer* offer = find_offer(input, plugin, rank);
  if (offer == nullptr || device >= offer->devices.size()) return "its first device";
  return offer->devices[device].name;
}

}  // namespace

std::size_t port_of_channel(std::uint32_t channel, std::uint32_t peer, weft_direction direction,
                            std::size_t ports) {
  std::size_t turn = channel;
  if (is_of_inboxes(channel)) {
    turn = spread_apart(peer, ports) + inbox_stripe(channel);
  } else if (is_of_pairs(channel)) {
    turn = spread_apart(peer, ports) + channel - kPairChannel;
  } else if (channel >= kFirstSmallChannel) {
    turn = channel - kFirstSmallChannel;
  } else if (channel >= kFirstLL128Channel) {
    turn = channel - kFirstLL128Channel;
  } else if (channel >= kFirstLLChannel) {
    turn = channel - kFirstLLChannel;
  } else if (channel >= kFirstTreeChannel) {
    turn = channel - kFirstTreeChannel;
  }
  // What goes both ways at once has a thread for each.
  return (turn + (direction == WEFT_DIRECTION_RECV ? ports / 2 : 0)) % ports;
}

DevicePair choose_devices(const ChoiceInput& input, std::string_view plugin, const NetEdge& edge) {
  const PluginOffer* from = find_offer(input, plugin, edge.from);
  const PluginOffer* to = find_offer(input, plugin, edge.to);
  if (from == nullptr || to == nullptr) return {};
  if (from->devices.size() < 2 && to->devices.size() < 2) return {};
  const Topology& topology = *input.topology;
  const std::vector<DevicePair> pairs =
      best_pairs(end_of(input, *from, edge.from), end_of(input, *to, edge.to),
                 topology.same_host(edge.from, edge.to));
  if (pairs.empty()) return {};
  if (!is_of_pairs(edge.channel)) return take_turn(pairs, edge.channel);
  // One more for each sender, two less for each receiver: ranks that all send to the one so many
  // places on differ by one, and so do those that send to one rank, whatever the number of pairs.
  const std::uint64_t two_less = 2 * (pairs.size() - 1);
  return take_turn(pairs, edge.channel - kPairChannel + place_on_host(topology, edge.from) +
                              two_less * place_on_host(topology, edge.to));
}

std::string describe_devices(const ChoiceInput& input, std::string_view plugin,
                             std::span<const NetEdge> edges) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> channels;
  for (const NetEdge& edge : edges) {
    const DevicePair pair = choose_devices(input, plugin, edge);
    const std::uint32_t first = edge.channel < kFirstTreeChannel ? 0 : kFirstTreeChannel;
    channels[{pair.from, pair.to}].push_back(
        is_of_inboxes(edge.channel) ? inbox_stripe(edge.channel) : edge.channel - first);
  }
  const char* const of =
      !edges.empty() && is_of_inboxes(edges.front().channel) ? "in stripe" : "on channel";
  std::string text;
  for (const auto& [pair, list] : channels) {
    text += fmt::format("{}{} to {} {}{} {}", text.empty() ? "" : "; ",
                        name_of(input, plugin, edges.front().from, pair.first),
                        name_of(input, plugin, edges.front().to, pair.second), of,
                        list.size() == 1 ? "" : "s", fmt::join(list, ", "));
  }
  return text;
}

}  // namespace weft
