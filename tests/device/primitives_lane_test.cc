// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Each primitive by each protocol with 8 and 32 lanes: the middle one of three ranks runs it while
// its neighbours send to it and receive from it. A planted defect is that rank's alone.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/primitives_ll.h"
#include "core/device/primitives_simple.h"
#include "core/device/reductions.h"
#include "core/model/step_lines.h"
#include "tests/device/each_primitive.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

using Mean = Average<float>;  // is finished where it is complete

class PrimitiveLanes : public ::testing::TestWithParam<std::tuple<Does, std::uint32_t, Protocol>> {
 protected:
  static constexpr std::uint32_t kRanks = 3;
  static constexpr std::uint32_t kMiddle = 1;
  // Fewer slots than steps, so that slots are filled again. Of LL128 a full step has an even number
  // of lines: behind an odd one the lanes of a pair meet once more, which would hide a defect.
  static constexpr std::uint32_t kSlots = 2;
  static constexpr std::uint32_t kStepBytes = 1024;

  PrimitiveLanes() {
    const auto [does, lanes, protocol] = GetParam();
    // All lanes have some of the last step: nothing of the kernel orders it but what is posted
    // with it.
    const std::uint64_t step = step_payload(protocol, kStepBytes) / sizeof(float);
    extents_ = {{.offset = 0, .count = 0},
                {.offset = 0, .count = 1},
                {.offset = 1, .count = 7 * step + 5},
                {.offset = 7 * step + 6, .count = 0},
                {.offset = 7 * step + 8, .count = step}};
    count_ = extents_.back().offset + extents_.back().count;
    for (std::vector<float>* buffer : {&arriving_, &input_, &output_, &passed_on_})
      buffer->assign(count_, -1.0F);
    for (std::uint64_t i = 0; i < count_; ++i) {
      arriving_[i] = sample<float>(0, i);
      (does.holds ? output_ : input_)[i] = sample<float>(1, i);
    }
  }

  void run_all() {
    const Does& does = std::get<Does>(GetParam());
    if (does.receives) start(0, kSend, arriving_.data(), nullptr);
    start(kMiddle, does, input_.data(), output_.data());
    if (does.sends) start(2, kRecv, nullptr, passed_on_.data());
    teams_.run();
  }

  /// What comes of an element: what is sent on without being complete is a sum yet.
  [[nodiscard]] static float due(std::uint64_t i) {
    const Does& does = std::get<Does>(GetParam());
    const float arrived = sample<float>(0, i);
    const float own = sample<float>(1, i);
    if (!does.receives) return own;
    if (!does.reads) return arrived;
    return does.writes ? (arrived + own) / 2 : arrived + own;
  }
  void check(const std::vector<float>& found, const std::vector<float>& before, bool written) {
    std::vector<float> expected = before;
    for (const Extent& extent : extents_) {
      for (std::uint64_t i = extent.offset; written && i < extent.offset + extent.count; ++i)
        expected[i] = due(i);
    }
    ASSERT_EQ(found, expected);
  }

  std::vector<float> arriving_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> passed_on_;
  std::atomic<std::uint32_t> abort_{0};

 private:
  void start(std::uint32_t rank, const Does& does, const float* send, float* recv) {
    const auto lanes = std::get<std::uint32_t>(GetParam());
    items_[rank] = world_.items(rank, {.count = count_}, 0, send, recv)[0];
    const auto run_rank = [this, rank, does](LaneGroup& group) {
      LaneMemory memory(abort_, rank == kMiddle);
      const KernelEnd end = run_lane(group, memory, items_[rank], does);
      EXPECT_EQ(end, KernelEnd::kDone) << "rank " << rank << " lane " << group.rank();
      if (end != KernelEnd::kDone) abort_.store(1);
    };
    teams_.add(rank_name(rank), lanes, run_rank, rank == kMiddle);
  }

  KernelEnd run_lane(LaneGroup& group, LaneMemory& memory, const WorkItem& item, const Does& does) {
    switch (std::get<Protocol>(GetParam())) {
      case Protocol::kLL:
        return run<LinePrimitives<Protocol::kLL, LaneGroup, LaneMemory, Mean>>(group, memory, item,
                                                                               does);
      case Protocol::kLL128:
        return run<LinePrimitives<Protocol::kLL128, LaneGroup, LaneMemory, Mean>>(group, memory,
                                                                                  item, does);
      default:
        return run<SimplePrimitives<LaneGroup, LaneMemory, Mean>>(group, memory, item, does);
    }
  }

