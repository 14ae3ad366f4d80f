// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What net-socket promises beyond net.h: the interfaces that a selection names, strangers on its
// port, keys, messages of errors.
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <span>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "plugins/net-socket/devices.h"
#include "plugins/net-socket/listener.h"
#include "plugins/net-socket/net.h"
#include "plugins/net-socket/wire.h"
#include "tests/plugin/net/net_rank.h"
#include "tests/support/fake_host.h"
#include "tests/support/sanitized.h"

namespace {

/// So many files the system has left for accept4 of what is linked in here; -1: enough.
int files_left = -1;

}  // namespace

extern "C" int __real_accept4(int socket, sockaddr* address, socklen_t* size, int flags);

/// As Linux does, which wants a file before it looks whether anybody calls.
extern "C" int __wrap_accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  if (files_left == 0) {
    errno = ENFILE;
    return -1;
  }
  if (files_left > 0) --files_left;
  return __real_accept4(socket, address, size, flags);
}

namespace weft::test {
namespace {

using net_socket::Address;
using net_socket::Family;
using net_socket::Interface;

Interface make_interface(const std::string& name, const char* ipv4) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, ipv4, &address.sin_addr);
  Interface interface;
  interface.name = name;
  interface.loopback = name == "lo";
  interface.ipv4 = Address(reinterpret_cast<sockaddr*>(&address), sizeof address);
  return interface;
}

std::vector<std::string> chosen(const std::vector<std::string>& patterns) {
  const auto result = net_socket::select_interfaces(
      {make_interface("lo", "127.0.0.1"), make_interface("docker0", "172.17.0.1"),
       make_interface("eth0", "10.0.0.1"), make_interface("eth01", "10.0.1.1"),
       make_interface("ib0", "10.0.2.1")},
      patterns, Family::kAny);
  std::vector<std::string> names;
  if (result) {
    for (const Interface& interface : *result)
      names.push_back(interface.name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(NetSocketInterfaces, AreChosenByPattern) {
  EXPECT_EQ(chosen({}), (Names{"eth0", "eth01", "ib0", "docker0", "lo"}));
  EXPECT_EQ(chosen({"eth"}), (Names{"eth0", "eth01"}));
  EXPECT_EQ(chosen({"=eth0"}), (Names{"eth0"}));
  EXPECT_EQ(chosen({"^docker"}), (Names{"eth0", "eth01", "ib0", "lo"}));
  EXPECT_EQ(chosen({"^=eth0", "eth"}), (Names{"eth01"}));
  EXPECT_EQ(chosen({"ib", "=eth0"}), (Names{"ib0", "eth0"}));
  EXPECT_EQ(chosen({"wlan"}), Names{});
}

// As while the kernel still asks whether another host has that address, or once one has said so.
TEST(NetSocketInterfaces, WithAnAddressThatCannotBeUsedListenAtTheOther) {
  const FakeHost host;
  const std::vector<std::uint8_t> key(32, 1);
  auto net = net_socket::Net::open(net_socket::Host(host.services()), {}, key);
  ASSERT_TRUE(net);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  ::inet_pton(AF_INET6, "2001:db8::1", &address.sin6_addr);
  Interface interface = make_interface("lo", "127.0.0.1");
  interface.ipv6 = Address(reinterpret_cast<sockaddr*>(&address), sizeof address);
  {
    const auto listener = net_socket::Listener::listen(**net, interface);
    ASSERT_TRUE(listener) << listener.error().what;
    const auto handle = net_socket::decode_handle((*listener)->handle());
    ASSERT_TRUE(handle);
    ASSERT_EQ(handle->addresses.size(), 1U);
    EXPECT_EQ(handle->addresses.front().family, 4);
  }
  interface.ipv4 = {};
  const auto listener = net_socket::Listener::listen(**net, interface);
  ASSERT_FALSE(listener);
  EXPECT_NE(listener.error().what.find("2001:db8::1"), std::string::npos);
}

TEST(NetSocketListener, MayHaveTakenTheLastFileOfTheSystem) {
  const FakeHost host;
  const std::vector<std::uint8_t> key(32, 1);
  auto net = net_socket::Net::open(net_socket::Host(host.services()), {}, key);
  ASSERT_TRUE(net);
  const auto listener = net_socket::Listener::listen(**net, make_interface("lo", "127.0.0.1"));
  ASSERT_TRUE(listener) << listener.error().what;
  const auto handle = net_socket::decode_handle((*listener)->handle());
  ASSERT_TRUE(handle);
  const Address address(handle->addresses.front(), 0);
  const int caller = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(caller, address.raw(), address.size()), 0);
  files_left = 1;
  const auto accepted = (*listener)->accept();
  EXPECT_EQ(files_left, 0);
  files_left = -1;
  EXPECT_TRUE(accepted) << accepted.error().what;
  ::close(caller);
}

TEST(NetSocketInterfaces, ThatMatchNothingAreAnErrorThatListsAll) {
  NetRank rank({.parameters = {{"interfaces", "nosuch0"}}});
  const weft_net_device* devices = nullptr;
  std::uint64_t stride = 0;
  std::uint64_t count = 0;
  EXPECT_EQ(rank.api().devices(rank.net(), &devices, &stride, &count), WEFT_ERROR_CONFIG);
  const std::string what = rank.host().last_error().what;
  EXPECT_NE(what.find("nosuch0"), std::string::npos) << what;
  EXPECT_NE(what.find("lo (127.0.0.1"), std::string::npos) << what;
}

/// A listening rank on loopback, and its address as a stranger would find it.
struct Port {
  Port() {
    rank.device();
    EXPECT_EQ(rank.api().listen(rank.net(), 0, &blob, &listener), WEFT_OK);
    const auto* bytes = static_cast<const std::uint8_t*>(blob.data);
    handle.assign(bytes, bytes + blob.size);
  }
  ~Port() { rank.api().close_listener(listener); }

  [[nodiscard]] int stranger() const {
    const auto decoded = net_socket::decode_handle(handle);
    const Address address(decoded->addresses.front(), 0);
    const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, address.raw(), address.size()), 0);
    return fd;
  }
  weft_result accept() { return rank.api().accept(listener, &accepted); }

  NetRank rank{{.parameters = {{"interfaces", "=lo"}}}};
  weft_blob blob{};
  weft_net_listener* listener = nullptr;
  weft_net_connection* accepted = nullptr;
  Bytes handle;
};

