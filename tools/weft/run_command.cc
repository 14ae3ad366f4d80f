// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft run -n N -- PROGRAM ARGS...`: the ranks of a job as direct children on this host. It gives
// each its environment, forwards output line by line and signals, and ends the job after a first
// failure.

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/bootstrap/job_environment.h"
#include "core/bootstrap/unique_id.h"
#include "tools/weft/commands.h"
#include "tools/weft/write_all.h"

namespace weft::tool {
namespace {

// After a first failure: time to end with an error of one's own, then time to heed SIGTERM.
constexpr auto kOwnErrorSpan = std::chrono::seconds(5);
constexpr auto kTermSpan = std::chrono::seconds(2);
// A longer line is split.
constexpr std::size_t kMaxLine = 1024UL * 1024;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;

struct RunOptions {
  int ranks = 1;
  bool no_prefix = false;
  std::vector<std::string> command;
};

void complain(std::string_view text) {
  fmt::print(stderr, "weft run: {}\n", text);
  (void)std::fflush(stderr);
}

// One stream of one rank on its way to ours.
struct Stream {
  UniqueFd from;
  int to = -1;
  std::string prefix;
  std::string held;  // the beginning of a line
  int lost = 0;      // why some of it could not be written

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t newline = bytes.find('\n');
      const std::size_t end = newline == std::string_view::npos ? bytes.size() : newline + 1;
      held.append(bytes.substr(0, end));
      bytes.remove_prefix(end);
      if (newline != std::string_view::npos || held.size() >= kMaxLine) emit();
    }
  }
  void emit() {
    if (held.empty()) return;
    // One write for each line keeps those of different ranks apart.
    std::string line = prefix + held;
    if (!prefix.empty() && !line.ends_with('\n')) line += '\n';
    if (const int why = write_all(to, line); why != 0) lost = why;
    held.clear();
  }
  // Reads once; answers how many bytes, 0 when nothing is there and at the end.
  std::size_t read_some() {
    std::array<char, 64UL * 1024> bytes;
    while (true) {
      const ssize_t count = ::read(from.get(), bytes.data(), bytes.size());
      if (count > 0) {
        take({bytes.data(), static_cast<std::size_t>(count)});
        return static_cast<std::size_t>(count);
      }
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return 0;
      emit();
      from.reset();
      return 0;
    }
  }
};

// Everything that has been written so far, an unfinished line included. No more: somebody may go on
// writing for ever.
void drain(Stream& stream) {
  int waiting = 0;
  if (!stream.from || ioctl(stream.from.get(), FIONREAD, &waiting) != 0) waiting = 0;
  for (auto left = static_cast<std::size_t>(waiting); left > 0;) {
    const std::size_t count = stream.read_some();
    if (count == 0) break;
    left -= std::min(left, count);
  }
  stream.emit();
}

struct Child {
  pid_t pid = -1;
  bool running = false;
  bool was_ending = false;  // when another rank was found to have failed
  std::array<Stream, 2> streams;
};

// Whether a process that nobody has waited for yet has begun to end. Where the system does not
// tell, it may have.
bool is_ending(pid_t pid) {
  constexpr unsigned long kExiting = 4;  // PF_EXITING of the kernel, in the ninth field
  constexpr int kFieldsBetween = 6;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  // The second field may hold blanks and parentheses.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return true;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i)
    fields >> skipped;
  unsigned long flags = 0;
  fields >> flags;
  return !fields || (flags & kExiting) != 0;
}

// Holds the port of the rendezvous, without listening, until rank 0 listens there: no other program
// gets it meanwhile.
Result<std::pair<UniqueFd, int>> reserve_port() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail(Error::from_errno(errno, "cannot create a socket"));
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return fail(
        Error::from_errno(errno, "cannot reserve a port of 127.0.0.1", "ip link set lo up"));
  }
  return std::pair(std::move(fd), static_cast<int>(ntohs(address.sin_port)));
}

