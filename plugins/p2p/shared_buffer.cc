// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "plugins/p2p/shared_buffer.h"

#include <cstring>
#include <string>

#include "plugins/common/owned.h"

weft_shared_buffer::~weft_shared_buffer() {
  const weft_host& services = host.services();
  if (memory) services.memory->free(services.instance, &*memory);
}

weft_result weft_shared_buffer::share(void* address, std::uint64_t size,
                                      weft_memory_sharing allowed) {
  const weft_host& services = host.services();
  weft_memory found{};
  found.struct_size = sizeof(found);
  weft_result result = services.memory->query(services.instance, address, &found);
  if (result != WEFT_OK) return result;
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(address) -
                                                 static_cast<std::byte*>(found.address));
  if (offset > found.size || size > found.size - offset) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                     "p2p: " + std::to_string(size) +
                         " bytes of a buffer reach beyond its "
                         "allocation, which has " +
                         std::to_string(found.size - offset) + " from there on",
                     "share memory of one allocation");
  }
  const weft_memory_sharing ways = found.sharing & allowed;
  if (ways == WEFT_SHARING_NONE) {
    return host.fail(WEFT_ERROR_UNSUPPORTED,
                     found.sharing == WEFT_SHARING_NONE
                         ? "p2p: this memory cannot be handed to other processes"
                         : "p2p: p2p.device_sharing, or a peer, leaves out the way in which this "
                           "memory can be handed on",
                     "allocate it by weft_memory_allocate");
  }
  weft_memory_export form{};
  form.struct_size = sizeof(form);
  const weft_memory_sharing way =
      (ways & WEFT_SHARING_DESCRIPTOR) != 0 ? WEFT_SHARING_DESCRIPTOR : WEFT_SHARING_IPC;
  result = services.memory->export_memory(services.instance, &found, way, &form);
  if (result != WEFT_OK) return result;
  if (way == WEFT_SHARING_DESCRIPTOR) descriptor.reset(form.descriptor);
  blob.sharing = way;
  blob.offset = offset;
  blob.size = size;
  blob.place.memory = weft::plugins::random_nonce();
  std::memcpy(blob.ticket.data(), form.bytes, blob.ticket.size());
  described.struct_size = sizeof(described);
  described.allocation_id = found.allocation_id;
  described.generation = found.generation;
  described.offset = offset;
  described.size = size;
  described.blob = {&blob, sizeof(blob)};
  return WEFT_OK;
}

weft_result weft_shared_buffer::fetch(const weft::p2p::BufferBlob& from, std::uint32_t own_rank,
                                      const weft::plugins::Key& key) {
  if (memory || fetched || from.sharing != WEFT_SHARING_DESCRIPTOR) return WEFT_OK;
  weft::plugins::OwnedFd come;
  const weft_result got = taker.step(
      host, key, {.plugin = "p2p", .rank = own_rank, .peer = from.rank}, from.place, &come);
  if (got != WEFT_OK) return got;
  fetched.reset(come.release());
  taker.stop();
  return WEFT_OK;
}

weft_result weft_shared_buffer::reach(const weft::p2p::BufferBlob& from, std::int32_t device,
                                      void** address) {
  if (!memory) {
    const weft_host& services = host.services();
    weft_memory_export form{};
    form.struct_size = sizeof(form);
    form.sharing = from.sharing;
    form.descriptor = fetched.release();
    form.bytes_used = sizeof(form.bytes);
    std::memcpy(form.bytes, from.ticket.data(), from.ticket.size());
    weft_memory opened{};
    opened.struct_size = sizeof(opened);
    const weft_result result =
        services.memory->import_memory(services.instance, &form, device, nullptr, &opened);
    if (result != WEFT_OK) return result;
    memory = opened;
  }
  if (from.offset > memory->size || from.size > memory->size - from.offset) {
    return host.fail_peer("p2p: the buffer of rank " + std::to_string(from.rank) +
                          " reaches beyond the memory that it shares");
  }
  *address = static_cast<std::byte*>(memory->address) + from.offset;
  return WEFT_OK;
}
