// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/cuda_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "core/device/cuda/failure.h"
#include "core/device/cuda/launch.h"
#include "core/device/cuda/scope.h"

namespace weft::device::cuda {
namespace {

constexpr std::size_t kSmallGrain = 512;
/// More than any device has: beyond it a ticket is nonsense, and nothing is rounded up.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;

std::size_t rounded(std::size_t bytes) {
  const std::size_t grain = bytes >= kExportGrain / 4 ? kExportGrain : kSmallGrain;
  return (std::max<std::size_t>(bytes, 1) + grain - 1) / grain * grain;
}

weft_result refuse_more(std::size_t bytes) {
  failure() = {cudaErrorMemoryAllocation,
               std::to_string(bytes) + " bytes are more than any device has"};
  return WEFT_ERROR_OUT_OF_MEMORY;
}

using ProcessName = std::array<std::uint64_t, 2>;

// Drawn once for each process: a pid alone means little where processes have namespaces.
const ProcessName& this_process() {
  static const ProcessName name = [] {
    ProcessName drawn{};
    std::random_device random;
    for (std::uint64_t& word : drawn)
      word = (static_cast<std::uint64_t>(random()) << 32) | random();
    return drawn;
  }();
  return name;
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// The graph that what the stream is given becomes part of, null of none.
cudaError_t find_captured_graph(cudaStream_t stream, cudaGraph_t* graph) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  *graph = nullptr;
#if CUDART_VERSION >= 13000
  return cudaStreamGetCaptureInfo(stream, &status, nullptr, graph);
#else
  return cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, graph);
#endif
}

}  // namespace

/// Of which kind the memory is says whether a descriptor came with it.
struct CudaMemory::Ticket {
  ProcessName process{};
  std::uint64_t number = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::int32_t device = 0;
  std::uint32_t of_program = 0;
  cudaIpcMemHandle_t handle{};

  [[nodiscard]] AllocationName name() const { return {process[0], process[1], number}; }
};

CudaMemory::~CudaMemory() {
  const Scope scope(device_);
  for (const Retired& retired : retired_)
    static_cast<void>(cudaEventDestroy(retired.over));
  for (const auto& [name, opened] : opened_)
    static_cast<void>(cudaIpcCloseMemHandle(opened.memory));
  for (void* memory : opened_of_programs_)
    static_cast<void>(cudaIpcCloseMemHandle(memory));
  for (const auto& [name, import] : mapped_)
    unmap(import.memory);
  for (const auto& [memory, bytes] : pieces_)
    cuda::close_pieces(memory, bytes);
  free_.for_each([](const Block& block) { destroy(block); });
  for (const auto& [address, block] : used_)
    destroy(block);
  if (own_stream_ != nullptr) static_cast<void>(cudaStreamDestroy(own_stream_));
}

weft_result CudaMemory::prepare() {
  return make_stream(&own_stream_);
}

bool CudaMemory::is_lost() const {
  const Scope scope(device_);
  const cudaError_t state = cudaStreamQuery(own_stream_);
  if (state != cudaSuccess) static_cast<void>(cudaGetLastError());
  return state != cudaSuccess && state != cudaErrorNotReady;
}

