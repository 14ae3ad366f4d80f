// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-gather, reduce-scatter and all-reduce by parallel aggregated trees, whatever would be chosen:
// any number of ranks, over every transport.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/thread_ranks.h"
#include "tests/integration/api/trial.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> pat_alone(const std::string& transport,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> words = only_transport(transport);
  words.insert(words.end(),
               {"collectives.all_gather.algorithm", "pat", "collectives.reduce_scatter.algorithm",
                "pat", "collectives.all_reduce.algorithm", "pat"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

constexpr Kind kByPat[] = {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce};

/// Those of operations that go so, one in `share` of them, and some more: blocks, or ranges, that
/// fill a step and do not quite. Other numbers of ranks get other shares.
std::vector<Shape> pat_shapes(std::uint32_t ranks, std::size_t step_bytes, std::uint32_t share) {
  std::vector<Shape> shapes = all_shapes(ranks, step_bytes);
  std::uint32_t number = ranks;
  std::erase_if(shapes, [&](const Shape& shape) {
    const bool by_pat = std::ranges::find(kByPat, shape.kind) != std::end(kByPat);
    // Of all-reduces there are all types.
    const std::uint32_t those = shape.kind == Kind::kAllReduce ? 5 * share : share;
    return !by_pat || ++number % those != 0;
  });
  for (const Kind kind : kByPat) {
    const std::size_t ranges = kind == Kind::kAllReduce ? ranks : 1;
    for (const std::size_t bytes :
         {step_bytes / ranks, step_bytes / 2 + 4, step_bytes, 3 * step_bytes + 20}) {
      shapes.push_back(
          {.kind = kind, .count = bytes * ranges / 4, .in_place = bytes == step_bytes});
    }
  }
  return shapes;
}

class ByPat : public testing::TestWithParam<std::string> {
 protected:
  void run(std::uint32_t ranks, const std::string& channels, std::size_t step_bytes,
           std::uint32_t share) {
    const ContextHandle context = make_context();
    const CommSettings settings(pat_alone(
        GetParam(), {"channels.max", channels, "buffers.step", std::to_string(step_bytes) + "B",
                     "timeouts.operation", kSanitized ? "150s" : "60s"}));
    const std::vector<Shape> shapes = pat_shapes(ranks, step_bytes, share);
    ASSERT_FALSE(shapes.empty());
    ASSERT_EQ(shapes_by_a_thread_each(context.get(), settings, ranks, shapes),
              std::vector<std::string>())
        << ranks << " ranks";
  }
};

// What ranks send to whom does not hang on the wire: of many ranks one number does on the others.
TEST_P(ByPat, AnyNumberOfRanks) {
  const std::uint32_t most = kSanitized ? 7 : 16;
  for (std::uint32_t ranks = 2; ranks <= most; ++ranks) {
    if (ranks > 8 && GetParam() != "p2p" && ranks != 13) continue;
    ASSERT_NO_FATAL_FAILURE(run(ranks, "1", 4096, ranks < 4 ? 1 : 7));
  }
}

TEST_P(ByPat, SeveralChannelsAndLargeSteps) {
  ASSERT_NO_FATAL_FAILURE(run(6, "3", std::size_t{64} << 10, 3));
}

INSTANTIATE_TEST_SUITE_P(Wires, ByPat, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

class PatErrors : public testing::Test {
 protected:
  void join(const std::vector<std::string>& more) {
    const CommSettings settings(pat_alone("shm", more));
    comms_ = init_all(context_.get(), settings, kRanks);
    streams_ = make_streams(context_.get(), kRanks);
  }

  static constexpr std::uint32_t kRanks = 5;
  const Shape shape_{.kind = Kind::kReduceScatter, .count = 100};
  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_;
  std::vector<CommHandle> comms_;
};

TEST_F(PatErrors, CallsThatDifferAreBothNamed) {
  join({});
  Shape other = shape_;
  other.reduction = WEFT_MAX;
  std::vector<std::unique_ptr<Trial>> trials;
  // Together: who starts late is told at once that others have failed, as the last of these may be.
  must(context_.get(), weft_group_start(context_.get()));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    trials.push_back(std::make_unique<Trial>(rank == 3 ? other : shape_, rank, kRanks, 0));
    must(context_.get(), trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
  }
  const bool all_started = weft_group_end(context_.get()) == WEFT_OK;
  std::vector<weft_result> results;
  std::string texts = all_started ? "" : last_error(context_.get()) + "\n";
  for (const StreamHandle& stream : streams_) {
    results.push_back(weft_stream_synchronize(stream.get()));
    texts += last_error(context_.get()) + "\n";
  }
  if (all_started) {
    EXPECT_EQ(std::ranges::count(results, WEFT_OK), 0);
  }
  EXPECT_GE(std::ranges::count(results, WEFT_ERROR_MISMATCH), 1);
  EXPECT_THAT(texts, HasSubstr("reduce_scatter of 100 float32 by sum"));
  EXPECT_THAT(texts, HasSubstr("reduce_scatter of 100 float32 by max"));
}

TEST_F(PatErrors, ARankThatNeverCallsIsWaitedForNoLongerThanSet) {
  join({"timeouts.operation", "2s"});
  std::vector<std::unique_ptr<Trial>> trials;
  // Connections are made by the others alone; so is the start.
  must(context_.get(), weft_group_start(context_.get()));
  for (std::uint32_t rank = 0; rank + 1 < kRanks; ++rank) {
    trials.push_back(std::make_unique<Trial>(shape_, rank, kRanks, 0));
    must(context_.get(), trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
  }
  must(context_.get(), weft_group_end(context_.get()));
  std::vector<weft_result> results;
  std::string texts;
  for (std::uint32_t rank = 0; rank + 1 < kRanks; ++rank) {
    results.push_back(weft_stream_synchronize(streams_[rank].get()));
    texts += last_error(context_.get()) + "\n";
  }
  EXPECT_EQ(std::ranges::count(results, WEFT_OK), 0);
  EXPECT_GE(std::ranges::count(results, WEFT_ERROR_TIMEOUT), 1) << texts;
  EXPECT_THAT(texts, HasSubstr("of 1 steps sent to it are taken")) << "how far each partner is";
  EXPECT_THAT(texts, HasSubstr("reduce_scatter of 100 float32 by sum"));
}

TEST_F(PatErrors, OneRankAloneHasNoPartner) {
  const CommSettings settings(pat_alone("shm", {}));
  comms_ = init_all(context_.get(), settings, 1);
  streams_ = make_streams(context_.get(), 1);
  Trial trial({.kind = Kind::kAllGather, .count = 4}, 0, 1, 0);
  EXPECT_EQ(trial.start(comms_[0].get(), streams_[0].get()), WEFT_ERROR_CONFIG);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("collectives.all_gather.algorithm allows only [pat]"));
  EXPECT_THAT(last_error(context_.get()), HasSubstr("there is no other rank"));
}

}  // namespace
}  // namespace weft::test
