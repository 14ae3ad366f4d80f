// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A buffer of each rank that all others reach: what a window is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <plugin_api/transport.h>

#include "core/base/error.h"

namespace weft {

/// Owns what transports made of the buffers, which it gives back to them. The buffers themselves
/// are their ranks'.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;
  ~SharedBuffer();

  /// By rank, as this one sees them, its own included; none where not all ranks reach all others.
  [[nodiscard]] std::span<std::byte* const> addresses() const { return addresses_; }
  /// Why they do not, alike on all ranks; empty where they do.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  friend class Connections;
  std::vector<std::byte*> addresses_;
  std::string refusal_;
  std::vector<std::function<void()>> releases_;  // in the order in which things were made
};

/// What a rank tells of its buffer to those with which a transport joins it. Its bytes are the
/// plugin's own.
struct BufferOffer {
  std::string plugin;
  std::uint64_t allocation_id = 0;
  std::uint64_t generation = 0;
  std::uint64_t offset = 0;
  std::vector<std::byte> blob;
};

/// The same to all.
struct BufferOffers {
  std::uint64_t bytes = 0;
  std::string refusal;  ///< Why it cannot be reached by some; then there are no offers.
  std::vector<BufferOffer> offers;
};

[[nodiscard]] std::vector<std::byte> encode_buffer_offers(const BufferOffers& offers);
/// PEER for bytes that are none.
[[nodiscard]] Result<BufferOffers> decode_buffer_offers(std::span<const std::byte> bytes);

}  // namespace weft
