// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bulk copies between global and shared memory, and the barriers that count what has arrived, as
// the PTX ISA (9.0) names them: cp.async.bulk, mbarrier, fence.proxy. From compute capability 9.0
// on.
//
// Order: bulk copies go through another proxy than loads and stores. That one has ended is seen
// with what it wrote ("an implicit generic-async proxy fence"): of loads through their barrier, of
// stores by await_stores(). The other way round a fence is needed: between acquiring a counter and
// bulk copies of what the counter tells of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::device::cuda {

__device__ inline std::uint32_t shared_address(const void* of) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(of));
}

/// A barrier in shared memory that `arrivals` complete a phase of, together with the bytes that
/// they announced.
__device__ inline void make_barrier(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
/// By who made them, before anyone uses them.
__device__ inline void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ inline void arrive_and_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
/// Whether the phase of that parity has been completed.
__device__ inline bool has_completed(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ inline void bulk_load(std::byte* shared, const std::byte* global, std::uint32_t bytes,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ inline void bulk_store(std::byte* global, const std::byte* shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
/// The stores of this thread since the last one belong together.
__device__ inline void close_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all but the last kLeft groups of this thread have read their shared memory.
template <int kLeft>
__device__ inline void await_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
/// The same until they have ended: what they wrote is there.
template <int kLeft>
__device__ inline void await_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kLeft) : "memory");
}
/// Bulk copies that follow come after what was acquired before.
__device__ inline void order_bulk_after_loads() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace weft::device::cuda
