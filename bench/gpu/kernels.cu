// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>

#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "bench/gpu/basics.h"
#include "bench/gpu/kernels.h"

namespace weft::gpu_bench {

namespace {

constexpr int kMostCtas = 1024;
constexpr int kThreads = 256;

constexpr int kLinkThreads = 512;
constexpr int kLinkLines = 4;                        // That a thread has under way.
constexpr long long kLongestCycles = 4'000'000'000;  // two seconds

template <class T>
__global__ void fill_inputs(T* to, uint64_t count, Origin origin, uint64_t set, Inputs inputs) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = static_cast<T>(value_of(inputs, origin, set, i));
}

__device__ void note(Mismatch* mismatch, uint64_t index) {
  atomicAdd(&mismatch->count, 1ULL);
  atomicMin(&mismatch->first, static_cast<unsigned long long>(index));
}

template <class T>
__global__ void compare(const T* got, uint64_t count, Origin origin, uint64_t set, Inputs inputs,
                        Mismatch* mismatch) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (static_cast<float>(got[i]) != value_of(inputs, origin, set, i))
      note(mismatch, set * count + i);
  }
}

__global__ void compare_poison(const unsigned char* got, uint64_t bytes, uint64_t first,
                               Mismatch* mismatch) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += stride) {
    if (got[i] != kPoisonByte) note(mismatch, first + i);
  }
}

__device__ void copy_lines(uint4* to, const uint4* from, size_t lines) {
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (kLinkLines - 1) * stride < lines; i += kLinkLines * stride) {
    uint4 held[kLinkLines];
#pragma unroll
    for (int k = 0; k < kLinkLines; ++k)
      held[k] = from[i + k * stride];
#pragma unroll
    for (int k = 0; k < kLinkLines; ++k)
      to[i + k * stride] = held[k];
  }
  for (; i < lines; i += stride)
    to[i] = from[i];
}

__global__ void __launch_bounds__(kLinkThreads)
    write_to_peer(uint4* to, const uint4* from, size_t lines) {
  copy_lines(to, from, lines);
}

__global__ void __launch_bounds__(kLinkThreads)
    exchange(uint4* to, const uint4* from, size_t lines, ExchangeWords* own,
             ExchangeWords* of_next) {
  copy_lines(to, from, lines);
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (atomicAdd(&own->done, 1) + 1 != gridDim.x) return;
  own->done = 0;
  const uint32_t number = ++own->sent;
  cuda::atomic_ref<uint32_t, cuda::thread_scope_system> out(of_next->arrived);
  cuda::atomic_ref<uint32_t, cuda::thread_scope_system> in(own->arrived);
  out.store(number, cuda::memory_order_release);
  const long long begin = clock64();
  while (in.load(cuda::memory_order_acquire) < number && clock64() - begin < kLongestCycles) {
  }
}

template <size_t kBytes>
struct Argument {
  std::byte bytes[kBytes];
};

template <size_t kBytes>
__global__ void nothing(Argument<kBytes> /*argument*/) {}

// A message without payload is its number alone.
__global__ void pass_messages(Turn how, Mailboxes boxes, uint64_t before, uint32_t turns) {
  const long long begin = clock64();
  const Mailbox& box = boxes.box[blockIdx.x];
  const cuda::atomic_ref<uint64_t, cuda::thread_scope_system> out(*box.told);
  const cuda::atomic_ref<uint64_t, cuda::thread_scope_system> in(*box.come);
  const cuda::atomic_ref<uint64_t, cuda::thread_scope_device> arrived(boxes.meeting->arrived);
  volatile uint32_t& gave_up = boxes.meeting->gave_up;
  const auto comes = [begin, &gave_up](const auto& word, uint64_t number) {
    bool late = false;
    while (threadIdx.x == 0 && !late && word.load(cuda::memory_order_acquire) < number)
      late = gave_up != 0 || clock64() - begin > kLongestCycles;
    if (late) gave_up = 1;
    return __syncthreads_or(late) == 0;
  };
  const auto send = [&](uint64_t turn) {
    for (uint32_t i = threadIdx.x; i < box.words; i += blockDim.x)
      box.sent[turn % 2][i] = box.own[i];
    __syncthreads();
    if (threadIdx.x == 0) out.store(turn, cuda::memory_order_release);
  };
  const auto receive = [&](uint64_t turn) {
    if (!comes(in, turn)) return false;
    // What came before must not do instead: these are read anew.
    for (uint32_t i = threadIdx.x; i < box.words; i += blockDim.x)
      box.own[i] = static_cast<const volatile uint64_t*>(box.received[turn % 2])[i];
    __syncthreads();
    return true;
  };
  const auto meet = [&](uint64_t turn) {
    if (gridDim.x == 1) return true;
    if (threadIdx.x == 0) arrived.fetch_add(1, cuda::memory_order_acq_rel);
    return comes(arrived, turn * gridDim.x);
  };
  for (uint64_t turn = before + 1; turn <= before + turns; ++turn) {
    if (how != Turn::kFollows) send(turn);
    if (!receive(turn) || !meet(turn)) return;
    if (how == Turn::kFollows) send(turn);
  }
}

