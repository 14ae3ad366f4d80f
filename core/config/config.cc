// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/config.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "core/config/problems.h"
#include "core/config/resolve.h"

namespace weft {
namespace {

[[noreturn]] void die(std::string_view name, std::string_view what) {
  fmt::print(stderr, "weft: defect: the configuration was asked for \"{}\", {}\n", name, what);
  std::abort();
}

/// Cuts the first line off `text`.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// The name and the value of `name=value`.
std::pair<std::string_view, std::string_view> split_line(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return {line, {}};
  return {line.substr(0, equals), line.substr(equals + 1)};
}

}  // namespace

Config::Config(std::vector<ConfigEntry> entries, std::string file, std::vector<std::string> notices)
    : entries_(std::move(entries)), file_(std::move(file)), notices_(std::move(notices)) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    index_.emplace(entries_[i].parameter.name(), i);
}

const ConfigEntry* Config::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::vector<const ConfigEntry*> Config::section(std::string_view name) const {
  std::vector<const ConfigEntry*> out;
  for (const ConfigEntry& entry : entries_) {
    if (entry.parameter.section == name) out.push_back(&entry);
  }
  return out;
}

const ConfigEntry& Config::entry_or_die(std::string_view name) const {
  const ConfigEntry* const entry = find(name);
  if (entry == nullptr) die(name, "which is in no table");
  return *entry;
}

template <typename T>
const T& Config::value_or_die(std::string_view name) const {
  const T* const value = std::get_if<T>(&entry_or_die(name).value());
  if (value == nullptr) die(name, "which is of another type");
  return *value;
}

bool Config::flag(std::string_view name) const {
  return value_or_die<bool>(name);
}

std::int64_t Config::integer(std::string_view name) const {
  return value_or_die<std::int64_t>(name);
}

std::uint64_t Config::bytes(std::string_view name) const {
  return static_cast<std::uint64_t>(value_or_die<std::int64_t>(name));
}

std::optional<std::chrono::nanoseconds> Config::duration(std::string_view name) const {
  return value_or_die<std::optional<std::chrono::nanoseconds>>(name);
}

const std::string& Config::text(std::string_view name) const {
  return value_or_die<std::string>(name);
}

const std::vector<std::string>& Config::list(std::string_view name) const {
  return value_or_die<std::vector<std::string>>(name);
}

const std::vector<Rule>& Config::rules() const {
  return value_or_die<std::vector<Rule>>("transports.rules");
}

LogOptions Config::log_options() const {
  LogOptions options;
  options.level = parse_log_level(text("log.level")).value_or(options.level);
  options.format = text("log.format") == "json" ? LogFormat::kJson : LogFormat::kText;
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    // "inherit" is no level, which leaves the topic to log.level.
    options.topics[i] =
        parse_log_level(text(fmt::format("log.topics.{}", topic_name(static_cast<Topic>(i)))));
  }
  return options;
}

Result<Config> Config::with_overrides(const std::map<std::string, std::string>& overrides) const {
  Config out = *this;
  const Origin where{.kind = OriginKind::kCommunicator, .name = {}, .line = 0, .column = 0};
  Problems problems;
  for (const auto& [name, text] : overrides) {
    const auto found = index_.find(name);
    if (found == index_.end()) {
      std::vector<std::string> names;
      names.reserve(entries_.size());
      for (const ConfigEntry& entry : entries_)
        names.push_back(entry.parameter.name());
      const auto near = nearest_name(name, names);
      problems.add(
          where, near ? fmt::format("unknown key {}; did you mean \"{}\"?", in_quotes(name), *near)
                      : fmt::format("unknown key {}", in_quotes(name)));
      continue;
    }
    ConfigEntry& entry = out.entries_[found->second];
    add_text_layer(entry, text, where, problems);
    if (entry.parameter.of_context && entry.text() != entries_[found->second].text()) {
      problems.add(where,
                   fmt::format("{} counts for a whole context, not for one communicator; set it in "
                               "the configuration file or by {}",
                               name, entry.parameter.environment_name()));
    }
  }
  WEFT_TRY(problems.status());
  return out;
}

std::string Config::agreed_text() const {
  std::string out;
  // By name: tables of plugins come in whatever order the plugins were found.
  for (const auto& [name, position] : index_) {
    const ConfigEntry& entry = entries_[position];
    if (!entry.parameter.agreed) continue;
    const bool varies = entry.parameter.default_varies && !entry.is_set();
    out += fmt::format("{}={}{}\n", name, entry.text(), varies ? " by default" : "");
  }
  return out;
}

std::string describe_difference(std::string_view here, std::string_view there) {
  std::map<std::string_view, std::string_view> others;
  while (!there.empty())
    others.insert(split_line(next_line(there)));
  while (!here.empty()) {
    const auto [name, value] = split_line(next_line(here));
    const auto other = others.find(name);
    if (other == others.end()) {
      return fmt::format("{} is {} here and unknown there", name, in_quotes(value));
    }
    if (other->second != value) {
      return fmt::format("{} is {} here and {} there", name, in_quotes(value),
                         in_quotes(other->second));
    }
    others.erase(other);
  }
  if (others.empty()) return {};
  const auto& [name, value] = *others.begin();
  return fmt::format("{} is unknown here and {} there", in_quotes(name), in_quotes(value));
}

}  // namespace weft
