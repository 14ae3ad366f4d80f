// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/resolve.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/config/core_parameters.h"
#include "core/config/read_value.h"

namespace weft {
namespace {

/// Walks the layers in order and collects what is wrong with any of them.
class Resolver {
 public:
  Resolver(const ConfigSource& source, bool strict, std::span<const UnreadSection> unread_sections)
      : source_(source),
        strict_(strict),
        unread_sections_(unread_sections),
        file_base_{.kind = OriginKind::kFile, .name = source.file(), .line = 1, .column = 1} {}

  Result<Config> run(std::span<const Parameter> core, std::span<const Parameter> plugins) {
    for (const Parameter& parameter : core)
      add_parameter(parameter);
    for (const Parameter& parameter : core)
      core_sections_.insert(parameter.section);
    for (const Parameter& parameter : plugins) {
      if (core_sections_.contains(parameter.section)) {
        // A plugin may read what the core itself declares; the core's line counts.
        const auto own = names_.find(parameter.name());
        if (own != names_.end() && entries_[own->second].parameter.type == parameter.type) continue;
        problems_.add(fmt::format("{}: a plugin cannot have a parameter in the section {} of Weft",
                                  parameter.name(), in_quotes(parameter.section)));
        continue;
      }
      add_parameter(parameter);
    }
    // Values cannot be judged by tables that are wrong themselves.
    WEFT_TRY(problems_.status());
    read_file();
    read_environment();
    WEFT_TRY(problems_.status());
    return Config(std::move(entries_), source_.file(), std::move(notices_));
  }

 private:
  void add_parameter(const Parameter& parameter) {
    if (auto status = validate_parameter(parameter); !status) {
      problems_.add(status.error().what());
      return;
    }
    const std::string variable = parameter.environment_name();
    const auto reserved = reserved_variables();
    if (std::ranges::find(reserved, variable) != reserved.end()) {
      problems_.add(fmt::format("{}: its variable {} is reserved", parameter.name(), variable));
      return;
    }
    const auto [known, fresh] = variables_.emplace(variable, entries_.size());
    if (!fresh) {
      problems_.add(fmt::format("{}: its variable {} is that of {} already", parameter.name(),
                                variable, entries_[known->second].parameter.name()));
      return;
    }
    names_.emplace(parameter.name(), entries_.size());
    ConfigEntry entry{parameter, {}};
    // The default was read once by validate_parameter.
    entry.layers.push_back({Origin{}, *parse_value(parameter, parameter.default_text)});
    entries_.push_back(std::move(entry));
  }

  void read_file() {
    notices_ = source_.notices();
    for (const auto& [key, value] : source_.root().entries) {
      if (key.text == "version") continue;
      // A dot in a key of the file is no way into a map within, here as in read_group().
      const bool single = key.text.find('.') == std::string::npos;
      if (single && is_group(key.text)) {
        read_group(key.text, value);
      } else if (const auto* unread = find_unread(unread_sections_, key.text + ".")) {
        notices_.push_back(fmt::format("{}: section {} cannot be checked: {}",
                                       origin_of(key, file_base_).to_string(), in_quotes(key.text),
                                       unread->why));
      } else if (strict_) {
        complain_unknown(key, "", "section");
      }
    }
  }

  /// Whether parameters lie below `prefix` in the file.
  [[nodiscard]] bool is_group(const std::string& prefix) const {
    const auto next = names_.lower_bound(prefix + ".");
    return next != names_.end() && next->first.starts_with(prefix + ".");
  }

  void read_group(const std::string& prefix, const YamlNode& node) {
    // A section with all of its lines commented out.
    if (node.kind == YamlKind::kNull) return;
    if (node.kind != YamlKind::kMap) {
      problems_.add(origin_of(node, file_base_),
                    fmt::format("{} takes a map of keys; found {}", prefix, describe_node(node)));
      return;
    }
    for (const auto& [key, value] : node.entries) {
      const std::string name = prefix + "." + key.text;
      const bool single = key.text.find('.') == std::string::npos;
      if (const auto known = names_.find(name); single && known != names_.end()) {
        ConfigEntry& entry = entries_[known->second];
        if (auto read = read_value(entry.parameter, value, file_base_, problems_)) {
          entry.layers.push_back({origin_of(value, file_base_), std::move(*read)});
        }
      } else if (single && is_group(name)) {
        read_group(name, value);
      } else {
        complain_unknown(key, prefix + ".", "key");
      }
    }
  }

