// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernel of an algorithm for all operations, types and reductions: the templates of
// core/device, one CTA an item, whose links, if it has any, lie in memory of the host. A source for
// each algorithm makes one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/device/cuda/any_reduction.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/posting.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {

/// Of items that have no links.
struct NoLinks {};

/// Whether the memory of `Edges` hands counters to a warp that posts them.
template <class Edges>
inline constexpr bool kHasPoster = posts_apart<typename Edges::Memory, CtaGroup>;

/// A kernel of `Edges`, which has
///  - Links: what an item of the algorithm points to, or NoLinks; links(item): the pointer;
///  - Memory: its policy;
///  - run(group, memory, item, reduction).
template <class Edges>
class EdgeKernel {
 public:
  [[nodiscard]] static RingKernel for_item(const WorkItem& item) {
    if (!kernel_exists(item)) return {};
    return {.address = all()[0], .threads = kThreads, .awaits_kernel_before = true};
  }
  /// There is one.
  [[nodiscard]] static std::span<const void* const> all();
};

// Outlined, though each kernel has a copy of its own.
template <class Edges>
__device__ __noinline__ void run_edges(KernelControl control, const WorkItem& item,
                                       std::uint64_t* slots) {
  CtaGroup group(slots);
  typename Edges::Memory memory(control.abort, control.waiting, item.tag);
  const KernelOutcome outcome = Edges::run(group, memory, item, reduction_of(item));
  if (group.leader()) report(control, outcome);
}

// The same where one warp of the CTA posts for the others.
template <class Edges>
__device__ __noinline__ void run_posting_edges(KernelControl control, const WorkItem& item,
                                               std::uint64_t* slots, PostBoard& board) {
  constexpr std::uint32_t kLanes = kThreads - kPosterThreads;
  if (threadIdx.x >= kLanes) return serve_posts(board, kLanes);
  CtaGroup group(slots, kLanes);
  typename Edges::Memory memory(control.abort, control.waiting, item.tag, board);
  const KernelOutcome outcome = Edges::run(group, memory, item, reduction_of(item));
  memory.dismiss(group);
  if (group.leader()) report(control, outcome);
}

// As longer tables they are asked for once, and together.
template <class Edges>
__device__ void stage_links(WorkItem& item, std::byte* staged) {
  using Links = typename Edges::Links;
  static_assert(sizeof(Links) % sizeof(std::uint64_t) == 0);
  constexpr auto kWords = static_cast<std::uint32_t>(sizeof(Links) / sizeof(std::uint64_t));
  const auto* const from = reinterpret_cast<const std::uint64_t*>(Edges::links(item));
  for (std::uint32_t i = threadIdx.x; from != nullptr && i < kWords; i += blockDim.x)
    reinterpret_cast<std::uint64_t*>(staged)[i] = from[i];
  __syncthreads();
  if (threadIdx.x == 0 && from != nullptr) {
    Edges::links(item) = reinterpret_cast<const Links*>(staged);
  }
  __syncthreads();
}

template <class Edges>
__global__ void __launch_bounds__(kThreads, 1)
    edge_kernel(const __grid_constant__ RingArgument argument) {
  if (!has_item()) return;
  __shared__ Staged staged;
  __shared__ std::uint64_t slots[2];
  WorkItem& item = stage(staged, argument);
  if constexpr (!std::is_same_v<typename Edges::Links, NoLinks>) {
    __shared__ alignas(std::uint64_t) std::byte links[sizeof(typename Edges::Links)];
    stage_links<Edges>(item, links);
  }
  await_kernel_before();
  let_next_begin_beside_few(items_of_launch());
  if constexpr (kHasPoster<Edges>) {
    __shared__ PostBoard board;
    run_posting_edges<Edges>(control_of(argument), item, slots, board);
  } else {
    run_edges<Edges>(control_of(argument), item, slots);
  }
}

template <class Edges>
std::span<const void* const> EdgeKernel<Edges>::all() {
  static const std::array kKernel = {reinterpret_cast<const void*>(&edge_kernel<Edges>)};
  return kKernel;
}

}  // namespace weft::device::cuda