class Job {
 public:
  explicit Job(const RunOptions& options) : options_(options) {}

  int run() {
    Status started = prepare();
    if (started) started = start_all();
    if (!started) {
      complain(started.error().to_string());
      kill_all(SIGKILL);
      reap(true);
      return exec_status_.value_or(1);
    }
    loop();
    tell_what_is_lost();
    return status_;
  }

 private:
  Status prepare();
  Status start_all();
  Status start(int rank);
  [[noreturn]] void become_rank(std::vector<char*>& environment, const std::array<int, 2>& output,
                                int exec_error, bool keeps_input, pid_t parent);
  void loop();
  void forward_signal(const signalfd_siginfo& info);
  void reap(bool block);
  void ended(std::size_t rank, int wait_status);
  void escalate();
  void tell_what_is_lost();
  void kill_all(int signal) {
    for (const Child& child : children_) {
      if (child.running) (void)::kill(child.pid, signal);
    }
  }
  [[nodiscard]] bool any_running() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& child) { return child.running; });
  }

  const RunOptions& options_;
  UniqueFd port_;
  UniqueFd signals_;
  sigset_t old_mask_{};
  std::optional<rlimit> old_limit_;  ///< Of open files, which ranks get back.
  std::vector<std::string> shared_environment_;
  std::vector<char*> arguments_;
  std::vector<Child> children_;
  int status_ = 0;
  std::optional<int> exec_status_;
  bool failed_ = false;
  bool killed_ = false;  ///< The failure that counts is an end by a signal.
  bool terminated_ = false;
  Deadline next_step_ = Deadline::never();
};

Status Job::prepare() {
  WEFT_TRY_ASSIGN(auto port, reserve_port());
  port_ = std::move(port.first);
  WEFT_TRY_ASSIGN(const Secret secret, random_secret());
  static constexpr std::array<std::string_view, 5> kOurs{
      "WEFT_RANK", "WEFT_WORLD_SIZE", "WEFT_LOCAL_RANK", "WEFT_ROOT", "WEFT_SECRET"};
  for (const auto& [name, value] : current_environment()) {
    if (std::ranges::find(kOurs, name) != kOurs.end()) continue;
    shared_environment_.push_back(fmt::format("{}={}", name, value));
  }
  shared_environment_.push_back(fmt::format("WEFT_WORLD_SIZE={}", options_.ranks));
  shared_environment_.push_back(fmt::format("WEFT_ROOT=127.0.0.1:{}", port.second));
  shared_environment_.push_back("WEFT_SECRET=" + secret_to_hex(secret));

  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&watched, signal);
  }
  if (sigprocmask(SIG_BLOCK, &watched, &old_mask_) != 0) {
    return fail(Error::from_errno(errno, "cannot block signals"));
  }
  // Two pipes for each rank, which may be more than a shell allows at first.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    old_limit_ = limit;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) old_limit_.reset();
  }
  signals_.reset(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail(Error::from_errno(errno, "cannot watch signals"));
  return {};
}

// In the child. Only async-signal-safe calls until exec.
void Job::become_rank(std::vector<char*>& environment, const std::array<int, 2>& output,
                      int exec_error, bool keeps_input, pid_t parent) {
  // Whoever kills weft run leaves no rank behind, not even one that is just being born.
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotExecutable);
  (void)sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  if (old_limit_) (void)setrlimit(RLIMIT_NOFILE, &*old_limit_);
  if (!keeps_input) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) (void)dup2(null, STDIN_FILENO);
  }
  (void)dup2(output[0], STDOUT_FILENO);
  (void)dup2(output[1], STDERR_FILENO);
  (void)execvpe(arguments_[0], arguments_.data(), environment.data());
  const int error = errno;
  (void)!::write(exec_error, &error, sizeof(error));
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

