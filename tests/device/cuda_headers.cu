// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Compiles the kernels as device code, with policies as small as can be: proof that the headers
// stay fit for nvcc, not a device to run on.
#include <cstddef>
#include <cstdint>

#include "core/device/lane_loops.h"
#include "core/device/policies.h"
#include "core/device/work_item_kernel.h"

namespace {

using weft::device::Line;
using weft::device::WaitResult;
using weft::device::WaitStatus;

__shared__ std::uint64_t told;

struct BlockGroup {
  __device__ std::uint32_t rank() const { return threadIdx.x; }
  __device__ std::uint32_t size() const { return blockDim.x; }
  __device__ bool leader() const { return threadIdx.x == 0; }
  __device__ void sync() { __syncthreads(); }
  __device__ std::uint64_t broadcast(std::uint64_t value) {
    if (leader()) told = value;
    __syncthreads();
    const std::uint64_t result = told;
    __syncthreads();
    return result;
  }
};

struct GlobalMemory {
  const std::uint32_t* abort;

  __device__ std::uint64_t load_acquire(std::uint64_t* counter) {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
    return value;
  }
  __device__ void store_release(std::uint64_t* counter, std::uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
  }
  __device__ void post(std::uint64_t* counter, std::uint32_t*, std::uint64_t value) {
    store_release(counter, value);
  }
  __device__ void give_up(std::uint32_t* word, std::uint32_t reason) {
    if (word != nullptr) atomicExch_system(word, reason);
  }
  __device__ WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t*,
                                      std::uint64_t threshold, std::uint32_t* error) {
    for (;;) {
      const std::uint64_t seen = load_acquire(counter);
      if (seen >= threshold) return {WaitStatus::kReady, seen};
      if (*static_cast<const volatile std::uint32_t*>(abort) != 0) {
        return {WaitStatus::kAborted, 0};
      }
      const std::uint32_t word = *static_cast<volatile std::uint32_t*>(error);
      if (word != 0) return {WaitStatus::kPeerError, word};
    }
  }
  __device__ Line load_line(const std::byte* from) {
    const auto value = *reinterpret_cast<const ulonglong2*>(from);
    return {value.x, value.y};
  }
  __device__ void store_line(std::byte* to, Line line) {
    *reinterpret_cast<ulonglong2*>(to) = ulonglong2{line.low, line.high};
  }
  __device__ void copy(BlockGroup& group, std::byte* first, std::byte* second,
                       const std::byte* source, std::uint64_t bytes) {
    weft::device::lane_copy(group, *this, first, second, source, bytes);
  }
  template <class R>
  __device__ void reduce(BlockGroup& group, std::byte* first, std::byte* second, const std::byte* a,
                         const std::byte* b, std::uint64_t count) {
    weft::device::lane_reduce<R>(group, *this, first, second, a, b, count);
  }
};

}  // namespace

__global__ void run_work_items(const weft::WorkItem* items, weft::KernelOutcome* outcomes,
                               const std::uint32_t* abort) {
  BlockGroup group;
  GlobalMemory memory{abort};
  const weft::KernelOutcome outcome = weft::device::run_work_item(group, memory, items[blockIdx.x]);
  if (group.leader()) outcomes[blockIdx.x] = outcome;
}
