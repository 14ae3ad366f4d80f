// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Encoders, decoders and proofs of the net-socket wire.
#include "wire.h"

#include <algorithm>
#include <cstring>
#include <sodium.h>

namespace weft::net_socket {
namespace {

constexpr uint32_t kHeaderMagic = 0x4d534657;     // "WFSM"
constexpr uint32_t kHelloMagic = 0x48534657;      // "WFSH"
constexpr uint32_t kChallengeMagic = 0x43534657;  // "WFSC"
constexpr uint32_t kProofMagic = 0x50534657;      // "WFSP"
constexpr uint32_t kHandleMagic = 0x4c534657;     // "WFSL"
constexpr uint32_t kVersion = 1;
constexpr size_t kHandleFixedBytes = 28;
constexpr size_t kHandleAddressBytes = 20;

/// Writes numbers and bytes one after the other.
class Writer {
 public:
  explicit Writer(uint8_t* at) : at_(at) {}
  template <class Number>
  Writer& number(Number value) {
    for (size_t i = 0; i < sizeof(Number); ++i) {
      *at_++ = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
    }
    return *this;
  }
  Writer& bytes(std::span<const uint8_t> value) {
    at_ = std::ranges::copy(value, at_).out;
    return *this;
  }

 private:
  uint8_t* at_;
};

/// Reads them back; its user has checked the length.
class Reader {
 public:
  explicit Reader(const uint8_t* at) : at_(at) {}
  template <class Number>
  Number number() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Number); ++i)
      value |= uint64_t{*at_++} << (8 * i);
    return static_cast<Number>(value);
  }
  template <size_t kSize>
  std::array<uint8_t, kSize> bytes() {
    std::array<uint8_t, kSize> value;
    std::copy_n(at_, kSize, value.begin());
    at_ += kSize;
    return value;
  }

 private:
  const uint8_t* at_;
};

}  // namespace

std::array<uint8_t, kHeaderBytes> encode(const Header& header) {
  std::array<uint8_t, kHeaderBytes> out{};
  Writer(out.data())
      .number(kHeaderMagic)
      .number(header.sequence)
      .number(header.tag)
      .number(header.stripes)
      .number(header.size)
      .number(header.value);
  return out;
}

std::array<uint8_t, kHelloBytes> encode(const Hello& hello) {
  std::array<uint8_t, kHelloBytes> out{};
  Writer(out.data())
      .number(kHelloMagic)
      .number(kVersion)
      .number(hello.stream)
      .number(hello.streams)
      .number(hello.stripe)
      .bytes(hello.token)
      .bytes(hello.connection)
      .bytes(hello.nonce);
  return out;
}

std::array<uint8_t, kChallengeBytes> encode(const Challenge& challenge) {
  std::array<uint8_t, kChallengeBytes> out{};
  Writer(out.data())
      .number(kChallengeMagic)
      .number(kVersion)
      .bytes(challenge.nonce)
      .bytes(challenge.proof);
  return out;
}

std::array<uint8_t, kProofBytes> encode_proof(const Mac& proof) {
  std::array<uint8_t, kProofBytes> out{};
  Writer(out.data()).number(kProofMagic).number(kVersion).bytes(proof);
  return out;
}

std::vector<uint8_t> encode(const Handle& handle) {
  std::vector<uint8_t> out(kHandleFixedBytes + handle.addresses.size() * kHandleAddressBytes);
  Writer writer(out.data());
  writer.number(kHandleMagic)
      .number(kVersion)
      .number(static_cast<uint32_t>(handle.addresses.size()))
      .bytes(handle.token);
  for (const WireAddress& address : handle.addresses) {
    writer.number(address.family).number(address.port).bytes(address.bytes);
  }
  return out;
}

std::optional<Header> decode_header(std::span<const uint8_t, kHeaderBytes> bytes, uint32_t streams,
                                    uint64_t stripe) {
  Reader reader(bytes.data());
  if (reader.number<uint32_t>() != kHeaderMagic) return std::nullopt;
  Header header;
  header.sequence = reader.number<uint32_t>();
  header.tag = reader.number<uint32_t>();
  header.stripes = reader.number<uint32_t>();
  header.size = reader.number<uint64_t>();
  header.value = reader.number<uint64_t>();
  if (header.size > kMaxMessage) return std::nullopt;
  if (header.stripes != stripes_of(header.size, streams, stripe)) return std::nullopt;
  return header;
}

