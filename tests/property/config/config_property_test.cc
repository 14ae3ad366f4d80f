// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Properties of the configuration that hold for all input: printing and reading are inverse, later
// layers win, arbitrary bytes are answered with a value or an error.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/config/core_parameters.h"
#include "core/config/resolve.h"
#include "core/config/units.h"

namespace weft {
namespace {

Environment bare(std::map<std::string, std::string> variables = {}) {
  return {.variables = std::move(variables),
          .raised_privileges = false,
          .system_folder = "/nonexistent/weft"};
}

rc::Gen<std::int64_t> any_count() {
  // Round numbers have the short spellings, and plain random ones are never round.
  return rc::gen::oneOf(
      rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max()),
      rc::gen::map(rc::gen::pair(rc::gen::inRange<std::int64_t>(0, 1000),
                                 rc::gen::element<std::int64_t>(1, 1000, 1024, 1'000'000, 1 << 20,
                                                                1'000'000'000, 1 << 30,
                                                                60'000'000'000, 3'600'000'000'000)),
                   [](const auto& pair) { return pair.first * pair.second; }));
}

RC_GTEST_PROP(UnitsProperty, BytesPrintAndReadBack, ()) {
  const auto bytes = *any_count();
  const auto back = parse_bytes(print_bytes(bytes));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == bytes);
}

RC_GTEST_PROP(UnitsProperty, DurationsPrintAndReadBack, ()) {
  const std::chrono::nanoseconds duration(*any_count());
  const auto back = parse_duration(print_duration(duration));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == duration);
}

IpAddress any_address(bool v6) {
  IpAddress address;
  address.v6 = v6;
  for (std::size_t i = 0; i < (v6 ? 16U : 4U); ++i) {
    address.bytes.at(i) = *rc::gen::arbitrary<std::uint8_t>();
  }
  return address;
}

/// Few bits differ, so that networks contain one another often enough.
Network any_network() {
  const bool v6 = *rc::gen::arbitrary<bool>();
  const int prefix = *rc::gen::inRange(0, v6 ? 129 : 33);
  IpAddress address = *rc::gen::arbitrary<bool>() ? any_address(v6) : IpAddress{.v6 = v6};
  for (std::size_t bit = static_cast<std::size_t>(prefix); bit < 128; ++bit) {
    address.bytes.at(bit / 8) &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
  }
  return {address, prefix};
}

RC_GTEST_PROP(NetworkProperty, PrintsAndReadsBack, ()) {
  const Network network = any_network();
  const auto back = parse_network(network.to_string());
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == network);
}

RC_GTEST_PROP(NetworkProperty, ContainmentIsThatOfItsAddresses, ()) {
  const Network outer = any_network();
  const Network inner = any_network();
  IpAddress member = any_address(inner.base.v6);
  for (std::size_t bit = 0; bit < static_cast<std::size_t>(inner.prefix); ++bit) {
    const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
    auto& byte = member.bytes.at(bit / 8);
    byte = static_cast<std::uint8_t>((byte & ~mask) | (inner.base.bytes.at(bit / 8) & mask));
  }
  RC_ASSERT(inner.contains(member));
  if (outer.contains(inner)) RC_ASSERT(outer.contains(member));
}

std::string any_end() {
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return "any";
    case 1:
      return *rc::gen::element<std::string>("node1", "node2", "a.b_c-d", "10", "null", "true",
                                            "1e3");
    default:
      return any_network().to_string();
  }
}

Between any_between() {
  std::vector<std::string> ends = {any_end()};
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      ends = {*rc::gen::element<std::string>("same-process", "same-host", "same-fabric")};
      break;
    case 1:
      ends.push_back(any_end());
      break;
    default:
      break;
  }
  auto between = parse_between(ends);
  RC_ASSERT(between.has_value());
  return *between;
}

RankFacts any_rank() {
  RankFacts rank{.host = *rc::gen::element<std::string>("node1", "Node2", "other"),
                 .addresses = {}};
  const int count = *rc::gen::inRange(0, 3);
  for (int i = 0; i < count; ++i) {
    rank.addresses.push_back(*rc::gen::arbitrary<bool>() ? any_address(*rc::gen::arbitrary<bool>())
                                                         : IpAddress{});
  }
  return rank;
}

PairFacts any_pair() {
  PairFacts pair;
  pair.same_process = *rc::gen::arbitrary<bool>();
  pair.same_host = pair.same_process || *rc::gen::arbitrary<bool>();
  pair.same_fabric = pair.same_host || *rc::gen::arbitrary<bool>();
  pair.a = any_rank();
  pair.b = any_rank();
  return pair;
}

RC_GTEST_PROP(RulesProperty, PrintAndReadBack, ()) {
  std::vector<Rule> rules;
  const int count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < count; ++i) {
    Rule rule;
    rule.between = any_between();
    rule.use = {*rc::gen::element<std::string>("shm", "p2p", "net-ib", "null", "a b", "-x", "\"\\"),
                "net-socket"};
    const bool hidden = std::ranges::any_of(
        rules, [&](const Rule& earlier) { return covers(earlier.between, rule.between); });
    if (!hidden) rules.push_back(rule);
  }
  for (const Parameter& parameter : core_parameters()) {
    if (parameter.type != ParameterType::kRules) continue;
    const auto back = parse_value(parameter, print_rules(rules));
    RC_ASSERT(back.has_value());
    RC_ASSERT(std::get<std::vector<Rule>>(*back) == rules);
  }
}

RC_GTEST_PROP(RulesProperty, MatchAlikeFromBothSides, ()) {
  const Between between = any_between();
  PairFacts pair = any_pair();
  const bool forward = matches(between, pair);
  std::swap(pair.a, pair.b);
  RC_ASSERT(matches(between, pair) == forward);
}

