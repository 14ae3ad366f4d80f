// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that are captured into CUDA graphs and replayed.
#include "tests/gpu/graphs.h"

#include <memory>
#include <optional>

#include "tests/gpu/calls.h"
#include "tests/gpu/reference.h"

namespace weft::gpu_test {
void capture_first_use(Team& team) {
  Captured captured(team, {.type = kFloat32, .count = 4093});
  for (std::uint64_t i = 0; i < 3; ++i)
    captured.replay(team, options().seed + i);
  Trial(team, {.type = kInt32, .count = 257}).run(options().seed);  // eager calls go on from there
  captured.replay(team, options().seed + 3);
}

void capture_many_channels_first(Team& team) {
  // The host device has no such channels.
  const std::size_t count = options().host ? 50'000 : std::size_t{5} << 20;
  Captured sum(team, {.type = kFloat32, .count = count + 3});
  Captured gathered(team, {.operation = Operation::kAllGather, .type = kInt32, .count = count});
  Captured exchanged(team, {.operation = Operation::kAllToAll, .type = kInt32, .count = count});
  exchanged.replay(team, options().seed);  // not in the order of captures
  gathered.replay(team, options().seed);
  sum.replay(team, options().seed + 1);
  Trial(team, {.type = kInt32, .count = count}).run(options().seed);
  Captured later(team, {.type = kFloat32, .count = count + 1001});
  for (Captured* each : {&later, &exchanged, &sum, &gathered})
    each->replay(team, options().seed + 2);
}

void replay_alternately(Team& team) {
  const std::uint32_t last = team.layout().ranks - 1;
  const std::array calls{
      Call{.type = kFloat32, .count = 1},
      Call{.type = kInt32, .reduction = WEFT_MAX, .count = 65537, .in_place = true},
      Call{.operation = Operation::kBroadcast,
           .type = kInt32,
           .count = 4093,
           .root = last,
           .recv_offset = 1},
      Call{.type = kFloat32, .count = 1048573, .send_offset = 1}};
  std::vector<std::unique_ptr<Captured>> captured;
  for (const Call& call : calls) {
    captured.push_back(std::make_unique<Captured>(team, call));
    // Captured one after the other, with calls between.
    Trial(team, {.type = kInt32, .count = 127}).run(options().seed);
  }
  // Every rank takes the same turns.
  std::uint64_t state = options().seed;
  for (std::uint64_t turn = 0; turn < 40; ++turn) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::size_t which = (state >> 33) % (calls.size() + 2);
    if (which < calls.size()) {
      captured[which]->replay(team, options().seed + turn);
    } else {
      Trial(team, calls[which - 2]).run(options().seed + turn);
    }
  }
  // Replays of different graphs, queued without a wait between.
  for (auto& each : captured)
    each->trial.prepare(options().seed + 100);
  team.each([&](Member& member) {
    for (auto& each : captured)
      each->graphs.launch(member);
  });
  team.synchronize();
  for (auto& each : captured)
    each->trial.check();
}

namespace {

/// What replay_often needs of one rank, on its device.
struct Logs {
  Logs(const Member& member, const Bytes& input, std::size_t bytes)
      : in(member.device, input.size(), 0),
        out(member.device, input.size(), 0),
        send(member.device, bytes, 0),
        recv(member.device, bytes, 0) {
    in.write(input, 1, member.cuda);
    out.write({}, 2, member.cuda);
    send.write({}, 3, member.cuda);
    recv.write({}, 4, member.cuda);
  }
  Zone in, out, send, recv;
};

}  // namespace

