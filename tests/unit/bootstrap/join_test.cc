// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Joins that go wrong, each with its message, and strangers on the listening ports.

#include <array>
#include <atomic>
#include <csignal>
#include <random>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/bootstrap/job_environment.h"
#include "core/bootstrap/wire.h"
#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"
#include "tests/unit/bootstrap/ranks.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::BootstrapTest;
using testing::join_as;
using testing::on_all;
using testing::quick_options;
using testing::Rank;

std::string me(int rank) {
  return fmt::format("rank {} (pid {} on hostA)", rank, getpid());
}

// Joins with the given numbers, each in a thread; all must fail.
std::vector<Error> failed_joins(const BootstrapOptions& options,
                                const std::vector<std::pair<int, int>>& numbers) {
  std::vector<Rank> ranks(numbers.size());
  auto root = BootstrapRoot::start(options, ranks[0].log);
  EXPECT_TRUE(root);
  on_all(ranks, [&](int i, Rank& rank) {
    const auto [number, nranks] = numbers[static_cast<std::size_t>(i)];
    join_as(rank, (*root)->id(), number, nranks, options);
  });
  std::vector<Error> errors;
  for (const Rank& rank : ranks) {
    EXPECT_TRUE(rank.error);
    errors.push_back(rank.error.value_or(Error(WEFT_OK, "no error")));
  }
  return errors;
}

// Sends what is queued and waits for the next message.
Message receive(Wire& wire) {
  const Deadline deadline = Deadline::after(seconds(10));
  while (!deadline.passed()) {
    const auto message = wire.next();
    EXPECT_TRUE(message);
    if (!message) break;
    if (*message) return **message;
    (void)wire.flush();
    const short output = wire.has_output() ? POLLOUT : 0;
    std::array<pollfd, 1> entry{
        pollfd{.fd = wire.fd(), .events = static_cast<short>(POLLIN | output), .revents = 0}};
    (void)poll_until(entry, deadline);
    (void)wire.fill();
  }
  ADD_FAILURE() << "no message came";
  return {};
}

TEST_F(BootstrapTest, ARankThatNeverComesIsNamedToAll) {
  auto options = quick_options();
  options.timeout = milliseconds(200);
  for (const Error& error : failed_joins(options, {{0, 4}, {1, 4}, {3, 4}})) {
    EXPECT_EQ(error.code(), WEFT_ERROR_TIMEOUT);
    EXPECT_EQ(error.what(), "rank 2 of 4 did not come within 200ms (ranks 0, 1, 3 are here)");
  }
}

TEST_F(BootstrapTest, SeveralRanksThatNeverComeAreNamed) {
  auto options = quick_options();
  options.timeout = milliseconds(100);
  for (const Error& error : failed_joins(options, {{1, 3}})) {
    EXPECT_EQ(error.what(), "ranks 0, 2 of 3 did not come within 100ms (rank 1 is here)");
  }
}

TEST_F(BootstrapTest, WhoComesTooLateIsToldTheSame) {
  auto options = quick_options();
  options.timeout = milliseconds(100);
  std::vector<Rank> ranks(2);
  auto root = BootstrapRoot::start(options, ranks[0].log);
  ASSERT_TRUE(root);
  join_as(ranks[0], (*root)->id(), 0, 2, options);
  join_as(ranks[1], (*root)->id(), 1, 2, options);
  ASSERT_TRUE(ranks[1].error);
  EXPECT_EQ(ranks[1].error->what(), "rank 1 of 2 did not come within 100ms (rank 0 is here)");
  // Now everybody knows, and the port is closed.
  while (!(*root)->finished()) {
    std::this_thread::yield();
  }
}

TEST_F(BootstrapTest, TwoProcessesWithOneNumberAreNamedToAll) {
  for (const Error& error : failed_joins(quick_options(), {{0, 3}, {1, 3}, {1, 3}})) {
    EXPECT_EQ(error.code(), WEFT_ERROR_MISMATCH);
    EXPECT_EQ(error.what(), fmt::format("two processes claim rank 1 of 3: pid {0} on hostA and pid "
                                        "{0} on hostA",
                                        getpid()));
  }
}

