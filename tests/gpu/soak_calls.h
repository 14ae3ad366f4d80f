// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a soak calls: random calls of all sizes, alone, in groups and graphs, on two streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <weft/weft.h>

#include "tests/gpu/call.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"

namespace weft::gpu_test {

/// Random numbers, one after the other, alike on all ranks.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}

  /// Below `end`.
  std::uint64_t next(std::uint64_t end) { return number() % end; }
  bool one_in(std::uint64_t n) { return next(n) == 0; }
  std::uint64_t number() { return draw(seed_, drawn_++); }

 private:
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
};

/// One of another, where calls cannot be captured or had better be small.
enum class Kind : std::uint8_t {
  kAny,
  kSmall,      ///< Of few CTAs: may wait for peers beside those of another communicator.
  kCapturable  ///< Through memory of the host, too.
};
/// Up to options().largest; most are small.
[[nodiscard]] Call soak_call(Draws& draws, std::uint32_t ranks, Kind kind);

/// What was done so far.
struct Done {
  std::uint64_t communicators = 0;
  std::uint64_t calls = 0;  ///< Launches of graphs count once for each call.
  std::uint64_t graphs = 0;
  std::uint64_t aborts = 0;
  std::uint64_t misnamed = 0;  ///< After which some rank was told another cause.
  std::uint64_t windows = 0;   ///< Calls whose output lay in one.
  std::uint64_t options = 0;   ///< Calls with options.
  std::uint64_t refused = 0;   ///< Such calls that could not go as they wanted.
};

/// Second streams of the ranks of this process.
class SecondStreams {
 public:
  explicit SecondStreams(std::uint32_t ranks) : streams_(ranks) {}
  ~SecondStreams();
  SecondStreams(const SecondStreams&) = delete;
  SecondStreams& operator=(const SecondStreams&) = delete;

  /// Made before the rank's first use.
  void open(const Member& member);
  [[nodiscard]] weft_stream* of(const Member& member) const {
    return streams_[member.rank].stream.weft;
  }
  /// Waits for those of the team's ranks.
  void synchronize(Team& team) const;
  /// Which have work. For when something hangs: nobody opens one meanwhile.
  [[nodiscard]] std::string tell() const;

 private:
  struct Opened {
    int device = 0;
    Stream stream;
  };
  std::vector<Opened> streams_;
};

/// Some calls of a team: made ready, made without a wait between, and looked at.
class Batch {
 public:
  Batch(Team& team, SecondStreams& second, Draws& draws, std::size_t calls, Kind kind);

  void prepare(Draws& draws);
  /// One by one on two streams by turns, or as one group.
  void issue(Draws& draws);
  /// All on the members' own streams, in order.
  void issue(Member& member);
  void synchronize();
  void check(Done& done);
  /// Before the check: a byte of what one rank of this process has received, so that the check has
  /// to find it. Answers whether some call receives what it only copies.
  bool spoil();

  [[nodiscard]] Team& team() { return team_; }

 private:
  Team& team_;
  SecondStreams& second_;
  std::vector<std::unique_ptr<Trial>> trials_;
};

/// Options of the calls of a team, as long as this lives.
class WithOptions {
 public:
  WithOptions(Team& team, const weft_call_options& options);
  ~WithOptions();
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;

 private:
  Team& team_;
};
[[nodiscard]] weft_call_options random_options(Draws& draws);

}  // namespace weft::gpu_test
