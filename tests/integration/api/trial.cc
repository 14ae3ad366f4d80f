// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/api/trial.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

namespace weft::test {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::byte kUntouched{0xA5};
constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
// Elements whose bounds, of some 80 bytes each, are kept for the other ranks.
constexpr std::size_t kMostCommonBounds = std::size_t{1} << 18;

// splitmix64: neighbours are unlike, so no part of a buffer looks like another.
std::uint64_t scramble(std::uint64_t value) {
  value += kOdd;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

bool sends_blocks(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kScatter || kind == Kind::kAllToAll ||
         kind == Kind::kAllToAllV || kind == Kind::kReduceScatterV;
}

bool receives_blocks(Kind kind) {
  return kind == Kind::kAllGather || kind == Kind::kGather || kind == Kind::kAllToAll ||
         kind == Kind::kAllToAllV || kind == Kind::kAllGatherV;
}

std::size_t elements_of(const Shape& shape, std::uint32_t rank, std::uint32_t ranks,
                        const BlocksOf& uneven, bool blocks) {
  if (has_uneven_blocks(shape.kind)) return blocks ? uneven.extent : uneven.counts[rank];
  return blocks ? shape.count * ranks : shape.count;
}

}  // namespace

Trial::Trial(const Shape& shape, std::uint32_t rank, std::uint32_t ranks, std::uint32_t round)
    : shape_(shape),
      rank_(rank),
      ranks_(ranks),
      round_(round),
      width_(width_of(shape.type)),
      // The buffers come from the allocator, aligned to 16 bytes at least: enough for elements.
      send_base_(kLine + (shape.shift * width_)),
      recv_base_(send_base_ + (shape.in_place ? 0 : shape.recv_shift * width_)),
      sent_blocks_(blocks_of(rank, true)),
      received_blocks_(blocks_of(rank, false)),
      send_count_(elements_of(shape, rank, ranks, sent_blocks_, sends_blocks(shape.kind))),
      recv_count_(elements_of(shape, rank, ranks, received_blocks_, receives_blocks(shape.kind))),
      send_begin_(send_base_),
      recv_begin_(recv_base_),
      share_(shape.reduction == WEFT_AVG ? ranks : 1),
      most_of_one_(most_summed(shape.type) / (premultiplied() ? 3 : 1) / share_),
      most_of_each_(most_of_one_ / ranks),
      reduction_(shape.type, shape.reduction, ranks, shape.premultiplied != Premultiplied::kNo) {
  const std::size_t own_offset =
      has_uneven_blocks(shape.kind) ? sent_blocks_.offsets[rank] : rank * shape.count;
  const std::size_t own_block = own_offset * width_;
  if (shape.in_place && receives_blocks(shape.kind)) send_begin_ += own_block;
  if (shape.in_place && sends_blocks(shape.kind)) recv_begin_ += own_block;
  if (!shape.in_place) send_ = sent();
  recv_ = shape.in_place ? sent() : empty();
}

void Trial::renew(std::uint32_t round) {
  round_ = round;
  if (!shape_.in_place) std::ranges::copy(sent(), send_.begin());
  std::ranges::copy(shape_.in_place ? sent() : empty(), recv_.begin());
}

weft_result Trial::start(weft_comm* comm, weft_stream* stream) {
  if (!premultiplied()) return call(shape_.reduction, comm, stream);
  // At an odd address.
  scalar_.assign(1 + width_, kUntouched);
  write(scalar_, 1, width_, 1, [this](std::size_t) { return bits_of(factor(rank_), shape_.type); });
  weft_premul_sum_options options{};
  options.struct_size = sizeof(options);
  options.type = shape_.type;
  const bool now = shape_.premultiplied == Premultiplied::kNow;
  options.residence = now ? WEFT_SCALAR_NOW : WEFT_SCALAR_AT_CALL;
  options.scalar = scalar_.data() + 1;
  weft_reduction reduction = WEFT_SUM;
  weft_result result = weft_reduction_create_premul_sum(comm, &options, &reduction);
  if (result != WEFT_OK) return result;
  if (now) std::ranges::fill(scalar_, kUntouched);
  result = call(reduction, comm, stream);
  const weft_result destroyed = weft_reduction_destroy(comm, reduction);
  return result != WEFT_OK ? result : destroyed;
}

weft_result Trial::call(weft_reduction reduction, weft_comm* comm, weft_stream* stream) {
  const void* send = (shape_.in_place ? recv_ : send_).data() + send_begin_;
  void* recv = recv_.data() + recv_begin_;
  if (shape_.omit_unused && !shape_.in_place && has_root(shape_.kind) && rank_ != shape_.root) {
    if (shape_.kind == Kind::kBroadcast || shape_.kind == Kind::kScatter) send = nullptr;
    if (shape_.kind == Kind::kReduce || shape_.kind == Kind::kGather) recv = nullptr;
  }
  switch (shape_.kind) {
    case Kind::kAllReduce:
      return weft_all_reduce(send, recv, shape_.count, shape_.type, reduction, comm, stream);
    case Kind::kBroadcast:
      return weft_broadcast(send, recv, shape_.count, shape_.type, shape_.root, comm, stream);
    case Kind::kReduce:
      return weft_reduce(send, recv, shape_.count, shape_.type, reduction, shape_.root, comm,
                         stream);
    case Kind::kAllGather:
      return weft_all_gather(send, recv, shape_.count, shape_.type, comm, stream);
    case Kind::kReduceScatter:
      return weft_reduce_scatter(send, recv, shape_.count, shape_.type, reduction, comm, stream);
    case Kind::kAllToAll:
      return weft_all_to_all(send, recv, shape_.count, shape_.type, comm, stream);
    case Kind::kGather:
      return weft_gather(send, recv, shape_.count, shape_.type, shape_.root, comm, stream);
    case Kind::kScatter:
      return weft_scatter(send, recv, shape_.count, shape_.type, shape_.root, comm, stream);
    case Kind::kAllGatherV:
    case Kind::kReduceScatterV: {
      BlocksOf blocks = sent_blocks_;
      const weft_result result =
          shape_.kind == Kind::kAllGatherV
              ? weft_all_gather_v(send, recv, blocks.counts.data(), blocks.offsets.data(),
                                  shape_.type, comm, stream)
              : weft_reduce_scatter_v(send, blocks.counts.data(), blocks.offsets.data(), recv,
                                      shape_.type, reduction, comm, stream);
      std::ranges::fill(blocks.counts, SIZE_MAX);
      std::ranges::fill(blocks.offsets, SIZE_MAX);
      return result;
    }
    case Kind::kAllToAllV: {
      // The tables are read by the call, and may change afterwards.
      BlocksOf sent = sent_blocks_;
      BlocksOf received = received_blocks_;
      const weft_result result = weft_all_to_all_v(
          send, sent.counts.data(), sent.offsets.data(), recv, received.counts.data(),
          received.offsets.data(), shape_.type, comm, stream);
      for (std::vector<std::size_t>* table :
           {&sent.counts, &sent.offsets, &received.counts, &received.offsets})
        std::ranges::fill(*table, SIZE_MAX);
      return result;
    }
  }
  return WEFT_ERROR_INTERNAL;
}

// Three at most, and no two ranks side by side have the same. Alike in all rounds: what was
// captured keeps the scalar that it was made with.
std::int64_t Trial::factor(std::uint32_t rank) const {
  if (!premultiplied()) return 1;
  constexpr std::int64_t kFactors[] = {2, -1, 3, -2, 1};
  const std::int64_t factor = kFactors[(rank + shape_.count) % std::size(kFactors)];
  // Of a rank alone a zero would get the sign.
  return factor < 0 && (is_unsigned(shape_.type) || ranks_ == 1) ? 4 + factor : factor;
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
  // Few digits are not for all ranks: then one of them has a number at an element.
  const std::int64_t most =
      most_of_each_ == 0 && element % ranks_ == rank ? most_of_one_ : most_of_each_;
  // The fraction of that range that some random bits are: a division takes longer than all else.
  const std::uint64_t random = mixed * kOdd >> 32;
  const auto drawn =
      static_cast<std::int64_t>(random * static_cast<std::uint64_t>(2 * most + 1) >> 32);
  return (negative ? drawn - most : drawn / 2) * share_;
}

std::uint64_t Trial::mix(std::uint32_t rank, std::size_t element) const {
  return (element * 7919) + (std::uint64_t{rank} * 613) + (std::uint64_t{round_} * 104729) +
         shape_.count;
}

[[gnu::flatten]] std::uint64_t Trial::contribution(std::uint32_t rank, std::size_t element) const {
  if (shape_.values == Values::kAny) {
    const std::uint64_t drawn = scramble(scramble((std::uint64_t{round_} << 32) + rank) + element);
    return reduces(shape_.kind) ? any_bits(drawn, shape_.type, shape_.reduction) : drawn;
  }
  if (!reduces(shape_.kind)) return mix(rank, element) * kOdd;
  return bits_of(number(rank, element), shape_.type);
}

// Most of the time that trials of any values take.
[[gnu::flatten]] Reduced Trial::reduced_any(std::size_t element) const {
  Reduced result = reduction_;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank)
    result.add(contribution(rank, element), factor(rank));
  return result;
}

