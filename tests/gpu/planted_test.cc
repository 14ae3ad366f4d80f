// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// That trials find what they are for: a result is spoilt behind the device's back, and whoever
// checks it has to say so. On any device, the host too.
#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest-spi.h>

#include "tests/gpu/calls.h"
#include "tests/gpu/job.h"
#include "tests/gpu/reference.h"

namespace weft::gpu_test {
namespace {

class Planted : public testing::TestWithParam<Operation> {
 protected:
  static constexpr Layout kLayout{3, true};

  void SetUp() override { SKIP_UNLESS_POSSIBLE(kLayout); }

  static Call call() { return call_of(GetParam()); }
  static Call call_of(Operation operation) {
    return {.operation = operation, .type = kInt32, .count = 257, .omit_unused = false, .table = 5};
  }
  /// The same with blocks of one size.
  static Call even_call_of(Operation operation) {
    Call even = call_of(operation);
    even.table = 0;
    return even;
  }
  /// Runs the call, spoils what one rank received, and wants `words` in what the check throws.
  static void spoil(const Call& call, std::uint32_t rank, const std::string& words,
                    const std::function<void(Zone&, Bytes, cudaStream_t)>& how) {
    Team team(Mode::kThreads, kLayout);
    Trial trial(team, call);
    trial.run(options().seed);
    const Member& member = team.members()[rank];
    Zone& zone = *trial.received(member);
    const std::span<const std::byte> right = zone.read(member.cuda);
    how(zone, Bytes(right.begin(), right.end()), member.cuda);
    try {
      trial.check();
      ADD_FAILURE() << "nothing was found: " << call;
    } catch (const Problem& problem) {
      const std::string text = problem.what();
      EXPECT_NE(text.find(words), std::string::npos) << text;
      EXPECT_NE(text.find("rank " + std::to_string(rank)), std::string::npos) << text;
    }
  }
  static void flip(Zone& zone, std::ptrdiff_t at, std::byte was, cudaStream_t stream) {
    const std::byte other = was ^ std::byte{1};
    zone.overwrite(at, {&other, 1}, stream);
  }
};

TEST_P(Planted, ByteOfAResult) {
  const Block first = buffers_of(call(), kLayout.ranks, 0).recv.blocks[0];
  const Block block =
      first.bytes != 0 ? first : buffers_of(call(), kLayout.ranks, 0).recv.blocks[1];
  ASSERT_NE(block.bytes, 0U) << "rank 0 receives nothing";
  spoil(call(), 0, reduces(GetParam()) ? "are wrong" : "is not what rank",
        [&](Zone& zone, const Bytes& right, cudaStream_t stream) {
          const std::size_t at = block.at + block.bytes - 1;
          flip(zone, static_cast<std::ptrdiff_t>(at), right[at], stream);
        });
}

TEST_P(Planted, BytesBesideABuffer) {
  for (const bool before : {true, false}) {
    spoil(call(), 1, before ? "bytes before the buffer" : "bytes behind the buffer",
          [&](Zone& zone, const Bytes& right, cudaStream_t stream) {
            // The poison is odd, and alike everywhere: 0 is none.
            flip(zone, before ? -1 : static_cast<std::ptrdiff_t>(right.size()), std::byte{1},
                 stream);
          });
  }
}

/// Calls of which some byte is nobody's result: of what only the root receives, and of the gaps
/// between blocks.
class PlantedGaps : public Planted {
 protected:
  /// The first such byte that a rank has.
  static std::optional<std::ptrdiff_t> gap_of(const Call& call, std::uint32_t rank) {
    const Side side = buffers_of(call, kLayout.ranks, rank).recv;
    std::vector<bool> due(side.extent, false);
    for (const Block& block : side.blocks)
      for (std::size_t i = 0; i < block.bytes && side.counts; ++i)
        due[block.at + i] = true;
    const auto gap = std::ranges::find(due, false);
    if (gap == due.end()) return std::nullopt;
    return gap - due.begin();
  }