weft_result CudaMemory::make(Kind kind, std::size_t bytes, Block* out) {
  Block block{.kind = kind, .number = next_number(), .memory = {}};
  block.memory.bytes = bytes;
  switch (kind) {
    case kDevice:
      WEFT_CUDA(cudaMalloc(&block.memory.address, bytes));
      break;
    case kHost:
      WEFT_CUDA(
          cudaHostAlloc(&block.memory.address, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
      break;
    case kMapped: {
      const weft_result created = create_mapped(device_, bytes, &block.memory);
      if (created != WEFT_OK) return created;
      break;
    }
  }
  *out = block;
  return WEFT_OK;
}

void CudaMemory::destroy(const Block& block) {
  switch (block.kind) {
    case kDevice:
      static_cast<void>(cudaFree(block.memory.address));
      break;
    case kHost:
      static_cast<void>(cudaFreeHost(block.memory.address));
      break;
    case kMapped:
      unmap(block.memory);
      break;
  }
}

weft_result CudaMemory::clear(const Block& block) {
  if (block.kind == kHost) {
    std::memset(block.memory.address, 0, block.memory.bytes);
    return WEFT_OK;
  }
  WEFT_CUDA(cudaMemsetAsync(block.memory.address, 0, block.memory.bytes, own_stream_));
  WEFT_CUDA(cudaStreamSynchronize(own_stream_));
  return WEFT_OK;
}

weft_result CudaMemory::find(Kind kind, std::size_t bytes, Block* out) {
  if (bytes > kMostBytes) return refuse_more(bytes);
  const Scope scope(device_);
  const std::size_t size = rounded(bytes);
  release_retired();
  {
    const std::scoped_lock lock(mutex_);
    if (const auto kept = free_.take(kind, size)) {
      *out = *kept;
      return WEFT_OK;
    }
  }
  return make(kind, size, out);
}

weft_result CudaMemory::take(Kind kind, std::size_t bytes, void** out) {
  *out = nullptr;
  const Scope scope(device_);
  Block block;
  const weft_result found = find(kind, bytes, &block);
  return found != WEFT_OK ? found : register_block(block, out);
}

weft_result CudaMemory::allocate_unset(std::size_t bytes, void** out) {
  *out = nullptr;
  Block block;
  const weft_result found = find(kDevice, bytes, &block);
  if (found == WEFT_OK) *out = hold(block);
  return found;
}

void* CudaMemory::hold(const Block& block) {
  const std::scoped_lock lock(mutex_);
  used_.emplace(block.memory.address, block);
  return block.memory.address;
}

weft_result CudaMemory::register_block(const Block& block, void** out) {
  void* const memory = hold(block);
  if (const weft_result cleared = clear(block); cleared != WEFT_OK) {
    release(memory);
    return cleared;
  }
  *out = memory;
  return WEFT_OK;
}

void CudaMemory::release(void* memory) {
  if (memory == nullptr) return;
  keep(memory);
  close_idle_behind_last();
}

void CudaMemory::keep(void* memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(memory);
  if (found == used_.end()) return;
  const Block block = found->second;
  used_.erase(found);
  free_.keep(block.kind, block.memory.bytes, block);
}

void CudaMemory::release_retired() {
  std::vector<void*> ended;
  {
    const std::scoped_lock lock(keeper_->mutex);
    ended.swap(keeper_->ended);
  }
  std::ranges::for_each(ended, [this](void* memory) { keep(memory); });
  const std::scoped_lock lock(retired_mutex_);
  std::erase_if(retired_, [&](const Retired& retired) {
    const cudaError_t over = cudaEventQuery(retired.over);
    if (over == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
    if (over != cudaSuccess) return false;
    static_cast<void>(cudaEventDestroy(retired.over));
    keep(retired.memory);
    return true;
  });
}

struct CudaMemory::KeptByGraph {
  std::shared_ptr<Keeper> keeper;
  void* memory = nullptr;
};

weft_result CudaMemory::leave_to_graph(cudaGraph_t graph, void* memory) {
  auto kept = std::make_unique<KeptByGraph>(KeptByGraph{.keeper = keeper_, .memory = memory});
  // On a thread of the driver's, which calls nothing of CUDA and is not to wait.
  const auto give_back = [](void* object) {
    const std::unique_ptr<KeptByGraph> gone(static_cast<KeptByGraph*>(object));
    const std::scoped_lock lock(gone->keeper->mutex);
    gone->keeper->ended.push_back(gone->memory);
  };
  cudaUserObject_t object = nullptr;
  WEFT_CUDA(
      cudaUserObjectCreate(&object, kept.get(), give_back, 1, cudaUserObjectNoDestructorSync));
  static_cast<void>(kept.release());
  return check(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove),
               "cudaGraphRetainUserObject");
}

weft_result CudaMemory::release_behind(cudaStream_t stream, void* memory) {
  cudaGraph_t graph = nullptr;
  WEFT_CUDA(find_captured_graph(stream, &graph));
  if (graph != nullptr) return leave_to_graph(graph, memory);
  Retired retired{.over = nullptr, .memory = memory};
  WEFT_CUDA(cudaEventCreateWithFlags(&retired.over, cudaEventDisableTiming));
  const weft_result recorded = check(cudaEventRecord(retired.over, stream), "cudaEventRecord");
  if (recorded != WEFT_OK) {
    static_cast<void>(cudaEventDestroy(retired.over));
    return recorded;
  }
  const std::scoped_lock lock(retired_mutex_);
  retired_.push_back(retired);
  return WEFT_OK;
}

HeldMemory CudaMemory::held() {
  {
    const Scope scope(device_);
    release_retired();
  }
  HeldMemory held;
  const std::scoped_lock lock(mutex_);
  for (const auto& [address, block] : used_)
    (block.kind == kHost ? held.host_in_use : held.in_use) += block.memory.bytes;
  free_.for_each([&](const Block& block) {
    (block.kind == kHost ? held.host_kept : held.kept) += block.memory.bytes;
  });
  return held;
}

// Not out of what was kept, and not kept: a program's buffers are large, and come in all sizes.
weft_result CudaMemory::allocate_for_program(std::size_t bytes, void** out) {
  *out = nullptr;
  if (bytes > kMostBytes) return refuse_more(bytes);
  const Scope scope(device_);
  const std::size_t size =
      (std::max<std::size_t>(bytes, 1) + kExportGrain - 1) / kExportGrain * kExportGrain;
  Block block;
  weft_result made = make(kMapped, size, &block);
  if (made == WEFT_ERROR_UNSUPPORTED) made = make(kDevice, size, &block);
  if (made != WEFT_OK) return made;
  block.of_program = true;
  return register_block(block, out);
}

void CudaMemory::release_for_program(void* memory) {
  Block block;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end() || !found->second.of_program) return;
    block = found->second;
    used_.erase(found);
  }
  const Scope scope(device_);
  destroy(block);
}

