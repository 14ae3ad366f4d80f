// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A CUDA device as a DeviceRuntime. Host code over the CUDA runtime; the kernels stand in the .cu
// files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cuda_runtime.h>

#include "core/base/device_runtime.h"

namespace weft::device::cuda {

/// Nothing here waits for a kernel, since a kernel may wait for a peer for ever: what is released
/// is kept for the next allocation of that size, and freed when the device object goes. Calls are
/// allowed while a stream of the caller is being captured.
///
/// Threads: every member from any thread; `mutex_` guards the lists.
class CudaDevice final : public DeviceRuntime {
 public:
  /// Makes the device's context if there is none, and loads all kernels.
  static weft_result open(std::int32_t index, CudaDevice** out);
  /// All streams and memory are given back before.
  ~CudaDevice() override;

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] std::int32_t index() const override { return index_; }
  [[nodiscard]] std::string_view pci_address() const override { return pci_address_; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view last_failure(std::int64_t* native) override;

  [[nodiscard]] bool has_kernel(const Task& task) const override;
  weft_result allocate(std::size_t bytes, void** out) override;
  void release(void* memory) override;
  weft_result allocate_shared(std::size_t bytes, void** out) override;
  void release_shared(void* memory) override;
  weft_result export_memory(void* memory, MemoryTicket* out) override;
  weft_result import_memory(const MemoryTicket& ticket, void** out, std::size_t* bytes) override;
  void close_import(void* memory) override;
  weft_result register_host(void* memory, std::size_t bytes) override;
  void unregister_host(void* memory) override;

  weft_result create_stream(DeviceStream** out) override;
  weft_result wrap_stream(void* native, DeviceStream** out) override;
  void destroy_stream(DeviceStream* stream) override;
  weft_result order_after(DeviceStream* stream, DeviceStream* earlier) override;
  bool is_capturing(DeviceStream* stream) override;
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override;
  weft_result synchronize(DeviceStream* stream) override;
  weft_result query(DeviceStream* stream) override;

 private:
  /// Blocks in use, and blocks given back, by their size.
  struct Pool {
    std::map<void*, std::size_t> used;
    std::multimap<std::size_t, void*> free;
  };

  struct Ticket;

  explicit CudaDevice(std::int32_t index) : index_(index) {}
  weft_result prepare();
  weft_result reach_device(std::int32_t peer_index);
  weft_result import_own(const Ticket& ticket, void** out, std::size_t* size);
  weft_result take(Pool& pool, std::size_t bytes, bool shared, void** out);
  void give_back(Pool& pool, void* memory);
  weft_result zero(void* memory, std::size_t bytes);

  const std::int32_t index_;
  cudaStream_t own_stream_ = nullptr;  // of this object's own small work, beside all others
  std::string pci_address_;
  bool launches_overlap_ = false;  // the device knows programmatic serialization

  std::mutex mutex_;
  Pool device_memory_;  // guarded by mutex_, as all below
  Pool shared_memory_;
  std::set<std::int32_t> reached_;
  std::multiset<void*> imports_;
};

/// What the driver said when open() failed on this thread.
[[nodiscard]] std::string_view last_open_failure();

}  // namespace weft::device::cuda
