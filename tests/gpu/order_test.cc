// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls whose streams are held back by the caller: they keep the order in which they were made, and
// those of two communicators leave each other room.
#include <array>
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"

namespace weft::gpu_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kHeldBack = 200ms;  // by then whatever may run has begun

/// Streams that wait until it opens: no work that comes after close() begins before.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  void close(int device, cudaStream_t stream) {
    use_device(device);
    // It may outlast this gate.
    auto* const open = new std::shared_ptr<std::atomic<bool>>(open_);
    const cudaError_t error = cudaLaunchHostFunc(stream, wait, open);
    if (error != cudaSuccess) delete open;
    CUDA(error);
  }
  void open() {
    *open_ = true;
    open_->notify_all();
  }

 private:
  static void CUDART_CB wait(void* argument) {
    const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> open(
        static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
    (*open)->wait(false);
  }

  const std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

/// A second stream for each member.
class OtherStreams {
 public:
  explicit OtherStreams(Team& team) : team_(team) {
    for (const Member& member : team.members())
      streams_.push_back(open_stream(member.device));
  }
  OtherStreams(const OtherStreams&) = delete;
  OtherStreams& operator=(const OtherStreams&) = delete;
  ~OtherStreams() {
    for (const Member& member : team_.members())
      close_stream(member.device, streams_[member.rank]);
  }
  [[nodiscard]] const Stream& of(const Member& member) const { return streams_[member.rank]; }

 private:
  Team& team_;
  std::vector<Stream> streams_;
};

class CallOrder : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_.emplace(GetParam().mode, GetParam().layout);
  }

  /// Connects, loads kernels, and sets new inputs.
  void prepare(std::initializer_list<Trial*> trials) {
    for (Trial* trial : trials)
      trial->run(options().seed);
    for (Trial* trial : trials)
      trial->prepare(options().seed + 1);
    team_->synchronize();
  }
  void close(Gate& gate, const OtherStreams& streams) {
    for (const Member& member : team_->members())
      gate.close(member.device, streams.of(member).cuda);
  }
  void issue_on_streams_that_go(Trial& trial, Gate& gate) {
    const OtherStreams others(*team_);
    close(gate, others);
    team_->issue([&](Member& member) { trial.issue(member, others.of(member).weft); });
  }
  /// Behind one that the gate holds back on other streams.
  void call_behind(Trial& before, Trial& after, Gate& gate) {
    team_->issue([&](Member& member) { after.issue(member); });
    expect_held_back();
    gate.open();
    team_->synchronize();
    before.check();
    after.check();
  }

 private:
  void expect_held_back() {
    std::this_thread::sleep_for(kHeldBack);
    for (const Member& member : team_->members()) {
      use_device(member.device);
      EXPECT_EQ(cudaStreamQuery(member.cuda), cudaErrorNotReady)
          << "rank " << member.rank << " has passed a call before an earlier one";
    }
  }

 protected:
  std::optional<Team> team_;
};

TEST_P(CallOrder, IsKeptAcrossACaptureOnAnotherStream) {
  Trial before(*team_, {.type = kInt32, .count = 4093});
  Trial captured(*team_, {.operation = Operation::kBroadcast, .type = kInt32, .count = 257});
  Trial after(*team_, {.type = kFloat32, .count = 65537});
  prepare({&before, &captured, &after});
  const OtherStreams others(*team_);
  Gate gate;
  close(gate, others);
  team_->issue([&](Member& member) { before.issue(member, others.of(member).weft); });
  Graphs graphs(*team_, [&](Member& member) { captured.issue(member); });
  call_behind(before, after, gate);
  team_->each([&](Member& member) { graphs.launch(member); });
  team_->synchronize();
  captured.check();
}

TEST_P(CallOrder, IsKeptAfterAStreamThatGoes) {
  Trial before(*team_, {.type = kInt32, .count = 4093});
  Trial after(*team_, {.type = kFloat32, .count = 65537});
  prepare({&before, &after});
  Gate gate;
  issue_on_streams_that_go(before, gate);
  call_behind(before, after, gate);
}

TEST_P(CallOrder, OnAStreamThatGoesIsWaitedFor) {
  Trial trial(*team_, {.type = kInt32, .count = 65537});
  prepare({&trial});
  Gate gate;
  issue_on_streams_that_go(trial, gate);
  std::atomic<bool> opened{false};
  std::thread opener([&] {
    std::this_thread::sleep_for(kHeldBack);
    opened = true;
    gate.open();
  });
  team_->leave();
  EXPECT_TRUE(opened) << "it did not wait";
  opener.join();
  trial.check();
}

