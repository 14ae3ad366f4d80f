// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft plugin`: lists the plugins that a program started here would find, and shows what a plugin
// file says of itself. Neither runs any of a plugin's code.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/environment.h"
#include "core/config/resolve.h"
#include "core/config/source.h"
#include "core/plugin/inspect.h"
#include "core/plugin/loader.h"
#include "core/plugin/search.h"
#include "tools/weft/commands.h"

namespace weft::tool {
namespace {

Result<std::vector<std::string>> configured_directories() {
  WEFT_TRY_ASSIGN(const ConfigSource source, ConfigSource::read(capture_environment()));
  WEFT_TRY_ASSIGN(const Config config, resolve_core(source));
  return plugin_directories(config.list("plugins.path"));
}

/// One plugin of the list; `problem` says why it cannot be used.
struct Line {
  std::string id;
  std::string version;
  std::string vendor;
  std::string interfaces;
  std::string file;
  std::string problem;
};

Line make_line(const FoundPlugin& found, const std::vector<std::string>& directories) {
  Line line;
  line.id = found.id;
  line.file = found.file;
  // As a job looks for it, which refuses folders that this command can read.
  if (const auto searched = find_plugin(directories, found.id); !searched) {
    line.problem = searched.error().to_string();
    return line;
  }
  const auto info = examine_plugin(found.file);
  if (!info) {
    line.problem = info.error().to_string();
    return line;
  }
  line.version = info->version;
  line.vendor = info->vendor;
  line.interfaces = fmt::format("{}", fmt::join(info->interfaces, " "));
  if (!found.hidden_by.empty()) line.problem = "hidden by " + found.hidden_by;
  return line;
}

int list() {
  const auto directories = configured_directories();
  if (!directories) return complain(directories.error());
  std::vector<Line> lines = {{"plugin", "version", "vendor", "interfaces", "file", {}}};
  for (const FoundPlugin& found : find_plugins(*directories))
    lines.push_back(make_line(found, *directories));
  if (lines.size() == 1) {
    return complain(Error(WEFT_ERROR_PLUGIN,
                          fmt::format("there are no plugins in {}", fmt::join(*directories, ", ")),
                          "set plugins.path to the folder that holds them"));
  }
  const auto width = [&](std::string Line::* column) {
    std::size_t widest = 0;
    for (const Line& line : lines)
      widest = std::max(widest, (line.*column).size());
    return widest;
  };
  const auto id = width(&Line::id);
  const auto version = width(&Line::version);
  const auto vendor = width(&Line::vendor);
  const auto interfaces = width(&Line::interfaces);
  bool usable = false;
  for (const Line& line : lines) {
    if (line.problem.empty()) {
      fmt::print("{:<{}}  {:<{}}  {:<{}}  {:<{}}  {}\n", line.id, id, line.version, version,
                 line.vendor, vendor, line.interfaces, interfaces, line.file);
      usable = usable || &line != &lines.front();
    } else {
      fmt::print("{:<{}}  unusable: {}\n", line.id, id, line.problem);
    }
  }
  return usable ? 0 : 1;
}

std::string_view type_name(weft_parameter_type type) {
  switch (type) {
    case WEFT_PARAMETER_FLAG:
      return "flag";
    case WEFT_PARAMETER_INTEGER:
      return "integer";
    case WEFT_PARAMETER_BYTES:
      return "bytes";
    case WEFT_PARAMETER_DURATION:
      return "duration";
    case WEFT_PARAMETER_TEXT:
      return "text";
    default:
      return "list";
  }
}

void print_parameters(const PluginInfo& info) {
  // Where the table cannot be taken as it stands, the message that follows says why; its lines are
  // shown all the same.
  const auto parameters = parameters_of(info);
  if (info.parameters.empty()) fmt::print("parameters   none\n");
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    const PluginParameterInfo& line = info.parameters[i];
    fmt::print("{:<11}  {} = {}\n", i == 0 ? "parameters" : "", line.name,
               line.default_value.empty() ? "\"\"" : line.default_value);
    fmt::print("{:<11}    {}\n", "", line.help);
    if (parameters) {
      const Parameter& parameter = (*parameters)[i];
      fmt::print("{:<11}    {}; {}\n", "", parameter.describe_values(),
                 parameter.environment_name());
    } else {
      fmt::print("{:<11}    {}, {} to {} {}\n", "", type_name(line.type), line.minimum,
                 line.maximum, line.unit);
    }
  }
}

void print_info(const PluginInfo& info) {
  fmt::print("file         {}\n", info.file);
  fmt::print("id           {}\n", info.id);
  fmt::print("version      {}\n", info.version);
  fmt::print("vendor       {}\n", info.vendor);
  fmt::print("description  {}\n", info.description);
  fmt::print("plugin ABI   draft {}, version {}, works with {} and newer; entry of {} bytes\n",
             info.draft, info.abi_version, info.abi_oldest, info.struct_size);
  if (info.tables_read) {
    for (std::size_t i = 0; i < info.interfaces.size(); ++i)
      fmt::print("{:<11}  {}\n", i == 0 ? "interfaces" : "", info.interfaces[i]);
    print_parameters(info);
  }
  fmt::print("needs        {}\n",
             info.needed.empty() ? "no library" : fmt::format("{}", fmt::join(info.needed, " ")));
}

int inspect(const std::string& file) {
  const auto info = inspect_plugin(file);
  if (!info) return complain(info.error());
  print_info(*info);
  std::fflush(stdout);
  // Who may write it depends on where it lies now, not on the plugin: load and list look at that.
  for (const Status& status : {check_versions(*info), check_file_name(*info)}) {
    if (!status) return complain(status.error());
  }
  if (const auto known = check_interfaces(*info); !known) return complain(known.error());
  if (const auto parameters = parameters_of(*info); !parameters) {
    return complain(parameters.error());
  }
  return 0;
}

}  // namespace

void add_plugin_command(CLI::App& app, int& exit_status) {
  CLI::App* plugin = app.add_subcommand("plugin", "List plugins, or look at one");
  plugin->require_subcommand(1);
  CLI::App* listing =
      plugin->add_subcommand("list",
                             "List the plugins in the configured folders, or why they "
                             "cannot be used");
  listing->callback([&exit_status] { exit_status = list(); });
  CLI::App* inspection = plugin->add_subcommand(
      "inspect", "Show what a plugin file says of itself, without running its code");
  auto* file = inspection->add_option("file", "A weft-<id>.so")->required();
  inspection->callback([&exit_status, file] { exit_status = inspect(file->as<std::string>()); });
}

}  // namespace weft::tool
