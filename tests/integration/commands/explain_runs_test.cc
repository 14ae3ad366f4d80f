// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What `weft explain` prints is what runs, line by line: the plan that each rank bound, as it
// writes it at level trace, and the hops over which it says that data goes.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/commands/commands.h"

namespace weft::test {
namespace {

using testing::Contains;

constexpr int kRanks = 4;

struct ExplainedCall {
  std::string operation;
  std::string size;
  std::string algorithm{};  ///< Empty: the planner's choice.
  std::string protocol{};
  std::string order = "shm";
  std::vector<std::string> options{};  ///< Of both commands.
  Variables more{};
  int hosts = 1;
};

void PrintTo(const ExplainedCall& one, std::ostream* out) {
  *out << fmt::format("{} of {} {} {} over {} on {} hosts {}", one.operation, one.size,
                      one.algorithm, one.protocol, one.order, one.hosts,
                      fmt::join(one.options, " "));
}

// Several channels, many chunks, and inboxes.
Variables variables_of(const ExplainedCall& one) {
  Variables all = one.more;
  all.insert({{"WEFT_TRANSPORTS_ORDER", one.order},
              {"WEFT_TRANSPORTS_NET", "net-socket"},
              {"WEFT_CHANNELS_MAX", "2"},
              {"WEFT_BUFFERS_STEP", "16KiB"},
              {"WEFT_BUFFERS_DIRECT", "64KiB"}});
  const auto allow = [&](const std::string& what, const std::string& value) {
    std::string name = "WEFT_COLLECTIVES_" + one.operation + what;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    if (!value.empty()) all[name] = value;
  };
  allow("_algorithm", one.algorithm);
  allow("_protocol", one.protocol);
  return all;
}

// As a job: neighbours by number stand on different hosts, where there are some.
Outcome in_job(const ExplainedCall& one, const std::vector<std::string>& words,
               const Variables& variables) {
  const std::string host = fmt::format("host-$((WEFT_RANK % {}))", one.hosts);
  return run(weft_command(
      {"run", "-n", std::to_string(kRanks), "--no-prefix", "--", "sh", "-c",
       fmt::format("WEFT_HOST_ID={} exec {} {}", host, WEFT_COMMAND, fmt::join(words, " "))},
      variables));
}

// Where one host will do, it starts a job of its own, as people let it.
Outcome explain_call(const ExplainedCall& one) {
  std::vector<std::string> words = {"explain", one.operation, one.size};
  words.insert(words.end(), one.options.begin(), one.options.end());
  if (one.hosts > 1) return in_job(one, words, variables_of(one));
  words.insert(words.end(), {"-n", std::to_string(kRanks)});
  return weft(words, variables_of(one));
}

Outcome bench_call(const ExplainedCall& one) {
  std::vector<std::string> words = {"bench",  one.operation, "--min", one.size,   "--max",
                                    one.size, "--iters",     "1",     "--warmup", "0"};
  words.insert(words.end(), one.options.begin(), one.options.end());
  Variables variables = variables_of(one);
  variables["WEFT_LOG_TOPICS_TRANSPORT"] = "info";
  variables["WEFT_LOG_TOPICS_SCHEDULE"] = "trace";
  return in_job(one, words, variables);
}

/// The lines of that topic and level, without what comes before their messages.
std::vector<std::string> messages(const std::string& log, const std::string& level_and_topic) {
  const std::string mark = " WEFT " + level_and_topic + ": ";
  std::vector<std::string> found;
  for (const std::string& line : lines_of(log)) {
    if (const auto at = line.find(mark); at != std::string::npos)
      found.push_back(line.substr(at + mark.size()));
  }
  return found;
}

using Lines = std::vector<std::string>;

/// The only lines of what is told of a call that say more than its plan: how ranks are joined.
bool tells_of_hop(const std::string& line) {
  return line.starts_with("ranks ") || line.starts_with("net-socket from ");
}

/// What a rank ran: each begins with a line that is neither indented nor tells of a hop.
std::vector<Lines> told_by(const std::string& log, int rank) {
  const std::string beginning = fmt::format("rank {} runs: ", rank);
  std::vector<Lines> plans;
  for (const std::string& message : messages(log, "trace schedule")) {
    if (!message.starts_with(beginning)) continue;
    const std::string line = message.substr(beginning.size());
    if (!line.starts_with(' ') && !tells_of_hop(line)) plans.emplace_back();
    if (!plans.empty()) plans.back().push_back(line);
  }
  return plans;
}

class ExplainRuns : public testing::TestWithParam<ExplainedCall> {};

TEST_P(ExplainRuns, LineByLine) {
  const Outcome explained = explain_call(GetParam());
  ASSERT_EQ(explained.exit_status, 0) << explained.describe();
  const Outcome ran = bench_call(GetParam());
  ASSERT_EQ(ran.exit_status, 0) << ran.describe();

  Lines plan = lines_of(explained.out);
  ASSERT_FALSE(plan.empty());
  const auto hops_begin = std::ranges::find_if(plan, tells_of_hop);
  const std::set<std::string> hops(hops_begin, plan.end());
  plan.erase(hops_begin, plan.end());
  EXPECT_GT(plan.size(), 10U) << explained.out;
  EXPECT_GE(hops.size(), std::size_t{kRanks - 1}) << "what joins all ranks";

  std::set<std::string> hops_that_ran;
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    std::vector<Lines> told = told_by(ran.err, rank);
    // Of the bench's own sums, too.
    std::erase_if(told, [&](const Lines& one) { return one.front() != plan.front(); });
    ASSERT_EQ(told.size(), 1U) << "it is told once of all calls";
    const auto own_hops = std::ranges::find_if(told[0], tells_of_hop);
    hops_that_ran.insert(own_hops, told[0].end());
    told[0].erase(own_hops, told[0].end());
    EXPECT_EQ(told[0], plan);
  }
  EXPECT_EQ(hops_that_ran, hops);
  // Ranks that joined said the same of transports, before anybody planned.
  const Lines said = messages(ran.err, "info transport");
  for (const std::string& hop : hops) {
    if (hop.starts_with("ranks ")) {
      EXPECT_THAT(said, Contains(hop));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, ExplainRuns,
    testing::Values(
        ExplainedCall{"all_reduce", "8MiB"}, ExplainedCall{"all_reduce", "8", "direct"},
        ExplainedCall{
            "all_reduce", "1MiB", "ring", "ll128", "shm", {"--type", "float16", "--op", "max"}},
        ExplainedCall{"all_reduce", "100000", "tree", "ll"},
        ExplainedCall{"all_reduce", "300KiB", "two-shot"},
        ExplainedCall{"all_reduce", "1MiB", "tree", "", "net"},
        ExplainedCall{.operation = "all_reduce",
                      .size = "1MiB",
                      .algorithm = "chain",
                      .order = "net",
                      .more = {{"WEFT_COLLECTIVES_DETERMINISTIC", "true"}}},
        ExplainedCall{.operation = "all_reduce",
                      .size = "2MiB",
                      .algorithm = "pat",
                      .order = "shm,net",
                      .hosts = 2},
        ExplainedCall{"broadcast", "512"},
        ExplainedCall{"broadcast", "1MiB", "tree", "", "shm", {"--root", "2"}},
        ExplainedCall{"broadcast", "1MiB", "ring", "", "net", {"--root", "3", "--type", "int32"}},
        ExplainedCall{"all_gather", "8KiB", "direct"},
        ExplainedCall{.operation = "all_gather",
                      .size = "1MiB",
                      .algorithm = "pat",
                      .order = "shm,net",
                      .hosts = 2},
        ExplainedCall{"reduce_scatter", "1MiB", "pat", "", "net"},
        ExplainedCall{"reduce_scatter", "1MiB", "ring", "", "shm", {"--op", "avg"}},
        ExplainedCall{.operation = "reduce_scatter",
                      .size = "64KiB",
                      .algorithm = "chain",
                      .more = {{"WEFT_COLLECTIVES_DETERMINISTIC", "true"}}},
        ExplainedCall{"reduce", "100", "tree", "", "shm", {"--root", "1"}},
        ExplainedCall{"reduce", "1MiB", "ring", "", "net", {"--root", "3", "--op", "prod"}},
        ExplainedCall{"all_gather_v", "2MiB"},
        ExplainedCall{"reduce_scatter_v", "100000", "", "", "net"}));

}  // namespace
}  // namespace weft::test
