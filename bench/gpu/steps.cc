// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/steps.h"

#include <cstdio>
#include <thread>
#include <unistd.h>

namespace weft::gpu_bench {

namespace {

/// A stream that takes longer is given up, and the communicator aborted.
constexpr double kStreamSeconds = 10;
/// What an aborted communicator has to leave its stream.
constexpr double kDrainSeconds = 10;

}  // namespace

void Steps::meet() {
  const uint32_t generation = board_.generation.load();
  if (board_.arrived.fetch_add(1) + 1 == seat_.ranks) {
    board_.arrived.store(0);
    board_.generation.fetch_add(1);
    return;
  }
  for (uint32_t spins = 0; board_.generation.load() == generation; ++spins) {
    if (board_.ended.load() != 0) throw JobEnded{};
    if (spins > 20'000) std::this_thread::yield();
  }
}

void Steps::begin(const std::string& where) {
  copy_text(place().where, sizeof place().where, where);
  place().outcome = Outcome::kGood;
  place().step.store(++step_);
}

void Steps::note(Outcome outcome, const std::string& words) {
  copy_text(place().words, sizeof place().words, words);
  place().outcome = outcome;
  board_.trouble.store(step_);
}

Outcome Steps::all_outcomes() {
  uint32_t refused = 0;
  const Board::Place* worst = nullptr;
  for (uint32_t rank = 0; rank < seat_.ranks; ++rank) {
    const Board::Place& each = board_.places[rank];
    if (each.outcome == Outcome::kRefused) ++refused;
    if (each.outcome == Outcome::kGood) continue;
    if (worst == nullptr || each.outcome > worst->outcome) worst = &each;
  }
  if (worst == nullptr) return Outcome::kGood;
  words_ = worst->words;
  return refused == seat_.ranks ? Outcome::kRefused : Outcome::kFailed;
}

void Steps::count_failure(const std::string& where) {
  ++failures_;
  if (seat_.rank != 0) return;
  for (uint32_t rank = 0; rank < seat_.ranks; ++rank) {
    const Board::Place& each = board_.places[rank];
    if (each.outcome == Outcome::kGood) continue;
    std::printf("FAILED %s: rank %u: %s\n", where.c_str(), rank, each.words);
  }
  std::fflush(stdout);
}

void Steps::wait(Library& library) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const cudaError_t state = cudaStreamQuery(seat_.stream);
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) check(state, "cudaStreamQuery");
    library.check_communicator();
    if (board_.trouble.load() == step_) throw GivenUp{{"given up, since another rank failed"}};
    if (seconds_since(begin) > kStreamSeconds) {
      throw Failure{text("the stream is not done after %.0f s", kStreamSeconds)};
    }
    usleep(50);  // Often enough: events take the time.
  }
  library.check_communicator();
}

void Steps::drain(const std::string& name) {
  const Clock::time_point begin = Clock::now();
  cudaError_t state = cudaErrorNotReady;
  while (state == cudaErrorNotReady && seconds_since(begin) < kDrainSeconds) {
    state = cudaStreamQuery(seat_.stream);
    usleep(1000);
  }
  if (state == cudaSuccess) return;
  complain(text("rank %u: no way on after %s failed: %s", seat_.rank, name.c_str(),
                cudaGetErrorString(state)));
  board_.ended.store(1);
  _exit(1);
}

double Steps::largest_value() const {
  double most = 0;
  for (uint32_t rank = 0; rank < seat_.ranks; ++rank)
    most = std::max(most, board_.places[rank].value);
  return most;
}

}  // namespace weft::gpu_bench
