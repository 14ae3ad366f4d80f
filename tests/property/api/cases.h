// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Random calls: drawn from a seed alone, alike on every rank and every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/api/exchange.h"
#include "tests/integration/api/trial.h"

namespace weft::test {

/// What a run of cases is about.
enum class Subject : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kAllToAllV,
  kAllGatherV,
  kReduceScatterV,
  kSendRecv,
  kMix  ///< Several of all of them in one group.
};
inline constexpr Subject kSubjects[] = {
    Subject::kAllReduce, Subject::kAllGather,  Subject::kReduceScatter,  Subject::kBroadcast,
    Subject::kReduce,    Subject::kAllToAll,   Subject::kGather,         Subject::kScatter,
    Subject::kAllToAllV, Subject::kAllGatherV, Subject::kReduceScatterV, Subject::kSendRecv,
    Subject::kMix};
[[nodiscard]] const char* name_of(Subject subject);
[[nodiscard]] std::optional<Subject> parse_subject(std::string_view name);

/// Where the ranks live.
enum class Place : std::uint8_t {
  kThreads,    ///< A thread for each rank.
  kOneThread,  ///< All ranks in one.
  kProcesses
};

/// How calls are planned: by which table of the plugin tuner, which a whole context has.
enum class Tuning : std::uint8_t {
  kDefault,
  kWide,     ///< As many channels as there are, whatever the size.
  kDirect,   ///< Straight into the memory of others, where that is possible.
  kTree,     ///< Trees or PAT, where an operation has them, on as many channels as there are.
  kTwoShot,  ///< All-reduces by two-shot, where ranks write to others directly.
  kLL,       ///< Round rings by lines of LL, where memory joins all ranks.
  kLL128,    ///< The same by those of LL128.
  kTreeLL,   ///< Trees by lines of LL, likewise, where an operation has trees.
  kTreeLL128
};
inline constexpr Tuning kTunings[] = {Tuning::kDefault, Tuning::kWide,    Tuning::kDirect,
                                      Tuning::kTree,    Tuning::kTwoShot, Tuning::kLL,
                                      Tuning::kLL128,   Tuning::kTreeLL,  Tuning::kTreeLL128};
[[nodiscard]] const char* name_of(Tuning tuning);
/// What the file of that table holds.
[[nodiscard]] std::string table_text(Tuning tuning);

/// Ranks, their communicators and settings, in which many cases are tried.
struct World {
  Place place = Place::kThreads;
  std::uint32_t ranks = 1;
  /// That processes say they are on: rank r is on host r % hosts.
  std::uint32_t hosts = 1;
  std::string transport;
  std::size_t step_bytes = 0;
  std::uint32_t channels = 0;  ///< channels.max
  std::size_t direct_bytes = 0;
  Tuning tuning = Tuning::kDefault;
  bool deterministic = false;  ///< collectives.deterministic
  std::uint32_t communicators = 1;
  std::uint32_t rotation = 0;   ///< Rank r of the first communicator is r + rotation of the second.
  std::uint32_t streams = 1;    ///< Of each rank.
  bool shares_streams = false;  ///< All ranks of the one thread use the same.
  std::uint32_t batch = 1;      ///< Cases started before the first is waited for.
  /// How often each batch is started, with new data in the same buffers. Where it is more than
  /// once, some ranks capture their calls and launch them; the others call each time.
  std::uint32_t rounds = 1;

  /// Of a rank of the first communicator.
  [[nodiscard]] std::uint32_t rank_in(std::uint32_t communicator, std::uint32_t rank) const {
    return communicator == 0 ? rank : (rank + rotation) % ranks;
  }
  /// For CommSettings.
  [[nodiscard]] std::vector<std::string> settings() const;
  [[nodiscard]] std::string describe() const;
};

/// A collective, or an exchange of messages.
struct Part {
  std::uint32_t communicator = 0;
  std::uint32_t stream = 0;
  std::optional<Shape> shape = std::nullopt;
  /// For weft_comm_set_call_options: a way that the ranks have, or none.
  std::optional<weft_call_options> options = std::nullopt;
  std::uint64_t seed = 0;  ///< Of the data of a collective, of all of an exchange.
  std::size_t most_messages = 0;
  std::size_t most_bytes = 0;  ///< Of a message.
};

struct Case {
  std::uint64_t seed = 0;
  bool grouped = false;
  std::vector<Part> parts;

  [[nodiscard]] std::string describe(const World& world) const;
  /// Whether this rank captures its calls, where they are on one stream.
  [[nodiscard]] bool is_captured_by(std::uint32_t rank, const World& world) const;
};

/// A case's seed is its world's, and its number there.
inline constexpr unsigned kNumberBits = 12;
[[nodiscard]] constexpr std::uint64_t case_seed(std::uint64_t world_seed, std::uint64_t number) {
  return (world_seed << kNumberBits) | number;
}
/// The seed of the n-th world of a run; fits case_seed. Its remainder by the number of tunings is
/// the world's.
[[nodiscard]] std::uint64_t world_seed(std::uint64_t run_seed, Subject subject, std::uint64_t n);

[[nodiscard]] World draw_world(std::uint64_t seed, Subject subject, bool processes);
[[nodiscard]] Case draw_case(std::uint64_t seed, Subject subject, const World& world);
/// The exchange that a part without a shape is, as one rank of its communicator takes part in it.
[[nodiscard]] Exchange exchange_of(const Part& part, std::uint32_t rank, const World& world);

}  // namespace weft::test
