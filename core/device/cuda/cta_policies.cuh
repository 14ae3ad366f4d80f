// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// CUDA's policies: a group is one CTA, memory is ordered by PTX instructions of system scope. Here
// and in the headers beside are all inline assembly, __syncthreads and threadIdx.
//
// Order (PTX ISA, "Memory Consistency Model"): all threads of a CTA write payload with weak stores,
// meet at a barrier, then one thread stores the tail with release at system scope; release is
// cumulative over what the barrier ordered before it. A reader's acquire of the tail and a barrier
// order its CTA's loads after it. Nothing that a peer writes is read through the read-only cache.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/device/cuda/kernels.h"
#include "core/device/policies.h"

namespace weft::device::cuda {

/// Barriers of a CTA, by the numbers that its instructions have for them.
inline constexpr int kLanesBarrier = 1;   ///< Of the lanes of a group.
inline constexpr int kPosterBarrier = 2;  ///< Of those and the warp that posts for them.

/// The first threads of a CTA, whole warps. Every one of them makes one.
class CtaGroup {
 public:
  /// `slots` lie in shared memory, two of them: a value may still be read when the next is written.
  __device__ explicit CtaGroup(std::uint64_t* slots) : CtaGroup(slots, blockDim.x) {}
  __device__ CtaGroup(std::uint64_t* slots, std::uint32_t lanes) : slots_(slots), lanes_(lanes) {}

  [[nodiscard]] __device__ std::uint32_t rank() const { return threadIdx.x; }
  [[nodiscard]] __device__ std::uint32_t size() const { return lanes_; }
  [[nodiscard]] __device__ bool leader() const { return threadIdx.x == 0; }
  __device__ void sync() {
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"n"(kLanesBarrier), "r"(lanes_) : "memory");
  }
  __device__ std::uint64_t broadcast(std::uint64_t value) {
    turn_ ^= 1U;
    if (leader()) slots_[turn_] = value;
    sync();
    return slots_[turn_];
  }
  __device__ bool any(bool flag) {
    std::uint32_t found = 0;
    asm volatile(
        "{\n"
        ".reg .pred mine, any;\n"
        "setp.ne.u32 mine, %1, 0;\n"
        "barrier.cta.red.or.pred.aligned any, %2, %3, mine;\n"
        "selp.u32 %0, 1, 0, any;\n"
        "}"
        : "=r"(found)
        : "r"(flag ? 1U : 0U), "n"(kLanesBarrier), "r"(lanes_)
        : "memory");
    return found != 0;
  }
  [[nodiscard]] __device__ static constexpr std::uint32_t gang_size() { return kWarp; }
  __device__ static bool any_of_gang(bool flag) { return __any_sync(UINT32_MAX, flag) != 0; }
  __device__ static void gather_gang() { __syncwarp(); }

 private:
  std::uint64_t* slots_;
  const std::uint32_t lanes_;
  std::uint32_t turn_ = 0;
};

/// The first warp of a CTA. It keeps nothing in shared memory. Every one of its threads makes one.
class WarpGroup {
 public:
  [[nodiscard]] __device__ static std::uint32_t rank() { return threadIdx.x; }
  [[nodiscard]] __device__ static constexpr std::uint32_t size() { return kWarp; }
  [[nodiscard]] __device__ static bool leader() { return threadIdx.x == 0; }
  __device__ static void sync() { __syncwarp(); }
  [[nodiscard]] __device__ static std::uint64_t broadcast(std::uint64_t value) {
    return __shfl_sync(UINT32_MAX, value, 0);
  }
  [[nodiscard]] __device__ static bool any(bool flag) { return __any_sync(UINT32_MAX, flag) != 0; }
};

/// All threads of a CTA, those that post included.
struct AllThreads {
  [[nodiscard]] __device__ static std::uint32_t rank() { return threadIdx.x; }
  [[nodiscard]] __device__ static std::uint32_t size() { return blockDim.x; }
  __device__ static void sync() { __syncthreads(); }
};

__device__ inline std::uint64_t load_acquire_system(const std::uint64_t* counter) {
  std::uint64_t value = 0;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(counter) : "memory");
  return value;
}

