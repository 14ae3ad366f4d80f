// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory that plugins get of their host: allocated, handed to other processes, given back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/plugin/host_instance.h"

namespace weft {
namespace {

constexpr std::uint64_t kMemoryAlignment = 4096;

/// Keeps an allocation and describes it to the plugin; gives it back where that cannot be done.
weft_result hand_out(weft_host_instance* host, void* address, Allocation allocation,
                     weft_memory* out) {
  {
    const std::lock_guard lock(host->mutex);
    allocation.id = host->next_allocation++;
    host->allocations[static_cast<const char*>(address)] = allocation;
  }
  if (fill_output(out, allocation.describe(address))) return WEFT_OK;
  {
    const std::lock_guard lock(host->mutex);
    host->allocations.erase(static_cast<const char*>(address));
  }
  allocation.runtime->release(allocation.raw);
  return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "the output has no struct_size");
}

weft_result device_failure(weft_host_instance* host, DeviceRuntime& runtime, weft_result result,
                           const std::string& what) {
  std::int64_t native = 0;
  const std::string_view said = runtime.last_failure(&native);
  return host->keep({result < 0 ? result : WEFT_ERROR_OUT_OF_MEMORY,
                     said.empty() ? WEFT_SOURCE_PLUGIN : WEFT_SOURCE_CUDA,
                     native,
                     said.empty() ? what : fmt::format("{}: {}", what, said),
                     {}});
}

weft_result allocate_host(weft_host_instance* host, std::uint64_t size, std::uint32_t sharing,
                          weft_memory* out) {
  if (sharing != WEFT_SHARING_NONE) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "ordinary host memory cannot be handed to another process",
                        "make a memfd and map it");
  }
  void* raw = nullptr;
  const weft_result result = host->runtime.allocate(size + kMemoryAlignment, &raw);
  if (result != WEFT_OK || raw == nullptr) {
    return host->refuse(result < 0 ? result : WEFT_ERROR_OUT_OF_MEMORY,
                        fmt::format("cannot allocate {} bytes of host memory", size));
  }
  void* aligned = raw;
  std::size_t room = size + kMemoryAlignment;
  std::align(kMemoryAlignment, size, aligned, room);
  return hand_out(host, aligned, {.raw = raw, .size = size, .runtime = &host->runtime}, out);
}

weft_result allocate_cuda(weft_host_instance* host, DeviceRuntime& runtime, std::uint64_t size,
                          std::uint32_t sharing, weft_memory* out) {
  if (sharing != WEFT_SHARING_NONE && sharing != WEFT_SHARING_IPC &&
      sharing != WEFT_SHARING_DESCRIPTOR) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "CUDA memory is handed to other processes by WEFT_SHARING_IPC or by "
                        "WEFT_SHARING_DESCRIPTOR, one of them for each allocation");
  }
  // Whole pages of the driver: a ticket opens the page, and nothing of others shall lie in it.
  const std::uint64_t grain = sharing == WEFT_SHARING_NONE ? kMemoryAlignment : kExportGrain;
  const std::uint64_t rounded = (size + grain - 1) / grain * grain;
  void* raw = nullptr;
  const weft_result result =
      sharing == WEFT_SHARING_NONE
          ? runtime.allocate(rounded, &raw)
          : runtime.allocate_to_share(
                rounded,
                sharing == WEFT_SHARING_IPC ? MemorySharing::kTicket : MemorySharing::kDescriptor,
                &raw);
  if (result != WEFT_OK) {
    return device_failure(
        host, runtime, result,
        fmt::format("cannot allocate {} bytes on CUDA device {}", rounded, runtime.index()));
  }
  return hand_out(host, raw,
                  {.raw = raw,
                   .size = rounded,
                   .runtime = &runtime,
                   .device = runtime.index(),
                   .sharing = sharing},
                  out);
}

/// The runtime of a CUDA device of this context; says why not where there is none.
DeviceRuntime* find_device(weft_host_instance* host, std::int32_t device) {
  DeviceRuntime* runtime = host->cuda_devices ? host->cuda_devices(device) : nullptr;
  if (runtime == nullptr) {
    host->refuse(WEFT_ERROR_UNSUPPORTED,
                 fmt::format("no rank of this context runs on CUDA device {}", device));
  }
  return runtime;
}

