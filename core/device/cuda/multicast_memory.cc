// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/multicast_memory.h"

#include <cstring>
#include <string>
#include <unistd.h>
#include <utility>

#include <cuda.h>

#include "core/device/cuda/driver_call.h"
#include "core/device/cuda/failure.h"
#include "core/device/cuda/scope.h"
#include "core/model/direct_peers.h"
#include "core/model/multicast.h"

namespace weft::device::cuda {
namespace {

#define WEFT_MULTICAST(function, ...) WEFT_DRIVER_AS_OF(12010, function, __VA_ARGS__)

/// What a ticket's bytes hold, besides a descriptor of the team.
struct Ticket {
  std::uint64_t bytes = 0;
};

CUmulticastObjectProp properties_of(std::uint32_t devices, std::size_t bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = devices;
  properties.size = bytes;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

}  // namespace

MulticastMemory::~MulticastMemory() {
  const Scope scope(device_);
  for (const auto& place : kept_)
    give_back(*place);
}

bool MulticastMemory::has_multicast() const {
  int possible = 0;
  return WEFT_DRIVER(cuDeviceGetAttribute, &possible, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                     device_) == WEFT_OK &&
         possible != 0;
}

weft_result MulticastMemory::begin(std::uint32_t devices, std::size_t bytes, MulticastTeam** out,
                                   MemoryTicket* ticket) {
  const Scope scope(device_);
  CUmulticastObjectProp properties = properties_of(devices, bytes);
  std::size_t grain = 0;
  weft_result result = WEFT_MULTICAST(cuMulticastGetGranularity, &grain, &properties,
                                      CU_MULTICAST_GRANULARITY_MINIMUM);
  if (result != WEFT_OK) return result;
  properties.size = (bytes + grain - 1) / grain * grain;
  MappedMemory team;
  team.bytes = properties.size;
  result = WEFT_MULTICAST(cuMulticastCreate, &team.handle, &properties);
  if (result != WEFT_OK) return result;
  int descriptor = -1;
  result = export_descriptor(team, &descriptor);
  if (result != WEFT_OK) {
    const Failure why = failure();
    static_cast<void>(WEFT_DRIVER(cuMemRelease, team.handle));
    failure() = why;
    return result;
  }
  result = add(team, out);
  if (result != WEFT_OK) {
    ::close(descriptor);
    return result;
  }
  const Ticket contents{.bytes = team.bytes};
  std::memcpy(ticket->bytes.data(), &contents, sizeof(contents));
  ticket->descriptor = descriptor;
  return WEFT_OK;
}

weft_result MulticastMemory::join(const MemoryTicket& ticket, MulticastTeam** out) {
  Ticket contents;
  std::memcpy(&contents, ticket.bytes.data(), sizeof(contents));
  if (contents.bytes == 0 || contents.bytes > 2 * kMostMulticastBytes) {
    failure() = {cudaErrorInvalidValue,
                 "the ticket speaks of " + std::to_string(contents.bytes) + " bytes"};
    return WEFT_ERROR_PEER;
  }
  const Scope scope(device_);
  MappedMemory team;
  team.bytes = contents.bytes;
  const weft_result result =
      WEFT_DRIVER(cuMemImportFromShareableHandle, &team.handle,
                  reinterpret_cast<void*>(static_cast<std::uintptr_t>(ticket.descriptor)),
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return result == WEFT_OK ? add(team, out) : result;
}

weft_result MulticastMemory::add(const MappedMemory& team, MulticastTeam** out) {
  const weft_result result = WEFT_MULTICAST(cuMulticastAddDevice, team.handle, CUdevice{device_});
  if (result != WEFT_OK) {
    const Failure why = failure();
    static_cast<void>(WEFT_DRIVER(cuMemRelease, team.handle));
    failure() = why;
    return result;
  }
  auto place = std::make_unique<Place>();
  place->all = team;
  *out = reinterpret_cast<MulticastTeam*>(place.release());
  return WEFT_OK;
}

// The memory must be exportable where the team was exported, which that of create_mapped is.
weft_result MulticastMemory::map(MulticastTeam* team, MulticastView* out) {
  const Scope scope(device_);
  Place& place = *reinterpret_cast<Place*>(team);
  weft_result result = create_mapped(device_, place.all.bytes, &place.own);
  if (result != WEFT_OK) return result;
  result = WEFT_MULTICAST(cuMulticastBindMem, place.all.handle, std::size_t{0}, place.own.handle,
                          std::size_t{0}, place.all.bytes, 0ULL);
  if (result != WEFT_OK) return result;
  place.bound = true;
  // Where this fails the handle is gone.
  MappedMemory mapped;
  result = cuda::map(device_, 0, place.all, &mapped);
  if (result != WEFT_OK) {
    place.all.handle = 0;
    place.bound = false;
    return result;
  }
  place.all = mapped;
  out->own = static_cast<std::byte*>(place.own.address);
  out->all = static_cast<std::byte*>(place.all.address);
  out->bytes = place.all.bytes;
  return WEFT_OK;
}

void MulticastMemory::end(MulticastTeam* team, bool may_be_used) {
  std::unique_ptr<Place> place(reinterpret_cast<Place*>(team));
  if (may_be_used) {
    const std::scoped_lock lock(mutex_);
    kept_.push_back(std::move(place));
    return;
  }
  const Scope scope(device_);
  give_back(*place);
}

void MulticastMemory::give_back(const Place& place) const {
  if (place.bound) {
    static_cast<void>(WEFT_MULTICAST(cuMulticastUnbind, place.all.handle, CUdevice{device_},
                                     std::size_t{0}, place.all.bytes));
  }
  if (place.all.address != nullptr) {
    unmap(place.all);
  } else if (place.all.handle != 0) {
    static_cast<void>(WEFT_DRIVER(cuMemRelease, place.all.handle));
  }
  if (place.own.address != nullptr) unmap(place.own);
}

}  // namespace weft::device::cuda
