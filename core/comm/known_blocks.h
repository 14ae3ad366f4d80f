// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The blocks of the latest calls in which they differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/comm/exchange.h"
#include "core/model/operation.h"

namespace weft {

/// Remembers what it has read, so that a call which names the same blocks as one of the latest
/// allocates nothing. Of one rank of a communicator; used by the thread that makes its calls.
class KnownBlocks {
 public:
  /// So many are kept: a model calls for each of its layers in turn.
  static constexpr std::size_t kMost = 32;

  /// As read_blocks() or read_common_blocks(), whichever `task` needs, and with their errors. The
  /// table is shared with the next calls.
  Result<std::shared_ptr<const BlockTable>> read(const BlockArrays& arrays, std::uint32_t rank,
                                                 std::uint32_t ranks, Task& task);

 private:
  struct Known {
    Task task;  // as read() left it
    std::shared_ptr<const BlockTable> table;
  };
  std::vector<Known> known_;
  std::size_t latest_ = 0;
};

}  // namespace weft
