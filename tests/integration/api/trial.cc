// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/trial.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace weft::test {
namespace {

constexpr std::size_t kLine = 64;
#if defined(WEFT_FEW_SHAPES)
constexpr bool kFewShapes = true;
#else
constexpr bool kFewShapes = false;
#endif
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

std::size_t most_elements(const Shape& shape, std::uint32_t ranks) {
  const bool blocks = shape.kind == Kind::kAllGather || shape.kind == Kind::kReduceScatter;
  return blocks ? shape.count * ranks : shape.count;
}

// Room for the shift, and a line before and after that must not change.
std::size_t buffer_size(const Shape& shape, std::size_t elements) {
  return (3 * kLine) + ((shape.shift + elements) * width_of(shape.type));
}

bool is_unsigned(weft_data_type type) {
  return type == WEFT_UINT8 || type == WEFT_UINT32 || type == WEFT_UINT64;
}

// A sum of whole numbers up to here is exact: as many digits as the type holds.
std::int64_t most_summed(weft_data_type type) {
  switch (type) {
    case WEFT_INT8:
    case WEFT_UINT8:
      return 127;
    case WEFT_BFLOAT16:
      return 1 << 8;
    case WEFT_FLOAT16:
      return 1 << 11;
    default:
      return 1 << 16;
  }
}

// Of a whole number that the type holds; of more than it holds for integers, which wrap.
std::uint64_t bits_of(std::int64_t number, weft_data_type type) {
  if (type == WEFT_FLOAT64) {
    const auto real = static_cast<double>(number);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &real, sizeof(bits));
    return bits;
  }
  if (type != WEFT_FLOAT32 && type != WEFT_FLOAT16 && type != WEFT_BFLOAT16) {
    return static_cast<std::uint64_t>(number);
  }
  const auto real = static_cast<float>(number);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &real, sizeof(bits));
  if (type == WEFT_FLOAT32 || number == 0) return bits;
  if (type == WEFT_BFLOAT16) return bits >> 16;
  // float16 has 5 bits of exponent around 15, where float has 8 around 127.
  const std::uint32_t exponent = ((bits >> 23) & 0xFFU) - 127 + 15;
  return ((bits >> 16) & 0x8000U) | (exponent << 10) | ((bits >> 13) & 0x3FFU);
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kReduce:
      return "reduce";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kReduceScatter:
      return "reduce_scatter";
  }
  return "?";
}

constexpr weft_data_type kReducedTypes[] = {WEFT_INT8,    WEFT_UINT8,   WEFT_INT32,   WEFT_UINT32,
                                            WEFT_INT64,   WEFT_UINT64,  WEFT_FLOAT16, WEFT_FLOAT32,
                                            WEFT_FLOAT64, WEFT_BFLOAT16};

}  // namespace

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

bool has_root(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce;
}

