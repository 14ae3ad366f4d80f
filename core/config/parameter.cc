// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/parameter.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/problems.h"
#include "core/config/read_value.h"
#include "core/config/units.h"
#include "core/config/yaml.h"

namespace weft {
namespace {

std::unexpected<Error> bad(const Parameter& parameter, std::string_view message) {
  return fail(WEFT_ERROR_CONFIG, fmt::format("{}: {}", parameter.name(), message));
}

std::string number_text(const Parameter& parameter, std::int64_t value) {
  switch (parameter.type) {
    case ParameterType::kBytes:
      return print_bytes(value);
    case ParameterType::kDuration:
      return print_duration(std::chrono::nanoseconds(value));
    default:
      return fmt::format("{}", value);
  }
}

/// `between 4KiB and 4MiB`, `at least 1`, `at most 8`; empty where there is no bound.
std::string bounds_text(const Parameter& p) {
  if (p.minimum && p.maximum) {
    return fmt::format("between {} and {}", number_text(p, *p.minimum), number_text(p, *p.maximum));
  }
  if (p.minimum) return fmt::format("at least {}", number_text(p, *p.minimum));
  if (p.maximum) return fmt::format("at most {}", number_text(p, *p.maximum));
  return {};
}

bool out_of_bounds(const Parameter& p, std::int64_t value) {
  return (p.minimum && value < *p.minimum) || (p.maximum && value > *p.maximum);
}

Status check_number(const Parameter& p, std::int64_t value) {
  if (out_of_bounds(p, value)) {
    return bad(
        p, fmt::format("{} is out of range; it must be {}", number_text(p, value), bounds_text(p)));
  }
  if (p.power_of_two && (value <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(value)))) {
    return bad(p, fmt::format("{} is not a power of two", number_text(p, value)));
  }
  return {};
}

Status check_choice(const Parameter& p, const std::string& text) {
  if (p.choices.empty() || std::ranges::find(p.choices, text) != p.choices.end()) return {};
  if (const auto near = nearest_name(text, p.choices)) {
    return bad(p, fmt::format("unknown choice {}; did you mean \"{}\"?", in_quotes(text), *near));
  }
  return bad(p, fmt::format("unknown choice {}; use {}", in_quotes(text), either_of(p.choices)));
}

/// A line break or another control character would let one value pass for several.
Status check_text(const Parameter& p, std::string_view text) {
  const bool control = std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
  if (control) return bad(p, fmt::format("{} holds a control character", in_quotes(text)));
  return {};
}

Result<Value> parse_number(const Parameter& p, std::string_view text) {
  auto number = p.type == ParameterType::kBytes ? parse_bytes(text) : parse_integer(text);
  if (!number) return bad(p, number.error().what());
  WEFT_TRY(check_number(p, *number));
  return Value(*number);
}

Result<Value> parse_duration_value(const Parameter& p, std::string_view text) {
  using Duration = std::optional<std::chrono::nanoseconds>;
  if (text == "off") {
    if (!p.may_be_off) return bad(p, "cannot be off");
    return Value(Duration());
  }
  const auto duration = parse_duration(text);
  if (!duration) return bad(p, duration.error().what());
  WEFT_TRY(check_number(p, duration->count()));
  return Value(Duration(*duration));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  if (trimmed(text).empty()) return parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

bool is_name(std::string_view text, std::string_view extra) {
  const auto first = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && first(text.front()) && std::ranges::all_of(text, [&](char c) {
    return first(c) || (c >= '0' && c <= '9') || extra.find(c) != std::string_view::npos;
  });
}

Result<Value> parse_rules_text(const Parameter& p, std::string_view text) {
  // Places within one line of text help nobody, so that findings carry none.
  const Origin base{.kind = OriginKind::kEnvironment, .name = p.name(), .line = 0, .column = 0};
  WEFT_TRY_ASSIGN(const YamlNode node, parse_yaml(text, base));
  Problems problems;
  auto rules = read_rules(p, node, base, problems);
  WEFT_TRY(problems.status());
  return Value(std::move(*rules));
}

}  // namespace

Status check_list(const Parameter& p, const std::vector<std::string>& elements) {
  std::set<std::string_view> seen;
  for (const std::string& element : elements) {
    if (element.empty()) return bad(p, "has an empty element");
    if (element.find(',') != std::string::npos || trimmed(element) != element) {
      return bad(
          p, fmt::format("the element {} holds a comma or blanks at an end", in_quotes(element)));
    }
    WEFT_TRY(check_text(p, element));
    WEFT_TRY(check_choice(p, element));
    if (!seen.insert(element).second) {
      return bad(p, fmt::format("names {} twice", in_quotes(element)));
    }
  }
  const auto count = static_cast<std::int64_t>(elements.size());
  if (out_of_bounds(p, count)) {
    return bad(p, fmt::format("has {} elements; it must have {}", count, bounds_text(p)));
  }
  return {};
}

std::string_view parameter_type_name(ParameterType type) {
  switch (type) {
    case ParameterType::kFlag:
      return "flag";
    case ParameterType::kInteger:
      return "integer";
    case ParameterType::kBytes:
      return "bytes";
    case ParameterType::kDuration:
      return "duration";
    case ParameterType::kText:
      return "text";
    case ParameterType::kList:
      return "list";
    case ParameterType::kChoice:
      return "choice";
    case ParameterType::kRules:
      return "rules";
  }
  return "unknown";
}

std::string Parameter::environment_name() const {
  std::string out = "WEFT_" + section + "_" + key;
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    } else if (c == '-' || c == '.') {
      c = '_';
    }
  }
  return out;
}

