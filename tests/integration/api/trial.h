// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One collective call of one rank, with buffers of its own and knowledge of what must come out of
// it. Uses the public API alone, and no test framework: programs of single ranks use it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <weft/weft.h>

#include "tests/integration/api/numbers.h"

namespace weft::test {

enum class Kind : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kAllToAllV,
  kAllGatherV,
  kReduceScatterV
};

[[nodiscard]] bool reduces(Kind kind);
[[nodiscard]] bool has_root(Kind kind);
[[nodiscard]] bool can_be_in_place(Kind kind);
/// Whether one buffer at least has a block for each rank; whether those differ in size.
[[nodiscard]] bool has_blocks(Kind kind);
[[nodiscard]] bool has_uneven_blocks(Kind kind);

/// A block that differs from others has at most so many times the elements of Shape::count, and so
/// many beside it that are not its own.
inline constexpr std::size_t kMostUneven = 2;
inline constexpr std::size_t kMostGap = 2;

/// What the buffers hold.
enum class Values : std::uint8_t {
  kWhole,  ///< Whole numbers of which the type holds every result exactly, in any order.
  kAny     ///< Anything: see any_bits and Reduced in tests/integration/api/numbers.h.
};

/// Whether each rank's input is multiplied by a scalar of its own, and when that is read.
enum class Premultiplied : std::uint8_t { kNo, kNow, kAtCall };

/// What all ranks call alike, and how the buffers lie.
struct Shape {
  Kind kind = Kind::kAllReduce;
  std::size_t count = 0;  ///< Of one rank's block; where blocks differ, on average or so.
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;
  std::uint32_t root = 0;
  bool in_place = false;
  std::size_t shift = 0;       ///< Elements that the buffers begin after a 16-byte line.
  std::size_t recv_shift = 0;  ///< More of them for the receive buffer, out of place.
  Values values = Values::kWhole;
  Premultiplied premultiplied = Premultiplied::kNo;  ///< Of sums.
  bool omit_unused = false;  ///< NULL for a buffer that does not count, but for in place.

  /// Of the larger buffer.
  [[nodiscard]] std::size_t most_elements(std::uint32_t ranks) const;
  [[nodiscard]] std::string describe() const;
};

/// A call for tests in which any would do.
inline constexpr Shape kSmallSum{.kind = Kind::kAllReduce,
                                 .count = 1000,
                                 .type = WEFT_INT32,
                                 .reduction = WEFT_SUM,
                                 .root = 0,
                                 .in_place = false,
                                 .shift = 0};

/// The shapes that every way of making ranks has to carry: all operations, types and reductions, no
/// element, one, few, around the borders of ranks' shares and of buffer steps, every root, in and
/// out of place, aligned to no more than the element.
[[nodiscard]] std::vector<Shape> all_shapes(std::uint32_t ranks, std::size_t step_bytes);

/// Some of `bytes` bytes: every operation, type and reduction, not all pairs of them.
[[nodiscard]] std::vector<Shape> large_shapes(std::uint32_t ranks, std::size_t bytes);

/// Where the blocks of a buffer lie, in elements, by rank.
struct BlocksOf {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::size_t extent = 0;  ///< Elements of the buffer.
};

class Trial {
 public:
  /// `round` makes the data of one trial unlike those of another.
  Trial(const Shape& shape, std::uint32_t rank, std::uint32_t ranks, std::uint32_t round);

  /// Calls; the trial must live until the stream is synchronized.
  weft_result start(weft_comm* comm, weft_stream* stream);
  /// After that, or before: new data in the same buffers.
  void renew(std::uint32_t round);
  /// After that: empty if every element is right and nothing else was touched, else what is wrong.
  [[nodiscard]] std::string wrong() const;
  /// A digest of what this rank received, alike on all ranks of an all-reduce: each element has the
  /// same bits everywhere.
  [[nodiscard]] std::uint64_t digest() const;

 private:
  [[nodiscard]] std::uint64_t mix(std::uint32_t rank, std::size_t element) const;
  weft_result call(weft_reduction reduction, weft_comm* comm, weft_stream* stream);
  [[nodiscard]] bool premultiplied() const { return shape_.premultiplied != Premultiplied::kNo; }
  [[nodiscard]] std::int64_t factor(std::uint32_t rank) const;
  [[nodiscard]] std::int64_t number(std::uint32_t rank, std::size_t element) const;
  [[nodiscard]] std::uint64_t contribution(std::uint32_t rank, std::size_t element) const;
  [[nodiscard]] std::uint64_t reduced(std::size_t element) const;
  [[nodiscard]] Reduced reduced_any(std::size_t element) const;
  [[nodiscard]] bool is_bounded() const;
  [[nodiscard]] std::size_t uneven_count(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] BlocksOf blocks_of(std::uint32_t rank, bool sent) const;
  template <typename Use>
  void for_result(Use use) const;
  [[nodiscard]] std::size_t first_result() const;
  [[nodiscard]] std::uint64_t expected(std::size_t element) const;
  [[nodiscard]] bool is_alike() const;
  [[nodiscard]] bool gets_result() const;
  [[nodiscard]] std::vector<std::byte> sent() const;
  [[nodiscard]] std::vector<std::byte> empty() const;
  [[nodiscard]] std::vector<std::byte> due() const;
  template <typename Element, typename Make, typename Use>
  void with_common(Make make, Use use) const;
  void copy_common_result(std::byte* to) const;
  template <typename ValueOf>
  static void write(std::vector<std::byte>& bytes, std::size_t begin, std::size_t width,
                    std::size_t count, ValueOf value_of);
  [[nodiscard]] std::uint64_t load(const std::vector<std::byte>& buffer, std::size_t at) const;
  [[nodiscard]] std::string out_of_bounds(std::vector<std::byte>& due) const;
  template <typename DueOf>
  std::string out_of_these(std::vector<std::byte>& due, DueOf due_of) const;
  [[nodiscard]] std::string difference(const std::vector<std::byte>& found,
                                       const std::vector<std::byte>& due, std::size_t begin) const;

  Shape shape_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::uint32_t round_;
  std::size_t width_;      // of an element, bytes
  std::size_t send_base_;  // where the elements of a buffer begin, bytes
  std::size_t recv_base_;
  BlocksOf sent_blocks_;  // empty unless they differ
  BlocksOf received_blocks_;
  std::size_t send_count_;  // elements
  std::size_t recv_count_;
  // In place there is one buffer, recv_, in which the smaller of both is the rank's own block.
  std::size_t send_begin_;
  std::size_t recv_begin_;
  // What whole numbers are multiples of, and how many of these at most, if a rank alone has one
  // at an element and if all have.
  std::int64_t share_;
  std::int64_t most_of_one_;
  std::int64_t most_of_each_;
  Reduced reduction_;  // of nothing
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
  std::vector<std::byte> scalar_;  // what this rank's input is multiplied by
};

}  // namespace weft::test
