// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The `weft` command: subcommands stand in files of their own.
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include <weft/weft.h>

#include "core/base/error.h"
#include "tools/weft/commands.h"

namespace weft::tool {
namespace {

// CLI11 takes a word in brackets for a list, even behind "--", and passes on its elements: a
// program's own words are marked, so that they are none. See add_run_command().
std::vector<std::string> words_for_parser(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  if (argc < 2 || words[1] != "run") return words;
  for (std::string& word : words) {
    if (word.starts_with('[') || word.starts_with(kWordMark)) word.insert(0, 1, kWordMark);
  }
  return words;
}

// What a full disk has not taken must not pass for a file that is whole.
int cannot_print(int code) {
  const Error error = Error::from_errno(code, "cannot write all that it prints");
  std::fprintf(stderr, "weft: %s\n", error.to_string().c_str());
  return 1;
}

int parse_and_run(int argc, char** argv) {
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
    const std::vector<std::string> words = words_for_parser(argc, argv);
    std::vector<const char*> marked;
    marked.reserve(words.size());
    for (const std::string& word : words)
      marked.push_back(word.c_str());
    CLI11_PARSE(app, argc, marked.data());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return cannot_print(error.code().value());
    std::fprintf(stderr, "weft: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return 1;
  }
  return exit_status;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  const int exit_status = parse_and_run(argc, argv);
  if (std::fflush(stdout) != 0 && exit_status == 0) return cannot_print(errno);
  return exit_status;
}

}  // namespace weft::tool
