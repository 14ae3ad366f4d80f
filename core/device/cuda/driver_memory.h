// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What only the driver's own functions can do with memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <weft/types.h>

#include "core/base/device_runtime.h"

namespace weft::device::cuda {

/// The extent of the allocation that `memory` lies in, on the current device.
weft_result address_range(void* memory, void** base, std::size_t* bytes);

/// What a program allocated on `device`, the current one, and `address` lies in; UNSUPPORTED for
/// what is no memory of it. It can travel, by a ticket, where cudaMalloc made it.
weft_result program_memory(std::int32_t device, void* address, DeviceAllocation* out);

/// Whether kernels of `peer` may write to all of that memory of `device`, the current one, at the
/// addresses that it has: as the driver says now, except that what cudaMalloc made is taken to be
/// open, as it is to a peer that has enabled access to the device. False for anything but memory of
/// the device, and for what the driver does not tell of.
bool open_to(std::int32_t device, std::int32_t peer, const void* memory, std::size_t bytes);

/// What DeviceRuntime::find_piece, piece_number, export_piece and import_pieces promise, of
/// `device`, the current one. A piece is what the driver mapped at once, with the number that it
/// has for that, or an allocation; the former alone can be exported, where its handle may travel as
/// a descriptor.
weft_result find_piece(std::int32_t device, const void* address, MemoryPiece* out);
[[nodiscard]] std::uint64_t piece_number(const void* address);
weft_result export_piece(std::int32_t device, const MemoryPiece& piece, int* descriptor);
weft_result import_pieces(std::int32_t device, std::span<const ForeignPiece> pieces, void** out);
/// Takes back what import_pieces mapped, so many bytes.
void close_pieces(void* memory, std::size_t bytes);

/// Whether `device` can export memory to the fabric that joins it to other hosts. False where the
/// driver does not know.
bool has_fabric_handles(std::int32_t device);

/// Physical memory with an address of its own, which kernels of one device reach.
struct MappedMemory {
  void* address = nullptr;
  std::size_t bytes = 0;
  unsigned long long handle = 0;  ///< The driver's.
};

/// Gives `memory.handle` an address for kernels of `device`, a multiple of `alignment` where that
/// is not 0. On failure nothing is left mapped, and the handle is released.
weft_result map(std::int32_t device, std::size_t alignment, MappedMemory memory, MappedMemory* out);

/// Memory of `device` that can be exported as a descriptor, `bytes` rounded up to the driver's
/// pages. UNSUPPORTED where the device has none.
weft_result create_mapped(std::int32_t device, std::size_t bytes, MappedMemory* out);
/// A new descriptor, close-on-exec, which the caller owns.
weft_result export_descriptor(const MappedMemory& memory, int* descriptor);
/// Maps `bytes` behind a descriptor that another device, or process, exported, for kernels of
/// `device`. Fails where fewer lie behind it. The descriptor stays the caller's.
weft_result import_descriptor(std::int32_t device, int descriptor, std::size_t bytes,
                              MappedMemory* out);
/// Gives back either. No kernel may touch it any more.
void unmap(const MappedMemory& memory);

}  // namespace weft::device::cuda
