// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank: joins with every library, then checks and times each case with them in turn; or joins
// again and again.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/buffers.h"
#include "bench/gpu/report.h"
#include "bench/gpu/steps.h"

namespace weft::gpu_bench {

class Rank {
 public:
  Rank(const Options& options, const std::string& mode, Board& board,
       const LoadedLibraries& libraries, uint32_t rank)
      : options_(options),
        mode_(mode),
        libraries_(libraries),
        steps_(board, {rank, options.gpus, static_cast<int>(rank), nullptr}),
        buffers_(options, steps_.seat()),
        report_(options, mode, steps_.seat()) {}

  /// Failures that were printed.
  uint32_t run();

 private:
  /// `Steps::together` for one library. If it fails anywhere, the library is out everywhere. If it
  /// was refused, it is out of this case. True if neither.
  template <class Step, class Collect>
  bool attempt(Contestant& contestant, const std::string& what, Step step, Collect collect);
  template <class Step>
  bool attempt(Contestant& contestant, const std::string& what, Step step) {
    return attempt(contestant, what, step, [] {});
  }

  void set_up();
  /// Makes a communicator of the library. False if it failed, as all of these.
  bool join(Contestant& contestant, Joined& joined);
  /// Once all ranks have come here: what a rank's GPU has less than `before`, of the rank where
  /// that is most.
  bool take_memory(Contestant& contestant, double before, double& taken);
  /// Joins, and takes buffers.
  void enter(const std::string& name);

  /// Of the one library there is, communicators beside each other; the first make calls.
  void measure_joins();
  bool join_and_call(Contestant& contestant, bool calls, Joined& joined,
                     std::optional<double>& called);
  bool make_calls(Contestant& contestant);

  void measure_sizes(bool in_place);
  void measure(const Case& which);
  /// Connects, captures, checks and warms up.
  void prepare(Contestant& contestant, const Case& which);
  void time_round(Contestant& contestant, const Case& which);
  /// The same of the calls alone, for the thread that makes them.
  void time_host(Contestant& contestant, const Case& which);
  /// And of launches of a kernel that does nothing.
  void time_launches();

  void pass(Contestant& contestant, const Case& which);
  void run_passes(Contestant& contestant, const Case& which, size_t number);
  void capture(Contestant& contestant, const Case& which);
  void fill(Contestant& contestant, const Case& which);
  void compare(Contestant& contestant, const Case& which);
  void note_wrong(Contestant& contestant, const Case& which);
  /// How many passes make a round, where one takes so long.
  [[nodiscard]] size_t passes_for(const Case& which, double pass_seconds) const;

  [[nodiscard]] bool is_first() const { return steps_.seat().rank == 0; }

  const Options& options_;
  const std::string mode_;
  const LoadedLibraries& libraries_;
  Steps steps_;
  Buffers buffers_;
  const Report report_;
  std::vector<Contestant> contestants_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  uint32_t seed_ = 0;
};

template <class Step, class Collect>
bool Rank::attempt(Contestant& contestant, const std::string& what, Step step, Collect collect) {
  const auto step_or_abort = [&] {
    try {
      step();
    } catch (const Refusal&) {
      throw;
    } catch (const Failure&) {
      contestant.abort();  // At once: others may hang in work that waits for mine.
      throw;
    }
  };
  const std::string where =
      contestant.name + ", " + mode_ + " mode, " + options_.operation().name + ": " + what;
  switch (steps_.together(where, step_or_abort, collect)) {
    case Outcome::kGood:
      return true;
    case Outcome::kRefused:
      contestant.problem = {"refused", steps_.words()};
      return false;
    default:
      contestant.problem = {"failed", what + ": " + steps_.words()};
      contestant.abort();
      steps_.drain(contestant.name);
      return false;
  }
}

}  // namespace weft::gpu_bench
