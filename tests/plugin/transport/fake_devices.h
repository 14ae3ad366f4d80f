// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for the memory of CUDA devices, where there are none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <plugin_api/plugin.h>

#include "tests/support/forked_child.h"

namespace weft::test {

/// The memory of all devices: files in memory, whose descriptors travel as those of a GPU's would.
class FakeDevices {
 public:
  /// What a plugin gets are whole ones, as of the host.
  static constexpr std::uint64_t kPageBytes = std::uint64_t{2} << 20;

  static FakeDevices& instance() {
    static FakeDevices devices;
    return devices;
  }

  bool refuses_imports = false;

  std::byte* allocate(std::uint64_t size, weft_memory_sharing sharing) {
    const int file = ::memfd_create("device-memory", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(size)), 0);
    std::byte* const memory = map(file, size);
    allocations_[memory] = {.file = file, .size = size, .sharing = sharing};
    return memory;
  }
  void release(std::byte* memory) {
    const Allocation gone = allocations_.at(memory);
    allocations_.erase(memory);
    ::munmap(memory, gone.size);
    ::close(gone.file);
  }
  [[nodiscard]] std::size_t allocations() const { return allocations_.size(); }
  [[nodiscard]] std::size_t imports() const { return imports_.size(); }
  /// Descriptors that were asked for, ever.
  [[nodiscard]] std::size_t exported() const { return exported_; }
  /// Of the devices' memory, in a child that this process forks now; but for the devices' own, one
  /// an allocation.
  [[nodiscard]] int descriptors_in_child() const {
    const int all = in_forked_child([] {
      int found = 0;
      for (int descriptor = 0; descriptor < 1024; ++descriptor) {
        std::array<char, 32> path{};
        std::array<char, 64> target{};
        std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", descriptor);
        if (::readlink(path.data(), target.data(), target.size() - 1) < 0) continue;
        if (std::strstr(target.data(), "device-memory") != nullptr) ++found;
      }
      return found;
    });
    return all - static_cast<int>(allocations());
  }
  /// Whether it lies in what was allocated, rather than in a mapping of somebody else's.
  [[nodiscard]] bool is_own(const void* address) const {
    return std::ranges::any_of(allocations_, [&](const auto& entry) {
      return address >= entry.first && address < entry.first + entry.second.size;
    });
  }
  [[nodiscard]] static const weft_host_memory& table() {
    static const weft_host_memory table = [] {
      weft_host_memory made{};
      made.struct_size = sizeof(made);
      made.allocate = [](weft_host_instance*, weft_memory_kind, std::int32_t, std::uint64_t size,
                         std::uint32_t sharing, weft_memory* out) {
        const std::uint64_t pages = (size + kPageBytes - 1) / kPageBytes;
        return instance().query(instance().allocate(pages * kPageBytes, sharing), out);
      };
      made.query = [](weft_host_instance*, const void* address, weft_memory* out) {
        return instance().query(address, out);
      };
      made.export_memory = [](weft_host_instance*, const weft_memory* memory, std::uint32_t sharing,
                              weft_memory_export* out) {
        return instance().export_memory(*memory, sharing, out);
      };
      made.import_memory = [](weft_host_instance*, const weft_memory_export* from, std::int32_t,
                              void*,
                              weft_memory* out) { return instance().import_memory(*from, out); };
      made.free = [](weft_host_instance*, weft_memory* memory) {
        instance().free(static_cast<std::byte*>(memory->address));
      };
      return made;
    }();
    return table;
  }

 private:
  struct Allocation {
    int file = -1;
    std::uint64_t size = 0;
    weft_memory_sharing sharing = WEFT_SHARING_NONE;
  };

  static std::byte* map(int file, std::uint64_t size) {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  }
  weft_result query(const void* address, weft_memory* out) {
    for (const auto& [memory, allocation] : allocations_) {
      if (address < memory || address >= memory + allocation.size) continue;
      *out = {.struct_size = out->struct_size,
              .kind = WEFT_MEMORY_CUDA,
              .device = 0,
              .sharing = allocation.sharing,
              .address = memory,
              .size = allocation.size,
              .allocation_id = 7,
              .generation = 0,
              .handle = nullptr};
      return WEFT_OK;
    }
    return WEFT_ERROR_UNSUPPORTED;
  }
  weft_result export_memory(const weft_memory& memory, std::uint32_t sharing,
                            weft_memory_export* out) {
    const Allocation& found = allocations_.at(static_cast<std::byte*>(memory.address));
    if (sharing == WEFT_SHARING_DESCRIPTOR) ++exported_;
    out->sharing = sharing;
    out->descriptor = sharing == WEFT_SHARING_DESCRIPTOR ? ::dup(found.file) : -1;
    out->bytes_used = sizeof(out->bytes);
    std::memcpy(out->bytes, &found, sizeof(found));
    return WEFT_OK;
  }
  weft_result import_memory(const weft_memory_export& from, weft_memory* out) {
    if (refuses_imports) {
      if (from.sharing == WEFT_SHARING_DESCRIPTOR) ::close(from.descriptor);
      return WEFT_ERROR_OUT_OF_MEMORY;
    }
    Allocation told;
    std::memcpy(&told, from.bytes, sizeof(told));
    std::byte* const memory =
        map(from.sharing == WEFT_SHARING_DESCRIPTOR ? from.descriptor : told.file, told.size);
    if (from.sharing == WEFT_SHARING_DESCRIPTOR) ::close(from.descriptor);
    out->address = memory;
    out->size = told.size;
    imports_[memory] = told.size;
    return WEFT_OK;
  }
  void free(std::byte* memory) {
    if (allocations_.contains(memory)) return release(memory);
    const auto found = imports_.find(memory);
    ASSERT_NE(found, imports_.end()) << "what was never imported is given back";
    ::munmap(memory, found->second);
    imports_.erase(found);
  }

  std::map<std::byte*, Allocation> allocations_;
  std::map<void*, std::uint64_t> imports_;
  std::size_t exported_ = 0;
};

}  // namespace weft::test
