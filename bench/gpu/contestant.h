// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What is timed, and who takes part.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "bench/gpu/libraries.h"
#include "bench/gpu/operations.h"

namespace weft::gpu_bench {

/// All libraries in turn on this, then the next.
struct Case {
  const Operation& operation;
  Shape shape;
  bool graph;
  bool in_place;

  [[nodiscard]] const char* launch_name() const { return graph ? "graph" : "eager"; }
  [[nodiscard]] const char* place_name() const { return in_place ? "in" : "out"; }
};

/// Why a case has no time: "refused", "wrong" or "failed", and the words.
struct Problem {
  const char* kind = nullptr;
  std::string words;
};

/// How a communicator came to be.
struct Joined {
  double seconds = 0;       ///< Of the slowest rank.
  double memory_bytes = 0;  ///< Of the GPU that it took most of.
  double free_before = 0;   ///< Of this rank's GPU.
};

/// A library that takes part.
struct Contestant {
  std::string name;
  std::unique_ptr<Library> api;
  std::string version;
  Arena arena;
  bool out = false;  ///< Failed: takes part no more.

  // Of the current case.
  Problem problem;
  cudaGraphExec_t graph = nullptr;
  size_t passes = 0;           ///< In a round.
  std::vector<double> rounds;  ///< Time of a call in us, the slowest rank's.
  double least_us = 0;         ///< Of this rank's calls, where each is timed.
  double stolen_ms = 0;        ///< From the machine's processors, during the rounds.

  [[nodiscard]] bool runs() const { return !out && problem.kind == nullptr; }
  [[nodiscard]] bool is_nccl() const { return name.starts_with("nccl"); }

  void abort() {
    if (std::exchange(out, true) || api == nullptr) return;
    api->abort();
  }
};

}  // namespace weft::gpu_bench