// Made apart from the library: over the whole numbers behind the bits.
[[gnu::flatten]] std::uint64_t Trial::reduced(std::size_t element) const {
  if (shape_.values == Values::kAny) return reduced_any(element).bits();
  std::int64_t total = number(0, element) * factor(0);
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const std::int64_t other = number(rank, element) * factor(rank);
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

// Elements that one rank has for another; none at all for some.
std::size_t Trial::uneven_count(std::uint32_t from, std::uint32_t to) const {
  const std::uint64_t drawn = scramble(scramble((std::uint64_t{from} << 32) + to) + shape_.count);
  return drawn % 4 == 0 ? 0 : (drawn >> 8) % (kMostUneven * shape_.count + 1);
}

// Not in the order of ranks, with gaps. Where all ranks name the same blocks, both are those, of
// the one buffer that has them.
BlocksOf Trial::blocks_of(std::uint32_t rank, bool sent) const {
  BlocksOf blocks;
  if (!has_uneven_blocks(shape_.kind)) return blocks;
  blocks.counts.resize(ranks_);
  blocks.offsets.resize(ranks_);
  for (std::uint32_t i = 0; i < ranks_; ++i) {
    const bool common = shape_.kind != Kind::kAllToAllV;
    const bool first = sent || common;
    // What is reduced lies alike on all ranks, so that an element has one number.
    const std::uint32_t begin = shape_.kind == Kind::kReduceScatterV ? 0 : rank;
    const std::uint32_t other = (begin + (first ? 1 : 2) + i) % ranks_;
    blocks.extent += scramble(other + (first ? 7 : 9)) % (kMostGap + 1);
    blocks.offsets[other] = blocks.extent;
    const std::uint32_t from = sent ? rank : other;
    const std::uint32_t to = sent ? other : rank;
    blocks.counts[other] = common ? uneven_count(ranks_, other) : uneven_count(from, to);
    blocks.extent += blocks.counts[other];
  }
  return blocks;
}

// What came from whom: use(element of recv_, elements, value of each), for each block.
template <typename Use>
void Trial::for_result(Use use) const {
  if (!has_uneven_blocks(shape_.kind)) {
    return use(0, recv_count_, [this](std::size_t i) { return expected(i); });
  }
  if (shape_.kind == Kind::kReduceScatterV) {
    return use(0, recv_count_, [this](std::size_t i) { return reduced(first_result() + i); });
  }
  for (std::uint32_t from = 0; from < ranks_; ++from) {
    const bool whole = shape_.kind == Kind::kAllGatherV;
    const std::size_t there = whole ? 0 : blocks_of(from, true).offsets[rank_];
    use(received_blocks_.offsets[from], received_blocks_.counts[from],
        [=, this](std::size_t i) { return contribution(from, there + i); });
  }
}

std::uint64_t Trial::expected(std::size_t element) const {
  switch (shape_.kind) {
    case Kind::kBroadcast:
      return contribution(shape_.root, element);
    case Kind::kAllGather:
    case Kind::kGather:
      return contribution(static_cast<std::uint32_t>(element / shape_.count),
                          element % shape_.count);
    case Kind::kAllToAll:
      return contribution(static_cast<std::uint32_t>(element / shape_.count),
                          rank_ * shape_.count + element % shape_.count);
    case Kind::kScatter:
      return contribution(shape_.root, rank_ * shape_.count + element);
    default:
      return reduced(first_result() + element);
  }
}

// The element of the whole reduction that this rank's result begins with.
std::size_t Trial::first_result() const {
  if (shape_.kind == Kind::kReduceScatterV) return sent_blocks_.offsets[rank_];
  return shape_.kind == Kind::kReduceScatter ? rank_ * shape_.count : 0;
}

// Whether there is more than one right result.
bool Trial::is_bounded() const {
  return shape_.values == Values::kAny && reduces(shape_.kind) && is_real(shape_.type);
}

// Whether all ranks receive the same, in one piece.
bool Trial::is_alike() const {
  return shape_.kind == Kind::kAllReduce || shape_.kind == Kind::kBroadcast ||
         shape_.kind == Kind::kAllGather;
}

bool Trial::gets_result() const {
  const bool for_root = shape_.kind == Kind::kReduce || shape_.kind == Kind::kGather;
  return !for_root || rank_ == shape_.root;
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

// Room for the shift, and a line before and after that must not change.
std::vector<std::byte> Trial::empty() const {
  const std::size_t elements = shape_.in_place ? shape_.most_elements(ranks_) : recv_count_;
  return std::vector<std::byte>(recv_base_ + (elements * width_) + kLine, kUntouched);
}

// What the buffer that this rank sends from holds before; and after, if it is no output.
std::vector<std::byte> Trial::sent() const {
  std::vector<std::byte> bytes =
      shape_.in_place
          ? empty()
          : std::vector<std::byte>(send_base_ + (send_count_ * width_) + kLine, kUntouched);
  const bool of_root = shape_.kind == Kind::kBroadcast || shape_.kind == Kind::kScatter;
  if (of_root && rank_ != shape_.root) return bytes;
  write(bytes, send_begin_, width_, send_count_,
        [this](std::size_t i) { return contribution(rank_, i); });
  return bytes;
}

// Many ranks of this process ask for the same ones, at about the same time: whoever is the first
// makes them, the others wait. The last few are kept. By the mutex alone, which a thread sanitizer
// sees here, too.
template <typename Element, typename Make, typename Use>
void Trial::with_common(Make make, Use use) const {
  using OfWhat = std::tuple<Kind, std::uint32_t, std::size_t, weft_data_type, weft_reduction,
                            Values, Premultiplied, std::uint32_t, std::uint32_t>;
  static std::mutex mutex;
  static std::deque<std::pair<OfWhat, std::vector<Element>>> kept;
  constexpr std::size_t kMostKept = 4;

  const OfWhat wanted{shape_.kind,          shape_.root,      shape_.count,
                      shape_.type,          shape_.reduction, shape_.values,
                      shape_.premultiplied, ranks_,           round_};
  const std::scoped_lock lock(mutex);
  auto found = std::ranges::find_if(kept, [&](const auto& other) { return other.first == wanted; });
  if (found == kept.end()) {
    std::vector<Element> made = make();
    if (kept.size() == kMostKept) kept.pop_front();
    kept.emplace_back(wanted, std::move(made));
    found = kept.end() - 1;
  }
  use(found->second);
}

void Trial::copy_common_result(std::byte* to) const {
  const auto make = [this] {
    std::vector<std::byte> made(recv_count_ * width_);
    write(made, 0, width_, recv_count_, [this](std::size_t i) { return expected(i); });
    return made;
  };
  with_common<std::byte>(make, [to](const std::vector<std::byte>& made) {
    std::memcpy(to, made.data(), made.size());
  });
}

std::vector<std::byte> Trial::due() const {
  // In place what is sent stays but where the result is.
  const bool stays = !gets_result() || send_begin_ < recv_begin_ || send_count_ > recv_count_;
  std::vector<std::byte> bytes = shape_.in_place && stays ? sent() : empty();
  if (!gets_result() || is_bounded()) return bytes;
  if (is_alike() && recv_count_ != 0) {
    copy_common_result(bytes.data() + recv_begin_);
    return bytes;
  }
  for_result([&](std::size_t begin, std::size_t count, auto value_of) {
    write(bytes, recv_begin_ + (begin * width_), width_, count, value_of);
  });
  return bytes;
}

std::uint64_t Trial::load(const std::vector<std::byte>& buffer, std::size_t at) const {
  std::uint64_t value = 0;
  std::memcpy(&value, buffer.data() + at, width_);
  return value;
}

// Takes what was received over into `due` wherever it is right; says what is wrong first.
std::string Trial::out_of_bounds(std::vector<std::byte>& due) const {
  if (!gets_result() || !is_bounded()) return {};
  // Of an all-reduce each rank is due the same.
  if (shape_.kind == Kind::kAllReduce && recv_count_ <= kMostCommonBounds) {
    const auto make = [this] {
      std::vector<Reduced> made;
      made.reserve(recv_count_);
      for (std::size_t i = 0; i < recv_count_; ++i)
        made.push_back(reduced_any(i));
      return made;
    };
    std::string wrong;
    with_common<Reduced>(make, [&](const std::vector<Reduced>& made) {
      wrong = out_of_these(due, [&](std::size_t i) -> const Reduced& { return made[i]; });
    });
    return wrong;
  }
  return out_of_these(due, [this](std::size_t i) { return reduced_any(first_result() + i); });
}

template <typename DueOf>
std::string Trial::out_of_these(std::vector<std::byte>& due, DueOf due_of) const {
  for (std::size_t i = 0; i < recv_count_; ++i) {
    const std::size_t at = recv_begin_ + (i * width_);
    const Reduced& expected = due_of(i);
    const std::uint64_t found = load(recv_, at);
    if (!expected.allows(found)) {
      std::ostringstream text;
      text.precision(20);
      text << "element " << i << " of the result is " << real_of(found, shape_.type)
           << " instead of " << expected.describe();
      return text.str();
    }
    std::memcpy(due.data() + at, recv_.data() + at, width_);
  }
  return {};
}

std::string Trial::difference(const std::vector<std::byte>& found,
                              const std::vector<std::byte>& due, std::size_t begin) const {
  if (std::memcmp(found.data(), due.data(), due.size()) == 0) return {};
  const std::size_t byte =
      static_cast<std::size_t>(std::ranges::mismatch(found, due).in1 - found.begin());
  if (byte < begin || byte >= due.size() - kLine) {
    return "byte " +
           std::to_string(static_cast<std::ptrdiff_t>(byte) - static_cast<std::ptrdiff_t>(begin)) +
           " beside a buffer was changed";
  }
  const std::size_t element = (byte - begin) / width_;
  const std::size_t at = begin + (element * width_);
  std::ostringstream text;
  text << "element " << element << " has the bits 0x" << std::hex << load(found, at)
       << " instead of 0x" << load(due, at);
  return text.str();
}

std::string Trial::wrong() const {
  const auto complain = [&](const std::string& what) {
    return "rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) + ": " +
           shape_.describe() + ": " + what;
  };
  std::vector<std::byte> expected = due();
  if (const std::string text = out_of_bounds(expected); !text.empty()) return complain(text);
  if (const std::string text = difference(recv_, expected, recv_base_); !text.empty()) {
    return complain(text);
  }
  if (!shape_.in_place) {
    if (const std::string text = difference(send_, sent(), send_base_); !text.empty()) {
      return complain("its send buffer was changed: " + text);
    }
  }
  return {};
}

std::uint64_t Trial::digest() const {
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(recv_.data()) + recv_begin_, recv_count_ * width_});
}

}  // namespace weft::test
