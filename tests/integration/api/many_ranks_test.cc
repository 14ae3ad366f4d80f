// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Many more ranks than processors, all in this process: every operation, of 8 bytes and then of a
// MiB. 64 ranks are promised to be through within a minute, joining included; 256 ranks with each
// call within a minute, on two processors.
//
// A MiB is what one rank has, in the larger of its buffers: all of the call where ranks have the
// same elements, and where there is a block for each rank all blocks together, so that each pair of
// 256 ranks moves 4 KiB. Of 8 bytes each block has all.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
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

constexpr std::size_t kSizes[] = {8, std::size_t{1} << 20};

/// Of an operation with a block for each rank, a block has all of the 8 bytes, and its share of a
/// MiB; where blocks differ that is their mean, which a trial draws as three quarters of its count.
std::size_t bytes_of_a_call(const Operation& operation, std::size_t bytes, std::uint32_t ranks) {
  const Kind kind = operation.kind.value_or(Kind::kAllToAll);
  if (!has_blocks(kind)) return bytes;
  const std::size_t share = bytes / ranks;
  return std::max<std::size_t>(8, has_uneven_blocks(kind) ? share * 4 / 3 : share);
}

std::vector<Operation> operations() {
  return {{"all_reduce", Kind::kAllReduce},
          {"all_gather", Kind::kAllGather},
          {"reduce_scatter", Kind::kReduceScatter},
          {"broadcast", Kind::kBroadcast},
          {"reduce", Kind::kReduce},
          {"all_to_all", Kind::kAllToAll},
          {"gather", Kind::kGather},
          {"scatter", Kind::kScatter},
          {"all_to_all_v", Kind::kAllToAllV},
          {"all_gather_v", Kind::kAllGatherV},
          {"reduce_scatter_v", Kind::kReduceScatterV},
          {"send_recv", std::nullopt}};
}

using Clock = std::chrono::steady_clock;

/// From a rank's call until its stream was empty.
struct Span {
  Clock::time_point begin;
  Clock::time_point end;
};

class Ranks : public testing::Test {
 protected:
  /// One operation behind the other, of both sizes, on one communicator. Answers each rank's spans,
  /// in this order.
  std::vector<std::vector<Span>> by_a_thread_each(std::uint32_t ranks,
                                                  const std::vector<Operation>& operations);
  const ContextHandle context_ = make_context();
  /// No deadline but the test's own: a busy machine is no failure.
  const CommSettings settings_{{"timeouts.bootstrap", "off"}};
};

std::vector<std::vector<Span>> Ranks::by_a_thread_each(std::uint32_t ranks,
                                                       const std::vector<Operation>& operations) {
  std::vector<std::vector<Span>> spans(ranks);
  const auto problems = test::by_a_thread_each(
      context_.get(), settings_, ranks,
      [&](weft_comm* comm, weft_stream* stream, std::uint32_t rank) {
        for (const Operation& operation : operations) {
          for (const std::size_t bytes : kSizes) {
            Call call(operation, bytes_of_a_call(operation, bytes, ranks), rank, ranks);
            const Clock::time_point begin = Clock::now();
            must(context_.get(), weft_group_start(context_.get()));
            must(context_.get(), call.start(comm, stream));
            must(context_.get(), weft_group_end(context_.get()));
            must(context_.get(), weft_stream_synchronize(stream));
            spans[rank].push_back({.begin = begin, .end = Clock::now()});
            if (const std::string text = call.wrong(); !text.empty())
              throw std::runtime_error(operation.name + ": " + text);
          }
        }
      });
  EXPECT_EQ(problems, std::vector<std::string>());
  return spans;
}

class ManyRanks : public Ranks, public testing::WithParamInterface<Operation> {
 protected:
  static constexpr std::uint32_t kRanks = 64;
  /// Of the promise, of both sizes together. What a sanitizer makes of it says nothing.
  void expect_a_minute() const {
    if (kSanitized) return;
    EXPECT_LT(Clock::now() - begun_, std::chrono::minutes(1));
  }
  const Clock::time_point begun_ = Clock::now();
};

TEST_P(ManyRanks, AThreadEach) {
  by_a_thread_each(kRanks, {GetParam()});
  expect_a_minute();
}

TEST_P(ManyRanks, AllInOneThread) {
  const StreamHandle stream = make_stream(context_.get());
  const std::vector<CommHandle> comms = init_all(context_.get(), settings_, kRanks);
  for (const std::size_t bytes : kSizes) {
    std::vector<std::unique_ptr<Call>> calls;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      calls.push_back(std::make_unique<Call>(GetParam(), bytes_of_a_call(GetParam(), bytes, kRanks),
                                             rank, kRanks));
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      must(context_.get(), calls[rank]->start(comms[rank].get(), stream.get()));
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_stream_synchronize(stream.get()));
    for (const auto& call : calls)
      EXPECT_EQ(call->wrong(), "");
  }
  expect_a_minute();
}

INSTANTIATE_TEST_SUITE_P(Operations, ManyRanks, testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

// All with all are 65,280 connections here, and as many letters: to join takes longer than most
// operations, so all of them follow one another on one communicator.
class MostRanks : public Ranks {};

/// From the first rank's call until the last one was through, what other ranks did meanwhile before
/// or after it included: so no call took longer.
Span of_all(const std::vector<std::vector<Span>>& spans, std::size_t call) {
  Span all = spans[0][call];
  for (const std::vector<Span>& rank : spans) {
    all.begin = std::min(all.begin, rank[call].begin);
    all.end = std::max(all.end, rank[call].end);
  }
  return all;
}

TEST_F(MostRanks, AThreadEach) {
  const std::vector<Operation> all = operations();
  const Clock::time_point begun = Clock::now();
  const auto spans = by_a_thread_each(256, all);
  ASSERT_FALSE(HasFailure());
  using Seconds = std::chrono::duration<double>;
  std::printf("joining: %.2f s\n", Seconds(of_all(spans, 0).begin - begun).count());
  for (std::size_t call = 0; call < spans[0].size(); ++call) {
    const std::string& name = all[call / std::size(kSizes)].name;
    const std::size_t bytes = kSizes[call % std::size(kSizes)];
    const Span span = of_all(spans, call);
    const Seconds took = span.end - span.begin;
    std::printf("%s of %zu bytes: %.2f s\n", name.c_str(), bytes, took.count());
    if (kSanitized) continue;  // what a sanitizer makes of it says nothing
    EXPECT_LT(took, std::chrono::minutes(1)) << name << " of " << bytes << " bytes";
  }
}

}  // namespace
}  // namespace weft::test