TEST_F(BootstrapTest, DisagreementOnTheNumberOfRanksNamesBoth) {
  const auto errors = failed_joins(quick_options(), {{0, 3}, {1, 4}});
  const std::string a = fmt::format("{} says 3, {} says 4", me(0), me(1));
  const std::string b = fmt::format("{} says 4, {} says 3", me(1), me(0));
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), WEFT_ERROR_MISMATCH);
    EXPECT_TRUE(error.what() == "ranks disagree on their number: " + a ||
                error.what() == "ranks disagree on their number: " + b)
        << error.what();
  }
}

TEST_F(BootstrapTest, ARankOutOfRangeIsNamedToAll) {
  for (const Error& error : failed_joins(quick_options(), {{0, 3}, {3, 3}, {-1, 3}})) {
    EXPECT_EQ(error.code(), WEFT_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(error.what() == me(3) + " is out of range: there are 3 ranks" ||
                error.what() == me(-1) + " is out of range: there are 3 ranks")
        << error.what();
  }
}

TEST_F(BootstrapTest, AnInterfaceThatMatchesNothingFailsEveryRank) {
  std::vector<Rank> ranks(2);
  auto root = BootstrapRoot::start(quick_options(), ranks[0].log);
  ASSERT_TRUE(root);
  on_all(ranks, [&](int i, Rank& rank) {
    auto options = quick_options();
    if (i == 1) options.interfaces = {"=nosuch0"};
    join_as(rank, (*root)->id(), i, 2, options);
  });
  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.error);
    EXPECT_EQ(rank.error->code(), WEFT_ERROR_CONFIG);
    EXPECT_NE(rank.error->what().find("bootstrap.interfaces [=nosuch0] matches no interface"),
              std::string::npos);
    EXPECT_NE(rank.error->what().find("lo (127.0.0.1)"), std::string::npos);
  }
  EXPECT_EQ(ranks[0].error->what().find(me(1) + ": "), 0U);
  auto options = quick_options();
  options.interfaces = {"=nosuch0"};
  EXPECT_FALSE(BootstrapRoot::start(options, ranks[0].log));
}

/// Where no root is, and nobody comes while this lives: bound and not listening.
struct Deserted {
  Deserted() {
    sockaddr_storage native{};
    const socklen_t length = address.to_native(native);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&native), length), 0);
    address.port = local_address(socket_.get())->port;
  }
  [[nodiscard]] UniqueId id() const {
    UniqueIdContents contents;
    contents.secret = *random_secret();
    contents.roots = {address};
    return make_unique_id(contents);
  }

  SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);

 private:
  UniqueFd socket_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST_F(BootstrapTest, ARootThatCannotBeReachedIsNamed) {
  const Deserted place;
  auto options = quick_options();
  options.timeout = milliseconds(150);
  Rank rank;
  join_as(rank, place.id(), 1, 2, options);
  ASSERT_TRUE(rank.error);
  EXPECT_EQ(rank.error->code(), WEFT_ERROR_TIMEOUT);
  EXPECT_EQ(rank.error->to_string(),
            fmt::format("rank 1 of 2 cannot reach the rendezvous at {} within 150ms (errno 111, "
                        "Connection refused); try: see that rank 0 is running, that its address "
                        "can be reached from this host and that no firewall stands between",
                        place.address.to_string()));
}

// Rank 0 found the same and has gone: what keeps this rank from coming is its own mistake.
TEST_F(BootstrapTest, AnInterfaceThatMatchesNothingIsToldWithoutARoot) {
  const Deserted place;
  auto options = quick_options();
  options.timeout = milliseconds(150);
  options.interfaces = {"=nosuch0"};
  Rank rank;
  join_as(rank, place.id(), 1, 2, options);
  ASSERT_TRUE(rank.error);
  EXPECT_EQ(rank.error->code(), WEFT_ERROR_CONFIG);
  EXPECT_NE(rank.error->what().find("bootstrap.interfaces [=nosuch0] matches no interface"),
            std::string::npos);
}

