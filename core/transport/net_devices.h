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

#include "core/transport/choice.h"

namespace weft {

/// Rings have the channels of plans, 0 and more.
inline constexpr std::uint32_t kMostRingChannels = 64;
[[nodiscard]] constexpr bool is_of_rings(std::uint32_t channel) {
  return channel < kMostRingChannels;
}

/// The first channel of connections between two ranks that send to each other outside of rings;
/// their other channels follow.
inline constexpr std::uint32_t kPairChannel = 0xFF00;
inline constexpr std::uint32_t kMostPairChannels = 32;
/// After those the ones for small messages, whose slots are filled with lines of LL.
inline constexpr std::uint32_t kPairLineChannel = kPairChannel + kMostPairChannels;
inline constexpr std::uint32_t kMostPairLineChannels = 16;
/// And those of exchanges, where these have slots of their own.
inline constexpr std::uint32_t kExchangeChannel = kPairLineChannel + kMostPairLineChannels;
inline constexpr std::uint32_t kMostExchangeChannels = 64;
inline constexpr std::uint32_t kEndOfPairChannels = kExchangeChannel + kMostExchangeChannels;
[[nodiscard]] constexpr bool is_of_pairs(std::uint32_t channel) {
  return channel >= kPairChannel && channel < kEndOfPairChannels;
}
[[nodiscard]] constexpr bool is_of_pair_lines(std::uint32_t channel) {
  return channel >= kPairLineChannel && channel < kExchangeChannel;
}
[[nodiscard]] constexpr bool is_of_exchanges(std::uint32_t channel) {
  return channel >= kExchangeChannel && channel < kEndOfPairChannels;
}

/// The channel of trees' edges on channel 0 of a plan; those of its other channels follow.
inline constexpr std::uint32_t kFirstTreeChannel = 0x8000;

/// The same of rings' and trees' edges whose slots are filled with lines: of LL, and of LL128.
inline constexpr std::uint32_t kMostLineChannels = 64;
inline constexpr std::uint32_t kFirstLLChannel = 0x9000;
inline constexpr std::uint32_t kFirstLL128Channel = kFirstLLChannel + kMostLineChannels;
inline constexpr std::uint32_t kEndOfLineChannels = kFirstLL128Channel + kMostLineChannels;

/// The same of rings' and trees' edges with many small slots (Plan::small_slots).
inline constexpr std::uint32_t kMostSmallChannels = 64;
inline constexpr std::uint32_t kFirstSmallChannel = kEndOfLineChannels;

/// Stands for the channel of the inboxes in which ranks write to each other directly.
inline constexpr std::uint32_t kDirectChannel = 0xFFFF;

/// Which of this rank's `ports` (at least 1) to a net carries what it sends to rank `peer`, and
/// receives from it, on `channel`. Of this rank alone: the other end may have another number of
/// ports. Rings' channels take turns, whoever the peers are; partners of sends begin with another
/// port each, by bit reversal.
[[nodiscard]] std::size_t port_of_channel(std::uint32_t channel, std::uint32_t peer,
                                          std::size_t ports);

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
