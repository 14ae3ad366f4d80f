// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Litmus runs of the ways in which kernels of two GPUs tell each other "the data is there": each
// pattern is tried a milliard times over NVLink (or PCIe), from many CTAs at once, both ways, with
// random pauses, and every try that shows a flag without its data is counted. With one GPU the two
// ends are CTAs of it, and the table says so. The memory lies at its reader, or in the host, as
// where GPUs do not reach each other. Where it lies in the host, lines also pass between each GPU
// and threads of processors, one way and the other: for these one GPU is enough.
//
// A run that finds nothing proves something only if it could have found it: beside each pattern
// stand weakened copies of it, which have to fail here or there. No spin is without an end.
//
// Status: 0 all patterns hold; 1 one failed, or the run is blind or was cut short; 2 usage; 77 no
// CUDA device.
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

#include "core/device/cuda/bulk_copy.cuh"

namespace {

using namespace weft::device::cuda;

// ---- accesses, as the PTX ISA names them ----

__device__ void store_weak(void* at, uint32_t value) {
  asm volatile("st.weak.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ uint32_t load_weak(const void* at) {
  uint32_t value;
  asm volatile("ld.weak.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ void store_release(void* at, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ uint64_t load_acquire(const void* at) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
__device__ void store_relaxed(void* at, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ uint32_t load_relaxed(const void* at) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ void store_relaxed(void* at, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ uint64_t load_relaxed_u64(const void* at) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
__device__ void store_volatile(void* at, uint2 value) {
  asm volatile("st.volatile.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(value.x), "r"(value.y)
               : "memory");
}
__device__ uint2 load_volatile_v2(const void* at) {
  uint2 value;
  asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(at)
               : "memory");
  return value;
}
__device__ void store_volatile(void* at, uint4 value) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}
__device__ uint4 load_volatile_v4(const void* at) {
  uint4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at)
               : "memory");
  return value;
}
// One 16-byte access of one element, which the ISA calls atomic; a vector of four it does not.
__device__ void store_relaxed_b128(void* at, uint64_t low, uint64_t high) {
  asm volatile(
      "{ .reg .b128 line; mov.b128 line, {%1, %2}; st.relaxed.sys.global.b128 [%0], line; }" ::"l"(
          at),
      "l"(low), "l"(high)
      : "memory");
}
__device__ ulonglong2 load_relaxed_b128(const void* at) {
  ulonglong2 value;
  asm volatile(
      "{ .reg .b128 line; ld.relaxed.sys.global.b128 line, [%2]; mov.b128 {%0, %1}, line; }"
      : "=l"(value.x), "=l"(value.y)
      : "l"(at)
      : "memory");
  return value;
}
__host__ __device__ uint64_t nanoseconds() {
#ifdef __CUDA_ARCH__
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
#endif
}

// ---- accesses of a processor ----

template <class Word>
void store(std::byte* at, Word value, std::memory_order order = std::memory_order_relaxed) {
  std::atomic_ref(*reinterpret_cast<Word*>(at)).store(value, order);
}
template <class Word>
Word load(const std::byte* at, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref(*reinterpret_cast<Word*>(const_cast<std::byte*>(at))).load(order);
}

// ---- what both ends share ----

constexpr uint32_t kSlots = 32;                       // Messages of a pair that may be under way.
constexpr uint64_t kSpinNanoseconds = 2'000'000'000;  // No wait is longer.
constexpr uint32_t kSpinsBetweenLooksAtTheClock = 1024;
constexpr uint32_t kLineBytes = 128;
constexpr uint32_t kWholeWarp = 0xffffffff;

/// What the readers of one GPU saw.
struct Tally {
  unsigned long long tries;
  unsigned long long broken;  ///< Tries whose flag was seen without their data.
  unsigned long long apart;   ///< Tries whose 16 bytes did not arrive together.
  unsigned long long stuck;   ///< CTAs and processors that ended a wait by the clock.
  // The first broken try.
  uint32_t example;  ///< 1 once the rest is filled in.
  uint32_t example_pair, example_message, example_cell, example_expected, example_got;
};

/// One GPU's view of both directions. `cells` and `far` are areas of the same shape: a pattern that
/// needs two different lines for one message takes one from each.
struct Side {
  std::byte* cells_out;  ///< What I write and the peer reads.
  std::byte* far_out;
  const std::byte* cells_in;  ///< What the peer writes and I read.
  const std::byte* far_in;
  uint64_t* acks_out;       ///< Where I tell the peer what I have read, a line a pair.
  const uint64_t* acks_in;  ///< Where the peer tells me.
  Tally* tally;
};

/// What changes from launch to launch.
struct Shape {
  uint32_t first;     ///< Number of the first message. Numbers grow for as long as memory lives.
  uint32_t messages;  ///< For each pair.
  uint32_t window;    ///< Messages that the writer may be ahead of the reader; a power of two.
  uint32_t pauses;    ///< Longest pause in clock cycles, less one; a power of two less one.
};

/// One message as a thread of the writing or of the reading CTA sees it.
template <class Pointer>
struct Message {
  Pointer cells;  ///< This message's slot in both areas; all its threads have the same.
  Pointer far;
  uint32_t cell;             ///< Which cell of the slot is this thread's.
  uint32_t number;           ///< The flag: never the same twice.
  uint32_t salt;             ///< Of this pair.
  uint64_t* head = nullptr;  ///< Of patterns that give their slots back themselves.

  /// The word that this message carries at `index`; a function of all three, so stale words show.
  [[nodiscard]] __host__ __device__ uint32_t word(uint32_t index) const {
    uint32_t bits = number * 0x9e3779b1U ^ (salt + index) * 0x85ebca6bU;
    bits ^= bits >> 15;
    return bits * 0x2c1b3c6dU;
  }
};
using Written = Message<std::byte*>;
using Read = Message<const std::byte*>;

/// What one thread has counted, and the first thing that went wrong.
struct Count {
  uint32_t tries = 0, broken = 0, apart = 0;
  bool example = false;
  uint32_t message = 0, cell = 0, expected = 0, got = 0;

  /// Whether `seen` is not what it should be.
  __host__ __device__ bool differs(const Read& from, uint32_t index, uint32_t seen) {
    const uint32_t wanted = from.word(index);
    if (seen == wanted) return false;
    if (!example) {
      example = true;
      message = from.number;
      cell = from.cell;
      expected = wanted;
      got = seen;
    }
    return true;
  }
};

/// Ends a spin by the clock. Looks at it seldom, since that is slow; as seldom a processor lets
/// other threads run, of which there may be more than processors.
class Patience {
 public:
  __host__ __device__ bool over() {
    if (++spins_ % kSpinsBetweenLooksAtTheClock != 0) return false;
#ifndef __CUDA_ARCH__
    std::this_thread::yield();
#endif
    const uint64_t now = nanoseconds();
    if (since_ == 0) since_ = now;
    return now - since_ > kSpinNanoseconds;
  }

 private:
  uint32_t spins_ = 0;
  uint64_t since_ = 0;
};

/// False if `ready` did not become true in time. `ready` runs where the caller does.
#pragma nv_exec_check_disable
template <class Ready>
__host__ __device__ bool spin_until(Ready ready) {
  Patience patience;
  while (!ready()) {
    if (patience.over()) return false;
  }
  return true;
}

// ---- message passing: data by a whole CTA, one flag ----
//
// `write` and `read` are called by all threads of a CTA. `read` answers false if a wait ran out.

enum class Flag {
  kReleaseAcquire,
  kRelaxedStore,  // Planted: nothing keeps the flag behind the data.
  kRelaxedLoad,   // Planted: nothing keeps the reader from an old copy in its L1.
  kStoredFirst,   // Planted.
  kTaken,         // As kReleaseAcquire; the slot is given back by a relaxed store.
  kTakenEarly,    // Planted: the same before the slot is read, now and then long before.
  kPartial,       // The reader stores to the slot, reads that again, and releases the head.
  kPartialEarly,  // Planted: the same with a relaxed head.
};
template <Flag kFlag>
constexpr bool kStoresBack = kFlag == Flag::kPartial || kFlag == Flag::kPartialEarly;
template <Flag kFlag>
constexpr bool kReturnsSlots =
    kFlag == Flag::kTaken || kFlag == Flag::kTakenEarly || kStoresBack<kFlag>;

template <Flag kFlag>
struct MessagePassing {
  static constexpr uint32_t kCellBytes = 4;

  static __device__ void write(const Written& to) {
    if constexpr (kFlag == Flag::kStoredFirst) {
      if (threadIdx.x == 0) store_relaxed(to.far, uint64_t{to.number});
    }
    store_weak(to.cells + to.cell * kCellBytes, to.word(to.cell));
    __syncthreads();
    if (threadIdx.x != 0) return;
    if constexpr (kFlag == Flag::kReleaseAcquire || kFlag == Flag::kRelaxedLoad ||
                  kReturnsSlots<kFlag>) {
      store_release(to.far, to.number);
    } else if constexpr (kFlag == Flag::kRelaxedStore) {
      store_relaxed(to.far, uint64_t{to.number});
    }
  }

  static __device__ bool read(const Read& from, Count& count) {
    bool seen = true;
    if (threadIdx.x == 0) {
      seen = spin_until([&] {
        return (kFlag == Flag::kRelaxedLoad ? load_relaxed_u64(from.far)
                                            : load_acquire(from.far)) == from.number;
      });
    }
    if (!__syncthreads_and(seen)) return false;
    if constexpr (kFlag == Flag::kTakenEarly) {
      // Reading takes less than the way there and back, so that nothing is overwritten before.
      constexpr uint32_t kTurnsBetweenWaits = 4096;
      constexpr unsigned kWaitNs = 10'000;
      if (threadIdx.x == 0) store_relaxed(from.head, uint64_t{from.number});
      if (from.number % kTurnsBetweenWaits == 0) __nanosleep(kWaitNs);
    }
    const uint32_t got = load_weak(from.cells + from.cell * kCellBytes);
    bool broken = __syncthreads_or(count.differs(from, from.cell, got));
    if constexpr (kStoresBack<kFlag>) broken = store_back(from, count) || broken;
    if constexpr (kFlag == Flag::kTaken || kFlag == Flag::kPartialEarly) {
      if (threadIdx.x == 0) store_relaxed(from.head, uint64_t{from.number});
    } else if constexpr (kFlag == Flag::kPartial) {
      if (threadIdx.x == 0) store_release(from.head, from.number);
    }
    if (threadIdx.x == 0) {
      ++count.tries;
      count.broken += broken;
    }
    return true;
  }

  /// As partial sums: what one warp has stored to the slot another one reads there. Whether that
  /// was something else.
  static __device__ bool store_back(const Read& from, Count& count) {
    auto* const cells = const_cast<std::byte*>(from.cells);
    store_weak(cells + from.cell * kCellBytes, ~from.word(from.cell));
    __syncthreads();
    const uint32_t other = (from.cell + 32) % blockDim.x;
    const uint32_t got = ~load_weak(cells + other * kCellBytes);
    return __syncthreads_or(count.differs(from, other, got));
  }
};

// ---- bulk copies: the data of a whole CTA by one, one flag by another thread ----

enum class BulkFlag {
  kFenced,    // As kernels post: the copy has ended, a fence, the flag; the reader orders its copy.
  kEnded,     // The same without the fence.
  kNotEnded,  // Planted: nobody waits for the copy, nor for anything else.
  kTaken,  // As kFenced; another thread gives the slot back by a relaxed store once it is loaded.
  kTakenEarly,  // Planted: the same before it is loaded, now and then long before.
};
template <BulkFlag kFlag>
constexpr bool kReturnsBulkSlots = kFlag == BulkFlag::kTaken || kFlag == BulkFlag::kTakenEarly;

template <BulkFlag kFlag>
struct BulkPassing {
  static constexpr uint32_t kCellBytes = 4;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  static constexpr uint32_t kMostThreads = 1024;
  static constexpr uint32_t kPoster = 32;

  static __device__ void write(const Written& to) {
    __shared__ alignas(kLineBytes) uint32_t words[kMostThreads];
    __shared__ uint32_t stored;
    if (threadIdx.x == 0) stored = 0;
    words[to.cell] = to.word(to.cell);
    // The copy comes after what all threads stored to shared memory.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(to.cells, reinterpret_cast<const std::byte*>(words), blockDim.x * kCellBytes);
      close_group();
      if constexpr (kFlag != BulkFlag::kNotEnded) await_stores<0>();
      __threadfence_block();
      *static_cast<volatile uint32_t*>(&stored) = 1;
    }
    if (threadIdx.x == kPoster) {
      while (*static_cast<volatile uint32_t*>(&stored) == 0) {
      }
      __threadfence_block();
      if constexpr (kFlag == BulkFlag::kFenced || kReturnsBulkSlots<kFlag>) {
        __threadfence_system();
      }
      store_relaxed(to.far, uint64_t{to.number});
    }
    if constexpr (kFlag == BulkFlag::kNotEnded) {
      if (threadIdx.x == 0) await_reads<0>();
    }
    __syncthreads();
  }

  static __device__ bool read(const Read& from, Count& count) {
    __shared__ alignas(kLineBytes) uint32_t words[kMostThreads];
    __shared__ uint64_t arrived;
    bool seen = true;
    if (threadIdx.x == 0) {
      seen = spin_until([&] { return load_acquire(from.far) == from.number; });
      if (seen) {
        make_barrier(&arrived, 1);
        show_barriers();
        order_bulk_after_loads();
        if constexpr (kFlag == BulkFlag::kTakenEarly) {
          // Loading takes less than the way there and back, so that nothing is overwritten before.
          constexpr uint32_t kTurnsBetweenWaits = 4096;
          constexpr unsigned kWaitNs = 10'000;
          store_relaxed(from.head, uint64_t{from.number});
          if (from.number % kTurnsBetweenWaits == 0) __nanosleep(kWaitNs);
        }
        arrive_and_expect(&arrived, blockDim.x * kCellBytes);
        bulk_load(reinterpret_cast<std::byte*>(words), from.cells, blockDim.x * kCellBytes,
                  &arrived);
      }
    }
    if (!__syncthreads_and(seen)) return false;
    if (threadIdx.x == 0 || threadIdx.x == kPoster) {
      while (!has_completed(&arrived, 0)) {
      }
    }
    if (kFlag == BulkFlag::kTaken && threadIdx.x == kPoster) {
      store_relaxed(from.head, uint64_t{from.number});
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&arrived))
                   : "memory");
    }
    const bool broken = __syncthreads_or(count.differs(from, from.cell, words[from.cell]));
    if (threadIdx.x == 0) {
      ++count.tries;
      count.broken += broken;
    }
    return true;
  }
