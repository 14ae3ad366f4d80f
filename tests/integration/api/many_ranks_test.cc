// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Many more ranks than processors, all in this process: every operation, of 8 bytes and of a
// megabyte for each rank. 64 ranks are promised to be through within a minute, joining included.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/exchange.h"
#include "tests/integration/api/handles.h"
#include "tests/integration/api/thread_ranks.h"
#include "tests/integration/api/trial.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

/// What all ranks call: a collective, or, without a kind, sends and receives from each to each.
struct Operation {
  std::string name;
  std::optional<Kind> kind;
};

/// One rank's call.
class Call {
 public:
  Call(const Operation& operation, std::size_t bytes, std::uint32_t rank, std::uint32_t ranks) {
    if (!operation.kind) {
      exchange_.emplace(Exchange::all_to_all(rank, ranks, bytes));
      return;
    }
    // Integers wrap: there is one right result, whatever they are.
    trial_.emplace(Shape{.kind = *operation.kind,
                         .count = bytes / 4,
                         .type = WEFT_INT32,
                         .root = has_root(*operation.kind) ? ranks - 3 : 0,
                         .values = Values::kAny},
                   rank, ranks, 1);
  }
  weft_result start(weft_comm* comm, weft_stream* stream) {
    return trial_ ? trial_->start(comm, stream) : exchange_->start(nullptr, comm, stream);
  }
  [[nodiscard]] std::string wrong() const { return trial_ ? trial_->wrong() : exchange_->wrong(); }

 private:
  std::optional<Trial> trial_;
  std::optional<Exchange> exchange_;
};

/// Operation, and bytes for each rank: of an operation with a block for each rank, a block has all
/// of the 8 bytes, and its share of a megabyte.
class ManyRanks : public testing::TestWithParam<std::tuple<Operation, std::size_t>> {
 protected:
  static std::size_t bytes_of_a_call(std::uint32_t ranks) {
    const auto& [operation, bytes] = GetParam();
    const Shape one{.kind = operation.kind.value_or(Kind::kAllGather), .count = 1};
    return std::max<std::size_t>(8, bytes / one.most_elements(ranks));
  }
  void by_a_thread_each(std::uint32_t ranks);
  /// Of the promise. What a sanitizer makes of it says nothing.
  void expect_a_minute() const {
    if (kSanitized) return;
    EXPECT_LT(std::chrono::steady_clock::now() - begun_, std::chrono::minutes(1));
  }
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  static constexpr std::uint32_t kRanks = 64;
  const ContextHandle context_ = make_context();
  /// No deadline but the test's own: a busy machine is no failure.
  const CommSettings settings_{{"timeouts.bootstrap", "off"}};
};

/// All with all are 65,280 connections here, and as many letters.
class MostRanks : public ManyRanks {};

void ManyRanks::by_a_thread_each(std::uint32_t ranks) {
  const auto problems = test::by_a_thread_each(
      context_.get(), settings_, ranks,
      [&](weft_comm* comm, weft_stream* stream, std::uint32_t rank) {
        Call call(std::get<0>(GetParam()), bytes_of_a_call(ranks), rank, ranks);
        must(context_.get(), weft_group_start(context_.get()));
        must(context_.get(), call.start(comm, stream));
        must(context_.get(), weft_group_end(context_.get()));
        must(context_.get(), weft_stream_synchronize(stream));
        if (const std::string text = call.wrong(); !text.empty()) throw std::runtime_error(text);
      });
  EXPECT_EQ(problems, std::vector<std::string>());
}

TEST_P(ManyRanks, AThreadEach) {
  by_a_thread_each(kRanks);
  expect_a_minute();
}

TEST_P(ManyRanks, AllInOneThread) {
  const StreamHandle stream = make_stream(context_.get());
  std::vector<std::unique_ptr<Call>> calls;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    calls.push_back(
        std::make_unique<Call>(std::get<0>(GetParam()), bytes_of_a_call(kRanks), rank, kRanks));
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, kRanks);
  must(context_.get(), weft_group_start(context_.get()));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    must(context_.get(), calls[rank]->start(comms[rank].get(), stream.get()));
  must(context_.get(), weft_group_end(context_.get()));
  must(context_.get(), weft_stream_synchronize(stream.get()));
  for (const auto& call : calls)
    EXPECT_EQ(call->wrong(), "");
  expect_a_minute();
}

TEST_P(MostRanks, AThreadEach) {
  by_a_thread_each(256);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Operation, std::size_t>>& info) {
  const auto& [operation, bytes] = info.param;
  return operation.name + (bytes == 8 ? "_of_8_bytes" : "_of_1_MiB");
}

constexpr std::size_t kSizes[] = {8, std::size_t{1} << 20};

auto every_call() {
  return testing::Combine(
      testing::Values(
          Operation{"all_reduce", Kind::kAllReduce}, Operation{"all_gather", Kind::kAllGather},
          Operation{"reduce_scatter", Kind::kReduceScatter},
          Operation{"broadcast", Kind::kBroadcast}, Operation{"reduce", Kind::kReduce},
          Operation{"all_to_all", Kind::kAllToAll}, Operation{"gather", Kind::kGather},
          Operation{"scatter", Kind::kScatter}, Operation{"all_to_all_v", Kind::kAllToAllV},
          Operation{"all_gather_v", Kind::kAllGatherV},
          Operation{"reduce_scatter_v", Kind::kReduceScatterV},
          Operation{"send_recv", std::nullopt}),
      testing::ValuesIn(kSizes));
}

INSTANTIATE_TEST_SUITE_P(Operations, ManyRanks, every_call(), name_of);
INSTANTIATE_TEST_SUITE_P(Operations, MostRanks, every_call(), name_of);

}  // namespace
}  // namespace weft::test
