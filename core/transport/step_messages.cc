// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/step_messages.h"

#include <algorithm>

namespace weft {

bool StepMessages::deliver(std::uint64_t step, OperationTag tag, std::uint64_t bytes) {
  const std::uint32_t flag = flag_of(step);
  constexpr std::uint32_t kHeaders = step_message(0).headers;
  const std::uint64_t room = (lines_of_slot() - kHeaders) * sizeof(std::uint64_t);
  const LineMessage come = step_message(std::min(bytes, room));
  store(step, 0, 1, tag, flag);
  store(step, 1, 1, bytes, flag);
  store_message(step, kHeaders, come.payload_bytes);
  // As a kernel that fills a slot does where flags begin again.
  if (fills_whole_slot(step, shape().slots)) {
    store(step, come.lines(), lines_of_slot() - come.lines(), 0, flag);
  }
  return true;
}

}  // namespace weft