#else
  static __device__ void write(const Written& /*to*/) {}
  static __device__ bool read(const Read& /*from*/, Count& /*count*/) { return false; }
#endif
};

// ---- LL: four bytes of data and four of flag in one store, a message a thread ----

struct LlU64 {
  static constexpr uint32_t kCellBytes = 8;
  static __device__ void store(const Written& to, uint32_t data) {
    store_relaxed(to.cells + to.cell * kCellBytes, uint64_t{to.number} << 32 | data);
  }
  static __device__ uint2 load(const Read& from) {
    const uint64_t line = load_relaxed_u64(from.cells + from.cell * kCellBytes);
    return {static_cast<uint32_t>(line), static_cast<uint32_t>(line >> 32)};
  }
};

struct LlV2 {
  static constexpr uint32_t kCellBytes = 8;
  static __device__ void store(const Written& to, uint32_t data) {
    store_volatile(to.cells + to.cell * kCellBytes, uint2{data, to.number});
  }
  static __device__ uint2 load(const Read& from) {
    return load_volatile_v2(from.cells + from.cell * kCellBytes);
  }
};

/// Planted: the same eight bytes by two stores.
template <bool kFlagFirst>
struct LlTwoStores {
  static constexpr uint32_t kCellBytes = 8;
  static __device__ void store(const Written& to, uint32_t data) {
    std::byte* cell = to.cells + to.cell * kCellBytes;
    store_relaxed(kFlagFirst ? cell + 4 : cell, kFlagFirst ? to.number : data);
    store_relaxed(kFlagFirst ? cell : cell + 4, kFlagFirst ? data : to.number);
  }
  static __device__ uint2 load(const Read& from) { return LlV2::load(from); }
};

