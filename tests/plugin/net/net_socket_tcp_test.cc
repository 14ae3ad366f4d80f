// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What net-socket asks of TCP, seen at its sockets: how many, how many segments a message takes,
// and how the end of a path is found out.
#include <algorithm>
#include <chrono>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/net-socket/devices.h"
#include "plugins/net-socket/socket.h"
#include "tests/plugin/net/net_rank.h"
#include "tests/plugin/net/own_sockets.h"

namespace weft::test {
namespace {

using Parameters = std::map<std::string, std::string>;
using net_socket::Interface;
using net_socket::Keepalive;
using net_socket::keepalive_of;
using net_socket::streams_by_cost;

/// Two ranks joined over loopback, and the sockets of both ends.
struct Joined {
  explicit Joined(Parameters parameters = {}) {
    parameters["interfaces"] = "=lo";
    a = std::make_unique<NetRank>(NetRank::Options{.rank = 0, .parameters = parameters});
    b = std::make_unique<NetRank>(NetRank::Options{.rank = 1, .parameters = parameters});
    const std::set<int> before = own_sockets();
    link = make_link(*a, *b);
    sockets = own_connections(before);
  }

  /// Segments with data that left so far. Acknowledgements do not count, nor what was sent again:
  /// the kernel does that when one is late, as on a busy machine.
  [[nodiscard]] std::uint64_t segments() const {
    std::uint64_t sum = 0;
    for (const int fd : sockets) {
      const tcp_info info = info_of(fd);
      sum += info.tcpi_data_segs_out - info.tcpi_total_retrans;
    }
    return sum;
  }

