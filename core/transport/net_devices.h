// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which devices of a net carry an edge: a pure function of what all ranks told each other, so both
// ends choose alike and anyone can print it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <plugin_api/transport.h>

#include "core/transport/channels.h"
#include "core/transport/choice.h"

namespace weft {

/// Which of this rank's `ports` (at least 1) to a net carries what it sends to rank `peer`, or
/// receives from it, on `channel`. Of this rank alone: the other end may have another number of
/// ports. Rings' channels take turns, whoever the peers are; partners of sends begin with another
/// port each, by bit reversal, by which inboxes have one, too. What is received comes half of the
/// ports further than what is sent, so that neither waits for the other.
[[nodiscard]] std::size_t port_of_channel(std::uint32_t channel, std::uint32_t peer,
                                          weft_direction direction, std::size_t ports);

/// One direction between two ranks on one channel.
struct NetEdge {
  std::uint32_t channel = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

/// The devices at both ends, as indices of what the plugin lists there.
struct DevicePair {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  friend bool operator==(const DevicePair&, const DevicePair&) = default;
};

/// The devices of net `plugin` that carry `edge`.
///
/// Of each end count the devices that are not known to be down; loopback and virtual ones only
/// where there are no others. What is known of a device is what its host's report says of the NIC
/// of that name. Two devices are a pair if they can reach each other: by their fabrics, and on
/// different hosts by a network that addresses of both lie in, or where a device's addresses are
/// not known. Of the pairs the best are taken: reach that is known before reach that is not, the
/// fastest, those of one rail (the same place among the fastest of each end, by PCI address, where
/// both ends have equally many and each reaches its like), the nearest to both ranks, the nearest
/// to the sender. Among the pairs that are left, channels take turns, so that they use all devices
/// evenly; connections of pairs of ranks take turns by their channel and by the ranks' places on
/// their hosts: also ranks that all send to the one so many places on use all devices. Where no
/// pair is left it is the first device of both, which is what the plugins prefer.
[[nodiscard]] DevicePair choose_devices(const ChoiceInput& input, std::string_view plugin,
                                        const NetEdge& edge);

/// "eth0 to eth2 on channels 0, 2; eth1 to eth3 on channel 1": what carries `edges` of rings or
/// trees, which all lead from the same rank to the same rank. Empty where there are none.
[[nodiscard]] std::string describe_devices(const ChoiceInput& input, std::string_view plugin,
                                           std::span<const NetEdge> edges);

}  // namespace weft