/// Planted: data and flag in different lines, nothing but the program's order between them.
struct LlTwoLines {
  static constexpr uint32_t kCellBytes = 8;
  static __device__ void store(const Written& to, uint32_t data) {
    store_relaxed(to.cells + to.cell * kCellBytes, data);
    store_relaxed(to.far + to.cell * kCellBytes, to.number);
  }
  static __device__ uint2 load(const Read& from) {
    const uint32_t flag = load_relaxed(from.far + from.cell * kCellBytes);
    return {load_relaxed(from.cells + from.cell * kCellBytes), flag};
  }
};

template <class Line>
struct Ll {
  static constexpr uint32_t kCellBytes = Line::kCellBytes;

  static __device__ void write(const Written& to) { Line::store(to, to.word(to.cell)); }

  static __device__ bool read(const Read& from, Count& count) {
    uint2 line;
    const bool seen = spin_until([&] {
      line = Line::load(from);
      return line.y == from.number;
    });
    if (!seen) return false;
    ++count.tries;
    count.broken += count.differs(from, from.cell, line.x);
    return true;
  }
};

// ---- 16 bytes ----

/// What a reader has seen of data, flag, data, flag. Each half is checked once its flag is seen.
struct Halves {
  bool first = false, second = false, apart = false, broken = false;

  /// Whether both have come.
  __host__ __device__ bool look(const Read& from, const uint4& line, Count& count) {
    if (!first && line.y == from.number) {
      first = true;
      broken |= count.differs(from, 2 * from.cell, line.x);
    }
    if (!second && line.w == from.number) {
      second = true;
      broken |= count.differs(from, 2 * from.cell + 1, line.z);
    }
    apart |= first != second;
    return first && second;
  }
};

/// Data, flag, data, flag by one vector store. Each half is an LL line and has to hold as such;
/// whether both halves come together is only observed.
struct LlV4 {
  static constexpr uint32_t kCellBytes = 16;

  static __device__ void write(const Written& to) {
    store_volatile(to.cells + to.cell * kCellBytes,
                   uint4{to.word(2 * to.cell), to.number, to.word(2 * to.cell + 1), to.number});
  }

  static __device__ bool read(const Read& from, Count& count) {
    Halves halves;
    const bool seen = spin_until([&] {
      return halves.look(from, load_volatile_v4(from.cells + from.cell * kCellBytes), count);
    });
    if (!seen) return false;
    ++count.tries;
    count.broken += halves.broken;
    count.apart += halves.apart;
    return true;
  }
};

/// Twelve bytes of data and four of flag by one 16-byte store of one element. Observed.
struct LlB128 {
  static constexpr uint32_t kCellBytes = 16;

  static __device__ void write(const Written& to) {
    const uint32_t index = 3 * to.cell;
    store_relaxed_b128(to.cells + to.cell * kCellBytes,
                       uint64_t{to.word(index + 1)} << 32 | to.word(index),
                       uint64_t{to.number} << 32 | to.word(index + 2));
  }

  static __device__ bool read(const Read& from, Count& count) {
    ulonglong2 line;
    const bool seen = spin_until([&] {
      line = load_relaxed_b128(from.cells + from.cell * kCellBytes);
      return static_cast<uint32_t>(line.y >> 32) == from.number;
    });
    if (!seen) return false;
    const uint32_t index = 3 * from.cell;
    const bool apart = count.differs(from, index, static_cast<uint32_t>(line.x)) |
                       count.differs(from, index + 1, static_cast<uint32_t>(line.x >> 32)) |
                       count.differs(from, index + 2, static_cast<uint32_t>(line.y));
    ++count.tries;
    count.apart += apart;
    return true;
  }
};

// ---- the same 16 bytes between a GPU and a processor, which has two words of 8 bytes ----
//
// `write` and `read` are the GPU's end, as above. `take` and `fill` are the processor's, which does
// all lines of a message; `take` answers false if a wait ran out.

enum class LineStores {
  kWholeWords,
  kFlagsFirst,      // Planted: the flags of a line, then its data.
  kFlagsLongFirst,  // Planted: the same with a fence between; a processor's of a whole message.
};

template <LineStores kStores>
struct LlFromGpu {
  static constexpr bool kFromGpu = true;
  static constexpr uint32_t kCellBytes = LlV4::kCellBytes;

  static __device__ void write(const Written& to) {
    if constexpr (kStores == LineStores::kWholeWords) {
      LlV4::write(to);
    } else {
      std::byte* line = to.cells + to.cell * kCellBytes;
      store_relaxed(line + 4, to.number);
      store_relaxed(line + 12, to.number);
      if constexpr (kStores == LineStores::kFlagsLongFirst) __threadfence_system();
      store_relaxed(line, to.word(2 * to.cell));
      store_relaxed(line + 8, to.word(2 * to.cell + 1));
    }
  }

