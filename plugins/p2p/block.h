// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory of one connection between two ranks of a process, and how the sender comes to share
// it.
//
// An address in a blob could be stale: the receiver may have given up in the meantime. So the blob
// holds no address, but the number and identity of a pipe with one token in it. Reading a pipe is
// atomic: either the sender gets the token, and with it a share of the memory, or the receiver
// takes it back when it closes. Nothing is global, and nothing is left if one of them never comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "plugins/common/host.h"
#include "plugins/common/owned.h"
#include "plugins/common/segment.h"

namespace weft::p2p {

/// Lives until both ends have let go of it.
struct Block {
  plugins::Mapping mapping;
  plugins::SegmentLayout layout;
  plugins::Nonce nonce{};
  std::atomic<bool> attached = false;  ///< The sender has its share.
};

/// Where the token waits. Plain data without padding: it travels.
struct TokenPlace {
  std::int64_t descriptor = -1;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  plugins::Nonce nonce{};
};
static_assert(sizeof(TokenPlace) == 40);

/// The receiver's side: offers one share of a block until it is taken or the offer ends.
class Offer {
 public:
  Offer() = default;
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;
  ~Offer() { withdraw(); }

  /// Puts the token into a new pipe.
  weft_result make(const plugins::Host& host, const std::shared_ptr<Block>& block, TokenPlace* out);
  /// Takes the token back if it is still there, and closes the pipe.
  void withdraw();

 private:
  plugins::OwnedFd pipe_;
  plugins::Nonce nonce_{};
};

/// The sender's side: takes the share, or null if it is gone or was never there.
weft_result take_share(const plugins::Host& host, const TokenPlace& place, std::uint32_t peer,
                       std::shared_ptr<Block>* out);

}  // namespace weft::p2p
