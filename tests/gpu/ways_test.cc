// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ways that calls ask for by name, and sums by rank numbers.
#include <algorithm>
#include <cstring>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <weft/weft.h>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/job.h"
#include "tests/gpu/operations.h"
#include "tests/gpu/reference.h"

namespace weft::gpu_test {
namespace {

/// A way of an operation that counts only where it is named.
struct Way {
  Operation operation;
  weft_call_algorithm algorithm;
  weft_call_protocol protocol;
  const char* name;

  [[nodiscard]] bool by_ll128() const { return protocol == WEFT_CALL_PROTOCOL_LL128; }
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.name << "_of_" << way.operation;
}
constexpr std::array kWays{
    Way{Operation::kAllReduce, WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_SIMPLE, "tree"},
    Way{Operation::kBroadcast, WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_SIMPLE, "tree"},
    Way{Operation::kReduce, WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_SIMPLE, "tree"},
    Way{Operation::kAllReduce, WEFT_CALL_ALGORITHM_PAT, WEFT_CALL_PROTOCOL_ANY, "pat"},
    Way{Operation::kAllGather, WEFT_CALL_ALGORITHM_PAT, WEFT_CALL_PROTOCOL_ANY, "pat"},
    Way{Operation::kReduceScatter, WEFT_CALL_ALGORITHM_PAT, WEFT_CALL_PROTOCOL_ANY, "pat"},
    Way{Operation::kAllReduce, WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_LL, "ring_by_ll"},
    Way{Operation::kReduceScatter, WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_LL, "ring_by_ll"},
    Way{Operation::kAllReduce, WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL, "tree_by_ll"},
    Way{Operation::kAllReduce, WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_LL128, "ring_by_ll128"},
    Way{Operation::kAllGather, WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_LL128, "ring_by_ll128"},
    Way{Operation::kAllReduce, WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL128, "tree_by_ll128"},
    Way{Operation::kReduce, WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL128, "tree_by_ll128"}};

/// What joins a device to others, without which nothing goes by LL128.
bool knows_links() {
  return options().host || device_count() > 1;
}

void name_way(Team& team, const weft_call_options* options) {
  team.each([&](Member& member) {
    check(weft_comm_set_call_options(member.comm, options), "weft_comm_set_call_options");
  });
}

class CallOptions : public testing::TestWithParam<std::tuple<ModeAndLayout, Way>> {};

// Calls by a named way between others, captured too: each graph goes as it was captured.
TEST_P(CallOptions, NameAWay) {
  const auto& [how, way] = GetParam();
  SKIP_UNLESS_POSSIBLE(how.layout);
  if (way.by_ll128() && !knows_links()) {
    GTEST_SKIP() << "one device alone cannot tell what joins it to others";
  }
  Team team(how.mode, how.layout);
  Seeds seeds;
  const std::size_t count = 65537 / (has_blocks(way.operation) ? how.layout.ranks : 1);
  const Call call{.operation = way.operation, .count = count, .root = how.layout.ranks - 1};
  const weft_call_options named{.struct_size = sizeof(named),
                                .algorithm = way.algorithm,
                                .protocol = way.protocol,
                                .max_channels = 0};
  Trial trial(team, call);
  trial.run(seeds.next());
  name_way(team, &named);
  Captured by_name(team, call);
  trial.run(seeds.next());
  weft_call_options narrow = named;
  narrow.max_channels = 2;
  name_way(team, &narrow);
  trial.run(seeds.next());
  name_way(team, nullptr);
  Captured by_default(team, call);
  for (int turn = 0; turn < 4; ++turn) {
    trial.run(seeds.next());
    by_name.replay(team, seeds.next());
    by_default.replay(team, seeds.next());
    by_name.replay(team, seeds.next());
  }
}

/// Also of more ranks than a kernel's argument has tables for, and whose trees are deeper.
constexpr Layout kMany{9, true};

std::vector<ModeAndLayout> with_peers() {
  std::vector<ModeAndLayout> some = modes_and_layouts();
  std::erase_if(some, [](const ModeAndLayout& each) { return each.layout.ranks == 1; });
  some.push_back({Mode::kThreads, kMany});
  return some;
}

INSTANTIATE_TEST_SUITE_P(Gpu, CallOptions,
                         testing::Combine(testing::ValuesIn(with_peers()),
                                          testing::ValuesIn(kWays)),
                         [](const testing::TestParamInfo<std::tuple<ModeAndLayout, Way>>& info) {
                           return std::get<0>(info.param).name() + "_" +
                                  std::get<1>(info.param).name + "_of_" +
                                  name_of(std::get<1>(info.param).operation);
                         });

// ---- told by ranks that are processes ----

/// So that what is told of a way is found, each has calls of a size of its own.
std::size_t count_of(const Way& way) {
  return 60'001 + static_cast<std::size_t>(&way - kWays.data());
}

TEST(RankOfJob, CallsByName) {
  Team team(Mode::kProcess, layout_of_job());
  for (const Way& way : kWays) {
    if (way.by_ll128() && !knows_links()) continue;
    const weft_call_options named{.struct_size = sizeof(named),
                                  .algorithm = way.algorithm,
                                  .protocol = way.protocol,
                                  .max_channels = 1};
    name_way(team, &named);
    Trial(team, {.operation = way.operation, .count = count_of(way)}).run(options().seed);
  }
}

/// "tree with ll" of "tree_by_ll"; where the name has none, what there is but for it.
std::string told_way(const Way& way) {
  std::string text = way.name;
  const std::size_t by = text.find("_by_");
  if (by == std::string::npos) return text + " with simple";
  return text.replace(by, 4, " with ");
}

/// Whether a line has both. There are others with either: references are made by calls of the host.
bool is_told(const std::string& log, const std::string& call, const std::string& way) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(call) != std::string::npos && line.find(way) != std::string::npos) return true;
  }
  return false;
}

