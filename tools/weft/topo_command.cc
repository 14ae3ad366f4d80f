// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft topo`: this host as ranks describe it to each other, the hosts of a job, or the machine of
// an hwloc file.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/bootstrap/bootstrap.h"
#include "core/bootstrap/job_environment.h"
#include "core/comm/context.h"
#include "core/config/environment.h"
#include "core/topology/codec.h"
#include "core/topology/discover.h"
#include "core/topology/placement.h"
#include "core/topology/topology.h"
#include "tools/weft/commands.h"
#include "tools/weft/session.h"

namespace weft::tool {
namespace {

constexpr std::uint32_t kMostRanks = 4096;
constexpr std::uint32_t kMostHosts = 256;

struct Options {
  bool text = false;  ///< The default: only there to be said.
  bool dot = false;
  bool yaml = false;
  std::uint32_t ranks = 0;  ///< 0: not given.
  std::uint32_t hosts = 1;
  std::string import_file;
  std::string export_file;
};

/// The topology of `ranks` processes on this host, all like this one.
Result<Topology> topology_here(std::uint32_t ranks) {
  const Environment environment = capture_environment();
  WEFT_TRY_ASSIGN(const HostInfo host, discover_host(environment.get("WEFT_HOST_ID")));
  WEFT_TRY_ASSIGN(const RankInfo process,
                  discover_process(host, environment.get("WEFT_FABRIC_ID")));
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

/// What the ranks of the job that this process belongs to tell each other. Nothing on ranks other
/// than 0, which prints.
Result<std::optional<Topology>> topology_of_job() {
  WEFT_TRY_ASSIGN(const JobEnvironment job, read_job_environment(current_environment()));
  WEFT_TRY_ASSIGN(const std::unique_ptr<Context> context,
                  Context::create("", capture_environment()));
  WEFT_TRY_ASSIGN(const UniqueId id, unique_id_of(job, context->next_job_instance()));
  if (job.rank == 0 && job.world_size > 1) {
    WEFT_TRY(context->serve_rendezvous_at(id, context->config()));
  }
  WEFT_TRY_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap,
                  Bootstrap::join(id, job.rank, job.world_size,
                                  bootstrap_options(context->config(), context->host()),
                                  context->reactor(), context->logger()));
  WEFT_TRY_ASSIGN(RankInfo info, context->next_rank_info(static_cast<std::uint32_t>(job.rank),
                                                         context->runtime()));
  WEFT_TRY_ASSIGN(const std::vector<std::byte> report,
                  encode_report({.rank = std::move(info), .host = context->host()}));
  WEFT_TRY_ASSIGN(const auto reports, bootstrap->all_gather(report, "descriptions of hosts"));
  WEFT_TRY(bootstrap->barrier("the end of weft topo"));
  bootstrap->leave();
  if (job.rank != 0) return std::optional<Topology>();
  WEFT_TRY_ASSIGN(Topology topology, merge(reports));
  return std::optional(std::move(topology));
}

Result<std::optional<Topology>> topology_for(const Options& options) {
  if (!options.import_file.empty()) {
    WEFT_TRY_ASSIGN(const HostInfo host, discover_host("", {.hwloc_xml = options.import_file}));
    return made_up_topology(host, options.hosts, options.ranks);
  }
  if (options.ranks == 0 && in_job()) return topology_of_job();
  WEFT_TRY_ASSIGN(Topology topology, topology_here(options.ranks == 0 ? 1 : options.ranks));
  return std::optional(std::move(topology));
}

Status print_topology(const Options& options) {
  WEFT_TRY_ASSIGN(const std::optional<Topology> topology, topology_for(options));
  if (!topology) return {};
  fmt::print("{}", options.dot    ? to_dot(*topology)
                   : options.yaml ? to_yaml(*topology)
                                  : to_text(*topology));
  return {};
}

}  // namespace

void add_topo_command(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      "topo", "Show this host, or the hosts of a job, as ranks describe them to each other");
  const auto options = std::make_shared<Options>();
  CLI::Option* text = command->add_flag("--text", options->text, "As a tree; the default");
  CLI::Option* yaml = command->add_flag("--yaml", options->yaml, "As YAML");
  CLI::Option* dot = command->add_flag("--dot", options->dot, "As a graph for Graphviz");
  yaml->excludes(text);
  dot->excludes(text)->excludes(yaml);
  CLI::Option* import_file =
      command->add_option("--import", options->import_file,
                          "The machine of this file, which --export or lstopo wrote, instead of "
                          "this one");
  command
      ->add_option("--export", options->export_file,
                   "Write this machine to a file in hwloc's XML, and print nothing")
      ->excludes(import_file)
      ->excludes(text)
      ->excludes(yaml)
      ->excludes(dot);
  command
      ->add_option("-n,--ranks", options->ranks,
                   "As it would be for this many processes; with --import, on each host")
      ->check(CLI::Range(1U, kMostRanks));
  command
      ->add_option("--hosts", options->hosts, "With --import: as it would be for this many of them")
      ->check(CLI::Range(1U, kMostHosts))
      ->needs(import_file);
  command->callback([options, &exit_status] {
    const Status done =
        options->export_file.empty() ? print_topology(*options) : export_host(options->export_file);
    if (done) return;
    fmt::print(stderr, "weft topo: {}\n", done.error().to_string());
    exit_status = 1;
  });
}

}  // namespace weft::tool
