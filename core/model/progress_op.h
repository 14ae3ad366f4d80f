// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the progress engine has to move for one operation on one net-backed connection.
#pragma once

#include <cstdint>

#include "core/model/inbox_message.h"
#include "core/model/landing.h"
#include "core/model/operation_tag.h"

namespace weft {

struct ProgressOp {
  std::uint32_t connection = 0;  ///< Index of the net-backed connection in its engine.
  std::uint32_t reserved = 0;
  std::uint64_t steps = 0;  ///< Steps that this operation fills (sender) or consumes (receiver).
  LandingWalk landing{};    ///< Of a receiver: where they are to come to, if that can be had.
  /// Of a connection between inboxes, whose only step this is, the tag of its call, and how many
  /// calls over these inboxes came before that.
  InboxMessage message{};
  OperationTag tag = 0;
  std::uint64_t call = 0;
  /// At this end, where the connection has slots for lines: whether steps go by those.
  bool by_lines = false;
};

}  // namespace weft
