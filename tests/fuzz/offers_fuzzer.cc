// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a peer as offers, answers and blobs of connections: whatever is let through keeps its
// bounds and comes back the same when it is sent on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "core/transport/offer_codec.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool same(const weft::TravellingOffer& a, const weft::TravellingOffer& b) {
  return a.offer.id == b.offer.id && a.offer.version == b.offer.version &&
         a.offer.kind == b.offer.kind && a.offer.unusable == b.offer.unusable &&
         a.offer.devices == b.offer.devices && a.peer_info == b.peer_info;
}

bool printable(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto offers = weft::decode_offers(bytes)) {
    const auto back = weft::decode_offers(weft::encode_offers(*offers));
    require(back && std::ranges::equal(*back, *offers, same));
    for (const auto& item : *offers) {
      require(printable(item.offer.id + item.offer.version + item.offer.unusable));
      require(item.offer.devices.size() <= weft::kMaxOfferedDevices);
      for (const auto& device : item.offer.devices)
        require(printable(device.name));
    }
  }
  for (const std::uint32_t ranks : {1U, 2U, 4U}) {
    const auto answers = weft::decode_answers(bytes, ranks);
    if (!answers) continue;
    for (const auto& [id, list] : *answers)
      require(list.size() == ranks);
    require(weft::decode_answers(weft::encode_answers(*answers), ranks).has_value());
  }
  if (const auto buffers = weft::decode_buffer_offers(bytes)) {
    const auto back = weft::decode_buffer_offers(weft::encode_buffer_offers(*buffers));
    require(back && *back == *buffers);
  }
  if (const auto blobs = weft::decode_blobs(bytes)) {
    require(weft::decode_blobs(weft::encode_blobs(*blobs)) == *blobs);
  }
  return 0;
}
