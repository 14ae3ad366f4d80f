// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Starts children and sees to it that they end.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "bench/gpu/basics.h"
#include "bench/gpu/board.h"
#include "bench/gpu/options.h"

namespace weft::gpu_bench {

class Supervisor {
 public:
  /// `arguments` are the program's own, which children get too.
  Supervisor(const Options& options, std::vector<std::string> arguments);

  /// One job: a child for each role, all with `arguments` besides the program's own. False if one
  /// failed; what they have printed and written stays. Does not return if the time of all jobs is
  /// up.
  bool run(const std::string& name, const std::vector<std::string>& arguments,
           const std::vector<std::string>& roles);

 private:
  struct Child {
    std::string role;
    pid_t process;
    int status;
    bool ended;
  };

  [[nodiscard]] pid_t start(const std::vector<std::string>& arguments,
                            const std::string& role) const;
  [[nodiscard]] bool running() const;
  void reap();
  /// Whether no rank has begun a step for long. The link's probe has no steps, and no need.
  bool stalled();
  void give_up(const std::string& why);
  void end_all();
  void say_where() const;

  const Options& options_;
  const std::vector<std::string> arguments_;
  const Clock::time_point begin_ = Clock::now();
  int board_file_ = -1;
  Board* board_ = nullptr;

  // Of the current job.
  std::string name_;
  std::vector<Child> children_;
  bool good_ = true;
  uint64_t last_steps_ = 0;
  Clock::time_point moved_at_;
};

}  // namespace weft::gpu_bench
