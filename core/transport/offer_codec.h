// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How offers and answers travel between ranks: as documents, decoded with every field checked,
// since a peer's bytes are not trusted.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/transport/choice.h"

namespace weft {

/// One plugin of one rank, with what its peers' plugins must know of that rank.
struct TravellingOffer {
  PluginOffer offer;
  std::vector<std::byte> peer_info;
};

using Answers = std::map<std::string, ReachAnswers, std::less<>>;

[[nodiscard]] std::vector<std::byte> encode_offers(std::span<const TravellingOffer> offers);
/// At most kMaxPlugins offers, each of at most kMaxOfferedDevices devices with names of 256 bytes,
/// peer infos of at most 64 KiB, texts of at most 4 KiB: what is longer of reasons, devices and
/// their names is cut by encode_offers. Texts come out without control characters.
[[nodiscard]] Result<std::vector<TravellingOffer>> decode_offers(std::span<const std::byte> bytes);

[[nodiscard]] std::vector<std::byte> encode_answers(const Answers& answers);
/// Each plugin must have exactly one answer for each of `ranks` ranks.
[[nodiscard]] Result<Answers> decode_answers(std::span<const std::byte> bytes, std::uint32_t ranks);

/// The blobs of one rank's connection ends, by the number of the connection.
using ConnectionBlobs = std::map<std::uint64_t, std::vector<std::byte>>;

[[nodiscard]] std::vector<std::byte> encode_blobs(const ConnectionBlobs& blobs);
[[nodiscard]] Result<ConnectionBlobs> decode_blobs(std::span<const std::byte> bytes);

/// What a rank tells of its buffer to those with which a transport joins it. Its bytes are the
/// plugin's own.
struct BufferOffer {
  std::string plugin;
  std::uint64_t allocation_id = 0;
  std::uint64_t generation = 0;
  std::uint64_t offset = 0;
  std::vector<std::byte> blob;

  bool operator==(const BufferOffer&) const = default;
};

/// The same to all.
struct BufferOffers {
  std::uint64_t bytes = 0;
  std::string refusal;  ///< Why it cannot be reached by some; then there are no offers.
  std::vector<BufferOffer> offers;

  bool operator==(const BufferOffers&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode_buffer_offers(const BufferOffers& offers);
/// As decode_offers.
[[nodiscard]] Result<BufferOffers> decode_buffer_offers(std::span<const std::byte> bytes);

}  // namespace weft
