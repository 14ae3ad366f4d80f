// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft topo`: this host as ranks started here would describe it to each other.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/config/environment.h"
#include "core/topology/discover.h"
#include "core/topology/topology.h"
#include "tools/weft/commands.h"

namespace weft::tool {
namespace {

constexpr std::uint32_t kMostRanks = 4096;

struct Options {
  bool dot = false;
  bool yaml = false;  ///< The default: only there to be said.
  std::uint32_t ranks = 1;
};

/// The topology of `ranks` processes on this host, all like this one.
Result<Topology> topology_here(std::uint32_t ranks) {
  const Environment environment = capture_environment();
  WEFT_TRY_ASSIGN(const HostInfo host, discover_host(environment.get("WEFT_HOST_ID")));
  WEFT_TRY_ASSIGN(const RankInfo process, discover_process(host));
  std::vector<RankReport> reports;
  for (std::uint32_t number = 0; number < ranks; ++number) {
    RankReport report{.rank = process, .host = host};
    report.rank.rank = number;
    // Processes that do not exist: told apart by a number of their own.
    report.rank.process += fmt::format("/{}", number);
    report.rank.pid = ranks == 1 ? process.pid : number + 1;
    reports.push_back(std::move(report));
  }
  return merge_reports(reports);
}

}  // namespace

void add_topo_command(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("topo", "Show this host as ranks describe it to each other");
  const auto options = std::make_shared<Options>();
  CLI::Option* dot = command->add_flag("--dot", options->dot, "As a graph for Graphviz");
  command->add_flag("--yaml", options->yaml, "As YAML; the default")->excludes(dot);
  command->add_option("-n,--ranks", options->ranks, "As it would be for this many processes")
      ->check(CLI::Range(1U, kMostRanks));
  command->callback([options, &exit_status] {
    const Result<Topology> topology = topology_here(options->ranks);
    if (!topology) {
      fmt::print(stderr, "weft topo: {}\n", topology.error().to_string());
      exit_status = 1;
      return;
    }
    fmt::print("{}", options->dot ? to_dot(*topology) : to_yaml(*topology));
  });
}

}  // namespace weft::tool
