// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The loops of lanes beside plain ones over elements, for buffers that lie anywhere: what is
// written, and how much of it by lines of 16 bytes.
#include "core/device/lane_loops.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "core/device/narrow_float.h"
#include "core/device/reductions.h"
#include "tests/device/every_type.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

/// One of several lanes, which do their parts one after the other.
class LaneInTurn {
 public:
  LaneInTurn(std::uint32_t rank, std::uint32_t size) : rank_(rank), size_(size) {}
  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  const std::uint32_t rank_;
  const std::uint32_t size_;
};

class CountingMemory {
 public:
  static Line load_line(const std::byte* from) {
    RC_ASSERT(reinterpret_cast<std::uintptr_t>(from) % sizeof(Line) == 0U);
    Line line;
    std::memcpy(&line, from, sizeof(line));
    return line;
  }
  void store_line(std::byte* to, Line line) {
    RC_ASSERT(reinterpret_cast<std::uintptr_t>(to) % sizeof(Line) == 0U);
    std::memcpy(to, &line, sizeof(line));
    ++lines;
  }

  std::uint64_t lines = 0;  ///< Stored.
};

/// Elements somewhere in memory, with others around them.
template <class T>
class Placed {
 public:
  Placed(std::uint64_t count, std::uint64_t shift_bytes, std::uint32_t seed)
      : blocks_((shift_bytes + count * sizeof(T)) / sizeof(Block) + 2),
        shift_(kBefore + shift_bytes),
        count_(count) {
    for (std::uint64_t i = 0; i < count; ++i)
      data()[i] = sample<T>(seed, i);
  }
  [[nodiscard]] std::byte* bytes() { return blocks_[0].bytes + shift_; }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes()); }
  [[nodiscard]] std::vector<T> values() { return {data(), data() + count_}; }
  /// Where it lies in a line.
  [[nodiscard]] std::uint64_t place() const { return shift_ % sizeof(Line); }
  [[nodiscard]] bool untouched_around() const {
    const std::byte* const begin = blocks_[0].bytes;
    const std::byte* const end = begin + blocks_.size() * sizeof(Block);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    return std::all_of(begin, begin + shift_, is_zero) &&
           std::all_of(begin + shift_ + count_ * sizeof(T), end, is_zero);
  }

 private:
  struct alignas(64) Block {
    std::byte bytes[64];
  };
  static constexpr std::uint64_t kBefore = 16;

  std::vector<Block> blocks_;
  std::uint64_t shift_;
  std::uint64_t count_;
};

/// Of all in [first, end) alike.
template <class Number>
Number within(Number first, Number end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, end));
}

/// How several buffers lie: half of the time equally far from a line.
struct Shifts {
  explicit Shifts(std::uint64_t width)
      : width_(width), common_(*rc::gen::arbitrary<bool>()), first_(any()) {}

  std::uint64_t next() { return common_ ? first_ + sizeof(Line) * within(0, 3) : any(); }

 private:
  [[nodiscard]] std::uint64_t any() const {
    return within<std::uint64_t>(0, 2 * sizeof(Line) / width_) * width_;
  }

  const std::uint64_t width_;
  const bool common_;
  const std::uint64_t first_;
};

/// Lines that `bytes` bytes hold of buffers at these places in their lines.
std::uint64_t lines_due(std::uint64_t bytes, const std::vector<std::uint64_t>& places) {
  const bool common = std::ranges::all_of(places, [&](auto place) { return place == places[0]; });
  const std::uint64_t head = (sizeof(Line) - places[0]) % sizeof(Line);
  return common && bytes > head ? (bytes - head) / sizeof(Line) : 0;
}

template <class Body>
void by_each_lane(const Body& body) {
  const auto size = *rc::gen::element<std::uint32_t>(1, 3, 8, 32);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    LaneInTurn lane(rank, size);
    body(lane);
  }
}

