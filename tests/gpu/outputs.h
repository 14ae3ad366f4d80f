// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that may write straight into the outputs of other ranks: outputs of memory of all kinds,
// which way calls took, and whether all is right that they may have touched.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

#include <weft/weft.h>

#include "tests/gpu/device.h"
#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"

namespace weft::gpu_test {

inline constexpr std::size_t kPiece = std::size_t{2}
                                      << 20;  // of memory that is mapped piece by piece
inline constexpr std::size_t kGuard = 4096;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Whatever the size; few channels, so that small calls are copied in bulk.
inline const Settings kInto{{"buffers.outputs_from", "1"},
                            {"channels.max", "4"},
                            {"collectives.all_gather.algorithm", "ring"},
                            {"collectives.all_gather.protocol", "simple"},
                            {"collectives.broadcast.algorithm", "ring"},
                            {"collectives.broadcast.protocol", "simple"}};

template <class Function>
Function* driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  CUDA(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  if (found == nullptr) throw Problem(WEFT_ERROR_DEVICE, std::string("no ") + name);
  return reinterpret_cast<Function*>(found);
}
#define DRIVER(function) driver<decltype(function)>(#function)

inline void check_driver(CUresult result, const char* what) {
  check(static_cast<cudaError_t>(result), what);
}

/// Pieces that may be exported are mapped with a handle that travels as a descriptor.
enum class Kind : std::uint8_t { kMalloc, kPool, kPieces, kExportable, kWeft, kHost };

inline const char* name_of(Kind kind) {
  constexpr std::array kNames{"cudaMalloc",           "cudaMallocAsync",      "cuMemMap",
                              "cuMemMap, exportable", "weft_memory_allocate", "cudaMallocHost"};
  return kNames[static_cast<std::size_t>(kind)];
}

inline CUmemLocation location_of(int device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

/// A range of addresses, into which pieces of physical memory are mapped.
class Range {
 public:
  explicit Range(std::size_t bytes) : bytes_((bytes + kPiece - 1) / kPiece * kPiece) {
    check_driver(DRIVER(cuMemAddressReserve)(&begin_, bytes_, kPiece, 0, 0), "cuMemAddressReserve");
  }
  ~Range() {
    unmap();
    DRIVER(cuMemAddressFree)(begin_, bytes_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  void map(int device, const std::vector<int>& readers, bool exportable = false,
           std::size_t piece = kPiece) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    if (exportable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location = location_of(device);
    for (std::size_t at = 0; at < bytes_; at += piece) {
      const std::size_t size = std::min(piece, bytes_ - at);
      CUmemGenericAllocationHandle handle = 0;
      check_driver(DRIVER(cuMemCreate)(&handle, size, &properties, 0), "cuMemCreate");
      check_driver(DRIVER(cuMemMap)(begin_ + at, size, 0, handle, 0), "cuMemMap");
      check_driver(DRIVER(cuMemRelease)(handle), "cuMemRelease");
      for (const int reader : readers) {
        CUmemAccessDesc access{};
        access.location = location_of(reader);
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        check_driver(DRIVER(cuMemSetAccess)(begin_ + at, size, &access, 1), "cuMemSetAccess");
      }
    }
    mapped_ = true;
  }
  void unmap() {
    if (std::exchange(mapped_, false)) DRIVER(cuMemUnmap)(begin_, bytes_);
  }
  [[nodiscard]] std::byte* begin() const { return reinterpret_cast<std::byte*>(begin_); }

 private:
  const std::size_t bytes_;
  CUdeviceptr begin_ = 0;
  bool mapped_ = false;
};

/// Memory of a kind, open to `readers` as far as the kind can say so.
class Memory {
 public:
  Memory(Kind kind, const Member& member, std::size_t bytes, const std::vector<int>& readers)
      : kind_(kind), device_(member.device), stream_(member.cuda) {
    use_device(device_);
    void* memory = nullptr;
    switch (kind) {
      case Kind::kMalloc:
        CUDA(cudaMalloc(&memory, bytes));
        break;
      case Kind::kHost:
        CUDA(cudaMallocHost(&memory, bytes));
        break;
      case Kind::kPool:
        open_pool(readers);
        CUDA(cudaMallocAsync(&memory, bytes, stream_));
        CUDA(cudaStreamSynchronize(stream_));
        break;
      case Kind::kPieces:
      case Kind::kExportable:
        range_ = std::make_unique<Range>(bytes);
        range_->map(device_, readers, kind == Kind::kExportable);
        memory = range_->begin();
        break;
      case Kind::kWeft:
        gpu_test::check(weft_memory_allocate(context(), WEFT_DEVICE_CUDA, device_, bytes, &memory),
                        "weft_memory_allocate");
        break;
    }
    begin_ = static_cast<std::byte*>(memory);
  }
  ~Memory() {
    static_cast<void>(cudaSetDevice(device_));
    if (kind_ == Kind::kMalloc) static_cast<void>(cudaFree(begin_));
    if (kind_ == Kind::kWeft) static_cast<void>(weft_memory_free(context(), begin_));
    if (kind_ == Kind::kHost) static_cast<void>(cudaFreeHost(begin_));
    if (kind_ == Kind::kPool) {
      static_cast<void>(cudaFreeAsync(begin_, stream_));
      static_cast<void>(cudaStreamSynchronize(stream_));
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* begin() const { return begin_; }

 private:
  void open_pool(const std::vector<int>& readers) const {
    cudaMemPool_t pool = nullptr;
    CUDA(cudaDeviceGetDefaultMemPool(&pool, device_));
    for (int other = 0; other < device_count(); ++other) {
      if (other == device_) continue;
      const bool open = std::ranges::find(readers, other) != readers.end();
      cudaMemAccessDesc access{};
      access.location = {.type = cudaMemLocationTypeDevice, .id = other};
      access.flags = open ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
      CUDA(cudaMemPoolSetAccess(pool, &access, 1));
    }
  }

  const Kind kind_;
  const int device_;
  const cudaStream_t stream_;
  std::unique_ptr<Range> range_;
  std::byte* begin_ = nullptr;
};

struct Ways {
  std::uint64_t outputs = 0;
  std::uint64_t slots = 0;
  friend bool operator==(const Ways&, const Ways&) = default;
};
inline std::ostream& operator<<(std::ostream& out, const Ways& ways) {
  return out << ways.outputs << " by outputs, " << ways.slots << " by slots";
}

inline Ways ways_of(const Member& member) {
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  check(weft_comm_get_properties(member.comm, &properties), "weft_comm_get_properties");
  return {.outputs = properties.calls_by_outputs, .slots = properties.calls_by_slots};
}

inline std::byte content(std::uint64_t seed, std::uint32_t rank, std::size_t at) {
  const std::uint64_t word = (at / 8 + 1) * 0x9E3779B97F4A7C15ULL ^ (seed * 131 + rank + 1);
  return static_cast<std::byte>((word ^ word >> 29) >> (at % 8 * 7));
}

/// Calls of a team and what their outputs lie in, guards of poison on both sides.
class Exchange {
 public:
  struct Shape {
    bool gathers = true;  ///< Else a broadcast.
    std::size_t bytes = kMiB;
    bool in_place = false;
    std::uint32_t root = 0;
  };
  Exchange(Team& team, const Shape& shape) : team_(team), shape_(shape) {
    const std::uint32_t ranks = team.layout().ranks;
    own_.resize(ranks);
    all_ = shape.bytes * (shape.gathers ? ranks : 1);
  }

  /// `offset`: bytes that the output begins beyond a multiple of 256.
  void place(Member& member, Kind kind, const std::vector<int>& readers, std::size_t offset = 0) {
    Rank& own = own_[member.rank];
    own.offset = offset;
    own.output = nullptr;  // first, so that addresses come again
    own.output = std::make_unique<Memory>(kind, member, size(), readers);
    own.at = own.output->begin();
    if (own.input == nullptr) {
      own.input = std::make_unique<Memory>(Kind::kMalloc, member, shape_.bytes, std::vector<int>{});
    }
  }
  /// Of addresses of others.
  void place_at(Member& member, std::byte* at) {
    Rank& own = own_[member.rank];
    own.at = at;
    if (own.input == nullptr) {
      own.input = std::make_unique<Memory>(Kind::kMalloc, member, shape_.bytes, std::vector<int>{});
    }
  }
  [[nodiscard]] std::size_t size() const { return all_ + 2 * kGuard + 256; }

  void prepare(std::uint64_t seed) {
    seed_ = seed;
    team_.each([&](Member& member) {
      Rank& own = own_[member.rank];
      std::vector<std::byte> input(shape_.bytes);
      for (std::size_t i = 0; i < input.size(); ++i)
        input[i] = content(seed, member.rank, i);
      std::vector<std::byte> output(size(), poison());
      if (shape_.in_place && sends(member)) {
        std::ranges::copy(input, output.begin() + static_cast<std::ptrdiff_t>(place_of(member)));
      }
      CUDA(cudaMemcpyAsync(own.input->begin(), input.data(), input.size(), cudaMemcpyDefault,
                           member.cuda));
      CUDA(cudaMemcpyAsync(own.at, output.data(), output.size(), cudaMemcpyDefault, member.cuda));
      CUDA(cudaStreamSynchronize(member.cuda));
    });
  }

  void issue(Member& member) {
    Rank& own = own_[member.rank];
    std::byte* const output = own.at + begin(own);
    const std::byte* input = own.input->begin();
    if (shape_.in_place) input = own.at + place_of(member);
    const weft_result called =
        shape_.gathers
            ? weft_all_gather(input, output, shape_.bytes, WEFT_UINT8, member.comm, member.stream)
            : weft_broadcast(input, output, shape_.bytes, WEFT_UINT8, shape_.root, member.comm,
                             member.stream);
    gpu_test::check(called, "the call");
  }

  /// After synchronize: of each rank's output every byte, and those around it.
  void judge() {
    team_.each([&](Member& member) {
      const Rank& own = own_[member.rank];
      std::vector<std::byte> got(size());
      CUDA(cudaMemcpy(got.data(), own.at, got.size(), cudaMemcpyDefault));
      std::vector<std::byte> want(size(), poison());
      for (std::size_t i = 0; i < all_; ++i) {
        const auto from =
            shape_.gathers ? static_cast<std::uint32_t>(i / shape_.bytes) : shape_.root;
        want[begin(own) + i] = content(seed_, from, i % shape_.bytes);
      }
      const auto [wrong, due] = std::ranges::mismatch(got, want);
      if (wrong == got.end()) return;
      throw Problem(
          WEFT_ERROR_INTERNAL,
          "rank " + std::to_string(member.rank) + ": byte " +
              std::to_string(wrong - got.begin() - static_cast<std::ptrdiff_t>(begin(own))) +
              " of " + std::to_string(all_) + " is " + std::to_string(static_cast<int>(*wrong)) +
              ", not " + std::to_string(static_cast<int>(*due)));
    });
  }

  void run(std::uint64_t seed) {
    prepare(seed);
    team_.issue([&](Member& member) { issue(member); });
    try {
      team_.synchronize();
    } catch (...) {
      for (const Member& member : team_.members())
        std::cout << "rank " << member.rank << ": " << ways_of(member) << std::endl;
      throw;
    }
    judge();
  }

 private:
  struct Rank {
    std::unique_ptr<Memory> input, output;
    std::byte* at = nullptr;
    std::size_t offset = 0;
  };
  [[nodiscard]] static std::size_t begin(const Rank& own) { return kGuard + own.offset; }
  [[nodiscard]] std::byte poison() const { return static_cast<std::byte>(seed_ * 2 + 1); }
  [[nodiscard]] bool sends(const Member& member) const {
    return shape_.gathers || member.rank == shape_.root;
  }
  [[nodiscard]] std::size_t place_of(const Member& member) const {
    return begin(own_[member.rank]) + (shape_.gathers ? member.rank * shape_.bytes : 0);
  }

  Team& team_;
  const Shape shape_;
  std::vector<Rank> own_;
  std::size_t all_ = 0;
  std::uint64_t seed_ = 0;
};

inline constexpr Ways kByOutputs{.outputs = 1, .slots = 0};
inline constexpr Ways kBySlots{.outputs = 0, .slots = 1};

}  // namespace weft::gpu_test
