// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The policies for kernels that copy in bulk and may write into outputs of other ranks: threads of
// a group, each a fiber, and memory whose copies are under way for as long as nobody has waited for
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "core/device/bulk_board.h"
#include "core/device/single_lane.h"
#include "core/model/direct_peers.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"
#include "tests/schedule_checker/actor.h"
#include "tests/schedule_checker/connections.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/symbolic_memory.h"
#include "tests/schedule_checker/wide_lanes.h"

namespace weft::checker {

/// Of each group that copies in bulk: the loader, the storer and the poster.
inline constexpr std::uint32_t kBulkThreads = 3;

/// Whose outputs others may write into now.
struct OpenOutput {
  std::uint32_t call = 0;  ///< Of its rank, which must be in it:
  bool inside = false;
  bool open = false;  ///< and whether it let others write there.
};

/// When copies happen that are under way.
enum class CopyTimes : std::uint8_t {
  kAtOnce,
  kLate,        ///< Not before somebody waits for them.
  kLateStores,  ///< The same of stores, loads at once.
  kMixed,
};

/// What the threads of one group share.
struct BulkTeam {
  BulkTeam(Fibers& fibers, std::uint64_t seed)
      : meeting(fibers, kBulkThreads), random(seed), board(kBoardBytes) {}

  struct Load {
    std::uint64_t* barrier;
    std::byte* piece;
    const std::byte* from;
    std::uint32_t bytes;
  };
  struct Store {
    std::byte* to;
    const std::byte* piece;
    std::uint32_t bytes;
    bool read = false;
    bool landed = false;
    std::vector<Value> values{};
  };
  struct alignas(128) Block {
    std::byte bytes[128];
  };
  static constexpr std::size_t kBoardBytes = 16;  // blocks

  Meeting meeting;
  Random random;
  std::vector<Block> board;
  std::vector<Load> loads;
  std::deque<std::vector<Store>> groups;  ///< Of stores, the last one open.
  KernelOutcome outcome;
};

/// What the groups of a rank share that is not memory of the device.
struct OutputRank {
  OutputTable table{};
  std::vector<OutputMap> map;  ///< One, where outputs lie in other processes.
  std::uint64_t calls[2] = {0, 0};
  std::uint64_t ended = 0;
  std::uint32_t inside = 0;  ///< Groups that may write into outputs, or be written to.
  std::uint32_t agreements = 0;
};

/// A thread's memory. A copy that is under way happens at any time until it is waited for: so it
/// must be allowed when it begins and when it ends.
class BulkMemory : public SymbolicMemory {
 public:
  /// Few, for steps of several pieces.
  static constexpr std::uint32_t kPieceBytes = 32;

  struct Context {
    World& world;
    const Actor& actor;
    BulkTeam& team;
    OutputRank& rank;
    const std::vector<OpenOutput>& outputs;
    const WorkItem& item;
    CopyTimes times;
  };
  explicit BulkMemory(const Context& context)
      : SymbolicMemory(context.world, context.actor), it_(context) {}

  // bulk_memory
  void make_barrier(std::uint64_t* barrier, std::uint32_t arrivals);
  static void show_barriers() {}
  void arrive(std::uint64_t* barrier);
  void arrive_and_expect(std::uint64_t* barrier, std::uint32_t bytes);
  [[nodiscard]] bool has_completed(std::uint64_t* barrier, std::uint32_t parity);
  void bulk_load(std::byte* piece, const std::byte* from, std::uint32_t bytes,
                 std::uint64_t* barrier);
  void bulk_store(std::byte* to, const std::byte* piece, std::uint32_t bytes);
  void close_group();
  template <int kLeft>
  void await_reads() {
    await_reads_but(kLeft);
  }
  template <int kLeft>
  void await_stores() {
    await_stores_but(kLeft);
  }
  void order_bulk_after_loads() { acquired_ = false; }
  void load_rest(std::byte* rest, const std::byte* from, std::uint32_t bytes);
  void store_rest(std::byte* to, const std::byte* rest, std::uint32_t bytes);
  [[nodiscard]] std::uint32_t load_shared(const std::uint32_t* word);
  void store_shared(std::uint32_t* word, std::uint32_t value);
  static void fence_board() {}
  static void fence_shared() {}
  void fence() { fenced_ = true; }
  [[nodiscard]] std::uint64_t load_acquire(std::uint64_t* counter);
  void store_relaxed(std::uint64_t* counter, std::uint64_t value);
  void give_back(std::uint64_t* head, std::uint64_t value);
  [[nodiscard]] bool idle();

