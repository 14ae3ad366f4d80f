// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank of a job, under remote control: reads commands, a line each, from the FIFO named by its
// argument and answers each with a line on its standard output, "COMMAND: ok ..." or
// "COMMAND: error NAME TEXT". Uses the public API alone, as any application.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "tests/support/process_memory.h"

namespace {

using Words = std::vector<std::string>;

void say(const std::string& line) {
  std::string text = line;
  std::ranges::replace(text, '\n', '|');
  text += '\n';
  std::fputs(text.c_str(), stdout);
  static_cast<void>(std::fflush(stdout));
}

std::string error_text(weft_context* context) {
  std::string text(weft_last_error(context, nullptr, 0), '\0');
  weft_last_error(context, text.data(), text.size());
  if (!text.empty()) text.pop_back();
  return text;
}

// Every element of every rank's contribution differs, and all sums are exact.
std::int32_t contribution(std::uint32_t rank, std::size_t i) {
  return static_cast<std::int32_t>((i % 1000) * (rank + 1));
}

struct Buffers {
  std::vector<std::int32_t> send;
  std::vector<std::int32_t> recv;
};

// What a process holds that must be gone once its context is.
struct Holdings {
  std::set<std::string> descriptors;  // "number -> what it stands for"
  long threads = 0;
  long memory_files = 0;
};

long entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

std::set<std::string> open_descriptors() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code code;
    all.insert(entry.path().filename().string() + " -> " +
               std::filesystem::read_symlink(entry.path(), code).string());
  }
  return all;
}

Holdings holdings() {
  Holdings now{.descriptors = open_descriptors(),
               .threads = entries_of("/proc/self/task"),
               .memory_files = 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) ++now.memory_files;
  }
  return now;
}

