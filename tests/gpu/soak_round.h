// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One round of a soak: communicators come and go, are called and aborted, and at its end all of
// them are gone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/gpu/soak_calls.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {

inline constexpr std::size_t kTeams = 3;  ///< At a time.

/// What stays the same from round to round.
struct Soak {
  Mode mode = Mode::kThreads;
  Layout layout;  ///< Of the largest communicators.
  std::size_t steps = 12;
  /// For each communicator of a time its own: a stream tells of the failure of whichever used it.
  std::array<SecondStreams, kTeams>& second;
  Done& done;
  /// Told before each step what it is.
  std::function<void(const std::string& step)> tell;
  /// Whether results are to be spoilt, as a test of the test.
  bool spoils = false;
  /// All steps are of this name; empty: of any.
  std::string only{};
};

class Round {
 public:
  /// What it does hangs on the seed and the number alone, and is alike on all ranks.
  Round(Soak& soak, std::uint64_t number);
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  /// What `Soak::only` may be.
  [[nodiscard]] static bool has_step(std::string_view name);

  /// All steps. Where one fails the communicators are aborted, so that no rank waits.
  void run();
  /// Whether some process wants it: a call of all ranks, which have come here when it answers.
  [[nodiscard]] bool any(bool wanted) { return total(wanted ? 1 : 0) != 0; }
  /// Of what each process says, or each rank of this one: a call of all ranks, likewise.
  [[nodiscard]] std::int64_t total(std::int64_t of_process);
  /// Ends all communicators.
  void close();

 private:
  using Step = void (Round::*)();
  static constexpr std::size_t kSteps = 12;
  static const std::array<std::pair<Step, std::string_view>, kSteps>& steps();

  void renew(std::size_t slot);
  void leave(std::size_t slot);
  Team& pick();
  SecondStreams& second_of(const Team& team);
  void finish(Batch& batch);
  /// Of what each process says (or each rank of this one): a call of all ranks.
  static std::int64_t sum(Team& team, std::int64_t of_process);

  void call();
  void call_through_windows();
  void call_with_options();
  void call_two_teams();
  void replay();
  void replace();
  void leave_under_way();
  void abort();

  Soak& soak_;
  Draws draws_;
  std::array<std::unique_ptr<Team>, kTeams> teams_;
};

}  // namespace weft::gpu_test
