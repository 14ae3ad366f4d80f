// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What else a device has to do meanwhile: kernels of the program's own, that compute and move
// memory, on streams beside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

namespace weft::gpu_test {

/// Kernels of random sizes without end, up to some milliseconds long and with pauses between, on
/// two streams of each device; on the host device threads that compute. Each ends by itself.
class Load {
 public:
  Load(const std::vector<int>& devices, std::uint64_t seed);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  /// Kernels so far.
  [[nodiscard]] std::uint64_t launched() const { return launched_; }

 private:
  void load_device(int device, std::uint64_t seed);
  void load_host(std::uint64_t seed);

  std::atomic<bool> over_ = false;
  std::atomic<std::uint64_t> launched_ = 0;
  std::vector<std::thread> threads_;
};

/// Computes, and reads and writes `count` floats, with so many CTAs and for about so long.
cudaError_t launch_load(cudaStream_t stream, int ctas, std::uint64_t nanoseconds, float* buffer,
                        std::size_t count);

}  // namespace weft::gpu_test
