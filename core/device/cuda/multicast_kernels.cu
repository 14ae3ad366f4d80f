// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls by multicast: one kernel for all that switches combine. Compiled for sm_90 and later, and
// never run on hardware.
#include <bit>

#include "core/device/cuda/any_reduction.cuh"
#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/work_item_kernel.h"

namespace weft::device::cuda {
namespace {

#if __CUDA_ARCH__ >= 900
// PTX ISA, "multimem.ld_reduce" and "multimem.st". Only floats have vectors; 16-bit floats are
// combined as float32 and rounded once (.acc::f32). Loads and stores are relaxed at system scope:
// others meet by release and acquire of headers.

#define WEFT_LOAD_WORDS(operation) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." operation " {%0, %1, %2, %3}, [%4];" \
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) \
               : "l"(from) \
               : "memory")
#define WEFT_LOAD_32(word, operation, place) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." operation " %0, [%1];" \
               : "=r"(word) \
               : "l"(from + (place)) \
               : "memory")
#define WEFT_LOAD_64(word, operation, place) \
  asm volatile("multimem.ld_reduce.relaxed.sys.global." operation " %0, [%1];" \
               : "=l"(word) \
               : "l"(from + (place)) \
               : "memory")
#define WEFT_LOAD_FOUR(operation) \
  do { \
    WEFT_LOAD_32(words.x, operation, 0); \
    WEFT_LOAD_32(words.y, operation, 4); \
    WEFT_LOAD_32(words.z, operation, 8); \
    WEFT_LOAD_32(words.w, operation, 12); \
  } while (false)
#define WEFT_LOAD_TWO(operation) \
  do { \
    WEFT_LOAD_64(line.low, operation, 0); \
    WEFT_LOAD_64(line.high, operation, 8); \
  } while (false)

/// Chooses by the reduction, of integers; sums do not ask for a sign.
#define WEFT_LOAD_INTEGERS(load, type, sum_type) \
  switch (reduction) { \
    case WEFT_MIN: \
      load("min." type); \
      break; \
    case WEFT_MAX: \
      load("max." type); \
      break; \
    default: \
      load("add." sum_type); \
      break; \
  }

/// 16 bytes, combined over all ranks.
__device__ Line load_combined(weft_data_type type, weft_reduction reduction,
                              const std::byte* from) {
  uint4 words{};
  Line line{};
  switch (type) {
    case WEFT_FLOAT32:
      WEFT_LOAD_WORDS("add.v4.f32");
      break;
    case WEFT_FLOAT16:
      WEFT_LOAD_WORDS("add.acc::f32.v4.f16x2");
      break;
    case WEFT_BFLOAT16:
      WEFT_LOAD_WORDS("add.acc::f32.v4.bf16x2");
      break;
    case WEFT_INT32:
      WEFT_LOAD_INTEGERS(WEFT_LOAD_FOUR, "s32", "u32")
      break;
    case WEFT_UINT32:
      WEFT_LOAD_INTEGERS(WEFT_LOAD_FOUR, "u32", "u32")
      break;
    case WEFT_FLOAT64: {
      double low = 0;
      double high = 0;
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
                   : "=d"(low)
                   : "l"(from)
                   : "memory");
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];"
                   : "=d"(high)
                   : "l"(from + sizeof(double))
                   : "memory");
      return {.low = std::bit_cast<std::uint64_t>(low), .high = std::bit_cast<std::uint64_t>(high)};
    }
    case WEFT_INT64:
      WEFT_LOAD_INTEGERS(WEFT_LOAD_TWO, "s64", "u64")
      return line;
    case WEFT_UINT64:
      WEFT_LOAD_INTEGERS(WEFT_LOAD_TWO, "u64", "u64")
      return line;
    default:
      break;
  }
  return std::bit_cast<Line>(words);
}
#endif

/// A reduction that a switch begins, and a kernel finishes.
class SwitchReduction : public AnyReduction {
 public:
  __device__ explicit SwitchReduction(const WorkItem& item)
      : AnyReduction(reduction_of(item)), type_(item.type), reduction_(item.reduction) {}
  [[nodiscard]] __device__ weft_data_type type() const { return type_; }
  [[nodiscard]] __device__ weft_reduction reduction() const { return reduction_; }

 private:
  weft_data_type type_;
  weft_reduction reduction_;
};

/// That of a kernel by multicast. Devices before sm_90 have none, and launch nothing of it.
class SwitchMemory : public SliceMemory {
 public:
  using SliceMemory::SliceMemory;

  [[nodiscard]] __device__ static Line reduce_load(const SwitchReduction& reduction,
                                                   const MulticastView& view, std::uint64_t at) {
#if __CUDA_ARCH__ >= 900
    const Line sum = load_combined(reduction.type(), reduction.reduction(), view.all + at);
    return {.low = reduction.finish_payload(sum.low), .high = reduction.finish_payload(sum.high)};
#else
    __trap();
    return {};
#endif
  }
  __device__ static void store_all(const MulticastView& view, std::uint64_t at, Line line) {
#if __CUDA_ARCH__ >= 900
    // The words are moved as they are, whatever they are taken for.
    const uint4 words = std::bit_cast<uint4>(line);
    asm volatile(
        "multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(view.all + at),
        "f"(__uint_as_float(words.x)), "f"(__uint_as_float(words.y)), "f"(__uint_as_float(words.z)),
        "f"(__uint_as_float(words.w))
        : "memory");
#else
    __trap();
#endif
  }
  // PTX ISA, "membar / fence": of two addresses of the same memory, accesses by one are ordered
  // before those by the other by a fence of the proxy .alias between them.
  __device__ static void join_addresses() {
#if __CUDA_ARCH__ >= 700
    asm volatile("fence.proxy.alias;" ::: "memory");
#endif
  }
};

__global__ void __launch_bounds__(kThreads, 1)
    multicast_kernel(const __grid_constant__ MulticastArgument argument) {
  overlap_launches();
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  const WorkItem& item = argument.direct.item;
  SwitchMemory memory(argument.direct.control.abort, argument.direct.control.waiting, item.tag);
  const KernelOutcome outcome =
      run_multicast_item(group, memory, item, argument.direct.peers, argument.view,
                         SwitchReduction(item), blockIdx.x, gridDim.x);
  if (group.leader()) report(argument.direct.control, outcome);
}

}  // namespace

const void* multicast_kernel_for(const WorkItem& item, std::uint32_t parts) {
  const DirectPeers& peers = *item.direct;
  const bool fits = peers.multicast != nullptr && peers.multicast->all != nullptr &&
                    fits_multicast_call(item, peers, *peers.multicast, parts);
  return fits && kernel_exists(item) ? multicast_kernel_address() : nullptr;
}

const void* multicast_kernel_address() {
  return reinterpret_cast<const void*>(&multicast_kernel);
}

}  // namespace weft::device::cuda
