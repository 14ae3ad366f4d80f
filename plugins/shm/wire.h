// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What two ends of shm say to each other over the bootstrap. All of it is plain data without
// padding, between processes of one host, and carries a hash keyed with the communicator's secret.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "plugins/common/key.h"
#include "plugins/common/process_identity.h"
#include "plugins/common/segment.h"

namespace weft::shm {

using plugins::Key;
using plugins::Mac;
using plugins::Nonce;
using plugins::signed_part;

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

inline constexpr std::uint64_t kPeerInfoMagic = UINT64_C(0x3149504d48535457);  // "WTSHMPI1"
inline constexpr std::uint64_t kBlobMagic = UINT64_C(0x31424c4d48535457);      // "WTSHMLB1"

static_assert(std::has_unique_object_representations_v<PeerInfo>);
static_assert(std::has_unique_object_representations_v<Blob>);

}  // namespace weft::shm
