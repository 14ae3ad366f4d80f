// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Instantiates the kernels for the symbolic policies.
#include "core/device/host/host_one_shot.h"
#include "core/device/one_shot_blocks.h"
#include "core/device/work_item_kernel.h"
#include "tests/schedule_checker/checker.h"
#include "tests/schedule_checker/output_kernels.h"

namespace weft::checker {

KernelOutcome run_kernel(const KernelCall& call) {
  if (call.item.algorithm == Algorithm::kTree) {
    return device::run_tree_item(call.group, call.memory, call.item, call.reduction);
  }
  if (call.item.algorithm == Algorithm::kChain) {
    return device::run_chain_item(call.group, call.memory, call.item, call.reduction);
  }
  if (call.item.algorithm == Algorithm::kPat) {
    GatheredInputs gathered;
    return device::run_pat_item(call.group, call.memory, call.item, call.reduction,
                                gathered.place());
  }
  if (call.item.algorithm == Algorithm::kTwoShot && call.item.direct != nullptr) {
    return device::run_two_shot_item<kMostDirectRanks>(call.group, call.memory, call.item,
                                                       *call.item.direct, call.reduction, call.part,
                                                       call.parts);
  }
  if (call.item.algorithm == Algorithm::kMulticast && call.item.direct != nullptr) {
    return device::run_multicast_item(call.group, call.memory, call.item, *call.item.direct,
                                      *call.item.direct->multicast, call.reduction, call.part,
                                      call.parts);
  }
  if (call.item.direct == nullptr) {
    return device::run_work_item(call.group, call.memory, call.item, call.reduction);
  }
  if (!device::host_one_shot_knows(call.item.operation) ||
      !device::fits_inboxes(call.item, *call.item.direct, kMostDirectRanks)) {
    return device::unsupported();
  }
  return device::HostOneShot(call.group, call.memory, call.item, call.reduction).run();
}

namespace {

struct LendingMemory : SymbolicMemory {
  static constexpr bool kLendsPayloads = true;
  explicit LendingMemory(const SymbolicMemory& memory) : SymbolicMemory(memory) {}
  static constexpr bool runs(Protocol protocol) { return protocol == Protocol::kSimple; }
};

}  // namespace

KernelOutcome run_lending_kernel(const KernelCall& call) {
  LendingMemory memory(call.memory);
  return device::run_ring_item(call.group, memory, call.item, call.reduction);
}

void run_bulk_kernel(const BulkCall& call) {
  run_bulk_with(call.thread, call);
}

KernelOutcome run_line_kernel(const KernelCall& call) {
  if (call.item.direct == nullptr) return run_kernel(call);
  if (call.item.operation != Operation::kAllReduce) {
    if (!device::one_shot_moves_blocks(call.item.operation) ||
        !device::fits_inboxes(call.item, *call.item.direct, kMostDirectRanks) ||
        device::block_lines(call.item.count * sizeof(Value)) * sizeof(device::Line) >
            call.item.direct->half_bytes) {
      return device::unsupported();
    }
    const auto run = reduces(call.item.operation)
                         ? &device::run_blocks_item<kMostDirectRanks, true, device::SingleLane,
                                                    SymbolicMemory, SymbolicReduction>
                         : &device::run_blocks_item<kMostDirectRanks, false, device::SingleLane,
                                                    SymbolicMemory, SymbolicReduction>;
    return run(call.group, call.memory, call.item, *call.item.direct, call.reduction, call.part,
               call.parts);
  }
  return device::run_direct_item<kMostDirectRanks>(
      call.group, call.memory, call.item, *call.item.direct, call.reduction, call.part, call.parts);
}

}  // namespace weft::checker
