// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A CUDA device as a DeviceRuntime. Host code over the CUDA runtime; the kernels stand in the .cu
// files.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cuda_runtime.h>

#include "core/base/device_runtime.h"
#include "core/device/cuda/cuda_memory.h"
#include "core/device/cuda/multicast_memory.h"
#include "core/device/cuda/shared_device.h"

namespace weft::device::cuda {

/// Only who waits for a stream or destroys one of ours waits for a kernel, since a kernel may wait
/// for a peer for ever. Calls are allowed while a stream of the caller is being captured. Threads:
/// every member from any thread.
class CudaDevice final : public DeviceRuntime {
 public:
  /// Makes the driver's context if there is none, and loads all kernels. All streams and memory are
  /// given back before the device goes.
  static weft_result open(std::int32_t index, CudaDevice** out);

  [[nodiscard]] std::atomic<std::uint32_t>& communicators() override {
    return shared_->communicators;
  }
  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] std::int32_t index() const override { return index_; }
  [[nodiscard]] std::string_view pci_address() const override { return pci_address_; }
  [[nodiscard]] std::string_view memory_fabric() const override { return memory_fabric_; }
  [[nodiscard]] std::string_view device_id() const override { return device_id_; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view last_failure(std::int64_t* native) override;

  [[nodiscard]] std::uint32_t groups_at_once() const override { return groups_at_once_; }
  [[nodiscard]] LaunchShape shape_of(std::span<const WorkItem> items,
                                     bool into_outputs) const override;
  [[nodiscard]] std::uint32_t line_bytes() const override { return line_bytes_; }
  [[nodiscard]] std::span<const std::string> line_peers() const override { return line_peers_; }

  [[nodiscard]] bool has_kernel(const Task& task) const override;
  weft_result allocate(std::size_t bytes, void** out) override {
    return memory_.allocate(bytes, out);
  }
  weft_result allocate_unset(std::size_t bytes, void** out) override {
    return memory_.allocate_unset(bytes, out);
  }
  void release(void* memory) override { memory_.release(memory); }
  [[nodiscard]] bool is_lost() override { return memory_.is_lost(); }
  weft_result allocate_shared(std::size_t bytes, void** out) override {
    return memory_.allocate_shared(bytes, out);
  }
  void release_shared(void* memory) override { memory_.release(memory); }
  [[nodiscard]] HeldMemory held_memory() override { return memory_.held(); }
  weft_result allocate_to_share(std::size_t bytes, MemorySharing sharing, void** out) override {
    return memory_.allocate_to_share(bytes, sharing, out);
  }
  weft_result allocate_for_program(std::size_t bytes, void** out) override {
    return memory_.allocate_for_program(bytes, out);
  }
  void release_for_program(void* memory) override { memory_.release_for_program(memory); }
  weft_result find_allocation(const void* address, DeviceAllocation* out) override {
    return memory_.find_allocation(address, out);
  }
  weft_result reach(std::string_view pci_address, std::int32_t* device) override;
  [[nodiscard]] bool is_out_of_reach(std::string_view pci_address) const override;
  weft_result find_piece(const void* address, MemoryPiece* out) override {
    return memory_.find_piece(address, out);
  }
  [[nodiscard]] std::uint64_t piece_number(const void* address) override {
    return memory_.piece_number(address);
  }
  weft_result export_piece(const MemoryPiece& piece, int* descriptor) override {
    return memory_.export_piece(piece, descriptor);
  }
  weft_result import_pieces(std::span<const ForeignPiece> pieces, void** out) override {
    return memory_.import_pieces(pieces, out);
  }
  void close_pieces(void* memory) override { memory_.close_pieces(memory); }
  bool is_open_to(std::int32_t device, const void* memory, std::size_t bytes) override {
    return memory_.is_open_to(device, memory, bytes);
  }
  void close_import(void* memory) override { memory_.close_import(memory); }
  weft_result export_memory(void* memory, MemoryTicket* out) override {
    return memory_.export_memory(memory, out);
  }
  weft_result import_memory(const MemoryTicket& ticket, void** out, std::size_t* bytes) override {
    return memory_.import_memory(ticket, out, bytes);
  }
  [[nodiscard]] bool has_multicast() const override { return multicast_.has_multicast(); }
  weft_result begin_multicast(std::uint32_t devices, std::size_t bytes, MulticastTeam** out,
                              MemoryTicket* ticket) override {
    return multicast_.begin(devices, bytes, out, ticket);
  }
  weft_result join_multicast(const MemoryTicket& ticket, MulticastTeam** out) override {
    return multicast_.join(ticket, out);
  }
  weft_result map_multicast(MulticastTeam* team, MulticastView* out) override {
    return multicast_.map(team, out);
  }
  void end_multicast(MulticastTeam* team, bool may_be_used) override {
    multicast_.end(team, may_be_used);
  }
  weft_result register_host(void* memory, std::size_t bytes) override {
    return memory_.register_host(memory, bytes);
  }
  void unregister_host(void* memory) override { memory_.unregister_host(memory); }

  weft_result create_stream(DeviceStream** out) override;
  weft_result wrap_stream(void* native, DeviceStream** out) override;
  void leave_stream(DeviceStream* stream) override;
  [[nodiscard]] bool is_lasting(const DeviceStream* stream) const override;
  void destroy_stream(DeviceStream* stream) override;
  weft_result order_after(DeviceStream* stream, DeviceStream* earlier,
                          std::uint64_t piece) override;
  std::uint64_t capture_number(DeviceStream* stream) override;
  weft_result store(DeviceStream* stream, void* to, std::span<const std::byte> bytes) override;
  weft_result launch(DeviceStream* stream, std::span<const Launch> launches) override;
  weft_result synchronize(DeviceStream* stream) override;
  weft_result await_stream(DeviceStream* stream) override;
  weft_result query(DeviceStream* stream) override;

 private:
  explicit CudaDevice(std::int32_t index)
      : index_(index),
        shared_(shared_device(index)),
        memory_(index, shared_->communicators),
        multicast_(index) {}
  weft_result prepare();
  weft_result ask_for_bulk_copies();
  weft_result find_line_bytes(int major);
  weft_result check_context_of(cudaStream_t native) const;
  weft_result launch_beside(DeviceStream* on, const Launch& launch);

  const std::int32_t index_;
  const std::shared_ptr<SharedDevice> shared_;
  std::string pci_address_;
  std::string memory_fabric_;
  std::string device_id_;
  std::uint32_t groups_at_once_ = 0;
  std::uint32_t processors_ = 0;
  std::uint32_t line_bytes_ = 8;
  std::vector<std::string> line_peers_;
  bool launches_overlap_ = false;  // the device knows programmatic serialization
  bool has_clusters_ = false;      // the device knows clusters, and the kernel of multicast
  bool copies_in_bulk_ = false;    // the device knows bulk copies, and has room for their kernels
  bool is_of_processes_ = false;   // kernels of several run side by side (MPS)
  CudaMemory memory_;
  MulticastMemory multicast_;
};

/// What the driver said when open() failed on this thread.
[[nodiscard]] std::string_view last_open_failure();

}  // namespace weft::device::cuda
