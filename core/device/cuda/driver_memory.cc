// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/driver_memory.h"

#include <array>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <type_traits>

#include <cuda.h>

#include "core/device/cuda/driver_call.h"
#include "core/device/cuda/failure.h"

namespace weft::device::cuda {
namespace {

static_assert(std::is_same_v<CUmemGenericAllocationHandle, decltype(MappedMemory::handle)>);

CUmemAllocationProp properties_of(std::int32_t device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  return properties;
}

}  // namespace

weft_result map(std::int32_t device, std::size_t alignment, MappedMemory memory,
                MappedMemory* out) {
  CUdeviceptr address = 0;
  weft_result result =
      WEFT_DRIVER(cuMemAddressReserve, &address, memory.bytes, alignment, CUdeviceptr{0}, 0ULL);
  bool mapped = false;
  if (result == WEFT_OK) {
    result = WEFT_DRIVER(cuMemMap, address, memory.bytes, std::size_t{0}, memory.handle, 0ULL);
    mapped = result == WEFT_OK;
  }
  if (mapped) {
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = WEFT_DRIVER(cuMemSetAccess, address, memory.bytes, &access, std::size_t{1});
  }
  memory.address = reinterpret_cast<void*>(address);
  if (result == WEFT_OK) {
    *out = memory;
    return WEFT_OK;
  }
  const Failure why = failure();  // Cleaning up may fail as well.
  if (mapped) static_cast<void>(WEFT_DRIVER(cuMemUnmap, address, memory.bytes));
  if (address != 0) static_cast<void>(WEFT_DRIVER(cuMemAddressFree, address, memory.bytes));
  static_cast<void>(WEFT_DRIVER(cuMemRelease, memory.handle));
  failure() = why;
  return result;
}

weft_result address_range(void* memory, void** base, std::size_t* bytes) {
  CUdeviceptr start = 0;
  const weft_result result =
      WEFT_DRIVER(cuMemGetAddressRange, &start, bytes, reinterpret_cast<CUdeviceptr>(memory));
  *base = reinterpret_cast<void*>(start);
  return result;
}

weft_result program_memory(std::int32_t device, void* address, DeviceAllocation* out) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess ||
      attributes.type != cudaMemoryTypeDevice || attributes.device != device) {
    static_cast<void>(cudaGetLastError());
    failure() = {cudaErrorInvalidDevicePointer,
                 "no memory of CUDA device " + std::to_string(device) + " lies there"};
    return WEFT_ERROR_UNSUPPORTED;
  }
  DeviceAllocation found;
  if (const weft_result known = address_range(address, &found.base, &found.bytes);
      known != WEFT_OK) {
    return known;
  }
  int has_tickets = 0;
  std::array kinds{CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  std::array<void*, 2> values{&found.number, &has_tickets};
  const weft_result asked =
      WEFT_DRIVER(cuPointerGetAttributes, static_cast<unsigned>(kinds.size()), kinds.data(),
                  values.data(), reinterpret_cast<CUdeviceptr>(address));
  if (asked != WEFT_OK) return asked;
  // The driver's numbers are not this library's.
  found.number |= std::uint64_t{1} << 63;
  found.can_travel = has_tickets != 0;
  *out = found;
  return WEFT_OK;
}