// A sanitizer starts a thread of its own with the first of the program's: before they are counted.
// One that was joined stands in /proc a moment longer.
void start_first_thread() {
  pid_t first = 0;
  std::thread([&first] { first = gettid(); }).join();
  const std::string entry = "/proc/self/task/" + std::to_string(first);
  while (std::filesystem::exists(entry))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// One rank's place in a communicator.
struct Member {
  weft_context* context = nullptr;
  weft_comm* comm = nullptr;
  weft_stream* stream = nullptr;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
};

std::uint32_t root_of(const Words& words) {
  for (const std::string& word : words) {
    if (word.starts_with("root")) return static_cast<std::uint32_t>(std::stoul(word.substr(4)));
  }
  return 0;
}

weft_result start_call(const Member& member, const Words& words, Buffers& buffers) {
  const std::size_t count = std::stoull(words.at(2));
  buffers.send.resize(count);
  buffers.recv.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    buffers.send[i] = contribution(member.rank, i);
  weft_data_type type = WEFT_INT32;
  weft_reduction reduction = WEFT_SUM;
  for (std::size_t i = 3; i < words.size(); ++i) {
    if (words[i] == "float32") type = WEFT_FLOAT32;
    if (words[i] == "max") reduction = WEFT_MAX;
  }
  if (words.at(1) == "all_reduce") {
    return weft_all_reduce(buffers.send.data(), buffers.recv.data(), count, type, reduction,
                           member.comm, member.stream);
  }
  if (words[1] == "send") {
    return weft_send(buffers.send.data(), count, type, root_of(words), member.comm, member.stream);
  }
  if (words[1] == "recv") {
    return weft_recv(buffers.recv.data(), count, type, root_of(words), member.comm, member.stream);
  }
  return weft_broadcast(buffers.send.data(), buffers.recv.data(), count, type, root_of(words),
                        member.comm, member.stream);
}

weft_result call_once(const Member& member, const Words& words, Buffers& buffers) {
  const weft_result started = start_call(member, words, buffers);
  // What was refused leaves nothing on the stream: its text must not be overwritten.
  if (started != WEFT_OK) return started;
  return weft_stream_synchronize(member.stream);
}

std::size_t wrong_elements(const Member& member, const Words& words, const Buffers& buffers) {
  std::size_t wrong = 0;
  if (words.at(1) == "send") return wrong;
  const bool sums = words.at(1) == "all_reduce";
  for (std::size_t i = 0; i < buffers.recv.size(); ++i) {
    std::int32_t expected = contribution(root_of(words), i);
    if (sums) {
      expected = 0;
      for (std::uint32_t rank = 0; rank < member.ranks; ++rank)
        expected += contribution(rank, i);
    }
    if (buffers.recv[i] != expected) ++wrong;
  }
  return wrong;
}

class RankProgram {
 public:
  RankProgram();
  void serve(std::istream& commands);

 private:
  void answer(const Words& words, weft_result result, const std::string& detail = {});
  bool make_context();

  void limit(const Words& words);
  void deny(const Words& words);
  void show_byte(const Words& words);
  void read_byte(const Words& words);
  void fork_child(const Words& words);
  void make_id(const Words& words);
  void join(const Words& words);
  void call(const Words& words);
  void loop(const Words& words);
  void watch(const Words& words);
  void async(const Words& words);
  void abort_soon(const Words& words);
  void abort(const Words& words);
  void destroy(const Words& words);
  void threads(const Words& words);
  void leave(const Words& words);

  Member member_;
  Holdings before_;
  std::vector<std::thread> helpers_;
  std::map<std::string, std::function<void(const Words&)>> commands_;
};

RankProgram::RankProgram() : before_(holdings()) {
  const auto add = [this](const char* name, void (RankProgram::*member)(const Words&)) {
    commands_[name] = [this, member](const Words& words) { (this->*member)(words); };
  };
  add("limit", &RankProgram::limit);
  add("deny-memfd", &RankProgram::deny);
  add("deny-reads", &RankProgram::deny);
  add("show-byte", &RankProgram::show_byte);
  add("read-byte", &RankProgram::read_byte);
  add("fork", &RankProgram::fork_child);
  add("id", &RankProgram::make_id);
  add("join", &RankProgram::join);
  add("call", &RankProgram::call);
  add("loop", &RankProgram::loop);
  add("watch", &RankProgram::watch);
  add("async", &RankProgram::async);
  add("abort-soon", &RankProgram::abort_soon);
  add("abort", &RankProgram::abort);
  add("destroy", &RankProgram::destroy);
  add("threads", &RankProgram::threads);
  add("leave", &RankProgram::leave);
}

void RankProgram::serve(std::istream& commands) {
  say("rank: ok");
  for (std::string line; std::getline(commands, line);) {
    std::istringstream text(line);
    Words words;
    for (std::string word; text >> word;)
      words.push_back(word);
    if (words.empty()) continue;
    if (words[0] == "quit") break;
    const auto found = commands_.find(words[0]);
    if (found == commands_.end()) {
      say(words[0] + ": unknown command");
      continue;
    }
    found->second(words);
  }
  for (auto& helper : helpers_)
    helper.join();
}

void RankProgram::answer(const Words& words, weft_result result, const std::string& detail) {
  if (result == WEFT_OK) {
    say(words[0] + ": ok " + detail);
  } else {
    say(words[0] + ": error " + weft_result_name(result) + " " + error_text(member_.context));
  }
}

bool RankProgram::make_context() {
  if (member_.context != nullptr) return true;
  weft_result result = weft_context_create(nullptr, &member_.context);
  if (result != WEFT_OK) {
    say("context: error " + std::string(weft_result_name(result)) + " " + error_text(nullptr));
    return false;
  }
  result = weft_stream_create(member_.context, &member_.stream);
  if (result != WEFT_OK) {
    say("context: error " + std::string(weft_result_name(result)) + " " +
        error_text(member_.context));
    static_cast<void>(weft_context_destroy(member_.context));
    member_.context = nullptr;
    return false;
  }
  return true;
}

// limit nofile N, limit memory BYTES on top of what is mapped now, or limit file-size BYTES
void RankProgram::limit(const Words& words) {
  rlim_t value = std::stoull(words.at(2));
  auto resource = RLIMIT_FSIZE;
  if (words.at(1) == "nofile") {
    resource = RLIMIT_NOFILE;
    // Descriptors are numbered from 0: what is open now stays.
    value += static_cast<rlim_t>(entries_of("/proc/self/fd")) - 1;
  } else if (words.at(1) == "memory") {
    resource = RLIMIT_AS;
    std::ifstream status("/proc/self/statm");
    rlim_t pages = 0;
    status >> pages;
    value += pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  }
  const rlimit limits{.rlim_cur = value, .rlim_max = value};
  say(setrlimit(resource, &limits) == 0 ? "limit: ok" : "limit: refused");
}

// deny-memfd, or deny-reads of other processes' memory: from now on, as a sandbox does.
void RankProgram::deny(const Words& words) {
  const std::uint32_t call = words[0] == "deny-memfd" ? SYS_memfd_create : SYS_process_vm_readv;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = static_cast<unsigned short>(std::size(program)),
                          .filter = program};
  const bool done =
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
  say(words[0] + (done ? ": ok" : ": refused"));
}

