// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_probe.h"

#include <array>
#include <chrono>
#include <functional>
#include <sstream>
#include <utility>

#include "tests/gpu/device.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kProbeBytes = std::size_t{1} << 20;
constexpr std::size_t kFewBytes = 2048;
constexpr auto kPatience = std::chrono::seconds(1);

using Work = std::function<cudaError_t(cudaStream_t stream, std::byte* memory, std::byte* pinned)>;

/// Each on a stream of its own, which nothing else holds up then.
const std::array<std::pair<const char*, Work>, 7>& works() {
  static const std::array<std::pair<const char*, Work>, 7> kWorks{{
      {"a kernel of one warp", [](cudaStream_t stream, std::byte* memory,
                                  std::byte*) { return launch_warp(stream, memory); }},
      {"a kernel of a whole multiprocessor",
       [](cudaStream_t stream, std::byte* memory, std::byte*) {
         return launch_whole(stream, memory);
       }},
      {"a copy of 2 KiB within it",
       [](cudaStream_t stream, std::byte* memory, std::byte*) {
         return cudaMemcpyAsync(memory + kProbeBytes, memory, kFewBytes, cudaMemcpyDefault, stream);
       }},
      {"a copy of 1 MiB within it",
       [](cudaStream_t stream, std::byte* memory, std::byte*) {
         return cudaMemcpyAsync(memory + kProbeBytes, memory, kProbeBytes, cudaMemcpyDefault,
                                stream);
       }},
      {"a copy of 1 MiB from the host",
       [](cudaStream_t stream, std::byte* memory, std::byte* pinned) {
         return cudaMemcpyAsync(memory, pinned, kProbeBytes, cudaMemcpyDefault, stream);
       }},
      {"1 MiB set to zero",
       [](cudaStream_t stream, std::byte* memory, std::byte*) {
         return cudaMemsetAsync(memory, 0, kProbeBytes, stream);
       }},
      {"a kernel, a copy and a kernel",
       [](cudaStream_t stream, std::byte* memory, std::byte*) {
         if (const cudaError_t first = launch_warp(stream, memory); first != cudaSuccess) {
           return first;
         }
         const cudaError_t copied =
             cudaMemcpyAsync(memory + kProbeBytes, memory, kFewBytes, cudaMemcpyDefault, stream);
         return copied != cudaSuccess ? copied : launch_warp(stream, memory);
       }},
  }};
  return kWorks;
}

std::string outcome_of(cudaStream_t stream, cudaError_t given) {
  const auto begin = Clock::now();
  cudaError_t state = given;
  while (given == cudaSuccess && (state = cudaStreamQuery(stream)) == cudaErrorNotReady &&
         Clock::now() - begin < kPatience) {
  }
  if (state == cudaErrorNotReady) return "has not ended after a second";
  if (state != cudaSuccess) return cudaGetErrorString(state);
  std::ostringstream text;
  text << "took "
       << std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count()
       << " us";
  return text.str();
}

}  // namespace

Probe::Probe(const std::vector<int>& devices) {
  if (options().host) return;
  for (const int device : devices) {
    use_device(device);
    Place place{.device = device};
    void* memory = nullptr;
    CUDA(cudaMalloc(&memory, 2 * kProbeBytes));
    place.memory = static_cast<std::byte*>(memory);
    CUDA(cudaMemset(memory, 0, 2 * kProbeBytes));
    CUDA(cudaHostAlloc(&memory, kProbeBytes, cudaHostAllocDefault));
    place.pinned = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < works().size(); ++i) {
      CUDA(cudaStreamCreateWithFlags(&place.streams.emplace_back(), cudaStreamNonBlocking));
    }
    places_.push_back(std::move(place));
  }
}

Probe::~Probe() {
  for (const Place& place : places_) {
    static_cast<void>(cudaSetDevice(place.device));
    for (cudaStream_t stream : place.streams)
      static_cast<void>(cudaStreamDestroy(stream));
    static_cast<void>(cudaFreeHost(place.pinned));
    static_cast<void>(cudaFree(place.memory));
  }
}

std::string Probe::tell() const {
  std::ostringstream text;
  for (const Place& place : places_) {
    use_device(place.device);
    for (std::size_t i = 0; i < works().size(); ++i) {
      const auto& [name, work] = works().at(i);
      const cudaStream_t stream = place.streams.at(i);
      text << "device " << place.device << ": " << name << ' '
           << outcome_of(stream, work(stream, place.memory, place.pinned)) << '\n';
    }
  }
  return text.str();
}

}  // namespace weft::gpu_test
