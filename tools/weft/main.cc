// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The `weft` command. What it does is a library, which tests link.
#include "tools/weft/commands.h"

int main(int argc, char** argv) {
  return weft::tool::run_command_line(argc, argv);
}
