// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank's steps, which all ranks take at once.
#pragma once

#include <algorithm>
#include <string>

#include <cuda_runtime.h>

#include "bench/gpu/basics.h"
#include "bench/gpu/board.h"
#include "bench/gpu/libraries.h"

namespace weft::gpu_bench {

class Steps {
 public:
  Steps(Board& board, const Seat& seat) : board_(board), seat_(seat) {}

  Board::Place& place() { return board_.places[seat_.rank]; }
  [[nodiscard]] const Board::Place& place_of(uint32_t rank) const { return board_.places[rank]; }
  char* id() { return board_.id; }

  /// A barrier of all ranks. Throws JobEnded if one is gone.
  void meet();

  /// All ranks do `step`, at once; then all know how it went. If well everywhere, `collect` may
  /// read what the others left on the board. Refused is what all ranks were refused: if some were
  /// not, their work waits for the others, and the step has failed. Steps hold no barrier of their
  /// own.
  template <class Step, class Collect>
  Outcome together(const std::string& where, Step step, Collect collect) {
    begin(where);
    try {
      step();
    } catch (const Refusal& refusal) {
      note(Outcome::kRefused, refusal.what);
    } catch (const GivenUp& given_up) {
      note(Outcome::kGivenUp, given_up.what);
    } catch (const Failure& failure) {
      note(Outcome::kFailed, failure.what);
    }
    meet();
    const Outcome outcome = all_outcomes();
    if (outcome == Outcome::kGood) collect();
    if (outcome == Outcome::kFailed) count_failure(where);
    meet();
    return outcome;
  }

  /// Why the last step that did not go well did not, in the words of the first rank that knows.
  [[nodiscard]] const std::string& words() const { return words_; }

  /// Waits for the stream, but not for ever, nor if another rank failed in this step.
  void wait(Library& library);
  /// Empties the stream of an aborted library's work. Where that is impossible the job ends, since
  /// nothing after it could be timed.
  void drain(const std::string& name);

  /// Largest of what the ranks left in `value`.
  [[nodiscard]] double largest_value() const;

  void count_failure() { ++failures_; }
  /// That were printed.
  [[nodiscard]] uint32_t failures() const { return failures_; }

  /// Set once the device is.
  void set_stream(cudaStream_t stream) { seat_.stream = stream; }
  [[nodiscard]] const Seat& seat() const { return seat_; }

 private:
  void begin(const std::string& where);
  void note(Outcome outcome, const std::string& words);
  Outcome all_outcomes();
  void count_failure(const std::string& where);

  Board& board_;
  Seat seat_;
  uint32_t step_ = 0;
  uint32_t failures_ = 0;
  std::string words_;
};

}  // namespace weft::gpu_bench