namespace {

/// What the driver tells of the memory at an address.
struct PointerFacts {
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  int device = -1;
  CUdeviceptr begin = 0;  ///< Of the allocation, or of what is mapped there as one piece.
  std::size_t bytes = 0;
  int by_malloc = 0;
  CUmemoryPool pool = nullptr;
};

weft_result facts_of(CUdeviceptr address, PointerFacts* out) {
  std::array kinds{CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
  std::array<void*, 6> values{&out->type,  &out->device,    &out->begin,
                              &out->bytes, &out->by_malloc, &out->pool};
  return WEFT_DRIVER(cuPointerGetAttributes, static_cast<unsigned>(kinds.size()), kinds.data(),
                     values.data(), address);
}

CUmemLocation location_of(std::int32_t device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

bool pool_is_open_to(CUmemoryPool pool, std::int32_t peer) {
  CUmemLocation location = location_of(peer);
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return WEFT_DRIVER(cuMemPoolGetAccess, &flags, pool, &location) == WEFT_OK &&
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/// Of what was mapped piece by piece, each with an access of its own: the driver tells of a range
/// of addresses alone, not where pieces begin, so every place is asked for where one may.
bool pieces_are_open_to(std::int32_t device, std::int32_t peer, CUdeviceptr begin,
                        CUdeviceptr end) {
  const CUmemAllocationProp properties = properties_of(device);
  std::size_t grain = 0;
  if (WEFT_DRIVER(cuMemGetAllocationGranularity, &grain, &properties,
                  CU_MEM_ALLOC_GRANULARITY_MINIMUM) != WEFT_OK ||
      grain == 0) {
    return false;
  }
  const CUmemLocation location = location_of(peer);
  for (CUdeviceptr at = begin / grain * grain; at < end; at += grain) {
    unsigned long long flags = 0;
    if (WEFT_DRIVER(cuMemGetAccess, &flags, &location, at) != WEFT_OK) return false;
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return false;
  }
  return true;
}

}  // namespace

bool open_to(std::int32_t device, std::int32_t peer, const void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  PointerFacts facts;
  if (facts_of(begin, &facts) != WEFT_OK) return false;
  if (facts.type != CU_MEMORYTYPE_DEVICE || facts.device != device) return false;
  if (facts.by_malloc == 0 && facts.pool == nullptr) {
    return pieces_are_open_to(device, peer, begin, begin + bytes);
  }
  // What the caller says of its size is not trusted to stay within the allocation.
  const std::size_t before = begin - facts.begin;
  if (facts.bytes < before || facts.bytes - before < bytes) return false;
  return facts.by_malloc != 0 || pool_is_open_to(facts.pool, peer);
}

weft_result find_piece(std::int32_t device, const void* address, MemoryPiece* out) {
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  PointerFacts facts;
  if (facts_of(at, &facts) != WEFT_OK || facts.type != CU_MEMORYTYPE_DEVICE ||
      facts.device != device) {
    failure() = {cudaErrorInvalidDevicePointer,
                 "it is no memory of CUDA device " + std::to_string(device)};
    return WEFT_ERROR_UNSUPPORTED;
  }
  MemoryPiece piece;
  piece.number = piece_number(address);
  const weft_result known = address_range(const_cast<void*>(address), &piece.base, &piece.bytes);
  if (known != WEFT_OK) return known;
  *out = piece;
  return WEFT_OK;
}

std::uint64_t piece_number(const void* address) {
  std::uint64_t number = 0;
  const weft_result asked =
      WEFT_DRIVER(cuPointerGetAttribute, static_cast<void*>(&number),
                  CU_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<CUdeviceptr>(address));
  return asked == WEFT_OK ? number : 0;
}

namespace {

/// Why the driver has no handle for what lies there that could travel.
std::string no_handle(CUdeviceptr address) {
  PointerFacts facts;
  if (facts_of(address, &facts) != WEFT_OK) return "the driver knows nothing of its memory";
  if (facts.by_malloc != 0) {
    return "its memory is of cudaMalloc, which is shared only where it is registered as a window";
  }
  if (facts.pool != nullptr) {
    return "its memory is of a pool, which must not take it back while others have it mapped";
  }
  return "its memory has no handle";
}

}  // namespace

// The number is asked for again behind the handle: so that is of the very piece.
weft_result export_piece(std::int32_t device, const MemoryPiece& piece, int* descriptor) {
  const auto at = reinterpret_cast<CUdeviceptr>(piece.base);
  MappedMemory held;
  if (WEFT_DRIVER(cuMemRetainAllocationHandle, &held.handle, piece.base) != WEFT_OK) {
    failure() = {cudaErrorNotSupported, no_handle(at)};
    return WEFT_ERROR_UNSUPPORTED;
  }
  CUmemAllocationProp properties{};
  weft_result result =
      WEFT_DRIVER(cuMemGetAllocationPropertiesFromHandle, &properties, held.handle);
  const auto types = static_cast<unsigned>(properties.requestedHandleTypes);
  if (result == WEFT_OK && (types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
    failure() = {cudaErrorNotSupported,
                 "its memory was not made to be exported by descriptors "
                 "(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)"};
    result = WEFT_ERROR_UNSUPPORTED;
  }
  if (result == WEFT_OK && (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
                            properties.location.id != device)) {
    failure() = {cudaErrorNotSupported, "its memory is not all of one device"};
    result = WEFT_ERROR_UNSUPPORTED;
  }
  if (result == WEFT_OK && piece_number(piece.base) != piece.number) {
    failure() = {cudaErrorNotSupported, "its memory was made anew meanwhile"};
    result = WEFT_ERROR_UNSUPPORTED;
  }
  if (result == WEFT_OK) result = export_descriptor(held, descriptor);
  const Failure why = failure();
  static_cast<void>(WEFT_DRIVER(cuMemRelease, held.handle));
  if (result != WEFT_OK) failure() = why;
  return result;
}

// The mappings hold the memory, so no handle is kept.
weft_result import_pieces(std::int32_t device, std::span<const ForeignPiece> pieces, void** out) {
  std::size_t all = 0;
  for (const ForeignPiece& piece : pieces)
    all += piece.bytes;
  CUdeviceptr begin = 0;
  weft_result result =
      WEFT_DRIVER(cuMemAddressReserve, &begin, all, std::size_t{0}, CUdeviceptr{0}, 0ULL);
  if (result != WEFT_OK) return result;
  std::size_t mapped = 0;
  for (const ForeignPiece& piece : pieces) {
    CUmemGenericAllocationHandle handle = 0;
    result = WEFT_DRIVER(cuMemImportFromShareableHandle, &handle,
                         reinterpret_cast<void*>(static_cast<std::uintptr_t>(piece.descriptor)),
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != WEFT_OK) break;
    result = WEFT_DRIVER(cuMemMap, begin + mapped, piece.bytes, std::size_t{0}, handle, 0ULL);
    const Failure why = failure();
    static_cast<void>(WEFT_DRIVER(cuMemRelease, handle));
    if (result != WEFT_OK) {
      failure() = why;
      break;
    }
    mapped += piece.bytes;
  }
  if (result == WEFT_OK) {
    CUmemAccessDesc access{};
    access.location = location_of(device);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = WEFT_DRIVER(cuMemSetAccess, begin, all, &access, std::size_t{1});
  }
  if (result == WEFT_OK) {
    *out = reinterpret_cast<void*>(begin);
    return WEFT_OK;
  }
  const Failure why = failure();  // Cleaning up may fail as well.
  if (mapped != 0) static_cast<void>(WEFT_DRIVER(cuMemUnmap, begin, mapped));
  static_cast<void>(WEFT_DRIVER(cuMemAddressFree, begin, all));
  failure() = why;
  return result;
}

void close_pieces(void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  static_cast<void>(WEFT_DRIVER(cuMemUnmap, address, bytes));
  static_cast<void>(WEFT_DRIVER(cuMemAddressFree, address, bytes));
}

bool has_fabric_handles(std::int32_t device) {
  int possible = 0;
  return WEFT_DRIVER(cuDeviceGetAttribute, &possible,
                     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device) == WEFT_OK &&
         possible != 0;
}

weft_result create_mapped(std::int32_t device, std::size_t bytes, MappedMemory* out) {
  int possible = 0;
  weft_result result =
      WEFT_DRIVER(cuDeviceGetAttribute, &possible,
                  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
  if (result != WEFT_OK) return result;
  if (possible == 0) {
    failure() = {cudaErrorNotSupported, "the device's memory cannot travel as a descriptor"};
    return WEFT_ERROR_UNSUPPORTED;
  }
  const CUmemAllocationProp properties = properties_of(device);
  std::size_t grain = 0;
  result = WEFT_DRIVER(cuMemGetAllocationGranularity, &grain, &properties,
                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != WEFT_OK) return result;
  MappedMemory memory;
  memory.bytes = (bytes + grain - 1) / grain * grain;
  result = WEFT_DRIVER(cuMemCreate, &memory.handle, memory.bytes, &properties, 0ULL);
  return result == WEFT_OK ? map(device, grain, memory, out) : result;
}

// As all descriptors of the library: a program that the process starts would keep the memory.
weft_result export_descriptor(const MappedMemory& memory, int* descriptor) {
  const weft_result result =
      WEFT_DRIVER(cuMemExportToShareableHandle, static_cast<void*>(descriptor), memory.handle,
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL);
  if (result == WEFT_OK) static_cast<void>(::fcntl(*descriptor, F_SETFD, FD_CLOEXEC));
  return result;
}

weft_result import_descriptor(std::int32_t device, int descriptor, std::size_t bytes,
                              MappedMemory* out) {
  MappedMemory memory;
  memory.bytes = bytes;
  const weft_result result =
      WEFT_DRIVER(cuMemImportFromShareableHandle, &memory.handle,
                  reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor)),
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return result == WEFT_OK ? map(device, 0, memory, out) : result;
}

void unmap(const MappedMemory& memory) {
  const auto address = reinterpret_cast<CUdeviceptr>(memory.address);
  static_cast<void>(WEFT_DRIVER(cuMemUnmap, address, memory.bytes));
  static_cast<void>(WEFT_DRIVER(cuMemAddressFree, address, memory.bytes));
  static_cast<void>(WEFT_DRIVER(cuMemRelease, memory.handle));
}

}  // namespace weft::device::cuda