/// Connects a true sender to the port and closes both ends again.
void expect_sender_gets_in(Port& port) {
  NetRank sender({.parameters = {{"interfaces", "=lo"}, {"streams", "3"}}});
  sender.device();
  weft_net_connection* from = nullptr;
  ASSERT_GE(sender.api().connect(sender.net(), 0, {port.handle.data(), port.handle.size()}, &from),
            0);
  weft_result accepted = WEFT_IN_PROGRESS;
  weft_result ready = WEFT_IN_PROGRESS;
  EXPECT_TRUE(eventually([&] {
    if (accepted == WEFT_IN_PROGRESS) accepted = port.accept();
    if (ready == WEFT_IN_PROGRESS) ready = sender.api().ready(from);
    return accepted != WEFT_IN_PROGRESS && ready != WEFT_IN_PROGRESS;
  }));
  EXPECT_EQ(accepted, WEFT_OK) << port.rank.host().last_error().what;
  EXPECT_EQ(ready, WEFT_OK) << sender.host().last_error().what;
  if (accepted == WEFT_OK) port.rank.api().close_connection(port.accepted);
  sender.api().close_connection(from);
}

TEST(NetSocketStrangers, WithStrayBytesAreTurnedAway) {
  Port port;
  std::vector<int> strangers;
  for (std::size_t i = 0; i < 20; ++i) {
    strangers.push_back(port.stranger());
    const Bytes garbage = pattern(i * 13, i);
    ::send(strangers.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    EXPECT_EQ(port.accept(), WEFT_IN_PROGRESS);
  }
  expect_sender_gets_in(port);
  EXPECT_GT(port.rank.host().counter("strangers_total"), 0U);
  for (const int fd : strangers)
    ::close(fd);
}

TEST(NetSocketStrangers, ThatStallDoNotKeepTheSenderOut) {
  Port port;
  std::vector<int> strangers;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(port.stranger());
    EXPECT_EQ(port.accept(), WEFT_IN_PROGRESS);
  }
  // Of a hundred that say nothing, sixty-four are kept at most.
  EXPECT_LE(open_descriptors() - before, 100U + 64U);
  expect_sender_gets_in(port);
  for (const int fd : strangers)
    ::close(fd);
}

