// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rings that reduce over many channels, of the types and reductions that are called most, which
// their kernels know at compile time; a warp of each posts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/posting.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/cuda/staged_item.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <Operation kOperation, class Memory, class Reduction>
__device__ KernelOutcome run_known(CtaGroup& group, Memory& memory, const WorkItem& item) {
  if constexpr (kOperation == Operation::kAllReduce) {
    return all_reduce_item(group, memory, item, Reduction{});
  } else if constexpr (kOperation == Operation::kReduceScatter) {
    return reduce_scatter_item(group, memory, item, Reduction{});
  } else {
    return reduce_item(group, memory, item, Reduction{});
  }
}

__device__ __noinline__ WorkItem& stage_apart(Staged& staged, const PackedRingArgument& argument) {
  return stage(staged, argument);
}

// Registers are short here: which of the two leaves more of them to the loops differs. A tag of the
// argument takes none.
template <Operation kOperation, class Reduction>
__global__ void __launch_bounds__(kPostingThreads, 1)
    known_ring_kernel(const __grid_constant__ PackedRingArgument argument) {
  if (!has_item()) return;
  __shared__ std::uint64_t slots[2];
  __shared__ PostBoard board;
  __shared__ Staged staged;
  const WorkItem& item =
      kOperation == Operation::kReduce ? stage_apart(staged, argument) : stage(staged, argument);
  if (threadIdx.x >= kThreads) return serve_posts(board, kThreads);
  CtaGroup group(slots, kThreads);
  const KernelControl& control = argument.control;
  using Memory = Posting<CudaMemory>;
  Memory memory(control.abort, control.waiting, argument.first.tag, board);
  const KernelOutcome outcome = run_known<kOperation, Memory, Reduction>(group, memory, item);
  memory.dismiss(group);
  if (group.leader()) report(control, outcome);
}

struct Kind {
  weft_data_type type;
  weft_reduction reduction;
  friend bool operator==(const Kind&, const Kind&) = default;
};
constexpr std::array kKinds = {Kind{WEFT_FLOAT32, WEFT_SUM},  Kind{WEFT_FLOAT32, WEFT_MAX},
                               Kind{WEFT_INT32, WEFT_SUM},    Kind{WEFT_INT32, WEFT_MAX},
                               Kind{WEFT_FLOAT16, WEFT_SUM},  Kind{WEFT_FLOAT16, WEFT_MAX},
                               Kind{WEFT_BFLOAT16, WEFT_SUM}, Kind{WEFT_BFLOAT16, WEFT_MAX}};

constexpr std::array kOperations = {Operation::kAllReduce, Operation::kReduce,
                                    Operation::kReduceScatter};

template <class Reduction, std::size_t... kAt>
void append(std::vector<const void*>& kernels, std::index_sequence<kAt...> /*operations*/) {
  (kernels.push_back(
       reinterpret_cast<const void*>(&known_ring_kernel<kOperations[kAt], Reduction>)),
   ...);
}

// Of each kind, in its order those of each operation.
const std::vector<const void*>& kernels() {
  static const auto kKernels = [] {
    std::vector<const void*> all;
    const auto of = [&]<class... Reductions>() {
      (append<Reductions>(all, std::make_index_sequence<kOperations.size()>()), ...);
    };
    of.operator()<Sum<float>, Max<float>, Sum<std::int32_t>, Max<std::int32_t>, Sum<Float16>,
                  Max<Float16>, Sum<Bfloat16>, Max<Bfloat16>>();
    return all;
  }();
  return kKernels;
}

}  // namespace

const void* known_ring_kernel_for(const WorkItem& item, std::uint32_t items) {
  if (size_index(items) == 0 || item.blocks != nullptr) return nullptr;
  const auto* const operation = std::ranges::find(kOperations, item.operation);
  const auto* const kind = std::ranges::find(kKinds, Kind{item.type, item.reduction});
  if (operation == kOperations.end() || kind == kKinds.end()) return nullptr;
  return kernels()[static_cast<std::size_t>(kind - kKinds.begin()) * kOperations.size() +
                   static_cast<std::size_t>(operation - kOperations.begin())];
}

std::span<const void* const> known_ring_kernels() {
  return kernels();
}

}  // namespace weft::device::cuda
