// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// collectives.deterministic: random floating-point numbers give the bits of a plain loop over the
// ranks by their numbers, whatever algorithm, protocol, channels, steps, sizes, transport and
// placement.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/ordered_sums.h"
#include "tests/support/process.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kMostElements = kSanitized ? 1200 : 4099;

/// WEFT_TEST_SEED, or another in each run.
std::uint64_t draw_seed() {
  const char* const given = std::getenv("WEFT_TEST_SEED");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  std::cout << "WEFT_TEST_SEED=" << seed << std::endl;
  return seed;
}

/// What leaves nothing but one algorithm, and its protocol, to the operations that know it.
std::vector<std::string> forced(const std::string& algorithm) {
  if (algorithm == "chain") {
    return {"collectives.all_reduce.algorithm",     "chain",
            "collectives.reduce.algorithm",         "chain",
            "collectives.reduce_scatter.algorithm", "chain"};
  }
  if (algorithm == "direct") {
    return {"collectives.all_reduce.algorithm",
            "direct",
            "collectives.all_reduce.protocol",
            "ll",
            "collectives.reduce_scatter.algorithm",
            "direct",
            "collectives.reduce_scatter.protocol",
            "ll",
            "buffers.direct",
            "64KiB"};
  }
  if (algorithm == "two-shot") {
    return {"collectives.all_reduce.algorithm",
            "two-shot",
            "collectives.all_reduce.protocol",
            "simple",
            "buffers.direct",
            "4KiB"};
  }
  return {};
}

/// Ranks as threads of this process; what is wrong, of all of them.
std::vector<std::string> run_threads(std::uint32_t ranks, const std::vector<std::string>& settings,
                                     const std::vector<OrderedSum>& sums, std::uint64_t seed) {
  const ContextHandle context = make_context();
  const CommSettings config(settings);
  weft_unique_id id;
  must(context.get(), weft_get_unique_id(context.get(), &id));
  std::mutex mutex;
  std::vector<std::string> problems;
  const auto be_rank = [&](std::uint32_t rank) {
    std::vector<std::string> found;
    try {
      weft_comm* raw = nullptr;
      must(context.get(), weft_comm_init_rank(context.get(), config.get(), ranks, &id, rank, &raw));
      const CommHandle comm(raw);
      found = wrong_sums(context.get(), comm.get(), sums, seed);
    } catch (const std::exception& error) {
      found.push_back("rank " + std::to_string(rank) + ": " + error.what());
    }
    const std::scoped_lock lock(mutex);
    problems.insert(problems.end(), found.begin(), found.end());
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back(be_rank, rank);
  }
  return problems;
}

std::vector<std::string> run_threads(std::uint32_t ranks, const std::vector<std::string>& settings,
                                     std::size_t most, std::uint64_t seed) {
  return run_threads(ranks, settings, ordered_sums(ranks, most), seed);
}

/// Algorithm, or none for what the planner takes; transport.
class Deterministic : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Deterministic, SumsGoByRankNumbers) {
  const auto& [algorithm, transport] = GetParam();
  const bool direct = algorithm == "direct" || algorithm == "two-shot";
  const std::uint64_t seed = draw_seed();
  // Other cuts for other numbers of ranks; of odd and of even ones both.
  for (const std::uint32_t ranks : {2U, 3U, 4U, 7U, 9U}) {
    if ((direct && ranks > 8) || (kSanitized && ranks > 4)) break;
    std::vector<std::string> settings = only_transport(transport);
    const bool small = ranks / 2 % 2 == 1;
    for (const std::string& word : std::vector<std::string>{
             "collectives.deterministic", "true", "channels.max", small ? "3" : "1", "buffers.step",
             small ? "4KiB" : "128KiB", "timeouts.operation", kSanitized ? "150s" : "60s"})
      settings.push_back(word);
    for (const std::string& word : forced(algorithm))
      settings.push_back(word);
    EXPECT_THAT(run_threads(ranks, settings, kMostElements, seed), IsEmpty()) << ranks << " ranks";
  }
}

std::string name_of_way(const testing::TestParamInfo<Deterministic::ParamType>& info) {
  const auto& [algorithm, transport] = info.param;
  std::string name = (algorithm.empty() ? "any" : algorithm) + "Over" + transport;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ways, Deterministic,
                         testing::Values(std::tuple("", "p2p"), std::tuple("", "shm"),
                                         std::tuple("", "net-socket"), std::tuple("chain", "p2p"),
                                         std::tuple("chain", "shm"),
                                         std::tuple("chain", "net-socket"),
                                         std::tuple("direct", "p2p"), std::tuple("direct", "shm"),
                                         std::tuple("two-shot", "p2p"),
                                         std::tuple("two-shot", "shm")),
                         name_of_way);

