// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long memory of other processes stays mapped, and what is told of a device's own. It takes no
// GPU: of the CUDA runtime and of the driver there is what that asks for, and the linker leaves all
// else out.
#include "core/device/cuda/cuda_memory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/cuda/driver_memory.h"
#include "core/device/cuda/scope.h"

namespace {

/// What devices have mapped of descriptors.
std::set<void*>& mapped() {
  static std::set<void*> addresses;
  return addresses;
}

/// What cudaMalloc gives: a place that is free, so that who allocates anew gets the same one again.
std::array<std::byte, 4>& places() {
  static std::array<std::byte, 4> all;
  return all;
}
std::set<void*>& allocated() {
  static std::set<void*> addresses;
  return addresses;
}
/// What is open of another process' memory by CUDA IPC.
struct Opened {
  cudaIpcMemHandle_t handle{};
  int times = 0;
};
std::map<void*, Opened>& opened() {
  static std::map<void*, Opened> addresses;
  return addresses;
}

}  // namespace

extern "C" {
cudaError_t cudaMalloc(void** memory, size_t /*bytes*/) {
  for (std::byte& place : places()) {
    *memory = &place;
    if (allocated().insert(&place).second) return cudaSuccess;
  }
  return cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) {
  allocated().erase(memory);
  return cudaSuccess;
}
/// No two are alike, though they be of one address.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  static int count = 0;
  ++count;
  std::memcpy(handle->reserved, &memory, sizeof(memory));
  std::memcpy(handle->reserved + sizeof(memory), &count, sizeof(count));
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned /*flags*/) {
  std::memcpy(memory, handle.reserved, sizeof(*memory));
  Opened& there = opened()[*memory];
  if (there.times != 0 && std::memcmp(&there.handle, &handle, sizeof(handle)) != 0) {
    return cudaErrorAlreadyMapped;
  }
  there = {.handle = handle, .times = there.times + 1};
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  if (--opened().at(memory).times == 0) opened().erase(memory);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "it did not work";
}
const char* cudaGetErrorName(cudaError_t /*error*/) {
  return "cudaError";
}
cudaError_t cudaMemsetAsync(void* /*memory*/, int /*value*/, size_t /*bytes*/,
                            cudaStream_t /*stream*/) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  return cudaSuccess;
}
}

namespace weft::device::cuda {

Scope::Scope(std::int32_t /*index*/) {}
Scope::~Scope() = default;

weft_result create_mapped(std::int32_t /*device*/, std::size_t bytes, MappedMemory* out) {
  *out = {.address = new std::byte, .bytes = bytes};
  return WEFT_OK;
}
weft_result export_descriptor(const MappedMemory& /*memory*/, int* descriptor) {
  *descriptor = 0;
  return WEFT_OK;
}
weft_result import_descriptor(std::int32_t device, int /*descriptor*/, std::size_t bytes,
                              MappedMemory* out) {
  if (const weft_result made = create_mapped(device, bytes, out); made != WEFT_OK) return made;
  mapped().insert(out->address);
  return WEFT_OK;
}
weft_result address_range(void* memory, void** base, std::size_t* bytes) {
  *base = memory;
  *bytes = std::size_t{2} << 20;
  return WEFT_OK;
}
void unmap(const MappedMemory& memory) {
  mapped().erase(memory.address);
  delete static_cast<std::byte*>(memory.address);
}

namespace {

constexpr std::size_t kBytes = 2 << 20;

class Imports : public testing::Test {
 protected:
  ~Imports() override { EXPECT_TRUE(mapped().empty()); }

  MemoryTicket export_some() {
    void* memory = nullptr;
    MemoryTicket ticket;
    EXPECT_EQ(owner_.allocate_to_share(kBytes, MemorySharing::kDescriptor, &memory), WEFT_OK);
    EXPECT_EQ(owner_.export_memory(memory, &ticket), WEFT_OK);
    return ticket;
  }
  void* import(const MemoryTicket& ticket) {
    void* memory = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(reader_.import_memory(ticket, &memory, &bytes), WEFT_OK);
    EXPECT_EQ(bytes, kBytes);
    return memory;
  }

  std::atomic<std::uint32_t> communicators_{1};
  CudaMemory owner_{0, communicators_};
  CudaMemory reader_{1, communicators_};
};

TEST_F(Imports, AreMappedOnceForAllWhoUseThem) {
  const MemoryTicket ticket = export_some();
  void* const memory = import(ticket);
  EXPECT_EQ(import(ticket), memory);
  EXPECT_EQ(mapped().size(), 1U);
  reader_.close_import(memory);
  EXPECT_EQ(mapped().size(), 1U);
  reader_.close_import(memory);
}

// Else the memory of a process that has ended would not be free before this one ends, too.
TEST_F(Imports, EndWithTheLastOneWhoUsesThem) {
  const MemoryTicket ticket = export_some();
  const MemoryTicket other = export_some();
  void* const kept = import(other);
  reader_.close_import(import(ticket));
  EXPECT_EQ(mapped(), std::set{kept});
  void* const again = import(ticket);
  EXPECT_EQ(mapped(), (std::set{kept, again}));
  reader_.close_import(again);
  reader_.close_import(kept);
}

// Whoever ends with the process closes nothing.
TEST_F(Imports, EndWithTheDevice) {
  const MemoryTicket ticket = export_some();
  CudaMemory other(2, communicators_);
  void* memory = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(other.import_memory(ticket, &memory, &bytes), WEFT_OK);
  EXPECT_EQ(mapped().size(), 1U);
}

/// Memory of another process that travels by a ticket alone.
class ImportsByIpc : public testing::Test {
 protected:
  ~ImportsByIpc() override {
    reader_.reset();
    EXPECT_TRUE(opened().empty());
  }

