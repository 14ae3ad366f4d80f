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
class Member;
class Stream;

/// One operation as it was called.
struct Call {
  Communicator* communicator = nullptr;
  Stream* stream = nullptr;
  Task task;
  const void* send = nullptr;
  void* recv = nullptr;
  Factor factor{};                            ///< Of kPremulSum.
  std::shared_ptr<BoundPlan> plan = nullptr;  ///< Of a recorded collective; else it is looked up,
  /// unless this points to it: the communicator's own, of a call that is started at once. See
  /// Communicator::latest_bound.
  const std::shared_ptr<BoundPlan>* latest = nullptr;
  std::shared_ptr<const BlockTable> blocks = nullptr;  ///< Where blocks differ.
  Member* background = nullptr;  ///< Of a rank that joined without blocking: its handle.
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
  std::vector<Stream*> streams{};  ///< On which the calls were made, each once, in order.
  // Room for start_piece, so that a piece that is started again allocates nothing.
  std::vector<Launch> launches{};
  std::vector<Communicator*> communicators{};
};

/// What the others of a group are told of the one that failed: its ranks have other numbers there.
[[nodiscard]] Error of_group(const Error& why);

/// Puts calls in order. It keeps its memory, so that a group that is repeated allocates nothing,
/// and what it made of the last calls: those of a group that is repeated at the same place of
/// memory, but for the buffers that it names, are in order.
class CallCutter {
 public:
  /// What start_calls starts, in this order. Points into `calls`; until the next cut.
  [[nodiscard]] std::span<Piece> cut(std::span<const Call> calls);
  /// Whether what the last cut made was noted to be connected, and so can be carried out. Only of
  /// sends and receives alone: what others need their buffers tell as well.
  [[nodiscard]] bool is_connected() const { return connected_; }
  void note_connected();
  /// Gives away what the last cut made.
  [[nodiscard]] std::vector<Piece> take();

 private:
  struct Member {
    const Communicator* communicator = nullptr;
    std::size_t rounds = 0;
    CallBatch pairs{};
  };
  /// All that the pieces, and what their calls need, depend on.
  struct Known {
    const Communicator* communicator = nullptr;
    std::uint64_t number = 0;  ///< Of the communicator: another one may have had its place.
    Stream* stream = nullptr;
    Task task;
  };
  [[nodiscard]] bool repeats(std::span<const Call> calls) const;
  void remember(std::span<const Call> calls);
  void recycle();
  CallBatch take_batch();
  Piece& add_piece(std::size_t round, Stream* stream);
  Piece* find_piece(std::size_t round, const Stream* stream, std::size_t end);
  Member& member_of(const Communicator* communicator);
  void add_pairs(Member& member, std::size_t first);
  void join_last(std::size_t first);
  void remove(std::size_t place);
  void sort();

  const Call* known_at_ = nullptr;  // where the calls of the last cut stood
  std::vector<Known> known_;        // those calls
  bool connected_ = false;
  std::vector<Piece> pieces_;
  std::size_t used_ = 0;  // of pieces_; the others are memory for the next
  std::vector<CallBatch> spare_;
  std::vector<Member> members_;
  std::size_t latest_member_ = 0;
};

/// Starts calls, all of a stream's launches together; `calls` may concern several communicators.
/// Those on a stream that is captured are recorded instead.
/// Blocks where ranks must be connected first.
Status start_calls(std::span<const Call> calls, CallCutter& cutter);
Status start_calls(std::span<const Call> calls);
/// The same, and where ranks must be connected first and all of the calls have a background, it
/// answers WEFT_IN_PROGRESS and goes on there (core/comm/later_start.h).
Result<weft_result> begin_calls(std::span<const Call> calls, CallCutter& cutter);
Result<weft_result> begin_calls(const Call& call);

/// Begins to connect what these pieces need for the first time, partners and edges of trees;
/// answers whether there was nothing to connect. Fails as well if their sends and receives cannot
/// be carried out.
Result<bool> want_batches(std::span<const Piece> pieces);
/// Waits for that.
Status await_batches(std::span<const Piece> pieces);
enum class IfOneFails : std::uint8_t {
  kNoneStarts,   ///< Those whose calls had been prepared are in error; the others are as before.
  kOthersStart,  ///< Each other communicator's calls; of several failures the first is told.
};
/// Starts a piece on `stream`. What it needs must be connected. Throws without memory for its list
/// of launches, with nothing started.
Status start_piece(Piece& piece, Stream& stream, IfOneFails then);

}  // namespace weft