weft_result CudaMemory::find_allocation(const void* address, DeviceAllocation* out) {
  auto* const wanted = static_cast<std::byte*>(const_cast<void*>(address));
  {
    const std::scoped_lock lock(mutex_);
    auto after = used_.upper_bound(wanted);
    if (after != used_.begin()) {
      const auto& [base, block] = *std::prev(after);
      const auto within = static_cast<std::size_t>(wanted - static_cast<std::byte*>(base));
      if (block.kind != kHost && within < block.memory.bytes) {
        *out = {
            .base = base,
            .bytes = block.memory.bytes,
            .number = block.number,
            .can_travel = block.memory.bytes % kExportGrain == 0,
            .sharing = block.kind == kMapped ? MemorySharing::kDescriptor : MemorySharing::kTicket};
        return WEFT_OK;
      }
    }
  }
  const Scope scope(device_);
  return program_memory(device_, wanted, out);
}

// What cudaMalloc gave a program. The ticket opens all of the allocation, and what shares its
// pages: the program asked for it.
weft_result CudaMemory::export_of_program(void* memory, Ticket* ticket) {
  DeviceAllocation found;
  if (const weft_result known = program_memory(device_, memory, &found); known != WEFT_OK) {
    return known;
  }
  if (!found.can_travel || found.base != memory) {
    failure() = {cudaErrorInvalidValue, "the memory was not made by cudaMalloc"};
    return WEFT_ERROR_UNSUPPORTED;
  }
  ticket->number = found.number;
  ticket->bytes = found.bytes;
  ticket->of_program = 1;
  WEFT_CUDA(cudaIpcGetMemHandle(&ticket->handle, memory));
  return WEFT_OK;
}

weft_result CudaMemory::export_memory(void* memory, MemoryTicket* out) {
  Block block;
  bool found_own = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = used_.find(memory);
    found_own = found != used_.end();
    if (found_own) block = found->second;
  }
  if (!found_own) {
    const Scope scope(device_);
    Ticket ticket;
    ticket.process = this_process();
    ticket.address = reinterpret_cast<std::uint64_t>(memory);
    ticket.device = device_;
    const weft_result exported = export_of_program(memory, &ticket);
    if (exported == WEFT_OK) std::memcpy(out->bytes.data(), &ticket, sizeof(ticket));
    out->descriptor = -1;
    return exported;
  }
  // A smaller one shares its pages with others, which a ticket would open as well.
  if (block.memory.bytes == 0 || block.kind == kHost || block.memory.bytes % kExportGrain != 0) {
    failure() = {cudaErrorInvalidValue, "only whole allocations of 512 KiB or more are exported"};
    return WEFT_ERROR_INVALID_ARGUMENT;
  }
  const Scope scope(device_);
  Ticket ticket;
  ticket.process = this_process();
  ticket.number = block.number;
  ticket.address = reinterpret_cast<std::uint64_t>(memory);
  ticket.bytes = block.memory.bytes;
  ticket.device = device_;
  ticket.of_program = block.of_program ? 1 : 0;
  int descriptor = -1;
  if (block.kind == kMapped) {
    const weft_result exported = export_descriptor(block.memory, &descriptor);
    if (exported != WEFT_OK) return exported;
  } else {
    WEFT_CUDA(cudaIpcGetMemHandle(&ticket.handle, memory));
  }
  static_assert(sizeof(ticket) <= sizeof(out->bytes));
  std::memcpy(out->bytes.data(), &ticket, sizeof(ticket));
  out->descriptor = descriptor;
  return WEFT_OK;
}