TEST_F(BootstrapTest, ARootThatNamesOthersThanTheNeighboursIsRefused) {
  for (const auto& [next, previous] :
       std::vector<std::pair<int, int>>{{1 << 20, 1}, {1, 1 << 20}, {-1, 1}, {1, -1}, {0, 0}}) {
    SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);
    const auto listener = listen_at(address, false);
    ASSERT_TRUE(listener);
    UniqueIdContents contents;
    contents.secret = *random_secret();
    contents.roots = {address};
    auto options = quick_options();
    options.timeout = seconds(2);
    Rank rank;
    std::thread joiner([&] { join_as(rank, make_unique_id(contents), 0, 2, options); });
    std::array<pollfd, 1> entry{pollfd{.fd = listener->get(), .events = POLLIN, .revents = 0}};
    EXPECT_TRUE(*poll_until(entry, Deadline::after(seconds(10))));
    Wire wire(UniqueFd(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
              contents.secret);
    EXPECT_EQ(receive(wire).type, MessageType::kHello);
    wire.queue(MessageType::kHelloTaken, {});
    const auto who = [](int number) {
      return PeerIdentity{.rank = number, .pid = 1, .host = "h", .address = {}};
    };
    wire.queue(
        MessageType::kWelcome,
        WelcomeMessage{.next = who(next), .next_endpoints = {address}, .previous = who(previous)}
            .encode());
    EXPECT_TRUE(wire.flush());
    joiner.join();
    ASSERT_TRUE(rank.error);
    EXPECT_EQ(rank.error->code(), WEFT_ERROR_NETWORK);
    EXPECT_NE(rank.error->what().find("sent a malformed answer"), std::string::npos)
        << rank.error->what();
  }
}

TEST_F(BootstrapTest, AnotherJobsRootIsNoRoot) {
  Rank rank;
  auto options = quick_options();
  options.timeout = milliseconds(150);
  auto root = BootstrapRoot::start(options, rank.log);
  ASSERT_TRUE(root);
  auto contents = *read_unique_id((*root)->id());
  contents.secret = *random_secret();
  join_as(rank, make_unique_id(contents), 0, 2, options);
  ASSERT_TRUE(rank.error);
  EXPECT_EQ(rank.error->code(), WEFT_ERROR_TIMEOUT);
  EXPECT_NE(rank.error->what().find("did not answer within 150ms"), std::string::npos);
  EXPECT_FALSE((*root)->finished());
}

HelloMessage first_of_two() {
  return {.nranks = 2, .who = {.rank = 0, .pid = 1, .host = "h", .address = {}}};
}

/// That rank's connection to the rendezvous, which has taken its hello.
Wire arrive(const BootstrapRoot& root) {
  const auto contents = *read_unique_id(root.id());
  auto fd = start_connect(contents.roots.front());
  EXPECT_TRUE(fd);
  Wire wire(std::move(*fd), contents.secret);
  wire.queue(MessageType::kHello, first_of_two().encode());
  EXPECT_EQ(receive(wire).type, MessageType::kHelloTaken);
  return wire;
}

TEST_F(BootstrapTest, ARootThatIsGivenUpTellsWhoWaits) {
  Logger log(testing::quiet());
  auto root = BootstrapRoot::start(quick_options(), log);
  ASSERT_TRUE(root);
  Wire wire = arrive(**root);
  root->reset();
  const Message answer = receive(wire);
  ASSERT_EQ(answer.type, MessageType::kRejected);
  EXPECT_EQ(ErrorMessage::decode(answer.payload)->what,
            "the rendezvous was given up before every rank came");
}