  MemoryTicket export_some() {
    void* memory = nullptr;
    MemoryTicket ticket;
    EXPECT_EQ(owner_->allocate_to_share(kBytes, MemorySharing::kTicket, &memory), WEFT_OK);
    EXPECT_EQ(owner_->export_memory(memory, &ticket), WEFT_OK);
    ticket.bytes[0] ^= std::byte{1};  // a part of the process' name
    return ticket;
  }
  /// What the owner allocates next lies where it had something before.
  void free_all() { owner_ = std::make_unique<CudaMemory>(0, communicators_); }
  void* import(const MemoryTicket& ticket, weft_result wanted = WEFT_OK) {
    void* memory = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(reader_->import_memory(ticket, &memory, &bytes), wanted);
    return memory;
  }

  std::atomic<std::uint32_t> communicators_{1};
  std::unique_ptr<CudaMemory> owner_ = std::make_unique<CudaMemory>(0, communicators_);
  std::unique_ptr<CudaMemory> reader_ = std::make_unique<CudaMemory>(1, communicators_);
};

// To close it would wait for kernels that run.
TEST_F(ImportsByIpc, StayOpenWhileTheDeviceHasACommunicator) {
  const MemoryTicket ticket = export_some();
  void* const memory = import(ticket);
  EXPECT_EQ(import(ticket), memory);
  for (int user = 0; user < 2; ++user)
    reader_->close_import(memory);
  EXPECT_EQ(opened().at(memory).times, 1) << "for the next";
  EXPECT_EQ(import(ticket), memory);
  EXPECT_EQ(opened().at(memory).times, 1);
}

// Else the memory would stay allocated, though its owner frees it, before this process ends.
TEST_F(ImportsByIpc, EndWithTheLastCommunicatorOfTheDevice) {
  void* const first = import(export_some());
  void* const second = import(export_some());
  void* const third = import(export_some());
  reader_->close_import(first);
  EXPECT_EQ(opened().size(), 3U);
  communicators_ = 0;
  reader_->close_import(second);
  EXPECT_EQ(opened().size(), 1U);
  EXPECT_TRUE(opened().contains(third)) << "somebody uses it";
  reader_->close_import(third);
  EXPECT_TRUE(opened().empty());
}

// Which has opened nothing itself, but gives back its own memory.
TEST_F(ImportsByIpc, EndWithWhateverCommunicatorIsTheLast) {
  void* own = nullptr;
  ASSERT_EQ(reader_->allocate(kBytes, &own), WEFT_OK);
  reader_->close_import(import(export_some()));
  communicators_ = 0;
  EXPECT_EQ(opened().size(), 1U);
  reader_->release(own);
  EXPECT_TRUE(opened().empty());
}

TEST_F(ImportsByIpc, GiveWayToWhatIsMadeAnewAtTheirAddress) {
  void* const memory = import(export_some());
  void* const other = import(export_some());
  reader_->close_import(memory);
  free_all();
  const MemoryTicket anew = export_some();
  EXPECT_EQ(import(anew), memory);
  EXPECT_EQ(opened().size(), 2U);
  reader_->close_import(other);
  reader_->close_import(memory);
}

TEST_F(ImportsByIpc, InUseGiveWayToNothing) {
  void* const memory = import(export_some());
  free_all();
  const MemoryTicket anew = export_some();
  EXPECT_EQ(import(anew, WEFT_ERROR_DEVICE), nullptr);
  reader_->close_import(memory);
  EXPECT_EQ(import(anew), memory);
}

void expect_held(CudaMemory& memory, std::size_t in_use, std::size_t kept) {
  const HeldMemory held = memory.held();
  EXPECT_EQ(held.in_use, in_use);
  EXPECT_EQ(held.kept, kept);
  EXPECT_EQ(held.host_in_use, 0U);
  EXPECT_EQ(held.host_kept, 0U);
}

// What a program gives back is not kept.
TEST(HeldMemory, TellsWhatIsKept) {
  const std::atomic<std::uint32_t> communicators{1};
  CudaMemory memory(0, communicators);
  expect_held(memory, 0, 0);
  void* first = nullptr;
  void* of_program = nullptr;
  ASSERT_EQ(memory.allocate_to_share(kBytes, MemorySharing::kDescriptor, &first), WEFT_OK);
  ASSERT_EQ(memory.allocate_for_program(3 * kBytes, &of_program), WEFT_OK);
  expect_held(memory, 4 * kBytes, 0);
  memory.release(first);
  expect_held(memory, 3 * kBytes, kBytes);
  void* again = nullptr;
  ASSERT_EQ(memory.allocate_to_share(kBytes, MemorySharing::kDescriptor, &again), WEFT_OK);
  EXPECT_EQ(again, first);
  expect_held(memory, 4 * kBytes, 0);
  memory.release_for_program(of_program);
  memory.release(again);
  expect_held(memory, 0, kBytes);
}

// Rounded up they would be none.
TEST(ProgramMemory, OfMoreBytesThanThereAreIsRefused) {
  const std::atomic<std::uint32_t> communicators{1};
  CudaMemory memory(0, communicators);
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - kBytes + 2, SIZE_MAX / 2}) {
    void* out = nullptr;
    EXPECT_EQ(memory.allocate_for_program(bytes, &out), WEFT_ERROR_OUT_OF_MEMORY) << bytes;
    EXPECT_EQ(out, nullptr);
  }
  expect_held(memory, 0, 0);
}

}  // namespace
}  // namespace weft::device::cuda