  /// Halves come apart by the two loads alone, so that is not counted.
  static bool take(Read from, uint32_t lines, Count& count) {
    for (from.cell = 0; from.cell < lines; ++from.cell) {
      const std::byte* line = from.cells + from.cell * kCellBytes;
      Halves halves;
      const bool seen = spin_until([&] {
        const auto low = load<uint64_t>(line);
        const auto high = load<uint64_t>(line + 8);
        return halves.look(from,
                           {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                            static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)},
                           count);
      });
      if (!seen) return false;
      ++count.tries;
      count.broken += halves.broken;
    }
    return true;
  }
};

template <LineStores kStores>
struct LlToGpu {
  static constexpr bool kFromGpu = false;
  static constexpr uint32_t kCellBytes = LlV4::kCellBytes;

  static __device__ bool read(const Read& from, Count& count) { return LlV4::read(from, count); }

  static void fill(const Written& to, uint32_t lines) {
    for (uint32_t cell = 0; cell < lines; ++cell) {
      std::byte* line = to.cells + cell * kCellBytes;
      if constexpr (kStores == LineStores::kWholeWords) {
        store(line, uint64_t{to.number} << 32 | to.word(2 * cell));
        store(line + 8, uint64_t{to.number} << 32 | to.word(2 * cell + 1));
      } else {
        store(line + 4, to.number);
        store(line + 12, to.number);
        if constexpr (kStores == LineStores::kFlagsFirst) store_data(to, cell);
      }
    }
    if constexpr (kStores == LineStores::kFlagsLongFirst) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
      for (uint32_t cell = 0; cell < lines; ++cell)
        store_data(to, cell);
    }
  }

 private:
  static void store_data(const Written& to, uint32_t cell) {
    std::byte* line = to.cells + cell * kCellBytes;
    store(line, to.word(2 * cell));
    store(line + 8, to.word(2 * cell + 1));
  }
};

// ---- LL128: eight lanes store a line, the last eight bytes of it are the flag ----

enum class Line128 {
  kOneStore,
  kFlagLaneFirst,  // Planted: the line by two stores of the warp.
  kFlagElsewhere,  // Planted: one store of the warp, but the flag's lane writes another line.
  kStraddling,     // Planted: one store, but each 128 bytes lie across two lines.
};

template <Line128 kLine>
struct Ll128 {
  static constexpr uint32_t kCellBytes = 16;
  static constexpr uint32_t kLanes = kLineBytes / kCellBytes;

  static __device__ bool flag_lane() { return threadIdx.x % kLanes == kLanes - 1; }

  template <class Pointer>
  static __device__ Pointer cell_of(const Message<Pointer>& message) {
    const bool elsewhere = kLine == Line128::kFlagElsewhere && flag_lane();
    return (elsewhere ? message.far : message.cells) + message.cell * kCellBytes +
           (kLine == Line128::kStraddling ? kLineBytes / 2 : 0);
  }

  static __device__ void write(const Written& to) {
    const uint32_t index = 4 * to.cell;
    uint4 line{to.word(index), to.word(index + 1), to.word(index + 2), to.word(index + 3)};
    if (flag_lane()) line.z = line.w = to.number;
    std::byte* cell = cell_of(to);
    if constexpr (kLine == Line128::kFlagLaneFirst) {
      if (flag_lane()) store_volatile(cell, line);
      __syncwarp();
      if (!flag_lane()) store_volatile(cell, line);
    } else {
      store_volatile(cell, line);
    }
  }

  static __device__ bool read(const Read& from, Count& count) {
    const std::byte* cell = cell_of(from);
    const uint32_t index = 4 * from.cell;
    Patience patience;
    bool arrived = false;  // Alike in the lanes of a line.
    while (true) {
      const uint4 line = load_volatile_v4(cell);
      const bool flag = line.z == from.number && line.w == from.number;
      const bool seen = __shfl_sync(kWholeWarp, flag, kLanes - 1, kLanes);
      bool wrong = false;
      if (seen && !arrived) {
        wrong = count.differs(from, index, line.x) | count.differs(from, index + 1, line.y);
        if (!flag_lane()) {
          wrong |= count.differs(from, index + 2, line.z) | count.differs(from, index + 3, line.w);
        }
      }
      const uint32_t lanes = __ballot_sync(kWholeWarp, wrong);
      if (seen && !arrived && flag_lane()) {
        const uint32_t first = threadIdx.x % 32 - (kLanes - 1);
        ++count.tries;
        count.broken += (lanes >> first & ((1U << kLanes) - 1)) != 0;
      }
      arrived |= seen;
      if (__all_sync(kWholeWarp, arrived)) return true;
      if (__any_sync(kWholeWarp, patience.over())) return false;
    }
  }
};

// ---- the kernels, and what a processor runs ----

__host__ __device__ uint32_t scramble(uint32_t bits) {
  bits ^= bits >> 16;
  bits *= 0x7feb352dU;
  bits ^= bits >> 15;
  bits *= 0x846ca68bU;
  return bits ^ bits >> 16;
}

/// Every fourth time on average, a warp waits for a random while: some flags are waited for, others
/// are there already, and the warps of a CTA do not come in step. So does a processor, by
/// nanoseconds instead of cycles.
__host__ __device__ void pause(uint32_t random, uint32_t longest) {
  if (random % 4 != 0) return;
  const uint32_t ticks = random >> 2 & longest;
#ifdef __CUDA_ARCH__
  for (const uint32_t begin = clock(); static_cast<uint32_t>(clock()) - begin < ticks;) {
  }
#else
  for (const uint64_t begin = nanoseconds(); nanoseconds() - begin < ticks;) {
  }
#endif
}

/// As thread `thread` of a CTA of `threads` sees it.
template <class Pointer>
__host__ __device__ Message<Pointer> message_at(Pointer cells, Pointer far, uint32_t pair,
                                                uint32_t number, uint32_t cell_bytes,
                                                uint32_t slots, uint32_t thread, uint32_t threads) {
  // Neighbours in time are no neighbours in memory, and a thread's cell moves by half a line or a
  // whole one from message to message. Slots of a window differ, since 5 is odd.
  const uint32_t slot = (number * 5 + pair) % slots;
  const size_t offset = (size_t{pair} * kSlots + slot) * threads * cell_bytes;
  const uint32_t cell = (thread + 8 * number) % threads;
  return {cells + offset, far + offset, cell, number, pair * 0x51ed27U};
}

// An acquire empties its multiprocessor's L1: those of neighbours would hide that a reader lacks
// one.
template <class Pattern>
constexpr bool kRelaxedAcks = false;
template <>
constexpr bool kRelaxedAcks<MessagePassing<Flag::kRelaxedLoad>> = true;

template <class Pattern>
constexpr bool kGivesBack = false;
template <Flag kFlag>
constexpr bool kGivesBack<MessagePassing<kFlag>> = kReturnsSlots<kFlag>;
template <BulkFlag kFlag>
constexpr bool kGivesBack<BulkPassing<kFlag>> = kReturnsBulkSlots<kFlag>;

