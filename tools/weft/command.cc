// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The `weft` command: subcommands stand in files of their own.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include <weft/weft.h>

#include "tools/weft/commands.h"

namespace weft::tool {

int run_command_line(int argc, char** argv) {
  int exit_status = 0;
  try {
    CLI::App app{"Weft: collective communications for GPUs and CPUs"};
    app.set_version_flag("--version", weft_version());
    app.require_subcommand(1);
    add_info_command(app, exit_status);
    add_topo_command(app, exit_status);
    add_run_command(app, exit_status);
    add_bench_command(app, exit_status);
    add_explain_command(app, exit_status);
    add_plugin_command(app, exit_status);
    add_config_command(app, exit_status);
    CLI11_PARSE(app, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return 1;
  }
  return exit_status;
}

}  // namespace weft::tool
