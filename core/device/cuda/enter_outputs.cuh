// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the CTAs of a call begin that may write straight into outputs of other ranks: the first one
// agrees with the other ranks, and tells the others of its launch.
//
// Who writes OutputTable::state: the first CTA, with release, once it knows; the last CTA to have
// acquired it puts it back to 0, for the next launch, which begins when this one has ended. All
// CTAs of a launch run at once (core/comm/co_residency.h), so none waits in vain. Where this rank
// offers nothing the outcome is known without the others: nobody is told, and nobody waits.
//
// OutputCall::ended is stored by one thread: of a call by slots by the first CTA, at once; by
// outputs by the CTA that ends last, which has acquired what the others did. Where one ended badly
// it has reported that before, so the host looks for reports after it has read the word.
//
// Model of `ended`: tests/models/output_mappings.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/output_agreement.h"
#include "core/device/shared_place.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {

template <class Argument>
concept agrees_on_outputs = requires(const Argument& argument) { argument.outputs; };

__device__ inline std::uint32_t load_acquire_device(const std::uint32_t* word) {
  std::uint32_t value = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void store_release_device(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// By the first warp of the first CTA; the answer of its first thread counts.
__device__ __noinline__ inline OutputWay agree_on_outputs(const KernelControl& control,
                                                          const WorkItem& item,
                                                          const OutputArgument& outputs) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots, kWarp);
  CudaMemory memory(control.abort, control.waiting, item.tag);
  const OutputCall& call = outputs.call;
  OutputAgreement<kMostDirectRanks, CtaGroup, CudaMemory> agreement(
      group, memory, item, outputs.peers, call.offer, *call.table);
  const KernelOutcome outcome = agreement.run();
  if (!group.leader()) return OutputWay::kNone;
  report(control, outcome);
  const OutputWay way = call.table->way;
  if (way != OutputWay::kNone) {
    const auto index = static_cast<std::uint32_t>(way);
    store_relaxed_system(call.calls + index, ++call.table->calls[index]);
  }
  return way;
}

/// By one thread of each CTA but the first, of a rank that offers something.
__device__ inline OutputWay await_agreement(OutputTable& table) {
  std::uint32_t state = 0;
  while (state == 0)
    state = load_acquire_device(&table.state);
  return static_cast<OutputWay>(state - 1);
}

/// The same once it needs nothing of the table any more.
__device__ inline void leave_table(OutputTable& table) {
  if (atomicAdd(&table.left, 1) != gridDim.x - 2) return;
  table.left = 0;
  table.state = 0;
}

__device__ inline void tell_end(const OutputCall& call) {
  if (call.ended != nullptr) store_release_system(call.ended, call.number);
}

/// By one thread of each CTA of a call by outputs, once the CTA is done with all outputs.
__device__ inline void leave_outputs(const OutputCall& call) {
  if (call.ended == nullptr) return;
  __threadfence_system();
  if (atomicAdd(&call.table->ended, 1) + 1 != gridDim.x) return;
  __threadfence_system();
  call.table->ended = 0;
  tell_end(call);
}

/// Where the item's output begins at the next rank; null where that rank is at fault.
__device__ inline std::byte* next_output(const KernelControl& control, const WorkItem& item,
                                         const OutputCall& call) {
  const std::uint32_t peer = item.to_next.peer;
  const std::uint64_t offer = call.table->offers[peer];
  auto* begin = reinterpret_cast<std::byte*>(offer);
  if (call.map != nullptr) {
    CudaMemory memory(control.abort, control.waiting, item.tag);
    begin = shared_place(memory, *call.map, peer, offer, call.bytes);
    if (begin == nullptr) {
      report(control, {.end = KernelEnd::kForeignPlace, .peer = peer, .found = offer});
      return nullptr;
    }
  }
  const std::byte* const own = item.recv != nullptr ? item.recv : item.send;
  return begin + (own - call.begin);
}

/// The way of this call, and by outputs, where the item `sends`, where its output begins at the
/// next rank. By all threads of a CTA; the answer of the first one counts.
__device__ inline OutputWay enter_outputs(const KernelControl& control, const WorkItem& item,
                                          const OutputArgument& outputs, bool sends,
                                          std::byte** next) {
  const OutputCall& call = outputs.call;
  if (threadIdx.x >= kWarp) return OutputWay::kSlots;
  const bool is_first = blockIdx.x == 0;
  const bool tells = call.offer != 0 && gridDim.x > 1;
  OutputWay way = OutputWay::kSlots;
  if (is_first) way = agree_on_outputs(control, item, outputs);
  if (threadIdx.x != 0) return way;
  if (is_first && way == OutputWay::kSlots) tell_end(call);
  if (is_first && tells) {
    store_release_device(&call.table->state, static_cast<std::uint32_t>(way) + 1);
  }
  if (!is_first && tells) way = await_agreement(*call.table);
  if (way == OutputWay::kOutputs && sends) {
    *next = next_output(control, item, call);
    if (*next == nullptr) way = OutputWay::kNone;
  }
  if (!is_first && tells) leave_table(*call.table);
  return way;
}

}  // namespace weft::device::cuda
