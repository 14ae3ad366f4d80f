// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The operations that are timed: what a size of theirs means, where their elements lie, and what
// buffers hold before and after a call.
//
// Sizes and bandwidths are those of nccl-tests. "algbw" is the size by the time of a call; "busbw"
// is algbw times a factor that makes it comparable with the speed of the links:
//
//   operation       size                                  busbw / algbw
//   all_reduce      a rank's input                        2 (n - 1) / n
//   all_gather      a rank's output, all blocks           (n - 1) / n
//   reduce_scatter  a rank's input, all blocks            (n - 1) / n
//   broadcast       the root's input                      1
//   reduce          a rank's input                        1
//   all_to_all      a rank's input, all blocks            (n - 1) / n
//   sendrecv        what a rank sends to the next rank    1
//
// A block is rounded down to a multiple of 16 bytes, or of elements if it is smaller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/gpu/values.h"

namespace weft::gpu_bench {

enum class ElementKind { kFloat32, kBfloat16, kFloat16 };

struct ElementType {
  const char* name;
  ElementKind kind;
  size_t bytes;
  int32_t range;  ///< Inputs are integers up to here, so that sums over all ranks are exact.
};

inline constexpr std::array kTypes = {
    ElementType{"float32", ElementKind::kFloat32, 4, 1000},
    ElementType{"bfloat16", ElementKind::kBfloat16, 2, 256 / kMaxRanks},
    ElementType{"float16", ElementKind::kFloat16, 2, 2048 / kMaxRanks},
};

enum class OperationKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSendRecv  ///< To the next rank, from the previous one, in one group.
};

struct Operation {
  OperationKind kind;
  const char* name;
  bool reduces;
  bool rooted;    ///< At kRoot.
  bool in_place;  ///< Can be.
  bool windows;   ///< NCCL has kernels over symmetric windows for it.
};

inline constexpr std::array kOperations = {
    Operation{OperationKind::kAllReduce, "all_reduce", true, false, true, true},
    Operation{OperationKind::kAllGather, "all_gather", false, false, true, true},
    Operation{OperationKind::kReduceScatter, "reduce_scatter", true, false, true, true},
    Operation{OperationKind::kBroadcast, "broadcast", false, true, true, false},
    Operation{OperationKind::kReduce, "reduce", true, true, true, false},
    Operation{OperationKind::kAllToAll, "all_to_all", false, false, false, false},
    Operation{OperationKind::kSendRecv, "sendrecv", false, false, false, false},
};

inline constexpr uint32_t kRoot = 0;

/// Null if there is none of that name.
[[nodiscard]] const Operation* find_operation(std::string_view name);

[[nodiscard]] double bus_factor(const Operation& operation, uint32_t ranks);

/// How large a call is, in elements but for `bytes`.
struct Shape {
  size_t count;       ///< As the call takes it: of a block where there are blocks.
  size_t send_count;  ///< Of the send buffer.
  size_t recv_count;
  size_t bytes;  ///< The size, as it came out.
};

/// The largest that is not above `bytes`. count is 0 if there is none.
[[nodiscard]] Shape shape_of(const Operation& operation, uint32_t ranks, size_t bytes,
                             size_t element_bytes);

/// One rank's call. Out of place a set has a send and a receive buffer, and both begin with the
/// call's elements; in place both lie in the receive buffer.
struct Place {
  const Operation& operation;
  Shape shape;
  uint32_t rank;
  uint32_t ranks;
  bool in_place;

  /// Where in its buffer what is sent begins, in elements.
  [[nodiscard]] size_t send_first() const;
  [[nodiscard]] size_t recv_first() const;
};

enum class Content { kInput, kOutput, kPoison };

/// A part of a set's buffers.
struct Region {
  bool in_recv;  ///< Of the receive buffer, else of the send buffer.
  size_t first;
  size_t count;
  Content content;
  Origin origin;  ///< Counts but for poison.
};

/// What is written before a call; all else is poison.
[[nodiscard]] std::vector<Region> regions_before(const Place& place);
/// What must be there afterwards, but for the poison behind the last region of the receive buffer.
[[nodiscard]] std::vector<Region> regions_after(const Place& place);

}  // namespace weft::gpu_bench
