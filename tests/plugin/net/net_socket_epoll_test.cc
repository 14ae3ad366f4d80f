// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What net-socket has epoll watch, and when it asks for what epoll has seen.
#include <algorithm>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <set>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/net-socket/socket.h"
#include "plugins/net-socket/wire.h"
#include "tests/plugin/net/net_rank.h"
#include "tests/plugin/net/own_sockets.h"

namespace weft::test {
namespace {

bool can_read(int fd, int milliseconds) {
  pollfd look{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, milliseconds) == 1;
}

/// The descriptor for sleepers, once all that it tells of has been heard.
int quiet_descriptor(NetRank& rank) {
  std::int32_t descriptor = -1;
  EXPECT_TRUE(eventually([&] {
    const weft_result armed = rank.api().arm(rank.net(), &descriptor);
    rank.poll();
    return armed == WEFT_OK && !can_read(descriptor, 0);
  }));
  return descriptor;
}

/// Keeps sockets open, as a process does that was forked while they were.
class Forked {
 public:
  explicit Forked(const std::set<int>& sockets) {
    for (const int fd : sockets)
      held_.push_back(::dup(fd));
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() {
    for (const int fd : held_)
      ::close(fd);
  }
  [[nodiscard]] const std::vector<int>& held() const { return held_; }
  /// Each of them has something that epoll tells of whom it watches.
  [[nodiscard]] bool all_can_read() const {
    return std::ranges::all_of(held_, [](int fd) { return can_read(fd, 10'000); });
  }

 private:
  std::vector<int> held_;
};

int call_listener(const weft_blob& handle) {
  const auto decoded =
      net_socket::decode_handle({static_cast<const std::uint8_t*>(handle.data), handle.size});
  const net_socket::Address address(decoded->addresses.front(), 0);
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(fd, address.raw(), address.size()), 0);
  return fd;
}

TEST(NetSocketForks, KeepNoListenerWatched) {
  NetRank rank({.parameters = {{"interfaces", "=lo"}, {"family", "ipv4"}}});
  rank.device();
  const std::set<int> before = own_sockets();
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  ASSERT_EQ(rank.api().listen(rank.net(), 0, &handle, &listener), WEFT_OK);
  const Forked door(own_sockets(before));
  std::set<int> known = own_sockets();
  const int stranger = call_listener(handle);
  known.insert(stranger);
  weft_net_connection* accepted = nullptr;
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(rank.api().accept(listener, &accepted), WEFT_IN_PROGRESS);
    return !own_sockets(known).empty();
  }));
  const Forked caller(own_sockets(known));
  const int descriptor = quiet_descriptor(rank);
  const int other = call_listener(handle);
  rank.api().close_listener(listener);
  ASSERT_TRUE(door.all_can_read());
  EXPECT_FALSE(can_read(descriptor, 0));
  EXPECT_EQ(::send(stranger, "x", 1, MSG_NOSIGNAL), 1);
  ASSERT_TRUE(caller.all_can_read());
  EXPECT_FALSE(can_read(descriptor, 0));
  ::close(stranger);
  ::close(other);
}

TEST(NetSocketForks, KeepNoConnectionWatched) {
  for (const bool closed : {true, false}) {
    NetRank a({.parameters = {{"interfaces", "=lo"}}});
    NetRank b({.parameters = {{"interfaces", "=lo"}}});
    const std::set<int> before = own_sockets();
    Link link = make_link(a, b);
    const Forked both(own_sockets(before));
    if (closed) {
      link.sender.close();
      link.receiver.close();
    } else {
      a.api().abort(a.net());
      b.api().abort(b.net());
    }
    const std::vector<int> descriptors = {quiet_descriptor(a), quiet_descriptor(b)};
    for (const int fd : both.held())
      EXPECT_EQ(::send(fd, "x", 1, MSG_NOSIGNAL), 1);
    ASSERT_TRUE(both.all_can_read());
    for (const int descriptor : descriptors)
      EXPECT_FALSE(can_read(descriptor, 0)) << (closed ? "closed" : "failed");
  }
}

/// A rank that awaits one message, which comes at once only if polls do not ask epoll first, and
/// has a connection that sends.
struct Awaiting {
  explicit Awaiting(const std::string& peer_timeout)
      : rank({.parameters = {{"interfaces", "=lo"}, {"peer_timeout", peer_timeout}}}) {
    const std::set<int> before = own_sockets();
    sending = make_link(rank, peer);
    sockets = own_sockets(before);
    awaited = make_link(peer, rank);
    resting = make_link(peer, rank);
    EXPECT_EQ(awaited.receiver.receive(room, 1), WEFT_OK);
  }