__device__ inline void store_release_system(std::uint64_t* counter, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
}

__device__ inline void store_relaxed_system(std::uint64_t* counter, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(counter), "l"(value) : "memory");
}

__device__ inline std::uint32_t load_relaxed_system(const std::uint32_t* word) {
  std::uint32_t value = 0;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

// Of any address: what a CTA notes for itself lies in shared memory.
__device__ inline void store_relaxed_system(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// A vector of 16 bytes is two accesses of 8 at least, each whole: what LL lines rest on
// (tests/gpu/litmus.cu, "ll").
__device__ inline Line load_words_system(const std::byte* from) {
  uint4 raw;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
               : "l"(from)
               : "memory");
  return std::bit_cast<Line>(raw);
}

__device__ inline void store_words_system(std::byte* to, Line line) {
  const uint4 raw = std::bit_cast<uint4>(line);
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(raw.x),
               "r"(raw.y), "r"(raw.z), "r"(raw.w)
               : "memory");
}

/// Lines of several 16 bytes that a thread holds at once: so many loads are under way.
inline constexpr std::uint32_t kLinesInFlight = 8;

/// The memory of a launch. `abort` and `waiting` are host memory: visited now and then, since it is
/// far. `waiting` may be null; otherwise whoever waits for long tells it there, by `tag` or by that
/// of the transfer in which it waits.
class CudaMemory {
 public:
  static constexpr bool kCombinesRanks = true;

  __device__ CudaMemory(const std::uint32_t* abort, LongWait* waiting, std::uint64_t tag)
      : abort_(abort), waiting_(waiting), tag_(tag) {}

  /// See tells_waits.
  __device__ void waits_in(const PairTransfer& transfer) { transfer_ = &transfer; }

  [[nodiscard]] __device__ static std::uint64_t load_acquire(std::uint64_t* counter) {
    return load_acquire_system(counter);
  }
  __device__ static void store_release(std::uint64_t* counter, std::uint64_t value) {
    store_release_system(counter, value);
  }

  /// No waiter words: a GPU wakes nobody, so whoever waits for a GPU polls.
  __device__ static void post(std::uint64_t* counter, std::uint32_t* /*waiters*/,
                              std::uint64_t value) {
    store_release_system(counter, value);
  }
  /// Lanes have what they read before they come to a barrier, since they stored or compared it, so
  /// a slot that is filled again cannot change that (tests/gpu/litmus.cu, "taken").
  __device__ static void give_back(std::uint64_t* head, std::uint64_t freed) {
    store_relaxed_system(head, freed);
  }

  [[nodiscard]] __device__ WaitResult wait_at_least(std::uint64_t* counter,
                                                    std::uint32_t* /*waiters*/,
                                                    std::uint64_t threshold, std::uint32_t* error) {
    for (std::uint32_t looks = 0;; ++looks) {
      for (std::uint32_t turn = 0; turn < kTurnsBetweenLooks; ++turn) {
        const std::uint64_t seen = load_acquire_system(counter);
        if (seen >= threshold) return {.status = WaitStatus::kReady, .value = seen};
      }
      say_that_it_waits(looks);
      if (load_relaxed_system(abort_) != 0) return {.status = WaitStatus::kAborted, .value = 0};
      const std::uint32_t told = error == nullptr ? 0 : load_relaxed_system(error);
      if (told != 0) return {.status = WaitStatus::kPeerError, .value = told};
    }
  }

  __device__ static void give_up(std::uint32_t* peer_error, std::uint32_t reason) {
    if (peer_error == nullptr) return;
    __threadfence_system();
    store_relaxed_system(peer_error, reason);
  }

  [[nodiscard]] __device__ static std::uint32_t load_word(std::uint32_t* word) {
    return load_relaxed_system(word);
  }
  __device__ static void store_word(std::uint32_t* word, std::uint32_t value) {
    store_relaxed_system(word, value);
  }
  [[nodiscard]] __device__ KernelOutcome pause(std::uint32_t turn) const {
    if (turn % kTurnsBetweenLooks != kTurnsBetweenLooks - 1) return {};
    say_that_it_waits(turn / kTurnsBetweenLooks);
    if (load_relaxed_system(abort_) == 0) return {};
    return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
  }

