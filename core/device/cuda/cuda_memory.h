// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A CUDA device's memory: allocated, handed to other processes, and kept for the next when
// released.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "core/base/device_runtime.h"
#include "core/device/cuda/driver_memory.h"
#include "core/device/cuda/kept_blocks.h"

namespace weft::device::cuda {

/// The memory functions of DeviceRuntime, whose promises hold here. Nothing waits for a kernel,
/// since a kernel may wait for a peer for ever: what is released is kept for the next allocation of
/// that kind which it suits, and freed when this object goes. What CUDA IPC opened of the library's
/// own stays open for the next who wants it until the device has no communicator any more, or lacks
/// its address: to close it waits for all kernels of the device.
///
/// Threads: every member from any thread; `mutex_` guards the lists. The device is made current
/// where that is needed.
class CudaMemory {
 public:
  /// `communicators`: how many the device has, as DeviceRuntime; outlives this object.
  CudaMemory(std::int32_t device, const std::atomic<std::uint32_t>& communicators)
      : device_(device), communicators_(communicators) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  /// No kernel of the device runs any more.
  ~CudaMemory();
  /// Before all else; the device has a context.
  weft_result prepare();
  /// As DeviceRuntime::is_lost: after an error that sticks to the context any call tells it.
  [[nodiscard]] bool is_lost() const;

  weft_result allocate(std::size_t bytes, void** out) { return take(kDevice, bytes, out); }
  /// The same, but what lies there stays: to set it to zero would wait for the device.
  weft_result allocate_unset(std::size_t bytes, void** out);
  weft_result allocate_to_share(std::size_t bytes, MemorySharing sharing, void** out) {
    return take(sharing == MemorySharing::kTicket ? kDevice : kMapped, bytes, out);
  }
  weft_result allocate_shared(std::size_t bytes, void** out) { return take(kHost, bytes, out); }
  weft_result allocate_for_program(std::size_t bytes, void** out);
  void release_for_program(void* memory);
  weft_result find_allocation(const void* address, DeviceAllocation* out);
  /// Whatever allocated it.
  void release(void* memory);
  /// The same once what the stream holds now has ended; where it is captured, once the graph has
  /// gone and all that was made of it. Where that cannot be told, when this object goes.
  weft_result release_behind(cudaStream_t stream, void* memory);
  /// As DeviceRuntime::held_memory, what programs have been given among what is in use.
  [[nodiscard]] HeldMemory held();

  weft_result export_memory(void* memory, MemoryTicket* out);
  weft_result import_memory(const MemoryTicket& ticket, void** out, std::size_t* bytes);
  void close_import(void* memory);
  weft_result find_piece(const void* address, MemoryPiece* out) const;
  [[nodiscard]] std::uint64_t piece_number(const void* address) const;
  weft_result export_piece(const MemoryPiece& piece, int* descriptor) const;
  weft_result import_pieces(std::span<const ForeignPiece> pieces, void** out);
  void close_pieces(void* memory);
  weft_result register_host(void* memory, std::size_t bytes);
  void unregister_host(void* memory);
  /// As DeviceRuntime::reach, by the driver's number of the device.
  weft_result reach(std::int32_t peer);
  [[nodiscard]] bool is_open_to(std::int32_t peer, const void* memory, std::size_t bytes) const;

 private:
  enum Kind : std::uint8_t { kDevice, kMapped, kHost };
  struct Block {
    Kind kind = kDevice;
    std::uint64_t number = 0;  ///< Of all that this process ever made.
    bool of_program = false;   ///< Not kept once it is given back.
    MappedMemory memory;       ///< With a handle where the kind is kMapped.
  };
  struct Ticket;
  /// An allocation among those of all processes.
  using AllocationName = std::array<std::uint64_t, 3>;
  struct Import {
    MappedMemory memory;
    std::size_t uses = 0;
  };
  struct Opened {
    void* memory = nullptr;
    std::size_t uses = 0;  ///< 0: idle.
  };

  /// What a graph holds of memory that its kernels use. Its end may come on any thread.
  struct Keeper {
    std::mutex mutex;
    std::vector<void*> ended;  ///< Guarded by mutex: of graphs that have gone.
  };
  struct KeptByGraph;
  struct Retired {
    cudaEvent_t over = nullptr;
    void* memory = nullptr;
  };

  weft_result take(Kind kind, std::size_t bytes, void** out);
  weft_result find(Kind kind, std::size_t bytes, Block* out);
  void* hold(const Block& block);
  void keep(void* memory);
  void release_retired();
  weft_result leave_to_graph(cudaGraph_t graph, void* memory);
  weft_result make(Kind kind, std::size_t bytes, Block* out);
  weft_result clear(const Block& block);
  static void destroy(const Block& block);
  weft_result export_of_program(void* memory, Ticket* ticket);
  weft_result register_block(const Block& block, void** out);
  weft_result import_own(const Ticket& ticket, void** out, std::size_t* bytes);
  weft_result import_mapped(const Ticket& ticket, int descriptor, void** out, std::size_t* bytes);
  weft_result open_ticket(const Ticket& ticket, void** out);
  weft_result open_once(const Ticket& ticket, void** out);
  void close_idle();
  void close_idle_behind_last();

  const std::int32_t device_;
  const std::atomic<std::uint32_t>& communicators_;
  cudaStream_t own_stream_ = nullptr;  // of this object's own small work, beside all others
  const std::shared_ptr<Keeper> keeper_ = std::make_shared<Keeper>();
  std::mutex retired_mutex_;      // before mutex_
  std::vector<Retired> retired_;  // guarded by retired_mutex_
  std::mutex opening_mutex_;      // before mutex_: so that two threads do not open a ticket twice
  std::mutex mutex_;
  std::map<void*, Block> used_;  // guarded by mutex_, as all below
  KeptBlocks<Kind, Block> free_;
  std::set<std::int32_t> reached_;
  std::map<AllocationName, Opened> opened_;  // by CUDA IPC, of the library's own memory
  std::multiset<void*> opened_of_programs_;  // the same of theirs
  std::map<AllocationName, Import> mapped_;  // by descriptors
  std::map<void*, std::size_t> pieces_;      // of other processes, and their bytes
};

}  // namespace weft::device::cuda