weft_result allocate(weft_host_instance* host, weft_memory_kind kind, std::int32_t device,
                     std::uint64_t size, std::uint32_t sharing, weft_memory* out) {
  constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 47;
  if (size == 0 || size > kMaxSize || out == nullptr) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        fmt::format("{} bytes of memory asked for", size));
  }
  if (kind == WEFT_MEMORY_HOST && device == -1) return allocate_host(host, size, sharing, out);
  if (kind == WEFT_MEMORY_CUDA && device >= 0) {
    DeviceRuntime* runtime = find_device(host, device);
    return runtime == nullptr ? WEFT_ERROR_UNSUPPORTED
                              : allocate_cuda(host, *runtime, size, sharing, out);
  }
  return host->refuse(WEFT_ERROR_UNSUPPORTED,
                      fmt::format("memory of kind {} on device {} cannot be allocated: there is "
                                  "host memory (kind {}, device -1) and CUDA memory (kind {})",
                                  kind, device, WEFT_MEMORY_HOST + 0, WEFT_MEMORY_CUDA + 0));
}

void free_memory(weft_host_instance* host, weft_memory* memory) {
  if (memory == nullptr || !WEFT_HAS(memory, weft_memory, address)) return;
  std::optional<Allocation> given_back;
  // The driver may wait for kernels that wait for other ranks, which need this instance meanwhile:
  // not under the lock.
  DeviceRuntime* importer = nullptr;
  {
    const std::lock_guard lock(host->mutex);
    // An import has no handle: it may be another rank's allocation of this very instance.
    const auto import =
        memory->handle == nullptr ? host->imports.find(memory->address) : host->imports.end();
    const auto found = host->allocations.find(static_cast<const char*>(memory->address));
    if (import != host->imports.end()) {
      importer = import->second;
      host->imports.erase(import);
    } else if (found != host->allocations.end()) {
      given_back = found->second;
      host->allocations.erase(found);
    }
  }
  if (importer != nullptr) return importer->close_import(memory->address);
  if (!given_back) {
    host->logger.error(Topic::kPlugin,
                       "{}: gave back memory at {} that it does not hold; nothing was freed",
                       host->id, fmt::ptr(memory->address));
    return;
  }
  given_back->runtime->release(given_back->raw);
}

weft_result hand_over(weft_host_instance* host, DeviceRuntime& runtime, void* memory,
                      std::uint32_t sharing, weft_memory_export* out) {
  MemoryTicket ticket;
  const weft_result result = runtime.export_memory(memory, &ticket);
  if (result != WEFT_OK) return device_failure(host, runtime, result, "cannot export CUDA memory");
  weft_memory_export form{};
  form.sharing = sharing;
  form.descriptor = ticket.descriptor;
  form.bytes_used = sizeof(ticket.bytes);
  static_assert(sizeof(form.bytes) == sizeof(ticket.bytes));
  std::memcpy(form.bytes, ticket.bytes.data(), sizeof(form.bytes));
  fill_output(out, form);
  return WEFT_OK;
}

constexpr weft_memory_sharing way_of(const DeviceAllocation& allocation) {
  if (!allocation.can_travel) return WEFT_SHARING_NONE;
  return allocation.sharing == MemorySharing::kDescriptor ? WEFT_SHARING_DESCRIPTOR
                                                          : WEFT_SHARING_IPC;
}

/// Memory that the plugin did not allocate, on a device of this context.
DeviceRuntime* find_program_memory(weft_host_instance* host, const void* address,
                                   DeviceAllocation* out) {
  constexpr std::int32_t kMostDevices = 64;
  for (std::int32_t device = 0; host->cuda_devices && device < kMostDevices; ++device) {
    DeviceRuntime* const runtime = host->cuda_devices(device);
    if (runtime != nullptr && runtime->find_allocation(address, out) == WEFT_OK) return runtime;
  }
  return nullptr;
}

weft_result export_memory(weft_host_instance* host, const weft_memory* memory,
                          std::uint32_t sharing, weft_memory_export* out) {
  if (!WEFT_HAS(memory, weft_memory, address) || !WEFT_HAS(out, weft_memory_export, bytes)) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "export_memory: incomplete arguments");
  }
  std::optional<Allocation> allocation;
  {
    const std::lock_guard lock(host->mutex);
    const auto found = host->allocations.find(static_cast<const char*>(memory->address));
    if (found != host->allocations.end()) allocation = found->second;
  }
  DeviceAllocation of_program;
  DeviceRuntime* const runtime =
      allocation ? nullptr : find_program_memory(host, memory->address, &of_program);
  if (runtime != nullptr && of_program.base == memory->address) {
    if (sharing != WEFT_SHARING_NONE && sharing == way_of(of_program)) {
      return hand_over(host, *runtime, of_program.base, sharing, out);
    }
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "export_memory: the program's memory does not travel in that way");
  }
  if (!allocation) {
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        "export_memory: this instance did not allocate that memory");
  }
  if (allocation->device < 0) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "ordinary host memory cannot be handed to another process",
                        "make a memfd and map it");
  }
  if (sharing == WEFT_SHARING_NONE || sharing != allocation->sharing) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "export_memory: that memory was not allocated for this way of sharing");
  }
  return hand_over(host, *allocation->runtime, allocation->raw, sharing, out);
}