weft_result CudaMemory::import_memory(const MemoryTicket& from, void** out, std::size_t* bytes) {
  Ticket ticket;
  std::memcpy(&ticket, from.bytes.data(), sizeof(ticket));
  const Scope scope(device_);
  if (from.descriptor >= 0) return import_mapped(ticket, from.descriptor, out, bytes);
  if (ticket.process == this_process()) return import_own(ticket, out, bytes);
  void* memory = nullptr;
  if (const weft_result opened = open_ticket(ticket, &memory); opened != WEFT_OK) return opened;
  // How much that opened says the driver, not the ticket.
  void* base = nullptr;
  const weft_result known = address_range(memory, &base, bytes);
  if (known != WEFT_OK) {
    const Failure why = failure();
    close_import(memory);
    failure() = why;
    return known;
  }
  *out = memory;
  return WEFT_OK;
}

// A peer that makes its context anew may have other memory at an address of which this process has
// what was there before open still, idle; the driver then opens nothing.
weft_result CudaMemory::open_ticket(const Ticket& ticket, void** out) {
  const weft_result opened = open_once(ticket, out);
  if (opened == WEFT_OK || failure().code != cudaErrorAlreadyMapped) return opened;
  close_idle();
  return open_once(ticket, out);
}

weft_result CudaMemory::open_once(const Ticket& ticket, void** out) {
  const std::scoped_lock opening(opening_mutex_);
  {
    const std::scoped_lock lock(mutex_);
    const auto known = ticket.of_program != 0 ? opened_.end() : opened_.find(ticket.name());
    if (known != opened_.end()) {
      ++known->second.uses;
      *out = known->second.memory;
      return WEFT_OK;
    }
  }
  WEFT_CUDA(cudaIpcOpenMemHandle(out, ticket.handle, cudaIpcMemLazyEnablePeerAccess));
  const std::scoped_lock lock(mutex_);
  if (ticket.of_program != 0) {
    opened_of_programs_.insert(*out);
  } else {
    opened_.emplace(ticket.name(), Opened{.memory = *out, .uses = 1});
  }
  return WEFT_OK;
}

// Not under the mutex, since each close waits for kernels.
void CudaMemory::close_idle() {
  while (true) {
    void* memory = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      const auto idle =
          std::ranges::find_if(opened_, [](const auto& entry) { return entry.second.uses == 0; });
      if (idle == opened_.end()) return;
      memory = idle->second.memory;
      opened_.erase(idle);
    }
    const Scope scope(device_);
    static_cast<void>(cudaIpcCloseMemHandle(memory));
  }
}

// A communicator that ends does not count any more as it gives back what it had.
void CudaMemory::close_idle_behind_last() {
  if (communicators_.load() == 0) close_idle();
}

// Its owner hands out the same allocation again and again, to communicators beside each other: it
// is mapped once.
weft_result CudaMemory::import_mapped(const Ticket& ticket, int descriptor, void** out,
                                      std::size_t* bytes) {
  if (ticket.bytes == 0 || ticket.bytes > kMostBytes || ticket.bytes % kExportGrain != 0) {
    failure() = {cudaErrorInvalidValue,
                 "the ticket speaks of " + std::to_string(ticket.bytes) + " bytes"};
    return WEFT_ERROR_PEER;
  }
  const AllocationName name = ticket.name();
  const std::scoped_lock lock(mutex_);  // so that two threads do not map it twice
  auto known = mapped_.find(name);
  if (known == mapped_.end()) {
    Import import;
    const weft_result imported =
        import_descriptor(device_, descriptor, ticket.bytes, &import.memory);
    if (imported != WEFT_OK) return imported;
    known = mapped_.emplace(name, import).first;
  }
  ++known->second.uses;
  *out = known->second.memory.address;
  *bytes = known->second.memory.bytes;
  return WEFT_OK;
}

void CudaMemory::close_import(void* memory) {
  const Scope scope(device_);
  MappedMemory mapped;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find_if(
        mapped_, [&](const auto& entry) { return entry.second.memory.address == memory; });
    if (known != mapped_.end() && --known->second.uses == 0) {
      mapped = known->second.memory;
      mapped_.erase(known);
    }
    const auto used = std::ranges::find_if(opened_, [&](const auto& entry) {
      return entry.second.memory == memory && entry.second.uses != 0;
    });
    if (used != opened_.end()) --used->second.uses;
    const auto opened = opened_of_programs_.find(memory);
    if (opened == opened_of_programs_.end()) {
      memory = nullptr;
    } else {
      opened_of_programs_.erase(opened);
    }
  }
  if (mapped.address != nullptr) unmap(mapped);
  if (memory != nullptr) static_cast<void>(cudaIpcCloseMemHandle(memory));
  close_idle_behind_last();
}