/// Of a pair. Where slots are given back by the pattern, each is filled again as soon as it may be.
template <class Pattern>
__device__ uint32_t slots_of(const Shape& shape) {
  return kGivesBack<Pattern> ? shape.window : kSlots;
}

constexpr uint32_t kWordsBetweenAcks = kLineBytes / sizeof(uint64_t);

/// Whether the reader tells the writer of its message `i` of a launch.
__host__ __device__ bool ack_due(const Shape& shape, uint32_t i) {
  const uint32_t every = shape.window < 4 ? 1 : shape.window / 4;
  return (i + 1) % every == 0 || i + 1 == shape.messages;
}

template <class Pattern>
__device__ bool write_messages(const Side& side, const Shape& shape, uint32_t pair) {
  const uint64_t* ack = side.acks_in + size_t{pair} * kWordsBetweenAcks;
  uint64_t acked = shape.first - 1;
  for (uint32_t i = 0; i < shape.messages; ++i) {
    const uint32_t number = shape.first + i;
    bool room = true;
    if (threadIdx.x == 0 && acked + shape.window < number) {
      room = spin_until([&] {
        acked = kRelaxedAcks<Pattern> ? load_relaxed_u64(ack) : load_acquire(ack);
        return acked + shape.window >= number;
      });
    }
    if (!__syncthreads_and(room)) return false;
    pause(scramble(number ^ pair << 12 ^ (threadIdx.x / 32) << 28), shape.pauses);
    Pattern::write(message_at<std::byte*>(side.cells_out, side.far_out, pair, number,
                                          Pattern::kCellBytes, slots_of<Pattern>(shape),
                                          threadIdx.x, blockDim.x));
  }
  return true;
}

template <class Pattern>
__device__ bool read_messages(const Side& side, const Shape& shape, uint32_t pair, Count& count) {
  uint64_t* ack = side.acks_out + size_t{pair} * kWordsBetweenAcks;
  for (uint32_t i = 0; i < shape.messages; ++i) {
    const uint32_t number = shape.first + i;
    pause(scramble(~number ^ pair << 12 ^ (threadIdx.x / 32) << 28), shape.pauses);
    auto message =
        message_at<const std::byte*>(side.cells_in, side.far_in, pair, number, Pattern::kCellBytes,
                                     slots_of<Pattern>(shape), threadIdx.x, blockDim.x);
    message.head = ack;
    if (!__syncthreads_and(Pattern::read(message, count))) return false;
    if constexpr (kGivesBack<Pattern>) continue;
    if (threadIdx.x == 0 && ack_due(shape, i)) store_release(ack, number);
  }
  return true;
}

__device__ void add_to(Tally* tally, const Count& count, uint32_t pair) {
  if (count.tries != 0) atomicAdd(&tally->tries, count.tries);
  if (count.broken != 0) atomicAdd(&tally->broken, count.broken);
  if (count.apart != 0) atomicAdd(&tally->apart, count.apart);
  if (count.example && atomicCAS(&tally->example, 0U, 1U) == 0) {
    tally->example_pair = pair;
    tally->example_message = count.message;
    tally->example_cell = count.cell;
    tally->example_expected = count.expected;
    tally->example_got = count.got;
  }
}

/// Even CTAs write, odd ones read; all of them must be resident at once, on both GPUs.
template <class Pattern>
__global__ void litmus(Side side, Shape shape) {
  const uint32_t pair = blockIdx.x / 2;
  Count count;
  const bool done = blockIdx.x % 2 == 0 ? write_messages<Pattern>(side, shape, pair)
                                        : read_messages<Pattern>(side, shape, pair, count);
  add_to(side.tally, count, pair);
  if (!done && threadIdx.x == 0) atomicAdd(&side.tally->stuck, 1ULL);
}

/// Every CTA has a processor at the other end.
template <class Pattern>
__global__ void litmus_with_processor(Side side, Shape shape) {
  const uint32_t pair = blockIdx.x;
  Count count;
  bool done;
  if constexpr (Pattern::kFromGpu) {
    done = write_messages<Pattern>(side, shape, pair);
  } else {
    done = read_messages<Pattern>(side, shape, pair, count);
  }
  add_to(side.tally, count, pair);
  if (!done && threadIdx.x == 0) atomicAdd(&side.tally->stuck, 1ULL);
}

/// The processor's end of a pair whose CTA has `threads`: a line each. What one end writes is what
/// the other one reads, so both have the same `side`.
template <class Pattern>
Tally run_on_processor(const Side& side, const Shape& shape, uint32_t pair, uint32_t threads) {
  auto* const ack = reinterpret_cast<std::byte*>(side.acks_out + size_t{pair} * kWordsBetweenAcks);
  Count count;
  bool done = true;
  for (uint32_t i = 0; done && i < shape.messages; ++i) {
    const uint32_t number = shape.first + i;
    pause(scramble((Pattern::kFromGpu ? ~number : number) ^ pair << 12), shape.pauses);
    if constexpr (Pattern::kFromGpu) {
      done = Pattern::take(message_at<const std::byte*>(side.cells_in, side.far_in, pair, number,
                                                        Pattern::kCellBytes, kSlots, 0, threads),
                           threads, count);
      if (done && ack_due(shape, i)) store(ack, uint64_t{number}, std::memory_order_release);
    } else {
      done = spin_until(
          [&] { return load<uint64_t>(ack, std::memory_order_acquire) + shape.window >= number; });
      if (!done) break;
      Pattern::fill(message_at<std::byte*>(side.cells_out, side.far_out, pair, number,
                                           Pattern::kCellBytes, kSlots, 0, threads),
                    threads);
    }
  }
  return {count.tries, count.broken,  count.apart, !done,          count.example,
          pair,        count.message, count.cell,  count.expected, count.got};
}

// ---- the table of patterns ----

enum class Kind {
  kReal,      // Must never be seen broken.
  kObserved,  // What is seen is printed.
  kPlanted,   // Weakened: at least one of all must be seen broken.
};

struct Pattern {
  const char* name;
  Kind kind;
  bool pulled;  ///< The data lies at its writer; only the flag is written to the reader's memory.
  uint32_t cell_bytes;
  uint32_t threads_per_try;  ///< 0: a whole CTA.
  void (*kernel)(Side, Shape);
  /// Where each CTA has a processor at the other end, what that runs; only in the host's memory.
  Tally (*processor)(const Side&, const Shape&, uint32_t pair, uint32_t threads);
};

template <class P>
constexpr Pattern row(const char* name, Kind kind, uint32_t threads_per_try, bool pulled = false) {
  return {name, kind, pulled, P::kCellBytes, threads_per_try, litmus<P>, nullptr};
}
template <class P>
constexpr Pattern row_with_processor(const char* name, Kind kind) {
  return {name, kind, false, P::kCellBytes, 1, litmus_with_processor<P>, run_on_processor<P>};
}

