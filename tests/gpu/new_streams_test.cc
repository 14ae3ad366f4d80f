// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that are the first work of their streams.
#include <barrier>
#include <cstddef>
#include <vector>

#include "tests/gpu/calls.h"

namespace weft::gpu_test {
namespace {

class NewStreams : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam().layout); }
};

// Threads give new streams their first calls at once, and more while those still wait: without what
// weft_stream_from_cuda does, kernels of ranks that share a GPU may wait for each other for ever.
TEST_P(NewStreams, OfAFewCalls) {
  Team team(GetParam().mode, GetParam().layout);
  Trial trial(team, {.type = kInt32, .count = 257});
  trial.run(options().seed);
  trial.prepare(options().seed + 1);
  team.synchronize();
  std::vector<Stream> streams(team.members().size());
  const bool by_threads = GetParam().mode == Mode::kThreads;
  std::barrier together(by_threads ? static_cast<std::ptrdiff_t>(streams.size()) : 1);
  for (int round = options().small ? 5 : 1000; round > 0; --round) {
    team.issue([&](Member& member) {
      Stream& stream = streams[member.rank];
      together.arrive_and_wait();
      stream = open_stream(member.device);
      together.arrive_and_wait();
      for (int calls = 1 + round % 8; calls > 0; --calls)
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