  std::unique_ptr<NetRank> a;
  std::unique_ptr<NetRank> b;
  Link link;
  std::set<int> sockets;
};

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

TEST(NetSocketSegments, OneCarriesASmallMessageAndItsHeader) {
  Joined joined;
  for (const std::size_t size : {0UL, 1UL, 8UL, 4096UL, 16384UL}) {
    const Bytes data = pattern(size, size);
    Bytes room(size);
    const std::uint64_t before = joined.segments();
    constexpr int kMessages = 20;
    for (int i = 0; i < kMessages; ++i) {
      Link& link = joined.link;
      link.receiver.must_receive(link.sender, room, 1);
      link.sender.must_send(link.receiver, data, 2);
      EXPECT_EQ(await(*joined.b, *joined.a, 1).status, WEFT_OK);
      EXPECT_EQ(await(*joined.a, *joined.b, 2).status, WEFT_OK);
    }
    EXPECT_EQ(joined.segments() - before, kMessages) << size << " bytes";
  }
}

TEST(NetSocketStreams, AreAsManyAsPay) {
  Interface interface;
  interface.name = "eth0";
  interface.speed_mbps = 10'000;
  EXPECT_EQ(streams_by_cost(interface, false, 64), 1U);
  interface.speed_mbps = 100'000;
  EXPECT_EQ(streams_by_cost(interface, false, 64), 5U);
  EXPECT_EQ(streams_by_cost(interface, false, 2), 2U) << "no more than processors";
  EXPECT_EQ(streams_by_cost(interface, true, 64), 1U) << "a peer on this host";
  interface.speed_mbps = 1'600'000;
  EXPECT_EQ(streams_by_cost(interface, false, 128), net_socket::kMaxStreams);
  interface.speed_mbps = 0;
  EXPECT_EQ(streams_by_cost(interface, false, 64), net_socket::kStreamsUnknown);
  EXPECT_EQ(streams_by_cost(interface, false, 0), 1U) << "processors unknown";
  interface.loopback = true;
  EXPECT_EQ(streams_by_cost(interface, false, 64), 1U);
}

TEST(NetSocketStreams, OfOneConnectionAreThatMany) {
  EXPECT_EQ(Joined().sockets.size(), 2U) << "one stream over loopback, both ends of it";
  EXPECT_EQ(Joined(Parameters{{"streams", "3"}}).sockets.size(), 6U);
}

std::string congestion_of(int fd) {
  char name[32] = "";
  socklen_t size = sizeof name;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  return name;
}

TEST(NetSocketCongestion, IsTheOneThatWasAskedFor) {
  // The one that every kernel has, at the sending end.
  const Joined joined(Parameters{{"congestion", "reno"}});
  EXPECT_EQ(std::ranges::count(joined.sockets, "reno", congestion_of) >= 1, true);
  // Whatever the system's is, nothing paces between ranks of one host.
  const Joined local;
  EXPECT_TRUE(std::ranges::any_of(local.sockets, [](int fd) {
    return congestion_of(fd) == "cubic" || congestion_of(fd) == "reno";
  }));
}

TEST(NetSocketCongestion, UnknownIsAnErrorThatSaysWhereToLook) {
  NetRank rank(
      NetRank::Options{.rank = 0, .parameters = {{"interfaces", "=lo"}, {"congestion", "nosuch"}}});
  EXPECT_EQ(rank.opened(), WEFT_ERROR_CONFIG);
  EXPECT_NE(rank.host().last_error().what.find("nosuch"), std::string::npos);
  EXPECT_NE(rank.host().last_error().hint.find("tcp_allowed_congestion_control"),
            std::string::npos);
}

TEST(NetSocketKeepalive, StaysWithinItsBound) {
  for (const int seconds : {0, 1, 4, 5, 7, 10, 11, 60, 3600}) {
    const Keepalive probes = keepalive_of(std::chrono::seconds(seconds));
    EXPECT_LE(probes.idle + (probes.interval * probes.count), std::max(seconds, 4)) << seconds;
    EXPECT_GE(probes.idle, 1) << seconds;
    EXPECT_GE(probes.interval, 1) << seconds;
    EXPECT_GE(probes.count, 3) << seconds << ": lost packets must not end a connection";
  }
  EXPECT_EQ(keepalive_of(std::chrono::milliseconds(4900)).idle, 1);
}

TEST(NetSocketKeepalive, IsSetOnEveryStreamOfBothEnds) {
  const Joined joined(Parameters{{"peer_timeout", "20s"}, {"streams", "2"}});
  EXPECT_EQ(joined.sockets.size(), 4U);
  for (const int fd : joined.sockets) {
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_LE(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option(fd, IPPROTO_TCP, TCP_KEEPCNT),
              20);
  }
}

TEST(NetSocketKeepalive, TellsBothIdleEndsThatThePathIsGone) {
  Joined joined(Parameters{{"peer_timeout", "1s"}});
  Joined other(Parameters{{"peer_timeout", "1s"}});
  cut(joined.sockets);
  for (const End* end : {&joined.link.sender, &joined.link.receiver}) {
    EXPECT_TRUE(eventually([&] { return end->rank().api().ready(end->get()) < 0; }));
    EXPECT_NE(end->error_text().find("127.0.0.1:"), std::string::npos) << end->error_text();
    EXPECT_NE(end->error_text().find("check the path"), std::string::npos) << end->error_text();
  }
  // A connection that nobody cut answers all probes.
  EXPECT_EQ(other.a->api().ready(other.link.sender.get()), WEFT_OK);
  EXPECT_EQ(other.b->api().ready(other.link.receiver.get()), WEFT_OK);
}

TEST(NetSocketKeepalive, EndsAReceiveThatWaits) {
  Joined joined(Parameters{{"peer_timeout", "1s"}});
  Bytes room(100);
  joined.link.receiver.must_receive(joined.link.sender, room, 1);
  cut(joined.sockets);
  EXPECT_LT(await(*joined.b, *joined.a, 1).status, 0);
  EXPECT_NE(joined.link.receiver.error_text().find("Connection timed out"), std::string::npos)
      << joined.link.receiver.error_text();
}

TEST(NetSocketPeerTimeout, TellsASenderWhoseBytesNobodyAcknowledges) {
  Joined joined(Parameters{{"peer_timeout", "1s"}});
  const Bytes data = pattern(100, 1);
  cut(joined.sockets);
  joined.link.sender.must_send(joined.link.receiver, data, 1);
  EXPECT_EQ(await(*joined.a, *joined.b, 1).status, WEFT_OK) << "the kernel has taken it";
  EXPECT_TRUE(eventually([&] { return joined.a->api().ready(joined.link.sender.get()) < 0; }));
  EXPECT_NE(joined.link.sender.error_text().find("peer_timeout"), std::string::npos)
      << joined.link.sender.error_text();
}

TEST(NetSocketPeerTimeout, DoesNotCountTheTimeInWhichNobodyPolled) {
  Joined joined(Parameters{{"peer_timeout", "1s"}});
  NetRank& rank = *joined.a;
  const Bytes data = pattern(100, 1);
  pollfd news{.fd = -1, .events = POLLIN, .revents = 0};
  do {
    ASSERT_EQ(rank.api().arm(rank.net(), &news.fd), WEFT_OK);
    rank.poll();
  } while (::poll(&news, 1, 0) == 1);

  // The timer finds that something is owed,
  cut(joined.sockets);
  ASSERT_EQ(joined.link.sender.send(data, 1), WEFT_OK);
  ASSERT_EQ(rank.api().arm(rank.net(), &news.fd), WEFT_AGAIN) << "it is done with the send";
  rank.poll();
  ASSERT_EQ(rank.api().arm(rank.net(), &news.fd), WEFT_OK);
  ASSERT_EQ(::poll(&news, 1, 60'000), 1);
  rank.poll();
  ASSERT_EQ(joined.link.sender.error_text(), "");
  // which is answered then. For long after that nobody looks, but less than until a probe.
  mend(joined.sockets);
  const auto answered_for_long = [](int fd) {
    const tcp_info info = info_of(fd);
    return info.tcpi_unacked == 0 && info.tcpi_last_ack_recv > 800;
  };
  ASSERT_TRUE(eventually([&] { return std::ranges::all_of(joined.sockets, answered_for_long); }));

  const auto start = std::chrono::steady_clock::now();
  cut(joined.sockets);
  ASSERT_EQ(joined.link.sender.send(data, 2), WEFT_OK);
  EXPECT_TRUE(eventually([&] { return rank.api().ready(joined.link.sender.get()) < 0; }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1))
      << joined.link.sender.error_text();
}

/// The socket that asks ever more seldom whether its peer takes more, as while that rank computes;
/// -1 while none has done so `often`, or an answer is due.
int asking(const Joined& joined, std::uint32_t often) {
  const auto asks = [often](int fd) {
    const tcp_info info = info_of(fd);
    return info.tcpi_backoff >= often && info.tcpi_probes == 0 && info.tcpi_unacked == 0;
  };
  const auto found = std::ranges::find_if(joined.sockets, asks);
  return found == joined.sockets.end() ? -1 : *found;
}

TEST(NetSocketPeerTimeout, DoesNotCountOneProbeThatWasLost) {
  // Long enough for the probes of the other end to be answered again in time.
  Joined joined(Parameters{{"peer_timeout", "5s"}});
  const End& sender = joined.link.sender;
  const Bytes data = pattern(std::size_t{64} << 20, 1);
  ASSERT_EQ(joined.link.sender.send(data, 1), WEFT_OK);
  int socket = -1;
  ASSERT_TRUE(eventually([&] {
    joined.a->poll();
    socket = asking(joined, 4);
    return socket >= 0;
  }));
  cut({socket});
  ASSERT_TRUE(eventually([&] {
    joined.a->poll();
    return info_of(socket).tcpi_probes > 0;
  }));
  mend({socket});
  // The next one is answered.
  EXPECT_TRUE(eventually([&] {
    joined.a->poll();
    return !sender.error_text().empty() || info_of(socket).tcpi_probes == 0;
  }));
  EXPECT_EQ(sender.error_text(), "");
}

TEST(NetSocketPeerTimeout, TellsASenderWhosePeerTakesNothingAndIsGone) {
  Joined joined(Parameters{{"peer_timeout", "1s"}});
  const Bytes data = pattern(std::size_t{64} << 20, 1);
  ASSERT_EQ(joined.link.sender.send(data, 1), WEFT_OK);
  ASSERT_TRUE(eventually([&] {
    joined.a->poll();
    return asking(joined, 1) >= 0;
  }));
  cut(joined.sockets);
  EXPECT_LT(await(*joined.a, *joined.b, 1).status, 0);
  EXPECT_NE(joined.link.sender.error_text().find("peer_timeout"), std::string::npos)
      << joined.link.sender.error_text();
}

}  // namespace
}  // namespace weft::test
