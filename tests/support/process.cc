// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Starting, watching and ending programs for tests, on Linux' own calls.
#include "tests/support/process.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGlance{2};

[[noreturn]] void raise_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int memory_file(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  // Appending: several processes write through it, and some open it anew.
  if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) < 0) raise_errno("memfd_create");
  return fd;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

// "NAME=value" for each, this process' own first.
std::vector<std::string> environment_of(const Command& command, const std::string& mark) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.starts_with("WEFT_")) continue;
    values[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : command.environment) {
    if (value)
      values[name] = *value;
    else
      values.erase(name);
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : values) {
    std::string entry = name;
    entry += '=';
    entry += value;
    entries.push_back(std::move(entry));
  }
  entries.push_back(mark);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts)
    all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// In the child, after fork: only calls that are safe there. Answers errno if nothing was started.
int become(pid_t parent, const std::array<int, 3>& files, char* const* arguments,
           char* const* environment) {
  if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return errno;
  if (getppid() != parent) _exit(127);
  for (int i = 0; i < 3; ++i) {
    if (dup2(files[static_cast<std::size_t>(i)], i) < 0) return errno;
  }
  // A test may itself run under nohup or in a script's background, where some signals are ignored.
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(arguments[0], arguments, environment);
  return errno;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string Outcome::describe() const {
  std::ostringstream text;
  if (timed_out)
    text << "did not end in time and was killed";
  else if (signal != 0)
    text << "killed by signal " << signal << " (" << strsignal(signal) << ")";
  else
    text << "exit status " << exit_status;
  text << "\n--- standard output:\n" << out << "\n--- standard error:\n" << err << "\n---";
  return text.str();
}

Process::Process(const Command& command) {
  if (command.arguments.empty()) throw std::invalid_argument("a command without a program");
  out_ = memory_file("stdout");
  err_ = memory_file("stderr");
  // Unlike any other of this machine: process ids come again, and so do counters.
  std::ostringstream mark;
  mark << "TEST_PROCESS_MARK=" << getpid() << "-" << out_ << "-"
       << Clock::now().time_since_epoch().count();
  mark_ = mark.str();

  const int input = memory_file("stdin");
  if (write(input, command.input.data(), command.input.size()) !=
          static_cast<ssize_t>(command.input.size()) ||
      lseek(input, 0, SEEK_SET) < 0) {
    raise_errno("standard input of a program");
  }
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = environment_of(command, mark_);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);
  std::array<int, 2> told{};
  if (pipe2(told.data(), O_CLOEXEC) < 0) raise_errno("pipe2");

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) raise_errno("fork");
  if (pid_ == 0) {
    const int why =
        become(parent, {input, out_, err_}, argument_pointers.data(), environment_pointers.data());
    [[maybe_unused]] const ssize_t wrote = write(told[1], &why, sizeof(why));
    _exit(127);
  }
  close(told[1]);
  close(input);
  int why = 0;
  ssize_t got = 0;
  do {
    got = read(told[0], &why, sizeof(why));
  } while (got < 0 && errno == EINTR);
  close(told[0]);
  if (got == sizeof(why)) {
    waitpid(pid_, nullptr, 0);
    close(out_);
    close(err_);
    throw std::system_error(why, std::generic_category(),
                            "cannot start " + command.arguments.front());
  }
}

Process::~Process() {
  kill_relatives();
  if (!status_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
  close(err_);
}

bool Process::reap(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  while (!status_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = status;
    } else if (Clock::now() >= end) {
      return false;
    } else {
      std::this_thread::sleep_for(kGlance);
    }
  }
  return true;
}

Outcome Process::wait(std::chrono::milliseconds limit) {
  Outcome outcome;
  outcome.timed_out = !reap(limit);
  if (outcome.timed_out) {
    kill_relatives();
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    status_ = status;
  }
  if (!outcome.timed_out && WIFEXITED(*status_)) outcome.exit_status = WEXITSTATUS(*status_);
  if (WIFSIGNALED(*status_)) outcome.signal = WTERMSIG(*status_);
  outcome.out = out();
  outcome.err = err();
  return outcome;
}

bool Process::wait_for_output(const std::string& text, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  for (;;) {
    // Asked before looking: what a program wrote before its end counts.
    const bool ended = reap(std::chrono::milliseconds(0));
    if (out().find(text) != std::string::npos || err().find(text) != std::string::npos) return true;
    if (ended || Clock::now() >= end) return false;
    std::this_thread::sleep_for(kGlance);
  }
}

std::string Process::out() const {
  return read_all(out_);
}

std::string Process::err() const {
  return read_all(err_);
}

void Process::send_signal(int signal) const {
  if (!status_) kill(pid_, signal);
}

std::vector<pid_t> Process::relatives() const {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (!is_number(name)) continue;
    // A process that has ended, a zombie too, has no environment.
    const std::string environment = read_text(entry.path() / "environ");
    if (environment.find(mark_) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

std::vector<pid_t> Process::wait_until_relatives(std::size_t count,
                                                 std::chrono::milliseconds limit) const {
  const auto end = Clock::now() + limit;
  for (;;) {
    std::vector<pid_t> found = relatives();
    if (found.size() >= count || Clock::now() >= end) return found;
    std::this_thread::sleep_for(kGlance);
  }
}

std::vector<pid_t> Process::wait_for_relatives(std::chrono::milliseconds limit) const {
  const auto end = Clock::now() + limit;
  for (;;) {
    std::vector<pid_t> left = relatives();
    if (left.empty() || Clock::now() >= end) return left;
    std::this_thread::sleep_for(kGlance);
  }
}

void Process::kill_relatives() const {
  // Again until there are none: some may have been starting others. One that the kernel does not
  // let go must not hang the test.
  for (int tries = 0; tries < 1000; ++tries) {
    const std::vector<pid_t> left = relatives();
    if (left.empty()) return;
    for (const pid_t pid : left)
      kill(pid, SIGKILL);
    std::this_thread::sleep_for(kGlance);
  }
}

Outcome run(const Command& command, std::chrono::milliseconds limit) {
  Process process(command);
  return process.wait(limit);
}

ScratchFolder::ScratchFolder() {
  std::string name = std::filesystem::temp_directory_path() / "weft-test-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) raise_errno("mkdtemp");
  // Plugin folders must not be for others to write; readable, they serve any user.
  if (chmod(name.c_str(), 0755) < 0) raise_errno("chmod");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::write(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  if (chmod(path.c_str(), 0644) < 0) raise_errno("cannot write " + path);
  return path;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace weft::test