class ToldWays : public testing::TestWithParam<Layout> {};

// Results are right by any way: that a call took the one which it named stands in the log alone.
TEST_P(ToldWays, AreThoseThatCallsName) {
  const Layout& layout = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Job job(layout, "CallsByName", {{"WEFT_LOG_TOPICS_SCHEDULE", "debug"}});
  job.expect_success();
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
    const std::string log = job[rank].err();
    for (const Way& way : kWays) {
      if (way.by_ll128() && !knows_links()) continue;
      const std::string call = "rank " + std::to_string(rank) + " plans " + name_of(way.operation) +
                               " of " + std::to_string(count_of(way)) + " ";
      EXPECT_TRUE(is_told(log, call, " on at most 1 channel: " + told_way(way) + ", "))
          << call << "by " << told_way(way) << " is not told:\n"
          << indented(log);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Gpu, ToldWays, testing::ValuesIn(kPairs), layout_name<Layout>);

// ---- by rank numbers ----

const Settings kByRank{{"collectives.deterministic", "true"}};

constexpr std::array kReductions{Operation::kAllReduce, Operation::kReduce,
                                 Operation::kReduceScatter, Operation::kReduceScatterV};

class ByRank : public testing::TestWithParam<std::tuple<ModeAndLayout, Operation>> {};

// Whichever way the planner takes: the bits are those of the left fold.
TEST_P(ByRank, Calls) {
  const auto& [how, operation] = GetParam();
  SKIP_UNLESS_POSSIBLE(how.layout);
  Team team(how.mode, how.layout, kByRank);
  run_operation(team, operation, how.layout.ranks > 4);
}
TEST_P(ByRank, Graphs) {
  const auto& [how, operation] = GetParam();
  SKIP_UNLESS_POSSIBLE(how.layout);
  Team team(how.mode, how.layout, kByRank);
  replay_operation(team, operation, true);
}
INSTANTIATE_TEST_SUITE_P(
    Gpu, ByRank, testing::Combine(testing::ValuesIn(with_peers()), testing::ValuesIn(kReductions)),
    [](const testing::TestParamInfo<std::tuple<ModeAndLayout, Operation>>& info) {
      return std::get<0>(info.param).name() + "_of_" + name_of(std::get<1>(info.param));
    });

/// Float32 and a type whose every sum is rounded.
class LeftFold : public testing::TestWithParam<Type> {};

// What results are compared with, made from sums of two by hand: what has two operands alone has no
// order.
TEST_P(LeftFold, IsWhatTheHostMakes) {
  constexpr std::size_t kRanks = 4;
  const Type type = GetParam();
  for (const weft_reduction reduction : {WEFT_SUM, WEFT_PROD}) {
    Call call{.type = type, .reduction = reduction, .count = 4093, .by_rank = true};
    std::vector<Bytes> inputs;
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      inputs.push_back(random_input(call, call.bytes(), options().seed + rank));
    const Bytes all = reduced_by_host(call, inputs, {});
    Call two = call;
    two.by_rank = false;
    Bytes folded = inputs[0];
    for (std::size_t rank = 1; rank < kRanks; ++rank)
      folded = reduced_by_host(two, {folded, inputs[rank]}, {});
    EXPECT_EQ(std::memcmp(all.data(), folded.data(), all.size()), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Gpu, LeftFold, testing::Values(kFloat32, kFloat64, kFloat16, kBfloat16),
                         [](const testing::TestParamInfo<Type>& info) { return info.param.name; });

}  // namespace
}  // namespace weft::gpu_test
