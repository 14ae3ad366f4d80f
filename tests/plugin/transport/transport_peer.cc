// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rank 1 in a process of its own, driven by a test over a socket: transport-peer PLUGIN.so FD MODE
//
// MODE puts the process into a place where something is missing or different; see enter(). Commands
// are one word each; every answer begins with "ok" or says what went wrong.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/plugin/transport/bench_rank.h"
#include "tests/plugin/transport/channel.h"

namespace weft::test {
namespace {

bool forbid(int number, int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool private_mounts() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, "") == 0;
}

bool enter(const std::string& mode) {
  if (mode == "plain") return true;
  if (mode == "no-memfd") return forbid(SYS_memfd_create, EPERM);
  if (mode == "no-pidfd") return forbid(SYS_pidfd_open, ENOSYS);
  if (mode == "no-single-copy") return forbid(SYS_process_vm_readv, EPERM);
  if (mode == "other-network") return ::unshare(CLONE_NEWNET) == 0;
  if (mode == "other-user") return ::setresuid(65534, 65534, 65534) == 0;
  if (mode == "small-shm") {
    return private_mounts() && ::mount("shm", "/dev/shm", "tmpfs", 0, "size=64m") == 0;
  }
  if (mode == "without-shm") return private_mounts() && ::umount2("/dev/shm", MNT_DETACH) == 0;
  return false;
}

/// What the commands work on.
struct Session {
  int socket;
  Rank rank;
  weft_connection* send = nullptr;
  weft_connection* recv = nullptr;
  Bytes memory;

  Session(const weft_plugin_descriptor* entry, int descriptor)
      : socket(descriptor), rank(entry, {.rank = 1}) {}

  std::string failure() {
    const ReportedError error = rank.host().last_error();
    return "error: " + error.what + " | " + error.hint;
  }
  Bytes receive_bytes() const {
    const std::string text = receive_message(socket);
    return {text.begin(), text.end()};
  }

  std::string prepare() {
    const std::string size = receive_message(socket);
    const std::vector<Protocol> protocols = {
        {WEFT_PROTOCOL_SIMPLE, 8, static_cast<std::uint32_t>(std::stoul(size))}};
    recv = rank.prepare(WEFT_DIRECTION_RECV, 0, 1, protocols);
    if (recv == nullptr) return failure();
    send = rank.prepare(WEFT_DIRECTION_SEND, 0, 2, protocols);
    if (send == nullptr) return failure();
    send_message(socket, rank.blob(recv));
    send_message(socket, rank.blob(send));
    return "ok";
  }

  std::string connect(bool once) {
    const Bytes for_recv = receive_bytes();
    const Bytes for_send = receive_bytes();
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    do {
      if (sender != WEFT_OK) sender = rank.connect(send, for_send);
      if (sender >= 0 && receiver != WEFT_OK) receiver = rank.connect(recv, for_recv);
      if (sender < 0 || receiver < 0) return failure();
      std::this_thread::yield();
    } while (!once && (sender != WEFT_OK || receiver != WEFT_OK));
    return "ok";
  }

  std::string echo() {
    const std::uint64_t steps = std::stoull(receive_message(socket));
    const std::uint64_t wrong = receive_pattern(rank.describe(recv), steps, 1);
    send_pattern(rank.describe(send), steps, 2);
    return wrong == 0 ? "ok" : std::to_string(wrong) + " slots were wrong";
  }

  std::string offer_memory() {
    memory.resize(std::size_t{3} << 20U);
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = static_cast<std::uint8_t>(i * 7);
    send_message(socket, std::to_string(reinterpret_cast<std::uintptr_t>(memory.data())));
    return "ok";
  }

  std::string close() {
    if (send != nullptr) rank.close(send);
    if (recv != nullptr) rank.close(recv);
    send = nullptr;
    recv = nullptr;
    return "ok";
  }

  void run() {
    send_message(socket, rank.peer_info());
    const weft_can_connect answer = rank.can_connect(0, receive_bytes(), false, true);
    send_message(socket, std::to_string(answer.capabilities) + " " + answer.reason);
    for (;;) {
      const std::string command = receive_message(socket);
      std::string reply = "unknown command " + command;
      if (command.empty()) break;
      if (command == "prepare") reply = prepare();
      if (command == "connect") reply = connect(false);
      if (command == "connect-once") reply = connect(true);
      if (command == "echo") reply = echo();
      if (command == "memory") reply = offer_memory();
      if (command == "close") reply = close();
      send_message(socket, reply);
    }
    close();
  }
};

int run(int argc, char** argv) {
  if (argc != 4) return 2;
  const int socket = std::stoi(argv[2]);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  const weft_plugin_descriptor* entry = load_plugin(argv[1]);
  if (!enter(argv[3])) {
    send_message(socket, std::string("cannot enter ") + argv[3] + ": " + std::strerror(errno));
    return 0;
  }
  send_message(socket, "entered");
  Session session(entry, socket);
  session.run();
  return 0;
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  try {
    return weft::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transport-peer: %s\n", error.what());
    return 1;
  }
}
