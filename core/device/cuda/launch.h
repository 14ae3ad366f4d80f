// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The device's streams, and how its host side launches kernels of each kind there. Internal to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>

#include <cuda_runtime.h>

#include "core/base/device_runtime.h"
#include "core/device/cuda/direct_shape.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/pair_groups.h"
#include "core/model/window_reduction.h"

namespace weft::device::cuda {

class CudaMemory;

struct CudaStream {
  cudaStream_t native = nullptr;
  CudaMemory* memory = nullptr;  // of its device
  bool owned = false;
  // Whoever uses `native` and is not its owner, which alone leaves it, holds this meanwhile.
  std::mutex mutex;
  cudaEvent_t event = nullptr;     // recorded under mutex, as the next two are written
  bool is_left = false;            // `native` may be no more, `event` comes after all of it
  std::uint64_t left_capture = 0;  // that it was part of by then
  bool may_overlap = false;        // kernels with the end of the one before
  bool rings_may_overlap = false;  // likewise rings
  // Since the last kernel that reads what is stored: the next one does so before that end, and must
  // not overlap.
  bool has_stored = false;
  bool has_clusters = false;
  bool copies_in_bulk = false;
  // For copies beside a kernel; made when first needed.
  cudaStream_t side = nullptr;
  cudaEvent_t forked = nullptr;
  cudaEvent_t joined = nullptr;
  // The same of reductions in windows, which read by `side`.
  cudaStream_t writing = nullptr;
  cudaEvent_t read[kWindowSlots]{};
  cudaEvent_t reduced[kWindowSlots]{};
  PairGroups groups{};  // of the launch under way, with the memory of those before
};

// DeviceStream is never defined: its address stands for the stream of the runtime that made it.
inline CudaStream* cuda(DeviceStream* stream) {
  return reinterpret_cast<CudaStream*>(stream);
}

/// One of Weft's own on the current device, which waits for no other one's work.
weft_result make_stream(cudaStream_t* out);

/// An argument of a kernel that nobody has set: what the kernel does not look at stays as it is.
/// All of one for 64 items takes the host 0.3 us to set.
template <class Argument>
class UnsetArgument {
 public:
  [[nodiscard]] Argument& get() { return *std::launder(reinterpret_cast<Argument*>(room_)); }

 private:
  // Such a type begins to live with its storage, and its members set nothing then.
  static_assert(std::is_aggregate_v<Argument> && std::is_trivially_copyable_v<Argument>);
  alignas(Argument) std::byte room_[sizeof(Argument)];
};

/// A launch of one item that goes directly, by a kernel of that shape.
weft_result launch_inbox(CudaStream& stream, const Launch& launch, const DirectShape& shape,
                         bool may_overlap);
/// A launch of one item of sends and receives; of one that has the device for itself, how many
/// groups that runs at once, else 0.
weft_result launch_pairs(CudaStream& stream, const Launch& launch, std::uint32_t whole_device);
/// A launch of one item of copies into buffers of other ranks.
weft_result launch_copies(CudaStream& stream, const Launch& launch);
/// A launch of one item without elements, and of a reduction in windows.
weft_result launch_window_reduction(CudaStream& stream, const Launch& launch);

/// As DeviceRuntime::store, of whole words.
weft_result store(CudaStream& stream, void* to, std::span<const std::byte> bytes);

/// All ranks meet: a kernel of one warp that writes nothing but headers into inboxes, and compares
/// their tags. What copy engines were given before is complete, and seen by all devices.
weft_result meet(CudaStream& stream, const Launch& launch, bool may_overlap);

// What runs beside the stream: between the two, work on `side` comes after what the stream held at
// the fork, and what the stream gets later comes after it.
weft_result fork_side(CudaStream& stream);
weft_result join_side(CudaStream& stream);

}  // namespace weft::device::cuda
