// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/source.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/config/problems.h"
#include "core/config/read_value.h"

namespace weft {
namespace {

constexpr std::string_view kFileName = "weft.yaml";

/// The content of a file, or nullopt where there is no such file.
Result<std::optional<std::string>> read_content(const std::string& file) {
  if (file.find('\0') != std::string::npos) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: no file has such a name", in_quotes(file)));
  }
  // O_NONBLOCK: a pipe of that name must not hang the start of a job.
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    const int code = errno;
    if (code == ENOENT || code == ENOTDIR) return std::nullopt;
    return fail(Error::from_errno(code, fmt::format("{}: cannot open the configuration", file),
                                  "correct the file, or set WEFT_CONFIG to another file"));
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) {
    return fail(Error::from_errno(errno, fmt::format("{}: cannot ask for its type", file)));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: not a regular file", file),
                "name a file, not a folder or device");
  }
  std::string content;
  std::array<char, 16384> block{};
  while (content.size() <= kMaximumYamlBytes) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(Error::from_errno(errno, fmt::format("{}: cannot read the configuration", file)));
    }
    if (got == 0) break;
    content.append(block.data(), static_cast<std::size_t>(got));
  }
  return content;
}

/// A file has a map at its top and says which version of the schema it is written for.
Status check_structure(const YamlNode& root, const Origin& base) {
  const std::string start = origin_of(root, base).to_string();
  if (root.kind != YamlKind::kMap && root.kind != YamlKind::kNull) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: the file holds no map of sections", start));
  }
  for (const auto& [key, value] : root.entries) {
    if (key.text != "version") continue;
    if (value.kind == YamlKind::kScalar && !value.quoted && value.text == "1") return {};
    const std::string found =
        value.kind == YamlKind::kScalar ? in_quotes(value.text) : describe_node(value);
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("{}: version {} is not known to this Weft, which reads version 1",
                            origin_of(value, base).to_string(), found));
  }
  return fail(WEFT_ERROR_CONFIG,
              fmt::format("{}: the file has no version; begin it with \"version: 1\"", start));
}

/// The user's own file, or an empty text where the environment does not tell of one.
std::string user_file(const Environment& environment) {
  // The base-directory rules say that a relative folder is to be passed over.
  const std::string_view folder = environment.get("XDG_CONFIG_HOME");
  if (folder.starts_with('/')) return fmt::format("{}/weft/{}", folder, kFileName);
  const std::string_view home = environment.get("HOME");
  if (home.starts_with('/')) return fmt::format("{}/.config/weft/{}", home, kFileName);
  return {};
}

}  // namespace

ConfigSource ConfigSource::without_file(Environment environment) {
  return ConfigSource(std::move(environment));
}

Result<ConfigSource> ConfigSource::parse(std::string_view text, std::string file,
                                         Environment environment) {
  ConfigSource source(std::move(environment));
  source.file_ = std::move(file);
  const Origin base{.kind = OriginKind::kFile, .name = source.file_, .line = 1, .column = 1};
  WEFT_TRY_ASSIGN(source.root_, parse_yaml(text, base));
  WEFT_TRY(check_structure(source.root_, base));
  return source;
}

Result<ConfigSource> ConfigSource::read_file(const std::string& file, Environment environment) {
  WEFT_TRY_ASSIGN(const std::optional<std::string> content, read_content(file));
  if (!content)
    return fail(WEFT_ERROR_CONFIG, fmt::format("{}: no such file", file),
                "correct the name, or put the file there");
  return parse(*content, file, std::move(environment));
}

Result<ConfigSource> ConfigSource::read(Environment environment) {
  const std::string named(environment.get("WEFT_CONFIG"));
  std::vector<std::string> notices;
  std::vector<std::string> candidates;
  if (environment.raised_privileges) {
    if (!named.empty()) {
      notices.emplace_back("WEFT_CONFIG is ignored: the process runs with raised privileges");
    }
  } else {
    if (!named.empty()) {
      auto source = read_file(named, std::move(environment));
      if (!source) return fail(std::move(source.error()).with_context("WEFT_CONFIG"));
      return source;
    }
    if (std::string file = user_file(environment); !file.empty()) {
      candidates.push_back(std::move(file));
    }
  }
  candidates.push_back(fmt::format("{}/{}", environment.system_folder, kFileName));
  for (const std::string& file : candidates) {
    WEFT_TRY_ASSIGN(const std::optional<std::string> content, read_content(file));
    if (!content) continue;
    WEFT_TRY_ASSIGN(ConfigSource source, parse(*content, file, std::move(environment)));
    source.notices_ = std::move(notices);
    return source;
  }
  ConfigSource source(std::move(environment));
  source.notices_ = std::move(notices);
  return source;
}

}  // namespace weft
