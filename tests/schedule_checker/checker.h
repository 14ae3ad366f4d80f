// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Executes a plan symbolically: the kernels' own templates, all ranks in one thread, elements that
// know what they were made of. What it finds wrong is in the report.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/model/landing.h"
#include "core/model/pat_geometry.h"
#include "core/schedule/plan.h"
#include "tests/schedule_checker/bounds.h"
#include "tests/schedule_checker/expressions.h"
#include "tests/schedule_checker/fibers.h"
#include "tests/schedule_checker/output_calls.h"
#include "tests/schedule_checker/report.h"
#include "tests/schedule_checker/symbolic_memory.h"
#include "tests/schedule_checker/wide_lanes.h"

namespace weft::checker {

/// A kernel's own memory for what all ranks bring, on its stack, where nobody has written yet.
class GatheredInputs {
 public:
  GatheredInputs() { inputs_.fill(make_nothing(Nothing::kUnwritten)); }
  [[nodiscard]] std::byte* place() { return reinterpret_cast<std::byte*>(inputs_.data()); }

 private:
  std::array<Value, kMostGatheredBytes / sizeof(Value)> inputs_;
};

/// One kernel of a channel, or of a part of a direct call.
struct KernelCall {
  device::SingleLane& group;
  SymbolicMemory& memory;
  const WorkItem& item;
  const SymbolicReduction& reduction;
  std::uint32_t rank;
  std::uint32_t part;
  std::uint32_t parts;

  /// The same of another item, which outlives the answer.
  [[nodiscard]] KernelCall with(const WorkItem& other) const {
    return {.group = group,
            .memory = memory,
            .item = other,
            .reduction = reduction,
            .rank = rank,
            .part = part,
            .parts = parts};
  }
};
using Kernel = std::function<KernelOutcome(const KernelCall& call)>;

/// The product's: of direct calls that of CPUs.
[[nodiscard]] KernelOutcome run_kernel(const KernelCall& call);
/// The same over a memory that lends, as that of CPUs. Of rings by Simple.
[[nodiscard]] KernelOutcome run_lending_kernel(const KernelCall& call);
/// The product's: of direct calls that of GPUs.
[[nodiscard]] KernelOutcome run_line_kernel(const KernelCall& call);

/// The same memory, for kernels that tests instantiate: as others of the very same template they
/// would be taken for the product's, without optimisation.
class TestMemory : public SymbolicMemory {
 public:
  explicit TestMemory(const SymbolicMemory& memory) : SymbolicMemory(memory) {}
};

struct Execution {
  bool in_place = false;
  std::uint32_t calls = 1;  ///< One after the other, over the same connections.
  Turns turns = Turns::kInOrder;
  std::uint64_t seed = 0;
  Kernel kernel = run_kernel;
  std::uint32_t direct_parts = 1;           ///< Of direct calls.
  std::uint32_t flag_period = kFlagPeriod;  ///< Of direct calls.
  // Of one-shots by wide lines, instead of `kernel`: lanes of each part, and those of a gang.
  WideKernel wide_kernel = run_wide_kernel;
  std::uint32_t lanes = kWideLineLanes;
  std::uint32_t gang = kWideLineLanes;
  /// Of channels that are alike only the first is executed: see channel_kinds.h.
  bool one_of_a_kind = false;
  /// Of rings by Simple: over nets, which read what is lent and let what may land come to outputs.
  bool over_nets = false;
  /// Of these: what is changed of where it lands.
  std::function<void(LandingWalk& walk, std::uint32_t rank)> change_landing{};
  /// Of rings by Simple that only copy: by bulk copies, and into outputs.
  std::optional<IntoOutputs> outputs{};
  std::optional<Spread> spread{};   ///< Of the ranks over hosts; else all on one.
  std::optional<Bound> declared{};  ///< Instead of what the algorithm's row says.
  /// Each rank's host, for Measures::most_far_bytes; none of direct calls, or where nobody asks.
  std::vector<std::uint32_t> host_of{};
};

/// What moved.
struct Measures {
  std::uint64_t hops = 0;            ///< Connections that an element passed, at most.
  std::uint64_t bytes = 0;           ///< Of all ranks, of one call.
  std::uint64_t steps = 0;           ///< That a rank filled in one call, at most.
  std::uint64_t most_far_bytes = 0;  ///< That a rank sent to other hosts in one call, at most.
};

struct Verdict {
  Report report;
  Measures measures;
};

/// `plans` holds one for all ranks, or one for each. Elements must have 8 bytes and ranks be 4096
/// at most; there is nothing to check without elements.
[[nodiscard]] Verdict execute(Stacks& stacks, std::span<const Plan* const> plans,
                              const Execution& execution);

}  // namespace weft::checker