// The null stream waits for blocking ones, so a call there would end their captures.
TEST_P(CallOrder, OnTheNullStreamIsRefusedWhileABlockingStreamIsCaptured) {
  Trial trial(*team_, {.type = kInt32, .count = 4093});
  prepare({&trial});
  std::vector<weft_stream*> null(team_->members().size());
  std::vector<cudaStream_t> captured(team_->members().size());
  team_->each([&](Member& member) {
    check(weft_stream_from_cuda(context(), member.device, nullptr, &null[member.rank]),
          "weft_stream_from_cuda");
    CUDA(cudaStreamCreate(&captured[member.rank]));
    CUDA(cudaStreamBeginCapture(captured[member.rank], cudaStreamCaptureModeRelaxed));
    // Either may be wrapped meanwhile.
    for (cudaStream_t each : {captured[member.rank], cudaStream_t{}}) {
      weft_stream* wrapped = nullptr;
      check(weft_stream_from_cuda(context(), member.device, each, &wrapped),
            "weft_stream_from_cuda");
      check(weft_stream_destroy(wrapped), "weft_stream_destroy");
    }
  });
  const auto call = [&] {
    team_->issue([&](Member& member) { trial.issue(member, null[member.rank]); });
  };
  try {
    call();
    ADD_FAILURE() << "a call was made";
  } catch (const Problem& problem) {
    EXPECT_EQ(problem.code, WEFT_ERROR_INVALID_USAGE) << problem.what();
  }
  team_->each([&](Member& member) {
    cudaGraph_t graph = nullptr;
    CUDA(cudaStreamEndCapture(captured[member.rank], &graph));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(captured[member.rank]));
  });
  // Ranks of one device would wait for each other there.
  if (team_->layout().one_device) {
    team_->issue([&](Member& member) { trial.issue(member); });
  } else {
    call();
  }
  team_->synchronize();
  team_->each([&](Member& member) {
    check(weft_stream_synchronize(null[member.rank]), "weft_stream_synchronize");
    check(weft_stream_destroy(null[member.rank]), "weft_stream_destroy");
  });
  trial.check();
}

INSTANTIATE_TEST_SUITE_P(Gpu, CallOrder, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

/// Ranks on a GPU each, calls that each take a large part of it.
class HeldBack : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam());
  }
};

// Of each rank's two communicators one waits for its caller, and on its neighbours the other: the
// calls of the one that goes ahead spin meanwhile, and what is set up behind them takes room, too.
TEST_P(HeldBack, CommunicatorsLeaveEachOtherRoom) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::uint32_t ranks = GetParam().ranks;
  const std::size_t block = kBytes / kFloat32.bytes / ranks;
  Call shift{.operation = Operation::kExchange};
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    shift.messages.push_back({.from = rank, .to = (rank + 1) % ranks, .count = block * ranks});
  const std::array calls{
      shift, Call{.type = kFloat32, .count = kBytes / kFloat32.bytes},
      Call{.operation = Operation::kAllGather, .type = kFloat32, .count = block},
      Call{.operation = Operation::kReduceScatter, .type = kFloat32, .count = block},
      Call{.operation = Operation::kAllToAll, .type = kFloat32, .count = block},
      // Straight to all others.
      Call{.type = kFloat32, .count = 65536},
      Call{.operation = Operation::kAllToAll, .type = kFloat32, .count = 16384}};
  constexpr std::size_t kInARow = 3;
  std::uint64_t seed = options().seed;
  std::array<Team, 2> teams{Team(Mode::kThreads, GetParam()), Team(Mode::kThreads, GetParam())};
  for (const Call& call : calls) {
    std::vector<std::unique_ptr<Trial>> trials;
    for (std::size_t i = 0; i < 2 * kInARow; ++i) {
      trials.push_back(std::make_unique<Trial>(teams[i % 2], call));
      trials.back()->run(seed++);
    }
    for (const auto& trial : trials)
      trial->prepare(seed++);
    for (Team& team : teams)
      team.synchronize();
    Gate gate;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Member& member = teams[rank % 2].members()[rank];
      gate.close(member.device, member.cuda);
    }
    for (std::size_t of = 0; of < 2; ++of) {
      teams[of].each([&](Member& member) {
        for (std::size_t i = of; i < trials.size(); i += 2)
          trials[i]->issue(member);
      });
    }
    std::this_thread::sleep_for(kHeldBack);
    gate.open();
    for (Team& team : teams)
      team.synchronize();
    for (const auto& trial : trials)
      trial->check();
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, HeldBack, testing::Values(Layout{2, false}, Layout{4, false}),
                         layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
