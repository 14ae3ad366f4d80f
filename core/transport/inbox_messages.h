// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks' inboxes: a step is a call.
//
// Model: tests/models/inbox_messages.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model/direct_peers.h"
#include "core/transport/line_messages.h"

namespace weft {

/// Call c has half c % 2 and flags of c + 1, which begin again after a period; all its headers hold
/// its tag. Why two halves suffice stands in core/model/direct_peers.h; it holds here, too, since a
/// message is sent after the lines that it is made of were stored, and its lines are stored when it
/// has come.
class InboxMessages : public LineMessages {
 public:
  [[nodiscard]] static constexpr Shape shape_of(std::uint32_t half_bytes) {
    return {.slots = kDirectHalves, .slot_bytes = half_bytes};
  }
  /// `period` is that of DirectPeers.
  InboxMessages(std::byte* memory, std::uint32_t half_bytes, std::uint32_t period)
      : LineMessages(memory, shape_of(half_bytes)), period_(period) {}

  /// False where a message of this call has another size; of another call its tag is in all
  /// headers.
  bool deliver(std::uint64_t call, OperationTag tag, std::uint64_t bytes) override;

 private:
  [[nodiscard]] std::uint32_t flag_of(std::uint64_t call) const override {
    return static_cast<std::uint32_t>(call % period_) + 1;
  }
  void collected(std::uint64_t call) override;

  const std::uint32_t period_;
};

}  // namespace weft