Status Job::start(int rank) {
  std::vector<std::string> own{fmt::format("WEFT_RANK={}", rank),
                               fmt::format("WEFT_LOCAL_RANK={}", rank)};
  std::vector<char*> environment;
  for (auto* list : {&shared_environment_, &own}) {
    for (std::string& text : *list) {
      environment.push_back(text.data());
    }
  }
  environment.push_back(nullptr);

  Child& child = children_.emplace_back();
  std::array<std::array<int, 2>, 3> pipes{};  // output, error, errno of exec
  std::array<UniqueFd, 3> writers;
  std::array<UniqueFd, 3> readers;
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    if (pipe2(pipes[i].data(), O_CLOEXEC) != 0) {
      return fail(Error::from_errno(errno, fmt::format("cannot create a pipe for rank {}", rank)));
    }
    readers[i].reset(pipes[i][0]);
    writers[i].reset(pipes[i][1]);
  }
  const pid_t parent = getpid();
  child.pid = fork();
  if (child.pid == 0) {
    become_rank(environment, {writers[0].get(), writers[1].get()}, writers[2].get(), rank == 0,
                parent);
  }
  if (child.pid < 0) {
    return fail(Error::from_errno(errno, fmt::format("cannot start rank {}", rank),
                                  "raise the limit ulimit -u"));
  }
  child.running = true;
  for (UniqueFd& writer : writers) {
    writer.reset();
  }
  for (std::size_t i = 0; i < child.streams.size(); ++i) {
    (void)fcntl(readers[i].get(), F_SETFL, O_NONBLOCK);
    child.streams[i].from = std::move(readers[i]);
    child.streams[i].to = i == 0 ? STDOUT_FILENO : STDERR_FILENO;
    if (!options_.no_prefix) child.streams[i].prefix = fmt::format("[{}] ", rank);
  }
  // Closed by a successful exec.
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(readers[2].get(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  if (count == sizeof(error)) {
    exec_status_ = error == ENOENT ? kNotFound : kNotExecutable;
    return fail(Error::from_errno(error, fmt::format("cannot run \"{}\"", options_.command[0]),
                                  error == ENOENT ? "write its path, or install it on PATH"
                                                  : "see that it is an executable file"));
  }
  return {};
}

Status Job::start_all() {
  children_.reserve(static_cast<std::size_t>(options_.ranks));
  for (const std::string& text : options_.command) {
    arguments_.push_back(const_cast<char*>(text.c_str()));
  }
  arguments_.push_back(nullptr);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    WEFT_TRY(start(rank));
  }
  return {};
}

void Job::ended(std::size_t rank, int wait_status) {
  Child& child = children_[rank];
  child.running = false;
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return;
  std::string how;
  int status = 0;
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigdescr_np(signal);
    how = fmt::format("was ended by signal {} ({})", signal, name == nullptr ? "unknown" : name);
    status = 128 + signal;
  } else {
    status = WEXITSTATUS(wait_status);
    how = fmt::format("ended with exit status {}", status);
  }
  // What follows from the first failure is not worth a line each. But a rank that is killed closes
  // its sockets before it can be waited for, so others may have ended with their error by then: the
  // first that a signal ended is the one to blame, if it was ending already. One that gives up
  // later, as by abort(), follows from the failure, too.
  const bool killed = WIFSIGNALED(wait_status);
  if (exec_status_ || (failed_ && (!killed || killed_ || !child.was_ending))) return;
  if (!failed_) {
    next_step_ = Deadline::after(kOwnErrorSpan);
    for (Child& other : children_)
      other.was_ending = other.running && is_ending(other.pid);
  }
  failed_ = true;
  killed_ = killed;
  status_ = status;
  // Its own words come before ours.
  for (Stream& stream : child.streams) {
    drain(stream);
  }
  complain(fmt::format("rank {} (pid {}) {}", rank, child.pid, how));
}

