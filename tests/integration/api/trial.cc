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
      // The buffers come from the allocator, aligned to 16 bytes at least: enough for elements.
      begin_(kLine + (shape.shift * width_)),
      send_(shape.in_place ? std::vector<std::byte>{} : sent()),
      recv_(shape.in_place ? sent() : std::vector<std::byte>(buffer_size(shape), kUntouched)) {}

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

// Elements are made and compared apart from the buffers that the library sees. Those are read
// whole, by one call that a thread sanitizer watches: watching each access made here, it took ten
// times as long as for the library.
template <typename ValueOf>
std::vector<std::byte> Trial::image(ValueOf value_of) const {
  std::vector<std::byte> bytes(buffer_size(shape_), kUntouched);
  const auto fill = [&]<typename Element>(Element) {
    std::byte* at = bytes.data() + begin_;
    for (std::size_t i = 0; i < shape_.count; ++i, at += sizeof(Element)) {
      const auto value = static_cast<Element>(value_of(i));
      std::memcpy(at, &value, sizeof(value));
    }
  };
  switch (width_) {
    case 8:
      fill(std::uint64_t{});
      break;
    case 4:
      fill(std::uint32_t{});
      break;
    case 2:
      fill(std::uint16_t{});
      break;
    default:
      fill(std::uint8_t{});
  }
  return bytes;
}

// What this rank's send buffer holds, before and after.
std::vector<std::byte> Trial::sent() const {
  if (shape_.kind == Kind::kBroadcast && rank_ != shape_.root) {
    return std::vector<std::byte>(buffer_size(shape_), kUntouched);
  }
  return image([this](std::size_t i) { return contribution(rank_, i); });
}

std::vector<std::byte> Trial::due() const {
  return image([this](std::size_t i) { return expected(i); });
}

std::string Trial::difference(const std::vector<std::byte>& found,
                              const std::vector<std::byte>& due) const {
  if (std::memcmp(found.data(), due.data(), due.size()) == 0) return {};
  const std::size_t byte =
      static_cast<std::size_t>(std::ranges::mismatch(found, due).in1 - found.begin());
  if (byte < begin_ || byte >= begin_ + (shape_.count * width_)) {
    return "byte " +
           std::to_string(static_cast<std::ptrdiff_t>(byte) - static_cast<std::ptrdiff_t>(begin_)) +
           " beside a buffer was changed";
  }
  const std::size_t element = (byte - begin_) / width_;
  const auto load = [&](const std::vector<std::byte>& buffer) {
    std::uint64_t value = 0;
    std::memcpy(&value, buffer.data() + begin_ + (element * width_), width_);
    return value;
  };
  std::ostringstream text;
  text << "element " << element << " has the bits 0x" << std::hex << load(found) << " instead of 0x"
       << load(due);
  return text.str();
}

std::string Trial::wrong() const {
  const auto complain = [&](const std::string& what) {
    return "rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) + ": " +
           shape_.describe() + ": " + what;
  };
  if (const std::string text = difference(recv_, due()); !text.empty()) return complain(text);
  if (!shape_.in_place) {
    if (const std::string text = difference(send_, sent()); !text.empty()) {
      return complain("its send buffer was changed: " + text);
    }
  }
  return {};
}

}  // namespace weft::test