/// Calls `action` with a null pointer of the element type.
template <class Action>
auto with_type(ElementKind kind, Action action) {
  switch (kind) {
    case ElementKind::kBfloat16:
      return action(static_cast<__nv_bfloat16*>(nullptr));
    case ElementKind::kFloat16:
      return action(static_cast<__half*>(nullptr));
    default:
      return action(static_cast<float*>(nullptr));
  }
}

unsigned ctas_for(uint64_t items) {
  return static_cast<unsigned>(
      std::clamp<uint64_t>((items + kThreads - 1) / kThreads, 1, kMostCtas));
}

}  // namespace

void launch_fill(cudaStream_t stream, void* to, const Elements& elements, const Inputs& inputs) {
  with_type(elements.kind, [&]<class T>(T*) {
    fill_inputs<<<ctas_for(elements.count), kThreads, 0, stream>>>(
        static_cast<T*>(to), elements.count, elements.origin, elements.set, inputs);
  });
  CHECK(cudaGetLastError());
}

void launch_compare(cudaStream_t stream, const void* got, const Elements& elements,
                    const Inputs& inputs, Mismatch* mismatch) {
  with_type(elements.kind, [&]<class T>(T*) {
    compare<<<ctas_for(elements.count), kThreads, 0, stream>>>(static_cast<const T*>(got),
                                                               elements.count, elements.origin,
                                                               elements.set, inputs, mismatch);
  });
  CHECK(cudaGetLastError());
}

void launch_compare_poison(cudaStream_t stream, const std::byte* got, size_t bytes, uint64_t first,
                           Mismatch* mismatch) {
  compare_poison<<<ctas_for(bytes), kThreads, 0, stream>>>(
      reinterpret_cast<const unsigned char*>(got), bytes, first, mismatch);
  CHECK(cudaGetLastError());
}

void launch_write_to_peer(cudaStream_t stream, int ctas, std::byte* to, const std::byte* from,
                          size_t bytes) {
  write_to_peer<<<ctas, kLinkThreads, 0, stream>>>(
      reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from), bytes / sizeof(uint4));
  CHECK(cudaGetLastError());
}

void launch_exchange(cudaStream_t stream, int ctas, std::byte* to, const std::byte* from,
                     size_t bytes, ExchangeWords* own, ExchangeWords* of_next) {
  exchange<<<ctas, kLinkThreads, 0, stream>>>(reinterpret_cast<uint4*>(to),
                                              reinterpret_cast<const uint4*>(from),
                                              bytes / sizeof(uint4), own, of_next);
  CHECK(cudaGetLastError());
}

void launch_nothing(cudaStream_t stream, size_t argument_bytes) {
  static Argument<kLaunchArguments[1]> argument{};
  const bool is_small = argument_bytes == kLaunchArguments[0];
  const void* const kernel = is_small
                                 ? reinterpret_cast<const void*>(&nothing<kLaunchArguments[0]>)
                                 : reinterpret_cast<const void*>(&nothing<kLaunchArguments[1]>);
  void* arguments[] = {&argument};
  CHECK(cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, stream));
}

void launch_messages(cudaStream_t stream, Turn how, const Mailboxes& boxes, uint64_t before,
                     uint32_t turns) {
  const uint32_t wanted = std::clamp(boxes.box[0].words, 1U, uint32_t{kThreads});
  pass_messages<<<boxes.count, wanted, 0, stream>>>(how, boxes, before, turns);
  CHECK(cudaGetLastError());
}

float number_of_element(ElementKind kind, const void* element) {
  return with_type(kind, [&]<class T>(T*) {
    T value;
    std::memcpy(&value, element, sizeof value);
    return static_cast<float>(value);
  });
}

}  // namespace weft::gpu_bench
