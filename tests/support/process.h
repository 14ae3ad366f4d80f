// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Programs that a test starts: real processes by fork and exec, with an environment of their own,
// their output kept, a deadline on every wait, and nothing left alive when the test is over.
//
// Every program gets a mark in its environment, which its descendants inherit: so all of them are
// found, whatever session or group they moved to and whoever their parent is by now.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace weft::test {

/// Long enough for any program of the tests under a sanitizer on a busy machine.
inline constexpr std::chrono::seconds kPatience{120};

/// What to start.
struct Command {
  /// The program, searched along PATH if it has no slash, and its arguments.
  std::vector<std::string> arguments;
  /// Set on top of this process' environment, from which all WEFT_ variables are taken away first;
  /// nullopt takes a variable away.
  std::map<std::string, std::optional<std::string>> environment;
  /// What it reads from its standard input.
  std::string input;
};

/// How a program ended and what it wrote.
struct Outcome {
  int exit_status = -1;    ///< -1 if it did not exit by itself.
  int signal = 0;          ///< That killed it, or 0.
  bool timed_out = false;  ///< It had not ended within the deadline, and was killed.
  std::string out;
  std::string err;

  /// For the message of a failed expectation: how it ended and all that it wrote.
  [[nodiscard]] std::string describe() const;
};

/// A program that was started. Not for use from several threads at once; the destructor kills what
/// is left of it and waits for that.
class Process {
 public:
  /// Starts it in a process group of its own. It dies with the thread that started it. Throws
  /// std::system_error if the program cannot be started.
  explicit Process(const Command& command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// Waits for its end. Past the deadline everything of it is killed. Its descendants may live on.
  Outcome wait(std::chrono::milliseconds limit = kPatience);
  /// Waits until its output holds `text`; false if it ended or the deadline passed before.
  bool wait_for_output(const std::string& text, std::chrono::milliseconds limit = kPatience);
  /// What it has written up to now.
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;

  /// To the program alone; not once wait has answered.
  void send_signal(int signal) const;
  /// Everything alive that carries its mark: itself, its children and theirs, orphans too. The mark
  /// is in the environment, and in the middle of its exec a process has none.
  [[nodiscard]] std::vector<pid_t> relatives() const;
  /// Waits until so many carry its mark, as they do once each is past its exec; answers those that
  /// did at the end.
  [[nodiscard]] std::vector<pid_t> wait_until_relatives(
      std::size_t count, std::chrono::milliseconds limit = kPatience) const;
  /// Waits until nothing carries its mark any more; answers what still did at the deadline.
  [[nodiscard]] std::vector<pid_t> wait_for_relatives(
      std::chrono::milliseconds limit = kPatience) const;

 private:
  bool reap(std::chrono::milliseconds limit);
  void kill_relatives() const;

  std::string mark_;
  pid_t pid_ = -1;
  int out_ = -1;  ///< Files in memory, which never make a writer wait as pipes do.
  int err_ = -1;
  std::optional<int> status_;  ///< As waitpid gives it.
};

/// Starts a program and waits for its end.
Outcome run(const Command& command, std::chrono::milliseconds limit = kPatience);

/// A folder of its own for a test, mode 0755, removed with all in it at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Writes a file in it, mode 0644, and answers its path.
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

/// The text of a file; empty if there is none.
std::string read_text(const std::string& path);

}  // namespace weft::test
