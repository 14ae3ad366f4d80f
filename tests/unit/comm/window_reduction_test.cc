// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions in windows: what all ranks read, sum up and write, in any order that their queues
// leave. The windows of all are this process's own memory.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/windows.h"
#include "core/device/any_lane_loops.h"
#include "core/device/reduce_sources.h"
#include "core/device/window_pieces.h"
#include "tests/device/lane_model.h"

namespace weft {
namespace {

void sum_up(const SourcesToReduce& sources) {
  constexpr std::uint32_t kParts = 3;
  const std::atomic<std::uint32_t> abort{0};
  device::testing::LaneTeam team(1);
  device::testing::LaneGroup group(team, 0);
  device::testing::LaneMemory memory(abort);
  for (std::uint32_t part = 0; part < kParts; ++part)
    device::reduce_sources(group, memory, sources, part, kParts);
}

/// The queues of one rank, which wait for each other as streams do by events.
class RankQueues {
 public:
  enum Name : std::size_t { kReads, kSums, kWrites, kCount };

  weft_result read(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    return add(kReads, [=] { std::memcpy(to, from, bytes); });
  }
  weft_result sum(const SourcesToReduce& sources) {
    return add(kSums, [=] { sum_up(sources); });
  }
  weft_result write(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    return add(kWrites, [=] { std::memcpy(to, from, bytes); });
  }
  weft_result sum_after_reads(std::uint32_t) { return wait(kSums, kReads, queues_[kReads].size()); }
  weft_result write_after_sum(std::uint32_t slot) {
    sums_[slot] = queues_[kSums].size();
    return wait(kWrites, kSums, sums_[slot]);
  }
  weft_result read_after_sum(std::uint32_t slot) { return wait(kReads, kSums, sums_[slot]); }

  /// Does the next of a queue, if that may be.
  bool step(std::size_t name) {
    if (done_[name] == queues_[name].size()) return false;
    const Work& next = queues_[name][done_[name]];
    for (const auto& [other, count] : next.after)
      if (done_[other] < count) return false;
    next.run();
    ++done_[name];
    return true;
  }
  [[nodiscard]] bool ended() const {
    for (std::size_t name = 0; name < kCount; ++name)
      if (done_[name] != queues_[name].size()) return false;
    return true;
  }
  [[nodiscard]] std::size_t length(Name name) const { return queues_[name].size(); }

 private:
  struct Work {
    std::function<void()> run;
    std::vector<std::pair<Name, std::size_t>> after;
  };
  weft_result add(Name name, std::function<void()> run) {
    queues_[name].push_back({std::move(run), std::exchange(pending_[name], {})});
    return WEFT_OK;
  }
  weft_result wait(Name name, Name other, std::size_t count) {
    pending_[name].emplace_back(other, count);
    return WEFT_OK;
  }

  std::vector<Work> queues_[kCount];
  std::vector<std::pair<Name, std::size_t>> pending_[kCount];
  std::size_t done_[kCount] = {};
  std::size_t sums_[kWindowSlots] = {};
};

constexpr std::uint64_t kOffset = 12;  // bytes in a window: no line begins there

/// Ranks, in place, the staging memory of each in bytes.
class WindowReductions
    : public ::testing::TestWithParam<std::tuple<std::uint32_t, bool, std::uint64_t>> {
 protected:
  void SetUp() override { std::tie(ranks_, in_place_, staging_) = GetParam(); }

  static std::int32_t input(std::uint32_t rank, std::uint64_t i) {
    return static_cast<std::int32_t>((rank + 1) * 1000 + i * 7 % 113);
  }
  std::int32_t reduced(weft_reduction reduction, std::uint64_t i) const {
    std::int32_t sum = 0;
    std::int32_t most = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      sum += input(rank, i);
      most = std::max(most, input(rank, i));
    }
    if (reduction == WEFT_MAX) return most;
    return reduction == WEFT_AVG ? sum / static_cast<std::int32_t>(ranks_) : sum;
  }

