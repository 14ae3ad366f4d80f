// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The numbers of channels, by which two ranks tell their connections apart, and what they are for.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/inbox_message.h"
#include "core/model/tree_links.h"

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
/// And those for messages in steps of lines of LL128: so many that each of a rank's 64 CTAs has one
/// end of them, or of a header's, when it sends to one rank and receives from one.
inline constexpr std::uint32_t kPairWideChannel = kExchangeChannel + kMostExchangeChannels;
inline constexpr std::uint32_t kMostPairWideChannels = 31;
inline constexpr std::uint32_t kEndOfPairChannels = kPairWideChannel + kMostPairWideChannels;
[[nodiscard]] constexpr bool is_of_pairs(std::uint32_t channel) {
  return channel >= kPairChannel && channel < kEndOfPairChannels;
}
[[nodiscard]] constexpr bool is_of_pair_lines(std::uint32_t channel) {
  return channel >= kPairLineChannel && channel < kExchangeChannel;
}
[[nodiscard]] constexpr bool is_of_exchanges(std::uint32_t channel) {
  return channel >= kExchangeChannel && channel < kPairWideChannel;
}
[[nodiscard]] constexpr bool is_of_pair_wide_lines(std::uint32_t channel) {
  return channel >= kPairWideChannel && channel < kEndOfPairChannels;
}

/// The channel of trees' edges on channel 0 of a plan; those of its other channels follow.
inline constexpr std::uint32_t kFirstTreeChannel = 0x8000;
[[nodiscard]] constexpr bool is_of_trees(std::uint32_t channel) {
  return channel >= kFirstTreeChannel && channel < kFirstTreeChannel + kMostTreeChannels;
}

/// The same of rings' and trees' edges whose slots are filled with lines: of LL, and of LL128.
inline constexpr std::uint32_t kMostLineChannels = 64;
inline constexpr std::uint32_t kFirstLLChannel = 0x9000;
inline constexpr std::uint32_t kFirstLL128Channel = kFirstLLChannel + kMostLineChannels;
inline constexpr std::uint32_t kEndOfLineChannels = kFirstLL128Channel + kMostLineChannels;
/// Those, and the ones of small messages.
[[nodiscard]] constexpr bool is_of_lines(std::uint32_t channel) {
  return is_of_pair_lines(channel) || is_of_pair_wide_lines(channel) ||
         (channel >= kFirstLLChannel && channel < kEndOfLineChannels);
}

/// The same of rings' and trees' edges with many small slots (Plan::small_slots).
inline constexpr std::uint32_t kMostSmallChannels = 64;
inline constexpr std::uint32_t kFirstSmallChannel = kEndOfLineChannels;
[[nodiscard]] constexpr bool is_of_small_slots(std::uint32_t channel) {
  return channel >= kFirstSmallChannel && channel < kFirstSmallChannel + kMostSmallChannels;
}

/// Stands for the channel of the inboxes in which ranks write to each other directly. Where a net
/// joins two, messages between these may go in stripes, each by a connection of its own: those of
/// the others have the numbers below.
inline constexpr std::uint32_t kDirectChannel = 0xFFFF;
[[nodiscard]] constexpr std::uint32_t inbox_channel(std::uint32_t stripe) {
  return kDirectChannel - stripe;
}
[[nodiscard]] constexpr std::uint32_t inbox_stripe(std::uint32_t channel) {
  return kDirectChannel - channel;
}
[[nodiscard]] constexpr bool is_of_inboxes(std::uint32_t channel) {
  return channel <= kDirectChannel && inbox_stripe(channel) < kMostInboxStripes;
}

/// Whether two ranks may have a connection of that number.
[[nodiscard]] bool is_channel(std::uint32_t number);

/// What to say after the names of two ranks, but for rings and inboxes; empty of kPairChannel.
[[nodiscard]] std::string channel_text(std::uint32_t channel);

}  // namespace weft