void replay_often(Team& team, const Type& type, bool mixed) {
  constexpr std::size_t kReplays = 1000;
  const Call one{.type = type, .count = 257};
  // The host reduces all of them at once: elements do not depend on each other.
  Call all = one;
  all.count = one.count * kReplays;
  Reduced reduced;
  for (std::uint32_t rank = 0; rank < team.layout().ranks; ++rank)
    reduced.inputs.push_back(random_input(all, all.bytes(), options().seed * 31 + rank));
  reduced.result = reduced_by_host(all, reduced.inputs);

  std::vector<std::unique_ptr<Logs>> logs(team.layout().ranks);
  for (const Member& member : team.members())
    logs[member.rank] = std::make_unique<Logs>(member, reduced.inputs[member.rank], one.bytes());
  const auto call = [&](Member& member) {
    check(weft_all_reduce(logs[member.rank]->send.data(), logs[member.rank]->recv.data(), one.count,
                          type.weft, WEFT_SUM, member.comm, member.stream),
          "weft_all_reduce");
  };
  const auto copy = [](std::byte* to, const std::byte* from, const Call& what, Member& member) {
    CUDA(cudaMemcpyAsync(to, from, what.bytes(), cudaMemcpyDeviceToDevice, member.cuda));
  };
  Graphs graphs(team, call);
  const auto turn = [&](Member& member, std::size_t i) {
    Logs& own = *logs[member.rank];
    copy(own.send.data(), own.in.data() + i * one.bytes(), one, member);
    if (mixed && i % 7 == 3) {
      call(member);
    } else {
      graphs.launch(member);
    }
    copy(own.out.data() + i * one.bytes(), own.recv.data(), one, member);
  };
  if (team.mode() == Mode::kOneThread) {
    // Eager calls and replays of all ranks by turns: without a group, so that their order is kept.
    for (std::size_t i = 0; i < kReplays; ++i)
      team.each([&](Member& member) { turn(member, i); });
  } else {
    team.each([&](Member& member) {
      for (std::size_t i = 0; i < kReplays; ++i)
        turn(member, i);
    });
  }
  team.synchronize();
  team.each([&](Member& member) {
    const std::string wrong = judge(all, reduced, 0, logs[member.rank]->out.read(member.cuda));
    EXPECT_EQ(wrong, "") << "rank " << member.rank;
  });
}

namespace {

class GraphsTest : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_.emplace(GetParam().mode, GetParam().layout);
  }
  std::optional<Team> team_;
};

TEST_P(GraphsTest, FirstUse) {
  capture_first_use(*team_);
}

TEST_P(GraphsTest, FirstUseOfManyChannels) {
  capture_many_channels_first(*team_);
}

TEST_P(GraphsTest, Alternately) {
  replay_alternately(*team_);
}

TEST_P(GraphsTest, ThousandReplays) {
  SKIP_ON_HOST();
  replay_often(*team_, kInt32, false);
  replay_often(*team_, kFloat32, false);
}

TEST_P(GraphsTest, ThousandReplaysAndEagerCalls) {
  SKIP_ON_HOST();
  replay_often(*team_, kInt32, true);
}

TEST_P(GraphsTest, AllCaptureModes) {
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed}) {
    Captured captured(*team_, {.type = kInt32, .count = 1021}, mode);
    captured.replay(*team_, options().seed);
  }
}

TEST_P(GraphsTest, SeveralCallsInOneGraph) {
  Trial sum(*team_, {.type = kFloat32, .count = 4093});
  Trial copy(*team_, {.operation = Operation::kBroadcast, .type = kInt32, .count = 65537});
  Trial max(*team_, {.type = kInt32, .reduction = WEFT_MAX, .count = 1, .in_place = true});
  const std::array trials{&sum, &copy, &max};
  // By one thread in one group, which starts them in rounds.
  Graphs graphs(*team_, [&](Member& member) {
    for (Trial* trial : trials)
      trial->issue(member);
  });
  for (std::uint64_t i = 0; i < 5; ++i) {
    for (Trial* trial : trials)
      trial->prepare(options().seed + i);
    team_->each([&](Member& member) { graphs.launch(member); });
    team_->synchronize();
    for (Trial* trial : trials)
      trial->check();
  }
}