// Large calls of many channels: what planner and devices cut differently.
TEST(DeterministicSizes, LargeSumsGoByRankNumbers) {
  const std::uint64_t seed = draw_seed();
  const std::size_t most = kSanitized ? 20011 : 70001;
  for (const char* const channels : {"1", "4"}) {
    EXPECT_THAT(run_threads(3,
                            {"transports.order", "shm", "channels.max", channels,
                             "collectives.deterministic", "true"},
                            most, seed),
                IsEmpty());
  }
}

// The numbers tell: by a ring the same calls come out otherwise.
TEST(DeterministicSizes, WithoutItTheOrderIsAnother) {
  const std::vector<std::string> wrong = run_threads(
      5,
      {"transports.order", "shm", "collectives.all_reduce.algorithm", "ring",
       "collectives.reduce.algorithm", "ring", "collectives.reduce_scatter.algorithm", "ring"},
      1000, draw_seed());
  EXPECT_THAT(wrong, testing::Contains(HasSubstr("by rank numbers it is")));
}

// By whom all inputs of an element come to; each step rounded would be another result.
TEST(DeterministicSizes, WithoutItDirectWaysRoundNarrowFloatsOnce) {
  const std::uint64_t seed = draw_seed();
  for (const char* const algorithm : {"direct", "two-shot"}) {
    std::vector<OrderedSum> sums = ordered_sums(4, 1200);
    std::erase_if(sums, [&](const OrderedSum& sum) {
      const bool scatters = sum.kind == Kind::kReduceScatter && algorithm == std::string("direct");
      return sum.kind != Kind::kAllReduce && !scatters;
    });
    std::vector<std::string> settings = forced(algorithm);
    settings.insert(settings.end(), {"transports.order", "shm"});
    EXPECT_THAT(run_threads(4, settings, sums, seed), testing::Contains(HasSubstr("it is")));
    for (OrderedSum& sum : sums)
      sum.rounds_once = true;
    EXPECT_THAT(run_threads(4, settings, sums, seed), IsEmpty()) << algorithm;
  }
}

/// Ranks, where they are, and settings.
struct Job {
  std::uint32_t ranks;
  std::string before;  ///< Shell words that place a rank.
  std::vector<std::string> settings;
  std::string joined;  ///< What must join rank 0 with one other at least.
};

class DeterministicProcesses : public testing::Test {
 protected:
  static void expect_by_rank_numbers(const Job& job) {
    std::string script = job.before + " exec \"$@\"";
    std::vector<std::string> words = {WEFT_COMMAND, "run",          "-n", std::to_string(job.ranks),
                                      "--",         "bash",         "-c", script,
                                      "rank",       ORDERED_PROGRAM};
    words.insert(words.end(), {std::to_string(draw_seed()), std::to_string(kMostElements),
                               "collectives.deterministic", "true"});
    words.insert(words.end(), job.settings.begin(), job.settings.end());
    const Outcome outcome = run({.arguments = words, .environment = {}, .input = {}});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
      const std::string number = std::to_string(rank);
      EXPECT_THAT(outcome.out, HasSubstr("rank " + number + " of " + std::to_string(job.ranks)));
    }
    EXPECT_THAT(outcome.out, HasSubstr(": " + job.joined + ": ")) << outcome.describe();
  }
};

TEST_F(DeterministicProcesses, OnOneHost) {
  expect_by_rank_numbers({.ranks = 4, .before = "", .settings = {}, .joined = "shm"});
}

TEST_F(DeterministicProcesses, OverMessages) {
  expect_by_rank_numbers({.ranks = 3,
                          .before = "",
                          .settings = {"transports.order", "net", "channels.max", "2"},
                          .joined = "net-socket"});
}

// Neighbours by number are on different hosts: rings go by another order.
TEST_F(DeterministicProcesses, DealtOutToTwoHosts) {
  expect_by_rank_numbers({.ranks = 5,
                          .before = "export WEFT_HOST_ID=host-$((WEFT_RANK % 2));",
                          .settings = {},
                          .joined = "net-socket"});
}

TEST(DeterministicErrors, NothingThatKeepsTheOrderIsAnError) {
  const ContextHandle context = make_context();
  const CommSettings settings({"transports.order", "shm", "collectives.deterministic", "true",
                               "collectives.all_reduce.algorithm", "ring,tree",
                               "timeouts.operation", "5s"});
  const auto comms = init_all(context.get(), settings, 2);
  const auto streams = make_streams(context.get(), 2);
  std::vector<float> numbers(4);
  EXPECT_EQ(weft_all_reduce(numbers.data(), numbers.data(), 4, WEFT_FLOAT32, WEFT_SUM,
                            comms[0].get(), streams[0].get()),
            WEFT_ERROR_CONFIG);
  EXPECT_THAT(
      last_error(context.get()),
      AllOf(HasSubstr("collectives.all_reduce.algorithm allows only [ring, tree]"),
            HasSubstr("collectives.deterministic asks for an order"), HasSubstr("add \"chain\"")));
}

}  // namespace
}  // namespace weft::test