RC_GTEST_PROP(RulesProperty, CoveredMeansNeverDecided, ()) {
  const Between outer = any_between();
  const Between inner = any_between();
  const PairFacts pair = any_pair();
  if (covers(outer, inner) && matches(inner, pair)) RC_ASSERT(matches(outer, pair));
  RC_ASSERT(covers(outer, outer));
}

RC_GTEST_PROP(LayersProperty, EnvironmentOverFileOverDefault, ()) {
  const auto any_step = rc::gen::map(rc::gen::inRange(12, 23), [](int bits) { return 1L << bits; });
  const auto in_file = *rc::gen::maybe(any_step);
  const auto in_environment = *rc::gen::maybe(any_step);
  const auto in_communicator = *rc::gen::maybe(any_step);
  std::string file = "version: 1\n";
  if (in_file) file += fmt::format("buffers: {{step: {}}}\n", print_bytes(*in_file));
  std::map<std::string, std::string> variables;
  if (in_environment) variables["WEFT_BUFFERS_STEP"] = print_bytes(*in_environment);
  const auto source = ConfigSource::parse(file, "f.yaml", bare(variables));
  RC_ASSERT(source.has_value());
  auto config = resolve(*source, {});
  RC_ASSERT(config.has_value());
  if (in_communicator) {
    config = config->with_overrides({{"buffers.step", print_bytes(*in_communicator)}});
    RC_ASSERT(config.has_value());
  }
  std::int64_t expected = 128 << 10;
  auto kind = OriginKind::kDefault;
  if (in_file) {
    expected = *in_file;
    kind = OriginKind::kFile;
  }
  if (in_environment) {
    expected = *in_environment;
    kind = OriginKind::kEnvironment;
  }
  if (in_communicator) {
    expected = *in_communicator;
    kind = OriginKind::kCommunicator;
  }
  RC_ASSERT(config->bytes("buffers.step") == static_cast<std::uint64_t>(expected));
  RC_ASSERT(config->find("buffers.step")->origin().kind == kind);
}

RC_GTEST_PROP(LayersProperty, FileAndEnvironmentReadAlike, ()) {
  const std::vector<Parameter> table = core_parameters();
  const Parameter parameter = *rc::gen::elementOf(table);
  const std::string text =
      *rc::gen::oneOf(rc::gen::just(parameter.default_text),
                      rc::gen::element<std::string>("60s", "off", "1KiB", "8", "info", "json",
                                                    "inherit", "-1", "ring"));
  // The same text, quoted by hand where it is no list: both ways accept it or both refuse it.
  const auto value = parse_value(parameter, text);
  const auto empty =
      ConfigSource::parse("version: 1\n", "f.yaml", bare({{parameter.environment_name(), text}}));
  RC_ASSERT(empty.has_value());
  const auto of_variable = resolve(*empty, {});
  RC_ASSERT(of_variable.has_value() == value.has_value());
  if (value) RC_ASSERT(of_variable->find(parameter.name())->value() == *value);
  if (parameter.type == ParameterType::kList || parameter.type == ParameterType::kRules) return;
  std::string file = "version: 1\n" + parameter.section + ":\n";
  const std::size_t dot = parameter.key.find('.');
  if (dot != std::string::npos) {
    file += "  " + parameter.key.substr(0, dot) + ":\n    " + parameter.key.substr(dot + 1);
  } else {
    file += "  " + parameter.key;
  }
  file += ": " + (text.empty() ? "\"\"" : text) + "\n";
  const auto source = ConfigSource::parse(file, "f.yaml", bare());
  RC_ASSERT(source.has_value());
  const auto config = resolve(*source, {});
  RC_ASSERT(config.has_value() == value.has_value());
  if (value) RC_ASSERT(config->find(parameter.name())->value() == *value);
}

RC_GTEST_PROP(ValuesProperty, PrintAndReadBack, ()) {
  const std::vector<Parameter> table = core_parameters();
  const Parameter parameter = *rc::gen::elementOf(table);
  const auto value = parse_value(parameter, *rc::gen::string<std::string>());
  if (!value) return;
  const auto back = parse_value(parameter, print_value(parameter, *value));
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == *value);
}

RC_GTEST_PROP(BytesProperty, AreAnsweredWhateverTheyAre, ()) {
  const auto piece = rc::gen::oneOf(
      rc::gen::string<std::string>(),
      rc::gen::element<std::string>(
          "version: 1\n", "transports:", " {", "}", " [", "]", "\n  ", "- ", ", ", "order", "rules",
          "between: ", "use: ", "log", "level: ", "&a ", "*a", "!!map ", "? ", ": ", "|\n", "'",
          "\"", "\t", "---\n", "10.0.0.0/8", "any", std::string(1, '\0'), "\xff\xfe"));
  const auto pieces = *rc::gen::container<std::vector<std::string>>(piece);
  const std::string text = fmt::format("version: 1\n{}", fmt::join(pieces, ""));
  const auto source = ConfigSource::parse(text, "f.yaml", bare({{"WEFT_TRANSPORTS_ORDER", text}}));
  if (!source) {
    RC_ASSERT(source.error().code() == WEFT_ERROR_CONFIG);
    RC_ASSERT(source.error().what().starts_with("f.yaml:"));
    return;
  }
  const auto config = resolve(*source, {});
  if (config) {
    RC_ASSERT(!config->agreed_text().empty());
  } else {
    RC_ASSERT(config.error().code() == WEFT_ERROR_CONFIG);
  }
}

}  // namespace
}  // namespace weft
