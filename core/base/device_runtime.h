// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a device offers to the layers between it and the communicator: memory, streams, launch.
// `core/device` implements it, others are given it. C++20 and free of std::expected, because
// device code includes it; calls answer plain codes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <weft/types.h>

namespace weft {

struct WorkItem;
struct KernelOutcome;

/// A device's stream; made and destroyed by its runtime.
class DeviceStream;

/// One communicator's share of a launch. Its items block on other ranks and on each other, so the
/// device runs all of them at once.
struct Launch {
  std::span<const WorkItem> items;  ///< Copied before launch() returns.
  /// Raised to make kernels leave; outlives the launch.
  const std::atomic<std::uint32_t>* abort = nullptr;
  /// What a waiting worker may do instead of idling (drive a progress engine); may be null. Called
  /// from several workers at once; must not block; answers true when it achieved something.
  /// `about_to_sleep`: the worker will not call again before it is woken or 50 ms have passed.
  bool (*progress)(void* context, bool about_to_sleep) = nullptr;
  void* progress_context = nullptr;
  /// Called exactly once, by the worker that ended last, with the first outcome that is not kDone
  /// (or kDone). What it answers is what the stream reports. Must not block or call the runtime.
  weft_result (*finished)(void* context, const KernelOutcome& outcome) = nullptr;
  void* finished_context = nullptr;
};

/// Threads: every member may be called from any thread, one thread at a time per stream.
class DeviceRuntime {
 public:
  DeviceRuntime() = default;
  DeviceRuntime(const DeviceRuntime&) = delete;
  DeviceRuntime& operator=(const DeviceRuntime&) = delete;
  virtual ~DeviceRuntime() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Zeroed memory of the device, aligned to at least 128 bytes.
  virtual weft_result allocate(std::size_t bytes, void** out) = 0;
  /// Takes back what allocate gave; null is ignored. Never waits for a kernel.
  virtual void release(void* memory) = 0;

  virtual weft_result create_stream(DeviceStream** out) = 0;
  /// Waits for what is queued, then frees the stream.
  virtual void destroy_stream(DeviceStream* stream) = 0;

  /// Appends one piece of work to the stream: all launches of it start together once the stream's
  /// earlier work has ended, and the stream goes on when all have ended. Does not block.
  virtual weft_result launch(DeviceStream* stream, std::span<const Launch> launches) = 0;

  /// Waits until the stream is empty. Answers the first error of the work since the last call.
  virtual weft_result synchronize(DeviceStream* stream) = 0;
  /// Like synchronize, but answers WEFT_IN_PROGRESS instead of waiting.
  virtual weft_result query(DeviceStream* stream) = 0;
};

}  // namespace weft
