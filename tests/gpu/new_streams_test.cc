// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that are the first work of their streams.
#include <vector>

#include "tests/gpu/calls.h"

namespace weft::gpu_test {
namespace {

class NewStreams : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam().layout); }
};

// Each rank makes its stream when it comes to its call, while kernels of others may already wait.
TEST_P(NewStreams, OfEachCall) {
  Team team(GetParam().mode, GetParam().layout);
  Trial trial(team, {.type = kInt32, .count = 257});
  trial.run(options().seed);
  trial.prepare(options().seed + 1);
  team.synchronize();
  std::vector<Stream> streams(team.members().size());
  for (int round = options().small ? 5 : 200; round > 0; --round) {
    team.issue([&](Member& member) {
      Stream& stream = streams[member.rank];
      stream = open_stream(member.device);
      trial.issue(member, stream.weft);
    });
    team.each([&](Member& member) {
      const Stream& stream = streams[member.rank];
      check(weft_stream_synchronize(stream.weft), "weft_stream_synchronize");
      close_stream(member.device, stream);
    });
  }
  trial.check();
}

INSTANTIATE_TEST_SUITE_P(Gpu, NewStreams, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

}  // namespace
}  // namespace weft::gpu_test
