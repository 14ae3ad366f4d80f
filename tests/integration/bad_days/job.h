// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Jobs to which bad things happen: ranks under remote control, what they hold of the system while
// they live, and whether it is gone when they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <signal.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/sanitized.h"

namespace weft::test {

using Environment = std::map<std::string, std::optional<std::string>>;

/// What Weft promises: a rank's death ends every other rank's call within this.
inline constexpr std::chrono::seconds kPromise{5};

/// One process that runs rank_program.cc.
class Rank {
 public:
  /// `program`: another one that takes the same commands, or words in front of it.
  explicit Rank(const Environment& environment = {},
                std::vector<std::string> program = {BAD_DAYS_RANK});
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] pid_t pid() const { return process_->pid(); }
  [[nodiscard]] Process& process() { return *process_; }

  /// Gives it a command, without waiting for the answer.
  void tell(const std::string& command);
  /// The next line that it answered, or "" if none came within the limit or it has ended. Lines on
  /// the standard error are not among them.
  std::string answer(std::chrono::milliseconds limit = kPatience);
  std::string ask(const std::string& command, std::chrono::milliseconds limit = kPatience) {
    tell(command);
    return answer(limit);
  }

  void kill() { process_->send_signal(SIGKILL); }
  void stop() { process_->send_signal(SIGSTOP); }
  void go_on() { process_->send_signal(SIGCONT); }

 private:
  ScratchFolder folder_;
  std::unique_ptr<Process> process_;
  int commands_ = -1;
  std::size_t read_ = 0;  // of its output
};

/// What processes hold that would outlive them, or would be in the way, if it were left behind.
class Traces {
 public:
  /// With an empty folder for those in which programs leave files: TMPDIR, HOME, XDG_RUNTIME_DIR.
  [[nodiscard]] Environment with_places(Environment environment) const;
  /// Adds what `pid` holds now. Files of others than Weft's are passed over.
  void note(pid_t pid);
  /// What of it the system still shows after a while, a line each; and what was never allowed, such
  /// as a file in /dev/shm. Call it when the processes are gone.
  [[nodiscard]] std::string left() const;

 private:
  [[nodiscard]] std::string seen() const;

  ScratchFolder places_;
  std::set<std::string> sockets_;  // inodes
  std::string forbidden_;
};

/// What a rank's environment has to have for await_arrivals().
inline Environment that_tells_arrivals() {
  return {{"WEFT_LOG_LEVEL", "debug"}};
}
/// Waits until the rendezvous in the process of `root` has heard of so many ranks.
void await_arrivals(Rank& root, std::size_t ranks);

/// The TCP ports on which a process listens, with whether they are of IPv6.
[[nodiscard]] std::vector<std::pair<std::uint16_t, bool>> listening_ports(pid_t pid);

/// Ranks of one communicator, joined by an id that the first of them makes.
class Job {
 public:
  explicit Job(int ranks, const Environment& environment = {});

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  Rank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  /// Joins all of them, anew after a failure; answers the first that is not "join: ok", or "".
  std::string join();
  /// The same command to all; answers by rank.
  std::vector<std::string> ask_all(const std::string& command,
                                   std::chrono::milliseconds limit = kPatience);
  void tell_all(const std::string& command);
  /// Kills a rank and forgets it: the others are renumbered.
  void bury(int rank);
  /// Notes what all ranks hold.
  void note_traces();
  /// Lets all ranks give everything back and end; answers what was left behind, "" if nothing was.
  std::string end();

 private:
  Traces traces_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

/// Why the kernel's rules keep two ranks from reading each other's memory, asked by ranks in which
/// Weft has not done anything yet; empty where they may.
[[nodiscard]] std::string rule_against_reading_ranks();

/// The `weft` of this build with arguments.
[[nodiscard]] Command weft(const std::vector<std::string>& arguments,
                           const Environment& environment = {});
struct Ended : Outcome {
  std::string left;  ///< What was left behind, a line each; "" if nothing was.
};
/// Runs a job by a launcher to its end.
[[nodiscard]] Ended run_to_end(Command command, std::chrono::milliseconds limit = kPatience);
/// `weft run -n RANKS -- weft bench OPERATION ...`
[[nodiscard]] Command bench(int ranks, const std::vector<std::string>& arguments,
                            const Environment& environment = {});
/// How often `part` stands in `text`.
[[nodiscard]] int count_of(const std::string& text, const std::string& part);

}  // namespace weft::test
