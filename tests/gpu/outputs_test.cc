// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that may write straight into the outputs of other ranks: of memory of all kinds, which way
// they take, and that all that they may have touched is right either way.
#include "tests/gpu/outputs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <future>
#include <initializer_list>
#include <memory>
#include <vector>

#include <cuda.h>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"

namespace weft::gpu_test {
namespace {

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