std::optional<Hello> decode_hello(std::span<const uint8_t, kHelloBytes> bytes) {
  Reader reader(bytes.data());
  if (reader.number<uint32_t>() != kHelloMagic) return std::nullopt;
  if (reader.number<uint32_t>() != kVersion) return std::nullopt;
  Hello hello;
  hello.stream = reader.number<uint16_t>();
  hello.streams = reader.number<uint16_t>();
  hello.stripe = reader.number<uint32_t>();
  hello.token = reader.bytes<16>();
  hello.connection = reader.bytes<16>();
  hello.nonce = reader.bytes<32>();
  if (hello.streams < 1 || hello.streams > kMaxStreams) return std::nullopt;
  if (hello.stream >= hello.streams) return std::nullopt;
  if (hello.stripe < kMinStripe || hello.stripe > kMaxStripe) return std::nullopt;
  return hello;
}

std::optional<Challenge> decode_challenge(std::span<const uint8_t, kChallengeBytes> bytes) {
  Reader reader(bytes.data());
  if (reader.number<uint32_t>() != kChallengeMagic) return std::nullopt;
  if (reader.number<uint32_t>() != kVersion) return std::nullopt;
  Challenge challenge;
  challenge.nonce = reader.bytes<32>();
  challenge.proof = reader.bytes<32>();
  return challenge;
}

std::optional<Mac> decode_proof(std::span<const uint8_t, kProofBytes> bytes) {
  Reader reader(bytes.data());
  if (reader.number<uint32_t>() != kProofMagic) return std::nullopt;
  if (reader.number<uint32_t>() != kVersion) return std::nullopt;
  return reader.bytes<32>();
}

std::optional<Handle> decode_handle(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHandleFixedBytes) return std::nullopt;
  Reader reader(bytes.data());
  if (reader.number<uint32_t>() != kHandleMagic) return std::nullopt;
  if (reader.number<uint32_t>() != kVersion) return std::nullopt;
  const auto count = reader.number<uint32_t>();
  if (count < 1 || count > kMaxHandleAddresses) return std::nullopt;
  if (bytes.size() != kHandleFixedBytes + count * kHandleAddressBytes) return std::nullopt;
  Handle handle{.token = reader.bytes<16>(), .addresses = {}};
  for (uint32_t i = 0; i < count; ++i) {
    WireAddress address;
    address.family = reader.number<uint16_t>();
    address.port = reader.number<uint16_t>();
    address.bytes = reader.bytes<16>();
    if ((address.family != 4 && address.family != 6) || address.port == 0) return std::nullopt;
    handle.addresses.push_back(address);
  }
  return handle;
}

uint32_t stripes_of(uint64_t size, uint32_t streams, uint64_t stripe) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(size / stripe, 1, streams));
}

Share share_of(uint64_t size, uint32_t stripes, uint32_t stream) {
  if (stream >= stripes) return {};
  constexpr uint64_t kLine = 64;
  const uint64_t even = (size + stripes - 1) / stripes;
  const uint64_t part = (even + kLine - 1) / kLine * kLine;
  const uint64_t begin = std::min(size, part * stream);
  return {.offset = begin, .size = std::min(size - begin, part)};
}

Mac prove(std::span<const uint8_t> key, Role role, const Hello& hello,
          const Nonce& receiver_nonce) {
  // The hash takes keys of up to 64 bytes: a key of any size becomes one of 32 first.
  Mac short_key;
  crypto_generichash(short_key.data(), short_key.size(), key.data(), key.size(), nullptr, 0);
  constexpr std::array<uint8_t, 16> kReceiverLabel = {'w', 'e', 'f', 't', '-', 's', 'o', 'c',
                                                      'k', '-', 'r', 'e', 'c', 'v', '-', '1'};
  constexpr std::array<uint8_t, 16> kSenderLabel = {'w', 'e', 'f', 't', '-', 's', 'o', 'c',
                                                    'k', '-', 's', 'e', 'n', 'd', '-', '1'};
  const auto& label = role == Role::kReceiver ? kReceiverLabel : kSenderLabel;
  const auto said = encode(hello);
  crypto_generichash_state state;
  crypto_generichash_init(&state, short_key.data(), short_key.size(), sizeof(Mac));
  crypto_generichash_update(&state, label.data(), label.size());
  crypto_generichash_update(&state, said.data(), said.size());
  crypto_generichash_update(&state, receiver_nonce.data(), receiver_nonce.size());
  Mac mac;
  crypto_generichash_final(&state, mac.data(), mac.size());
  sodium_memzero(short_key.data(), short_key.size());
  return mac;
}

bool same(const Mac& a, const Mac& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}
bool same(const Token& a, const Token& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace weft::net_socket
