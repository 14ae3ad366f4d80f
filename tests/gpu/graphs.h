// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of a team that are captured and replayed: CUDA graphs, or Weft's own on the host device.
#pragma once

#include <vector>

#include <cuda_runtime.h>

#include <weft/weft.h>

#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"

namespace weft::gpu_test {

/// One executable graph for each member of a team, holding what `body` calls.
class Graphs {
 public:
  Graphs(Team& team, const Team::Action& body,
         cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal);
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs();

  void launch(Member& member);

 private:
  struct Made {
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t cuda = nullptr;
    weft_graph* weft = nullptr;
  };
  void end(Member& member);
  void discard(Member& member);
  void instantiate(Team& team);

  std::vector<Made> made_;
};

/// A trial and graphs of it.
struct Captured {
  Captured(Team& team, const Call& call,
           cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : trial(team, call), graphs(team, [&](Member& member) { trial.issue(member); }, mode) {}

  void replay(Team& team, std::uint64_t seed) {
    trial.prepare(seed);
    team.each([&](Member& member) { graphs.launch(member); });
    team.synchronize();
    trial.check();
  }

  Trial trial;
  Graphs graphs;
};

}  // namespace weft::gpu_test
