// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A table of costs: rules that say, for some operations, ranks and sizes, what a way of doing them
// takes. Read from YAML, written as YAML by `weft bench --calibrate`. All arithmetic is on whole
// numbers, so that every rank answers alike bit for bit.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <plugin_api/tuner.h>

namespace weft::tuner {

/// Files larger than this are refused unread.
inline constexpr std::size_t kMostTableBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostRules = 4096;
inline constexpr std::size_t kMostSamples = 64;
inline constexpr std::uint32_t kMostChannels = 64;
/// The longest time and latency that a table can say: more than eleven days.
inline constexpr std::uint64_t kLongestNs = 1'000'000'000'000'000;

/// What is wrong with a table: "FILE:LINE:COL: ...".
class BadTable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whole numbers from `from` on up to `to`, both included.
struct Range {
  std::uint64_t from = 0;
  std::uint64_t to = UINT64_MAX;
  [[nodiscard]] bool holds(std::uint64_t number) const { return from <= number && number <= to; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// time = latency + bytes / bandwidth.
struct Cost {
  std::uint64_t latency_ns = 0;
  std::uint64_t bytes_per_ms = 0;  ///< 0: without limit. 1000 is 1 MB/s.
  /// At least 1, at most UINT64_MAX - 1.
  [[nodiscard]] std::uint64_t time_ns(std::uint64_t bytes) const;
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// A call that was timed.
struct Sample {
  std::uint64_t bytes = 0;
  std::uint64_t time_ns = 0;
  friend bool operator==(const Sample&, const Sample&) = default;
};

enum class Use : std::uint8_t { kByCost, kPrefer, kNever };

/// What it does not name it does not ask for.
struct Rule {
  weft_tuner_operation operation = 0;
  std::optional<weft_tuner_algorithm> algorithm;
  std::optional<weft_tuner_protocol> protocol;
  std::string device;  ///< Empty: any.
  Range ranks;
  Range hosts;
  Range bytes;  ///< Payload of one rank: of its block where the operation has blocks.

  Use use = Use::kByCost;
  std::optional<Cost> cost;
  std::uint32_t channels = 0;  ///< 0: no opinion.
  std::vector<Sample> measured;

  int line = 0;  ///< Of the file; 0 where it is not from one. Does not count for equality.
  bool operator==(const Rule& other) const;
};

/// The communicator that is asked for.
struct Scene {
  std::uint64_t ranks = 0;
  std::uint64_t hosts = 0;
  std::string device;
};

/// Rules in the order of their file: the first that matches decides.
struct Table {
  std::string name = "built-in";  ///< Of the file, without its folders.
  std::uint64_t hash = 0;         ///< Of the file's bytes; 0 without one.
  std::vector<Rule> rules;

  /// The rule for one offer, or null.
  [[nodiscard]] const Rule* find(const Scene& scene, const weft_tuner_question& question,
                                 weft_tuner_algorithm algorithm,
                                 weft_tuner_protocol protocol) const;
};

/// Throws BadTable; `file` is for its messages.
[[nodiscard]] Table parse_table(const std::string& text, const std::string& file);
/// What parse_table reads back as the same rules.
[[nodiscard]] std::string to_yaml(const std::vector<Rule>& rules);

/// The names of tables and of the configuration: "all_reduce", "ring", "simple"; nothing for what
/// has none. `direct` is what tuner.h calls ONE_SHOT.
[[nodiscard]] std::optional<weft_tuner_operation> operation_of(std::string_view name);
[[nodiscard]] std::optional<weft_tuner_algorithm> algorithm_of(std::string_view name);
[[nodiscard]] std::optional<weft_tuner_protocol> protocol_of(std::string_view name);

}  // namespace weft::tuner
