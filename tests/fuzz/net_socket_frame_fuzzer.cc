// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Feeds what a peer or a stranger could send to the decoders of net-socket: none may crash, and
// what they let through must keep its promises.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "plugins/net-socket/wire.h"

namespace {

using namespace weft::net_socket;

void require(bool holds) {
  if (!holds) std::abort();
}

template <std::size_t Size, class Decode>
void decode(std::span<const std::uint8_t> bytes, Decode&& decoder) {
  if (bytes.size() >= Size) decoder(bytes.first<Size>());
}

void check_header(std::span<const std::uint8_t, kHeaderBytes> bytes) {
  for (const std::uint32_t streams : {1U, 3U, kMaxStreams}) {
    const auto header = decode_header(bytes, streams, kMinStripe);
    if (!header) continue;
    require(header->size <= kMaxMessage && header->stripes >= 1 && header->stripes <= streams);
    std::uint64_t covered = 0;
    for (std::uint32_t i = 0; i < streams; ++i) {
      const Share share = share_of(header->size, header->stripes, i);
      require(share.size == 0 || share.offset == covered);
      covered += share.size;
    }
    require(covered == header->size);
    require(decode_header(encode(*header), streams, kMinStripe) == header);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  decode<kHeaderBytes>(bytes, check_header);
  decode<kHelloBytes>(bytes, [](auto all) {
    const auto hello = decode_hello(all);
    require(!hello || decode_hello(encode(*hello)) == hello);
    require(!hello || (hello->stream < hello->streams && hello->streams <= kMaxStreams));
  });
  decode<kChallengeBytes>(bytes, [](auto all) {
    const auto challenge = decode_challenge(all);
    require(!challenge || decode_challenge(encode(*challenge)) == challenge);
  });
  decode<kProofBytes>(bytes, [](auto all) {
    const auto proof = decode_proof(all);
    require(!proof || decode_proof(encode_proof(*proof)) == proof);
  });
  const auto handle = decode_handle(bytes);
  require(!handle || decode_handle(encode(*handle)) == handle);
  return 0;
}
