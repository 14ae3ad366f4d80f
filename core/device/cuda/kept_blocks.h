// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Memory that was released and is kept for the next: which of it fits. Host code, pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace weft::device::cuda {

/// Blocks by kind and size. Connections come in as many sizes as communicators have shapes: were
/// each kept for its own size alone, a process that makes and ends communicators would hold the
/// most that it ever had of every size at once. Used by one thread at a time.
template <class Kind, class Block>
class KeptBlocks {
 public:
  void keep(Kind kind, std::size_t bytes, Block block) {
    blocks_.emplace(std::pair(kind, bytes), std::move(block));
  }

  /// The smallest of so many bytes or more, unless half of it would lie idle.
  [[nodiscard]] std::optional<Block> take(Kind kind, std::size_t bytes) {
    const auto found = blocks_.lower_bound({kind, bytes});
    if (found == blocks_.end() || found->first.first != kind) return std::nullopt;
    if (found->first.second / 2 > bytes) return std::nullopt;
    std::optional<Block> block(std::move(found->second));
    blocks_.erase(found);
    return block;
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [kind_and_bytes, block] : blocks_)
      visit(block);
  }

 private:
  std::multimap<std::pair<Kind, std::size_t>, Block> blocks_;
};

}  // namespace weft::device::cuda
