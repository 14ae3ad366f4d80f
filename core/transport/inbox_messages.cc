// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/inbox_messages.h"

#include <algorithm>
#include <atomic>

namespace weft {

bool InboxMessages::deliver(std::uint64_t call, OperationTag tag, std::uint64_t bytes) {
  const Step& known = find(call);
  const LineMessage& message = known.message;
  if (tag == known.tag && bytes != message.payload_bytes) return false;
  store(call, 0, message.headers, tag, flag_of(call));
  // Of another call no more than this one has room for, which its kernel will not use.
  store_message(call, message.headers, std::min<std::uint64_t>(bytes, message.payload_bytes));
  return true;
}

// Before flags begin again, what a kernel stored in the period before would be taken for new. The
// kernel of the next call but one stores here when it has lines of a rank that had this message.
void InboxMessages::collected(std::uint64_t call) {
  if (flag_of(call) + 1 < period_) return;
  store(call, 0, lines_of_slot(), 0, 0);
  // Behind it come the lines of calls that others make with the help of this one's message.
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace weft