  /// Outputs by rank, of `output` elements.
  std::vector<std::vector<std::int32_t>> run(const Task& task, std::uint64_t output) {
    const std::uint64_t inputs = reduced_input(task, ranks_) / sizeof(std::int32_t);
    const std::uint64_t size = kOffset + std::max(inputs, output) * sizeof(std::int32_t);
    std::vector<std::vector<std::byte>> in(ranks_, std::vector<std::byte>(size));
    std::vector<std::vector<std::byte>> out(ranks_, std::vector<std::byte>(size));
    Window input_window{.shared = shared(in)};
    Window output_window{.shared = shared(in_place_ ? in : out)};
    std::vector<std::vector<std::byte>> staging(ranks_, std::vector<std::byte>(staging_));
    std::vector<RankQueues> queues(ranks_);
    std::vector<std::byte*> results;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      std::byte* const send = in[rank].data() + kOffset;
      for (std::uint64_t i = 0; i < inputs; ++i) {
        const std::int32_t value = input(rank, i);
        std::memcpy(send + i * sizeof(value), &value, sizeof(value));
      }
      std::byte* recv = (in_place_ ? in : out)[rank].data() + kOffset;
      if (in_place_ && task.operation == Operation::kReduceScatter) {
        recv += rank * task.count * sizeof(std::int32_t);
      }
      results.push_back(recv);
      ReductionPlaces places{.input = {.window = &input_window, .offset = kOffset}, .output = {}};
      if (task.operation == Operation::kAllReduce) {
        places.output = {.window = &output_window, .offset = kOffset};
      }
      WindowReduction call =
          make_window_reduction({.task = task, .send = send, .recv = recv}, rank, ranks_, places);
      call.staging = staging[rank].data();
      call.staging_bytes = staging[rank].size();
      EXPECT_EQ(device::reduce_by_pieces(call, queues[rank]), WEFT_OK);
    }
    finish(queues);
    pieces_ = queues[0].length(RankQueues::kSums);
    std::vector<std::vector<std::int32_t>> got(ranks_, std::vector<std::int32_t>(output));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      std::memcpy(got[rank].data(), results[rank], output * sizeof(std::int32_t));
    return got;
  }

  std::uint32_t ranks_ = 0;
  bool in_place_ = false;
  std::uint64_t staging_ = 0;
  std::size_t pieces_ = 0;  // of rank 0

 private:
  static std::unique_ptr<SharedBuffer> shared(std::vector<std::vector<std::byte>>& memory) {
    std::vector<std::byte*> addresses;
    for (auto& one : memory)
      addresses.push_back(one.data());
    return std::make_unique<SharedBuffer>(std::move(addresses));
  }
  void finish(std::vector<RankQueues>& queues) {
    const auto ended = [&] { return std::ranges::all_of(queues, &RankQueues::ended); };
    std::vector<std::size_t> order(queues.size() * RankQueues::kCount);
    std::iota(order.begin(), order.end(), 0);
    int rounds_without = 0;  // since queues are passed over at random
    while (!ended()) {
      std::ranges::shuffle(order, random_);
      // One queue goes on as long as it can, so that it gets ahead of others.
      bool moved = false;
      for (const std::size_t one : order) {
        for (auto turns = random_() % 8; turns > 0; --turns) {
          if (!queues[one / RankQueues::kCount].step(one % RankQueues::kCount)) break;
          moved = true;
        }
      }
      rounds_without = moved ? 0 : rounds_without + 1;
      ASSERT_LT(rounds_without, 100) << "queues wait for each other";
    }
  }

  std::mt19937 random_{7};
};

TEST_P(WindowReductions, AllRanksGetAllReduces) {
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_AVG, WEFT_MAX}) {
    for (const std::uint64_t count : {1U, 40U, 1003U}) {
      const Task task{.operation = Operation::kAllReduce,
                      .type = WEFT_INT32,
                      .reduction = reduction,
                      .count = count};
      const auto got = run(task, count);
      for (std::uint32_t rank = 0; rank < ranks_; ++rank)
        for (std::uint64_t i = 0; i < count; ++i)
          ASSERT_EQ(got[rank][i], reduced(reduction, i)) << rank << " of " << ranks_ << ", " << i;
    }
  }
  if (staging_ < 4096) {
    EXPECT_GT(pieces_, 2 * kWindowSlots) << "one piece overlaps with nothing";
  }
}

