// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/known_blocks.h"

#include <utility>

namespace weft {
namespace {

bool are_same(const std::vector<Block>& known, const size_t* counts, const size_t* offsets) {
  if (counts == nullptr || offsets == nullptr) return false;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].count != counts[i] || known[i].offset != offsets[i]) return false;
  }
  return true;
}

bool are_same(const BlockTable& known, const BlockArrays& arrays, Operation operation) {
  switch (operation) {
    case Operation::kAllGatherV:
      return are_same(known.common, arrays.recv_counts, arrays.recv_offsets);
    case Operation::kReduceScatterV:
      return are_same(known.common, arrays.send_counts, arrays.send_offsets);
    default:
      return are_same(known.sent, arrays.send_counts, arrays.send_offsets) &&
             are_same(known.received, arrays.recv_counts, arrays.recv_offsets);
  }
}

}  // namespace

Result<std::shared_ptr<const BlockTable>> KnownBlocks::read(const BlockArrays& arrays,
                                                            std::uint32_t rank, std::uint32_t ranks,
                                                            Task& task) {
  // Calls that are made in turn come in the order in which they were made first.
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const std::size_t place = (latest_ + i) % known_.size();
    const Known& known = known_[place];
    if (known.task.operation != task.operation || known.task.type != task.type ||
        !are_same(*known.table, arrays, task.operation)) {
      continue;
    }
    task.count = known.task.count;
    task.root = known.task.root;
    latest_ = place;
    return known.table;
  }
  auto read = has_uneven_blocks(task.operation) ? read_common_blocks(arrays, ranks, task)
                                                : read_blocks(arrays, task.type, rank, ranks);
  if (!read) return fail(std::move(read.error()));
  if (known_.size() < kMost) {
    latest_ = known_.size();
    known_.push_back({task, *read});
  } else {
    latest_ = (latest_ + 1) % kMost;
    known_[latest_] = {task, *read};
  }
  return std::move(*read);
}

}  // namespace weft
