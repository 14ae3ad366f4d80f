// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_load.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "tests/gpu/device.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kFloats = std::size_t{16} << 20;
constexpr std::uint64_t kMostNanoseconds = 2'000'000;
constexpr std::uint64_t kMostPause = 1500;  // microseconds

}  // namespace

Load::Load(const std::vector<int>& devices, std::uint64_t seed) {
  for (const int device : devices) {
    const std::uint64_t own = draw(seed, static_cast<std::uint64_t>(device));
    threads_.emplace_back([this, device, own] {
      if (options().host) return load_host(own);
      try {
        load_device(device, own);
      } catch (const Problem& problem) {
        // What has broken the device breaks the calls as well, which tell it.
        std::fprintf(stderr, "gpu_soak: load: %s\n", problem.what());
      }
    });
  }
}

Load::~Load() {
  over_ = true;
  for (std::thread& thread : threads_)
    thread.join();
}

void Load::load_device(int device, std::uint64_t seed) {
  use_device(device);
  int processors = 0;
  CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  float* buffer = nullptr;
  CUDA(cudaMalloc(&buffer, kFloats * sizeof(float)));
  CUDA(cudaMemset(buffer, 0, kFloats * sizeof(float)));
  std::array<cudaStream_t, 2> streams{};
  for (cudaStream_t& stream : streams)
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (std::uint64_t turn = 0; !over_; ++turn) {
    // One of each stream at a time, so that little is queued; sometimes more than fits at once.
    const std::uint64_t drawn = draw(seed, turn);
    cudaStream_t stream = streams[turn % streams.size()];
    CUDA(cudaStreamSynchronize(stream));
    const auto ctas =
        1 + static_cast<int>((drawn >> 8) % static_cast<std::uint64_t>(processors * 10));
    CUDA(launch_load(stream, ctas, (drawn >> 32) % kMostNanoseconds, buffer, kFloats));
    ++launched_;
    std::this_thread::sleep_for(std::chrono::microseconds(drawn % kMostPause));
  }
  for (cudaStream_t stream : streams) {
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
  }
  CUDA(cudaFree(buffer));
}

void Load::load_host(std::uint64_t seed) {
  volatile double number = 0;
  for (std::uint64_t turn = 0; !over_; ++turn) {
    const std::uint64_t drawn = draw(seed, turn);
    for (std::uint64_t i = 0; i < drawn % 100000; ++i)
      number = number * 0.999 + 0.5;
    ++launched_;
    std::this_thread::sleep_for(std::chrono::microseconds((drawn >> 32) % kMostPause));
  }
}

}  // namespace weft::gpu_test