TEST_F(BootstrapTest, ARendezvousThatLackedMemoryTellsAllRanks) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  Rank late;
  auto root = BootstrapRoot::start(quick_options(), late.log);
  ASSERT_TRUE(root);
  Wire wire = arrive(**root);
  {
    const test::NoMemoryElsewhere none;
    wire.queue(MessageType::kReady, first_of_two().encode());  // whose payload takes memory
    ASSERT_TRUE(wire.flush());
    none.await_refusal();
  }
  const Message answer = receive(wire);
  ASSERT_EQ(answer.type, MessageType::kRejected);
  EXPECT_EQ(ErrorMessage::decode(answer.payload)->what, "the rendezvous has no memory");
  join_as(late, (*root)->id(), 1, 2, quick_options());
  ASSERT_TRUE(late.error);
  EXPECT_EQ(late.error->code(), WEFT_ERROR_OUT_OF_MEMORY);
}

TEST_F(BootstrapTest, ARendezvousThatLacksMemoryCanBeGivenUp) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  Logger log(testing::quiet());
  auto root = BootstrapRoot::start(quick_options(), log);
  ASSERT_TRUE(root);
  const auto contents = *read_unique_id((*root)->id());
  const test::NoMemoryElsewhere none;
  const auto fd = start_connect(contents.roots.front());
  ASSERT_TRUE(fd);
  none.await_refusal();
  root->reset();
}

TEST_F(BootstrapTest, ARankThatDiesBeforeAllHaveComeIsNamed) {
  Rank rank;
  auto root = BootstrapRoot::start(quick_options(), rank.log);
  ASSERT_TRUE(root);
  const auto contents = *read_unique_id((*root)->id());
  std::thread waiting([&] { join_as(rank, (*root)->id(), 0, 3, quick_options()); });
  {
    auto fd = start_connect(contents.roots.front());
    ASSERT_TRUE(fd);
    Wire wire(std::move(*fd), contents.secret);
    const HelloMessage hello{.nranks = 3,
                             .who = {.rank = 2, .pid = 77, .host = "hostC", .address = {}}};
    wire.queue(MessageType::kHello, hello.encode());
    EXPECT_EQ(receive(wire).type, MessageType::kHelloTaken);
  }
  waiting.join();
  ASSERT_TRUE(rank.error);
  EXPECT_EQ(rank.error->code(), WEFT_ERROR_PEER);
  EXPECT_EQ(rank.error->what(),
            "rank 2 (pid 77 on hostC) died while the ranks were coming together: its connection "
            "was closed");
}

TEST_F(BootstrapTest, AnotherProtocolVersionIsNamedToAll) {
  Logger log(testing::quiet());
  auto root = BootstrapRoot::start(quick_options(), log);
  ASSERT_TRUE(root);
  const auto contents = *read_unique_id((*root)->id());
  auto fd = start_connect(contents.roots.front());
  ASSERT_TRUE(fd);
  Wire wire(std::move(*fd), contents.secret);
  const HelloMessage hello{
      .protocol = 99, .nranks = 2, .who = {.rank = 1, .pid = 77, .host = "hostC", .address = {}}};
  wire.queue(MessageType::kHello, hello.encode());
  const Message answer = receive(wire);
  ASSERT_EQ(answer.type, MessageType::kRejected);
  EXPECT_EQ(
      ErrorMessage::decode(answer.payload)->what,
      fmt::format("rank 1 (pid 77 on hostC) speaks bootstrap protocol 99, the rendezvous speaks {}",
                  kBootstrapProtocol));
}

TEST_F(BootstrapTest, AJoinCanBeGivenUp) {
  Rank rank;
  auto root = BootstrapRoot::start(quick_options(), rank.log);
  ASSERT_TRUE(root);
  const UniqueFd cancel(eventfd(1, EFD_CLOEXEC));
  auto options = quick_options();
  options.cancel_fd = cancel.get();
  join_as(rank, (*root)->id(), 0, 2, options);
  ASSERT_TRUE(rank.error);
  EXPECT_EQ(rank.error->code(), WEFT_ERROR_ABORTED);
}

TEST_F(BootstrapTest, BytesThatAreNoIdAreRefused) {
  Rank rank;
  join_as(rank, UniqueId{}, 0, 2, quick_options());
  ASSERT_TRUE(rank.error);
  EXPECT_EQ(rank.error->code(), WEFT_ERROR_INVALID_ARGUMENT);
}

