// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The callers' buffers: who may read and write what of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

/// One buffer of one rank for one call.
struct Buffer {
  std::uint32_t rank = 0;
  std::uint64_t begin = 0;  ///< Place in the memory of all buffers, in elements.
  std::uint64_t elements = 0;
  std::uint64_t output_begin = 0;  ///< What may be written, within the buffer.
  std::uint64_t output_end = 0;
  /// Of calls that are cut into channels: elements of a block, of which each channel writes its own
  /// part. 0: any may write.
  std::uint64_t block = 0;
  /// Nothing of it is written twice, nor what it held before.
  bool once = false;
  /// It begins at a multiple of 16 bytes, as kernels want it that copy in bulk.
  bool whole_lines = false;
  /// Call of its rank that it belongs to: see Buffers::may_borrow.
  std::uint32_t call = 0;
};

/// Part of a block that belongs to a channel.
struct ChannelPart {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
};

class Buffers {
 public:
  explicit Buffers(Report& report) : report_(report) {}

  void set_channels(std::vector<ChannelPart> parts) { parts_ = std::move(parts); }
  /// `buffer.begin` is set here. Answers its number. Before allocate().
  std::size_t add(Buffer buffer);
  /// All that was added, filled with "never written".
  void allocate();
  [[nodiscard]] Value* data(std::size_t buffer) { return &memory_[buffers_[buffer].begin]; }
  [[nodiscard]] const Buffer& at(std::size_t buffer) const { return buffers_[buffer]; }

  /// Of memory that it holds: the rank whose buffer is there, or ends right before.
  [[nodiscard]] std::uint32_t owner(const std::byte* at) const;
  [[nodiscard]] bool holds(const std::byte* at) const {
    const auto* first = reinterpret_cast<const std::byte*>(memory_.data());
    return at >= first && at < first + memory_.size() * sizeof(Value);
  }
  /// Of memory that it holds: whether the actor may touch all of it; reports where not.
  [[nodiscard]] bool may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  [[nodiscard]] bool may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes);
  /// What the actor takes straight from a buffer of rank `owner`: one of the call that this rank is
  /// in; nullopt: it is in none.
  [[nodiscard]] bool may_borrow(const Actor& actor, std::uint32_t owner,
                                std::optional<std::uint32_t> call, const std::byte* at,
                                std::uint64_t bytes);

 private:
  /// The rank's own buffer with all of these elements; null: there is none.
  [[nodiscard]] const Buffer* find(std::uint32_t rank, std::uint64_t first,
                                   std::uint64_t count) const;

  Report& report_;
  std::vector<ChannelPart> parts_;
  std::vector<Buffer> buffers_;
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::size_t buffer = 0;
  };
  std::vector<std::vector<Range>> of_rank_;
  std::uint64_t size_ = 0;
  std::vector<Value> memory_;
};

}  // namespace weft::checker
