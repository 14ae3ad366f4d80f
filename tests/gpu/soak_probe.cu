// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_probe.h"

namespace weft::gpu_test {
namespace {

constexpr int kThreads = 512;
constexpr int kWords = 118;  // of a thread, in registers: with addresses more than 120

__global__ void warp(volatile float* memory) {
  memory[threadIdx.x] = memory[threadIdx.x] + 1;
}

// All words are read before the first is written.
__global__ void __launch_bounds__(kThreads, 1) whole(volatile float* memory) {
  float words[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    words[i] = memory[i * kThreads + threadIdx.x];
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    memory[i * kThreads + threadIdx.x] = words[i] + words[kWords - 1 - i];
}

}  // namespace

cudaError_t launch_warp(cudaStream_t stream, std::byte* memory) {
  warp<<<1, 32, 0, stream>>>(reinterpret_cast<float*>(memory));
  return cudaGetLastError();
}

cudaError_t launch_whole(cudaStream_t stream, std::byte* memory) {
  whole<<<1, kThreads, 0, stream>>>(reinterpret_cast<float*>(memory));
  return cudaGetLastError();
}

}  // namespace weft::gpu_test
