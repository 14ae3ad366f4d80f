// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_load.h"

namespace weft::gpu_test {

namespace {

constexpr int kThreads = 256;
constexpr int kSteps = 256;  // between two looks at the clock

__device__ std::uint64_t now() {
  std::uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void compute(float* buffer, std::size_t count, std::uint64_t nanoseconds) {
  const std::uint64_t begin = now();
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  do {
    float x = buffer[i % count];
    for (int step = 0; step < kSteps; ++step)
      x = x * 0.999F + 0.5F;
    buffer[i % count] = x;
    i += stride;
  } while (now() - begin < nanoseconds);
}

}  // namespace

cudaError_t launch_load(cudaStream_t stream, int ctas, std::uint64_t nanoseconds, float* buffer,
                        std::size_t count) {
  compute<<<ctas, kThreads, 0, stream>>>(buffer, count, nanoseconds);
  return cudaGetLastError();
}

}  // namespace weft::gpu_test