// Where a byte lies that another process may try to read.
void RankProgram::show_byte(const Words& /*words*/) {
  static const char byte = 0;
  say("show-byte: ok " + std::to_string(reinterpret_cast<std::uintptr_t>(&byte)));
}

// read-byte PID ADDRESS, without Weft: whether the kernel's rules allow it.
void RankProgram::read_byte(const Words& words) {
  const std::string rule = weft::test::rule_against_reading(
      static_cast<pid_t>(std::stol(words.at(1))), std::stoull(words.at(2)));
  say(rule.empty() ? "read-byte: ok" : "read-byte: forbidden " + rule);
}

// A child as multiprocessing libraries fork them: it holds what this process holds, and goes on.
void RankProgram::fork_child(const Words& /*words*/) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::close(descriptor);
    ::alarm(60);
    while (true)
      ::pause();
  }
  say("fork: ok " + std::to_string(child));
}

void RankProgram::make_id(const Words& words) {
  if (!make_context()) return;
  weft_unique_id id;
  const weft_result result = weft_get_unique_id(member_.context, &id);
  std::string hex;
  if (result == WEFT_OK) {
    for (const std::uint8_t byte : id.bytes) {
      static constexpr char kDigits[] = "0123456789abcdef";
      hex += kDigits[byte >> 4U];
      hex += kDigits[byte & 15U];
    }
  }
  answer(words, result, hex);
}

// join env, or join ID RANKS RANK
void RankProgram::join(const Words& words) {
  if (!make_context()) return;
  weft_result result = WEFT_OK;
  if (words.at(1) == "env") {
    result = weft_comm_init_env(member_.context, nullptr, &member_.comm);
  } else {
    weft_unique_id id{};
    for (std::size_t i = 0; i < sizeof(id.bytes) && 2 * i + 1 < words[1].size(); ++i)
      id.bytes[i] = static_cast<std::uint8_t>(std::stoul(words[1].substr(2 * i, 2), nullptr, 16));
    result = weft_comm_init_rank(
        member_.context, nullptr, static_cast<std::uint32_t>(std::stoul(words.at(2))), &id,
        static_cast<std::uint32_t>(std::stoul(words.at(3))), &member_.comm);
  }
  if (result == WEFT_OK) {
    static_cast<void>(weft_comm_rank(member_.comm, &member_.rank));
    static_cast<void>(weft_comm_size(member_.comm, &member_.ranks));
  }
  answer(words, result);
}

// call OPERATION COUNT [float32] [max] [rootN]; N is the partner of send and recv
void RankProgram::call(const Words& words) {
  Buffers buffers;
  const weft_result result = call_once(member_, words, buffers);
  answer(
      words, result,
      result == WEFT_OK ? std::to_string(wrong_elements(member_, words, buffers)) + " wrong" : "");
}

// The same until it fails.
void RankProgram::loop(const Words& words) {
  Buffers buffers;
  for (bool first = true;; first = false) {
    const weft_result result = call_once(member_, words, buffers);
    if (result != WEFT_OK) return answer(words, result);
    if (const std::size_t wrong = wrong_elements(member_, words, buffers); wrong != 0) {
      return say("loop: wrong " + std::to_string(wrong));
    }
    if (first) say("loop: running");
  }
}

// Calls nothing and asks until there is an error.
void RankProgram::watch(const Words& /*words*/) {
  say("watch: running");
  weft_result error = WEFT_OK;
  while (error == WEFT_OK) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const weft_result asked = weft_comm_get_async_error(member_.comm, &error);
    if (asked != WEFT_OK) error = asked;
  }
  say(std::string("watch: error ") + weft_result_name(error));
}