const std::array kPatterns = {
    row<MessagePassing<Flag::kReleaseAcquire>>("mp-push: release, acquire", Kind::kReal, 0),
    row<MessagePassing<Flag::kReleaseAcquire>>("mp-pull: release, acquire", Kind::kReal, 0, true),
    row<MessagePassing<Flag::kRelaxedStore>>("mp-push: relaxed store", Kind::kPlanted, 0),
    row<MessagePassing<Flag::kRelaxedLoad>>("mp-push: relaxed load", Kind::kPlanted, 0),
    row<MessagePassing<Flag::kRelaxedLoad>>("mp-pull: relaxed load", Kind::kPlanted, 0, true),
    row<MessagePassing<Flag::kStoredFirst>>("mp-push: flag first", Kind::kPlanted, 0),
    row<MessagePassing<Flag::kTaken>>("taken: barrier, relaxed head", Kind::kReal, 0),
    row<MessagePassing<Flag::kTaken>>("taken-pull: barrier, relaxed head", Kind::kReal, 0, true),
    row<MessagePassing<Flag::kTakenEarly>>("taken: head first", Kind::kPlanted, 0),
    row<MessagePassing<Flag::kPartial>>("partial: stored back, release", Kind::kReal, 0),
    row<MessagePassing<Flag::kPartial>>("partial-pull: stored back, release", Kind::kReal, 0, true),
    row<MessagePassing<Flag::kPartialEarly>>("partial-pull: relaxed head", Kind::kPlanted, 0, true),
    row<BulkPassing<BulkFlag::kFenced>>("bulk: ended, fence, relaxed", Kind::kReal, 0),
    row<BulkPassing<BulkFlag::kFenced>>("bulk-pull: ended, fence, relaxed", Kind::kReal, 0, true),
    row<BulkPassing<BulkFlag::kEnded>>("bulk: ended, relaxed", Kind::kPlanted, 0),
    row<BulkPassing<BulkFlag::kNotEnded>>("bulk: not ended", Kind::kPlanted, 0),
    row<BulkPassing<BulkFlag::kTaken>>("taken-bulk: loaded, relaxed head", Kind::kReal, 0),
    row<BulkPassing<BulkFlag::kTaken>>("taken-bulk-pull: loaded, relaxed head", Kind::kReal, 0,
                                       true),
    row<BulkPassing<BulkFlag::kTakenEarly>>("taken-bulk: head first", Kind::kPlanted, 0),
    row<Ll<LlU64>>("ll: u64 relaxed", Kind::kReal, 1),
    row<Ll<LlV2>>("ll: v2.u32 volatile", Kind::kReal, 1),
    row<Ll<LlTwoStores<false>>>("ll: two stores, flag last", Kind::kPlanted, 1),
    row<Ll<LlTwoStores<true>>>("ll: two stores, flag first", Kind::kPlanted, 1),
    row<Ll<LlTwoLines>>("ll: flag in another line", Kind::kPlanted, 1),
    row<LlV4>("ll16: v4.u32, a flag each half", Kind::kReal, 1),
    row<LlB128>("ll16: b128, one flag", Kind::kObserved, 1),
    row_with_processor<LlFromGpu<LineStores::kWholeWords>>("ll-from-gpu: v4.u32, read by u64",
                                                           Kind::kReal),
    row_with_processor<LlFromGpu<LineStores::kFlagsFirst>>("ll-from-gpu: flags first",
                                                           Kind::kPlanted),
    row_with_processor<LlFromGpu<LineStores::kFlagsLongFirst>>("ll-from-gpu: flags long first",
                                                               Kind::kPlanted),
    row_with_processor<LlToGpu<LineStores::kWholeWords>>("ll-to-gpu: u64, read by v4.u32",
                                                         Kind::kReal),
    row_with_processor<LlToGpu<LineStores::kFlagsFirst>>("ll-to-gpu: flags first", Kind::kPlanted),
    row_with_processor<LlToGpu<LineStores::kFlagsLongFirst>>("ll-to-gpu: flags long first",
                                                             Kind::kPlanted),
    row<Ll128<Line128::kOneStore>>("ll128: one store", Kind::kReal, 8),
    row<Ll128<Line128::kFlagLaneFirst>>("ll128: flag lane first", Kind::kPlanted, 8),
    row<Ll128<Line128::kFlagElsewhere>>("ll128: flag in another line", Kind::kPlanted, 8),
    row<Ll128<Line128::kStraddling>>("ll128: across two lines", Kind::kPlanted, 8),
};

// ---- the host's part ----

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "litmus: %s: %s (%s)\n", what, cudaGetErrorString(error),
               cudaGetErrorName(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

struct Options {
  uint64_t tries = 1'000'000'000;
  uint64_t planted_tries = 0;  // 0: a tenth of tries.
  double limit = 60;
  int devices[2] = {0, 1};
  std::string_view only;
  bool in_host = false;
};

constexpr const char* kUsage =
    "usage: litmus [OPTION VALUE]...\n"
    "  --tries N          of each pattern, at least (1000000000)\n"
    "  --planted-tries N  of each weakened copy (a tenth of --tries)\n"
    "  --devices A,B      CUDA devices (0,1)\n"
    "  --memory WHERE     device or host: where what is exchanged lies (device)\n"
    "  --only TEXT        patterns whose names begin so: mp-push, mp-pull, taken, partial, bulk,\n"
    "                     ll, ll16, ll128; ll-from-gpu, ll-to-gpu with --memory host alone\n"
    "  --limit SECONDS    for all together (60); what was not run by then is a failure\n";

[[noreturn]] void usage_error(std::string_view option, const char* what) {
  std::fprintf(stderr, "litmus: %.*s: %s; see litmus --help\n", static_cast<int>(option.size()),
               option.data(), what);
  std::exit(2);
}

template <class Number>
Number number_of(std::string_view option, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool negative = false;
  if constexpr (std::is_signed_v<Number>) negative = !(value >= Number{});  // Or not a number.
  if (error != std::errc{} || end != text.data() + text.size() || negative) {
    usage_error(option, "needs a number, not negative");
  }
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (i + 1 == argc) usage_error(option, "unknown, or without its value");
    const std::string_view value = argv[i + 1];
    if (option == "--tries") {
      options.tries = number_of<uint64_t>(option, value);
    } else if (option == "--planted-tries") {
      options.planted_tries = number_of<uint64_t>(option, value);
    } else if (option == "--limit") {
      options.limit = number_of<double>(option, value);
    } else if (option == "--only") {
      options.only = value;
    } else if (option == "--memory") {
      if (value != "device" && value != "host") usage_error(option, "is device or host");
      options.in_host = value == "host";
    } else if (option == "--devices") {
      const size_t comma = value.find(',');
      if (comma == std::string_view::npos) usage_error(option, "needs two numbers: 0,1");
      options.devices[0] = number_of<int>(option, value.substr(0, comma));
      options.devices[1] = number_of<int>(option, value.substr(comma + 1));
    } else {
      usage_error(option, "unknown option");
    }
  }
  if (options.tries == 0) usage_error("--tries", "must be at least 1");
  if (options.planted_tries == 0) {
    options.planted_tries = std::max<uint64_t>(options.tries / 10, 1);
  }
  return options;
}