TEST(NetSocketStrangers, AreDroppedWhenTheirTimeIsOver) {
  Port port;
  NetRank quick({.parameters = {{"interfaces", "=lo"}, {"connect_timeout", "20ms"}}});
  quick.device();
  weft_blob blob{};
  weft_net_listener* listener = nullptr;
  ASSERT_EQ(quick.api().listen(quick.net(), 0, &blob, &listener), WEFT_OK);
  const auto* bytes = static_cast<const std::uint8_t*>(blob.data);
  port.handle.assign(bytes, bytes + blob.size);
  const int fd = port.stranger();
  weft_net_connection* accepted = nullptr;
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(quick.api().accept(listener, &accepted), WEFT_IN_PROGRESS);
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
  }));
  ::close(fd);
  quick.api().close_listener(listener);
}

TEST(NetSocketKeys, ThatDifferAreFoundOutByBothEnds) {
  Port port;
  NetRank other({.key = Bytes(32, 0x11), .parameters = {{"interfaces", "=lo"}}});
  other.device();
  weft_net_connection* from = nullptr;
  ASSERT_GE(other.api().connect(other.net(), 0, {port.handle.data(), port.handle.size()}, &from),
            0);
  weft_result ready = WEFT_IN_PROGRESS;
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(port.accept(), WEFT_IN_PROGRESS);
    ready = other.api().ready(from);
    return ready != WEFT_IN_PROGRESS;
  }));
  EXPECT_EQ(ready, WEFT_ERROR_PEER);
  EXPECT_NE(other.host().last_error().what.find("key"), std::string::npos);
  other.api().close_connection(from);
  expect_sender_gets_in(port);
}

/// A sender that is played by hand: it has said hello and heard the challenge.
struct Stranger {
  Stranger(Port& port, std::uint8_t number) : fd(port.stranger()) {
    hello.token = net_socket::decode_handle(port.handle)->token;
    hello.connection.fill(number);
    hello.nonce.fill(number);
    say(net_socket::encode(hello));
    std::array<std::uint8_t, net_socket::kChallengeBytes> heard{};
    std::size_t filled = 0;
    EXPECT_TRUE(eventually([&] {
      EXPECT_EQ(port.accept(), WEFT_IN_PROGRESS);
      const ssize_t got = ::recv(fd, heard.data() + filled, heard.size() - filled, MSG_DONTWAIT);
      if (got > 0) filled += static_cast<std::size_t>(got);
      return filled == heard.size();
    }));
    const auto decoded = net_socket::decode_challenge(heard);
    EXPECT_TRUE(decoded.has_value());
    if (decoded.has_value()) challenge = *decoded;
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { ::close(fd); }

  void say(std::span<const std::uint8_t> bytes) const {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  [[nodiscard]] net_socket::Mac proof(const Bytes& key) const {
    return net_socket::prove(key, net_socket::Role::kSender, hello, challenge.nonce);
  }
  [[nodiscard]] bool hung_up_on() const {
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
  }

  int fd;
  net_socket::Hello hello;
  net_socket::Challenge challenge;
};

TEST(NetSocketKeys, AreProvedByTheSender) {
  Port port;
  const auto expect_turned_away = [&](const Stranger& stranger, const net_socket::Mac& proof,
                                      const char* whose) {
    SCOPED_TRACE(whose);
    const std::uint64_t before = port.rank.host().counter("strangers_total");
    stranger.say(net_socket::encode_proof(proof));
    weft_result accepted = WEFT_IN_PROGRESS;
    EXPECT_TRUE(eventually([&] {
      accepted = port.accept();
      return accepted != WEFT_IN_PROGRESS || stranger.hung_up_on();
    }));
    ASSERT_EQ(accepted, WEFT_IN_PROGRESS);
    EXPECT_EQ(port.rank.host().counter("strangers_total"), before + 1);
  };
  const Stranger other_key(port, 1);
  expect_turned_away(other_key, other_key.proof(Bytes(32, 0x11)), "of another key");
  if (HasFatalFailure()) return;
  // Who holds no key has a proof all the same: the one that it was sent.
  const Stranger mirror(port, 2);
  expect_turned_away(mirror, mirror.challenge.proof, "the port's own");
  if (HasFatalFailure()) return;
  // Nor is one of another connection any good.
  const Stranger late(port, 3);
  const Stranger holder(port, 4);
  expect_turned_away(late, holder.proof(NetRank::Options().key), "of another connection");
  if (HasFatalFailure()) return;
  // All else was right.
  holder.say(net_socket::encode_proof(holder.proof(NetRank::Options().key)));
  weft_result accepted = WEFT_IN_PROGRESS;
  EXPECT_TRUE(eventually([&] {
    accepted = port.accept();
    return accepted != WEFT_IN_PROGRESS;
  }));
  ASSERT_EQ(accepted, WEFT_OK);
  port.rank.api().close_connection(port.accepted);
}

// Who is no stranger may still be another version, or mad.
TEST(NetSocketMessages, WithoutAHeaderAreThePeersFault) {
  Port port;
  const Stranger holder(port, 1);
  holder.say(net_socket::encode_proof(holder.proof(NetRank::Options().key)));
  ASSERT_TRUE(eventually([&] { return port.accept() == WEFT_OK; }));
  Bytes room(100);
  weft_net_recv buffer{};
  buffer.struct_size = sizeof(buffer);
  buffer.data = room.data();
  buffer.size = room.size();
  weft_net_request* request = nullptr;
  ASSERT_EQ(port.rank.api().irecv(port.accepted, &buffer, sizeof(buffer), 1, &request), WEFT_OK);
  holder.say(pattern(net_socket::kHeaderBytes, 1));
  std::optional<weft_net_completion> end;
  EXPECT_TRUE(eventually([&] {
    port.rank.poll();
    end = port.rank.take(0);
    return end.has_value();
  }));
  if (end) {
    EXPECT_EQ(end->status, WEFT_ERROR_PEER);
  }
  port.rank.api().close_connection(port.accepted);
}

TEST(NetSocketCancel, TakesBackAReceiveForWhichNothingCame) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const Bytes untouched(100, 0xee);
  Bytes first = untouched;
  Bytes second(100);
  weft_net_request* request = nullptr;
  ASSERT_EQ(link.receiver.receive(first, 1, 0, &request), WEFT_OK);
  ASSERT_EQ(link.receiver.receive(second, 2), WEFT_OK);
  ASSERT_EQ(b.api().cancel(request), WEFT_OK);
  const Bytes data = pattern(100, 1);
  link.sender.must_send(link.receiver, data, 3);
  EXPECT_EQ(await(b, a, 2).status, WEFT_OK);
  EXPECT_EQ(second, data);
  EXPECT_EQ(first, untouched);
  EXPECT_FALSE(b.take(1).has_value());
}

TEST(NetSocketCancel, TakesBackASendThatNoPollHasSeen) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const Bytes first = pattern(100, 1);
  const Bytes second = pattern(200, 2);
  weft_net_request* request = nullptr;
  ASSERT_EQ(link.sender.send(first, 1, 0, 0, &request, WEFT_NET_SEND_MORE), WEFT_OK);
  ASSERT_EQ(link.sender.send(second, 2, 0, 7, nullptr, WEFT_NET_SEND_MORE), WEFT_OK);
  ASSERT_EQ(a.api().cancel(request), WEFT_OK);
  Bytes room(200);
  link.receiver.must_receive(link.sender, room, 3);
  const weft_net_completion received = await(b, a, 3);
  EXPECT_EQ(received.status, WEFT_OK) << link.receiver.error_text();
  EXPECT_EQ(received.size, second.size());
  EXPECT_EQ(received.value, 7U);
  EXPECT_EQ(room, second);
  EXPECT_EQ(await(a, b, 2).status, WEFT_OK);
  EXPECT_FALSE(a.take(1).has_value());
}

