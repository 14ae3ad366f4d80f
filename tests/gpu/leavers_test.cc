// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that leave a communicator as soon as their own part is done, before others have begun
// theirs, and go on with another one, which may get the memory of the first.
#include <utility>

#include "tests/gpu/calls.h"
#include "tests/gpu/job.h"

namespace weft::gpu_test {
namespace {

/// The root of a broadcast is done once its slots are filled, of which its call needs no more than
/// there are.
void leave_before_others_receive(Mode mode, const Layout& layout) {
  Team team(
      mode, layout,
      {{"collectives.broadcast.algorithm", "ring"}, {"collectives.broadcast.protocol", "simple"}});
  Trial trial(team, {.operation = Operation::kBroadcast, .type = kInt32, .count = 65536});
  trial.prepare(options().seed);
  for (Member& member : team.members()) {
    if (member.rank != 0) continue;
    use_device(member.device);
    trial.issue(member);
    check(weft_stream_synchronize(member.stream), "weft_stream_synchronize");
    static_cast<void>(weft_comm_destroy(std::exchange(member.comm, nullptr)));
  }
  Team next(
      mode, layout,
      {{"collectives.broadcast.algorithm", "ring"}, {"collectives.broadcast.protocol", "simple"}});
  for (std::uint64_t i = 1; i < 4; ++i) {
    Trial(next, {.operation = Operation::kBroadcast, .type = kInt32, .count = 1 << 20})
        .run(options().seed + i);
    Trial(next, {.type = kInt32, .count = 1 << 20}).run(options().seed + i);
  }
  team.issue([&](Member& member) {
    if (member.rank != 0) trial.issue(member);
  });
  team.synchronize();
  trial.check();
  // Nor has what came late reached the communicator of now.
  Trial(next, {.operation = Operation::kBroadcast, .type = kInt32, .count = 1 << 20})
      .run(options().seed + 4);
}

class Leavers : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam().layout); }
};
TEST_P(Leavers, RootIsGoneBeforeOthersReceive) {
  leave_before_others_receive(GetParam().mode, GetParam().layout);
}

std::vector<ModeAndLayout> with_peers() {
  std::vector<ModeAndLayout> all = modes_and_layouts();
  std::erase_if(all, [](const ModeAndLayout& one) { return one.layout.ranks == 1; });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Gpu, Leavers, testing::ValuesIn(with_peers()), mode_and_layout_name);

TEST(RankOfJob, RootLeaves) {
  leave_before_others_receive(Mode::kProcess, layout_of_job());
}

class LeaverProcesses : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }
};
TEST_P(LeaverProcesses, RootIsGoneBeforeOthersReceive) {
  Job(GetParam(), "RootLeaves").expect_success();
}
INSTANTIATE_TEST_SUITE_P(Gpu, LeaverProcesses, testing::ValuesIn(kPairs), layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