  [[nodiscard]] __device__ static Line load_words(const std::byte* from) {
    return load_words_system(from);
  }
  __device__ static void store_words(std::byte* to, Line line) { store_words_system(to, line); }
  __device__ static void fence() { __threadfence_system(); }
  [[nodiscard]] __device__ static bool look_again(std::uint32_t turn) {
    return turn < kTurnsBetweenLooks;
  }

  // The stores of a warp to one line of 128 bytes go over NVLink in one packet, and arrive as one
  // (tests/gpu/litmus.cu, "ll128"): so its lanes have to be together again, whatever each did
  // before. So have those that load, which are gathered once for all that they look at.
  __device__ static void store_wide(CtaGroup& /*group*/, std::byte* to, Line share, bool /*last*/) {
    __syncwarp();
    if (to != nullptr) store_words_system(to, share);
  }
  [[nodiscard]] __device__ static Line load_wide(CtaGroup& /*group*/, const std::byte* from,
                                                 std::uint64_t /*flag*/, bool /*last*/) {
    return from == nullptr ? Line{} : load_words_system(from);
  }

  [[nodiscard]] __device__ KernelOutcome keep_waiting(std::uint32_t turn,
                                                      const DirectPeers& peers) const {
    if (turn % kTurnsBetweenLooks != kTurnsBetweenLooks - 1) return {};
    say_that_it_waits(turn / kTurnsBetweenLooks);
    return why_leave(peers);
  }
  [[nodiscard]] __device__ KernelOutcome why_leave(const DirectPeers& peers) const {
    if (load_relaxed_system(abort_) != 0) {
      return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
    }
    for (std::uint32_t rank = 0; rank < peers.ranks; ++rank) {
      if (peers.error[rank] == nullptr) continue;
      const std::uint32_t word = load_relaxed_system(peers.error[rank]);
      if (word != 0) {
        __threadfence_system();  // what that rank wrote before is seen now
        return {.end = KernelEnd::kPeerError, .peer = rank, .expected = 0, .found = word};
      }
    }
    return {};
  }

  [[nodiscard]] __device__ static Line load_line(const std::byte* from) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    return std::bit_cast<Line>(raw);
  }
  __device__ static void store_line(std::byte* to, Line line) {
    *reinterpret_cast<uint4*>(to) = std::bit_cast<uint4>(line);
  }

  __device__ void copy(CtaGroup& group, std::byte* first, std::byte* second,
                       const std::byte* source, std::uint64_t bytes);
  template <class R>
  __device__ void reduce(const R& reduction, CtaGroup& group, std::byte* first, std::byte* second,
                         const std::byte* a, const std::byte* b, std::uint64_t count);
  /// The same with so many lines of a thread under way at once.
  template <std::uint32_t kLines, class R>
  __device__ void reduce_by(const R& reduction, CtaGroup& group, std::byte* first,
                            std::byte* second, const std::byte* a, const std::byte* b,
                            std::uint64_t count);
  template <class R>
  __device__ void finish(const R& reduction, CtaGroup& group, std::byte* first, std::byte* second,
                         std::uint64_t count);

 private:
  // A turn takes about half a microsecond, so words are a sixth of a second apart.
  static constexpr std::uint32_t kTurnsBetweenLooks = 512;
  static constexpr std::uint32_t kLooksBetweenWords = 512;

  __device__ void say_that_it_waits(std::uint32_t looks) const {
    if (looks % kLooksBetweenWords != kLooksBetweenWords - 1 || waiting_ == nullptr) return;
    if (looks == kLooksBetweenWords - 1) store_relaxed_system(&waiting_->begun, 1);
    store_relaxed_system(&waiting_->tag, transfer_ == nullptr ? tag_ : called_tag(*transfer_));
  }

  const std::uint32_t* abort_;
  LongWait* waiting_;
  const std::uint64_t tag_;
  const PairTransfer* transfer_ = nullptr;
};

}  // namespace weft::device::cuda

#include "core/device/cuda/line_loops.cuh"
