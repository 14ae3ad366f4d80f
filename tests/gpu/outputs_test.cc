// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that may write straight into the outputs of other ranks: of memory of all kinds, which way
// they take, and that all that they may have touched is right either way.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;  // of memory that is mapped piece by piece
constexpr std::size_t kGuard = 4096;
constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Whatever the size; few channels, so that small calls are copied in bulk.
const Settings kInto{{"buffers.outputs_from", "1"},
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

void check_driver(CUresult result, const char* what) {
  check(static_cast<cudaError_t>(result), what);
}

enum class Kind : std::uint8_t { kMalloc, kPool, kPieces, kHost };

const char* name_of(Kind kind) {
  constexpr std::array kNames{"cudaMalloc", "cudaMallocAsync", "cuMemMap", "cudaMallocHost"};
  return kNames[static_cast<std::size_t>(kind)];
}

CUmemLocation location_of(int device) {
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

  void map(int device, const std::vector<int>& readers) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location_of(device);
    for (std::size_t at = 0; at < bytes_; at += kPiece) {
      CUmemGenericAllocationHandle handle = 0;
      check_driver(DRIVER(cuMemCreate)(&handle, kPiece, &properties, 0), "cuMemCreate");
      check_driver(DRIVER(cuMemMap)(begin_ + at, kPiece, 0, handle, 0), "cuMemMap");
      check_driver(DRIVER(cuMemRelease)(handle), "cuMemRelease");
      for (const int reader : readers) {
        CUmemAccessDesc access{};
        access.location = location_of(reader);
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        check_driver(DRIVER(cuMemSetAccess)(begin_ + at, kPiece, &access, 1), "cuMemSetAccess");
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
        range_ = std::make_unique<Range>(bytes);
        range_->map(device_, readers);
        memory = range_->begin();
        break;
    }
    begin_ = static_cast<std::byte*>(memory);
  }
  ~Memory() {
    static_cast<void>(cudaSetDevice(device_));
    if (kind_ == Kind::kMalloc) static_cast<void>(cudaFree(begin_));
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
std::ostream& operator<<(std::ostream& out, const Ways& ways) {
  return out << ways.outputs << " by outputs, " << ways.slots << " by slots";
}

Ways ways_of(const Member& member) {
  weft_comm_properties properties{};
  properties.struct_size = sizeof(properties);
  check(weft_comm_get_properties(member.comm, &properties), "weft_comm_get_properties");
  return {.outputs = properties.calls_by_outputs, .slots = properties.calls_by_slots};
}

std::byte content(std::uint64_t seed, std::uint32_t rank, std::size_t at) {
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

class Outputs : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout, kInto);
    for (const Member& member : team_->members()) {
      if (std::ranges::find(devices_, member.device) == devices_.end()) {
        devices_.push_back(member.device);
      }
    }
  }

  [[nodiscard]] std::uint32_t ranks() const { return GetParam().layout.ranks; }
  /// All ranks have counted so many calls since they were asked last.
  void expect(const Ways& wanted) {
    counted_.outputs += wanted.outputs;
    counted_.slots += wanted.slots;
    for (const Member& member : team_->members())
      EXPECT_EQ(ways_of(member), counted_) << "rank " << member.rank;
  }
  void place(Exchange& exchange, Kind kind) {
    team_->each([&](Member& member) { exchange.place(member, kind, devices_); });
  }

  std::unique_ptr<Team> team_;
  std::vector<int> devices_;
  Ways counted_;
  std::uint64_t seed_ = 1;
};

constexpr Ways kByOutputs{.outputs = 1, .slots = 0};
constexpr Ways kBySlots{.outputs = 0, .slots = 1};

TEST_P(Outputs, OfAllKindsThatAreOpen) {
  for (const Kind kind : {Kind::kMalloc, Kind::kPool, Kind::kPieces}) {
    SCOPED_TRACE(name_of(kind));
    for (const bool in_place : {false, true}) {
      for (const std::size_t bytes : {kMiB, 3 * kMiB + 48}) {
        Exchange gather(*team_, {.bytes = bytes, .in_place = in_place});
        place(gather, kind);
        gather.run(seed_++);
        expect(kByOutputs);
      }
      // A broadcast has no blocks, so it may have any length.
      for (const std::size_t bytes : {kMiB, 5 * kMiB + 5}) {
        Exchange broadcast(*team_, {.gathers = false,
                                    .bytes = bytes,
                                    .in_place = in_place,
                                    .root = static_cast<std::uint32_t>(seed_ % ranks())});
        place(broadcast, kind);
        broadcast.run(seed_++);
        expect(kByOutputs);
      }
    }
  }
}

// What one rank cannot offer none uses: by another alignment, or by memory that is no device's.
TEST_P(Outputs, OneThatIsNotOpenSendsAllBySlots) {
  for (std::uint32_t odd = 0; odd < ranks(); ++odd) {
    Exchange gather(*team_, {});
    Exchange broadcast(*team_, {.gathers = false, .root = (odd + 1) % ranks()});
    for (Exchange* const exchange : {&gather, &broadcast}) {
      place(*exchange, Kind::kMalloc);
      Member& member = team_->members()[odd];
      exchange->place(member, Kind::kMalloc, devices_, 4);
      exchange->run(seed_++);
      expect(kBySlots);
      exchange->place(member, Kind::kHost, devices_);
      exchange->run(seed_++);
      expect(kBySlots);
      exchange->place(member, Kind::kPieces, devices_);
      exchange->run(seed_++);
      expect(kByOutputs);
    }
  }
  // Into the output of a broadcast's root nobody writes.
  Exchange of_root(*team_, {.gathers = false, .root = 0});
  place(of_root, Kind::kMalloc);
  of_root.place(team_->members()[0], Kind::kHost, devices_);
  of_root.run(seed_++);
  expect(kByOutputs);
}

TEST_P(Outputs, ThatPeersHaveNoAccessToAreNotWritten) {
  if (devices_.size() < 2) GTEST_SKIP() << "needs ranks on two devices";
  for (const Kind kind : {Kind::kPool, Kind::kPieces}) {
    SCOPED_TRACE(name_of(kind));
    Exchange gather(*team_, {});
    place(gather, kind);
    Member& member = team_->members()[1];
    gather.place(member, kind, {member.device});
    gather.run(seed_++);
    expect(kBySlots);
    gather.place(member, kind, devices_);
    gather.run(seed_++);
    expect(kByOutputs);
  }
}

// Memory comes and goes behind an address: by cudaFree, and by maps of other physical memory.
TEST_P(Outputs, AreMadeAnewAtTheSameAddresses) {
  Exchange gather(*team_, {});
  for (int turn = 0; turn < 6; ++turn) {
    place(gather, turn % 3 == 2 ? Kind::kPool : Kind::kMalloc);
    gather.run(seed_++);
    expect(kByOutputs);
  }
  std::vector<std::unique_ptr<Range>> ranges(ranks());
  Exchange mapped(*team_, {});
  for (int turn = 0; turn < 6; ++turn) {
    team_->each([&](Member& member) {
      std::unique_ptr<Range>& range = ranges[member.rank];
      if (range == nullptr) range = std::make_unique<Range>(mapped.size());
      range->unmap();
      range->map(member.device, devices_);
      mapped.place_at(member, range->begin());
    });
    mapped.run(seed_++);
    expect(kByOutputs);
  }
}

// Replays agree each for themselves, and take turns with calls that go by slots.
TEST_P(Outputs, OfCapturedCalls) {
  Exchange open(*team_, {});
  place(open, Kind::kPieces);
  Exchange shut(*team_, {.gathers = false, .root = ranks() - 1});
  place(shut, Kind::kMalloc);
  shut.place(team_->members()[0], Kind::kMalloc, devices_, 4);
  Graphs both(*team_, [&](Member& member) {
    open.issue(member);
    shut.issue(member);
  });
  for (int turn = 0; turn < 10; ++turn) {
    open.prepare(seed_++);
    shut.prepare(seed_++);
    team_->each([&](Member& member) {
      both.launch(member);
      both.launch(member);
    });
    team_->synchronize();
    open.judge();
    shut.judge();
    expect({.outputs = 2, .slots = 2});
    if (turn % 3 != 0) continue;
    open.run(seed_++);
    expect(kByOutputs);
  }
}

// Without a wait between, beside calls of inboxes, with which they share the sequence.
TEST_P(Outputs, OfCallsInARow) {
  Exchange open(*team_, {});
  place(open, Kind::kMalloc);
  Exchange shut(*team_, {});
  place(shut, Kind::kMalloc);
  shut.place(team_->members()[ranks() - 1], Kind::kHost, devices_);
  Trial small(*team_, {.operation = Operation::kAllReduce, .type = kInt32, .count = 257});
  for (int turn = 0; turn < 10; ++turn) {
    open.prepare(seed_++);
    shut.prepare(seed_++);
    small.prepare(seed_++);
    for (int again = 0; again < 3; ++again) {
      team_->issue([&](Member& member) { open.issue(member); });
      team_->issue([&](Member& member) { small.issue(member); });
      team_->issue([&](Member& member) { shut.issue(member); });
    }
    team_->synchronize();
    open.judge();
    shut.judge();
    small.check();
    expect({.outputs = 3, .slots = 3});
  }
}

// Below the threshold, and of blocks that are no whole lines, nobody even asks.
TEST_P(Outputs, AreNotAskedForWhereThePlanSaysNo) {
  Exchange odd(*team_, {.bytes = kMiB + 4});
  place(odd, Kind::kMalloc);
  odd.run(seed_++);
  expect({});
}

/// Where ranks wait for each other's failures.
class OutputsByThreads : public Outputs {};

TEST_P(OutputsByThreads, OfCallsThatDifferAreAMismatch) {
  Exchange more(*team_, {.bytes = 2 * kMiB});
  Exchange less(*team_, {.bytes = kMiB});
  place(more, Kind::kMalloc);
  place(less, Kind::kMalloc);
  team_->each([&](Member& member) {
    (member.rank == 0 ? more : less).issue(member);
    EXPECT_EQ(weft_stream_synchronize(member.stream), WEFT_ERROR_MISMATCH)
        << "rank " << member.rank << ": " << last_error();
  });
}

// Whoever waits for a rank that has given up leaves, whether it waits to agree or for a step.
TEST_P(OutputsByThreads, OfCallsThatAreAborted) {
  for (const int calls : {0, 20}) {  // of rank 0, which gives up
    team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout, kInto);
    Exchange exchange(*team_, {.bytes = 8 * kMiB});
    place(exchange, Kind::kMalloc);
    exchange.run(seed_++);
    std::vector<std::future<weft_result>> ends;
    for (Member& member : team_->members()) {
      ends.push_back(std::async(std::launch::async, [&exchange, &member, calls] {
        use_device(member.device);
        try {
          for (int i = 0; i < (member.rank == 0 ? calls : std::max(calls, 1)); ++i)
            exchange.issue(member);
        } catch (const Problem& problem) {
          return problem.code;
        }
        return weft_stream_synchronize(member.stream);
      }));
    }
    check(weft_comm_abort(team_->members()[0].comm), "weft_comm_abort");
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      ASSERT_EQ(ends[rank].wait_for(std::chrono::seconds(5)), std::future_status::ready)
          << "rank " << rank << " still waits";
      const weft_result end = ends[rank].get();
      // Where all make as many calls, all may have ended before.
      const bool may_succeed = calls != 0 || rank == 0;
      const weft_result bad = rank == 0 ? WEFT_ERROR_ABORTED : WEFT_ERROR_PEER;
      EXPECT_TRUE(end == bad || (may_succeed && end == WEFT_OK))
          << "rank " << rank << " of " << calls << " calls: " << weft_result_name(end);
    }
  }
  team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout, kInto);
  Exchange gather(*team_, {});
  place(gather, Kind::kMalloc);
  gather.run(seed_++);
  expect(kByOutputs);
}

