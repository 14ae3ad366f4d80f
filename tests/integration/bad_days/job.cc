// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/bad_days/job.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kGlance{2};

/// The targets of a process' descriptors.
std::vector<std::string> descriptors(pid_t pid) {
  std::vector<std::string> targets;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", code)) {
    const fs::path target = fs::read_symlink(entry.path(), code);
    if (!code) targets.push_back(target.string());
  }
  return targets;
}

std::string inode_of(const std::string& target) {
  constexpr std::string_view kSocket = "socket:[";
  if (!target.starts_with(kSocket)) return {};
  return target.substr(kSocket.size(), target.size() - kSocket.size() - 1);
}

std::vector<std::string> fields(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> all;
  for (std::string field; text >> field;)
    all.push_back(field);
  return all;
}

/// Calls `found(inode, local port, v6)` for every listening TCP socket of this host.
template <typename Found>
void for_each_listener(Found found) {
  for (const bool v6 : {false, true}) {
    std::ifstream table(v6 ? "/proc/net/tcp6" : "/proc/net/tcp");
    for (std::string line; std::getline(table, line);) {
      const auto columns = fields(line);
      if (columns.size() < 10 || columns[3] != "0A") continue;
      const auto colon = columns[1].rfind(':');
      found(columns[9],
            static_cast<std::uint16_t>(std::stoul(columns[1].substr(colon + 1), nullptr, 16)), v6);
    }
  }
}

}  // namespace

Rank::Rank(const Environment& environment, std::vector<std::string> program) {
  const std::string fifo = folder_.path() + "/commands";
  if (mkfifo(fifo.c_str(), 0600) != 0) {
    throw std::system_error(errno, std::generic_category(), "mkfifo");
  }
  // Both ways, so that opening it does not wait for the other end.
  commands_ = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  if (commands_ < 0) throw std::system_error(errno, std::generic_category(), fifo);
  program.push_back(fifo);
  process_ = std::make_unique<Process>(
      Command{.arguments = std::move(program), .environment = environment, .input = {}});
  if (answer() != "rank: ok") throw std::runtime_error("a rank did not start: " + process_->err());
}

Rank::~Rank() {
  process_.reset();
  close(commands_);
}

void Rank::tell(const std::string& command) {
  const std::string line = command + "\n";
  if (write(commands_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::system_error(errno, std::generic_category(), "write to a rank");
  }
}

std::string Rank::answer(std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  for (;;) {
    const bool last_look = Clock::now() >= end;
    const std::string all = process_->out();
    const auto newline = all.find('\n', read_);
    if (newline != std::string::npos) {
      std::string line = all.substr(read_, newline - read_);
      read_ = newline + 1;
      return line;
    }
    if (last_look) return {};
    std::this_thread::sleep_for(kGlance);
  }
}

Environment Traces::with_places(Environment environment) const {
  for (const char* place : {"TMPDIR", "HOME", "XDG_RUNTIME_DIR"})
    environment.try_emplace(place, places_.path());
  return environment;
}

void Traces::note(pid_t pid) {
  for (const std::string& target : descriptors(pid)) {
    if (std::string inode = inode_of(target); !inode.empty()) sockets_.insert(std::move(inode));
    for (const char* folder : {"/dev/shm/", "/run/", "/var/"}) {
      if (target.starts_with(folder)) forbidden_ += "a file is open: " + target + "\n";
    }
  }
  const std::string maps = read_text("/proc/" + std::to_string(pid) + "/maps");
  if (maps.find("/dev/shm/") != std::string::npos) forbidden_ += "memory of /dev/shm is mapped\n";
}

// A process that ends gives up its environment, by which its end is told, before its descriptors.
std::string Traces::left() const {
  const auto end = Clock::now() + kPromise;
  for (;;) {
    std::string found = seen();
    if (found.empty() || Clock::now() >= end) return forbidden_ + found;
    std::this_thread::sleep_for(kGlance);
  }
}

std::string Traces::seen() const {
  std::string found;
  for_each_listener([&](const std::string& inode, std::uint16_t port, bool) {
    if (sockets_.contains(inode)) found += "port " + std::to_string(port) + " is listened on\n";
  });
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const auto columns = fields(line);
    if (columns.size() >= 7 && sockets_.contains(columns[6])) found += line + "\n";
  }
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/dev/shm", code)) {
    const std::string name = entry.path().filename().string();
    if (name.find("weft") != std::string::npos) found += entry.path().string() + "\n";
  }
  for (const auto& entry : fs::recursive_directory_iterator(places_.path(), code))
    found += entry.path().string() + "\n";
  return found;
}

