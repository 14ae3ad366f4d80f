// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A transport between two processes: data both ways, a peer that is killed, places where something
// is missing, and strangers at the door.
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/plugin/transport/channel.h"
#include "tests/plugin/transport/suite.h"
#include "tests/support/process_memory.h"

namespace weft::test {
namespace {

constexpr const char* kNoSingleCopy =
    "same host, no single copy: the kernel forbids to read the other's memory (EPERM: "
    "kernel.yama.ptrace_scope, sandbox)";

/// The inodes of the sockets that a process has open.
std::set<std::string> sockets_of(pid_t pid) {
  static constexpr std::string_view kPrefix = "socket:[";
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    std::error_code closed;
    const std::string to = std::filesystem::read_symlink(entry.path(), closed).string();
    if (to.starts_with(kPrefix))
      inodes.insert(to.substr(kPrefix.size(), to.size() - kPrefix.size() - 1));
  }
  return inodes;
}

/// The names of the sockets on which a process hands out memory: what other programs of the host do
/// meanwhile is their own.
std::vector<std::string> doors_of(pid_t pid) {
  const std::set<std::string> own = sockets_of(pid);
  std::vector<std::string> found;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 7; ++i)
      fields >> field;  // the seventh is the inode, the next a name
    std::string name;
    if (fields >> name && name.starts_with("@weft-shm-") && own.contains(field))
      found.push_back(name.substr(1));
  }
  return found;
}

