// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From calls to launches: what is started together, and in which order.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"

namespace weft {

class BoundPlan;
struct BlockTable;
class Communicator;
class Stream;

/// One operation as it was called.
struct Call {
  Communicator* communicator = nullptr;
  Stream* stream = nullptr;
  Task task;
  const void* send = nullptr;
  void* recv = nullptr;
  Factor factor{};                            ///< Of kPremulSum.
  std::shared_ptr<BoundPlan> plan = nullptr;  ///< Of a recorded collective; else it is looked up.
  std::shared_ptr<const BlockTable> blocks = nullptr;  ///< Where blocks differ.
};

/// Whether a call has no elements on any rank.
[[nodiscard]] inline bool is_empty(const Call& call) {
  return call.task.count == 0 && call.task.operation != Operation::kAllToAllV;
}

/// What becomes one launch: a collective call, or all sends and receives of a communicator.
using CallBatch = std::vector<const Call*>;

/// Launches that start together: at most one of each communicator, whose operations are serial.
struct Piece {
  std::size_t round = 0;
  Stream* stream = nullptr;
  std::vector<CallBatch> batches;
  // Room for start_piece, so that a piece that is started again allocates nothing.
  std::vector<Launch> launches{};
  std::vector<Communicator*> communicators{};
};

/// Starts calls, all of a stream's launches together; `calls` may concern several communicators.
/// Those on a stream that is captured are recorded instead.
Status start_calls(std::span<const Call> calls);

/// What start_calls starts, in this order. Points into `calls`.
[[nodiscard]] std::vector<Piece> cut_into_pieces(std::span<const Call> calls);
/// Connects what these pieces need for the first time, partners and edges of trees; waits for it.
/// Fails as well if their sends and receives cannot be carried out.
Status connect_batches(std::span<const Piece> pieces);
/// Starts a piece on `stream`. What it needs must be connected.
Status start_piece(Piece& piece, Stream& stream);

}  // namespace weft