// What the host spends in a call to ask whether an output is open: printed, not judged.
TEST(OutputCosts, OfAsking) {
  SKIP_ON_HOST();
  SKIP_UNLESS_POSSIBLE((Layout{1, false}));
  use_device(0);
  Member member;
  CUDA(cudaStreamCreate(&member.cuda));
  const auto attributes = DRIVER(cuPointerGetAttributes);
  const auto access = DRIVER(cuMemGetAccess);
  const auto of_pool = DRIVER(cuMemPoolGetAccess);
  for (const Kind kind : {Kind::kMalloc, Kind::kPool, Kind::kPieces, Kind::kHost}) {
    const Memory memory(kind, member, 4 * kPiece, {0});
    const auto at = reinterpret_cast<CUdeviceptr>(memory.begin()) + kPiece + 512;
    CUmemorytype type{};
    int device = 0, legacy = 0;
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    CUmemoryPool pool = nullptr;
    std::array kinds{CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                     CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                     CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    std::array<void*, 6> values{&type, &device, &begin, &bytes, &legacy, &pool};
    CUmemLocation location = location_of(0);
    unsigned long long flags = 0;
    CUmemAccess_flags pool_flags{};
    constexpr int kTurns = 20000;
    const auto time = [&](const auto& ask) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kTurns; ++i)
        ask();
      const std::chrono::duration<double, std::nano> taken =
          std::chrono::steady_clock::now() - start;
      return taken.count() / kTurns;
    };
    CUresult told{}, told_access{}, told_pool{};
    const double facts = time([&] {
      told = attributes(static_cast<unsigned>(kinds.size()), kinds.data(), values.data(), at);
    });
    const double by_access = time([&] { told_access = access(&flags, &location, at); });
    const double by_pool =
        pool == nullptr ? 0 : time([&] { told_pool = of_pool(&pool_flags, pool, &location); });
    std::printf(
        "%-16s attributes %.0f ns (%d): type %d device %d from %+lld, %zu bytes, legacy %d, "
        "pool %d; access %.0f ns (%d, %llu), of the pool %.0f ns (%d, %d)\n",
        name_of(kind), facts, told, static_cast<int>(type), device,
        static_cast<long long>(begin) - static_cast<long long>(at), bytes, legacy,
        pool != nullptr ? 1 : 0, by_access, told_access, flags, by_pool, told_pool,
        static_cast<int>(pool_flags));
    EXPECT_EQ(told, CUDA_SUCCESS) << name_of(kind);
    EXPECT_EQ(type, kind == Kind::kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    if (pool != nullptr) {
      EXPECT_EQ(told_pool, CUDA_SUCCESS);
    }
  }
  CUDA(cudaStreamDestroy(member.cuda));
}

std::vector<ModeAndLayout> those_with_peers(std::initializer_list<Mode> modes) {
  std::vector<ModeAndLayout> all;
  for (const Layout& layout : kPairs) {
    for (const Mode mode : modes)
      all.push_back({mode, layout});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gpu, Outputs,
                         testing::ValuesIn(those_with_peers({Mode::kThreads, Mode::kOneThread})),
                         mode_and_layout_name);
INSTANTIATE_TEST_SUITE_P(Gpu, OutputsByThreads,
                         testing::ValuesIn(those_with_peers({Mode::kThreads})),
                         mode_and_layout_name);

}  // namespace
}  // namespace weft::gpu_test