  // flagged_memory: offers are no elements.
  void store_words(std::byte* to, device::Line line);

 private:
  void await_reads_but(std::size_t left);
  void await_stores_but(std::size_t left);
  /// Whether what is stored there may be, now; `lands`: it comes there.
  [[nodiscard]] bool may_store(const std::byte* to, std::uint64_t bytes, bool lands);
  void land(const BulkTeam::Load& load);
  void read(BulkTeam::Store& store);
  void land(BulkTeam::Store& store);
  void write(std::byte* to, const Value* values, std::uint32_t bytes);
  void complete(std::uint64_t* barrier);
  [[nodiscard]] bool happens_now(bool store);

  const Context it_;
  bool acquired_ = false;
  bool fenced_ = false;
};

/// A thread of a group: what core/device/bulk_ring.h and output_entry.h ask for.
class BulkThread {
 public:
  BulkThread(const BulkMemory::Context& context, std::uint32_t groups)
      : it_(context), groups_(groups) {}

  [[nodiscard]] std::uint32_t rank() const { return it_.actor.rank; }
  [[nodiscard]] std::uint32_t index() const { return it_.actor.channel; }
  [[nodiscard]] std::uint32_t count() const { return groups_; }
  [[nodiscard]] bool is_first_thread() const { return it_.actor.lane == 0; }
  [[nodiscard]] bool is_agreeing() const { return it_.actor.lane == 0; }
  [[nodiscard]] std::uint32_t role() const { return it_.actor.lane; }
  void sync() const { it_.team.meeting.any(false); }
  [[nodiscard]] static device::SingleLane group() { return {}; }
  [[nodiscard]] BulkMemory memory(std::uint64_t /*tag*/) const { return BulkMemory(it_); }
  [[nodiscard]] std::uint32_t load_acquire(const std::uint32_t* word) const;
  void store_release(std::uint32_t* word, std::uint32_t value) const;
  [[nodiscard]] std::uint32_t add(std::uint32_t* word, std::uint32_t value) const;
  [[nodiscard]] bool idle() const { return it_.world.fibers.look_again(it_.actor.rank); }
  static void fence() {}
  void store_system(std::uint64_t* word, std::uint64_t value) const;
  void report(const KernelOutcome& outcome) const;

 protected:
  [[nodiscard]] const BulkMemory::Context& context() const { return it_; }

 private:
  const BulkMemory::Context it_;
  std::uint32_t groups_;
};

static_assert(device::bulk_memory<BulkMemory>);
static_assert(device::flagged_memory<BulkMemory>);

/// How a call goes that is copied in bulk.
enum class BulkWay : std::uint8_t {
  kAgreed,   ///< As all ranks agree.
  kOutputs,  ///< Into outputs: the checker's own barrier stands for an agreement of more ranks.
  kSlots,    ///< By slots, and nobody is asked.
};

/// One thread of one group in one call.
struct BulkCall {
  const BulkThread& thread;
  const WorkItem& item;
  BulkWay way;
  const OutputCall& outputs;
  const DirectPeers* peers;  ///< Of calls that are agreed on.
  /// Of kOutputs: waits until all ranks have come, and says where the output is of the next.
  const std::function<std::byte*()>& next;
  std::byte* board;
};
using BulkKernel = std::function<void(const BulkCall& call)>;

/// The product's.
void run_bulk_kernel(const BulkCall& call);

}  // namespace weft::checker
