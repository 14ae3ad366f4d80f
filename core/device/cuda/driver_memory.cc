// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/driver_memory.h"

#include <array>
#include <cstdint>
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

weft_result export_descriptor(const MappedMemory& memory, int* descriptor) {
  return WEFT_DRIVER(cuMemExportToShareableHandle, static_cast<void*>(descriptor), memory.handle,
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL);
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
