// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The collectives round rings and over trees by lines, of LL and of LL128, whatever would be
// chosen: over memory, and refused over nets.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
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

constexpr const char* kOperations[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                       "reduce"};

std::vector<std::string> lines_alone(const std::string& transport, const std::string& protocol,
                                     const std::vector<std::string>& more,
                                     const std::string& algorithm = "ring") {
  std::vector<std::string> words = only_transport(transport);
  for (const std::string operation : kOperations) {
    const bool has_trees = operation != "all_gather" && operation != "reduce_scatter";
    words.insert(words.end(),
                 {"collectives." + operation + ".algorithm", has_trees ? algorithm : "ring",
                  "collectives." + operation + ".protocol", protocol});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Of the operations that have rings of lines one in `share`.
std::vector<Shape> line_shapes(std::uint32_t ranks, std::size_t step_bytes, std::uint32_t share) {
  std::vector<Shape> shapes = all_shapes(ranks, step_bytes);
  std::uint32_t number = ranks;
  std::erase_if(shapes, [&](const Shape& shape) {
    switch (shape.kind) {
      case Kind::kAllReduce:
      case Kind::kAllGather:
      case Kind::kReduceScatter:
      case Kind::kBroadcast:
      case Kind::kReduce:
        return ++number % share != 0;
      default:
        return true;
    }
  });
  return shapes;
}

class ByLines : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {
 protected:
  void run(std::uint32_t ranks, const std::string& channels, std::size_t step_bytes,
           std::uint32_t share) {
    const ContextHandle context = make_context();
    const auto& [transport, protocol, algorithm] = GetParam();
    const CommSettings settings(
        lines_alone(transport, protocol,
                    {"channels.max", channels, "buffers.step", std::to_string(step_bytes) + "B",
                     "timeouts.operation", kSanitized ? "150s" : "60s"},
                    algorithm));
    const std::vector<Shape> shapes = line_shapes(ranks, step_bytes, share);
    ASSERT_FALSE(shapes.empty());
    ASSERT_EQ(shapes_by_a_thread_each(context.get(), settings, ranks, shapes),
              std::vector<std::string>())
        << ranks << " ranks";
  }
};

TEST_P(ByLines, AnyNumberOfRanks) {
  for (const std::uint32_t ranks : {2U, 3U, 4U, 7U, 12U}) {
    if (kSanitized && ranks > 4) break;
    ASSERT_NO_FATAL_FAILURE(run(ranks, "1", 4096, ranks < 4 ? 2 : 7));
  }
}

TEST_P(ByLines, SeveralChannelsAndLargeSteps) {
  ASSERT_NO_FATAL_FAILURE(run(5, "3", std::size_t{64} << 10, 5));
}

INSTANTIATE_TEST_SUITE_P(Wires, ByLines,
                         testing::Combine(testing::Values("p2p", "shm"),
                                          testing::Values("ll", "ll128"),
                                          testing::Values("ring", "tree")),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" +
                                  std::get<2>(info.param);
                         });

class LineErrors : public testing::TestWithParam<std::string> {
 protected:
  void join(const std::string& transport, const std::vector<std::string>& more) {
    const CommSettings settings(lines_alone(transport, GetParam(), more));
    comms_ = init_all(context_.get(), settings, kRanks);
    streams_ = make_streams(context_.get(), kRanks);
  }
  /// All ranks but the last `missing`, together; what they say.
  std::vector<weft_result> run(const Shape& other, std::uint32_t missing, std::string& texts) {
    std::vector<std::unique_ptr<Trial>> trials;
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank + missing < kRanks; ++rank) {
      trials.push_back(std::make_unique<Trial>(rank == 2 ? other : shape_, rank, kRanks, 0));
      must(context_.get(), trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
    std::vector<weft_result> results;
    for (std::uint32_t rank = 0; rank + missing < kRanks; ++rank) {
      results.push_back(weft_stream_synchronize(streams_[rank].get()));
      texts += last_error(context_.get()) + "\n";
    }
    return results;
  }

  static constexpr std::uint32_t kRanks = 4;
  const Shape shape_{.kind = Kind::kAllReduce, .count = 100};
  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_;
  std::vector<CommHandle> comms_;
};

TEST_P(LineErrors, CallsThatDifferAreBothNamed) {
  join("shm", {});
  Shape other = shape_;
  other.reduction = WEFT_MAX;
  std::string texts;
  const auto results = run(other, 0, texts);
  EXPECT_EQ(std::ranges::count(results, WEFT_OK), 0);
  EXPECT_GE(std::ranges::count(results, WEFT_ERROR_MISMATCH), 1);
  EXPECT_THAT(texts, HasSubstr("all_reduce of 100 float32 by sum"));
  EXPECT_THAT(texts, HasSubstr("all_reduce of 100 float32 by max"));
}

TEST_P(LineErrors, ARankThatNeverCallsIsWaitedForNoLongerThanSet) {
  join("shm", {"timeouts.operation", "2s"});
  std::string texts;
  const auto results = run(shape_, 1, texts);
  EXPECT_EQ(std::ranges::count(results, WEFT_OK), 0);
  EXPECT_GE(std::ranges::count(results, WEFT_ERROR_TIMEOUT), 1) << texts;
  EXPECT_THAT(
      texts, testing::ContainsRegex("on channel 0 by lines: [01] of 1 steps sent to it are taken"));
}

TEST_P(LineErrors, NetsMoveWholeSteps) {
  join("net-socket", {});
  Trial trial(shape_, 0, kRanks, 0);
  EXPECT_EQ(trial.start(comms_[0].get(), streams_[0].get()), WEFT_ERROR_CONFIG);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("ring with " + GetParam() +
                        ": net-socket joins ranks 0 and 1, and a net moves whole steps"));
}

INSTANTIATE_TEST_SUITE_P(Protocols, LineErrors, testing::Values("ll", "ll128"));

}  // namespace
}  // namespace weft::test