// Strangers of every kind, on the root's port and (found by the ranks' own sockets) on the ranks'.
class Strangers {
 public:
  explicit Strangers(const UniqueId& id) : root_(read_unique_id(id)->roots.front()) {
    std::minstd_rand random(7);
    std::vector<std::vector<std::byte>> words;
    words.push_back({});
    words.emplace_back(1, std::byte{'W'});
    words.emplace_back(100'000, std::byte{0});
    auto& noise = words.emplace_back(200'000);
    for (std::byte& byte : noise) {
      byte = static_cast<std::byte>(random() & 0xffU);
    }
    const std::string_view http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    words.emplace_back(std::as_bytes(std::span(http)).begin(),
                       std::as_bytes(std::span(http)).end());
    // A right beginning with a wrong hash, and one that claims four gigabytes.
    append_message(words.emplace_back(), Secret{}, MessageType::kHello, std::vector<std::byte>(99));
    auto& giant = words.emplace_back();
    append_message(giant, Secret{}, MessageType::kHello, {});
    std::fill_n(giant.begin() + 8, 4, std::byte{0xff});
    for (const auto& text : words) {
      for (const bool stays : {false, true}) {
        auto fd = start_connect(root_);
        EXPECT_TRUE(fd);
        pollfd entry{.fd = fd->get(), .events = POLLOUT, .revents = 0};
        EXPECT_EQ(poll(&entry, 1, 5000), 1);
        (void)send(fd->get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (stays) staying_.push_back(std::move(*fd));
      }
    }
  }

 private:
  SocketAddress root_;
  std::vector<UniqueFd> staying_;
};

TEST_F(BootstrapTest, StrangersOnTheRootsPortDisturbNobody) {
  std::vector<Rank> ranks(3);
  auto root = BootstrapRoot::start(quick_options(), ranks[0].log);
  ASSERT_TRUE(root);
  const Strangers before((*root)->id());
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      join_as(ranks[static_cast<std::size_t>(i)], (*root)->id(), i, 3, quick_options());
    });
  }
  const Strangers meanwhile((*root)->id());
  join_as(ranks[2], (*root)->id(), 2, 3, quick_options());
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Rank& rank : ranks) {
    EXPECT_TRUE(rank.bootstrap) << (rank.error ? rank.error->to_string() : "");
  }
}

TEST_F(BootstrapTest, StrangersOnAListenerAreDroppedAndSlowOnesAreNotWaitedFor) {
  Logger log(testing::quiet());
  const Secret key = *random_secret();
  Acceptor acceptor(key, log, "test");
  ASSERT_TRUE(acceptor.listen(*SocketAddress::parse("127.0.0.1", 0), false));
  UniqueIdContents contents;
  contents.secret = key;
  contents.roots = acceptor.endpoints();
  const Strangers strangers(make_unique_id(contents));
  auto fd = start_connect(acceptor.endpoints().front());
  ASSERT_TRUE(fd);
  Wire friendly(std::move(*fd), key);
  friendly.queue(MessageType::kReady, {});
  int arrived = 0;
  const Deadline deadline = Deadline::after(seconds(10));
  while (arrived == 0 && !deadline.passed()) {
    (void)friendly.flush();
    std::vector<pollfd> entries;
    acceptor.add_poll(entries);
    (void)poll_until(entries, Deadline::after(milliseconds(50)));
    acceptor.serve(entries, 0, [&](Wire, const Message& message) {
      EXPECT_EQ(message.type, MessageType::kReady);
      ++arrived;
    });
  }
  EXPECT_EQ(arrived, 1);
}

