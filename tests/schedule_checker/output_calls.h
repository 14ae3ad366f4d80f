// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls one after the other that may write into outputs of other ranks. All calls of a rank have
// the same buffers: what is written there too early, or too late, meets another call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/model/output_table.h"
#include "core/model/work_item.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/output_memory.h"
#include "tests/schedule_checker/symbolic_memory.h"

namespace weft::checker {

/// How one call goes.
struct OutputStep {
  enum class Kind : std::uint8_t {
    kAgreed,   ///< The ranks agree; more than 8 are let write into outputs by the checker.
    kSlots,    ///< By bulk copies, of which nobody asks for outputs.
    kThreads,  ///< By the kernel of other copies, likewise.
    kBoth,     ///< By either, as the rank's number says.
  };
  Kind kind = Kind::kAgreed;
  /// Of kAgreed: the rank whose output is not open. An even one has no kernel for outputs, either.
  std::optional<std::uint32_t> refuses{};
};

struct IntoOutputs {
  std::vector<OutputStep> steps{{}};  ///< By call, again and again.
  bool between_processes = false;     ///< Offers are places, which others have mapped.
  BulkKernel kernel = run_bulk_kernel;
  /// What is changed of a rank's part in a call.
  std::function<void(OutputCall& call, std::uint32_t rank, std::uint32_t number)> change{};
};

class OutputCalls {
 public:
  /// What a rank's calls have in common. The buffers lie in World::buffers.
  struct Live {
    Value* input = nullptr;   ///< Of the call; null: none.
    Value* output = nullptr;  ///< Likewise.
    Value* begin = nullptr;   ///< Of the caller's buffer that is offered.
  };
  OutputCalls(World& world, const IntoOutputs& settings, std::uint32_t ranks, std::uint32_t groups,
              std::uint64_t output_bytes, Turns turns, std::uint64_t seed);

  /// Whether the rank is not yet in its call.
  [[nodiscard]] bool is_new(std::uint32_t rank, std::uint32_t call) const {
    return !outputs_[rank].inside || outputs_[rank].call != call;
  }
  /// The rank comes to a call, and leaves it. `is_written`: others write into its output.
  void begin(std::uint32_t rank, std::uint32_t call, const Live& live, bool is_written);
  void end(std::uint32_t rank, std::uint32_t call);
  /// One thread's part; `slots` runs the kernel of other copies.
  [[nodiscard]] KernelOutcome run(const Actor& actor, const WorkItem& item,
                                  const std::function<KernelOutcome()>& slots);

 private:
  [[nodiscard]] const OutputStep& step(std::uint32_t call) const {
    return settings_.steps[call % settings_.steps.size()];
  }
  [[nodiscard]] bool agree() const { return world_.inboxes != nullptr; }
  [[nodiscard]] bool goes_by_threads(const OutputStep& step, std::uint32_t rank) const;
  void share(std::uint32_t rank, const Live& live);
  void wait_for_all(std::uint32_t call);
  [[nodiscard]] KernelOutcome run_bulk(const Actor& actor, const WorkItem& item, BulkWay way);

  World& world_;
  const IntoOutputs& settings_;
  const std::uint32_t ranks_;
  const std::uint32_t groups_;
  const std::uint64_t output_bytes_;
  CopyTimes times_;
  std::vector<OpenOutput> outputs_;               // by rank
  std::vector<OutputRank> shared_;                // by rank
  std::vector<OutputCall> calls_;                 // by rank, of its call
  std::vector<Live> live_;                        // by rank
  std::vector<std::unique_ptr<BulkTeam>> teams_;  // by rank, then by group
  std::uint64_t came_ = 0;                        // to calls without an agreement, of all ranks
  Waiters waiters_;
};

}  // namespace weft::checker
