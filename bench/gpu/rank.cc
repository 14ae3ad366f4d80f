// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/rank.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "bench/gpu/stolen.h"

namespace weft::gpu_bench {

namespace {

/// Up to here calls are timed in a graph as well, unless --launch says otherwise.
constexpr size_t kLargestInGraph = size_t{8} << 20;
/// What one round moves, within bounds: enough for a steady mean.
constexpr size_t kBytesPerRound = size_t{2} << 30;
constexpr size_t kFewestCalls = 20;  // as nccl-tests has it unless told otherwise
constexpr size_t kMostCalls = 1000;
/// A round that would take longer has fewer calls.
constexpr double kRoundSeconds = 0.1;
/// Passes that are timed to know how many that are.
constexpr int kTries = 2;

double free_memory() {
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<double>(free);
}

}  // namespace

uint32_t Rank::run() {
  if (steps_.together("set up the device", [&] { set_up(); }, [] {}) != Outcome::kGood) {
    return steps_.failures();
  }
  if (options_.measure == Measure::kJoins) {
    measure_joins();
  } else {
    for (const std::string& name : options_.libraries)
      enter(name);
    if (is_first()) report_.heading();
    for (const bool in_place : options_.in_place)
      measure_sizes(in_place);
    if (options_.measure == Measure::kHostCost) time_launches();
  }
  for (Contestant& contestant : contestants_) {
    if (!contestant.out) attempt(contestant, "leave", [&] { contestant.api->leave(); });
  }
  return steps_.failures();
}

void Rank::set_up() {
  CHECK(cudaSetDevice(steps_.seat().device));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  steps_.set_stream(stream);
  CHECK(cudaEventCreate(&begin_));
  CHECK(cudaEventCreate(&end_));
  buffers_.allocate();
}

bool Rank::join(Contestant& contestant, Joined& joined) {
  return attempt(contestant, "make an id",
                 [&] {
                   joined.free_before = free_memory();
                   contestant.api = libraries_.make(contestant.name, steps_.seat());
                   contestant.version = contestant.api->version();
                   if (is_first()) contestant.api->make_id(steps_.id());
                 }) &&
         attempt(
             contestant, "join",
             [&] {
               const Clock::time_point begin = Clock::now();
               contestant.api->join(steps_.id());
               steps_.place().value = seconds_since(begin);
             },
             [&] { joined.seconds = steps_.largest_value(); }) &&
         take_memory(contestant, joined.free_before, joined.memory_bytes);
}

bool Rank::take_memory(Contestant& contestant, double before, double& taken) {
  return attempt(
      contestant, "look at the memory", [&] { steps_.place().value = before - free_memory(); },
      [&] { taken = steps_.largest_value(); });
}

void Rank::enter(const std::string& name) {
  if (name == "nccl-window" && !options_.operation().windows) {
    if (is_first()) report_.left_out("nccl-window: NCCL has no kernels over windows for it");
    return;
  }
  Contestant& contestant = contestants_.emplace_back();
  contestant.name = name;
  Joined joined;
  const bool entered = join(contestant, joined) && attempt(contestant, "take buffers", [&] {
                         contestant.arena =
                             contestant.api->take_arena(buffers_.plain(), buffers_.arena_bytes());
                       });
  if (!entered) {
    contestant.out = true;  // Refused or failed.
  } else if (is_first()) {
    report_.joined(contestant, joined);
  }
}

void Rank::measure_sizes(bool in_place) {
  const Operation& operation = options_.operation();
  if (in_place && !operation.in_place) {
    if (is_first()) report_.left_out("in place, which it cannot be");
    return;
  }
  for (const size_t bytes : options_.sizes) {
    const Shape shape = shape_of(operation, options_.gpus, bytes, options_.type.bytes);
    if (shape.count == 0) {
      if (is_first()) report_.left_out(bytes_text(bytes) + ", less than an element for each rank");
      continue;
    }
    const bool host_cost = options_.measure == Measure::kHostCost;
    const bool in_graph =
        !host_cost && (options_.graph || (!options_.eager && bytes <= kLargestInGraph));
    const bool eagerly = host_cost || options_.eager || !options_.graph;
    if (in_graph) measure({operation, shape, true, in_place});
    if (eagerly) measure({operation, shape, false, in_place});
  }
}

void Rank::measure(const Case& which) {
  ++seed_;
  for (Contestant& contestant : contestants_) {
    contestant.problem = {};
    contestant.rounds.clear();
    contestant.least_us = 0;
    contestant.stolen_ms = 0;
    if (!contestant.out) prepare(contestant, which);
  }
  for (uint32_t round = 0; round < options_.rounds; ++round) {
    for (Contestant& contestant : contestants_) {
      if (!contestant.runs()) continue;
      const double stolen_before = stolen_ms();
      if (options_.measure == Measure::kHostCost) {
        time_host(contestant, which);
      } else {
        time_round(contestant, which);
      }
      contestant.stolen_ms += stolen_ms() - stolen_before;
    }
  }
  if (is_first()) report_.results(which, contestants_, buffers_.sets(which.shape.bytes));
  for (Contestant& contestant : contestants_) {
    if (contestant.graph != nullptr) static_cast<void>(cudaGraphExecDestroy(contestant.graph));
    contestant.graph = nullptr;
  }
  steps_.meet();  // Destroying may wait for work of other ranks' next case otherwise.
}

void Rank::prepare(Contestant& contestant, const Case& which) {
  const std::string size = " " + bytes_text(which.shape.bytes);
  if (!attempt(contestant, "first calls of" + size, [&] { run_passes(contestant, which, 1); }))
    return;
  if (which.graph && !attempt(contestant, "capture" + size, [&] { capture(contestant, which); }))
    return;
  if (!attempt(contestant, "fill" + size, [&] { fill(contestant, which); })) return;
  attempt(
      contestant, "check" + size,
      [&] {
        run_passes(contestant, which, 1);
        compare(contestant, which);
      },
      [&] { note_wrong(contestant, which); });
  if (!contestant.runs()) return;
  const bool tried = attempt(
      contestant, "try" + size,
      [&] {
        // A stall in the only one would leave rounds of a few calls.
        double least = std::numeric_limits<double>::infinity();
        for (int i = 0; i < kTries; ++i) {
          const Clock::time_point begin = Clock::now();
          run_passes(contestant, which, 1);
          least = std::min(least, seconds_since(begin));
        }
        steps_.place().value = least;
      },
      [&] { contestant.passes = passes_for(which, steps_.largest_value()); });
  if (!tried) return;
  attempt(contestant, "warm up" + size,
          [&] { run_passes(contestant, which, contestant.passes / 4 + 1); });
}

size_t Rank::passes_for(const Case& which, double pass_seconds) const {
  const size_t bytes = which.shape.bytes;
  const size_t sets = buffers_.sets(bytes);
  const size_t calls = std::clamp(kBytesPerRound / bytes, kFewestCalls, kMostCalls);
  const auto most = static_cast<size_t>(kRoundSeconds / std::max(pass_seconds, 1e-6));
  return std::clamp<size_t>(most, 1, (calls + sets - 1) / sets);
}

void Rank::time_round(Contestant& contestant, const Case& which) {
  const std::string size = " " + bytes_text(which.shape.bytes);
  // In place, sums of sums would soon be infinite.
  if (which.in_place && !attempt(contestant, "fill" + size, [&] { fill(contestant, which); }))
    return;
  attempt(
      contestant, std::string("time ") + which.launch_name() + size,
      [&] {
        CHECK(cudaEventRecord(begin_, steps_.seat().stream));
        for (size_t i = 0; i < contestant.passes; ++i)
          pass(contestant, which);
        CHECK(cudaEventRecord(end_, steps_.seat().stream));
        steps_.wait(*contestant.api);
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
        steps_.place().value =
            1e3 * static_cast<double>(milliseconds) /
            static_cast<double>(contestant.passes * buffers_.sets(which.shape.bytes));
      },
      [&] { contestant.rounds.push_back(steps_.largest_value()); });
}

void Rank::pass(Contestant& contestant, const Case& which) {
  if (contestant.graph != nullptr) {
    CHECK(cudaGraphLaunch(contestant.graph, steps_.seat().stream));
    return;
  }
  for (size_t set = 0; set < buffers_.sets(which.shape.bytes); ++set)
    contestant.api->call(buffers_.call(contestant.arena, which, set));
}

void Rank::run_passes(Contestant& contestant, const Case& which, size_t number) {
  for (size_t i = 0; i < number; ++i)
    pass(contestant, which);
  steps_.wait(*contestant.api);
}

void Rank::capture(Contestant& contestant, const Case& which) {
  cudaStream_t stream = steps_.seat().stream;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    pass(contestant, which);
  } catch (const Failure&) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  CHECK(cudaStreamEndCapture(stream, &graph));
  const cudaError_t made = cudaGraphInstantiate(&contestant.graph, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check(made, "cudaGraphInstantiate");
  CHECK(cudaGraphUpload(contestant.graph, stream));
  steps_.wait(*contestant.api);
}

void Rank::fill(Contestant& contestant, const Case& which) {
  buffers_.fill(contestant.arena, which, seed_);
  steps_.wait(*contestant.api);
}

/// Throws nothing for wrong results: says how many on the board.
void Rank::compare(Contestant& contestant, const Case& which) {
  buffers_.compare(contestant.arena, which, seed_);
  steps_.wait(*contestant.api);
  Board::Place& place = steps_.place();
  place.wrong = buffers_.mismatches();
  if (place.wrong == 0) return;
  copy_text(place.words, sizeof place.words, buffers_.describe(contestant.arena, which, seed_));
}

void Rank::note_wrong(Contestant& contestant, const Case& which) {
  for (uint32_t rank = 0; rank < steps_.seat().ranks; ++rank) {
    const Board::Place& place = steps_.place_of(rank);
    if (place.wrong == 0) continue;
    const std::string words = text("rank %u: %s", rank, place.words);
    if (contestant.problem.kind == nullptr) contestant.problem = {"wrong", words};
    if (!is_first()) continue;
    std::printf("WRONG %s, %s mode, %s, %s, %s, %s: %s\n", contestant.name.c_str(), mode_.c_str(),
                which.operation.name, bytes_text(which.shape.bytes).c_str(), which.launch_name(),
                which.place_name(), words.c_str());
  }
  if (contestant.problem.kind != nullptr) steps_.count_failure();
}

}  // namespace weft::gpu_bench
