// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Goes on calling while a first call still connects in the background, since the partner, a process
// of this program as well, is stopped; writes what it was answered, as misuse_program.cc does, or
// how the connecting ended.
//
//   connecting-program rank | stream | deadline

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

namespace {

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "connecting-program: %s\n", why);
  std::_Exit(2);
}

void report(weft_context* context, weft_result result) {
  std::string text(weft_last_error(context, nullptr, 0), '\0');
  weft_last_error(context, text.data(), text.size());
  std::printf("connecting: error %s %s\n", weft_result_name(result), text.c_str());
  static_cast<void>(std::fflush(stdout));
}

weft_result wait_for(weft_comm* comm) {
  weft_result state = WEFT_IN_PROGRESS;
  while (state == WEFT_IN_PROGRESS) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (weft_comm_get_async_error(comm, &state) != WEFT_OK) give_up("cannot ask");
  }
  return state;
}

weft_comm* join(weft_context* context, const weft_unique_id& id, std::uint32_t rank) {
  const std::array<const char*, 2> pairs = {"timeouts.bootstrap", "5s"};
  weft_comm_config config{};
  config.struct_size = sizeof(config);
  config.settings = pairs.data();
  config.setting_count = 1;
  config.nonblocking = 1;
  weft_comm* comm = nullptr;
  if (weft_comm_init_rank(context, &config, 2, &id, rank, &comm) != WEFT_IN_PROGRESS ||
      wait_for(comm) != WEFT_OK) {
    give_up("cannot join");
  }
  return comm;
}

/// Rank 1, which stops as soon as it has joined.
pid_t start_partner(const weft_unique_id& id) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) give_up("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[1]);
    ::execl("/proc/self/exe", "connecting-program", "partner", nullptr);
    ::_exit(2);
  }
  ::close(ends[0]);
  if (::write(ends[1], id.bytes, sizeof(id.bytes)) != sizeof(id.bytes)) give_up("no partner");
  ::close(ends[1]);
  return child;
}

int be_partner(weft_context* context) {
  weft_unique_id id{};
  if (::read(STDIN_FILENO, id.bytes, sizeof(id.bytes)) != sizeof(id.bytes)) give_up("no id");
  static_cast<void>(join(context, id, 1));
  return ::raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc == 2 ? argv[1] : "";
  weft_context* context = nullptr;
  if (weft_context_create(nullptr, &context) != WEFT_OK) give_up("no context");
  if (word == "partner") std::_Exit(be_partner(context));

  weft_unique_id id;
  std::array<weft_stream*, 2> streams{};
  if (weft_get_unique_id(context, &id) != WEFT_OK) give_up("no id");
  for (weft_stream*& stream : streams) {
    if (weft_stream_create(context, &stream) != WEFT_OK) give_up("no stream");
  }
  const pid_t partner = start_partner(id);
  weft_comm* const comm = join(context, id, 0);
  int status = 0;
  if (::waitpid(partner, &status, WUNTRACED) != partner || !WIFSTOPPED(status)) {
    give_up("the partner did not stop");
  }
  const std::int32_t value = 1;
  const auto send = [&](weft_stream* stream) {
    return weft_send(&value, 1, WEFT_INT32, 1, comm, stream);
  };
  if (send(streams[0]) != WEFT_IN_PROGRESS) give_up("the first call did not go on");
  if (word == "deadline") {
    report(context, wait_for(comm));
  } else {
    report(context, send(streams[word == "stream" ? 0 : 1]));
  }
  ::kill(partner, SIGKILL);
  // What is left of it is not what this is about.
  std::_Exit(0);
}