void Job::reap(bool block) {
  for (std::size_t rank = 0; rank < children_.size(); ++rank) {
    Child& child = children_[rank];
    if (!child.running) continue;
    int wait_status = 0;
    pid_t got = 0;
    do {
      got = waitpid(child.pid, &wait_status, block ? 0 : WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got == child.pid) ended(rank, wait_status);
  }
}

void Job::forward_signal(const signalfd_siginfo& info) {
  // The terminal sends its signals to the whole foreground group, ranks included.
  if (info.ssi_code == SI_KERNEL) return;
  kill_all(static_cast<int>(info.ssi_signo));
}

void Job::escalate() {
  std::vector<int> left;
  for (std::size_t rank = 0; rank < children_.size(); ++rank) {
    if (children_[rank].running) left.push_back(static_cast<int>(rank));
  }
  if (left.empty()) return;
  if (!terminated_) {
    complain(fmt::format("stopping rank{} {}, still running {} s after the first failure",
                         left.size() == 1 ? "" : "s", fmt::join(left, ", "),
                         kOwnErrorSpan.count()));
    kill_all(SIGTERM);
    terminated_ = true;
    next_step_ = Deadline::after(kTermSpan);
  } else {
    kill_all(SIGKILL);
    next_step_ = Deadline::never();
  }
}

void Job::tell_what_is_lost() {
  for (const Child& child : children_) {
    for (const Stream& stream : child.streams) {
      if (stream.lost == 0) continue;
      complain(Error::from_errno(stream.lost, "cannot write all that the ranks print").to_string());
      if (status_ == 0) status_ = 1;
      return;
    }
  }
}

void Job::loop() {
  std::vector<pollfd> entries;
  while (any_running()) {
    entries.clear();
    entries.push_back({.fd = signals_.get(), .events = POLLIN, .revents = 0});
    for (const Child& child : children_) {
      for (const Stream& stream : child.streams) {
        entries.push_back({.fd = stream.from.get(), .events = POLLIN, .revents = 0});
      }
    }
    if (::poll(entries.data(), entries.size(), next_step_.poll_timeout_ms()) < 0 &&
        errno != EINTR) {
      complain(Error::from_errno(errno, "cannot wait for the ranks").to_string());
      kill_all(SIGKILL);
      reap(true);
      status_ = status_ == 0 ? 1 : status_;
      return;
    }
    for (std::size_t i = 1; i < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      (void)children_[(i - 1) / 2].streams[(i - 1) % 2].read_some();
    }
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo != SIGCHLD) forward_signal(info);
    }
    reap(false);
    if (next_step_.passed()) escalate();
  }
  // A grandchild may hold a pipe open and write for as long as it likes: what is there now is all
  // we wait for.
  for (Child& child : children_) {
    for (Stream& stream : child.streams) {
      drain(stream);
    }
  }
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_status) {
  CLI::App* run = app.add_subcommand("run", "Start the ranks of a job on this host");
  auto options = std::make_shared<RunOptions>();
  run->add_option("-n,--ranks", options->ranks, "How many ranks to start")
      ->required()
      ->check(CLI::Range(1, 1024));
  run->add_flag("--no-prefix", options->no_prefix, "Do not put [RANK] before lines of output");
  run->add_option("PROGRAM", options->command, "The program and its arguments, after --")
      ->required();
  run->footer(
      "Each rank finds WEFT_RANK, WEFT_WORLD_SIZE, WEFT_LOCAL_RANK, WEFT_ROOT and WEFT_SECRET in\n"
      "its environment. After a first failure the others have 5 s to end with their own error,\n"
      "then are ended. The exit status is that of the first failure, 128 + its signal if a signal\n"
      "ended it. Signals INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to the ranks.");
  run->callback([options, &exit_status] {
    for (std::string& word : options->command) {
      if (word.starts_with(kWordMark)) word.erase(0, 1);
    }
    exit_status = Job(*options).run();
  });
}

}  // namespace weft::tool