  /// Whether a poll hears from epoll what came over a connection of which nobody waits for
  /// anything.
  bool poll_asks_epoll() {
    const int descriptor = quiet_descriptor(rank);
    EXPECT_EQ(resting.sender.send(stray, 1000), WEFT_OK);
    await(peer, peer, 1000);
    EXPECT_TRUE(can_read(descriptor, 10'000));
    rank.poll();
    return !can_read(descriptor, 0);
  }

  /// Sends until the kernel takes no more, by messages that are a segment each: it has no part of
  /// the last one, whose request this answers. Nothing that is sent arrives.
  weft_net_request* fill() {
    cut(sockets);
    queued_before = queued();
    data.resize(info_of(*sockets.begin()).tcpi_snd_mss - net_socket::kHeaderBytes);
    for (std::uint64_t user = 2;; ++user) {
      weft_net_request* request = nullptr;
      EXPECT_EQ(sending.sender.send(data, user, 0, 0, &request), WEFT_OK);
      rank.poll();
      if (!rank.take(user)) return request;
    }
  }

  /// Whether the kernel has whole messages only: where it is short of memory, it takes parts.
  [[nodiscard]] bool filled_by_whole_messages() const {
    return (queued() - queued_before) % (data.size() + net_socket::kHeaderBytes) == 0;
  }

  /// Bytes that the kernel keeps because nobody acknowledged them.
  [[nodiscard]] std::uint64_t queued() const {
    std::uint64_t sum = 0;
    for (const int fd : sockets) {
      int bytes = 0;
      EXPECT_EQ(::ioctl(fd, SIOCOUTQ, &bytes), 0);
      sum += static_cast<std::uint64_t>(bytes);
    }
    return sum;
  }

  Bytes room = Bytes(1);
  Bytes data;
  Bytes stray = Bytes(1);
  std::set<int> sockets;
  std::uint64_t queued_before = 0;
  NetRank rank;
  NetRank peer{{.parameters = {{"interfaces", "=lo"}}}};
  Link sending;
  Link awaited;
  Link resting;
};

// A send of which the kernel has a part is not taken back: then once more.
TEST(NetSocketPoll, AsksEpollNoMoreOnceTheLastSendIsTakenBack) {
  for (int scenes = 0; scenes < 20; ++scenes) {
    Awaiting scene("60s");
    EXPECT_FALSE(scene.poll_asks_epoll());
    weft_net_request* last = scene.fill();
    // A try may be too soon: a timer wakes, too.
    EXPECT_TRUE(eventually([&] { return scene.poll_asks_epoll(); }));
    if (!scene.filled_by_whole_messages()) continue;
    ASSERT_EQ(scene.rank.api().cancel(last), WEFT_OK);
    EXPECT_FALSE(scene.poll_asks_epoll());
    return;
  }
  FAIL() << "the kernel took a part of each";
}

TEST(NetSocketPoll, AsksEpollNoMoreForAConnectionWhoseTimeIsOver) {
  Awaiting scene("1s");
  scene.fill();
  EXPECT_TRUE(eventually([&] {
    scene.rank.poll();
    return scene.sending.sender.error_text() != "";
  }));
  EXPECT_NE(scene.sending.sender.error_text().find("peer_timeout"), std::string::npos)
      << scene.sending.sender.error_text();
  EXPECT_FALSE(scene.poll_asks_epoll());
}

}  // namespace
}  // namespace weft::test
