// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/trial.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace weft::test {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::byte kUntouched{0xA5};

std::size_t width_of(weft_data_type type) {
  switch (type) {
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_FLOAT64:
      return 8;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT32:
      return 4;
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
      return 2;
    default:
      return 1;
  }
}

// Room for the shift, and a line before and after that must not change.
std::size_t buffer_size(const Shape& shape) {
  return (3 * kLine) + ((shape.shift + shape.count) * width_of(shape.type));
}

// A sum of whole numbers up to here is exact: as many digits as the type holds.
std::int64_t most_summed(weft_data_type type) {
  switch (type) {
    case WEFT_BFLOAT16:
      return 1 << 8;
    case WEFT_FLOAT16:
      return 1 << 11;
    default:
      return 1 << 16;
  }
}

// Of a whole number that the type holds.
std::uint64_t bits_of(std::int64_t number, weft_data_type type) {
  if (type == WEFT_INT32) return static_cast<std::uint32_t>(number);
  const auto real = static_cast<float>(number);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &real, sizeof(bits));
  if (type == WEFT_FLOAT32 || number == 0) return bits;
  if (type == WEFT_BFLOAT16) return bits >> 16;
  // float16 has 5 bits of exponent around 15, where float has 8 around 127.
  const std::uint32_t exponent = ((bits >> 23) & 0xFFU) - 127 + 15;
  return ((bits >> 16) & 0x8000U) | (exponent << 10) | ((bits >> 13) & 0x3FFU);
}

}  // namespace

std::string Shape::describe() const {
  std::ostringstream text;
  text << (kind == Kind::kAllReduce ? "all_reduce" : "broadcast") << " of " << count
       << " elements of type " << type;
  if (kind == Kind::kAllReduce)
    text << " by reduction " << reduction;
  else
    text << " from rank " << root;
  text << (in_place ? ", in place" : ", out of place") << ", shifted by " << shift;
  return text.str();
}

std::vector<Shape> all_shapes(std::uint32_t ranks, std::size_t step_bytes) {
  const std::size_t step = step_bytes / 4;
  std::vector<std::size_t> counts = {0,
                                     1,
                                     2,
                                     3,
                                     ranks - 1,
                                     ranks,
                                     ranks + 1,
                                     1023,
                                     step - 1,
                                     step,
                                     step + 1,
                                     (ranks * step) - 1,
                                     ranks * step,
                                     (ranks * step) + 1,
                                     (8 * ranks * step) + 5};
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  std::vector<Shape> shapes;
  std::size_t turn = 0;
  for (const std::size_t count : counts) {
    for (const weft_data_type type : {WEFT_FLOAT32, WEFT_INT32, WEFT_FLOAT16, WEFT_BFLOAT16}) {
      for (const weft_reduction reduction : {WEFT_SUM, WEFT_MAX}) {
        shapes.push_back({.kind = Kind::kAllReduce,
                          .count = count,
                          .type = type,
                          .reduction = reduction,
                          .root = 0,
                          .in_place = turn % 2 == 1,
                          .shift = turn / 2 % 3});
        ++turn;
      }
    }
    // 11 turns a count, prime to the 6 ways to lie: each type and reduction meets each of them.
    turn += 3;
    shapes.push_back({.kind = Kind::kBroadcast,
                      .count = count,
                      .type = turn % 2 == 0 ? WEFT_FLOAT32 : WEFT_INT32,
                      .reduction = WEFT_SUM,
                      .root = static_cast<std::uint32_t>(turn % ranks),
                      .in_place = turn / 2 % 2 == 1,
                      .shift = turn % 3});
  }
  for (std::uint32_t root = 0; root < ranks; ++root) {
    for (const bool in_place : {false, true}) {
      shapes.push_back({.kind = Kind::kBroadcast,
                        .count = step + 7,
                        .type = WEFT_FLOAT32,
                        .reduction = WEFT_SUM,
                        .root = root,
                        .in_place = in_place,
                        .shift = 1});
    }
  }
  for (weft_data_type type = WEFT_INT8; type <= WEFT_FLOAT8_E5M2; ++type) {
    shapes.push_back({.kind = Kind::kBroadcast,
                      .count = 1001,
                      .type = type,
                      .reduction = WEFT_SUM,
                      .root = static_cast<std::uint32_t>(type) % ranks,
                      .in_place = false,
                      .shift = 1});
  }
  return shapes;
}

std::vector<Shape> large_shapes(std::uint32_t ranks, std::size_t bytes) {
  std::vector<Shape> shapes;
  for (const weft_data_type type : {WEFT_FLOAT32, WEFT_INT32, WEFT_FLOAT16, WEFT_BFLOAT16}) {
    const bool adds = type == WEFT_FLOAT32 || type == WEFT_BFLOAT16;
    shapes.push_back({.kind = Kind::kAllReduce,
                      .count = bytes / width_of(type),
                      .type = type,
                      .reduction = adds ? WEFT_SUM : WEFT_MAX,
                      .root = 0,
                      .in_place = !adds,
                      .shift = 0});
  }
  shapes.push_back({.kind = Kind::kBroadcast,
                    .count = bytes / 4,
                    .type = WEFT_FLOAT32,
                    .reduction = WEFT_SUM,
                    .root = ranks - 1,
                    .in_place = false,
                    .shift = 0});
  return shapes;
}