/// The GPUs of the run, one or two, with the memory that their readers own.
class Bench {
 public:
  /// `devices` are one or two.
  Bench(const std::vector<int>& devices, bool in_host) : in_host_(in_host) {
    for (size_t i = 0; i < devices.size(); ++i) {
      End end{};
      end.device = devices[i];
      CHECK(cudaSetDevice(end.device));
      if (devices.size() == 2 && !in_host) CHECK(cudaDeviceEnablePeerAccess(devices[1 - i], 0));
      cudaDeviceProp properties;
      CHECK(cudaGetDeviceProperties(&properties, end.device));
      multiprocessors_ = i == 0 ? properties.multiProcessorCount
                                : std::min(multiprocessors_, properties.multiProcessorCount);
      threads_ = std::max<size_t>(threads_, size_t(properties.multiProcessorCount) *
                                                properties.maxThreadsPerMultiProcessor);
      CHECK(cudaStreamCreateWithFlags(&end.stream, cudaStreamNonBlocking));
      ends_.push_back(end);
    }
    // Half of the threads write; 16 bytes a thread are the most that a pattern takes. The line at
    // the end is for the pattern that straddles.
    area_bytes_ = threads_ / 2 * kSlots * 16 + kLineBytes;
    ack_bytes_ = threads_ / 2 / kLeastThreads * kLineBytes;
    for (End& end : ends_) {
      CHECK(cudaSetDevice(end.device));
      end.cells = allocate<std::byte>(area_bytes_);
      end.far = allocate<std::byte>(area_bytes_);
      end.acks = allocate<uint64_t>(ack_bytes_);
      CHECK(cudaMalloc(&end.tally, sizeof(Tally)));
    }
  }

  static constexpr uint32_t kLeastThreads = 64;

  /// Message numbers begin again, so nothing of another pattern may be left.
  void clear() {
    by_processors_ = {};
    for (const End& end : ends_) {
      CHECK(cudaSetDevice(end.device));
      clear(end.cells, area_bytes_);
      clear(end.far, area_bytes_);
      clear(end.acks, ack_bytes_);
      CHECK(cudaMemset(end.tally, 0, sizeof(Tally)));
      CHECK(cudaDeviceSynchronize());
    }
  }

  /// Threads of processors at the other end of a GPU's CTAs. Each spins, so half of the processors
  /// are left to others.
  [[nodiscard]] uint32_t processors() const {
    constexpr uint32_t kMost = 8;
    return std::clamp(std::thread::hardware_concurrency() / 2 / directions(), 1U,
                      kMost / directions());
  }

  /// Pairs of each direction that are resident at once.
  uint32_t pairs(const Pattern& pattern, uint32_t threads) const {
    if (pattern.processor != nullptr) return processors();
    int least = 0;
    for (const End& end : ends_) {
      CHECK(cudaSetDevice(end.device));
      int ctas = 0;
      CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
          &ctas, reinterpret_cast<const void*>(pattern.kernel), static_cast<int>(threads), 0));
      least = &end == &ends_.front() ? ctas : std::min(least, ctas);
    }
    return static_cast<uint32_t>(least * multiprocessors_ / 2);
  }

  [[nodiscard]] uint32_t directions() const { return static_cast<uint32_t>(ends_.size()); }

  void run(const Pattern& pattern, uint32_t threads, const Shape& shape) {
    const bool with_processor = pattern.processor != nullptr;
    const uint32_t ctas = pairs(pattern, threads) * (with_processor ? 1 : 2);
    std::vector<Side> sides;
    for (size_t i = 0; i < ends_.size(); ++i) {
      const End& mine = ends_[i];
      const End& peer = with_processor ? mine : ends_[ends_.size() - 1 - i];
      const End& holds_my_output = pattern.pulled ? mine : peer;
      const End& holds_my_input = pattern.pulled ? peer : mine;
      const Side side{holds_my_output.cells,
                      peer.far,
                      holds_my_input.cells,
                      mine.far,
                      peer.acks,
                      mine.acks,
                      mine.tally};
      CHECK(cudaSetDevice(mine.device));
      pattern.kernel<<<ctas, threads, 0, mine.stream>>>(side, shape);
      CHECK(cudaGetLastError());
      sides.push_back(side);
    }
    if (with_processor) run_on_processors(pattern, sides, ctas, threads, shape);
    for (const End& end : ends_) {
      CHECK(cudaSetDevice(end.device));
      CHECK(cudaStreamSynchronize(end.stream));
    }
  }

  /// The counts since `clear` of both GPUs and of processors, and an example of one.
  [[nodiscard]] Tally tally() const {
    Tally sum = by_processors_;
    for (const End& end : ends_) {
      Tally part;
      CHECK(cudaSetDevice(end.device));
      CHECK(cudaMemcpy(&part, end.tally, sizeof part, cudaMemcpyDeviceToHost));
      add(sum, part);
    }
    return sum;
  }

 private:
  struct End {
    int device;
    cudaStream_t stream;
    std::byte* cells;
    std::byte* far;
    uint64_t* acks;
    Tally* tally;
  };

  static void add(Tally& sum, const Tally& part) {
    const Tally before = sum;
    if (part.example != 0) sum = part;
    sum.tries = before.tries + part.tries;
    sum.broken = before.broken + part.broken;
    sum.apart = before.apart + part.apart;
    sum.stuck = before.stuck + part.stuck;
  }

  /// A thread for each CTA of each GPU, until all of them have ended.
  void run_on_processors(const Pattern& pattern, const std::vector<Side>& sides, uint32_t ctas,
                         uint32_t threads, const Shape& shape) {
    std::vector<Tally> parts(sides.size() * ctas);
    {
      std::vector<std::jthread> running;
      for (size_t i = 0; i < parts.size(); ++i) {
        running.emplace_back([&, i] {
          parts[i] =
              pattern.processor(sides[i / ctas], shape, static_cast<uint32_t>(i % ctas), threads);
        });
      }
    }
    for (const Tally& part : parts)
      add(by_processors_, part);
  }

  /// Host memory has one address for all devices.
  template <class T>
  T* allocate(size_t bytes) const {
    void* memory = nullptr;
    if (in_host_) {
      CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    } else {
      CHECK(cudaMalloc(&memory, bytes));
    }
    return static_cast<T*>(memory);
  }

  void clear(void* memory, size_t bytes) const {
    if (in_host_) {
      std::memset(memory, 0, bytes);
    } else {
      CHECK(cudaMemset(memory, 0, bytes));
    }
  }

  const bool in_host_;
  std::vector<End> ends_;
  int multiprocessors_ = 0;
  size_t threads_ = 0;
  size_t area_bytes_ = 0;
  size_t ack_bytes_ = 0;
  Tally by_processors_{};
};

/// What one pattern came to.
struct Outcome {
  Tally tally{};
  double seconds = 0;
  bool short_of_tries = false;
};

