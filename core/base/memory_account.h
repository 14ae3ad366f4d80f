// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Memory of a device, taken and given back on an account that says how much is held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "core/base/device_runtime.h"

namespace weft {

/// Threads: all members from any. What is not given back when it is destroyed is lost.
class MemoryAccount {
 public:
  explicit MemoryAccount(DeviceRuntime& runtime) : runtime_(runtime) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  /// As the functions of DeviceRuntime.
  weft_result allocate(std::size_t bytes, void** out) {
    const weft_result result = runtime_.allocate(bytes, out);
    return note(result, bytes, *out);
  }
  weft_result allocate_unset(std::size_t bytes, void** out) {
    const weft_result result = runtime_.allocate_unset(bytes, out);
    return note(result, bytes, *out);
  }
  weft_result allocate_shared(std::size_t bytes, void** out) {
    const weft_result result = runtime_.allocate_shared(bytes, out);
    return note(result, bytes, *out);
  }
  void release(void* memory) {
    forget(memory);
    runtime_.release(memory);
  }
  void release_shared(void* memory) {
    forget(memory);
    runtime_.release_shared(memory);
  }

  [[nodiscard]] DeviceRuntime& runtime() const { return runtime_; }
  [[nodiscard]] std::uint64_t bytes_held() const { return held_.load(std::memory_order_relaxed); }

 private:
  weft_result note(weft_result result, std::size_t bytes, const void* memory) {
    if (result != WEFT_OK) return result;
    const std::scoped_lock lock(mutex_);
    sizes_[memory] = bytes;
    held_.fetch_add(bytes, std::memory_order_relaxed);
    return result;
  }
  void forget(const void* memory) {
    const std::scoped_lock lock(mutex_);
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return;
    held_.fetch_sub(found->second, std::memory_order_relaxed);
    sizes_.erase(found);
  }

  DeviceRuntime& runtime_;
  std::atomic<std::uint64_t> held_{0};
  std::mutex mutex_;
  std::map<const void*, std::size_t> sizes_;  // guarded by mutex_
};

}  // namespace weft