TEST_F(BootstrapTest, AStrangerThatDripsBytesIsDroppedInTime) {
  Logger log(testing::quiet());
  const Secret key = *random_secret();
  Acceptor acceptor(key, log, "test", milliseconds(60));
  ASSERT_TRUE(acceptor.listen(*SocketAddress::parse("127.0.0.1", 0), false));
  auto stalling = start_connect(acceptor.endpoints().front());
  auto dripping = start_connect(acceptor.endpoints().front());
  ASSERT_TRUE(stalling);
  ASSERT_TRUE(dripping);
  std::vector<std::byte> words;
  append_message(words, key, MessageType::kHello, std::vector<std::byte>(8000));
  std::size_t sent = 0;
  std::vector<pollfd> entries;
  const Deadline deadline = Deadline::after(seconds(10));
  do {
    // The last byte never comes.
    if (sent + 1 < words.size()) {
      (void)send(dripping->get(), &words[sent], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ++sent;
    std::this_thread::sleep_for(milliseconds(2));
    entries.clear();
    acceptor.add_poll(entries);
    (void)poll_until(entries, Deadline::after(milliseconds(2)));
    acceptor.serve(entries, 0, [](Wire, const Message&) { ADD_FAILURE(); });
    // Accepted connections are polled besides the listener, until they are dropped.
  } while (!deadline.passed() && (sent < 4 || entries.size() > 1));
  EXPECT_FALSE(deadline.passed());
}

TEST_F(BootstrapTest, ExhaustedDescriptorsAreAnErrorNotAHang) {
  if (weft::test::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  Rank rank;
  auto root = BootstrapRoot::start(quick_options(), rank.log);
  ASSERT_TRUE(root);
  auto reactor = Reactor::create();
  ASSERT_TRUE(reactor);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto options = quick_options();
  auto joined = Bootstrap::join((*root)->id(), 0, 2, options, **reactor, rank.log);
  auto other_root = BootstrapRoot::start(options, rank.log);
  setrlimit(RLIMIT_NOFILE, &old);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(joined.error().to_string(),
            me(0) +
                " cannot create a socket (errno 24, Too many open files); try: raise the limit of "
                "open files (ulimit -n)");
  EXPECT_FALSE(other_root);
}

TEST_F(BootstrapTest, ReportsOnceWhatItWaitsFor) {
  auto options = quick_options();
  options.timeout = milliseconds(400);
  options.report_after = milliseconds(50);
  ::testing::internal::CaptureStderr();
  {
    Rank rank;
    rank.log.configure(LogOptions{.level = WEFT_LOG_WARN});
    auto root = BootstrapRoot::start(options, rank.log);
    ASSERT_TRUE(root);
    join_as(rank, (*root)->id(), 0, 2, options);
    ASSERT_TRUE(rank.error);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string line =
      "rendezvous still waits: rank 1 of 2 did not come within 50ms (rank 0 is here)";
  const auto first = log.find(line);
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(line, first + 1), std::string::npos) << log;
  EXPECT_NE(log.find("rank 0 of 2 waits longer than 50ms for the other ranks to come"),
            std::string::npos)
      << log;
}

// Two communicators of one environment, one after the other, on the port of a placeholder.
TEST_F(BootstrapTest, OneEnvironmentServesSeveralCommunicators) {
  UniqueFd placeholder(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ASSERT_EQ(setsockopt(placeholder.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
  ASSERT_EQ(setsockopt(placeholder.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);
  sockaddr_storage native{};
  const socklen_t length = address.to_native(native);
  ASSERT_EQ(bind(placeholder.get(), reinterpret_cast<sockaddr*>(&native), length), 0);
  JobEnvironment job;
  job.world_size = 3;
  job.root_host = "127.0.0.1";
  job.root_port = local_address(placeholder.get())->port;
  job.secret = *random_secret();
  std::vector<Rank> ranks(3);
  for (std::uint64_t instance = 0; instance < 3; ++instance) {
    std::atomic<int> successes{0};
    on_all(ranks, [&](int i, Rank& rank) {
      rank.bootstrap.reset();
      const auto id = unique_id_of(job, instance);
      ASSERT_TRUE(id);
      std::unique_ptr<BootstrapRoot> root;
      if (i == 0) {
        // Late, so that the others knock before anybody listens.
        std::this_thread::sleep_for(milliseconds(20));
        auto started = BootstrapRoot::start_at(*id, quick_options(), rank.log);
        ASSERT_TRUE(started) << started.error().to_string();
        root = std::move(*started);
      }
      join_as(rank, *id, i, 3, quick_options());
      ASSERT_TRUE(rank.bootstrap) << (rank.error ? rank.error->to_string() : "");
      if (rank.bootstrap->barrier("environment")) ++successes;
      rank.bootstrap->leave();
    });
    EXPECT_EQ(successes, 3);
  }
}

// As by two processes of a job that were both given rank 0.
TEST_F(BootstrapTest, TheRendezvousOfAnIdIsServedOnce) {
  SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);
  ASSERT_TRUE(listen_at(address, true));  // finds a port, and gives it back
  UniqueIdContents contents;
  contents.secret = *random_secret();
  contents.roots = {address};
  const UniqueId id = make_unique_id(contents);
  std::vector<Rank> ranks(3);
  std::vector<std::unique_ptr<BootstrapRoot>> roots(3);
  on_all(ranks, [&](int i, Rank& rank) {
    if (i != 1) {
      auto started = BootstrapRoot::start_at(id, quick_options(), rank.log);
      ASSERT_TRUE(started) << started.error().to_string();
      roots[static_cast<std::size_t>(i)] = std::move(*started);
    }
    join_as(rank, id, i == 1 ? 1 : 0, 3, quick_options());
  });
  EXPECT_NE(roots[0] == nullptr, roots[2] == nullptr);
  for (const Rank& rank : ranks) {
    ASSERT_TRUE(rank.error);
    EXPECT_EQ(rank.error->what(),
              fmt::format("two processes claim rank 0 of 3: pid {0} on hostA and pid {0} on hostA",
                          getpid()));
  }
  // Who comes after them may serve it again.
  roots.clear();
  EXPECT_TRUE(*BootstrapRoot::start_at(id, quick_options(), ranks[0].log));
}

TEST_F(BootstrapTest, AForkedChildOfARendezvousThatIsOverDoesNotServeIt) {
  SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);
  ASSERT_TRUE(listen_at(address, true));  // finds a port, and gives it back
  UniqueIdContents contents;
  contents.secret = *random_secret();
  contents.roots = {address};
  const UniqueId id = make_unique_id(contents);
  Logger log(testing::quiet());
  auto root = BootstrapRoot::start_at(id, quick_options(), log);
  ASSERT_TRUE(root && *root);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true)
      pause();
  }
  root->reset();
  const auto again = BootstrapRoot::start_at(id, quick_options(), log);
  EXPECT_TRUE(again && *again);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(BootstrapTest, APortThatSomebodyElseHoldsIsAnError) {
  SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);
  const auto taken = listen_at(address, false);
  ASSERT_TRUE(taken);
  UniqueIdContents contents;
  contents.secret = *random_secret();
  contents.roots = {address};
  auto options = quick_options();
  options.timeout = milliseconds(60);
  Logger log(testing::quiet());
  const auto root = BootstrapRoot::start_at(make_unique_id(contents), options, log);
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().to_string(),
            fmt::format("cannot listen at {} (errno 98, Address already in use); try: another "
                        "port, or end the process that holds this one",
                        address.to_string()));
}

TEST_F(BootstrapTest, AWaitForThePortCanBeGivenUp) {
  SocketAddress address = *SocketAddress::parse("127.0.0.1", 0);
  const auto taken = listen_at(address, false);
  ASSERT_TRUE(taken);
  UniqueIdContents contents;
  contents.secret = *random_secret();
  contents.roots = {address};
  const UniqueFd cancel(eventfd(1, EFD_CLOEXEC));
  auto options = quick_options();
  options.timeout = {};
  options.cancel_fd = cancel.get();
  Logger log(testing::quiet());
  const auto root = BootstrapRoot::start_at(make_unique_id(contents), options, log);
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code(), WEFT_ERROR_ABORTED);
}

}  // namespace
}  // namespace weft