void RankProgram::async(const Words& /*words*/) {
  weft_result error = WEFT_OK;
  static_cast<void>(weft_comm_get_async_error(member_.comm, &error));
  say(std::string("async: ok ") + weft_result_name(error));
}

void RankProgram::abort_soon(const Words& words) {
  const auto span = std::chrono::milliseconds(std::stol(words.at(1)));
  helpers_.emplace_back([comm = member_.comm, span] {
    std::this_thread::sleep_for(span);
    static_cast<void>(weft_comm_abort(comm));
  });
  say("abort-soon: ok");
}

void RankProgram::abort(const Words& words) {
  answer(words, weft_comm_abort(member_.comm));
}

void RankProgram::destroy(const Words& words) {
  for (auto& helper : helpers_)
    helper.join();
  helpers_.clear();
  const weft_result result = weft_comm_destroy(member_.comm);
  member_.comm = nullptr;
  answer(words, result);
}

// threads N OPERATION COUNT VICTIM: ranks as threads of this process; the victim is aborted while
// all of them loop. Answers a line for each: "thread R: error NAME TEXT".
void RankProgram::threads(const Words& words) {
  if (!make_context()) return;
  const auto ranks = static_cast<std::uint32_t>(std::stoul(words.at(1)));
  const auto victim = static_cast<std::uint32_t>(std::stoul(words.at(4)));
  std::vector<weft_comm*> comms(ranks);
  const weft_result joined = weft_comm_init_all(member_.context, nullptr, ranks, comms.data());
  if (joined != WEFT_OK) return answer(words, joined);
  std::atomic<std::uint32_t> running{0};
  std::vector<std::thread> loops;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    loops.emplace_back([&, rank] {
      Member member{.context = member_.context,
                    .comm = comms[rank],
                    .stream = nullptr,
                    .rank = rank,
                    .ranks = ranks};
      weft_result result = weft_stream_create(member.context, &member.stream);
      Buffers buffers;
      const Words call{"loop", words[2], words[3]};
      for (bool first = true; result == WEFT_OK; first = false) {
        result = call_once(member, call, buffers);
        if (result == WEFT_OK && first) ++running;
      }
      say("thread " + std::to_string(rank) + ": error " + weft_result_name(result) + " " +
          error_text(member.context));
      static_cast<void>(weft_stream_destroy(member.stream));
    });
  }
  while (running < ranks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  static_cast<void>(weft_comm_abort(comms[victim]));
  for (auto& loop : loops)
    loop.join();
  weft_result destroyed = WEFT_OK;
  for (weft_comm* comm : comms)
    destroyed = std::min(destroyed, weft_comm_destroy(comm));
  answer(words, destroyed);
}

// Gives everything back and says what is not held as at the start.
void RankProgram::leave(const Words& words) {
  for (auto& helper : helpers_)
    helper.join();
  helpers_.clear();
  weft_result result = WEFT_OK;
  if (member_.comm != nullptr) result = weft_comm_destroy(member_.comm);
  if (member_.stream != nullptr) result = std::min(result, weft_stream_destroy(member_.stream));
  if (member_.context != nullptr) result = std::min(result, weft_context_destroy(member_.context));
  member_ = {};
  Holdings now = holdings();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (now.threads != before_.threads && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = holdings();
  }
  if (result != WEFT_OK) return answer(words, result);
  std::vector<std::string> changed;
  std::ranges::set_symmetric_difference(before_.descriptors, now.descriptors,
                                        std::back_inserter(changed));
  std::string text = "leave: ok " + std::to_string(changed.size()) + " descriptors " +
                     std::to_string(now.threads - before_.threads) + " threads " +
                     std::to_string(now.memory_files - before_.memory_files) + " segments changed";
  for (const std::string& descriptor : changed)
    text += (now.descriptors.contains(descriptor) ? ", opened " : ", closed ") + descriptor;
  say(text);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: bad-days-rank FIFO\n", stderr);
    return 2;
  }
  start_first_thread();
  std::ifstream commands(argv[1]);
  RankProgram().serve(commands);
  return 0;
}