void check_copy() {
  const auto bytes = within<std::uint64_t>(0, 300);
  Shifts shifts(1);
  Placed<std::uint8_t> source(bytes, shifts.next(), 0);
  Placed<std::uint8_t> first(bytes, shifts.next(), 1);
  Placed<std::uint8_t> second(bytes, shifts.next(), 2);
  const auto also = *rc::gen::arbitrary<bool>();
  const auto before = second.values();
  CountingMemory memory;
  by_each_lane([&](LaneInTurn& lane) {
    lane_copy(lane, memory, first.bytes(), also ? second.bytes() : nullptr, source.bytes(), bytes);
  });
  RC_ASSERT(first.values() == source.values());
  RC_ASSERT(second.values() == (also ? source.values() : before));
  std::vector<std::uint64_t> places = {source.place(), first.place()};
  if (also) places.push_back(second.place());
  RC_ASSERT(memory.lines == lines_due(bytes, places) * (also ? 2 : 1));
  RC_ASSERT(source.untouched_around() && first.untouched_around() && second.untouched_around());
}

template <class T>
void check_reduce() {
  const auto count = within<std::uint64_t>(0, 300 / sizeof(T));
  Shifts shifts(sizeof(T));
  Placed<T> a(count, shifts.next(), 0);
  Placed<T> b(count, shifts.next(), 1);
  Placed<T> apart(count, shifts.next(), 2);
  Placed<T> second(count, shifts.next(), 3);
  const auto also = *rc::gen::arbitrary<bool>();
  Placed<T>& first = *rc::gen::arbitrary<bool>() ? b : apart;
  std::vector<T> due(count);
  for (std::uint64_t i = 0; i < count; ++i)
    due[i] = Sum<T>::combine(a.data()[i], b.data()[i]);
  const auto before = second.values();
  CountingMemory memory;
  by_each_lane([&](LaneInTurn& lane) {
    lane_reduce(Sum<T>{}, lane, memory, first.bytes(), also ? second.bytes() : nullptr, a.bytes(),
                b.bytes(), count);
  });
  RC_ASSERT(first.values() == due);
  RC_ASSERT(second.values() == (also ? due : before));
  std::vector<std::uint64_t> places = {a.place(), b.place(), first.place()};
  if (also) places.push_back(second.place());
  RC_ASSERT(memory.lines == lines_due(count * sizeof(T), places) * (also ? 2 : 1));
  RC_ASSERT(a.untouched_around() && b.untouched_around() && apart.untouched_around() &&
            second.untouched_around());
}

template <class T>
void check_finish() {
  const auto count = within<std::uint64_t>(0, 300 / sizeof(T));
  Shifts shifts(sizeof(T));
  Placed<T> first(count, shifts.next(), 0);
  Placed<T> second(count, shifts.next(), 1);
  const auto also = *rc::gen::arbitrary<bool>();
  const Average<T> average{.divisor = 2};
  std::vector<T> due = first.values();
  for (T& element : due)
    element = average.finish(element);
  const auto before = second.values();
  by_each_lane([&](LaneInTurn& lane) {
    lane_finish(average, lane, first.bytes(), also ? second.bytes() : nullptr, count);
  });
  RC_ASSERT(first.values() == due);
  RC_ASSERT(second.values() == (also ? due : before));
  RC_ASSERT(first.untouched_around() && second.untouched_around());
}

