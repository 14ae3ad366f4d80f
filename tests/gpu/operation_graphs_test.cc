// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All operations captured into graphs and replayed.
#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/operations.h"

namespace weft::gpu_test {
namespace {

/// Calls of one operation: small and of middle size, in place and not, with a factor of the device.
std::vector<Call> calls_of(Operation operation, std::uint32_t ranks) {
  Call small{.operation = operation, .count = 257, .root = ranks - 1, .table = 3};
  Call middle{.operation = operation,
              .type = kInt32,
              .count = has_blocks(operation) ? 65537 / ranks : 65537,
              .in_place = can_be_in_place(operation),
              .recv_offset = 1,
              .table = 5};
  if (operation == Operation::kExchange) {
    for (std::uint32_t from = 0; from < ranks; ++from) {
      small.messages.push_back({.from = from, .to = (from + 1) % ranks, .count = 257});
      for (std::uint32_t to = 0; to < ranks; ++to)
        middle.messages.push_back({.from = from, .to = to, .count = 65537 / (from + to + 1)});
    }
    middle.order = 1;
  }
  std::vector<Call> calls{small, middle};
  if (operation == Operation::kExchange) {
    // Copies alone, more than the smallest arguments hold, and messages, more than the largest.
    Call copies{.operation = operation};
    Call many{.operation = operation, .order = 1};
    for (std::uint32_t i = 0; i < 24; ++i)
      copies.messages.push_back({.from = i % ranks, .to = i % ranks, .count = 1 + i * 97});
    const std::uint32_t last = ranks - 1;
    for (std::uint32_t i = 0; i < 300; ++i) {
      const bool back = i % 3 == 0;
      many.messages.push_back({.from = back ? last : 0, .to = back ? 0 : last, .count = 1 + i % 7});
    }
    calls.insert(calls.end(), {copies, many});
  }
  if (reduces(operation)) {
    small.premul = Premul::kAtCall;
    small.in_place = true;
    calls.push_back(small);
  }
  return calls;
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all(kCollectives.begin(), kCollectives.end());
  all.push_back(Operation::kExchange);
  return all;
}

/// Memory of graphs is what the driver keeps for good, of each device that has ever captured some.
void expect_no_memory_of_graphs(Team& team) {
  if (options().host) return;
  for (const Member& member : team.members()) {
    std::uint64_t bytes = 0;
    CUDA(cudaDeviceGetGraphMemAttribute(member.device, cudaGraphMemAttrReservedMemHigh, &bytes));
    EXPECT_EQ(bytes, 0U) << "of device " << member.device;
  }
}

/// As a communicator's first use.
void capture_first(Team& team, Operation operation) {
  Captured captured(team, calls_of(operation, team.layout().ranks)[1]);
  for (std::uint64_t i = 0; i < 3; ++i)
    captured.replay(team, options().seed + i);
}

}  // namespace

void replay_operation(Team& team, Operation operation, bool few) {
  Seeds seeds;
  const std::vector<Call> calls = calls_of(operation, team.layout().ranks);
  const int replays = few || options().small ? 5 : 100 / static_cast<int>(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Captured captured(team, calls[i]);
    // The same, and another that needs what the graph may have kept.
    Trial same(team, calls[i]), other(team, calls[(i + 1) % calls.size()]);
    for (int turn = 0; turn < replays; ++turn) {
      if (turn % 7 == 2) same.run(seeds.next());
      if (turn % 7 == 5) other.run(seeds.next());
      captured.replay(team, seeds.next());
    }
  }
}

void replay_tables(Team& team, bool few) {
  Seeds seeds;
  for (const Operation operation :
       {Operation::kAllGatherV, Operation::kReduceScatterV, Operation::kAllToAllV}) {
    Call call{.operation = operation, .type = kInt32, .count = 4093};
    // An eager call before, between and after, each by a table of its own.
    std::vector<std::unique_ptr<Trial>> eager;
    for (const std::uint32_t table : {6U, 7U, 0U, 9U}) {
      call.table = table;
      eager.push_back(std::make_unique<Trial>(team, call));
    }
    eager[0]->run(seeds.next());
    call.table = 3;
    Captured first(team, call);
    eager[1]->run(seeds.next());
    call.table = 5;
    call.count = 20011;
    Captured second(team, call);
    for (int turn = 0; turn < (few ? 6 : 40); ++turn) {
      const std::uint64_t seed = seeds.next();
      if (draw(seed, 0) % 3 == 0) eager[draw(seed, 1) % eager.size()]->run(seed);
      (draw(seed, 2) % 2 == 0 ? first : second).replay(team, seed);
    }
    // Both, queued without a wait between, with an eager call in the midst.
    first.trial.prepare(seeds.next());
    eager[2]->prepare(seeds.next());
    second.trial.prepare(seeds.next());
    team.each([&](Member& member) { first.graphs.launch(member); });
    team.issue([&](Member& member) { eager[2]->issue(member); });
    team.each([&](Member& member) { second.graphs.launch(member); });
    team.synchronize();
    first.trial.check();
    eager[2]->check();
    second.trial.check();
  }
}

void replay_mix(Team& team, bool few) {
  const std::uint64_t seed = options().seed * 131;
  std::vector<std::unique_ptr<Captured>> all;
  for (std::size_t i = 0; i < 12; ++i)
    all.push_back(
        std::make_unique<Captured>(team, random_call(draw(seed, i), team.layout().ranks)));
  for (std::uint64_t round = 0; round < (few ? 3 : 10); ++round) {
    const std::uint64_t own = draw(seed, 1000 + round);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i]->trial.prepare(own % 1000000 + i);
    for (std::size_t i = all.size() - 1; i > 0; --i)
      std::swap(all[i], all[draw(own, i) % (i + 1)]);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (draw(own, 100 + i) % 3 == 0) {
        team.issue([&](Member& member) { all[i]->trial.issue(member); });
      } else {
        team.each([&](Member& member) { all[i]->graphs.launch(member); });
      }
    }
    team.synchronize();
    for (const auto& each : all)
      each->trial.check();
  }
}