std::vector<std::pair<std::uint16_t, bool>> listening_ports(pid_t pid) {
  std::set<std::string> inodes;
  for (const std::string& target : descriptors(pid))
    inodes.insert(inode_of(target));
  std::vector<std::pair<std::uint16_t, bool>> ports;
  for_each_listener([&](const std::string& inode, std::uint16_t port, bool v6) {
    if (inodes.contains(inode)) ports.emplace_back(port, v6);
  });
  return ports;
}

void await_arrivals(Rank& root, std::size_t ranks) {
  const std::regex arrival("rendezvous: rank [0-9]+ .* came");
  const auto have_come = [&] {
    const std::string log = root.process().err();
    const std::sregex_iterator first(log.begin(), log.end(), arrival);
    return static_cast<std::size_t>(std::distance(first, std::sregex_iterator()));
  };
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (have_come() < ranks) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("not all ranks came: " + root.process().err());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Job::Job(int ranks, const Environment& environment) {
  for (int rank = 0; rank < ranks; ++rank)
    ranks_.push_back(std::make_unique<Rank>(traces_.with_places(environment)));
}

void Job::tell_all(const std::string& command) {
  for (auto& rank : ranks_)
    rank->tell(command);
}

std::vector<std::string> Job::ask_all(const std::string& command, std::chrono::milliseconds limit) {
  tell_all(command);
  std::vector<std::string> answers;
  answers.reserve(ranks_.size());
  for (auto& rank : ranks_)
    answers.push_back(rank->answer(limit));
  return answers;
}

std::string Job::join() {
  const std::string id = ranks_.front()->ask("id");
  constexpr std::string_view kAnswer = "id: ok ";
  if (!id.starts_with(kAnswer)) return id;
  for (int rank = 0; rank < size(); ++rank) {
    (*this)[rank].tell("join " + id.substr(kAnswer.size()) + " " + std::to_string(size()) + " " +
                       std::to_string(rank));
  }
  std::string first;
  for (auto& rank : ranks_) {
    const std::string answer = rank->answer();
    if (!answer.starts_with("join: ok") && first.empty()) {
      first = "\"" + answer + "\" " + rank->process().err();
    }
  }
  if (first.empty()) note_traces();
  return first;
}

void Job::bury(int rank) {
  ranks_[static_cast<std::size_t>(rank)]->kill();
  ranks_.erase(ranks_.begin() + rank);
}

void Job::note_traces() {
  for (auto& rank : ranks_)
    traces_.note(rank->pid());
}

std::string Job::end() {
  std::string left;
  note_traces();
  tell_all("leave");
  for (auto& rank : ranks_) {
    const std::string answer = rank->answer();
    if (answer != "leave: ok 0 descriptors 0 threads 0 segments changed") {
      left += "\"" + answer + "\" " + rank->process().err() + "\n";
    }
  }
  tell_all("quit");
  for (auto& rank : ranks_) {
    const Outcome outcome = rank->process().wait();
    if (outcome.exit_status != 0) left += outcome.describe();
    if (!rank->process().wait_for_relatives().empty()) left += "processes\n";
  }
  ranks_.clear();
  return left + traces_.left();
}

std::string rule_against_reading_ranks() {
  Rank read;
  Rank reader;
  const std::string shown = read.ask("show-byte");
  constexpr std::string_view kShown = "show-byte: ok ";
  if (!shown.starts_with(kShown)) throw std::runtime_error("a rank answered " + shown);
  const std::string answer =
      reader.ask("read-byte " + std::to_string(read.pid()) + " " + shown.substr(kShown.size()));
  constexpr std::string_view kForbidden = "read-byte: forbidden ";
  if (answer.starts_with(kForbidden)) return answer.substr(kForbidden.size());
  if (answer != "read-byte: ok") throw std::runtime_error("a rank answered " + answer);
  return {};
}

Command weft(const std::vector<std::string>& arguments, const Environment& environment) {
  Command command{.arguments = {WEFT_COMMAND}, .environment = environment, .input = {}};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  // A configuration that somebody has at home is no part of the tests.
  command.environment.try_emplace("XDG_CONFIG_HOME", "/nonexistent");
  return command;
}

Ended run_to_end(Command command, std::chrono::milliseconds limit) {
  const Traces traces;
  command.environment = traces.with_places(std::move(command.environment));
  Process job(command);
  Ended ended{job.wait(limit), {}};
  if (!job.wait_for_relatives().empty()) ended.left = "processes\n";
  ended.left += traces.left();
  return ended;
}

Command bench(int ranks, const std::vector<std::string>& arguments,
              const Environment& environment) {
  std::vector<std::string> all{"run", "-n", std::to_string(ranks), "--", WEFT_COMMAND, "bench"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return weft(all, environment);
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

}  // namespace weft::test
