// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/graphs.h"

#include <algorithm>
#include <utility>

namespace weft::gpu_test {

Graphs::Graphs(Team& team, const Team::Action& body, cudaStreamCaptureMode mode)
    : made_(team.layout().ranks) {
  const auto begin = [&](Member& member) {
    if (options().host) {
      check(weft_stream_begin_capture(member.stream), "weft_stream_begin_capture");
    } else {
      CUDA(cudaStreamBeginCapture(member.cuda, mode));
    }
  };
  const auto whole = [&](Member& member) {
    begin(member);
    try {
      body(member);
    } catch (...) {
      discard(member);
      throw;
    }
    end(member);
  };
  // A group of captured streams is for CUDA alone; elsewhere a call that is captured meets nobody.
  if (team.mode() == Mode::kOneThread && !options().host) {
    team.each(begin);
    try {
      team.issue(body);
    } catch (...) {
      std::ranges::for_each(team.members(), [&](Member& member) { discard(member); });
      throw;
    }
    team.each([&](Member& member) { end(member); });
  } else {
    // A capture belongs to a thread.
    team.each(whole);
  }
  if (!options().host) instantiate(team);
}

void Graphs::end(Member& member) {
  Made& made = made_[member.rank];
  if (options().host) {
    check(weft_stream_end_capture(member.stream, &made.weft), "weft_stream_end_capture");
  } else {
    CUDA(cudaStreamEndCapture(member.cuda, &made.captured));
  }
}

// A failure within must not leave the stream captured: other calls follow.
void Graphs::discard(Member& member) {
  Made& made = made_[member.rank];
  if (options().host) {
    static_cast<void>(weft_stream_end_capture(member.stream, &made.weft));
    static_cast<void>(weft_graph_destroy(std::exchange(made.weft, nullptr)));
    return;
  }
  static_cast<void>(cudaStreamEndCapture(member.cuda, &made.captured));
  if (made.captured != nullptr) {
    static_cast<void>(cudaGraphDestroy(std::exchange(made.captured, nullptr)));
  }
  static_cast<void>(cudaGetLastError());
}

void Graphs::instantiate(Team& team) {
  team.each([&](Member& member) {
    Made& made = made_[member.rank];
    CUDA(cudaGraphInstantiate(&made.cuda, made.captured, 0));
    CUDA(cudaGraphDestroy(std::exchange(made.captured, nullptr)));
    // The first launch would do it, while the kernel of another rank spins on the same device.
    if (team.layout().one_device) CUDA(cudaGraphUpload(made.cuda, member.cuda));
    CUDA(cudaStreamSynchronize(member.cuda));
  });
}

Graphs::~Graphs() {
  for (const Made& made : made_) {
    if (made.cuda != nullptr) static_cast<void>(cudaGraphExecDestroy(made.cuda));
    static_cast<void>(weft_graph_destroy(made.weft));
  }
}

void Graphs::launch(Member& member) {
  const Made& made = made_[member.rank];
  if (options().host) {
    check(weft_graph_launch(made.weft, member.stream), "weft_graph_launch");
  } else {
    CUDA(cudaGraphLaunch(made.cuda, member.cuda));
  }
}

}  // namespace weft::gpu_test
