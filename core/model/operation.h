// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What can be asked of a communicator and in which ways it can be done: ids that plans, work items
// and messages carry. C++20, plain data; values are part of what ranks exchange and never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <weft/types.h>

namespace weft {

enum class Operation : std::uint8_t {
  kAllReduce = 0,
  kBroadcast = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kReduce = 4,
  kSend = 5,
  kRecv = 6,
  kAllToAll = 7,
  kGather = 8,
  kScatter = 9,
  kAllToAllV = 10,
  kAllGatherV = 11,
  kReduceScatterV = 12,
};
inline constexpr std::size_t kOperationCount = 13;

enum class Algorithm : std::uint8_t {
  kRing = 0,
  kDirect = 1,
  kPair = 2,
  kTree = 3,
  kTwoShot = 4,
  kPat = 5,
  kChain = 6,
  kCopy = 7,       ///< By copy engines into mapped buffers; not planned, as kPair.
  kMulticast = 8,  ///< Through memory that a switch combines and stores to; see multicast.h.
};
inline constexpr std::size_t kAlgorithmCount = 9;

enum class Protocol : std::uint8_t { kSimple = 0, kLL = 1, kLL128 = 2 };
inline constexpr std::size_t kProtocolCount = 3;

[[nodiscard]] constexpr std::string_view operation_name(Operation operation) {
  constexpr std::string_view kNames[kOperationCount] = {
      "all_reduce",   "broadcast",    "all_gather",      "reduce_scatter", "reduce",
      "send",         "recv",         "all_to_all",      "gather",         "scatter",
      "all_to_all_v", "all_gather_v", "reduce_scatter_v"};
  return kNames[static_cast<std::size_t>(operation)];
}

[[nodiscard]] constexpr std::string_view algorithm_name(Algorithm algorithm) {
  constexpr std::string_view kNames[kAlgorithmCount] = {
      "ring", "direct", "pair", "tree", "two-shot", "pat", "chain", "copy", "multicast"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

/// Whether ranks write into each other's inboxes; see direct_peers.h.
[[nodiscard]] constexpr bool goes_directly(Algorithm algorithm) {
  return algorithm == Algorithm::kDirect || algorithm == Algorithm::kTwoShot ||
         algorithm == Algorithm::kMulticast;
}

[[nodiscard]] constexpr std::string_view protocol_name(Protocol protocol) {
  constexpr std::string_view kNames[kProtocolCount] = {"simple", "ll", "ll128"};
  return kNames[static_cast<std::size_t>(protocol)];
}

/// Whether elements of different ranks are combined.
[[nodiscard]] constexpr bool reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter ||
         operation == Operation::kReduce || operation == Operation::kReduceScatterV;
}

/// Whether the order in which values are combined tells in the bits of the result: integers wrap,
/// and come out alike in any.
[[nodiscard]] constexpr bool rounds(weft_data_type type) {
  switch (type) {
    case WEFT_FLOAT16:
    case WEFT_FLOAT32:
    case WEFT_FLOAT64:
    case WEFT_BFLOAT16:
    case WEFT_FLOAT8_E4M3:
    case WEFT_FLOAT8_E5M2:
      return true;
    default:
      return false;
  }
}

/// Whether one rank is another than the rest; Task::root is its number.
[[nodiscard]] constexpr bool has_root(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce ||
         operation == Operation::kGather || operation == Operation::kScatter;
}

/// Whether it is a matter of two ranks; Task::root is the number of the other one.
[[nodiscard]] constexpr bool joins_pair(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv;
}

/// Whether all ranks call it, and each two of them move their part of it alone: what one has for
/// the other is a transfer, as of a send and a receive. Such a call has no plan.
[[nodiscard]] constexpr bool is_exchange(Operation operation) {
  return operation == Operation::kAllToAll || operation == Operation::kGather ||
         operation == Operation::kScatter || operation == Operation::kAllToAllV;
}

/// Whether a plan says how it is carried out.
[[nodiscard]] constexpr bool is_planned(Operation operation) {
  return !joins_pair(operation) && !is_exchange(operation);
}

/// Whether the blocks of a planned call differ, though all ranks name the same ones. The task of
/// its plan holds the elements of the longest one; the task of a call holds those of all, and as
/// `root` a checksum of where they lie.
[[nodiscard]] constexpr bool has_uneven_blocks(Operation operation) {
  return operation == Operation::kAllGatherV || operation == Operation::kReduceScatterV;
}

/// Whether a buffer holds a block of Task::count elements for each rank, or of fewer.
[[nodiscard]] constexpr bool has_blocks(Operation operation) {
  return operation == Operation::kAllGather || operation == Operation::kReduceScatter ||
         operation == Operation::kAllToAll || operation == Operation::kGather ||
         operation == Operation::kScatter || has_uneven_blocks(operation);
}

/// Bytes of one element; 0 for a value that is no element type.
[[nodiscard]] constexpr std::size_t element_size(weft_data_type type) {
  switch (type) {
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_FLOAT8_E4M3:
    case WEFT_FLOAT8_E5M2:
      return 1;
    case WEFT_FLOAT16:
    case WEFT_BFLOAT16:
      return 2;
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_FLOAT32:
      return 4;
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

/// A sum of inputs that each rank multiplied by a factor of its own: what a reduction that a user
/// made is in tasks and tags.
inline constexpr weft_reduction kPremulSum = WEFT_AVG + 1;

/// Whether who has the inputs of several ranks combines them as float32 and rounds once: sums and
/// products of floats of 16 and of 8 bits. Maxima and minima need no rounding.
[[nodiscard]] constexpr bool accumulates(weft_data_type type, weft_reduction reduction) {
  return rounds(type) && element_size(type) < sizeof(float) && reduction != WEFT_MAX &&
         reduction != WEFT_MIN;
}

/// The spelling used on the command line and in messages; "?" for a value that is no element type.
[[nodiscard]] constexpr std::string_view data_type_name(weft_data_type type) {
  constexpr std::string_view kNames[] = {"int8",    "uint8",    "int32",       "uint32",
                                         "int64",   "uint64",   "float16",     "float32",
                                         "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  return type >= 0 && type <= WEFT_FLOAT8_E5M2 ? kNames[type] : "?";
}

[[nodiscard]] constexpr std::string_view reduction_name(weft_reduction reduction) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "avg", "premul_sum"};
  return reduction >= 0 && reduction <= kPremulSum ? kNames[reduction] : "?";
}

/// Which ways its user leaves to one call, out of those that the configuration allows. Of planned
/// operations alone: the others have no choice of ways.
struct WayOptions {
  std::optional<Algorithm> algorithm{};  ///< None: any.
  std::optional<Protocol> protocol{};    ///< Likewise.
  std::uint32_t max_channels = 0;        ///< 0: as many as there are.

  [[nodiscard]] constexpr bool names_way() const { return algorithm || protocol; }
  friend bool operator==(const WayOptions&, const WayOptions&) = default;
};

/// One call on one communicator, without its buffers: the same on every rank but for sends and
/// receives, or a mistake of the caller that the operation tag brings to light.
struct Task {
  Operation operation = Operation::kAllReduce;
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;  ///< Ignored by operations that do not reduce; then kSum.
  std::uint32_t root = 0;               ///< Rank: the root, the other one of a pair; otherwise 0.
  /// Elements; of one rank's block where the operation has blocks. 0 of kAllToAllV, whose blocks
  /// are a matter of two ranks each.
  std::uint64_t count = 0;
  /// Which window the output lies in, and where, and of reductions the input, alike on all ranks; 0
  /// of calls that do not go through windows. See WindowPlace, ReductionPlaces.
  std::uint64_t place = 0;
  WayOptions options{};

  /// Of `count` elements.
  [[nodiscard]] std::uint64_t bytes() const { return count * element_size(type); }
  friend bool operator==(const Task&, const Task&) = default;
};

}  // namespace weft