weft_result CudaMemory::find_piece(const void* address, MemoryPiece* out) const {
  const Scope scope(device_);
  return cuda::find_piece(device_, address, out);
}

std::uint64_t CudaMemory::piece_number(const void* address) const {
  const Scope scope(device_);
  return cuda::piece_number(address);
}

weft_result CudaMemory::export_piece(const MemoryPiece& piece, int* descriptor) const {
  const Scope scope(device_);
  return cuda::export_piece(device_, piece, descriptor);
}

weft_result CudaMemory::import_pieces(std::span<const ForeignPiece> pieces, void** out) {
  const Scope scope(device_);
  std::size_t bytes = 0;
  for (const ForeignPiece& piece : pieces) {
    if (piece.bytes == 0 || piece.bytes > kMostBytes || piece.bytes % kExportGrain != 0) {
      failure() = {cudaErrorInvalidValue,
                   "a piece is said to have " + std::to_string(piece.bytes) + " bytes"};
      return WEFT_ERROR_PEER;
    }
    bytes += piece.bytes;
  }
  const weft_result imported = cuda::import_pieces(device_, pieces, out);
  if (imported != WEFT_OK) return imported;
  const std::scoped_lock lock(mutex_);
  pieces_.emplace(*out, bytes);
  return WEFT_OK;
}

void CudaMemory::close_pieces(void* memory) {
  std::size_t bytes = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = pieces_.find(memory);
    if (known == pieces_.end()) return;
    bytes = known->second;
    pieces_.erase(known);
  }
  const Scope scope(device_);
  cuda::close_pieces(memory, bytes);
}

// Memory that this process holds itself has an address already, but the ticket may be stale.
weft_result CudaMemory::import_own(const Ticket& ticket, void** out, std::size_t* bytes) {
  auto* memory = reinterpret_cast<void*>(ticket.address);
  cudaPointerAttributes attributes{};
  WEFT_CUDA(cudaPointerGetAttributes(&attributes, memory));
  bool alive = attributes.type == cudaMemoryTypeDevice && attributes.device == ticket.device;
  if (alive) {
    const Scope owner(ticket.device);  // the driver asks the current context
    void* base = nullptr;
    alive = address_range(memory, &base, bytes) == WEFT_OK && base == memory;
  }
  if (!alive) {
    failure() = {cudaErrorInvalidDevicePointer, "the ticket names memory that is no more"};
    return WEFT_ERROR_PEER;
  }
  const weft_result reached = reach(ticket.device);
  if (reached != WEFT_OK) return reached;
  *out = memory;
  return WEFT_OK;
}

weft_result CudaMemory::reach(std::int32_t peer) {
  if (peer == device_) return WEFT_OK;
  {
    const std::scoped_lock lock(mutex_);
    if (reached_.contains(peer)) return WEFT_OK;
  }
  const Scope scope(device_);
  int possible = 0;
  WEFT_CUDA(cudaDeviceCanAccessPeer(&possible, device_, peer));
  if (possible == 0) {
    failure() = {cudaErrorPeerAccessUnsupported, "CUDA devices " + std::to_string(device_) +
                                                     " and " + std::to_string(peer) +
                                                     " cannot reach each other's memory"};
    return WEFT_ERROR_UNSUPPORTED;
  }
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    WEFT_CUDA(enabled);
  }
  const std::scoped_lock lock(mutex_);
  reached_.insert(peer);
  return WEFT_OK;
}

bool CudaMemory::is_open_to(std::int32_t peer, const void* memory, std::size_t bytes) const {
  const Scope scope(device_);
  return open_to(device_, peer, memory, bytes);
}

weft_result CudaMemory::register_host(void* memory, std::size_t bytes) {
  const Scope scope(device_);
  const cudaError_t registered =
      cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (registered == cudaErrorHostMemoryAlreadyRegistered) {
    static_cast<void>(cudaGetLastError());
    return WEFT_OK;
  }
  WEFT_CUDA(registered);
  return WEFT_OK;
}

void CudaMemory::unregister_host(void* memory) {
  const Scope scope(device_);
  if (cudaHostUnregister(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace weft::device::cuda
