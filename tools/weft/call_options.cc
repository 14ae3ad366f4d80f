// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/call_options.h"

#include <optional>

#include <CLI/CLI.hpp>

namespace weft::tool {
namespace {

constexpr std::array kTypes = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_FLOAT16,     WEFT_BFLOAT16,
                               WEFT_INT8,    WEFT_UINT8,   WEFT_INT32,       WEFT_UINT32,
                               WEFT_INT64,   WEFT_UINT64,  WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2};
constexpr std::array kReductions = {WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG};

// Those that calls can name.
constexpr std::array kAlgorithms = {Algorithm::kRing,     Algorithm::kTree,    Algorithm::kPat,
                                    Algorithm::kDirect,   Algorithm::kTwoShot, Algorithm::kChain,
                                    Algorithm::kMulticast};
constexpr std::array kProtocols = {Protocol::kSimple, Protocol::kLL, Protocol::kLL128};

template <typename Values, typename Name>
auto find_named(const Values& values, Name&& name, const std::string& text)
    -> std::optional<typename Values::value_type> {
  for (const auto value : values) {
    if (text == name(value)) return value;
  }
  return std::nullopt;
}

template <typename Values, typename Name>
std::vector<std::string> names_of(const Values& values, Name&& name) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto value : values)
    names.emplace_back(name(value));
  return names;
}

}  // namespace

weft_data_type CallOptions::type() const {
  for (const weft_data_type type : kTypes) {
    if (type_text == data_type_name(type)) return type;
  }
  return WEFT_FLOAT32;
}

weft_reduction CallOptions::reduction() const {
  for (const weft_reduction reduction : kReductions) {
    if (reduction_text == reduction_name(reduction)) return reduction;
  }
  return WEFT_SUM;
}

WayOptions WayWords::options() const {
  return {.algorithm = find_named(kAlgorithms, algorithm_name, algorithm),
          .protocol = find_named(kProtocols, protocol_name, protocol),
          .max_channels = max_channels};
}

void add_way_options(CLI::App& command, WayWords& words) {
  command.add_option("--algorithm", words.algorithm, "As a program that names it for the call")
      ->check(CLI::IsMember(names_of(kAlgorithms, algorithm_name)));
  command.add_option("--protocol", words.protocol, "Likewise")
      ->check(CLI::IsMember(names_of(kProtocols, protocol_name)));
  add_limit_option(command, words);
}

void add_limit_option(CLI::App& command, WayWords& words) {
  command.add_option("--max-channels", words.max_channels,
                     "Most channels that the program gives the call; 0: as many as there are");
}

std::vector<std::string> words_of(const WayWords& words) {
  std::vector<std::string> all;
  if (!words.algorithm.empty()) all.insert(all.end(), {"--algorithm", words.algorithm});
  if (!words.protocol.empty()) all.insert(all.end(), {"--protocol", words.protocol});
  if (words.max_channels != 0) {
    all.insert(all.end(), {"--max-channels", std::to_string(words.max_channels)});
  }
  return all;
}

void add_call_options(CLI::App& command, Operation operation, CallOptions& options) {
  command.add_option("--type", options.type_text, "Element type")
      ->check(CLI::IsMember(names_of(kTypes, data_type_name)))
      ->capture_default_str();
  if (reduces(operation)) {
    command.add_option("--op", options.reduction_text, "Reduction")
        ->check(CLI::IsMember(names_of(kReductions, reduction_name)))
        ->capture_default_str();
  }
  if (has_root(operation)) {
    command
        .add_option("--root", options.root,
                    operation == Operation::kReduce || operation == Operation::kGather
                        ? "Rank that gets the result"
                        : "Rank that sends")
        ->capture_default_str();
  }
}

std::vector<std::string> words_of(Operation operation, const CallOptions& options) {
  std::vector<std::string> words = {"--type", options.type_text};
  if (reduces(operation)) words.insert(words.end(), {"--op", options.reduction_text});
  if (has_root(operation)) words.insert(words.end(), {"--root", std::to_string(options.root)});
  return words;
}

std::uint64_t count_for(Operation operation, std::uint64_t bytes, weft_data_type type,
                        std::uint32_t ranks) {
  const std::uint64_t elements = bytes / element_size(type);
  return has_blocks(operation) ? elements / ranks : elements;
}

}  // namespace weft::tool
