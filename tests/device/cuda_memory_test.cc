// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long memory of other processes stays mapped, and what is told of a device's own. It takes no
// GPU: of the CUDA runtime and of the driver there is what that asks for, and the linker leaves all
// else out.
#include "core/device/cuda/cuda_memory.h"

#include <cstddef>
#include <cstdint>
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

}  // namespace

extern "C" {
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

  CudaMemory owner_{0};
  CudaMemory reader_{1};
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
  CudaMemory other(2);
  void* memory = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(other.import_memory(ticket, &memory, &bytes), WEFT_OK);
  EXPECT_EQ(mapped().size(), 1U);
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
  CudaMemory memory(0);
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

}  // namespace
}  // namespace weft::device::cuda
