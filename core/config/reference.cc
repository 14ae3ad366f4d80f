// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/reference.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMarkdownHead = R"(# Configuration reference

<!-- Made by `weft config schema --markdown --core` from the parameter table. Do not edit. -->

One YAML file configures a job. The first that exists counts, alone: the one that `WEFT_CONFIG` names,
`$XDG_CONFIG_HOME/weft/weft.yaml` (or `~/.config/weft/weft.yaml`), `/etc/weft/weft.yaml`. The working
directory is never searched. The file begins with `version: 1`:

```yaml
version: 1
transports:
  order: [p2p, shm, net]
  rules:
    - {between: same-host, use: [shm]}
    - {between: [10.0.0.0/24, 10.0.1.0/24], use: [net-socket]}
log: {level: info, topics: {net: debug}}
```

An environment variable overrides the file, and a communicator's own configuration overrides that.
A variable takes one line of text, lists by comma; an empty one counts as unset. In a process that
runs with raised privileges, neither the user's own file nor a variable that names paths counts.
`WEFT_CONFIG`, `WEFT_HOST_ID`, `WEFT_FABRIC_ID`, `WEFT_RANK`, `WEFT_WORLD_SIZE`, `WEFT_LOCAL_RANK`,
`WEFT_ROOT` and `WEFT_SECRET` are reserved for other purposes; any other unknown `WEFT_` variable is
an error.

Sizes are whole numbers with B, KiB, MiB or GiB; durations with ns, us, ms, s, min or h. *Agreed*
parameters must be alike on all ranks of a job. *Of the context* has one value for all communicators of a context:
a communicator that names another one is refused.

`weft config show` prints every value and where it comes from, `weft config explain KEY` all that is
known of one, `weft config check FILE` what is wrong with a file. Plugins bring sections of their own,
named after them: `weft config schema --markdown` lists those of this installation, too.
)";

/// A string of digits and one of the units that units.cc reads.
constexpr std::string_view kBytesPattern = "^[0-9]+( *(B|KiB|MiB|GiB))?$";
constexpr std::string_view kDurationPattern = "^[0-9]+ *(ns|us|ms|s|min|h)$";

Json rules_schema() {
  const Json end = {{"type", "string"}, {"minLength", 1}};
  Json rule;
  rule["type"] = "object";
  rule["additionalProperties"] = false;
  rule["required"] = {"between", "use"};
  rule["properties"]["between"] = {
      {"oneOf",
       Json::array({end, {{"type", "array"}, {"items", end}, {"minItems", 1}, {"maxItems", 2}}})}};
  rule["properties"]["use"] = {{"type", "array"},
                               {"items", {{"type", "string"}, {"minLength", 1}}},
                               {"minItems", 1},
                               {"uniqueItems", true}};
  return {{"type", "array"}, {"items", rule}};
}

Json bytes_schema(const Parameter& parameter) {
  Json number = {{"type", "integer"}, {"minimum", parameter.minimum.value_or(0)}};
  if (parameter.maximum) number["maximum"] = *parameter.maximum;
  const Json text = {{"type", "string"}, {"pattern", kBytesPattern}};
  return {{"oneOf", Json::array({number, text})}};
}

Json list_schema(const Parameter& parameter) {
  Json items = {{"type", "string"}};
  if (!parameter.choices.empty()) items["enum"] = parameter.choices;
  Json out = {{"type", "array"}, {"items", items}, {"uniqueItems", true}};
  if (parameter.minimum) out["minItems"] = *parameter.minimum;
  if (parameter.maximum) out["maxItems"] = *parameter.maximum;
  return out;
}

Json value_schema(const Parameter& parameter) {
  switch (parameter.type) {
    case ParameterType::kFlag:
      return {{"type", "boolean"}};
    case ParameterType::kInteger: {
      Json out = {{"type", "integer"}};
      if (parameter.minimum) out["minimum"] = *parameter.minimum;
      if (parameter.maximum) out["maximum"] = *parameter.maximum;
      return out;
    }
    case ParameterType::kBytes:
      return bytes_schema(parameter);
    case ParameterType::kDuration: {
      Json text = {{"type", "string"}, {"pattern", kDurationPattern}};
      if (!parameter.may_be_off) return text;
      // Readers of YAML 1.1 take a bare off for false.
      return {{"oneOf", Json::array({text, {{"enum", Json::array({"off", false})}}})}};
    }
    case ParameterType::kText:
      return {{"type", "string"}};
    case ParameterType::kList:
      return list_schema(parameter);
    case ParameterType::kChoice:
      return {{"enum", parameter.choices}};
    case ParameterType::kRules:
      return rules_schema();
  }
  return true;
}

Json map_schema() {
  Json out;
  out["type"] = "object";
  out["additionalProperties"] = false;
  out["properties"] = Json::object();
  return out;
}

/// The schema of the map that `key` stands in, made on the way where it is not there yet.
Json& parent_of(Json& root, std::string_view name, std::string& key) {
  Json* map = &root;
  while (true) {
    const std::size_t dot = name.find('.');
    key = std::string(name.substr(0, dot));
    if (dot == std::string_view::npos) return *map;
    Json& properties = (*map)["properties"];
    if (!properties.contains(key)) properties[key] = map_schema();
    map = &properties[key];
    name.remove_prefix(dot + 1);
  }
}

std::string cell(std::string text) {
  // A bar would end the cell.
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, 1, '\\');
  }
  return text;
}

std::string code(const std::string& text) {
  return text.empty() ? "" : "`" + text + "`";
}

}  // namespace

std::string json_schema(std::span<const Parameter> table) {
  Json root;
  root["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  root["title"] = "Weft configuration";
  root.update(map_schema());
  root["required"] = {"version"};
  root["properties"]["version"] = {{"const", 1}};
  for (const Parameter& parameter : table) {
    std::string key;
    Json& parent = parent_of(root, parameter.name(), key);
    Json schema = value_schema(parameter);
    schema["description"] = parameter.help;
    parent["properties"][key] = std::move(schema);
  }
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string markdown_reference(std::span<const Parameter> table) {
  std::string out(kMarkdownHead);
  std::string_view section;
  for (const Parameter& parameter : table) {
    if (parameter.section != section) {
      section = parameter.section;
      out += fmt::format("\n## {}\n\n| key | value | default | variable | meaning |\n", section);
      out += "|---|---|---|---|---|\n";
    }
    out += fmt::format(
        "| `{}` | {} | {} | `{}` | {}{}{} |\n", parameter.key, cell(parameter.describe_values()),
        cell(code(parameter.default_text)), parameter.environment_name(), cell(parameter.help),
        parameter.agreed ? " *Agreed.*" : "", parameter.of_context ? " *Of the context.*" : "");
  }
  return out;
}

}  // namespace weft