namespace {

using OperationCase = std::tuple<ModeAndLayout, Operation>;

class OperationGraphs : public testing::TestWithParam<OperationCase> {
 protected:
  void SetUp() override {
    const auto& [how, operation] = GetParam();
    SKIP_UNLESS_POSSIBLE(how.layout);
    team_ = std::make_unique<Team>(how.mode, how.layout);
  }
  std::unique_ptr<Team> team_;
};
TEST_P(OperationGraphs, FirstUse) {
  capture_first(*team_, std::get<1>(GetParam()));
}
TEST_P(OperationGraphs, Replays) {
  replay_operation(*team_, std::get<1>(GetParam()), false);
  expect_no_memory_of_graphs(*team_);
}
INSTANTIATE_TEST_SUITE_P(Gpu, OperationGraphs,
                         testing::Combine(testing::ValuesIn(modes_and_layouts()),
                                          testing::ValuesIn(all_operations())),
                         [](const testing::TestParamInfo<OperationCase>& info) {
                           return std::get<0>(info.param).name() + "_of_" +
                                  name_of(std::get<1>(info.param));
                         });

class MixedGraphs : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout);
  }
  std::unique_ptr<Team> team_;
};
TEST_P(MixedGraphs, Tables) {
  replay_tables(*team_, false);
}
TEST_P(MixedGraphs, RandomCalls) {
  replay_mix(*team_, false);
}
INSTANTIATE_TEST_SUITE_P(Gpu, MixedGraphs, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

// ---- each transport ----

class TransportCaptures : public testing::TestWithParam<LayoutAndTransport> {};

// A net needs the CPU in each call: such calls are not captured, and nothing is broken by the try.
// Through memory of the host, exchanges between GPUs may be refused as well.
TEST_P(TransportCaptures, CaptureOrSayWhyNot) {
  const auto& [layout, transport] = GetParam();
  SKIP_UNLESS_POSSIBLE(layout);
  Team team(Mode::kThreads, layout, settings_of(transport));
  for (const Operation operation : all_operations()) {
    if (!is_wanted(operation)) continue;
    const Call call = calls_of(operation, layout.ranks)[1];
    Trial trial(team, call);
    const bool exchanges = !reduces(operation) && operation != Operation::kBroadcast &&
                           operation != Operation::kAllGather &&
                           operation != Operation::kAllGatherV;
    bool refused = false;
    try {
      Captured captured(team, call);
      captured.replay(team, options().seed);
      captured.replay(team, options().seed + 1);
    } catch (const Unsupported& problem) {
      refused = true;
      EXPECT_TRUE(transport == "net" || (transport == "shm" && exchanges)) << problem.what();
    }
    const bool has_to = transport == "net" && !options().host;
    EXPECT_TRUE(refused || !has_to) << call;
    trial.run(options().seed);
  }
}
INSTANTIATE_TEST_SUITE_P(Gpu, TransportCaptures,
                         testing::Combine(testing::ValuesIn(kPairs),
                                          testing::Values("p2p", "shm", "net")),
                         layout_and_transport_name);

}  // namespace
}  // namespace weft::gpu_test
