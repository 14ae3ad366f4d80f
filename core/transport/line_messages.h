// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One direction between two ranks' inboxes that a net joins: a GPU's kernel stores lines of LL in
// host memory, or looks for them there, and a net moves their payload. A line tells by itself that
// it has come, so neither side waits for the other's stores, nor reads a counter over PCIe.
//
// Model: tests/models/inbox_messages.pml
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/direct_peers.h"
#include "core/model/inbox_message.h"
#include "core/model/operation_tag.h"

namespace weft {

/// Calls are numbered from 0, as they are made; call c has half c % 2 and flags of c + 1, which
/// begin again after a period. A half is stored into by the kernel of this rank and read here, or
/// the other way round.
///
/// Order: words of 8 bytes are stored and loaded whole, and hold payload and flag (litmus
/// "ll-from-gpu", "ll-to-gpu" in tests/gpu/litmus.cu). Why two halves suffice stands in
/// core/model/direct_peers.h; it holds here, too, since a message is sent after the lines that it
/// is made of were stored, and its lines are stored when it has come.
///
/// Threads: used by one at a time, beside kernels.
class LineMessages {
 public:
  struct Call {
    OperationTag tag = 0;  ///< As this rank has it.
    InboxMessage message;
  };

  /// `memory` has bytes_for(half_bytes), outlives it, and begins with zeros. `period` is that of
  /// DirectPeers.
  LineMessages(std::byte* memory, std::uint32_t half_bytes, std::uint32_t period = kFlagPeriod);
  [[nodiscard]] static constexpr std::size_t bytes_for(std::uint32_t half_bytes) {
    return kDirectHalves * (std::size_t{half_bytes} + half_bytes / 2);
  }

  /// Where the kernel's halves lie, and where messages lie: what a net must reach.
  [[nodiscard]] std::byte* halves() const { return halves_; }
  [[nodiscard]] std::byte* messages() const {
    return halves_ + std::size_t{kDirectHalves} * half_bytes_;
  }
  [[nodiscard]] std::size_t message_bytes() const { return half_bytes_ / 2; }
  [[nodiscard]] std::byte* message_of(std::uint64_t call) const {
    return messages() + call % kDirectHalves * message_bytes();
  }

  /// Takes note of the next call. False, and nothing, where its lines have no room in a half.
  bool add(const Call& call);
  /// `call` has been added, and not been forgotten.
  [[nodiscard]] std::uint64_t payload_bytes(std::uint64_t call) const;
  /// Of calls before this one nothing is asked any more.
  void forget_before(std::uint64_t call);

  /// Of a sender: takes what the kernel has stored since it was asked last. Once all lines of the
  /// call are in its message, the tag that they have. Calls are collected in their order.
  std::optional<OperationTag> collect(std::uint64_t call);
  /// Of a receiver: stores the lines of a message that has come. False where it cannot be one of
  /// this call, though it says so. One of another call leaves its tag in all headers, for the
  /// kernel to find.
  bool deliver(std::uint64_t call, OperationTag tag, std::uint64_t bytes);

 private:
  [[nodiscard]] const Call& find(std::uint64_t call) const { return calls_[call - first_]; }
  [[nodiscard]] std::uint32_t flag_of(std::uint64_t call) const {
    return static_cast<std::uint32_t>(call % period_) + 1;
  }
  [[nodiscard]] std::uint64_t* line_of(std::uint64_t call, std::uint32_t line) const;
  void wipe(std::uint64_t call);

  std::byte* const halves_;
  const std::uint32_t half_bytes_;
  const std::uint32_t period_;
  std::vector<Call> calls_;  // from first_ on
  std::uint64_t first_ = 0;
  std::uint64_t collecting_ = 0;  // the call whose lines are collected, and how many of them are
  std::uint32_t collected_ = 0;
  OperationTag collected_tag_ = 0;
};

}  // namespace weft
