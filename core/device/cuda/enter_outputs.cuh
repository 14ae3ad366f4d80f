// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What core/device/output_entry.h asks of a thread of a CTA: the first warp of the first one
// agrees.
#pragma once

#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/report.cuh"
#include "core/device/cuda/spread.cuh"
#include "core/device/output_entry.h"

namespace weft::device::cuda {

template <class Argument>
concept agrees_on_outputs = requires(const Argument& argument) { argument.outputs; };

/// The memory of those that agree.
struct OutputMemory : CudaMemory {
  using CudaMemory::CudaMemory;
  __device__ static void store_relaxed(std::uint64_t* counter, std::uint64_t value) {
    store_relaxed_system(counter, value);
  }
};

struct OutputCta {
  KernelControl control;

  [[nodiscard]] __device__ static std::uint32_t index() { return item_of_cta(); }
  [[nodiscard]] __device__ static std::uint32_t count() { return items_of_launch(); }
  [[nodiscard]] __device__ static bool is_first_thread() { return threadIdx.x == 0; }
  [[nodiscard]] __device__ static bool is_agreeing() { return threadIdx.x < kWarp; }
  [[nodiscard]] __device__ static WarpGroup group() { return {}; }
  [[nodiscard]] __device__ OutputMemory memory(std::uint64_t tag) const {
    return OutputMemory(control.abort, control.waiting, tag);
  }
  [[nodiscard]] __device__ static std::uint32_t load_acquire(const std::uint32_t* word) {
    std::uint32_t value = 0;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static void store_release(std::uint32_t* word, std::uint32_t value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  __device__ static std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
    return atomicAdd(word, value);
  }
  [[nodiscard]] __device__ static constexpr bool idle() { return true; }
  __device__ static void fence() { __threadfence_system(); }
  __device__ static void store_system(std::uint64_t* word, std::uint64_t value) {
    store_release_system(word, value);
  }
  __device__ void report(const KernelOutcome& outcome) const { cuda::report(control, outcome); }
};

}  // namespace weft::device::cuda
