// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The host's network interfaces as devices, and the choice among them.
#pragma once

#include <string>
#include <vector>

#include <plugin_api/net.h>

#include "options.h"
#include "socket.h"

namespace weft::net_socket {

/// Requests that a connection may have under way at once.
inline constexpr uint32_t kMaxRequests = 64;
/// Buffers of one grouped receive.
inline constexpr uint32_t kMaxReceives = 8;
/// What one TCP stream carries, megabits a second: the part of a receiving processor is the limit.
inline constexpr uint64_t kStreamMbps = 20'000;
/// Streams over an interface of unknown speed.
inline constexpr uint32_t kStreamsUnknown = 4;

/// One interface that is up and has an address.
struct Interface {
  std::string name;
  uint32_t index = 0;  ///< The kernel's.
  bool loopback = false;
  Address ipv4;       ///< Empty: none.
  Address ipv6;       ///< A link-local one only if there is no other.
  Address ipv4_mask;  ///< Of the network that it lies in; empty where that is not known.
  Address ipv6_mask;
  std::string pci_path;
  uint64_t speed_mbps = 0;
  uint64_t guid = 0;
  uint64_t fabric_id = 0;
  int32_t numa_node = -1;
};

/// Whether `other` lies in the network of the interface's address of that family. Of a link-local
/// one nobody knows: each link has that network.
[[nodiscard]] bool shares_network(const Interface& interface, const Address& other);

/// All interfaces of this network namespace that are up and have an address, in the order of their
/// indices.
Result<std::vector<Interface>> list_interfaces();

/**
 * The interfaces that `patterns` choose and that have an address of the family. `eth` stands for
 * all names that begin with it, `=eth0` for one name; with `^` before it, a pattern takes out what
 * the others chose. No positive pattern: all, loopback and the virtual bridges of container hosts
 * last. Nothing left: an error that lists what there is.
 */
Result<std::vector<Interface>> select_interfaces(std::vector<Interface> all,
                                                 const std::vector<std::string>& patterns,
                                                 Family family);

/**
 * How many TCP streams a connection over `interface` is worth, 1 to kMaxStreams. `local`: the
 * peer's address is one of this host. `processors`: those that this process may use.
 *
 * A stream more costs two calls a message, and brings something only where one stream is not all
 * that the path carries: the receiving host handles a stream on one processor at a time, which is
 * good for about kStreamMbps, and virtual networks, whose interfaces do not know their speed, limit
 * each stream.
 */
uint32_t streams_by_cost(const Interface& interface, bool local, uint32_t processors);

/// The ABI's description of each interface; its texts are those of `interfaces`.
std::vector<weft_net_device> describe(const std::vector<Interface>& interfaces);

}  // namespace weft::net_socket
