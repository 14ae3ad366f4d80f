// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// CUDA's memory for core/device/bulk_walkers.h: the board lies in shared memory, the copies are
// those of core/device/cuda/bulk_copy.cuh, each thread is the first one of a warp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/bulk_board.h"
#include "core/device/cuda/bulk_copy.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/enter_outputs.cuh"
#include "core/device/cuda/kernels.h"

namespace weft::device::cuda {

class BulkMemory : public CudaMemory {
 public:
  static constexpr std::uint32_t kPieceBytes = 16384;
  using CudaMemory::CudaMemory;

  __device__ static void make_barrier(std::uint64_t* barrier, std::uint32_t arrivals) {
    cuda::make_barrier(barrier, arrivals);
  }
  __device__ static void show_barriers() { cuda::show_barriers(); }
  __device__ static void arrive(std::uint64_t* barrier) { cuda::arrive(barrier); }
  __device__ static void arrive_and_expect(std::uint64_t* barrier, std::uint32_t bytes) {
    cuda::arrive_and_expect(barrier, bytes);
  }
  [[nodiscard]] __device__ static bool has_completed(std::uint64_t* barrier, std::uint32_t parity) {
    return cuda::has_completed(barrier, parity);
  }
  __device__ static void bulk_load(std::byte* piece, const std::byte* from, std::uint32_t bytes,
                                   std::uint64_t* barrier) {
    cuda::bulk_load(piece, from, bytes, barrier);
  }
  __device__ static void bulk_store(std::byte* to, const std::byte* piece, std::uint32_t bytes) {
    cuda::bulk_store(to, piece, bytes);
  }
  __device__ static void close_group() { cuda::close_group(); }
  template <int kLeft>
  __device__ static void await_reads() {
    cuda::await_reads<kLeft>();
  }
  template <int kLeft>
  __device__ static void await_stores() {
    cuda::await_stores<kLeft>();
  }
  __device__ static void order_bulk_after_loads() { cuda::order_bulk_after_loads(); }
  __device__ static void load_rest(std::byte* rest, const std::byte* from, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i)
      rest[i] = from[i];
  }
  __device__ static void store_rest(std::byte* to, const std::byte* rest, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i)
      to[i] = rest[i];
  }

  [[nodiscard]] __device__ static std::uint32_t load_shared(const std::uint32_t* word) {
    return *static_cast<const volatile std::uint32_t*>(word);
  }
  __device__ static void store_shared(std::uint32_t* word, std::uint32_t value) {
    *static_cast<volatile std::uint32_t*>(word) = value;
  }
  __device__ static void fence_board() { __threadfence_block(); }
  __device__ static void fence_shared() { asm volatile("" ::: "memory"); }
  __device__ static void store_relaxed(std::uint64_t* counter, std::uint64_t value) {
    store_relaxed_system(counter, value);
  }
  // Loads whose data is there need no fence before what tells of them (tests/gpu/litmus.cu,
  // "taken-bulk").
  __device__ static void give_back(std::uint64_t* head, std::uint64_t value) {
    store_relaxed_system(head, value);
  }
  [[nodiscard]] __device__ static constexpr bool idle() { return true; }
};

/// A thread of a CTA whose first three warps have one each at work.
struct BulkCta : OutputCta {
  [[nodiscard]] __device__ static std::uint32_t role() {
    return threadIdx.x % kWarp == 0 ? threadIdx.x / kWarp : UINT32_MAX;
  }
  __device__ static void sync() { __syncthreads(); }
  [[nodiscard]] __device__ BulkMemory memory(std::uint64_t tag) const {
    return BulkMemory(control.abort, control.waiting, tag);
  }
};

}  // namespace weft::device::cuda
