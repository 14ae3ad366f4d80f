// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/read_value.h"

#include <utility>

#include <fmt/format.h>

namespace weft {
namespace {

std::optional<Value> read_scalar(const Parameter& p, const YamlNode& node, const Origin& where,
                                 Problems& problems) {
  const auto wanted = [&](std::string_view what) {
    problems.add(where, fmt::format("{} takes {}; found {}", p.name(), what, describe_node(node)));
    return std::nullopt;
  };
  if (node.kind != YamlKind::kScalar) {
    return wanted(p.type == ParameterType::kChoice ? either_of(p.choices) : p.describe_values());
  }
  // Text in quotes is text to every other reader of YAML; nobody shall learn otherwise here.
  if (node.quoted && p.type == ParameterType::kFlag) return wanted("true or false");
  if (node.quoted && p.type == ParameterType::kInteger) return wanted("a whole number");
  auto value = parse_value(p, node.text);
  if (!value) {
    problems.add(where, value.error().what());
    return std::nullopt;
  }
  return std::move(*value);
}

/// The texts of a sequence of scalars, or nullopt after a complaint on the first that is none.
std::optional<std::vector<std::string>> read_texts(std::string_view name, const YamlNode& node,
                                                   const Origin& base, Problems& problems) {
  std::vector<std::string> texts;
  texts.reserve(node.items.size());
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlKind::kScalar) {
      problems.add(origin_of(item, base),
                   fmt::format("{} takes text as elements; found {}", name, describe_node(item)));
      return std::nullopt;
    }
    texts.push_back(item.text);
  }
  return texts;
}

std::optional<Value> read_list(const Parameter& p, const YamlNode& node, const Origin& base,
                               Problems& problems) {
  const Origin where = origin_of(node, base);
  if (node.kind != YamlKind::kSequence) {
    problems.add(
        where, fmt::format("{} takes a list, as [a, b]; found {}", p.name(), describe_node(node)));
    return std::nullopt;
  }
  auto elements = read_texts(p.name(), node, base, problems);
  if (!elements) return std::nullopt;
  if (const auto status = check_list(p, *elements); !status) {
    problems.add(where, status.error().what());
    return std::nullopt;
  }
  return Value(std::move(*elements));
}

std::optional<Between> read_between(const YamlNode& node, const Origin& base, Problems& problems) {
  const Origin where = origin_of(node, base);
  std::vector<std::string> ends;
  if (node.kind == YamlKind::kScalar) {
    ends.push_back(node.text);
  } else if (node.kind == YamlKind::kSequence) {
    auto texts = read_texts("\"between\"", node, base, problems);
    if (!texts) return std::nullopt;
    ends = std::move(*texts);
  } else {
    problems.add(where, fmt::format("\"between\" takes one end or a list of two; found {}",
                                    describe_node(node)));
    return std::nullopt;
  }
  const auto between = parse_between(ends);
  if (!between) {
    problems.add(where, between.error().what());
    return std::nullopt;
  }
  return *between;
}

std::optional<Rule> read_rule(const YamlNode& node, const Origin& base, Problems& problems) {
  const Origin where = origin_of(node, base);
  if (node.kind != YamlKind::kMap) {
    problems.add(where, fmt::format("a rule takes {{between: ..., use: [...]}}; found {}",
                                    describe_node(node)));
    return std::nullopt;
  }
  Rule rule;
  rule.origin = where;
  bool sound = true;
  bool has_between = false;
  bool has_use = false;
  const std::vector<std::string> names = {"between", "use"};
  for (const auto& [key, value] : node.entries) {
    if (key.text == "between") {
      has_between = true;
      if (auto between = read_between(value, base, problems)) {
        rule.between = *between;
      } else {
        sound = false;
      }
    } else if (key.text == "use") {
      has_use = true;
      const Parameter use{.section = "transports",
                          .key = "rules.use",
                          .type = ParameterType::kList,
                          .minimum = 1,
                          .default_text = {},
                          .help = {}};
      if (auto plugins = read_list(use, value, base, problems)) {
        rule.use = std::get<std::vector<std::string>>(*plugins);
      } else {
        sound = false;
      }
    } else {
      const auto near = nearest_name(key.text, names);
      problems.add(
          origin_of(key, base),
          near ? fmt::format("unknown key {}; did you mean \"{}\"?", in_quotes(key.text), *near)
               : fmt::format("unknown key {}; a rule has between and use", in_quotes(key.text)));
      sound = false;
    }
  }
  if (sound && (!has_between || !has_use)) {
    problems.add(where, fmt::format("the rule has no \"{}\"", has_between ? "use" : "between"));
    sound = false;
  }
  if (!sound) return std::nullopt;
  return rule;
}

/// What the `earlier` rule is called where a `later` one is said never to match.
std::string earlier_rule(const Rule& earlier, std::size_t index) {
  if (earlier.origin.kind == OriginKind::kFile) {
    return fmt::format("the rule on line {}", earlier.origin.line);
  }
  return fmt::format("rule {}", index + 1);
}

}  // namespace

std::string describe_node(const YamlNode& node) {
  switch (node.kind) {
    case YamlKind::kNull:
      return "nothing";
    case YamlKind::kScalar:
      return in_quotes(node.text) + (node.quoted ? " in quotes" : "");
    case YamlKind::kSequence:
      return "a list";
    case YamlKind::kMap:
      return "a map";
  }
  return "something else";
}

std::optional<std::vector<Rule>> read_rules(const Parameter& parameter, const YamlNode& node,
                                            const Origin& base, Problems& problems) {
  // Comparing each with each is quadratic; no sane file has this many.
  constexpr std::size_t kMaximumRules = 256;
  const Origin where = origin_of(node, base);
  if (node.kind != YamlKind::kSequence) {
    problems.add(where, fmt::format("{} takes a list of rules; found {}", parameter.name(),
                                    describe_node(node)));
    return std::nullopt;
  }
  if (node.items.size() > kMaximumRules) {
    problems.add(where, fmt::format("{} has {} rules; it must have at most {}", parameter.name(),
                                    node.items.size(), kMaximumRules));
    return std::nullopt;
  }
  std::vector<Rule> rules;
  bool sound = true;
  for (const YamlNode& item : node.items) {
    auto rule = read_rule(item, base, problems);
    if (!rule) {
      sound = false;
      continue;
    }
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (!covers(rules[i].between, rule->between)) continue;
      problems.add(rule->origin,
                   fmt::format("this rule (between: {}) can never match: {} (between: {}) decides "
                               "all of its pairs",
                               rule->between.to_string(), earlier_rule(rules[i], i),
                               rules[i].between.to_string()));
      sound = false;
      break;
    }
    rules.push_back(std::move(*rule));
  }
  if (!sound) return std::nullopt;
  return rules;
}

std::optional<Value> read_value(const Parameter& parameter, const YamlNode& node,
                                const Origin& base, Problems& problems) {
  if (parameter.type == ParameterType::kList) return read_list(parameter, node, base, problems);
  if (parameter.type == ParameterType::kRules) {
    auto rules = read_rules(parameter, node, base, problems);
    if (!rules) return std::nullopt;
    return Value(std::move(*rules));
  }
  return read_scalar(parameter, node, origin_of(node, base), problems);
}

}  // namespace weft
