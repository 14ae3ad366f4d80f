// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/search.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/problems.h"
#include "core/plugin/inspect.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "weft-";
constexpr std::string_view kSuffix = ".so";
constexpr std::size_t kMaxFilesPerFolder = 4096;

/// The id in a file name, or nothing.
std::optional<std::string> id_of_file_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  const auto id = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (!is_plugin_id(id)) return std::nullopt;
  return std::string(id);
}

/// The file that this code was linked into.
std::string own_object() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto address = reinterpret_cast<void*>(&default_plugin_directories);
  const bool found =
      dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 &&
      map != nullptr;
  std::error_code code;
  // The main program has no name of its own in the loader's list.
  const fs::path object = found && map->l_name != nullptr && *map->l_name != '\0'
                              ? fs::canonical(map->l_name, code)
                              : fs::canonical("/proc/self/exe", code);
  return code ? std::string() : object.string();
}

/// The plugins of the build tree that `object` lies in; empty where it lies in none. A build tree
/// has plugins/<name>/weft-<name>.so, and its programs and libraries at most three folders deep
/// under a few folders of known names (not, say, an installation tried out inside of it).
std::vector<std::string> build_tree_directories(const fs::path& object) {
  constexpr int kDepth = 3;
  constexpr std::array kRoots = {"core", "tools", "tests", "compat", "examples", "bench"};
  fs::path inner;
  fs::path folder = object.parent_path();
  for (int i = 0; i < kDepth && folder.has_relative_path(); ++i) {
    inner = folder.filename();
    folder = folder.parent_path();
    std::error_code code;
    const bool known = std::ranges::any_of(kRoots, [&](const char* root) { return inner == root; });
    if (!known || !fs::is_regular_file(folder / "meson-private" / "coredata.dat", code)) continue;
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder / "plugins", code)) {
      const std::string name = entry.path().filename().string();
      const fs::path file = entry.path() / fmt::format("{}{}{}", kPrefix, name, kSuffix);
      if (fs::is_regular_file(file, code)) found.push_back(entry.path().string());
    }
    std::ranges::sort(found);
    return found;
  }
  return {};
}

Status check_writers(const std::string& path, std::string_view kind) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return fail(Error::from_errno(errno, fmt::format("cannot examine the {} {}", kind, path)));
  }
  const uid_t user = ::geteuid();
  if (status.st_uid != 0 && status.st_uid != user) {
    return fail(WEFT_ERROR_PLUGIN,
                fmt::format("the {} {} belongs to user {}, neither root nor the user {} of this "
                            "process: plugins are not loaded from there",
                            kind, path, status.st_uid, user),
                fmt::format("chown {} {}", user, path));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(WEFT_ERROR_PLUGIN,
                fmt::format("others than root and user {} can write the {} {} (mode {:04o}): "
                            "plugins are not loaded from there",
                            user, kind, path, status.st_mode & 07777U),
                fmt::format("chmod go-w {}", path));
  }
  return {};
}

}  // namespace

std::vector<std::string> plugin_directories_for(const std::string& object,
                                                const std::string& installed) {
  if (!object.empty()) {
    auto built = build_tree_directories(object);
    if (!built.empty()) return built;
    const fs::path beside = fs::path(object).parent_path() / "weft" / "plugins";
    std::error_code code;
    if (fs::is_directory(beside, code)) return {beside.string()};
  }
  return {installed};
}

std::vector<std::string> default_plugin_directories() {
  return plugin_directories_for(own_object(), WEFT_PLUGIN_INSTALL_DIR);
}

std::vector<std::string> plugin_directories(std::vector<std::string> configured) {
  return configured.empty() ? default_plugin_directories() : std::move(configured);
}

std::vector<FoundPlugin> find_plugins(std::span<const std::string> directories) {
  std::vector<FoundPlugin> all;
  for (const std::string& directory : directories) {
    std::vector<FoundPlugin> here;
    std::error_code code;
    fs::directory_iterator entry(directory, code);
    for (; !code && entry != fs::directory_iterator() && here.size() < kMaxFilesPerFolder;
         entry.increment(code)) {
      const auto id = id_of_file_name(entry->path().filename().string());
      if (id) here.push_back({*id, (fs::path(directory) / entry->path().filename()).string(), {}});
    }
    std::ranges::sort(here, {}, &FoundPlugin::id);
    for (FoundPlugin& plugin : here) {
      const auto earlier = std::ranges::find(all, plugin.id, &FoundPlugin::id);
      if (earlier != all.end()) plugin.hidden_by = earlier->file;
    }
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

Result<std::string> find_plugin(std::span<const std::string> directories, std::string_view id) {
  if (!is_plugin_id(id)) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{} is no name of a plugin", in_quotes(id)),
                "lower-case letters, digits and '-', as in net-socket");
  }
  const std::string name = fmt::format("{}{}{}", kPrefix, id, kSuffix);
  for (const std::string& directory : directories) {
    const fs::path folder(directory);
    if (!folder.is_absolute()) {
      return fail(WEFT_ERROR_CONFIG, fmt::format("the plugin folder {} is not an absolute path",
                                                 in_quotes(directory)));
    }
    const fs::path file = folder / name;
    struct stat status{};
    if (::lstat(file.c_str(), &status) == 0) return file.string();
    if (errno != ENOENT && errno != ENOTDIR) {
      return fail(Error::from_errno(errno, fmt::format("cannot look for {}", file.string())));
    }
  }
  std::vector<std::string> known;
  for (const FoundPlugin& plugin : find_plugins(directories)) {
    if (plugin.hidden_by.empty()) known.push_back(plugin.id);
  }
  std::string hint;
  if (const auto near = nearest_name(id, known)) {
    hint = fmt::format("{}, which is there", *near);
  } else if (!known.empty()) {
    std::ranges::sort(known);
    hint = fmt::format("one of {}", fmt::join(known, ", "));
  } else {
    hint = "set plugins.path to the folder that holds the plugins";
  }
  return fail(WEFT_ERROR_PLUGIN,
              fmt::format("there is no plugin {}: no {} in {}", id, name,
                          directories.empty() ? "any folder, since none is configured"
                                              : fmt::format("{}", fmt::join(directories, ", "))),
              std::move(hint));
}

Status check_trusted(const std::string& file) {
  // The folder that is named, and where a link leads to another one, that one too.
  WEFT_TRY(check_writers(fs::path(file).parent_path().string(), "folder"));
  std::error_code code;
  const fs::path real = fs::canonical(file, code);
  if (code) return fail(Error::from_errno(code.value(), fmt::format("cannot find {}", file)));
  if (real.parent_path() != fs::path(file).parent_path()) {
    WEFT_TRY(check_writers(real.parent_path().string(), "folder"));
  }
  return check_writers(real.string(), "file");
}

}  // namespace weft
