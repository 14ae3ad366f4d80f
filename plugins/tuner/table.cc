// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "plugins/tuner/table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include <fmt/format.h>

namespace weft::tuner {
namespace {

template <typename T>
using Names = std::span<const std::pair<std::string_view, T>>;

constexpr std::array<std::pair<std::string_view, weft_tuner_operation>, 5> kOperations = {{
    {"all_reduce", WEFT_TUNER_ALL_REDUCE},
    {"broadcast", WEFT_TUNER_BROADCAST},
    {"all_gather", WEFT_TUNER_ALL_GATHER},
    {"reduce_scatter", WEFT_TUNER_REDUCE_SCATTER},
    {"reduce", WEFT_TUNER_REDUCE},
}};
constexpr std::array<std::pair<std::string_view, weft_tuner_algorithm>, 6> kAlgorithms = {{
    {"ring", WEFT_TUNER_RING},
    {"tree", WEFT_TUNER_TREE},
    {"pat", WEFT_TUNER_PAT},
    {"direct", WEFT_TUNER_ONE_SHOT},
    {"two-shot", WEFT_TUNER_TWO_SHOT},
    {"multicast", WEFT_TUNER_IN_NETWORK},
}};
constexpr std::array<std::pair<std::string_view, weft_tuner_protocol>, 3> kProtocols = {{
    {"simple", WEFT_TUNER_SIMPLE},
    {"ll", WEFT_TUNER_LL},
    {"ll128", WEFT_TUNER_LL128},
}};

template <typename T>
std::optional<T> find_name(Names<T> names, std::string_view name) {
  const auto found =
      std::ranges::find_if(names, [&](const auto& entry) { return entry.first == name; });
  if (found == names.end()) return std::nullopt;
  return found->second;
}

template <typename T>
std::string_view name_of(Names<T> names, T value) {
  const auto found =
      std::ranges::find_if(names, [&](const auto& entry) { return entry.second == value; });
  return found == names.end() ? "?" : found->first;
}

std::string range_text(const char* key, const Range& range) {
  if (range == Range{}) return {};
  if (range.from == range.to) return fmt::format(", {}: {}", key, range.from);
  if (range.to == UINT64_MAX) return fmt::format(", {}: [{}, max]", key, range.from);
  return fmt::format(", {}: [{}, {}]", key, range.from, range.to);
}

/// 1234 is "1.234", exactly.
std::string thousandths(std::uint64_t number) {
  return fmt::format("{}.{:03}", number / 1000, number % 1000);
}

}  // namespace

std::uint64_t Cost::time_ns(std::uint64_t bytes) const {
  constexpr std::uint64_t kNsOfMs = 1'000'000;
  constexpr std::uint64_t kLongest = UINT64_MAX - 1;
  std::uint64_t time = latency_ns;
  if (bytes_per_ms != 0) {
    const std::uint64_t whole = bytes / bytes_per_ms;
    if (whole > kLongest / kNsOfMs) return kLongest;
    // The rest is less than bytes_per_ms, which parse_table keeps below 10^12.
    const std::uint64_t moving = whole * kNsOfMs + bytes % bytes_per_ms * kNsOfMs / bytes_per_ms;
    if (moving > kLongest - time) return kLongest;
    time += moving;
  }
  return std::clamp<std::uint64_t>(time, 1, kLongest);
}

bool Rule::operator==(const Rule& other) const {
  return operation == other.operation && algorithm == other.algorithm &&
         protocol == other.protocol && device == other.device && ranks == other.ranks &&
         hosts == other.hosts && bytes == other.bytes && use == other.use && cost == other.cost &&
         channels == other.channels && measured == other.measured;
}

const Rule* Table::find(const Scene& scene, const weft_tuner_question& question,
                        weft_tuner_algorithm algorithm, weft_tuner_protocol protocol) const {
  const auto found = std::ranges::find_if(rules, [&](const Rule& rule) {
    return rule.operation == question.operation &&
           (!rule.algorithm || *rule.algorithm == algorithm) &&
           (!rule.protocol || *rule.protocol == protocol) &&
           (rule.device.empty() || rule.device == scene.device) && rule.ranks.holds(scene.ranks) &&
           rule.hosts.holds(scene.hosts) && rule.bytes.holds(question.bytes);
  });
  return found == rules.end() ? nullptr : &*found;
}

std::string to_yaml(const std::vector<Rule>& rules) {
  std::string text = "version: 1\n";
  text += rules.empty() ? "rules: []\n" : "rules:\n";
  for (const Rule& rule : rules) {
    text += fmt::format("  - {{operation: {}",
                        name_of<weft_tuner_operation>(kOperations, rule.operation));
    if (rule.algorithm) {
      text += fmt::format(", algorithm: {}",
                          name_of<weft_tuner_algorithm>(kAlgorithms, *rule.algorithm));
    }
    if (rule.protocol) {
      text +=
          fmt::format(", protocol: {}", name_of<weft_tuner_protocol>(kProtocols, *rule.protocol));
    }
    if (!rule.device.empty()) text += fmt::format(", device: {}", rule.device);
    text += range_text("ranks", rule.ranks) + range_text("hosts", rule.hosts) +
            range_text("bytes", rule.bytes);
    if (rule.use == Use::kPrefer) text += ", use: prefer";
    if (rule.use == Use::kNever) text += ", use: never";
    if (rule.cost) {
      text += fmt::format(", latency_us: {}", thousandths(rule.cost->latency_ns));
      if (rule.cost->bytes_per_ms != 0) {
        text += fmt::format(", bandwidth_mbs: {}", thousandths(rule.cost->bytes_per_ms));
      }
    }
    if (rule.channels != 0) text += fmt::format(", channels: {}", rule.channels);
    if (!rule.measured.empty()) {
      text += ",\n     measured: [";
      for (std::size_t i = 0; i < rule.measured.size(); ++i) {
        text += fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", rule.measured[i].bytes,
                            thousandths(rule.measured[i].time_ns));
      }
      text += "]";
    }
    text += "}\n";
  }
  return text;
}

std::optional<weft_tuner_operation> operation_of(std::string_view name) {
  return find_name<weft_tuner_operation>(kOperations, name);
}

std::optional<weft_tuner_algorithm> algorithm_of(std::string_view name) {
  return find_name<weft_tuner_algorithm>(kAlgorithms, name);
}

std::optional<weft_tuner_protocol> protocol_of(std::string_view name) {
  return find_name<weft_tuner_protocol>(kProtocols, name);
}

}  // namespace weft::tuner
