// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/buffers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include <fmt/format.h>

namespace weft::checker {

std::size_t Buffers::add(Buffer buffer) {
  // An element between two buffers belongs to nobody.
  buffer.begin = size_ + 1;
  if (buffer.whole_lines) buffer.begin = (buffer.begin + 1) / 2 * 2;
  size_ = buffer.begin + buffer.elements;
  if (of_rank_.size() <= buffer.rank) of_rank_.resize(buffer.rank + 1);
  of_rank_[buffer.rank].push_back(
      {.begin = buffer.begin, .end = buffer.begin + buffer.elements, .buffer = buffers_.size()});
  buffers_.push_back(buffer);
  return buffers_.size() - 1;
}

void Buffers::allocate() {
  memory_.assign(size_ + 1, make_nothing(Nothing::kUnwritten));
}

std::uint32_t Buffers::owner(const std::byte* at) const {
  const auto place =
      static_cast<std::uint64_t>(at - reinterpret_cast<const std::byte*>(memory_.data())) /
      sizeof(Value);
  const auto behind = std::ranges::upper_bound(buffers_, place, {}, &Buffer::begin);
  return behind == buffers_.begin() ? 0 : std::prev(behind)->rank;
}

const Buffer* Buffers::find(std::uint32_t rank, std::uint64_t first, std::uint64_t count) const {
  if (rank >= of_rank_.size()) return nullptr;
  for (const Range& range : of_rank_[rank]) {
    if (first >= range.begin && first + count <= range.end) return &buffers_[range.buffer];
  }
  return nullptr;
}

bool Buffers::may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const auto offset =
      static_cast<std::uint64_t>(at - reinterpret_cast<const std::byte*>(memory_.data()));
  if (offset % sizeof(Value) == 0 && bytes % sizeof(Value) == 0 &&
      find(actor.rank, offset / sizeof(Value), bytes / sizeof(Value)) != nullptr) {
    return true;
  }
  report_.add(Rule::kOutside, fmt::format("{}: reads {} bytes that lie in none of its buffers",
                                          actor.name(), bytes));
  return false;
}

bool Buffers::may_borrow(const Actor& actor, std::uint32_t owner, std::optional<std::uint32_t> call,
                         const std::byte* at, std::uint64_t bytes) {
  const auto offset =
      static_cast<std::uint64_t>(at - reinterpret_cast<const std::byte*>(memory_.data()));
  const Buffer* const buffer = offset % sizeof(Value) == 0 && bytes % sizeof(Value) == 0
                                   ? find(owner, offset / sizeof(Value), bytes / sizeof(Value))
                                   : nullptr;
  if (buffer == nullptr) {
    report_.add(Rule::kOutside, fmt::format("{}: reads {} bytes that lie in no buffer of rank {}",
                                            actor.name(), bytes, owner));
    return false;
  }
  if (call == buffer->call) return true;
  report_.add(Rule::kReadTooLate, fmt::format("{}: reads {} bytes of rank {}, whose call has ended",
                                              actor.name(), bytes, owner));
  return false;
}

bool Buffers::may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const auto offset =
      static_cast<std::uint64_t>(at - reinterpret_cast<const std::byte*>(memory_.data()));
  const std::uint64_t first = offset / sizeof(Value);
  const std::uint64_t count = bytes / sizeof(Value);
  const Buffer* buffer = offset % sizeof(Value) == 0 && bytes % sizeof(Value) == 0
                             ? find(actor.rank, first, count)
                             : nullptr;
  if (buffer == nullptr) {
    report_.add(Rule::kOutside, fmt::format("{}: writes {} bytes that lie in none of its buffers",
                                            actor.name(), bytes));
    return false;
  }
  const std::uint64_t begin = first - buffer->begin;
  if (begin < buffer->output_begin || begin + count > buffer->output_end) {
    report_.add(Rule::kOutside,
                fmt::format("{}: writes {} elements from {}, the output is {} to {}", actor.name(),
                            count, begin, buffer->output_begin, buffer->output_end));
    return false;
  }
  for (std::uint64_t i = first; buffer->once && i < first + count; ++i) {
    if (memory_[i] == make_nothing(Nothing::kUnwritten)) continue;
    report_.add(Rule::kTwice, fmt::format("{}: writes element {} of its output once more",
                                          actor.name(), i - buffer->begin));
    return false;
  }
  if (buffer->block == 0) return true;
  const ChannelPart& part = parts_[actor.channel];
  const std::uint64_t in_block = (begin - buffer->output_begin) % buffer->block;
  if (in_block >= part.offset && in_block + count <= part.offset + part.count) return true;
  report_.add(Rule::kOutside,
              fmt::format("{}: writes {} elements from {} of a block, of which {} from {} are the "
                          "channel's",
                          actor.name(), count, in_block, part.count, part.offset));
  return false;
}

}  // namespace weft::checker
