// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What all contexts of a process that use one device have in common there: the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <cuda_runtime.h>

namespace weft::device::cuda {

struct SharedDevice {
  explicit SharedDevice(std::int32_t number) : index(number) {}
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  const std::int32_t index;
  std::atomic<std::uint32_t> communicators{0};  ///< DeviceRuntime::communicators().
  /// Held while a launch that takes all of the device is made, and those beside others.
  std::mutex mutex;
  cudaEvent_t whole_over = nullptr;  ///< Guarded: the latest that took all is over. Null: none yet.
  bool is_whole = false;             ///< Guarded: it may not be.
};

/// That of the device of this number, which lives as long as anybody has it. Threads: any.
[[nodiscard]] std::shared_ptr<SharedDevice> shared_device(std::int32_t index);

}  // namespace weft::device::cuda
