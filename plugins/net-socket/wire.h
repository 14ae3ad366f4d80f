// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The bytes that net-socket puts on a wire, and how they are read back: pure functions over byte
// arrays, without a socket. What they read is not trusted: each decoder answers "not ours" instead
// of a value it could not vouch for.
//
// A connection is one to sixteen TCP streams from sender to receiver. Each stream begins with
//   sender -> receiver  Hello      who I am, which stream of how many, a nonce
//   receiver -> sender  Challenge  my nonce, and a proof that I hold the key
//   sender -> receiver  Proof      that I hold the key as well
// and then carries messages one way. Stream 0 carries the header of each message and its first
// share of the payload; the other streams carry their shares and nothing else, in the same order.
// Which share is whose follows from the header alone. All numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::net_socket {

inline constexpr uint32_t kMaxStreams = 16;
/// The longest message; a header that claims more is refused before anything is made of it.
inline constexpr uint64_t kMaxMessage = uint64_t{1} << 40;
/// The least that a stream may carry of a striped message, and what it must be a multiple of.
inline constexpr uint64_t kMinStripe = 4096;
inline constexpr uint64_t kMaxStripe = uint64_t{1} << 30;

inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kHelloBytes = 80;
inline constexpr size_t kChallengeBytes = 72;
inline constexpr size_t kProofBytes = 40;
inline constexpr size_t kMaxHandleAddresses = 4;

using Token = std::array<uint8_t, 16>;
using Nonce = std::array<uint8_t, 32>;
using Mac = std::array<uint8_t, 32>;

/// Goes before the payload of each message.
struct Header {
  uint32_t sequence = 0;  ///< Counts the messages of the connection, modulo 2^32.
  uint32_t tag = 0;
  uint32_t stripes = 1;  ///< Streams that share the payload.
  uint64_t size = 0;     ///< Bytes of payload.
  uint64_t value = 0;
  bool operator==(const Header&) const = default;
};

/// First words of the sender on each stream.
struct Hello {
  uint16_t stream = 0;
  uint16_t streams = 1;
  uint32_t stripe = kMinStripe;  ///< Least share of a stream, bytes: both ends use the sender's.
  Token token{};                 ///< Of the listener: lets it tell a stranger cheaply.
  Token connection{};            ///< Joins the streams of one connection.
  Nonce nonce{};
  bool operator==(const Hello&) const = default;
};

/// The receiver's answer.
struct Challenge {
  Nonce nonce{};
  Mac proof{};
  bool operator==(const Challenge&) const = default;
};

/// One place where a listener waits.
struct WireAddress {
  uint16_t family = 4;  ///< 4 or 6
  uint16_t port = 0;
  std::array<uint8_t, 16> bytes{};  ///< Network order; IPv4 uses the first four.
  bool operator==(const WireAddress&) const = default;
};

/// What travels from the listener to the sender by the host.
struct Handle {
  Token token{};
  std::vector<WireAddress> addresses;
  bool operator==(const Handle&) const = default;
};

std::array<uint8_t, kHeaderBytes> encode(const Header& header);
std::array<uint8_t, kHelloBytes> encode(const Hello& hello);
std::array<uint8_t, kChallengeBytes> encode(const Challenge& challenge);
std::array<uint8_t, kProofBytes> encode_proof(const Mac& proof);
std::vector<uint8_t> encode(const Handle& handle);

/// Nothing if the bytes are no header, its size is over kMaxMessage or its stripes do not follow
/// from its size by the rule below.
std::optional<Header> decode_header(std::span<const uint8_t, kHeaderBytes> bytes, uint32_t streams,
                                    uint64_t stripe);
std::optional<Hello> decode_hello(std::span<const uint8_t, kHelloBytes> bytes);
std::optional<Challenge> decode_challenge(std::span<const uint8_t, kChallengeBytes> bytes);
std::optional<Mac> decode_proof(std::span<const uint8_t, kProofBytes> bytes);
std::optional<Handle> decode_handle(std::span<const uint8_t> bytes);

/// How many streams share a message: as many as can have `stripe` bytes each, at least one.
uint32_t stripes_of(uint64_t size, uint32_t streams, uint64_t stripe);

/// A stretch of a message's payload.
struct Share {
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// What stream `stream` carries of a message: equal, contiguous shares in the order of the
/// streams, cut at cache lines; nothing for streams at and beyond `stripes`.
Share share_of(uint64_t size, uint32_t stripes, uint32_t stream);

/// Who proves that it holds the key.
enum class Role : uint8_t { kReceiver, kSender };

/// A keyed hash over all that both ends said on this stream; `key` has any size.
Mac prove(std::span<const uint8_t> key, Role role, const Hello& hello, const Nonce& receiver_nonce);

/// Compares in constant time.
bool same(const Mac& a, const Mac& b);
bool same(const Token& a, const Token& b);

}  // namespace weft::net_socket
