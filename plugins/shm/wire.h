// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What two ends of shm say to each other, over the bootstrap (peer information, blobs) and over the
// Unix socket that hands out the memory (hello, request, grant). All of it is plain data without
// padding, between processes of one host, and carries a hash keyed with the communicator's secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "plugins/common/process_identity.h"
#include "plugins/common/segment.h"

namespace weft::shm {

using plugins::Nonce;
using Mac = std::array<std::uint8_t, 32>;

/// The secret of the communicator and this transport; wiped when it goes.
class Key {
 public:
  Key() = default;
  explicit Key(std::span<const std::uint8_t> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  Key(Key&&) = default;
  Key& operator=(Key&&) = default;
  ~Key();

  /// Keyed hash of all parts, one after the other.
  [[nodiscard]] Mac sign(std::initializer_list<std::span<const std::byte>> parts) const;
  /// Compares in constant time.
  [[nodiscard]] bool verify(const Mac& mac,
                            std::initializer_list<std::span<const std::byte>> parts) const;

 private:
  std::vector<std::uint8_t> bytes_;
};

/// What a rank tells all others.
struct PeerInfo {
  std::uint64_t magic = 0;
  std::uint64_t rank = 0;
  plugins::ProcessIdentity process;
  std::uint64_t network_namespace = 0;
  std::uint64_t user_namespace = 0;
  std::uint64_t user = 0;
  std::uint64_t probe_address = 0;  ///< Where `probe` lies in that process.
  Nonce probe{};
  Mac host_hash{};              ///< Of the whole host id.
  std::array<char, 64> host{};  ///< Its beginning, for people.
  Mac mac{};
};

/// What one end of a connection tells the other.
struct Blob {
  std::uint64_t magic = 0;
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;
  std::uint32_t direction = 0;
  std::array<plugins::ProtocolSpec, plugins::kMaxProtocols> protocols{};
  plugins::ProcessIdentity process;
  Nonce socket{};   ///< Where the receiving end hands out its memory.
  Nonce segment{};  ///< Which memory.
  Mac mac{};
};

/// First, from the one who has the memory.
struct Hello {
  std::uint64_t magic = 0;
  Nonce nonce{};
};

/// From the one who wants it. The hash covers the hello's nonce too.
struct Request {
  std::uint64_t magic = 0;
  std::uint64_t rank = 0;
  Nonce nonce{};
  Nonce segment{};
  Mac mac{};
};

/// With the descriptor. The hash covers both nonces too.
struct Grant {
  std::uint64_t magic = 0;
  Nonce segment{};
  Mac mac{};
};

inline constexpr std::uint64_t kPeerInfoMagic = UINT64_C(0x3149504d48535457);  // "WTSHMPI1"
inline constexpr std::uint64_t kBlobMagic = UINT64_C(0x31424c4d48535457);      // "WTSHMLB1"
inline constexpr std::uint64_t kHelloMagic = UINT64_C(0x31454c4d48535457);     // "WTSHMLE1"
inline constexpr std::uint64_t kRequestMagic = UINT64_C(0x3151524d48535457);   // "WTSHMRQ1"
inline constexpr std::uint64_t kGrantMagic = UINT64_C(0x3152474d48535457);     // "WTSHMGR1"

static_assert(std::has_unique_object_representations_v<PeerInfo>);
static_assert(std::has_unique_object_representations_v<Blob>);
static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<Request>);
static_assert(std::has_unique_object_representations_v<Grant>);

/// The bytes of a message before its hash, which comes last.
template <class Message>
std::span<const std::byte> signed_part(const Message& message) {
  static_assert(offsetof(Message, mac) + sizeof(Mac) == sizeof(Message));
  return std::as_bytes(std::span(&message, 1)).first(offsetof(Message, mac));
}

}  // namespace weft::shm