 public:
  static std::vector<Operation> operations() {
    std::vector<Operation> some;
    std::ranges::copy_if(kCollectives, std::back_inserter(some), [](Operation operation) {
      return gap_of(call_of(operation), 0) || gap_of(call_of(operation), 1) ||
             gap_of(call_of(operation), 2);
    });
    return some;
  }
};

TEST_P(PlantedGaps, BytesThatAreNoResult) {
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const auto at = gap_of(call(), rank);
    if (!at) continue;
    spoil(call(), rank, "is no result, and was changed",
          [&](Zone& zone, const Bytes& right, cudaStream_t stream) {
            flip(zone, *at, right[static_cast<std::size_t>(*at)], stream);
          });
  }
}

/// Calls in which a rank receives several blocks.
class PlantedBlocks : public Planted {
 public:
  static std::vector<Operation> operations() {
    std::vector<Operation> some;
    std::ranges::copy_if(kCollectives, std::back_inserter(some), [](Operation operation) {
      return buffers_of(even_call_of(operation), kLayout.ranks, 0).recv.blocks.size() >= 2;
    });
    return some;
  }
};

TEST_P(PlantedBlocks, ThatChangedPlaces) {
  const Call even = even_call_of(GetParam());
  const Side side = buffers_of(even, kLayout.ranks, 0).recv;
  spoil(even, 0, "block 1: byte", [&](Zone& zone, const Bytes& right, cudaStream_t stream) {
    const auto swap = [&](const Block& from, const Block& to) {
      zone.overwrite(static_cast<std::ptrdiff_t>(to.at), {right.data() + from.at, from.bytes},
                     stream);
    };
    swap(side.blocks[1], side.blocks[2]);
    swap(side.blocks[2], side.blocks[1]);
  });
}

const auto kOperationName = [](const testing::TestParamInfo<Operation>& info) {
  return std::string(name_of(info.param));
};
INSTANTIATE_TEST_SUITE_P(Gpu, Planted, testing::ValuesIn(kCollectives), kOperationName);
INSTANTIATE_TEST_SUITE_P(Gpu, PlantedGaps, testing::ValuesIn(PlantedGaps::operations()),
                         kOperationName);
INSTANTIATE_TEST_SUITE_P(Gpu, PlantedBlocks, testing::ValuesIn(PlantedBlocks::operations()),
                         kOperationName);

// Two messages of the same size between two ranks that overtook each other.
TEST(PlantedExchange, MessagesThatOvertook) {
  constexpr Layout kLayout{2, true};
  SKIP_UNLESS_POSSIBLE(kLayout);
  Call sent{.operation = Operation::kExchange};
  for (int i = 0; i < 2; ++i)
    sent.messages.push_back({.from = 0, .to = 1, .count = 257});
  Team team(Mode::kThreads, kLayout);
  Trial trial(team, sent);
  trial.run(options().seed);
  const Member& member = team.members()[1];
  Zone& zone = *trial.received(member);
  const std::span<const std::byte> read = zone.read(member.cuda);
  const Bytes right(read.begin(), read.end());
  const Side side = buffers_of(sent, kLayout.ranks, 1).recv;
  for (const int i : {0, 1})
    zone.overwrite(static_cast<std::ptrdiff_t>(side.blocks[1 - i].at),
                   {right.data() + side.blocks[i].at, side.blocks[i].bytes}, member.cuda);
  EXPECT_THROW(trial.check(), Problem);
}

// A float's last bit, which depends on the order of additions: ranks that are processes have it
// alike.
TEST(RankOfJob, OtherBits) {
  Team team(Mode::kProcess, layout_of_job());
  Trial trial(team, {.type = kFloat32, .count = 257});
  trial.run(options().seed);
  const Member& member = team.members()[0];
  if (member.rank == 1) {
    Zone& zone = *trial.received(member);
    const std::byte other = zone.read(member.cuda)[17 * 4] ^ std::byte{1};
    zone.overwrite(17 * 4, {&other, 1}, member.cuda);
  }
  trial.check();
}
TEST(PlantedProcesses, BitsOfOneRank) {
  constexpr Layout kLayout{3, true};
  SKIP_UNLESS_POSSIBLE(kLayout);
  Job job(kLayout, "OtherBits");
  EXPECT_NONFATAL_FAILURE(job.expect_success(), "ranks 0 and 1 got different bits of all-reduces");
}

/// What judge has to refuse of a type: the whole range of bounds is tried on one element.
class Judge : public testing::TestWithParam<Type> {
 protected:
  static void lose(const Call& call) {
    Reduced reduced;
    for (std::uint64_t rank = 0; rank < 4; ++rank)
      reduced.inputs.push_back(random_input(call, call.bytes(), options().seed + rank));
    reduced.result = reduced_by_host(call, reduced.inputs);
    std::vector<Bytes> without = reduced.inputs;
    without[2] = without[1];
    EXPECT_NE(judge(call, reduced, 0, reduced_by_host(call, without)), "") << call;
  }
};

TEST_P(Judge, RefusesTheNextNumberWhereResultsAreExact) {
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG}) {
    const Call call{.type = GetParam(), .reduction = reduction, .count = 64};
    Reduced reduced;
    for (std::uint64_t rank = 0; rank < 2; ++rank)
      reduced.inputs.push_back(random_input(call, call.bytes(), options().seed + rank));
    reduced.result = reduced_by_host(call, reduced.inputs);
    EXPECT_EQ(judge(call, reduced, 0, reduced.result), "");
    Bytes got = reduced.result;
    got[17 * call.type.bytes] ^= std::byte{1};
    EXPECT_NE(judge(call, reduced, 0, got).find("1 of 64 elements are wrong, first 17"),
              std::string::npos)
        << call << ": " << judge(call, reduced, 0, got);
  }
}

// Of more ranks the bits may differ; of floats of 8 bits by so much that only whole numbers tell.
TEST_P(Judge, RefusesALostContribution) {
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG}) {
    for (const bool whole : {true, false}) {
      if (whole || GetParam().bytes > 1)
        lose({.type = GetParam(), .reduction = reduction, .count = 4093, .whole = whole});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, Judge, testing::ValuesIn(kAllTypes),
                         [](const testing::TestParamInfo<Type>& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace weft::gpu_test
