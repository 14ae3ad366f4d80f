// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft info`: what a report of a problem should begin with: the version, how it was built, the
// configuration and plugin folders in use, and this host.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <weft/weft.h>

#include "core/config/config.h"
#include "core/config/environment.h"
#include "core/config/resolve.h"
#include "core/config/source.h"
#include "core/plugin/search.h"
#include "core/topology/discover.h"
#include "tools/weft/commands.h"
#include "tools/weft/plugin_parameters.h"

namespace weft::tool {
namespace {

std::string build_text() {
#if defined(__clang__)
  std::string text =
      fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  std::string text = fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
#if defined(__OPTIMIZE__)
  text += ", optimised";
#else
  text += ", not optimised";
#endif
#if defined(__SANITIZE_ADDRESS__)
  text += ", address sanitizer";
#endif
#if defined(__SANITIZE_THREAD__)
  text += ", thread sanitizer";
#endif
  return text;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes == 0) return "unknown";
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  if (bytes >= kGiB) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / kGiB);
  if (bytes >= kMiB) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMiB);
  return fmt::format("{} KiB", bytes / 1024);
}

std::string nic_text(const NicInfo& nic) {
  std::vector<std::string> facts = {!nic.up ? "state unknown" : *nic.up ? "up" : "down"};
  if (nic.loopback) {
    facts.emplace_back("loopback");
  } else if (nic.is_virtual) {
    facts.emplace_back("virtual");
  }
  facts.push_back(nic.speed_mbps ? fmt::format("{} Mbit/s", *nic.speed_mbps)
                                 : std::string("speed unknown"));
  if (!nic.pci_path.empty()) facts.push_back("pci " + nic.pci_path);
  if (nic.numa_node) facts.push_back(fmt::format("NUMA node {}", *nic.numa_node));
  if (!nic.addresses.empty()) facts.push_back(fmt::format("{}", fmt::join(nic.addresses, " ")));
  return fmt::format("{}", fmt::join(facts, ", "));
}

void print_host(const HostInfo& host, const RankInfo& process, bool id_given) {
  fmt::print("host         {}\n", host.host_name);
  fmt::print("host id      {} ({})\n", host.host_id,
             id_given ? "from WEFT_HOST_ID" : "from boot id, host name and network namespace");
  if (!process.memory_fabric.empty()) {
    fmt::print("fabric id    {} (from WEFT_FABRIC_ID)\n", process.memory_fabric);
  }
  fmt::print("processors   {} packages, {} NUMA nodes, {} cores, {} hardware threads\n",
             host.packages, host.numa_nodes.size(), host.cores, host.hardware_threads);
  fmt::print("usable       {} cores by this process\n", process.cores);
  fmt::print("caches       L2 {}, L3 {}\n", size_text(host.l2_bytes), size_text(host.l3_bytes));
  fmt::print("memory       {}\n", size_text(host.memory_bytes));
  for (const NicInfo& nic : host.nics)
    fmt::print("interface    {}: {}\n", nic.name, nic_text(nic));
}

/// Prints file and plugin folders; the error of a configuration that cannot be used.
Status print_configuration() {
  WEFT_TRY_ASSIGN(const ConfigSource source, ConfigSource::read(capture_environment()));
  fmt::print("config file  {}\n", source.file().empty() ? "none" : source.file());
  const PluginTables tables = discovered_plugin_tables(source);
  WEFT_TRY_ASSIGN(const Config config, resolve(source, tables.parameters, tables.unread));
  for (const std::string& folder : plugin_directories(config.list("plugins.path"))) {
    fmt::print("plugins in   {}\n", folder);
  }
  return {};
}

Status run() {
  fmt::print("weft         {}\n", weft_version());
  fmt::print("built with   {}\n", build_text());
  const Status configured = print_configuration();
  const Environment environment = capture_environment();
  const std::string_view host_id = environment.get("WEFT_HOST_ID");
  WEFT_TRY_ASSIGN(const HostInfo host, discover_host(host_id));
  WEFT_TRY_ASSIGN(const RankInfo process,
                  discover_process(host, environment.get("WEFT_FABRIC_ID")));
  print_host(host, process, !host_id.empty());
  return configured;
}

}  // namespace

void add_info_command(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("info", "Show the version, the configuration in use and this host");
  command->callback([&exit_status] {
    const Status status = run();
    if (status) return;
    std::fflush(stdout);
    fmt::print(stderr, "weft info: {}\n", status.error().to_string());
    exit_status = 1;
  });
}

}  // namespace weft::tool
