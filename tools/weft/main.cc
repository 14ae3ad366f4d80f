// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The `weft` command. What it does is a library, which tests link.
#include <csignal>

#include "tools/weft/commands.h"

int main(int argc, char** argv) {
  // Where whoever started this ignores it, nobody would hear of the end of a rank.
  static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
  return weft::tool::run_command_line(argc, argv);
}
