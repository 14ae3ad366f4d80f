// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What devices still do while a step of a soak hangs: whether other work goes on says who is held
// up, and by what.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace weft::gpu_test {

/// Made before anything hangs: it takes its memory and its streams then. On the host device it
/// tries nothing.
class Probe {
 public:
  explicit Probe(const std::vector<int>& devices);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  /// A line for each device and kind of work: how long it took, or that it had not ended after a
  /// second. By one thread; it waits for nothing else.
  [[nodiscard]] std::string tell() const;

 private:
  struct Place {
    int device = 0;
    std::byte* memory = nullptr;  // of the device, twice kProbeBytes
    std::byte* pinned = nullptr;  // of the host, kProbeBytes
    std::vector<cudaStream_t> streams{};
  };
  std::vector<Place> places_;
};

/// One warp; and a CTA that has the registers of a multiprocessor, as those of most kernels of the
/// library. Both read and write the first bytes of `memory`.
cudaError_t launch_warp(cudaStream_t stream, std::byte* memory);
cudaError_t launch_whole(cudaStream_t stream, std::byte* memory);

}  // namespace weft::gpu_test