  /// `kind` is what an unknown name of this depth is called.
  void complain_unknown(const YamlNode& key, const std::string& prefix, std::string_view kind) {
    const Origin where = origin_of(key, file_base_);
    if (problems_.full()) {
      problems_.add(where, "");
      return;
    }
    std::vector<std::string> siblings;
    for (const auto& [name, position] : names_) {
      if (!name.starts_with(prefix)) continue;
      const std::string rest = name.substr(prefix.size());
      std::string first = rest.substr(0, rest.find('.'));
      if (siblings.empty() || siblings.back() != first) siblings.push_back(std::move(first));
    }
    if (const std::size_t dot = key.text.find('.'); prefix.empty() && is_group(key.text)) {
      problems_.add(where,
                    fmt::format("unknown section {}; write {}: {{{}: ...}}", in_quotes(key.text),
                                key.text.substr(0, dot), key.text.substr(dot + 1)));
    } else if (const auto near = nearest_name(key.text, siblings)) {
      problems_.add(where, fmt::format("unknown {} {}; did you mean \"{}\"?", kind,
                                       in_quotes(key.text), *near));
    } else if (prefix.empty()) {
      problems_.add(where, fmt::format("unknown section {}; no plugin of that name was found",
                                       in_quotes(key.text)));
    } else {
      problems_.add(
          where, fmt::format("unknown key {}; use {}", in_quotes(key.text), either_of(siblings)));
    }
  }

  void read_environment() {
    const Environment& environment = source_.environment();
    for (const auto& [variable, text] : environment.variables) {
      if (!variable.starts_with("WEFT_")) continue;
      const auto reserved = reserved_variables();
      if (std::ranges::find(reserved, variable) != reserved.end()) continue;
      const auto known = variables_.find(variable);
      if (known == variables_.end()) {
        if (const auto* unread = find_unread(unread_sections_, variable)) {
          notices_.push_back(fmt::format("{} cannot be checked: {}", variable, unread->why));
        } else if (strict_) {
          complain_variable(variable);
        }
        continue;
      }
      if (text.empty()) continue;
      ConfigEntry& entry = entries_[known->second];
      if (environment.raised_privileges && entry.parameter.path) {
        notices_.push_back(
            fmt::format("{} is ignored: the process runs with raised privileges", variable));
        continue;
      }
      const Origin where{
          .kind = OriginKind::kEnvironment, .name = variable, .line = 0, .column = 0};
      add_text_layer(entry, text, where, problems_);
    }
  }

  void complain_variable(const std::string& variable) {
    std::vector<std::string> names(reserved_variables().begin(), reserved_variables().end());
    for (const auto& [name, position] : variables_)
      names.push_back(name);
    if (const auto near = nearest_name(variable, names)) {
      problems_.add(fmt::format("unknown environment variable {}; did you mean \"{}\"?",
                                in_quotes(variable), *near));
    } else {
      problems_.add(
          fmt::format("unknown environment variable {}; weft config show lists what can "
                      "be set",
                      in_quotes(variable)));
    }
  }

  const ConfigSource& source_;
  const bool strict_;
  const std::span<const UnreadSection> unread_sections_;
  const Origin file_base_;
  Problems problems_;
  std::set<std::string> core_sections_;
  std::vector<ConfigEntry> entries_;
  std::map<std::string, std::size_t> names_;
  std::map<std::string, std::size_t> variables_;
  std::vector<std::string> notices_;
};

}  // namespace

const UnreadSection* find_unread(std::span<const UnreadSection> sections, std::string_view name) {
  const auto found = std::ranges::find_if(sections, [name](const UnreadSection& section) {
    const Parameter any{.section = section.name, .key = "", .default_text = {}, .help = {}};
    return name.starts_with(any.name()) || name.starts_with(any.environment_name());
  });
  return found == sections.end() ? nullptr : &*found;
}

void add_text_layer(ConfigEntry& entry, std::string_view text, const Origin& origin,
                    Problems& problems) {
  auto value = parse_value(entry.parameter, text);
  if (!value) {
    problems.add(origin, value.error().what());
    return;
  }
  if (auto* rules = std::get_if<std::vector<Rule>>(&*value)) {
    for (Rule& rule : *rules)
      rule.origin = origin;
  }
  entry.layers.push_back({origin, std::move(*value)});
}

Result<Config> resolve_core(const ConfigSource& source) {
  return Resolver(source, false, {}).run(core_parameters(), {});
}

Result<std::vector<std::string>> resolve_plugin_path(const ConfigSource& source) {
  std::vector<Parameter> table = core_parameters();
  std::erase_if(table, [](const Parameter& parameter) { return parameter.section != "plugins"; });
  WEFT_TRY_ASSIGN(const Config config, Resolver(source, false, {}).run(table, {}));
  return config.list("plugins.path");
}

Result<Config> resolve(const ConfigSource& source, std::span<const Parameter> plugin_parameters,
                       std::span<const UnreadSection> unread_sections) {
  return Resolver(source, true, unread_sections).run(core_parameters(), plugin_parameters);
}

}  // namespace weft