/// The other process, see transport_peer.cc.
class Peer {
 public:
  explicit Peer(const std::string& mode) {
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;
    socket_ = pair[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    constexpr int kChildSocket = 100;
    ::posix_spawn_file_actions_adddup2(&actions, pair[1], kChildSocket);
    std::string program = peer_path();
    std::string plugin = plugin_path();
    std::string descriptor = std::to_string(kChildSocket);
    std::string place = mode;
    char* const arguments[] = {program.data(), plugin.data(), descriptor.data(), place.data(),
                               nullptr};
    ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pair[1]);
    greeting_ = receive();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { finish(); }

  /// "entered", or why the place could not be entered.
  [[nodiscard]] const std::string& greeting() const { return greeting_; }
  [[nodiscard]] std::string receive() const { return receive_message(socket_); }
  [[nodiscard]] Bytes receive_bytes() const {
    const std::string text = receive();
    return {text.begin(), text.end()};
  }
  void send(std::string_view text) const { send_message(socket_, text); }
  void send(const Bytes& bytes) const { send_message(socket_, bytes); }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    finish();
  }
  /// Lets it end by itself; its exit status.
  int finish() {
    if (pid_ < 0) return 0;
    ::close(socket_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string greeting_;
};

/// Other programs have theirs there.
std::uint64_t shm_files() {
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().contains("weft") ? 1 : 0;
  return count;
}

class ProcessTest : public testing::Test {
 protected:
  void start(const std::string& mode) {
    peer = std::make_unique<Peer>(mode);
    if (peer->greeting() != "entered") GTEST_SKIP() << peer->greeting();
    const Bytes info = peer->receive_bytes();
    peer->send(rank->peer_info());
    const std::string answer = peer->receive();
    their_capabilities = std::stoul(answer);
    their_reason = answer.substr(answer.find(' ') + 1);
    mine = rank->can_connect(1, info, false, true);
  }
  /// Where the other process has memory for this one to read.
  [[nodiscard]] std::uint64_t address_of_theirs() const {
    peer->send("memory");
    const std::uint64_t address = std::stoull(peer->receive());
    EXPECT_EQ(peer->receive(), "ok");
    return address;
  }
  /// Of the kernel, against reading it.
  [[nodiscard]] std::string rule_against_it() const {
    return rule_against_reading(peer->pid(), address_of_theirs());
  }

  const weft_plugin_descriptor* entry = load_plugin(plugin_path());
  std::unique_ptr<Rank> rank = std::make_unique<Rank>(entry, Rank::Options{.rank = 0});
  std::unique_ptr<Peer> peer;
  weft_can_connect mine{};
  std::uint64_t their_capabilities = 0;
  std::string their_reason;
};

/// Transports that join processes.
class ShmProcessTest : public ProcessTest {
 protected:
  void prepare(std::uint32_t step_bytes = 65536) {
    const std::vector<Protocol> protocols = {{WEFT_PROTOCOL_SIMPLE, 8, step_bytes}};
    send = rank->prepare(WEFT_DIRECTION_SEND, 1, 1, protocols);
    recv = rank->prepare(WEFT_DIRECTION_RECV, 1, 2, protocols);
    ASSERT_NE(send, nullptr);
    ASSERT_NE(recv, nullptr);
    peer->send("prepare");
    peer->send(std::to_string(step_bytes));
    for_send = peer->receive_bytes();
    for_recv = peer->receive_bytes();
    ASSERT_EQ(peer->receive(), "ok");
  }

  void tell_blobs(std::string_view command) {
    peer->send(command);
    peer->send(rank->blob(send));
    peer->send(rank->blob(recv));
  }

  /// Until both ends are done or one fails.
  weft_result connect_here() {
    weft_result sender = WEFT_IN_PROGRESS;
    weft_result receiver = WEFT_IN_PROGRESS;
    while (sender != WEFT_OK || receiver != WEFT_OK) {
      if (sender != WEFT_OK) sender = rank->connect(send, for_send);
      if (sender < 0) return sender;
      if (receiver != WEFT_OK) receiver = rank->connect(recv, for_recv);
      if (receiver < 0) return receiver;
      std::this_thread::yield();
    }
    return WEFT_OK;
  }

  void connect() {
    tell_blobs("connect");
    ASSERT_EQ(connect_here(), WEFT_OK) << rank->host().last_error().what;
    ASSERT_EQ(peer->receive(), "ok");
  }

  void echo(std::uint64_t steps) {
    peer->send("echo");
    peer->send(std::to_string(steps));
    send_pattern(rank->describe(send), steps, 1);
    EXPECT_EQ(receive_pattern(rank->describe(recv), steps, 2), 0U);
    EXPECT_EQ(peer->receive(), "ok");
  }

  void close() {
    rank->close(send);
    rank->close(recv);
  }

  void expect_nothing_left() const {
    EXPECT_EQ(count_descriptors(), descriptors);
    EXPECT_EQ(count_lines("/proc/self/maps", "memfd:weft"), 0U);
    EXPECT_TRUE(doors_of(::getpid()).empty());
    EXPECT_EQ(shm_files(), files);
  }

  weft_connection* send = nullptr;
  weft_connection* recv = nullptr;
  Bytes for_send;
  Bytes for_recv;
  std::uint64_t descriptors = count_descriptors();
  std::uint64_t files = shm_files();
};

TEST_F(ProcessTest, TellsWhetherItReachesAnotherProcess) {
  start("plain");
  if (IsSkipped()) return;
  const bool reaches = std::string(entry->id) != "p2p";
  EXPECT_EQ((mine.capabilities & WEFT_TRANSPORT_CAN_CONNECT) != 0, reaches) << mine.reason;
  EXPECT_EQ((their_capabilities & WEFT_TRANSPORT_CAN_CONNECT) != 0, reaches) << their_reason;
  const std::string reason = mine.reason;
  if (!reaches) {
    EXPECT_EQ(reason, "other process");
  } else if (rule_against_it().empty()) {
    EXPECT_EQ(reason, "same host, single copy possible");
  } else {
    EXPECT_TRUE(reason.starts_with("same host, no single copy: ")) << reason;
  }
}

TEST_F(ShmProcessTest, CarriesDataBothWays) {
  start("plain");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  ASSERT_NO_FATAL_FAILURE(connect());
  for (const pid_t pid : {::getpid(), peer->pid()})
    EXPECT_TRUE(doors_of(pid).empty()) << "nobody listens any more";
  echo(40);
  peer->send("close");
  EXPECT_EQ(peer->receive(), "ok");
  *rank->describe(send).tail = 0;  // Still there for its own rank.
  close();
  EXPECT_EQ(peer->finish(), 0);
  expect_nothing_left();
}

TEST_F(ShmProcessTest, ReadsThePeersMemoryInOneCopy) {
  start("plain");
  if (IsSkipped()) return;
  const std::string rule = rule_against_it();
  EXPECT_EQ((mine.capabilities & WEFT_TRANSPORT_SINGLE_COPY) != 0, rule.empty()) << mine.reason;
  if (!rule.empty()) GTEST_SKIP() << rule;
  ASSERT_NO_FATAL_FAILURE(prepare());
  weft_connection* const end = recv;
  char byte = 0;
  EXPECT_EQ(rank->table().read_peer(end, &byte, 0, 1), WEFT_ERROR_INVALID_USAGE);
  ASSERT_NO_FATAL_FAILURE(connect());
  const std::uint64_t address = address_of_theirs();
  Bytes bytes(std::size_t{3} << 20U);
  ASSERT_EQ(rank->table().read_peer(end, bytes.data(), address, bytes.size()), WEFT_OK);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    wrong += bytes[i] == static_cast<std::uint8_t>(i * 7) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(rank->table().read_peer(end, bytes.data(), 16, 8), WEFT_ERROR_SYSTEM);
  EXPECT_EQ(rank->host().last_error().native, EFAULT);
  peer->kill();
  EXPECT_EQ(rank->table().read_peer(end, bytes.data(), address, 8), WEFT_ERROR_PEER);
  EXPECT_NE(rank->host().last_error().what.find("rank 1"), std::string::npos);
  close();
  expect_nothing_left();
}

TEST_F(ShmProcessTest, PeerKilledInTheMiddleOfData) {
  start("plain");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  ASSERT_NO_FATAL_FAILURE(connect());
  peer->send("echo");
  peer->send("1000000");
  send_pattern(rank->describe(send), 8, 1);
  peer->kill();
  const weft_protocol_view view = rank->describe(send);
  std::memset(view.buffer, 1, std::size_t{view.steps} * view.step_bytes);
  rank->table().abort(rank->transport(), 9);
  close();
  expect_nothing_left();
}

TEST_F(ShmProcessTest, PeerKilledBeforeItConnects) {
  start("plain");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  peer->kill();
  EXPECT_EQ(rank->connect(send, for_send), WEFT_ERROR_PEER);
  EXPECT_NE(rank->host().last_error().what.find("rank 1"), std::string::npos);
  EXPECT_EQ(rank->connect(recv, for_recv), WEFT_ERROR_PEER);
  EXPECT_NE(rank->host().last_error().what.find("rank 1"), std::string::npos);
  close();
  expect_nothing_left();
}

TEST_F(ShmProcessTest, PeerKilledWhileConnecting) {
  start("plain");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  EXPECT_EQ(rank->connect(recv, for_recv), WEFT_IN_PROGRESS);
  EXPECT_EQ(rank->connect(send, for_send), WEFT_IN_PROGRESS);
  tell_blobs("connect-once");  // Greets our sender, and asks our receiver for a hello.
  ASSERT_EQ(peer->receive(), "ok");
  peer->kill();
  weft_result result = WEFT_IN_PROGRESS;
  while (result == WEFT_IN_PROGRESS)
    result = rank->connect(recv, for_recv);
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  result = WEFT_IN_PROGRESS;
  while (result == WEFT_IN_PROGRESS)
    result = rank->connect(send, for_send);
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  close();
  expect_nothing_left();
}

TEST_F(ShmProcessTest, MemfdRefused) {
  start("no-memfd");
  if (IsSkipped()) return;
  peer->send("prepare");
  peer->send("4096");
  const std::string reply = peer->receive();
  EXPECT_NE(reply.find("memfd_create"), std::string::npos) << reply;
  EXPECT_NE(reply.find("EPERM"), std::string::npos) << reply;
  EXPECT_NE(reply.find("rank 0"), std::string::npos) << reply;
  EXPECT_NE(reply.find("transports.order"), std::string::npos) << reply;
}

TEST_F(ShmProcessTest, WorksWithoutPidfd) {
  start("no-pidfd");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  ASSERT_NO_FATAL_FAILURE(connect());
  echo(20);
  close();
}

TEST_F(ShmProcessTest, SingleCopyForbidden) {
  start("no-single-copy");
  if (IsSkipped()) return;
  EXPECT_EQ(their_capabilities, std::uint64_t{WEFT_TRANSPORT_CAN_CONNECT});
  EXPECT_EQ(their_reason, kNoSingleCopy);
}

TEST_F(ShmProcessTest, SmallMountOfSharedMemory) {
  start("small-shm");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(
      prepare(16U << 20U));  // 128 MiB for each direction, in a place with a mount of 64 MiB.
  ASSERT_NO_FATAL_FAILURE(connect());
  echo(9);
  close();
}

TEST_F(ShmProcessTest, NoMountOfSharedMemory) {
  start("without-shm");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  ASSERT_NO_FATAL_FAILURE(connect());
  echo(20);
  close();
}

TEST_F(ShmProcessTest, OtherNetworkNamespace) {
  start("other-network");
  if (IsSkipped()) return;
  EXPECT_EQ(mine.capabilities, 0U);
  EXPECT_EQ(their_capabilities, 0U);
  EXPECT_NE(their_reason.find("network namespace"), std::string::npos) << their_reason;
}

TEST_F(ShmProcessTest, OtherUser) {
  start("other-user");
  if (IsSkipped()) return;
  EXPECT_EQ(mine.capabilities, 0U);
  EXPECT_NE(std::string(mine.reason).find("user 65534"), std::string::npos) << mine.reason;
}

int knock(const std::string& name) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), size), 0);
  return socket;
}

