// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::gpu_bench {

namespace {

/// Children whose ranks all stand still for so long are ended. Longer than a bootstrap's deadline.
constexpr double kStallSeconds = 75;
/// What the other children of a job have after the first failed.
constexpr double kGraceSeconds = 5;

}  // namespace

Supervisor::Supervisor(const Options& options, std::vector<std::string> arguments)
    : options_(options), arguments_(std::move(arguments)) {
  board_file_ = memfd_create(kProgram, 0);
  if (board_file_ < 0 || ftruncate(board_file_, sizeof(Board)) != 0) {
    complain(text("memfd_create: %s", std::strerror(errno)));
    std::exit(1);
  }
  board_ = map_board(board_file_);
}

bool Supervisor::run(const std::string& name, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& roles) {
  if (ftruncate(board_file_, 0) != 0 || ftruncate(board_file_, sizeof(Board)) != 0) return false;
  name_ = name;
  children_.clear();
  for (const std::string& role : roles)
    children_.push_back({role, start(arguments, role), 0, false});
  good_ = true;
  last_steps_ = ~0ULL;
  const Clock::time_point started = Clock::now();
  Clock::time_point failed_at{};
  while (running()) {
    usleep(10'000);
    reap();
    if (!good_ && failed_at == Clock::time_point{}) failed_at = Clock::now();
    if (!good_ && seconds_since(failed_at) > kGraceSeconds) end_all();
    if (stalled()) give_up(text("nothing moved for %.0f s", kStallSeconds));
    if (options_.each_limit > 0 && seconds_since(started) > options_.each_limit) {
      give_up(text("--each-limit %.0f is over", options_.each_limit));
    }
    if (seconds_since(begin_) > options_.limit) {
      give_up(text("--limit %.0f is over", options_.limit));
      std::exit(1);
    }
  }
  return good_;
}

pid_t Supervisor::start(const std::vector<std::string>& arguments, const std::string& role) const {
  std::vector<std::string> words = arguments_;
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--gpus", std::to_string(options_.gpus), "--role", role, "--board",
                             std::to_string(board_file_)});
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(stdout);
  const pid_t process = fork();
  if (process == 0) {
    execv("/proc/self/exe", pointers.data());
    _exit(127);
  }
  if (process < 0) {
    complain(text("fork: %s", std::strerror(errno)));
    std::exit(1);
  }
  return process;
}

bool Supervisor::running() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return !child.ended; });
}

void Supervisor::reap() {
  for (Child& child : children_) {
    if (child.ended || waitpid(child.process, &child.status, WNOHANG) != child.process) continue;
    child.ended = true;
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) continue;
    const bool first = good_;
    good_ = false;
    // A child that exits with 1 has said why.
    if (WIFEXITED(child.status) && WEXITSTATUS(child.status) == 1) continue;
    board_->ended.store(1);
    if (!first) continue;
    complain(WIFSIGNALED(child.status)
                 ? text("%s: ended by signal %d (%s)", name_.c_str(), WTERMSIG(child.status),
                        strsignal(WTERMSIG(child.status)))
                 : text("%s: ended with status %d", name_.c_str(), WEXITSTATUS(child.status)));
    say_where();
  }
}

bool Supervisor::stalled() {
  uint64_t steps = 0;
  for (const Board::Place& place : board_->places)
    steps += place.step.load();
  if (steps != last_steps_) {
    last_steps_ = steps;
    moved_at_ = Clock::now();
  }
  return seconds_since(moved_at_) > kStallSeconds;
}

void Supervisor::give_up(const std::string& why) {
  complain(text("%s: killed: %s", name_.c_str(), why.c_str()));
  say_where();
  good_ = false;
  end_all();
}

void Supervisor::end_all() {
  for (Child& child : children_) {
    if (child.ended) continue;
    kill(child.process, SIGKILL);
    waitpid(child.process, &child.status, 0);
    child.ended = true;
  }
}

void Supervisor::say_where() const {
  for (uint32_t rank = 0; rank < options_.gpus; ++rank) {
    const Board::Place& place = board_->places[rank];
    if (place.where[0] == '\0') continue;
    complain(text("    rank %u was in step %u: %s", rank, place.step.load(), place.where));
  }
}

}  // namespace weft::gpu_bench