weft_result import_memory(weft_host_instance* host, const weft_memory_export* from,
                          std::int32_t device, void* fixed_address, weft_memory* out) {
  // The descriptor is the host's from the call on, whatever the answer.
  UniqueFd descriptor;
  if (WEFT_HAS(from, weft_memory_export, descriptor) && from->sharing == WEFT_SHARING_DESCRIPTOR) {
    descriptor.reset(from->descriptor);
  }
  if (!WEFT_HAS(from, weft_memory_export, bytes) ||
      (from->sharing != WEFT_SHARING_IPC && !descriptor) ||
      from->bytes_used != sizeof(MemoryTicket::bytes) || fixed_address != nullptr) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        "only CUDA memory that travels by WEFT_SHARING_IPC or "
                        "WEFT_SHARING_DESCRIPTOR can be imported, wherever the driver puts it");
  }
  DeviceRuntime* runtime = find_device(host, device);
  if (runtime == nullptr) return WEFT_ERROR_UNSUPPORTED;
  MemoryTicket ticket;
  std::memcpy(ticket.bytes.data(), from->bytes, sizeof(ticket.bytes));
  ticket.descriptor = descriptor.get();
  void* address = nullptr;
  std::size_t size = 0;
  const weft_result result = runtime->import_memory(ticket, &address, &size);
  if (result != WEFT_OK) {
    return device_failure(
        host, *runtime, result,
        fmt::format("CUDA device {} cannot reach a peer's memory", runtime->index()));
  }
  weft_memory memory{};
  memory.kind = WEFT_MEMORY_CUDA;
  memory.device = device;
  memory.address = address;
  memory.size = size;
  if (!fill_output(out, memory)) {
    runtime->close_import(address);
    return host->refuse(WEFT_ERROR_INVALID_ARGUMENT,
                        "import_memory: the output has no struct_size");
  }
  const std::lock_guard lock(host->mutex);
  host->imports.emplace(address, runtime);
  return WEFT_OK;
}

weft_result query(weft_host_instance* host, const void* address, weft_memory* out) {
  weft_memory memory{};
  {
    const std::lock_guard lock(host->mutex);
    const auto* wanted = static_cast<const char*>(address);
    auto after = host->allocations.upper_bound(wanted);
    if (after != host->allocations.begin()) {
      const auto& [start, allocation] = *std::prev(after);
      if (static_cast<std::uint64_t>(wanted - start) < allocation.size) {
        memory = allocation.describe(start);
      }
    }
  }
  DeviceAllocation of_program;
  if (memory.address == nullptr) {
    const DeviceRuntime* const runtime = find_program_memory(host, address, &of_program);
    if (runtime != nullptr) {
      memory.kind = WEFT_MEMORY_CUDA;
      memory.device = runtime->index();
      memory.sharing = way_of(of_program);
      memory.address = of_program.base;
      memory.size = of_program.bytes;
      memory.allocation_id = of_program.number;
    }
  }
  if (memory.address == nullptr) {
    return host->refuse(WEFT_ERROR_UNSUPPORTED,
                        fmt::format("no allocation of this host lies at {}: ordinary host memory "
                                    "has no allocation id",
                                    fmt::ptr(address)));
  }
  if (fill_output(out, memory)) return WEFT_OK;
  return host->refuse(WEFT_ERROR_INVALID_ARGUMENT, "query: the output has no struct_size");
}

weft_result segments(weft_host_instance* host, const weft_memory* /*memory*/,
                     weft_memory_segment* /*out*/, std::uint64_t /*stride*/,
                     std::uint64_t /*capacity*/, std::uint64_t* /*count*/) {
  return host->refuse(WEFT_ERROR_UNSUPPORTED, "ordinary host memory is not made of segments");
}

weft_result on_revoke(weft_host_instance* host, std::uint64_t /*allocation_id*/,
                      void (* /*revoked*/)(void* user, std::uint64_t allocation_id),
                      void* /*user*/) {
  return host->refuse(WEFT_ERROR_UNSUPPORTED,
                      "ordinary host memory goes only when the plugin itself gives it back");
}
}  // namespace

void provide_memory(weft_host_memory& table) {
  table.struct_size = sizeof(table);
  table.allocate = &allocate;
  table.free = &free_memory;
  table.export_memory = &export_memory;
  table.import_memory = &import_memory;
  table.query = &query;
  table.segments = &segments;
  table.on_revoke = &on_revoke;
}

}  // namespace weft
