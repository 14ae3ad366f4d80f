// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The host as a device: kernels run on threads over ordinary memory.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/device_runtime.h"

namespace weft::device {

struct HostShared;

struct HostDeviceOptions {
  /// Threads that the device may own at once; 0: as many as the system gives. A launch that needs
  /// more answers WEFT_ERROR_OUT_OF_RESOURCES.
  std::uint32_t max_threads = 0;
};

/// What the device has done, for tests and reports.
struct HostDeviceStatistics {
  std::uint64_t pieces_by_caller = 0;  ///< Run by the thread that synchronized.
  std::uint64_t pieces_by_worker = 0;  ///< Run by a stream's own thread.
  std::uint64_t pieces_deferred = 0;   ///< Launched without waking the worker.
  std::uint64_t pieces_woken = 0;      ///< Launched with waking it.
  /// Deferred work whose worker was woken because another stream was about to block.
  std::uint64_t handed_over = 0;
  std::uint32_t threads = 0;          ///< That the device owns now.
  std::uint32_t threads_resting = 0;  ///< Of those, asleep until there is work.
};

/// One per context. All streams must be destroyed before the device.
class HostDevice : public DeviceRuntime {
 public:
  explicit HostDevice(HostDeviceOptions options = {});
  ~HostDevice() override;

  [[nodiscard]] std::string_view name() const override { return "host"; }
  /// Which element loops this processor runs: "baseline", "avx2" or "avx512".
  [[nodiscard]] std::string_view instruction_set() const;

  [[nodiscard]] bool has_kernel(const Task& task) const override;
  weft_result allocate(std::size_t bytes, void** out) override;
  void release(void* memory) override;
  weft_result allocate_shared(std::size_t bytes, void** out) override {
    return allocate(bytes, out);
  }
  void release_shared(void* memory) override { release(memory); }
  weft_result create_stream(DeviceStream** out) override;
  void destroy_stream(DeviceStream* stream) override;
  weft_result reserve(DeviceStream* stream, const LaunchRoom& room) override;
  /// Also answers WEFT_ERROR_OUT_OF_RESOURCES or WEFT_ERROR_OUT_OF_MEMORY; then nothing is queued
  /// and `finished` is not called.
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override;
  weft_result synchronize(DeviceStream* stream) override;
  weft_result query(DeviceStream* stream) override;
  std::uint64_t last_piece(DeviceStream* stream) override;
  /// Does not block, and does not need anybody to wait for either stream. Also answers
  /// WEFT_ERROR_OUT_OF_RESOURCES or WEFT_ERROR_OUT_OF_MEMORY; then nothing is ordered.
  weft_result order_after(DeviceStream* stream, DeviceStream* earlier,
                          std::uint64_t piece) override;

  [[nodiscard]] HostDeviceStatistics statistics() const;

 private:
  std::unique_ptr<HostShared> shared_;
};

}  // namespace weft::device