// Launching it once its communicator is gone is undefined; to hold and destroy it is not.
TEST_P(GraphsTest, OutliveTheirCommunicator) {
  Captured used(*team_, {.type = kInt32, .count = 4093});
  Captured unused(*team_, {.type = kFloat32, .count = 65537});
  used.replay(*team_, options().seed);
  team_->leave();
  Team next(GetParam().mode, GetParam().layout);
  Trial(next, {.type = kInt32, .count = 4093}).run(options().seed);
}

TEST_P(GraphsTest, EndBeforeTheirCommunicator) {
  {
    Captured captured(*team_, {.type = kInt32, .count = 4093});
    captured.replay(*team_, options().seed);
  }
  Trial(*team_, {.type = kInt32, .count = 4093}).run(options().seed);
  team_->leave();
}

TEST_P(GraphsTest, EndWhileTheirCallsRun) {
  Trial trial(*team_, {.type = kFloat32, .count = 1048573});
  auto graphs = std::make_unique<Graphs>(*team_, [&](Member& member) { trial.issue(member); });
  for (std::uint64_t i = 0; i < 3; ++i) {
    trial.prepare(options().seed + i);
    team_->each([&](Member& member) { graphs->launch(member); });
    if (i == 2) graphs.reset();
    team_->synchronize();
    trial.check();
  }
  Trial(*team_, {.type = kInt32, .count = 4093}).run(options().seed);
}

INSTANTIATE_TEST_SUITE_P(Gpu, GraphsTest, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

/// By a thread for each rank: what one thread calls for all of them is a group, which makes its
/// calls when the streams have joined again.
class ForkedStreams : public GraphsTest {};

// A stream that a captured one forks is captured with it: calls on both, of one communicator.
TEST_P(ForkedStreams, AreCapturedWithTheirCalls) {
  SKIP_ON_HOST();
  std::vector<Stream> forked;
  std::vector<cudaEvent_t> events(2 * std::size_t{GetParam().layout.ranks});
  for (const Member& member : team_->members()) {
    forked.push_back(open_stream(member.device));
    for (const std::size_t i : {0U, 1U}) {
      CUDA(cudaEventCreateWithFlags(&events[2 * member.rank + i], cudaEventDisableTiming));
    }
  }
  Trial first(*team_, {.type = kInt32, .count = 4093});
  Trial beside(*team_, {.type = kFloat32, .count = 65537});
  Trial last(*team_, {.operation = Operation::kBroadcast, .type = kInt32, .count = 257});
  {
    Graphs graphs(*team_, [&](Member& member) {
      const Stream& other = forked[member.rank];
      cudaEvent_t* const own = &events[2 * member.rank];
      first.issue(member);
      CUDA(cudaEventRecord(own[0], member.cuda));
      CUDA(cudaStreamWaitEvent(other.cuda, own[0], 0));
      beside.issue(member, other.weft);
      CUDA(cudaEventRecord(own[1], other.cuda));
      CUDA(cudaStreamWaitEvent(member.cuda, own[1], 0));
      last.issue(member);
    });
    for (std::uint64_t i = 0; i < 5; ++i) {
      for (Trial* trial : {&first, &beside, &last})
        trial->prepare(options().seed + i);
      team_->each([&](Member& member) { graphs.launch(member); });
      team_->synchronize();
      for (Trial* trial : {&first, &beside, &last})
        trial->check();
    }
  }
  for (const Member& member : team_->members())
    close_stream(member.device, forked[member.rank]);
  for (const cudaEvent_t event : events)
    CUDA(cudaEventDestroy(event));
}

std::vector<ModeAndLayout> layouts_by_threads() {
  std::vector<ModeAndLayout> all = modes_and_layouts();
  std::erase_if(all, [](const ModeAndLayout& one) { return one.mode != Mode::kThreads; });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Gpu, ForkedStreams, testing::ValuesIn(layouts_by_threads()),
                         mode_and_layout_name);

}  // namespace
}  // namespace weft::gpu_test
