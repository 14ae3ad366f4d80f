// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings that only copy, by bulk copies: broadcasts and all-gathers, each as its template says. One
// CTA an item, three threads of it at work.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/cuda/bulk_primitives.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/enter_outputs.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/ring_all_gather.h"
#include "core/device/ring_broadcast.h"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Which connections an item uses.
struct Ends {
  bool receives = false;
  bool sends = false;
};
__device__ Ends ends_of(const WorkItem& item) {
  if (item.operation == Operation::kAllGather) return {.receives = true, .sends = true};
  return {.receives = item.ring_position != 0, .sends = item.ring_position + 1 < item.ranks};
}

template <class Walker>
__device__ KernelOutcome walk(CudaMemory& memory, const WorkItem& item, BulkBoard& board) {
  const auto bytes = static_cast<std::uint32_t>(element_size(item.type));
  const Ends ends = ends_of(item);
  Walker walker(memory, item, board, bytes, ends.receives, ends.sends);
  if (item.operation == Operation::kAllGather) {
    ring_all_gather(walker, item, bytes);
  } else {
    ring_broadcast(walker, item);
  }
  return walker.finish();
}

__device__ __noinline__ void run_walkers(KernelControl control, const WorkItem& item,
                                         BulkBoard& board) {
  if (threadIdx.x % kWarp != 0) return;
  const Ends ends = ends_of(item);
  if (!can_run(item, static_cast<std::uint32_t>(element_size(item.type)), ends.receives, ends.sends,
               least_order_bytes(item.protocol))) {
    if (threadIdx.x == 0) report(control, unsupported());
    return;
  }
  CudaMemory memory(control.abort, control.waiting, item.tag);
  switch (threadIdx.x / kWarp) {
    case 0:
      return report(control, walk<BulkLoader>(memory, item, board));
    case 1:
      return report(control, walk<BulkStorer>(memory, item, board));
    default:
      return serve_posts(board);
  }
}

#endif

/// `Argument` is a RingArgument or an OutputRingArgument.
template <class Argument>
__global__ void __launch_bounds__(kBulkThreads, 1)
    bulk_ring_kernel(const __grid_constant__ Argument argument) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(alignof(BulkBoard)) std::byte raw_board[];
  __shared__ Staged staged;
  auto& board = *reinterpret_cast<BulkBoard*>(raw_board);
  const WorkItem& item = stage(staged, argument.all.items[blockIdx.x], argument.tables[blockIdx.x]);
  if (threadIdx.x == 0) prepare(board);
  if constexpr (agrees_on_outputs<Argument>) {
    std::byte* next = nullptr;
    const OutputWay way =
        enter_outputs(argument.all.control, item, argument.outputs, ends_of(item).sends, &next);
    if (threadIdx.x == 0) {
      board.way = way;
      board.next_output = next;
    }
  }
  __syncthreads();
  if (board.way == OutputWay::kNone) return;
  run_walkers(argument.all.control, item, board);
  if constexpr (agrees_on_outputs<Argument>) {
    if (board.way != OutputWay::kOutputs) return;
    __syncthreads();
    if (threadIdx.x == 0) leave_outputs(argument.outputs.call);
  }
#endif
}

template <class Argument>
const void* pointer() {
  return reinterpret_cast<const void*>(&bulk_ring_kernel<Argument>);
}

/// By size, then those that agree on outputs.
const auto& all_kernels() {
  static const std::array kKernels = {
      pointer<RingArgument<8>>(), pointer<RingArgument<kMostItems>>(),
      pointer<OutputRingArgument<8>>(), pointer<OutputRingArgument<kMostItems>>()};
  return kKernels;
}

bool lies_well(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kBulkGrain == 0;
}

}  // namespace

RingKernel bulk_kernel_for(std::span<const WorkItem> items) {
  for (const WorkItem& item : items) {
    const std::uint64_t element = element_size(item.type);
    if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return {};
    if (item.operation != Operation::kBroadcast && item.operation != Operation::kAllGather) {
      return {};
    }
    if (item.ranks < 2 || item.blocks != nullptr) return {};
    if (item.count * element < kLeastBulkBytes || item.chunk * element % kBulkGrain != 0) return {};
    // Of broadcasts it is 0.
    if (item.stride * element % kBulkGrain != 0) return {};
    if (!lies_well(item.send) || !lies_well(item.recv)) return {};
  }
  const std::size_t size = size_index(static_cast<std::uint32_t>(items.size()));
  return {.address = all_kernels()[size],
          .threads = kBulkThreads,
          .shared_bytes = sizeof(BulkBoard),
          .for_outputs = all_kernels()[kSizes + size],
          .fills_outputs = true};
}

std::span<const void* const> bulk_ring_kernels() {
  return all_kernels();
}
std::uint32_t bulk_shared_bytes() {
  return sizeof(BulkBoard);
}

}  // namespace weft::device::cuda
