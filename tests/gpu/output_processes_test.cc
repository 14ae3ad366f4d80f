// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The same between processes, which map each other's outputs in the background: the first calls go
// by slots. What may be mapped then goes by outputs, all else never does. As all ranks count alike,
// they take the same turns.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/job.h"
#include "tests/gpu/outputs.h"

namespace weft::gpu_test {
namespace {

using namespace std::chrono_literals;

/// Calls until others have surely mapped an output that they can.
constexpr int kMostTries = 1000;

/// A rank of a job.
class OutputRank {
 public:
  OutputRank() : team_(Mode::kProcess, layout_of_job(), kInto) {}

  [[nodiscard]] Team& team() { return team_; }
  [[nodiscard]] Member& member() { return team_.members()[0]; }
  [[nodiscard]] std::uint32_t ranks() const { return team_.layout().ranks; }

  void place(Exchange& exchange, Kind kind, std::size_t offset = 0) {
    exchange.place(member(), kind, {member().device}, offset);
  }
  /// Which way a call took, whose results are looked at.
  Ways run(Exchange& exchange) {
    const Ways before = ways_of(member());
    exchange.run(seed_++);
    const Ways after = ways_of(member());
    return {.outputs = after.outputs - before.outputs, .slots = after.slots - before.slots};
  }
  /// Calls by slots until one goes by outputs, then a few more.
  void expect_mapped(Exchange& exchange) {
    Ways way;
    for (int tries = 0; tries < kMostTries && way.outputs == 0; ++tries) {
      way = run(exchange);
      if (way.outputs == 0) std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(way.outputs, 1U) << "after " << kMostTries << " calls";
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(run(exchange), kByOutputs);
  }
  void expect_slots(Exchange& exchange, int calls = 6) {
    for (int i = 0; i < calls; ++i) {
      EXPECT_EQ(run(exchange), kBySlots);
      std::this_thread::sleep_for(20ms);
    }
  }
  std::uint64_t next_seed() { return seed_++; }

 private:
  Team team_;
  std::uint64_t seed_ = 1;
};

TEST(RankOfJob, OutputsOfAllKinds) {
  OutputRank rank;
  for (const Kind kind : {Kind::kExportable, Kind::kWeft}) {
    SCOPED_TRACE(name_of(kind));
    for (const bool in_place : {false, true}) {
      Exchange gather(rank.team(), {.bytes = kMiB + 48, .in_place = in_place});
      rank.place(gather, kind, 16);
      EXPECT_EQ(rank.run(gather), kBySlots) << "the first call";
      rank.expect_mapped(gather);
      for (std::uint32_t root = 0; root < rank.ranks(); ++root) {
        Exchange broadcast(
            rank.team(),
            {.gathers = false, .bytes = 2 * kMiB + 5, .in_place = in_place, .root = root});
        rank.place(broadcast, kind);
        rank.expect_mapped(broadcast);
      }
    }
  }
  // Into the output of a broadcast's root nobody writes.
  Exchange of_root(rank.team(), {.gathers = false, .root = 0});
  rank.place(of_root, rank.member().rank == 0 ? Kind::kMalloc : Kind::kExportable);
  rank.expect_mapped(of_root);
  for (const Kind kind : {Kind::kMalloc, Kind::kPool, Kind::kPieces, Kind::kHost}) {
    SCOPED_TRACE(name_of(kind));
    Exchange gather(rank.team(), {});
    rank.place(gather, kind);
    rank.expect_slots(gather);
    // One of another kind is enough.
    rank.place(gather, rank.member().rank == 1 ? kind : Kind::kExportable);
    rank.expect_slots(gather);
  }
  Exchange odd(rank.team(), {});
  rank.place(odd, Kind::kExportable, rank.member().rank == 0 ? 4 : 0);
  rank.expect_slots(odd);
}

// By one rank or by all: other physical memory comes to the addresses that others have mapped.
TEST(RankOfJob, OutputsMadeAnew) {
  OutputRank rank;
  Exchange gather(rank.team(), {.bytes = kMiB});
  Range range(gather.size());
  const auto make = [&] {
    range.unmap();
    range.map(rank.member().device, {rank.member().device}, true);
    gather.place_at(rank.member(), range.begin());
  };
  make();
  rank.expect_mapped(gather);
  for (std::uint32_t turn = 0; turn < 8; ++turn) {
    const bool all = turn % 3 == 2;
    if (all || turn % rank.ranks() == rank.member().rank) make();
    EXPECT_EQ(rank.run(gather), kBySlots) << "turn " << turn;
    rank.expect_mapped(gather);
  }
}

// A stretch of many pieces, of which calls take other parts.
TEST(RankOfJob, OutputsInOneRange) {
  OutputRank rank;
  Exchange parts(rank.team(), {.bytes = kMiB});
  Range range(16 * kPiece);
  range.map(rank.member().device, {rank.member().device}, true);
  for (std::size_t at = 0; at + parts.size() <= 16 * kPiece; at += 3 * kMiB) {
    parts.place_at(rank.member(), range.begin() + at);
    rank.expect_mapped(parts);
  }
}

// Without a wait between, beside calls of inboxes, with which they share the sequence.
TEST(RankOfJob, OutputsOfCallsInARow) {
  OutputRank rank;
  Exchange open(rank.team(), {});
  rank.place(open, Kind::kExportable);
  Exchange shut(rank.team(), {});
  rank.place(shut, Kind::kMalloc);
  Trial small(rank.team(), {.operation = Operation::kAllReduce, .type = kInt32, .count = 257});
  rank.expect_mapped(open);
  for (int turn = 0; turn < 10; ++turn) {
    const std::uint64_t seed = rank.next_seed();
    open.prepare(seed);
    shut.prepare(seed + 1000);
    small.prepare(seed + 2000);
    const Ways before = ways_of(rank.member());
    for (int again = 0; again < 3; ++again) {
      open.issue(rank.member());
      small.issue(rank.member());
      shut.issue(rank.member());
    }
    rank.team().synchronize();
    open.judge();
    shut.judge();
    small.check();
    const Ways after = ways_of(rank.member());
    EXPECT_EQ(after.outputs - before.outputs, 3U);
    EXPECT_EQ(after.slots - before.slots, 3U);
  }
}

// A graph may be replayed when other memory has come to its addresses: it goes by slots.
TEST(RankOfJob, OutputsOfCapturedCalls) {
  OutputRank rank;
  Exchange gather(rank.team(), {});
  Range range(gather.size());
  const auto make = [&] {
    range.unmap();
    range.map(rank.member().device, {rank.member().device}, true);
  };
  make();
  gather.place_at(rank.member(), range.begin());
  rank.expect_mapped(gather);
  Graphs graphs(rank.team(), [&](Member& member) { gather.issue(member); });
  for (int turn = 0; turn < 6; ++turn) {
    if (turn % 2 == 1) make();
    gather.prepare(rank.next_seed());
    const Ways before = ways_of(rank.member());
    graphs.launch(rank.member());
    graphs.launch(rank.member());
    rank.team().synchronize();
    gather.judge();
    EXPECT_EQ(ways_of(rank.member()).slots - before.slots, 2U);
    rank.expect_mapped(gather);
  }
}

// What programs free they get back, though others had mapped it.
TEST(RankOfJob, OutputsThatWereFreedGoBack) {
  OutputRank rank;
  const std::size_t bytes = std::size_t{256} << 20;
  const auto free_bytes = [] {
    std::size_t free = 0;
    std::size_t all = 0;
    CUDA(cudaMemGetInfo(&free, &all));
    return free;
  };
  Exchange gather(rank.team(), {.bytes = bytes / rank.ranks()});
  // All that calls need besides comes first.
  rank.place(gather, Kind::kMalloc);
  rank.expect_slots(gather, 1);
  {
    Exchange large(rank.team(), {.bytes = bytes / rank.ranks()});
    Range range(large.size());
    // Few large pieces: a descriptor each.
    range.map(rank.member().device, {rank.member().device}, true, 64 * kPiece);
    large.place_at(rank.member(), range.begin());
    rank.expect_mapped(large);
    const std::size_t before = free_bytes();
    range.unmap();
    std::size_t gained = 0;
    for (int tries = 0; tries < 200 && gained < bytes / 2; ++tries) {
      std::this_thread::sleep_for(50ms);
      const std::size_t now = free_bytes();
      gained = now > before ? now - before : 0;
    }
    EXPECT_GE(gained, bytes / 2) << "of " << bytes;
  }
  rank.expect_slots(gather, 1);
}

// Rank 0 gives up while the others are in calls by outputs.
TEST(RankOfJob, OutputsOfCallsThatAreAborted) {
  for (const int calls : {0, 20}) {
    OutputRank rank;
    Exchange exchange(rank.team(), {.bytes = 8 * kMiB});
    rank.place(exchange, Kind::kExportable);
    rank.expect_mapped(exchange);
    const bool gives_up = rank.member().rank == 0;
    weft_result end = WEFT_OK;
    try {
      for (int i = 0; i < (gives_up ? calls : std::max(calls, 1)); ++i)
        exchange.issue(rank.member());
    } catch (const Problem& problem) {
      end = problem.code;
    }
    if (gives_up) check(weft_comm_abort(rank.member().comm), "weft_comm_abort");
    if (end == WEFT_OK) end = weft_stream_synchronize(rank.member().stream);
    const weft_result bad = gives_up ? WEFT_ERROR_ABORTED : WEFT_ERROR_PEER;
    EXPECT_TRUE(end == bad || ((calls != 0 || gives_up) && end == WEFT_OK))
        << calls << " calls: " << weft_result_name(end);
  }
  OutputRank again;
  Exchange gather(again.team(), {});
  again.place(gather, Kind::kExportable);
  again.expect_mapped(gather);
}

// ---- who starts them ----

class OutputProcesses : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam());
  }
};

TEST_P(OutputProcesses, OfAllKinds) {
  Job(GetParam(), "OutputsOfAllKinds").expect_success();
}
TEST_P(OutputProcesses, AreMadeAnewAtTheSameAddresses) {
  Job(GetParam(), "OutputsMadeAnew").expect_success();
}
TEST_P(OutputProcesses, OfPartsOfOneRange) {
  Job(GetParam(), "OutputsInOneRange").expect_success();
}
TEST_P(OutputProcesses, OfCallsInARow) {
  Job(GetParam(), "OutputsOfCallsInARow").expect_success();
}
TEST_P(OutputProcesses, OfCapturedCalls) {
  Job(GetParam(), "OutputsOfCapturedCalls").expect_success();
}
TEST_P(OutputProcesses, ThatWereFreedGoBack) {
  Job(GetParam(), "OutputsThatWereFreedGoBack").expect_success();
}
TEST_P(OutputProcesses, OfCallsThatAreAborted) {
  Job(GetParam(), "OutputsOfCallsThatAreAborted").expect_success();
}

INSTANTIATE_TEST_SUITE_P(Gpu, OutputProcesses, testing::ValuesIn(kPairs), layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
