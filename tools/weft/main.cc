// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The `weft` command. What it does is a library, which tests link.
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

#include "tools/weft/commands.h"

namespace {

// Where whoever started this closed one of the standard streams, what is opened first would get its
// number, and what is printed would go there.
void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY));
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // Where whoever started this ignores it, nobody would hear of the end of a rank.
  static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
  return weft::tool::run_command_line(argc, argv);
}
