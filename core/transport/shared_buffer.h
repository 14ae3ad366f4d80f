// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A buffer of each rank that all others reach: what a window is made of.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace weft {

class Bootstrap;
struct BufferOffers;

/// What each rank tells all others in a step that they take together, called `what` in errors.
[[nodiscard]] Result<std::vector<BufferOffers>> exchange_offers(const BufferOffers& mine,
                                                                std::string_view what,
                                                                Bootstrap& bootstrap);

/// Owns what transports made of the buffers, which it gives back to them. The buffers themselves
/// are their ranks'.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Buffers that this process sees all by itself.
  explicit SharedBuffer(std::vector<std::byte*> addresses) : addresses_(std::move(addresses)) {}
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;
  ~SharedBuffer();

  /// By rank, as this one sees them, its own included; none where not all ranks reach all others.
  [[nodiscard]] std::span<std::byte* const> addresses() const { return addresses_; }
  /// Why they do not, alike on all ranks; empty where they do.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  friend class Connections;
  void give_back();
  /// Whether some rank refuses; then nothing is shared.
  bool is_refused(std::span<const BufferOffers> offers);

  std::vector<std::byte*> addresses_;
  std::string refusal_;
  std::vector<std::function<void()>> releases_;  // in the order in which things were made
};

}  // namespace weft
