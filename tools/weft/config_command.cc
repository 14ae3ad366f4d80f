// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft config`: shows the configuration that a program started here would have, explains single
// parameters, checks files, and prints what is generated from the parameter table.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/config/config.h"
#include "core/config/core_parameters.h"
#include "core/config/environment.h"
#include "core/config/problems.h"
#include "core/config/reference.h"
#include "core/config/resolve.h"
#include "core/config/source.h"
#include "tools/weft/commands.h"
#include "tools/weft/plugin_parameters.h"

namespace weft::tool {
namespace {

using Json = nlohmann::ordered_json;

void print(const std::string& text) {
  fmt::print("{}", text);
}

struct Loaded {
  Config config;
  std::vector<UnreadSection> unread;
};

Result<Loaded> load() {
  WEFT_TRY_ASSIGN(const ConfigSource source, ConfigSource::read(capture_environment()));
  PluginTables tables = discovered_plugin_tables(source);
  WEFT_TRY_ASSIGN(Config config, resolve(source, tables.parameters, tables.unread));
  return Loaded{.config = std::move(config), .unread = std::move(tables.unread)};
}

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The value as JSON has it: flags, whole numbers and lists as such, all else as canonical text.
Json json_value(const ConfigEntry& entry) {
  if (const auto* flag = std::get_if<bool>(&entry.value())) return *flag;
  if (const auto* number = std::get_if<std::int64_t>(&entry.value())) return *number;
  if (const auto* list = std::get_if<std::vector<std::string>>(&entry.value())) return *list;
  if (const auto* rules = std::get_if<std::vector<Rule>>(&entry.value())) {
    Json out = Json::array();
    for (const Rule& rule : *rules) {
      out.push_back({{"between", rule.between.to_string()},
                     {"use", rule.use},
                     {"origin", rule.origin.to_string()}});
    }
    return out;
  }
  return entry.text();
}

int show(bool as_json) {
  const auto loaded = load();
  if (!loaded) return complain(loaded.error());
  const Config* const config = &loaded->config;
  if (as_json) {
    Json out;
    out["file"] = config->file().empty() ? Json(nullptr) : Json(config->file());
    out["notices"] = config->notices();
    out["parameters"] = Json::array();
    for (const ConfigEntry& entry : config->entries()) {
      out["parameters"].push_back({{"key", entry.parameter.name()},
                                   {"value", json_value(entry)},
                                   {"text", entry.text()},
                                   {"origin", entry.origin().to_string()}});
    }
    print(dumped(out));
    return 0;
  }
  std::size_t key_width = 0;
  std::size_t text_width = 0;
  for (const ConfigEntry& entry : config->entries()) {
    key_width = std::max(key_width, entry.parameter.name().size());
    text_width = std::max(text_width, entry.text().size());
  }
  // One long value shall not push every origin off the screen.
  constexpr std::size_t kWidest = 40;
  text_width = std::min(text_width, kWidest);
  std::string out = fmt::format("# file: {}\n", config->file().empty() ? "none" : config->file());
  for (const std::string& notice : config->notices())
    out += fmt::format("# {}\n", notice);
  for (const ConfigEntry& entry : config->entries()) {
    out += fmt::format("{:<{}}  {:<{}}  {}\n", entry.parameter.name(), key_width, entry.text(),
                       text_width, entry.origin().to_string());
  }
  print(out);
  return 0;
}

std::string or_empty(const std::string& text) {
  return text.empty() ? "(empty)" : text;
}

int explain(const std::string& key) {
  const auto loaded = load();
  if (!loaded) return complain(loaded.error());
  const ConfigEntry* found = loaded->config.find(key);
  std::vector<std::string> names;
  for (const ConfigEntry& entry : loaded->config.entries()) {
    names.push_back(entry.parameter.name());
    if (entry.parameter.environment_name() == key) found = &entry;
  }
  if (found == nullptr) {
    if (const auto* unread = find_unread(loaded->unread, key)) {
      return complain(Error(WEFT_ERROR_CONFIG, fmt::format("{} cannot be explained: {}",
                                                           in_quotes(key), unread->why)));
    }
    const auto near = nearest_name(key, names);
    return complain(
        Error(WEFT_ERROR_CONFIG,
              near ? fmt::format("unknown key {}; did you mean \"{}\"?", in_quotes(key), *near)
                   : fmt::format("unknown key {}; weft config show lists all", in_quotes(key))));
  }
  const Parameter& parameter = found->parameter;
  std::string out = fmt::format("{}\n  {}\n", parameter.name(), parameter.help);
  out += fmt::format("  type      {}\n", parameter_type_name(parameter.type));
  out += fmt::format("  value     {}\n", parameter.describe_values());
  if (!parameter.unit.empty()) out += fmt::format("  unit      {}\n", parameter.unit);
  out += fmt::format("  default   {}\n", or_empty(parameter.default_text));
  out += fmt::format("  variable  {}\n", parameter.environment_name());
  out +=
      fmt::format("  agreed    {}\n", parameter.agreed ? "yes, must be alike on all ranks" : "no");
  out += fmt::format("  counts    {}\n", parameter.of_context ? "for a whole context"
                                                              : "for a context or a communicator");
  out += fmt::format("  now       {}\n", or_empty(found->text()));
  out += "set by, the last one counts:\n";
  for (const ConfigLayer& layer : found->layers) {
    out += fmt::format("  {}: {}\n", layer.origin.to_string(),
                       or_empty(print_value(parameter, layer.value)));
  }
  print(out);
  return 0;
}

int check(const std::string& file) {
  // The file alone: what the environment says is none of its faults.
  Environment environment;
  const auto source = ConfigSource::read_file(file, environment);
  if (!source) return complain(source.error());
  const PluginTables tables = discovered_plugin_tables(*source);
  const auto config = resolve(*source, tables.parameters, tables.unread);
  if (!config) return complain(config.error());
  // Programs start with what could not be checked, and nobody can say whether it is right.
  for (const std::string& notice : config->notices())
    fmt::print(stderr, "{}\n", notice);
  if (!config->notices().empty()) return 1;
  print(fmt::format("{}: ok\n", file));
  return 0;
}

int schema(bool as_markdown, bool core_alone) {
  std::vector<Parameter> table = core_parameters();
  if (!core_alone) {
    // A broken file must not keep its schema from whoever wants to mend it.
    auto source = ConfigSource::read(capture_environment());
    if (!source) source = ConfigSource::without_file(capture_environment());
    std::ranges::move(discovered_plugin_tables(*source).parameters, std::back_inserter(table));
  }
  print(as_markdown ? markdown_reference(table) : json_schema(table));
  return 0;
}

}  // namespace

void add_config_command(CLI::App& app, int& exit_status) {
  CLI::App* const command =
      app.add_subcommand("config", "Show, explain and check the configuration");
  command->require_subcommand(1);

  CLI::App* const show_command =
      command->add_subcommand("show", "Print each value and where it comes from");
  auto as_json = std::make_shared<bool>(false);
  show_command->add_flag("--json", *as_json, "Print JSON");
  show_command->callback([as_json, &exit_status] { exit_status = show(*as_json); });

  CLI::App* const explain_command =
      command->add_subcommand("explain", "Print all that is known of one parameter");
  auto key = std::make_shared<std::string>();
  explain_command->add_option("KEY", *key, "As timeouts.bootstrap or WEFT_TIMEOUTS_BOOTSTRAP")
      ->required();
  explain_command->callback([key, &exit_status] { exit_status = explain(*key); });

  CLI::App* const check_command = command->add_subcommand("check", "Check a file without using it");
  auto file = std::make_shared<std::string>();
  check_command->add_option("FILE", *file, "A configuration file")->required();
  check_command->callback([file, &exit_status] { exit_status = check(*file); });

  CLI::App* const schema_command =
      command->add_subcommand("schema", "Print a JSON Schema of the file");
  auto as_markdown = std::make_shared<bool>(false);
  auto core_alone = std::make_shared<bool>(false);
  schema_command->add_flag("--markdown", *as_markdown, "Print a reference page instead");
  schema_command->add_flag("--core", *core_alone, "Leave the sections of plugins out");
  schema_command->callback(
      [as_markdown, core_alone, &exit_status] { exit_status = schema(*as_markdown, *core_alone); });
}

}  // namespace weft::tool