std::string Parameter::describe_values() const {
  switch (type) {
    case ParameterType::kFlag:
      return "true or false";
    case ParameterType::kChoice:
      return either_of(choices);
    case ParameterType::kList:
      return choices.empty() ? "list" : "list of " + either_of(choices);
    case ParameterType::kRules:
      return "list of {between: ..., use: [...]}";
    default:
      break;
  }
  std::string out(parameter_type_name(type));
  if (type == ParameterType::kInteger && !unit.empty()) out += " (" + unit + ")";
  if (const std::string bounds = bounds_text(*this); !bounds.empty()) out += ", " + bounds;
  if (power_of_two) out += ", a power of two";
  if (may_be_off) out += ", or off";
  return out;
}

Result<Value> parse_value(const Parameter& p, std::string_view text) {
  WEFT_TRY(check_text(p, text));
  switch (p.type) {
    case ParameterType::kFlag:
      if (text != "true" && text != "false") {
        return bad(p, fmt::format("takes true or false; found {}", in_quotes(text)));
      }
      return Value(text == "true");
    case ParameterType::kInteger:
    case ParameterType::kBytes:
      return parse_number(p, text);
    case ParameterType::kDuration:
      return parse_duration_value(p, text);
    case ParameterType::kText:
      return Value(std::string(text));
    case ParameterType::kChoice: {
      std::string choice(text);
      WEFT_TRY(check_choice(p, choice));
      return Value(std::move(choice));
    }
    case ParameterType::kList: {
      std::vector<std::string> elements = split_at_commas(text);
      WEFT_TRY(check_list(p, elements));
      return Value(std::move(elements));
    }
    case ParameterType::kRules:
      return parse_rules_text(p, text);
  }
  return bad(p, "is of no known type");
}

std::string print_value(const Parameter& parameter, const Value& value) {
  struct Printer {
    const Parameter& p;
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return number_text(p, number); }
    std::string operator()(const std::optional<std::chrono::nanoseconds>& duration) const {
      return duration ? print_duration(*duration) : "off";
    }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const std::vector<std::string>& elements) const {
      return fmt::format("{}", fmt::join(elements, ","));
    }
    std::string operator()(const std::vector<Rule>& rules) const { return print_rules(rules); }
  };
  return std::visit(Printer{parameter}, value);
}

Status validate_parameter(const Parameter& p) {
  if (!is_name(p.section, "-") || p.section == "version") {
    return bad(p, fmt::format("{} is no name for a section", in_quotes(p.section)));
  }
  if (!is_name(p.key, "-_.") || p.key.back() == '.' || p.key.find("..") != std::string::npos) {
    return bad(p, fmt::format("{} is no name for a key", in_quotes(p.key)));
  }
  if (p.help.empty()) return bad(p, "has no help text");
  if (p.type == ParameterType::kChoice && p.choices.empty()) return bad(p, "has no choices");
  const auto value = parse_value(p, p.default_text);
  if (!value) {
    return bad(p, fmt::format("its default {} is refused: {}", in_quotes(p.default_text),
                              value.error().what()));
  }
  return {};
}

}  // namespace weft