TEST_P(WindowReductions, RanksGetTheirBlocksOfReduceScatters) {
  constexpr std::uint64_t kBlock = 501;
  const Task task{.operation = Operation::kReduceScatter, .type = WEFT_INT32, .count = kBlock};
  const auto got = run(task, kBlock);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank)
    for (std::uint64_t i = 0; i < kBlock; ++i)
      ASSERT_EQ(got[rank][i], reduced(WEFT_SUM, rank * kBlock + i)) << rank << ", " << i;
}

TEST_P(WindowReductions, RootsGetReducesOfTwo) {
  const Task task{.operation = Operation::kReduce, .type = WEFT_INT32, .root = 1, .count = 1003};
  if (ranks_ != 2) {
    EXPECT_EQ(reduced_input(task, ranks_), 0U);
    return;
  }
  const auto got = run(task, task.count);
  for (std::uint64_t i = 0; i < task.count; ++i)
    ASSERT_EQ(got[1][i], reduced(WEFT_SUM, i)) << i;
  EXPECT_EQ(pieces_, 0U) << "who is no root has nothing to do";
}

INSTANTIATE_TEST_SUITE_P(Ranks, WindowReductions,
                         ::testing::Combine(::testing::Values(2U, 3U, 4U, 8U), ::testing::Bool(),
                                            ::testing::Values(std::uint64_t{896},
                                                              std::uint64_t{1} << 20)));

TEST(WindowReduction, ThatMultipliesInputsIsNone) {
  const Task task{.operation = Operation::kAllReduce, .reduction = kPremulSum, .count = 10};
  EXPECT_EQ(reduced_input(task, 2), 0U);
}

TEST(WindowReduction, PiecesAreRoundedAsTheirCallIs) {
  std::vector<std::byte> memory(4096);
  for (const bool rounds_each : {false, true}) {
    WindowReduction call{.ranks = 2, .rounds_each = rounds_each, .count = 8};
    call.output = call.staging = memory.data();
    call.sources[0] = memory.data();
    EXPECT_EQ(device::sources_of(call, device::staged_piece(call, 0, 1024)).rounds_each,
              rounds_each);
  }
}

TEST(WindowReduction, PiecesFitIntoTheStagingMemory) {
  for (const std::uint32_t ranks : {2U, 3U, 8U}) {
    const std::uint64_t staging = std::uint64_t{64} << 20;
    for (const std::uint64_t range :
         {std::uint64_t{100}, std::uint64_t{1} << 24, std::uint64_t{1} << 32}) {
      const std::uint64_t piece = window_piece_bytes(range, staging, ranks);
      EXPECT_LE(piece * kWindowSlots * (ranks - 1), staging);
      EXPECT_EQ(piece % kChunkGrainBytes, 0U);
    }
    EXPECT_EQ(window_piece_bytes(std::uint64_t{16} << 20, staging, ranks), kLeastWindowPiece);
  }
}

// The tag of a call has one number for both places.
TEST(WindowReduction, PlacesOfInputAndOutputCount) {
  const Window first{.number = 1};
  const Window second{.number = 2};
  const ReductionPlaces straight{.input = {.window = &first, .offset = 0},
                                 .output = {.window = &second, .offset = 64}};
  const ReductionPlaces crossed{.input = {.window = &second, .offset = 64},
                                .output = {.window = &first, .offset = 0}};
  const ReductionPlaces input_alone{.input = {.window = &first, .offset = 0}, .output = {}};
  EXPECT_NE(straight.number(), crossed.number());
  EXPECT_NE(straight.number(), input_alone.number());
  EXPECT_EQ(input_alone.number(), input_alone.input.number());
}

}  // namespace
}  // namespace weft
