// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Strangers who talk to every port that a job listens at, while it comes together and while it
// works: it takes no notice.

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/job.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

std::vector<std::string> words_of_strangers() {
  std::string noise(5000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<char>(i * 131 + (i >> 3));
  return {
      "",  // says nothing and stays
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(64, '\xff'),  // huge lengths, whatever the framing
      std::string(64, '\0'),
      "W",  // the beginning of something
      "WEFT" + std::string(12, '\x7f'),
      noise,
  };
}

/// Talks to every port of some processes until it is destroyed.
class Strangers {
 public:
  explicit Strangers(std::vector<pid_t> pids)
      : pids_(std::move(pids)), thread_([this] { pester(); }) {}
  ~Strangers() {
    stop_ = true;
    thread_.join();
    for (const int fd : held_)
      close(fd);
  }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;
  /// Waits until they have said everything once more; false if nobody listens to them.
  [[nodiscard]] bool speak_on() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const int enough = heard_ + 2 * static_cast<int>(words_of_strangers().size());
    while (heard_ < enough && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return heard_ >= enough;
  }

 private:
  void pester() {
    const auto words = words_of_strangers();
    while (!stop_) {
      for (const pid_t pid : pids_) {
        for (const auto& [port, v6] : listening_ports(pid)) {
          for (const auto& word : words)
            say(port, v6, word);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void say(std::uint16_t port, bool v6, const std::string& word) {
    const int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    // A port that is bound to one address of this host is not reached by loopback: no harm.
    sockaddr_in v4_address{};
    v4_address.sin_family = AF_INET;
    v4_address.sin_port = htons(port);
    v4_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6_address{};
    v6_address.sin6_family = AF_INET6;
    v6_address.sin6_port = htons(port);
    v6_address.sin6_addr = in6addr_loopback;
    const int connecting =
        v6 ? connect(fd, reinterpret_cast<const sockaddr*>(&v6_address), sizeof(v6_address))
           : connect(fd, reinterpret_cast<const sockaddr*>(&v4_address), sizeof(v4_address));
    pollfd entry{.fd = fd, .events = POLLOUT, .revents = 0};
    if (connecting != 0) static_cast<void>(poll(&entry, 1, 100));
    sockaddr_storage there{};
    socklen_t length = sizeof(there);
    const bool heard = getpeername(fd, reinterpret_cast<sockaddr*>(&there), &length) == 0 &&
                       (word.empty() || send(fd, word.data(), word.size(), MSG_NOSIGNAL) > 0);
    if (heard) ++heard_;
    // Half of them stay on the line, up to a point.
    if (heard_ % 2 == 0 && held_.size() < 200) {
      held_.push_back(fd);
    } else {
      close(fd);
    }
  }

  std::vector<pid_t> pids_;
  std::vector<int> held_;
  std::atomic<bool> stop_{false};
  std::atomic<int> heard_{0};
  std::thread thread_;
};

class StrayBytes : public testing::TestWithParam<const char*> {};

TEST_P(StrayBytes, HarmNobody) {
  Environment environment{{"WEFT_TRANSPORTS_ORDER", GetParam()},
                          {"WEFT_TRANSPORTS_NET", "net-socket"},
                          // Strangers reach what listens on the loopback interface.
                          {"WEFT_BOOTSTRAP_INTERFACES", "=lo"},
                          {"WEFT_NET_SOCKET_INTERFACES", "=lo"}};
  Job job(3, environment);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 3; ++rank)
    pids.push_back(job[rank].pid());
  Strangers strangers(pids);
  for (int round = 0; round < (kSanitized ? 2 : 5); ++round) {
    const std::string id = job[0].ask("id");
    ASSERT_TRUE(id.starts_with("id: ok ")) << id;
    // The last rank comes when every port of the others was found and spoken to.
    for (const int rank : {2, 1, 0}) {
      ASSERT_TRUE(strangers.speak_on()) << round;
      job[rank].tell("join " + id.substr(7) + " 3 " + std::to_string(rank));
    }
    for (int rank = 0; rank < 3; ++rank)
      ASSERT_EQ(job[rank].answer(), "join: ok ");
    for (int call = 0; call < 5; ++call) {
      for (const auto& answer : job.ask_all("call all_reduce 300000"))
        ASSERT_EQ(answer, "call: ok 0 wrong");
    }
    for (const auto& answer : job.ask_all("destroy"))
      ASSERT_EQ(answer, "destroy: ok ");
  }
  EXPECT_EQ(job.end(), "");
}

INSTANTIATE_TEST_SUITE_P(Jobs, StrayBytes, testing::Values("shm", "net"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace weft::test