  template <class Primitives>
  KernelEnd run(LaneGroup& group, LaneMemory& memory, const WorkItem& item, const Does& does) {
    Primitives primitives(group, memory, item, Mean{.divisor = 2}, sizeof(float), does.receives,
                          does.sends);
    for (const Extent& extent : extents_) {
      if (!run_primitive(primitives, does.name, extent, extent.offset)) break;
    }
    return primitives.finish().end;
  }

  std::vector<Extent> extents_;
  std::uint64_t count_ = 0;
  RingWorld world_{{.ranks = kRanks,
                    .steps = kSlots,
                    .step_bytes = kStepBytes,
                    .protocol = std::get<Protocol>(GetParam())}};
  WorkItem items_[kRanks];
  LaneTeams teams_;
};

TEST_P(PrimitiveLanes, DoesWhatItsNameSays) {
  const Does& does = std::get<Does>(GetParam());
  const std::vector<float> output_before = output_;
  const std::vector<float> untouched(output_.size(), -1.0F);
  run_all();
  ASSERT_NO_FATAL_FAILURE(check(output_, output_before, does.writes));
  ASSERT_NO_FATAL_FAILURE(check(passed_on_, untouched, does.sends));
}

INSTANTIATE_TEST_SUITE_P(
    Each, PrimitiveLanes,
    ::testing::Combine(::testing::ValuesIn(kPrimitives), ::testing::Values(8U, 32U),
                       ::testing::Values(Protocol::kSimple, Protocol::kLL, Protocol::kLL128)),
    [](const auto& info) {
      return std::string(std::get<Does>(info.param).name) + "_" +
             std::to_string(std::get<std::uint32_t>(info.param)) + "_lanes_" +
             std::string(protocol_name(std::get<Protocol>(info.param)));
    });

// The lines of the first lanes have come, and no others.
TEST(LinePrimitiveLanes, APeerThatFailedIsNoSizeThatDiffers) {
  constexpr std::uint32_t kLanes = 8;
  constexpr std::uint64_t kCount = 100;
  constexpr std::uint32_t kReason = 3;
  RingWorld world({.ranks = 2, .step_bytes = 1024, .protocol = Protocol::kLL});
  std::vector<float> data(kCount);
  const auto receiver = world.items(1, {.count = kCount}, 0, nullptr, data.data());
  const auto sender = world.items(0, {.count = kCount}, 0, data.data(), nullptr);
  std::atomic<std::uint32_t> abort{0};
  std::vector<KernelOutcome> outcomes(kLanes);
  const auto run = [&]<class Memory>(Memory memory, LaneGroup& group, const WorkItem& item,
                                     bool receives) {
    LinePrimitives<Protocol::kLL, LaneGroup, Memory, Mean> primitives(
        group, memory, item, Mean{.divisor = 2}, sizeof(float), receives, !receives);
    const Extent all{.offset = 0, .count = kCount};
    const bool done = receives ? primitives.recv(all) : primitives.send(all);
    EXPECT_NE(done, receives);
    return primitives.finish();
  };
  LaneTeams senders;
  senders.add("sender", kLanes,
              [&](LaneGroup& group) { run(LaneMemory(abort), group, sender[0], false); });
  senders.run();
  Link& link = world.link(0);
  link.tail() = 0;
  *receiver[0].from_previous.error = kReason;
  // Of the last lane's first part: its flag.
  const std::size_t line = std::size_t{kLanes - 1} * sizeof(Line);
  std::memset(receiver[0].from_previous.buffer + line, 0, sizeof(Line));
  LaneTeams receivers;
  receivers.add("receiver", kLanes, [&](LaneGroup& group) {
    outcomes[group.rank()] = run(TailAfterError(abort), group, receiver[0], true);
  });
  receivers.run();
  EXPECT_EQ(outcomes[0].end, KernelEnd::kPeerError);
  EXPECT_EQ(outcomes[0].found, kReason);
  EXPECT_EQ(outcomes[0].peer, 0U);
}

}  // namespace
}  // namespace weft::device::testing