TEST_F(ShmProcessTest, StrangersAreTurnedAway) {
  start("plain");
  if (IsSkipped()) return;
  ASSERT_NO_FATAL_FAILURE(prepare());
  std::vector<int> strangers;
  std::vector<std::string> doors = doors_of(::getpid());
  std::ranges::copy(doors_of(peer->pid()), std::back_inserter(doors));
  for (const std::string& name : doors) {
    const int silent = knock(name);
    const int loud = knock(name);
    ::send(loud, "GET / HTTP/1.1", 14, MSG_NOSIGNAL);
    const int exact = knock(name);  // As long as a request, but not one.
    const std::string request(80, 'x');
    ::send(exact, request.data(), request.size(), MSG_NOSIGNAL);
    strangers.insert(strangers.end(), {silent, loud, exact});
  }
  EXPECT_EQ(strangers.size(), 6U);
  ASSERT_NO_FATAL_FAILURE(connect());
  echo(10);
  for (const int stranger : strangers) {
    // All it got is a greeting, and no descriptor.
    char bytes[256];
    char control[256];
    for (;;) {
      iovec part{.iov_base = bytes, .iov_len = sizeof(bytes)};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      if (::recvmsg(stranger, &message, 0) <= 0) break;
      EXPECT_EQ(message.msg_controllen, 0U);
    }
    ::close(stranger);
  }
  close();
  peer->finish();
  expect_nothing_left();
}

TEST_F(ShmProcessTest, AnotherSecretIsNotEnough) {
  Key other = default_key();
  other[5] ^= 1U;
  Rank stranger(entry, {.rank = 1, .key = other});
  EXPECT_EQ(rank->can_connect(1, stranger.peer_info()).capabilities, 0U);
  recv = rank->prepare(WEFT_DIRECTION_RECV, 1, 1, {Protocol{}});
  send = stranger.prepare(WEFT_DIRECTION_SEND, 0, 1, {Protocol{}});
  EXPECT_EQ(stranger.connect(send, rank->blob(recv)), WEFT_ERROR_PEER);
  EXPECT_EQ(rank->connect(recv, stranger.blob(send)), WEFT_ERROR_PEER);
  stranger.close(send);
  rank->close(recv);
}

}  // namespace
}  // namespace weft::test
