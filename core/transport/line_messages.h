// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One direction between two ranks' inboxes that a net joins: a GPU's kernel stores lines of LL in
// host memory, or looks for them there, and a net moves their payload. A line tells by itself that
// it has come, so neither side waits for the other's stores, nor reads a counter over PCIe.
//
// Models: tests/models/inbox_messages.pml, tests/models/inbox_stripes.pml
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/direct_peers.h"
#include "core/model/inbox_message.h"
#include "core/model/operation_tag.h"

namespace weft {

/// Where the lines of an inbox lie that a net joins, two halves of so many bytes. `period` is that
/// of DirectPeers.
struct InboxHalves {
  std::byte* begin = nullptr;
  std::uint32_t half_bytes = 0;
  std::uint32_t period = kFlagPeriod;
};

/// Calls over inboxes are numbered from 0, as they are made; call c has half c % 2 and flags of
/// c + 1, which begin again after a period. A half is stored into by the kernel of this rank and
/// read here, or the other way round. Messages are numbered from 0 as they are added: one for each
/// call, but for those that have no lines of this stripe (core/model/inbox_message.h).
///
/// Stripes of an inbox have halves in common, and of each call other lines. Only who carries whole
/// messages wipes: so each of the last two calls of a period is one.
///
/// Order: words of 8 bytes are stored and loaded whole, and hold payload and flag (litmus
/// "ll-from-gpu", "ll-to-gpu" in tests/gpu/litmus.cu). Why two halves suffice stands in
/// core/model/direct_peers.h; it holds here, too, since a message is sent after the lines that it
/// is made of were stored, and its lines are stored when it has come; and a kernel ends when all
/// stripes of the call have.
///
/// Threads: used by one at a time, beside kernels.
class LineMessages {
 public:
  struct Call {
    std::uint64_t number = 0;  ///< More than that of the one added before.
    OperationTag tag = 0;      ///< As this rank has it.
    InboxMessage message;
  };

  /// Both outlive it; halves begin with zeros, and `messages` has bytes_for(half_bytes), which a
  /// net must reach.
  LineMessages(const InboxHalves& halves, std::byte* messages);
  [[nodiscard]] static constexpr std::size_t bytes_for(std::uint32_t half_bytes) {
    return std::size_t{kDirectHalves} * (half_bytes / 2);
  }

  [[nodiscard]] const InboxHalves& halves() const { return halves_; }
  [[nodiscard]] std::byte* messages() const { return messages_; }
  [[nodiscard]] std::size_t message_bytes() const { return halves_.half_bytes / 2; }
  [[nodiscard]] std::byte* place_of(std::uint64_t message) const {
    return messages() + message % kDirectHalves * message_bytes();
  }

  /// Takes note of the next message. False, and nothing, where it has no lines, or no room for them
  /// in a half.
  bool add(const Call& call);
  /// `message` has been added, and not been forgotten.
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t message) const;
  /// Of messages before this one nothing is asked any more.
  void forget_before(std::uint64_t message);

  /// Of a sender: takes what the kernel has stored since it was asked last. Once all lines are in
  /// the message, the tag that they have. Messages are collected in their order.
  std::optional<OperationTag> collect(std::uint64_t message);
  /// Of a receiver: stores the lines of a message that has come. False where it cannot be one of
  /// this call, though it says so. One of another call leaves its tag in all headers, for the
  /// kernel to find.
  bool deliver(std::uint64_t message, OperationTag tag, std::uint64_t bytes);

 private:
  [[nodiscard]] const Call& find(std::uint64_t message) const { return calls_[message - first_]; }
  [[nodiscard]] std::uint32_t flag_of(const Call& call) const {
    return static_cast<std::uint32_t>(call.number % halves_.period) + 1;
  }
  [[nodiscard]] std::uint64_t* line_of(const Call& call, std::uint32_t line) const;
  void wipe(const Call& call);

  const InboxHalves halves_;
  std::byte* const messages_;
  std::vector<Call> calls_;  // from first_ on
  std::uint64_t first_ = 0;
  std::uint64_t collecting_ = 0;  // the message whose lines are collected, and how many of them are
  std::uint32_t collected_ = 0;
  OperationTag collected_tag_ = 0;
};

}  // namespace weft
