// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a call is: the operation, its type and size, and how the buffers of the ranks lie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <vector>

#include <weft/types.h>

namespace weft::gpu_test {

using Bytes = std::vector<std::byte>;

struct Type {
  const char* name;
  weft_data_type weft;
  std::size_t bytes;
};
std::ostream& operator<<(std::ostream& out, const Type& type);
inline constexpr Type kInt8{"int8", WEFT_INT8, 1};
inline constexpr Type kUint8{"uint8", WEFT_UINT8, 1};
inline constexpr Type kInt32{"int32", WEFT_INT32, 4};
inline constexpr Type kUint32{"uint32", WEFT_UINT32, 4};
inline constexpr Type kInt64{"int64", WEFT_INT64, 8};
inline constexpr Type kUint64{"uint64", WEFT_UINT64, 8};
inline constexpr Type kFloat16{"float16", WEFT_FLOAT16, 2};
inline constexpr Type kFloat32{"float32", WEFT_FLOAT32, 4};
inline constexpr Type kFloat64{"float64", WEFT_FLOAT64, 8};
inline constexpr Type kBfloat16{"bfloat16", WEFT_BFLOAT16, 2};
inline constexpr Type kFloat8E4m3{"float8_e4m3", WEFT_FLOAT8_E4M3, 1};
inline constexpr Type kFloat8E5m2{"float8_e5m2", WEFT_FLOAT8_E5M2, 1};
inline constexpr std::array kAllTypes{kInt8,    kUint8,    kInt32,      kUint32,
                                      kInt64,   kUint64,   kFloat16,    kFloat32,
                                      kFloat64, kBfloat16, kFloat8E4m3, kFloat8E5m2};
/// Of the longest runs: a float and an integer, and those that are combined in pairs.
inline constexpr std::array kTypes{kFloat32, kInt32, kFloat16, kBfloat16};

enum class Operation : std::uint8_t {
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
  kReduceScatterV,
  kExchange  ///< Sends and receives.
};
inline constexpr std::array kCollectives{
    Operation::kAllReduce,  Operation::kBroadcast,     Operation::kReduce,
    Operation::kAllGather,  Operation::kReduceScatter, Operation::kAllToAll,
    Operation::kGather,     Operation::kScatter,       Operation::kAllToAllV,
    Operation::kAllGatherV, Operation::kReduceScatterV};
[[nodiscard]] const char* name_of(Operation operation);
std::ostream& operator<<(std::ostream& out, Operation operation);
[[nodiscard]] std::optional<Operation> parse_operation(std::string_view name);
[[nodiscard]] bool reduces(Operation operation);
[[nodiscard]] bool has_root(Operation operation);
/// Whether a buffer has a block for each rank; whether those differ in size.
[[nodiscard]] bool has_blocks(Operation operation);
[[nodiscard]] bool has_tables(Operation operation);
[[nodiscard]] bool can_be_in_place(Operation operation);

/// Whether a sum is pre-multiplied, and where each rank's factor is.
enum class Premul : std::uint8_t {
  kNo,
  kNow,     ///< In host memory.
  kAtCall,  ///< In device memory.
  kMixed    ///< In host memory of even ranks, in device memory of the others.
};

/// What one rank sends to another.
struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::size_t count = 0;
  Type type = kFloat32;
};

/// One call, the same on all ranks.
struct Call {
  Operation operation = Operation::kAllReduce;
  Type type = kFloat32;
  weft_reduction reduction = WEFT_SUM;
  Premul premul = Premul::kNo;
  std::size_t count = 0;  ///< Of a block where there are some; of the largest where they differ.
  std::uint32_t root = 0;
  bool in_place = false;  ///< Of the root alone where others have nothing to be in place.
  /// By how many elements the buffers lie beyond a multiple of 256 bytes.
  std::uint32_t send_offset = 0;
  std::uint32_t recv_offset = 0;
  /// Inputs of reductions hold NaNs, infinities, subnormals and zeros of both signs.
  bool specials = false;
  /// They are whole numbers of which each type holds what 4 ranks make, in whatever order: results
  /// are exact, where bounds on roundings of few digits would allow nearly anything.
  bool whole = false;
  /// Results are the left fold by rank numbers, whatever the type: exact to the bit.
  bool by_rank = false;
  /// NULL for a buffer that does not count on a rank; else one that must stay as it is.
  bool omit_unused = true;
  /// Where blocks differ, which sizes and places they have; 0: alike, in order, without gaps.
  std::uint32_t table = 0;
  std::vector<Message> messages = {};
  /// Of an exchange: calls in one group, in an order that each rank draws from it.
  bool grouped = true;
  std::uint64_t order = 0;

  [[nodiscard]] std::size_t bytes() const { return count * type.bytes; }
};
std::ostream& operator<<(std::ostream& out, const Call& call);

/// Bytes that follow each other in a buffer, and where in what the buffer is about.
struct Block {
  std::size_t at = 0;
  std::size_t bytes = 0;
};

/// One of the two buffers of a rank.
struct Side {
  bool counts = true;  ///< Whether the operation looks at it on this rank.
  std::vector<Block> blocks;
  std::size_t extent = 0;  ///< Bytes, gaps included.
};

/// What must be in a block of a rank's receive buffer.
struct Due {
  std::optional<std::uint32_t> from;  ///< Whose input is copied there; none: the reduction.
  std::size_t at = 0;                 ///< Byte of that input, or of the reduction.
};

/// The buffers of one rank. Its input is the blocks of `send` one after the other.
struct Buffers {
  Side send, recv;
  std::vector<Due> due;  ///< For each block of recv.
  bool in_place = false;
  std::size_t inner = 0;  ///< Where the smaller buffer lies in the larger one then.

  [[nodiscard]] std::size_t input_bytes() const;
};
[[nodiscard]] Buffers buffers_of(const Call& call, std::uint32_t ranks, std::uint32_t rank);

/// The n-th number that a seed stands for.
[[nodiscard]] std::uint64_t draw(std::uint64_t seed, std::uint64_t n);

}  // namespace weft::gpu_test
