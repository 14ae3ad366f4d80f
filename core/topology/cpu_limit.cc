// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/topology/cpu_limit.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "core/topology/codec.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Of each period, how long all threads together may run.
struct Quota {
  std::int64_t quota_us = 0;
  std::int64_t period_us = 0;
};

/// "800000 100000", or "max 100000" without a limit.
std::optional<Quota> quota_of_version_2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  Quota quota;
  if (file >> quota.quota_us >> quota.period_us) return quota;
  return std::nullopt;
}

/// -1 without a limit.
std::optional<Quota> quota_of_version_1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  Quota quota;
  if (quota_file >> quota.quota_us && period_file >> quota.period_us) return quota;
  return std::nullopt;
}

/// 0 without a limit.
std::uint32_t processors_of(const Quota& quota) {
  if (quota.quota_us < 0 || quota.period_us <= 0) return 0;
  const std::int64_t whole = quota.quota_us / quota.period_us;
  const std::int64_t rest = quota.quota_us % quota.period_us == 0 ? 0 : 1;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(whole + rest, 1, kMaxCpus));
}

bool lists_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == "cpu") return true;
    if (end == std::string_view::npos) break;
    controllers.remove_prefix(end + 1);
  }
  return false;
}

/// Where the groups of one line of /proc/self/cgroup are: "HIERARCHY:CONTROLLERS:PATH", cgroups(7).
struct Hierarchy {
  fs::path mount;
  fs::path group;
  std::optional<Quota> (*quota)(const fs::path&) = nullptr;
};

std::optional<Hierarchy> hierarchy_of(std::string_view line, const fs::path& mounts) {
  const std::size_t first = line.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = line.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  // A container may be told of paths that it does not see, or that lead out of what it sees: its
  // own group is the root of what it has mounted then, where each path begins.
  fs::path group = fs::path("/") / line.substr(second + 1);
  if (std::ranges::find(group, fs::path("..")) != group.end()) group = "/";
  if (line.starts_with("0::")) return Hierarchy{mounts, std::move(group), quota_of_version_2};
  if (!lists_cpu(controllers)) return std::nullopt;
  for (const std::string_view name : {controllers, std::string_view("cpu")}) {
    std::error_code error;
    if (fs::is_directory(mounts / name, error)) {
      return Hierarchy{mounts / name, std::move(group), quota_of_version_1};
    }
  }
  return std::nullopt;
}

}  // namespace

CpuLimit cpu_limit_of_process(const DiscoverySources& sources) {
  CpuLimit least;
  std::ifstream lines(sources.proc_root + "/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto hierarchy = hierarchy_of(line, fs::path(sources.sys_root) / "fs/cgroup");
    if (!hierarchy) continue;
    // A group has no more than those above it.
    for (fs::path group = hierarchy->group;; group = group.parent_path()) {
      const auto quota = hierarchy->quota(hierarchy->mount / group.relative_path());
      const std::uint32_t processors = quota ? processors_of(*quota) : 0;
      if (processors != 0 && (least.processors == 0 || processors < least.processors)) {
        least = {.processors = processors, .group = group.string()};
      }
      if (!group.has_relative_path()) break;
    }
  }
  return least;
}

}  // namespace weft