Trial::Trial(const Shape& shape, std::uint32_t rank, std::uint32_t ranks, std::uint32_t round)
    : shape_(shape),
      rank_(rank),
      ranks_(ranks),
      round_(round),
      width_(width_of(shape.type)),
      begin_(0),
      send_(shape.in_place ? 0 : buffer_size(shape), kUntouched),
      recv_(buffer_size(shape), kUntouched) {
  // Both buffers come from the same allocator, aligned to 16 bytes at least: enough for elements.
  begin_ = kLine + (shape.shift * width_);
  std::vector<std::byte>& source = shape.in_place ? recv_ : send_;
  if (shape.kind == Kind::kBroadcast && rank != shape.root) return;
  for (std::size_t i = 0; i < shape.count; ++i)
    store(source, i, contribution(rank, i));
}

weft_result Trial::start(weft_comm* comm, weft_stream* stream) {
  const void* send = shape_.in_place ? recv_.data() + begin_ : send_.data() + begin_;
  void* recv = recv_.data() + begin_;
  if (shape_.kind == Kind::kAllReduce) {
    return weft_all_reduce(send, recv, shape_.count, shape_.type, shape_.reduction, comm, stream);
  }
  return weft_broadcast(send, recv, shape_.count, shape_.type, shape_.root, comm, stream);
}

// Small whole numbers, which all types add exactly in any order.
std::int64_t Trial::number(std::uint32_t rank, std::size_t element) const {
  const std::int64_t most = most_summed(shape_.type) / ranks_;
  return static_cast<std::int64_t>(mix(rank, element) % (2 * most + 1)) - most;
}

std::uint64_t Trial::mix(std::uint32_t rank, std::size_t element) const {
  return (element * 7919) + (std::uint64_t{rank} * 613) + (std::uint64_t{round_} * 104729) +
         shape_.count;
}

std::uint64_t Trial::contribution(std::uint32_t rank, std::size_t element) const {
  if (shape_.kind == Kind::kBroadcast) return mix(rank, element) * 0x9E3779B97F4A7C15U;
  return bits_of(number(rank, element), shape_.type);
}

std::uint64_t Trial::expected(std::size_t element) const {
  if (shape_.kind == Kind::kBroadcast) return contribution(shape_.root, element);
  // Made apart from the library: over the whole numbers behind the bits.
  std::int64_t total = number(0, element);
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const std::int64_t other = number(rank, element);
    total = shape_.reduction == WEFT_MAX ? std::max(total, other) : total + other;
  }
  return bits_of(total, shape_.type);
}

void Trial::store(std::vector<std::byte>& buffer, std::size_t element, std::uint64_t value) const {
  std::memcpy(buffer.data() + begin_ + (element * width_), &value, width_);
}

std::uint64_t Trial::load(const std::vector<std::byte>& buffer, std::size_t element) const {
  std::uint64_t value = 0;
  std::memcpy(&value, buffer.data() + begin_ + (element * width_), width_);
  return value;
}

std::string Trial::wrong_guard(const std::vector<std::byte>& buffer) const {
  const std::size_t end = begin_ + (shape_.count * width_);
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    if (i >= begin_ && i < end) continue;
    if (buffer[i] != kUntouched) {
      return "byte " +
             std::to_string(static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(begin_)) +
             " beside a buffer was changed";
    }
  }
  return {};
}

std::string Trial::wrong() const {
  const std::uint64_t mask =
      width_ == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width_)) - 1;
  const auto complain = [&](const std::string& what) {
    return "rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) + ": " +
           shape_.describe() + ": " + what;
  };
  for (std::size_t i = 0; i < shape_.count; ++i) {
    const std::uint64_t found = load(recv_, i);
    const std::uint64_t due = expected(i) & mask;
    if (found != due) {
      std::ostringstream text;
      text << "element " << i << " has the bits 0x" << std::hex << found << " instead of 0x" << due;
      return complain(text.str());
    }
  }
  const bool gives = shape_.kind == Kind::kAllReduce || rank_ == shape_.root;
  for (std::size_t i = 0; !shape_.in_place && i < shape_.count; ++i) {
    std::uint64_t due = contribution(rank_, i) & mask;
    if (!gives) std::memset(&due, std::to_integer<int>(kUntouched), width_);
    if (load(send_, i) != due) return complain("its send buffer was changed");
  }
  for (const auto* buffer : {&send_, &recv_}) {
    if (const std::string text = wrong_guard(*buffer); !text.empty()) return complain(text);
  }
  return {};
}

}  // namespace weft::test