std::string Shape::describe() const {
  std::ostringstream text;
  text << name_of(kind) << " of " << count << " elements of type " << type;
  if (reduces(kind)) text << " by reduction " << reduction;
  if (has_root(kind)) text << ", root " << root;
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
    // 3 more turns, so that a count has 11, prime to the 6 ways to lie: each type and reduction
    // meets each of them.
    turn += 3;
    shapes.push_back({.kind = Kind::kBroadcast,
                      .count = count,
                      .type = turn % 2 == 0 ? WEFT_FLOAT32 : WEFT_INT32,
                      .reduction = WEFT_SUM,
                      .root = static_cast<std::uint32_t>(turn % ranks),
                      .in_place = turn / 2 % 2 == 1,
                      .shift = turn % 3});
  }
  // Each operation with each type and reduction, over counts around the borders of steps. Under
  // sanitizers a part of them: the kernels are the same for all.
  std::uint32_t place = 0;
  for (const Kind kind :
       {Kind::kReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce}) {
    for (const weft_data_type type : kReducedTypes) {
      for (weft_reduction reduction = WEFT_SUM; reduction <= WEFT_AVG; ++reduction) {
        if (!reduces(kind) && reduction != WEFT_SUM) continue;
        ++place;
        if (kFewShapes && place % 4 != 0) continue;
        shapes.push_back(
            {.kind = kind,
             .count = place % 7 == 0 ? step_bytes / width_of(type) + place % 3 : counts[place % 8],
             .type = type,
             .reduction = reduction,
             .root = has_root(kind) ? place % ranks : 0,
             .in_place = place % 2 == 1,
             .shift = place / 2 % 3});
      }
    }
    for (const std::size_t count : counts) {
      if (count > ranks * step + 1) continue;  // blocks make it enough
      ++place;
      if (kFewShapes && place % 2 != 0) continue;
      shapes.push_back({.kind = kind,
                        .count = count,
                        .type = WEFT_FLOAT32,
                        .reduction = WEFT_SUM,
                        .root = has_root(kind) ? place % ranks : 0,
                        .in_place = place % 2 == 1,
                        .shift = place % 3});
    }
  }
  for (std::uint32_t root = 0; root < ranks; ++root) {
    for (const bool in_place : {false, true}) {
      shapes.push_back({.kind = root % 2 == 0 ? Kind::kBroadcast : Kind::kReduce,
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
  for (const Kind kind :
       {Kind::kBroadcast, Kind::kReduce, Kind::kAllGather, Kind::kReduceScatter}) {
    const Shape whole{.kind = kind, .count = 1};
    shapes.push_back({.kind = kind,
                      .count = bytes / 4 / most_elements(whole, ranks),
                      .type = WEFT_FLOAT32,
                      .reduction = WEFT_SUM,
                      .root = has_root(kind) ? ranks - 1 : 0,
                      .in_place = false,
                      .shift = 0});
  }
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
      send_count_(shape.kind == Kind::kReduceScatter ? shape.count * ranks : shape.count),
      recv_count_(shape.kind == Kind::kAllGather ? shape.count * ranks : shape.count),
      send_begin_(begin_),
      recv_begin_(begin_) {
  const std::size_t own_block = rank * shape.count * width_;
  if (shape.in_place && shape.kind == Kind::kAllGather) send_begin_ += own_block;
  if (shape.in_place && shape.kind == Kind::kReduceScatter) recv_begin_ += own_block;
  if (!shape.in_place) send_ = sent();
  recv_ = shape.in_place ? sent() : empty();
}

weft_result Trial::start(weft_comm* comm, weft_stream* stream) {
  const void* send = (shape_.in_place ? recv_ : send_).data() + send_begin_;
  void* recv = recv_.data() + recv_begin_;
  switch (shape_.kind) {
    case Kind::kAllReduce:
      return weft_all_reduce(send, recv, shape_.count, shape_.type, shape_.reduction, comm, stream);
    case Kind::kBroadcast:
      return weft_broadcast(send, recv, shape_.count, shape_.type, shape_.root, comm, stream);
    case Kind::kReduce:
      return weft_reduce(send, recv, shape_.count, shape_.type, shape_.reduction, shape_.root, comm,
                         stream);
    case Kind::kAllGather:
      return weft_all_gather(send, recv, shape_.count, shape_.type, comm, stream);
    case Kind::kReduceScatter:
      return weft_reduce_scatter(send, recv, shape_.count, shape_.type, shape_.reduction, comm,
                                 stream);
  }
  return WEFT_ERROR_INTERNAL;
}

// Whole numbers of which all types hold every result exactly, in any order.
std::int64_t Trial::number(std::uint32_t rank, std::size_t element) const {
  const std::uint64_t mixed = mix(rank, element);
  const bool negative = !is_unsigned(shape_.type);
  if (shape_.reduction == WEFT_PROD) {
    // Few factors of 2, so that bfloat16 holds the product; integers may wrap.
    if (mixed % 11 == 0) return 2;
    return negative && mixed % 3 == 0 ? -1 : 1;
  }
  const std::int64_t share = shape_.reduction == WEFT_AVG ? ranks_ : 1;
  const std::int64_t most = most_summed(shape_.type) / ranks_ / share;
  const auto drawn = static_cast<std::int64_t>(mixed % (2 * most + 1));
  return (negative ? drawn - most : drawn / 2) * share;
}

std::uint64_t Trial::mix(std::uint32_t rank, std::size_t element) const {
  return (element * 7919) + (std::uint64_t{rank} * 613) + (std::uint64_t{round_} * 104729) +
         shape_.count;
}

std::uint64_t Trial::contribution(std::uint32_t rank, std::size_t element) const {
  if (!reduces(shape_.kind)) return mix(rank, element) * 0x9E3779B97F4A7C15U;
  return bits_of(number(rank, element), shape_.type);
}

// Made apart from the library: over the whole numbers behind the bits.
std::uint64_t Trial::reduced(std::size_t element) const {
  std::int64_t total = number(0, element);
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const std::int64_t other = number(rank, element);
    switch (shape_.reduction) {
      case WEFT_MAX:
        total = std::max(total, other);
        break;
      case WEFT_MIN:
        total = std::min(total, other);
        break;
      case WEFT_PROD:
        total *= other;
        break;
      default:
        total += other;
    }
  }
  return bits_of(shape_.reduction == WEFT_AVG ? total / ranks_ : total, shape_.type);
}

std::uint64_t Trial::expected(std::size_t element) const {
  switch (shape_.kind) {
    case Kind::kBroadcast:
      return contribution(shape_.root, element);
    case Kind::kAllGather:
      return contribution(static_cast<std::uint32_t>(element / shape_.count),
                          element % shape_.count);
    case Kind::kReduceScatter:
      return reduced((rank_ * shape_.count) + element);
    default:
      return reduced(element);
  }
}

bool Trial::gets_result() const {
  return shape_.kind != Kind::kReduce || rank_ == shape_.root;
}

// Elements are made and compared apart from the buffers that the library sees. Those are read
// whole, by one call that a thread sanitizer watches: watching each access made here, it took ten
// times as long as for the library.
template <typename ValueOf>
void Trial::write(std::vector<std::byte>& bytes, std::size_t begin, std::size_t width,
                  std::size_t count, ValueOf value_of) {
  const auto fill = [&]<typename Element>(Element) {
    std::byte* at = bytes.data() + begin;
    for (std::size_t i = 0; i < count; ++i, at += sizeof(Element)) {
      const auto value = static_cast<Element>(value_of(i));
      std::memcpy(at, &value, sizeof(value));
    }
  };
  switch (width) {
    case 8:
      return fill(std::uint64_t{});
    case 4:
      return fill(std::uint32_t{});
    case 2:
      return fill(std::uint16_t{});
    default:
      return fill(std::uint8_t{});
  }
}

std::vector<std::byte> Trial::empty() const {
  const std::size_t elements = shape_.in_place ? most_elements(shape_, ranks_) : recv_count_;
  return std::vector<std::byte>(buffer_size(shape_, elements), kUntouched);
}

// What the buffer that this rank sends from holds before; and after, if it is no output.
std::vector<std::byte> Trial::sent() const {
  std::vector<std::byte> bytes =
      shape_.in_place ? empty()
                      : std::vector<std::byte>(buffer_size(shape_, send_count_), kUntouched);
  if (shape_.kind == Kind::kBroadcast && rank_ != shape_.root) return bytes;
  write(bytes, send_begin_, width_, send_count_,
        [this](std::size_t i) { return contribution(rank_, i); });
  return bytes;
}

std::vector<std::byte> Trial::due() const {
  std::vector<std::byte> bytes = shape_.in_place ? sent() : empty();
  if (!gets_result()) return bytes;
  write(bytes, recv_begin_, width_, recv_count_, [this](std::size_t i) { return expected(i); });
  return bytes;
}

std::string Trial::difference(const std::vector<std::byte>& found,
                              const std::vector<std::byte>& due) const {
  if (std::memcmp(found.data(), due.data(), due.size()) == 0) return {};
  const std::size_t byte =
      static_cast<std::size_t>(std::ranges::mismatch(found, due).in1 - found.begin());
  if (byte < begin_ || byte >= begin_ + (most_elements(shape_, ranks_) * width_)) {
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
