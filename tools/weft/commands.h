// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The subcommands of `weft`. Each function adds one to `app` and installs a callback that does the
// work, prints to standard output, complains on standard error and sets `exit_status` (0 is
// success).
#pragma once

#include <cstdio>

#include <fmt/format.h>

#include "core/base/error.h"

namespace CLI {
class App;
}

namespace weft::tool {

/// Says what failed; the exit status of every failure is 1.
inline int complain(const Error& error) {
  fmt::print(stderr, "{}\n", error.to_string());
  return 1;
}

/// Before words that the parser would take apart; whoever gets a program's words takes it off.
constexpr char kWordMark = '\x01';

/// The whole command; answers its exit status.
int run_command_line(int argc, char** argv);

void add_config_command(CLI::App& app, int& exit_status);
void add_plugin_command(CLI::App& app, int& exit_status);
void add_info_command(CLI::App& app, int& exit_status);
void add_topo_command(CLI::App& app, int& exit_status);
void add_run_command(CLI::App& app, int& exit_status);
void add_bench_command(CLI::App& app, int& exit_status);
void add_explain_command(CLI::App& app, int& exit_status);

}  // namespace weft::tool