TEST(NetSocketConnect, EndsAtItsDeadline) {
  Port port;
  NetRank sender({.parameters = {{"interfaces", "=lo"}, {"connect_timeout", "20ms"}}});
  sender.device();
  weft_net_connection* from = nullptr;
  ASSERT_GE(sender.api().connect(sender.net(), 0, {port.handle.data(), port.handle.size()}, &from),
            0);
  weft_result ready = WEFT_IN_PROGRESS;
  EXPECT_TRUE(eventually([&] {
    ready = sender.api().ready(from);
    return ready != WEFT_IN_PROGRESS;
  }));
  EXPECT_EQ(ready, WEFT_ERROR_TIMEOUT);
  EXPECT_NE(sender.host().last_error().what.find("127.0.0.1:"), std::string::npos);
  sender.api().close_connection(from);
}

TEST(NetSocketLimits, WithoutDescriptorsSayHowToRaiseThem) {
  if (weft::test::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  NetRank rank({.parameters = {{"interfaces", "=lo"}}});
  rank.device();
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  rlimit none = old;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  weft_blob blob{};
  weft_net_listener* listener = nullptr;
  const weft_result result = rank.api().listen(rank.net(), 0, &blob, &listener);
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(result, WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_NE(rank.host().last_error().hint.find("ulimit -n"), std::string::npos);
}

constexpr int kMessages = 40;

/// How many of so many messages the first poll takes that could, after some in vain. On loopback a
/// message has come when its sender has sent it, unless the kernel put that off.
int taken_at_once(NetRank& from, NetRank& to, std::size_t connections) {
  std::vector<Link> links;
  for (std::size_t i = 0; i < connections; ++i)
    links.push_back(make_link(from, to));
  std::vector<Bytes> rooms(connections, Bytes(64));
  for (std::size_t i = 0; i < connections; ++i)
    EXPECT_EQ(links[i].receiver.receive(rooms[i], i), WEFT_OK);
  int at_once = 0;
  for (int message = 0; message < kMessages; ++message) {
    for (int vain = 0; vain < message; ++vain)
      to.poll();
    // Twice in a row, so that it was both the longest and the shortest without one.
    const std::size_t which = static_cast<std::size_t>(message / 2) % connections;
    const Bytes data = pattern(64, static_cast<std::uint64_t>(message));
    EXPECT_EQ(links[which].sender.send(data, 1000), WEFT_OK);
    await(from, from, 1000);
    int polls = 0;
    do {
      to.poll();
      ++polls;
    } while (!to.take(which) && polls < 1000);
    if (polls == 1) ++at_once;
    EXPECT_EQ(rooms[which], data);
    EXPECT_EQ(links[which].receiver.receive(rooms[which], which), WEFT_OK);
  }
  return at_once;
}

// Whether a socket is asked at once or epoll first, and whoever else could have news.
TEST(NetSocketPoll, TakesAMessageThatHasComeAtOnce) {
  NetRank from, to;
  for (const std::size_t connections : {1, 2, 3, 8})
    EXPECT_GE(taken_at_once(from, to, connections), kMessages - 4) << connections;
}

TEST(NetSocketPoll, TellsAtOnceOfAnEndForWhichItSlept) {
  int told = 0;
  for (int vain = 0; vain < kMessages; ++vain) {
    NetRank from, to;
    Link link = make_link(from, to);
    // Who waits for a message does not ask epoll each time.
    Link back = make_link(to, from);
    Bytes room(64);
    ASSERT_EQ(back.receiver.receive(room, 1), WEFT_OK);
    for (int i = 0; i < vain; ++i)
      from.poll();
    std::int32_t descriptor = -1;
    ASSERT_EQ(from.api().arm(from.net(), &descriptor), WEFT_OK);
    link.receiver.close();
    pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, 10'000), 1);
    from.poll();
    if (!link.sender.error_text().empty()) ++told;
  }
  EXPECT_GE(told, kMessages - 4) << "but for when a deadline was looked at first";
}

TEST(NetSocketWire, SharesCoverAMessageOnce) {
  for (const std::uint64_t size : {0UL, 1UL, 63UL, 64UL, 65UL, 4097UL, 1000003UL}) {
    for (std::uint32_t stripes = 1; stripes <= net_socket::kMaxStreams; ++stripes) {
      std::uint64_t next = 0;
      for (std::uint32_t stream = 0; stream < net_socket::kMaxStreams; ++stream) {
        const auto share = net_socket::share_of(size, stripes, stream);
        if (share.size > 0) {
          EXPECT_EQ(share.offset, next);
        }
        next += share.size;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(NetSocketWire, ReadsBackWhatItWrote) {
  const net_socket::Header header{
      .sequence = 7, .tag = 8, .stripes = 3, .size = 3 * 4096, .value = 10};
  EXPECT_EQ(net_socket::decode_header(net_socket::encode(header), 4, 4096), header);
  EXPECT_FALSE(net_socket::decode_header(net_socket::encode(header), 2, 4096).has_value());
  net_socket::Header huge = header;
  huge.stripes = 4;
  huge.size = net_socket::kMaxMessage;
  EXPECT_EQ(net_socket::decode_header(net_socket::encode(huge), 4, 4096), huge);
  for (const std::uint64_t size : {net_socket::kMaxMessage + 1, ~std::uint64_t{0}}) {
    huge.size = size;
    EXPECT_FALSE(net_socket::decode_header(net_socket::encode(huge), 4, 4096).has_value()) << size;
  }
  net_socket::Hello hello;
  hello.streams = 4;
  hello.stream = 3;
  EXPECT_EQ(net_socket::decode_hello(net_socket::encode(hello)), hello);
  hello.stream = 4;
  EXPECT_FALSE(net_socket::decode_hello(net_socket::encode(hello)).has_value());
}

}  // namespace
}  // namespace weft::test
