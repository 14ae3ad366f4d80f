// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/channels.h"

#include <fmt/format.h>

namespace weft {

bool is_channel(std::uint32_t number) {
  return is_of_rings(number) || is_of_inboxes(number) || is_of_pairs(number) ||
         is_of_small_slots(number) || is_of_trees(number) || is_of_lines(number);
}

std::string channel_text(std::uint32_t channel) {
  if (channel == kPairChannel) return {};
  if (channel == kPairLineChannel) return " by lines";
  if (is_of_pair_lines(channel)) {
    return fmt::format(" by lines on channel {}", channel - kPairLineChannel);
  }
  if (is_of_pair_wide_lines(channel)) {
    return fmt::format(" by lines of 128 bytes on channel {}", channel - kPairWideChannel);
  }
  if (is_of_exchanges(channel)) {
    return fmt::format(" on channel {} of exchanges", channel - kExchangeChannel);
  }
  if (is_of_pairs(channel)) return fmt::format(" on channel {}", channel - kPairChannel);
  if (is_of_small_slots(channel)) {
    return fmt::format(" on channel {} by small slots", channel - kFirstSmallChannel);
  }
  if (!is_of_lines(channel)) return fmt::format(" in tree {}", channel - kFirstTreeChannel);
  return fmt::format(" on channel {} by lines", (channel - kFirstLLChannel) % kMostLineChannels);
}

}  // namespace weft
