// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory of one connection between two ranks of a process, and how the sender comes to share
// it.
//
// An address in a blob could be stale: the receiver may have given up in the meantime. So the blob
// holds no address, but the number and identity of a pipe, in which a token lies: it leads to all
// that the receiver's rank offers. Reading a pipe is atomic, so one sender at a time has the token,
// takes what is for it, and puts the token back. Who closes the pipe waits for the token first.
// Nothing is global, nothing is left if a sender never comes, and a rank has one pipe, however many
// connections it offers.
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

/// Where a share waits. Plain data without padding: it travels.
struct TokenPlace {
  std::int64_t descriptor = -1;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  plugins::Nonce nonce{};  ///< Of the block.
};
static_assert(sizeof(TokenPlace) == 40);

/// The receivers' side: shares of blocks of one rank, until they are taken or withdrawn. Has two
/// descriptors while there are any. One thread at a time.
class Offers {
 public:
  Offers() = default;
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;
  ~Offers() { close(); }

  weft_result add(const plugins::Host& host, const std::shared_ptr<Block>& block, TokenPlace* out);
  /// Takes the share of that block back if it is still there.
  void remove(const plugins::Nonce& block);

 private:
  struct Table;
  struct Token;
  friend weft_result take_share(const plugins::Host& host, const TokenPlace& place,
                                std::uint32_t peer, std::shared_ptr<Block>* out);

  weft_result open(const plugins::Host& host);
  void close();

  std::shared_ptr<Table> table_;  // none while nothing is offered
  plugins::OwnedFd pipe_;         // its read end
  TokenPlace place_;              // of that
};

/// One connection's part in Offers.
class Offer {
 public:
  Offer() = default;
  Offer(const Offer&) = delete;
  Offer& operator=(const Offer&) = delete;
  ~Offer() { withdraw(); }

  /// `offers` outlives this.
  weft_result make(const plugins::Host& host, Offers& offers, const std::shared_ptr<Block>& block,
                   TokenPlace* out);
  void withdraw();

 private:
  Offers* offers_ = nullptr;
  plugins::Nonce nonce_{};
};

/// The sender's side: takes the share, or answers PEER if it is gone or was never there.
/// IN_PROGRESS while another sender has the token. Any thread.
weft_result take_share(const plugins::Host& host, const TokenPlace& place, std::uint32_t peer,
                       std::shared_ptr<Block>* out);

}  // namespace weft::p2p