Outcome try_pattern(Bench& bench, const Pattern& pattern, uint64_t wanted, double seconds_left) {
  constexpr std::array<uint32_t, 3> kThreads = {Bench::kLeastThreads, 128, 512};
  constexpr std::array<uint32_t, 4> kWindows = {1, 4, kSlots, 2};
  constexpr std::array<uint32_t, 3> kPauses = {255, 0, 2047};
  constexpr uint64_t kLaunches = kThreads.size() * kWindows.size() * 2;

  // Alike in all launches, so that none of them takes long.
  const uint64_t tries_at_once =
      uint64_t{bench.directions()} * bench.pairs(pattern, Bench::kLeastThreads) *
      (pattern.threads_per_try == 0 ? 1 : Bench::kLeastThreads / pattern.threads_per_try);
  // A processor may take long for a message, and the limit is looked at between launches.
  const uint64_t most = pattern.processor != nullptr ? 1 << 13 : 1 << 20;
  const auto messages =
      static_cast<uint32_t>(std::clamp<uint64_t>(wanted / kLaunches / tries_at_once, 16, most));

  Outcome outcome;
  const Clock::time_point begin = Clock::now();
  bench.clear();
  uint32_t first = 1;
  for (uint32_t launch = 0; outcome.tally.tries < wanted && outcome.tally.stuck == 0; ++launch) {
    if (seconds_since(begin) > seconds_left) {
      outcome.short_of_tries = true;
      break;
    }
    const Shape shape{first, messages, kWindows[launch % kWindows.size()],
                      kPauses[launch / 4 % kPauses.size()]};
    const uint32_t threads = kThreads[launch % kThreads.size()];
    bench.run(pattern, threads, shape);
    first += shape.messages;
    outcome.tally = bench.tally();
  }
  outcome.seconds = seconds_since(begin);
  return outcome;
}

const char* verdict(const Pattern& pattern, const Outcome& outcome) {
  if (outcome.tally.stuck != 0) return "STUCK";
  if (pattern.kind == Kind::kPlanted) return outcome.tally.broken != 0 ? "shown" : "not shown";
  if (outcome.tally.broken != 0) return "BROKEN";
  if (outcome.short_of_tries) return "TOO FEW TRIES";
  if (pattern.kind == Kind::kObserved) return outcome.tally.apart != 0 ? "comes apart" : "whole";
  return "holds";
}

void print_outcome(const Pattern& pattern, const Outcome& outcome) {
  constexpr std::array kKinds = {"real", "observed", "planted"};
  const Tally& tally = outcome.tally;
  std::printf("%-35s %-9s %14llu %14llu %14llu %7.2f  %s\n", pattern.name,
              kKinds[static_cast<size_t>(pattern.kind)], tally.tries, tally.broken, tally.apart,
              outcome.seconds, verdict(pattern, outcome));
  if (tally.stuck != 0) {
    std::printf("    %llu CTAs%s gave up a wait after %.0f s\n", tally.stuck,
                pattern.processor != nullptr ? " and processors" : "",
                static_cast<double>(kSpinNanoseconds) / 1e9);
  }
  if (tally.example != 0 && pattern.kind != Kind::kPlanted) {
    std::printf("    first: pair %u, message %u, cell %u: expected %08x, got %08x\n",
                tally.example_pair, tally.example_message, tally.example_cell,
                tally.example_expected, tally.example_got);
  }
  std::fflush(stdout);
}

/// The devices to use: two that reach each other, or the only one.
std::vector<int> choose_devices(const Options& options) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    std::fprintf(stderr, "litmus: no CUDA device: %s (%s)\n", cudaGetErrorString(error),
                 cudaGetErrorName(error));
    std::exit(77);
  }
  std::vector<int> devices = {options.devices[0]};
  if (count > 1 && options.devices[1] != options.devices[0]) devices.push_back(options.devices[1]);
  for (const int device : devices) {
    if (device >= count) {
      std::fprintf(stderr, "litmus: --devices: there is no device %d, only 0 to %d\n", device,
                   count - 1);
      std::exit(2);
    }
  }
  for (size_t i = 0; devices.size() == 2 && !options.in_host && i < 2; ++i) {
    int can = 0;
    CHECK(cudaDeviceCanAccessPeer(&can, devices[i], devices[1 - i]));
    if (can == 0) {
      std::fprintf(stderr,
                   "litmus: device %d has no peer access to device %d; try other --devices, or the "
                   "same one twice for two CTAs of it\n",
                   devices[i], devices[1 - i]);
      std::exit(1);
    }
  }
  return devices;
}

void print_heading(const std::vector<int>& devices, const Bench& bench, bool in_host) {
  for (const int device : devices) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, device));
    std::printf("device %d: %s, %d multiprocessors\n", device, properties.name,
                properties.multiProcessorCount);
  }
  std::printf(devices.size() == 2 && in_host
                  ? "between the two GPUs, both ways at once, through host memory\n"
              : devices.size() == 2
                  ? "between the two GPUs, both ways at once, by peer access\n"
                  : "BETWEEN CTAs OF ONE GPU: this says nothing about the link between two\n");
  if (in_host) {
    std::printf("ll-from-gpu, ll-to-gpu: between each GPU and %u threads of processors\n",
                bench.processors());
  }
  std::printf("%-35s %-9s %14s %14s %14s %7s  %s\n", "pattern", "kind", "tries", "broken",
              "16 B apart", "seconds", "verdict");
}

/// Compute capability 9.0 and more.
bool has_bulk_copies(const std::vector<int>& devices) {
  return std::ranges::all_of(devices, [](int device) {
    int major = 0;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major >= 9;
  });
}

// Launches end by themselves; this is for a driver that does not come back.
void on_alarm(int) {
  constexpr std::string_view kText = "litmus: killed: the last launch did not come back in time\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(1);
}

int run(const Options& options) {
  const std::vector<int> devices = choose_devices(options);
  signal(SIGALRM, on_alarm);
  alarm(static_cast<unsigned>(options.limit) + 30);
  Bench bench(devices, options.in_host);
  print_heading(devices, bench, options.in_host);

  const Clock::time_point begin = Clock::now();
  int failures = 0;
  uint32_t rows = 0, planted = 0, shown = 0;
  for (const Pattern& pattern : kPatterns) {
    const std::string_view name(pattern.name);
    if (!name.starts_with(options.only)) continue;
    if ((name.starts_with("bulk") || name.starts_with("taken-bulk")) && !has_bulk_copies(devices))
      continue;  // nor do kernels
    if (pattern.processor != nullptr && !options.in_host) continue;
    ++rows;
    const bool weakened = pattern.kind == Kind::kPlanted;
    const Outcome outcome =
        try_pattern(bench, pattern, weakened ? options.planted_tries : options.tries,
                    options.limit - seconds_since(begin));
    print_outcome(pattern, outcome);
    const bool incomplete = outcome.tally.stuck != 0 || (!weakened && outcome.short_of_tries);
    failures += incomplete || (!weakened && outcome.tally.broken != 0);
    planted += weakened;
    shown += weakened && outcome.tally.broken != 0;
  }
  std::printf("%d failures; %u of %u planted defects shown; %.1f s\n", failures, shown, planted,
              seconds_since(begin));
  if (rows == 0) {
    std::printf("NOTHING RUN: no pattern begins so that these devices and this memory have\n");
    return 1;
  }
  if (planted != 0 && shown == 0) {
    std::printf("BLIND: no planted defect was seen, so the other rows prove nothing\n");
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  // A kernel that is first loaded while another one spins could wait for it.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  return run(options);
}
