// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/problems.h"

namespace weft {
namespace {

constexpr std::size_t kLongestHostName = 253;
constexpr std::array<std::pair<std::string_view, RuleScope>, 3> kScopes = {
    {{"same-process", RuleScope::kSameProcess},
     {"same-host", RuleScope::kSameHost},
     {"same-fabric", RuleScope::kSameFabric}}};

std::unexpected<Error> bad_rule(std::string what) {
  return fail(WEFT_ERROR_CONFIG, std::move(what));
}

std::optional<RuleScope> parse_scope(std::string_view word) {
  for (const auto& [name, scope] : kScopes) {
    if (name == word) return scope;
  }
  return std::nullopt;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_host_name(std::string_view word) {
  if (word.empty() || word.size() > kLongestHostName) return false;
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return letter_or_digit(word.front()) && std::ranges::all_of(word, [&](char c) {
           return letter_or_digit(c) || c == '-' || c == '.' || c == '_';
         });
}

Result<RuleEnd> parse_end(const std::string& word) {
  if (word == "any") return AnyEnd{};
  if (word.starts_with("same")) {
    // No host is expected to be called so, and a misspelt scope must not pass for one.
    const std::vector<std::string> names = {"same-process", "same-host", "same-fabric"};
    const auto near = nearest_name(word, names);
    return bad_rule(
        near ? fmt::format("unknown scope {}; did you mean \"{}\"?", in_quotes(word), *near)
             : fmt::format("unknown scope {}; use {}", in_quotes(word), either_of(names)));
  }
  if (word.find_first_of("/:") != std::string::npos || parse_address(word)) {
    auto network = parse_network(word);
    if (!network) return bad_rule(network.error().what());
    return *network;
  }
  if (!is_host_name(word)) {
    return bad_rule(
        fmt::format("{} is no host name, network, same-process, same-host, same-fabric or any",
                    in_quotes(word)));
  }
  return HostName{lower_case(word)};
}

std::string end_text(const RuleEnd& end) {
  if (const auto* host = std::get_if<HostName>(&end)) return host->name;
  if (const auto* network = std::get_if<Network>(&end)) return network->to_string();
  return "any";
}

/// YAML reads some spellings in a flow list otherwise than meant: an address of colons, a number.
std::string flow_text(const std::string& text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '/' ||
           c == '_';
  });
  const bool null_word = text == "null" || text == "Null" || text == "NULL";
  if (plain && text.front() != '-' && !null_word) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

bool end_matches(const RuleEnd& end, const RankFacts& rank) {
  if (const auto* host = std::get_if<HostName>(&end)) return host->name == lower_case(rank.host);
  if (const auto* network = std::get_if<Network>(&end)) {
    return std::ranges::any_of(rank.addresses,
                               [&](const IpAddress& a) { return network->contains(a); });
  }
  return true;
}

bool end_covers(const RuleEnd& outer, const RuleEnd& inner) {
  if (std::holds_alternative<AnyEnd>(outer)) return true;
  const auto* outer_network = std::get_if<Network>(&outer);
  const auto* inner_network = std::get_if<Network>(&inner);
  if (outer_network != nullptr && inner_network != nullptr) {
    return outer_network->contains(*inner_network);
  }
  return outer == inner;
}

}  // namespace

std::string Between::to_string() const {
  for (const auto& [name, known] : kScopes) {
    if (known == scope) return std::string(name);
  }
  if (first == second) return flow_text(end_text(first));
  return fmt::format("[{}, {}]", flow_text(end_text(first)), flow_text(end_text(second)));
}

std::string Rule::to_string() const {
  std::vector<std::string> names;
  names.reserve(use.size());
  for (const std::string& name : use)
    names.push_back(flow_text(name));
  return fmt::format("{{between: {}, use: [{}]}}", between.to_string(), fmt::join(names, ", "));
}

std::string print_rules(const std::vector<Rule>& rules) {
  std::vector<std::string> texts;
  texts.reserve(rules.size());
  for (const Rule& rule : rules)
    texts.push_back(rule.to_string());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

bool matches(const Between& between, const PairFacts& pair) {
  switch (between.scope) {
    case RuleScope::kSameProcess:
      return pair.same_process;
    case RuleScope::kSameHost:
      return pair.same_host;
    case RuleScope::kSameFabric:
      return pair.same_fabric;
    case RuleScope::kEnds:
      break;
  }
  return (end_matches(between.first, pair.a) && end_matches(between.second, pair.b)) ||
         (end_matches(between.first, pair.b) && end_matches(between.second, pair.a));
}

bool covers(const Between& outer, const Between& inner) {
  if (outer.scope != RuleScope::kEnds) {
    if (outer.scope == inner.scope) return true;
    // A fabric joins all of a host (Topology::same_fabric), a host all of a process.
    if (outer.scope == RuleScope::kSameFabric && inner.scope == RuleScope::kSameHost) return true;
    return outer.scope != RuleScope::kSameProcess && inner.scope == RuleScope::kSameProcess;
  }
  // A pair of one process or host may have any name and address.
  const bool everything =
      std::holds_alternative<AnyEnd>(outer.first) && std::holds_alternative<AnyEnd>(outer.second);
  if (inner.scope != RuleScope::kEnds) return everything;
  return (end_covers(outer.first, inner.first) && end_covers(outer.second, inner.second)) ||
         (end_covers(outer.first, inner.second) && end_covers(outer.second, inner.first));
}

Result<Between> parse_between(const std::vector<std::string>& ends) {
  if (ends.empty() || ends.size() > 2) {
    return bad_rule(fmt::format("\"between\" takes one end or two; found {}", ends.size()));
  }
  if (ends.size() == 1) {
    if (const auto scope = parse_scope(ends.front())) return Between{*scope, {}, {}};
    WEFT_TRY_ASSIGN(const RuleEnd end, parse_end(ends.front()));
    return Between{RuleScope::kEnds, end, end};
  }
  for (const std::string& end : ends) {
    if (parse_scope(end)) {
      return bad_rule(
          fmt::format("{} speaks of a whole pair; it cannot be one end of two", in_quotes(end)));
    }
  }
  WEFT_TRY_ASSIGN(const RuleEnd first, parse_end(ends[0]));
  WEFT_TRY_ASSIGN(const RuleEnd second, parse_end(ends[1]));
  return Between{RuleScope::kEnds, first, second};
}

}  // namespace weft
