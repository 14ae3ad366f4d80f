// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The rings: the templates of core/device, one CTA an item.
#include <array>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

template <class Reduction, std::uint32_t kItems>
__global__ void __launch_bounds__(kThreads, 1)
    all_reduce_kernel(const __grid_constant__ KernelArgument<kItems> argument) {
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = argument.items[blockIdx.x];
  CtaGroup group(slots);
  CudaMemory memory(argument.control.abort, argument.control.waiting, item.tag);
  const KernelOutcome outcome = all_reduce_item(group, memory, item, Reduction{});
  if (group.leader()) report(argument.control, outcome);
}

template <std::uint32_t kItems>
__global__ void __launch_bounds__(kThreads, 1)
    broadcast_kernel(const __grid_constant__ KernelArgument<kItems> argument) {
  __shared__ std::uint64_t slots[2];
  const WorkItem& item = argument.items[blockIdx.x];
  CtaGroup group(slots);
  CudaMemory memory(argument.control.abort, argument.control.waiting, item.tag);
  const KernelOutcome outcome = broadcast_item(group, memory, item);
  if (group.leader()) report(argument.control, outcome);
}

struct Entry {
  Operation operation;
  weft_data_type type;       // of kAllReduce
  weft_reduction reduction;  // of kAllReduce
  const void* by_size[3];    // for 2, 8 and kMostItems items
};

template <class R>
Entry all_reduce_entry(weft_data_type type, weft_reduction reduction) {
  return {.operation = Operation::kAllReduce,
          .type = type,
          .reduction = reduction,
          .by_size = {reinterpret_cast<const void*>(&all_reduce_kernel<R, 2>),
                      reinterpret_cast<const void*>(&all_reduce_kernel<R, 8>),
                      reinterpret_cast<const void*>(&all_reduce_kernel<R, kMostItems>)}};
}

const auto& entries() {
  static const std::array kEntries = {
      all_reduce_entry<Sum<float>>(WEFT_FLOAT32, WEFT_SUM),
      all_reduce_entry<Max<float>>(WEFT_FLOAT32, WEFT_MAX),
      all_reduce_entry<Sum<std::int32_t>>(WEFT_INT32, WEFT_SUM),
      all_reduce_entry<Max<std::int32_t>>(WEFT_INT32, WEFT_MAX),
      all_reduce_entry<Sum<Float16>>(WEFT_FLOAT16, WEFT_SUM),
      all_reduce_entry<Max<Float16>>(WEFT_FLOAT16, WEFT_MAX),
      all_reduce_entry<Sum<Bfloat16>>(WEFT_BFLOAT16, WEFT_SUM),
      all_reduce_entry<Max<Bfloat16>>(WEFT_BFLOAT16, WEFT_MAX),
      Entry{.operation = Operation::kBroadcast,
            .type = 0,
            .reduction = 0,
            .by_size = {reinterpret_cast<const void*>(&broadcast_kernel<2>),
                        reinterpret_cast<const void*>(&broadcast_kernel<8>),
                        reinterpret_cast<const void*>(&broadcast_kernel<kMostItems>)}},
  };
  return kEntries;
}

const Entry* find(Operation operation, weft_data_type type, weft_reduction reduction) {
  for (const Entry& entry : entries()) {
    if (entry.operation != operation) continue;
    if (!reduces(operation) || (entry.type == type && entry.reduction == reduction)) return &entry;
  }
  return nullptr;
}

}  // namespace

bool kernel_exists(const Task& task) {
  return find(task.operation, task.type, task.reduction) != nullptr;
}

const void* kernel_for(const WorkItem& item, std::uint32_t items) {
  if (item.algorithm != Algorithm::kRing || item.protocol != Protocol::kSimple) return nullptr;
  const std::size_t size = items <= 2 ? 0 : items <= 8 ? 1 : 2;
  const Entry* entry = find(item.operation, item.type, item.reduction);
  return entry == nullptr ? nullptr : entry->by_size[size];
}

std::span<const void* const> ring_kernels() {
  static const auto kAll = [] {
    std::array<const void*, 3 * std::tuple_size_v<std::remove_cvref_t<decltype(entries())>>> all{};
    std::size_t next = 0;
    for (const Entry& entry : entries())
      for (const void* kernel : entry.by_size)
        all[next++] = kernel;
    return all;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
