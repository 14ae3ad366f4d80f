// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings that only copy, by bulk copies: broadcasts and all-gathers, each as its template says. One
// CTA an item, three threads of it at work. What a root keeps is copied by the second CTA of its
// cluster, which has a multiprocessor for itself and nothing else to do, unless the program bounds
// what calls take.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/bulk_board.h"
#include "core/device/bulk_ring.h"
#include "core/device/cuda/bulk_memory.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/enter_outputs.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/model/work_item.h"

namespace weft::device::cuda {
namespace {

/// By one thread of the second CTA of a cluster.
__device__ void copy_apart(const WorkItem& item, BulkBoard<BulkMemory>& board) {
  BulkMemory memory(nullptr, nullptr, item.tag);
  prepare(memory, board);
  await_kernel_before();
  copy_kept(memory, item, board);
}

/// `Argument` is a RingArgument or a RingArgumentWithOutputs.
template <class Argument>
__global__ void __launch_bounds__(kBulkThreads, 1)
    bulk_ring_kernel(const __grid_constant__ Argument argument) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr bool kAgrees = agrees_on_outputs<Argument>;
  if (kAgrees && !has_item()) return;
  extern __shared__ __align__(alignof(BulkBoard<BulkMemory>)) std::byte raw_board[];
  __shared__ Staged staged;
  auto& board = *reinterpret_cast<BulkBoard<BulkMemory>*>(raw_board);
  WorkItem& item = stage(staged, argument);
  const bool is_apart =
      !kAgrees && !argument.is_bounded && ctas_of_item() == kCtasOfCluster && keeps_a_copy(item);
  __syncthreads();  // all have looked at the item, which may change now
  if (!has_item()) {
    if (is_apart && threadIdx.x == 0) copy_apart(item, board);
    return;
  }
  if (is_apart && threadIdx.x == 0) send_alone(item);
  await_kernel_before();
  BulkCta cta{{.control = control_of(argument)}};
  if constexpr (kAgrees) {
    run_bulk_ring<true>(cta, item, board, &argument.outputs.call, &argument.outputs.peers);
  } else {
    run_bulk_ring<false>(cta, item, board, nullptr, nullptr);
  }
#endif
}

template <class Argument>
const void* pointer() {
  return reinterpret_cast<const void*>(&bulk_ring_kernel<Argument>);
}

/// The second one agrees on outputs.
const auto& all_kernels() {
  static const std::array kKernels = {pointer<RingArgument>(), pointer<RingArgumentWithOutputs>()};
  return kKernels;
}

bool lies_well(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kBulkGrain == 0;
}

}  // namespace

RingKernel bulk_kernel_for(std::span<const WorkItem> items, bool agrees) {
  const bool has_others = are_packed(items.size()) && !agrees;
  const std::uint64_t least = has_others ? kLeastBulkBytesOfMany : kLeastBulkBytes;
  for (const WorkItem& item : items) {
    const std::uint64_t element = element_size(item.type);
    if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return {};
    if (item.operation != Operation::kBroadcast && item.operation != Operation::kAllGather) {
      return {};
    }
    if (item.ranks < 2 || item.blocks != nullptr) return {};
    if (item.count * element < least || item.chunk * element % kBulkGrain != 0) return {};
    // Of broadcasts it is 0.
    if (item.stride * element % kBulkGrain != 0) return {};
    if (!lies_well(item.send) || !lies_well(item.recv)) return {};
  }
  return {.address = all_kernels()[0],
          .threads = kBulkThreads,
          .shared_bytes = sizeof(BulkBoard<BulkMemory>),
          .for_outputs = all_kernels()[1],
          .fills_outputs = true,
          .awaits_kernel_before = true};
}

std::span<const void* const> bulk_ring_kernels() {
  return all_kernels();
}
std::uint32_t bulk_shared_bytes() {
  return sizeof(BulkBoard<BulkMemory>);
}

}  // namespace weft::device::cuda