void check_copy_each() {
  constexpr std::uint32_t kRanks = 3;
  Shifts shifts(1);
  std::vector<Placed<std::uint8_t>> sources;
  std::vector<Placed<std::uint8_t>> results;
  std::byte* to[kRanks];
  const std::byte* from[kRanks];
  std::uint64_t bytes[kRanks];
  std::vector<std::uint64_t> places;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    bytes[r] = within(0, 3) == 0 ? 0 : within<std::uint64_t>(0, 300);
    sources.emplace_back(bytes[r], shifts.next(), r);
    results.emplace_back(bytes[r], shifts.next(), 7);
  }
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    to[r] = results[r].bytes();
    from[r] = sources[r].bytes();
    if (bytes[r] == 0) continue;
    places.push_back(sources[r].place());
    places.push_back(results[r].place());
  }
  CountingMemory memory;
  by_each_lane([&](LaneInTurn& lane) { lane_copy_each<kRanks>(lane, memory, to, from, bytes); });
  const bool common = std::ranges::all_of(places, [&](auto place) { return place == places[0]; });
  std::uint64_t lines = 0;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    RC_ASSERT(results[r].values() == sources[r].values());
    RC_ASSERT(results[r].untouched_around());
    lines += lines_due(bytes[r], {sources[r].place(), results[r].place()});
  }
  if (common) RC_ASSERT(memory.lines == lines);
}

template <class T>
void check_reduce_ranks() {
  constexpr std::uint32_t kMost = 4;
  const auto ranks = within<std::uint32_t>(1, kMost + 1);
  const auto count = within<std::uint64_t>(0, 300 / sizeof(T));
  const auto in_place = *rc::gen::arbitrary<bool>();
  Shifts shifts(sizeof(T));
  std::vector<Placed<T>> sources;
  std::vector<Placed<T>> results;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    sources.emplace_back(count, shifts.next(), r);
    results.emplace_back(count, shifts.next(), 7);
  }
  std::byte* to[kMost]{};
  const std::byte* from[kMost]{};
  std::vector<std::uint64_t> places;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    Placed<T>& result = in_place ? sources[r] : results[r];
    to[r] = result.bytes();
    from[r] = sources[r].bytes();
    places.push_back(sources[r].place());
    places.push_back(result.place());
  }
  const Average<T> average{.divisor = 2};
  std::vector<T> due = sources[0].values();
  for (std::uint64_t i = 0; i < count; ++i) {
    if constexpr (narrow_float<T>) {
      float sum = to_float(due[i]);
      for (std::uint32_t r = 1; r < ranks; ++r)
        sum += to_float(sources[r].data()[i]);
      due[i] = from_float<T>(sum / 2);
    } else {
      for (std::uint32_t r = 1; r < ranks; ++r)
        due[i] = Average<T>::combine(due[i], sources[r].data()[i]);
      due[i] = average.finish(due[i]);
    }
  }
  CountingMemory memory;
  by_each_lane([&](LaneInTurn& lane) {
    lane_reduce_ranks<kMost>(average, lane, memory, to, from, ranks, count);
  });
  for (std::uint32_t r = 0; r < ranks; ++r) {
    RC_ASSERT((in_place ? sources : results)[r].values() == due);
    RC_ASSERT(sources[r].untouched_around() && results[r].untouched_around());
  }
  RC_ASSERT(memory.lines == lines_due(count * sizeof(T), places) * ranks);
}

/// Of any type.
template <class Check>
void check_any_type(const Check& check) {
  EXPECT_TRUE(rc::check("any type, place and size", [&] {
    int left = within(0, 12);
    for_each_type([&]<class T>() {
      if (left-- == 0) check.template operator()<T>();
    });
  }));
}

TEST(LaneLoopsProperty, Copy) {
  EXPECT_TRUE(rc::check("any place and size", check_copy));
}
TEST(LaneLoopsProperty, Reduce) {
  check_any_type([]<class T>() { check_reduce<T>(); });
}
TEST(LaneLoopsProperty, Finish) {
  check_any_type([]<class T>() { check_finish<T>(); });
}
TEST(LaneLoopsProperty, CopyEach) {
  EXPECT_TRUE(rc::check("any place and size", check_copy_each));
}
TEST(LaneLoopsProperty, ReduceRanks) {
  check_any_type([]<class T>() { check_reduce_ranks<T>(); });
}

}  // namespace
}  // namespace weft::device::testing
