// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that die, fail, leave, or are interrupted, after everyone has joined.

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <linux/sockios.h>
#include <map>
#include <mutex>
#include <new>
#include <sodium.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/bootstrap/failure_watch.h"
#include "core/bootstrap/ring_gather.h"
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
using testing::joined_ranks;
using testing::on_all;
using testing::quick_options;
using testing::Rank;

// Collects the one call of on_failure. Declared before the ranks that call it.
class Heard {
 public:
  void listen(Bootstrap& bootstrap) {
    bootstrap.on_failure([this](const Error& error) {
      const std::lock_guard lock(mutex_);
      ++calls_;
      error_ = error;
      changed_.notify_all();
    });
  }
  std::optional<Error> wait(seconds span = seconds(15)) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, span, [this] { return calls_ > 0; });
    return error_;
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;
  std::optional<Error> error_;
};

// A rank in a process of its own.
class Child {
 public:
  Child(const UniqueId& id, int rank, int nranks, const char* mode) {
    std::vector<char> hex(2 * id.bytes.size() + 1);
    sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(id.bytes.data()),
                   id.bytes.size());
    std::string rank_text = std::to_string(rank);
    std::string nranks_text = std::to_string(nranks);
    std::string mode_text = mode;
    std::string program = WEFT_BOOTSTRAP_RANK;
    std::array<char*, 6> arguments{program.data(),     hex.data(),       rank_text.data(),
                                   nranks_text.data(), mode_text.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  }
  ~Child() { stop(); }
  void signal(int number) const { ::kill(pid_, number); }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    stopped_ = std::exchange(pid_, -1);
  }
  [[nodiscard]] int pid() const { return pid_ > 0 ? pid_ : stopped_; }

 private:
  pid_t pid_ = -1;
  pid_t stopped_ = -1;
};

// Ranks of this process beside one that is a process of its own.
struct Mixed {
  std::vector<Rank> ranks;
  std::unique_ptr<Child> child;

  Mixed(int n, int outside, const char* mode) : ranks(static_cast<std::size_t>(n)) {
    auto root = BootstrapRoot::start(quick_options(), ranks[0].log);
    EXPECT_TRUE(root);
    child = std::make_unique<Child>((*root)->id(), outside, n, mode);
    on_all(ranks, [&](int i, Rank& rank) {
      if (i != outside) join_as(rank, (*root)->id(), i, n, quick_options());
    });
    for (int i = 0; i < n; ++i) {
      const Rank& rank = ranks[static_cast<std::size_t>(i)];
      if (i != outside) {
        EXPECT_TRUE(rank.bootstrap) << (rank.error ? rank.error->to_string() : "");
      }
    }
  }
  [[nodiscard]] bool complete(int outside) const {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (static_cast<int>(i) != outside && !ranks[i].bootstrap) return false;
    }
    return true;
  }
};

class KilledRank : public BootstrapTest,
                   public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(KilledRank, IsNamedByAllOthersThoughNobodyCalls) {
  const auto [n, victim] = GetParam();
  std::vector<Heard> heard(static_cast<std::size_t>(n));
  Mixed mixed(n, victim, "idle");
  ASSERT_TRUE(mixed.complete(victim));
  for (int i = 0; i < n; ++i) {
    if (i != victim)
      heard[static_cast<std::size_t>(i)].listen(
          *mixed.ranks[static_cast<std::size_t>(i)].bootstrap);
  }
  const auto begin = Clock::now();
  mixed.child->stop();
  for (int i = 0; i < n; ++i) {
    if (i == victim) continue;
    const auto error = heard[static_cast<std::size_t>(i)].wait();
    ASSERT_TRUE(error) << i;
    EXPECT_EQ(error->code(), WEFT_ERROR_PEER);
    EXPECT_EQ(error->source(), ErrorSource::kPeer);
    EXPECT_EQ(error->native(), victim);
    EXPECT_EQ(error->what(),
              fmt::format("rank {} (pid {} on hostB) died: its connection was closed", victim,
                          mixed.child->pid()));
    // What is called afterwards answers the same.
    const Status barrier = mixed.ranks[static_cast<std::size_t>(i)].bootstrap->barrier("later");
    ASSERT_FALSE(barrier);
    EXPECT_EQ(barrier.error().what(), error->what());
  }
  EXPECT_LT(Clock::now() - begin, seconds(5));
}

TEST_P(KilledRank, IsNamedByAllOthersInTheMiddleOfAnAllGather) {
  const auto [n, victim] = GetParam();
  Mixed mixed(n, victim, "gather");
  ASSERT_TRUE(mixed.complete(victim));
  const std::vector<std::byte> block(200'000);
  std::atomic<int> rounds{0};
  Clock::time_point killed;
  std::thread killer([&] {
    while (rounds < 2 * n) {
      std::this_thread::yield();
    }
    killed = Clock::now();
    mixed.child->stop();
  });
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(n));
  on_all(mixed.ranks, [&](int i, Rank& rank) {
    if (i == victim) return;
    while (!errors[static_cast<std::size_t>(i)]) {
      const auto blocks = rank.bootstrap->all_gather(block, "rounds");
      if (!blocks) errors[static_cast<std::size_t>(i)] = blocks.error();
      ++rounds;
    }
  });
  killer.join();
  EXPECT_LT(Clock::now() - killed, seconds(5));
  for (int i = 0; i < n; ++i) {
    if (i == victim) continue;
    EXPECT_EQ(errors[static_cast<std::size_t>(i)]->what(),
              fmt::format("rank {} (pid {} on hostB) died: its connection was closed", victim,
                          mixed.child->pid()));
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, KilledRank,
                         ::testing::Values(std::pair(2, 0), std::pair(2, 1), std::pair(3, 1),
                                           std::pair(5, 2), std::pair(8, 7)));

TEST_F(BootstrapTest, AFailureBeforeOnFailureIsDeliveredWhenItIsSet) {
  Heard heard;
  Mixed mixed(2, 1, "idle");
  ASSERT_TRUE(mixed.complete(1));
  mixed.child->stop();
  Bootstrap& bootstrap = *mixed.ranks[0].bootstrap;
  while (!bootstrap.failure()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  heard.listen(bootstrap);
  ASSERT_TRUE(heard.wait());
  EXPECT_EQ(heard.calls(), 1);
}

TEST_F(BootstrapTest, AnAnnouncedFailureTravelsToAll) {
  std::vector<Heard> heard(6);
  auto ranks = joined_ranks(6);
  for (std::size_t i = 0; i < 6; ++i) {
    heard[i].listen(*ranks[i].bootstrap);
  }
  ranks[2].bootstrap->announce_failure(Error(WEFT_ERROR_PLUGIN, "net-socket broke", "mend it"));
  ranks[4].bootstrap->announce_failure(Error(WEFT_ERROR_PLUGIN, std::string(100'000, 'x')));
  for (std::size_t i = 0; i < 6; ++i) {
    if (i == 2 || i == 4) continue;
    const auto error = heard[i].wait();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), WEFT_ERROR_PEER);
    EXPECT_TRUE(error->native() == 2 || error->native() == 4);
    EXPECT_EQ(
        error->what().find(fmt::format(
            "rank {} (pid {} on hostA) failed (WEFT_ERROR_PLUGIN): ", error->native(), getpid())),
        0U);
    EXPECT_LE(error->what().size(), kMaxErrorBytes);
  }
  // Who failed answers its own error.
  EXPECT_EQ(ranks[2].bootstrap->barrier("later").error().what(), "net-socket broke");
  EXPECT_EQ(heard[2].calls(), 0);
}

TEST_F(BootstrapTest, AMismatchKeepsItsCode) {
  Heard heard;
  auto ranks = joined_ranks(3);
  heard.listen(*ranks[0].bootstrap);
  ranks[1].bootstrap->announce_failure(Error(WEFT_ERROR_MISMATCH, "calls differ"));
  ASSERT_TRUE(heard.wait());
  EXPECT_EQ(heard.wait()->code(), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(
      heard.wait()->what(),
      fmt::format("rank 1 (pid {} on hostA) failed (WEFT_ERROR_MISMATCH): calls differ", getpid()));
}

TEST_F(BootstrapTest, GoodbyeIsNoFailure) {
  std::vector<Heard> heard(4);
  auto ranks = joined_ranks(4);
  for (std::size_t i = 0; i < 4; ++i) {
    heard[i].listen(*ranks[i].bootstrap);
  }
  ranks[1].bootstrap->leave();
  ranks[1].bootstrap.reset();
  ranks[2].bootstrap->leave();
  ranks[2].bootstrap.reset();
  // Time to take a goodbye for a death, if anybody does.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(ranks[0].bootstrap->failure());
  EXPECT_FALSE(ranks[3].bootstrap->failure());
  // The two that stay still hear one another: news on a later connection comes after the goodbyes.
  ranks[0].bootstrap->announce_failure(Error(WEFT_ERROR_DEVICE, "gone mad"));
  const auto error = heard[3].wait();
  ASSERT_TRUE(error);
  EXPECT_NE(error->what().find("gone mad"), std::string::npos);
  EXPECT_EQ(heard[0].calls(), 0);
}

TEST_F(BootstrapTest, CallingAfterANeighbourLeftNamesIt) {
  auto ranks = joined_ranks(2);
  ranks[0].bootstrap->leave();
  EXPECT_EQ(ranks[0].bootstrap->barrier("after all").error().code(), WEFT_ERROR_INVALID_USAGE);
  ranks[0].bootstrap.reset();
  const Status barrier = ranks[1].bootstrap->barrier("late words");
  ASSERT_FALSE(barrier);
  EXPECT_EQ(
      barrier.error().what(),
      fmt::format("all-gather of late words: rank 0 (pid {} on hostA) has left the communicator",
                  getpid()));
}

TEST_F(BootstrapTest, AnInterruptWakesABlockedAllGather) {
  auto ranks = joined_ranks(3);
  std::thread interrupter([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ranks[0].bootstrap->interrupt(Error(WEFT_ERROR_ABORTED, "aborted by its user"));
  });
  const Status barrier = ranks[0].bootstrap->barrier("nobody comes");
  interrupter.join();
  ASSERT_FALSE(barrier);
  EXPECT_EQ(barrier.error().code(), WEFT_ERROR_ABORTED);
  EXPECT_EQ(barrier.error().what(), "aborted by its user");
  // The others were not told.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(ranks[1].bootstrap->failure());
}

TEST_F(BootstrapTest, AnOnlyRankCanBeInterruptedToo) {
  auto ranks = joined_ranks(1);
  EXPECT_TRUE(ranks[0].bootstrap->barrier("alone"));
  ranks[0].bootstrap->interrupt(Error(WEFT_ERROR_ABORTED, "aborted by its user"));
  EXPECT_FALSE(ranks[0].bootstrap->barrier("alone"));
}

TEST_F(BootstrapTest, ADeadlineNamesTheRankThatDidNotCall) {
  auto options = quick_options();
  options.timeout = milliseconds(300);
  auto ranks = joined_ranks(4, options);
  std::vector<std::string> texts(4);
  on_all(ranks, [&](int i, Rank& rank) {
    ASSERT_TRUE(rank.bootstrap);
    if (i == 1) return;
    const Status barrier = rank.bootstrap->barrier("transport blobs");
    ASSERT_FALSE(barrier);
    EXPECT_TRUE(barrier.error().code() == WEFT_ERROR_TIMEOUT ||
                barrier.error().code() == WEFT_ERROR_PEER);
    texts[static_cast<std::size_t>(i)] = barrier.error().what();
  });
  const std::string missing = fmt::format("waits for rank 1 (pid {} on hostA)", getpid());
  for (const std::size_t i : {0U, 2U, 3U}) {
    EXPECT_NE(texts[i].find("all-gather of transport blobs did not end within 300ms: rank"),
              std::string::npos)
        << texts[i];
    EXPECT_NE(texts[i].find(missing), std::string::npos) << texts[i];
  }
  // Who did not call learns that the others gave up, as soon as their word has arrived.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ranks[1].bootstrap->failure() && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_FALSE(ranks[1].bootstrap->barrier("transport blobs"));
}

TEST_F(BootstrapTest, DifferentCallsAreAMismatchOnEveryRank) {
  auto ranks = joined_ranks(3);
  on_all(ranks, [&](int i, Rank& rank) {
    ASSERT_TRUE(rank.bootstrap);
    const Status barrier = rank.bootstrap->barrier(i == 1 ? "apples" : "pears");
    ASSERT_FALSE(barrier);
    EXPECT_EQ(barrier.error().code(), WEFT_ERROR_MISMATCH) << barrier.error().to_string();
    EXPECT_NE(barrier.error().what().find("apples"), std::string::npos);
    EXPECT_NE(barrier.error().what().find("pears"), std::string::npos);
  });
}

TEST_F(BootstrapTest, BlocksBeyondTheBoundAreAnErrorOnEveryRank) {
  auto ranks = joined_ranks(2);
  on_all(ranks, [&](int i, Rank& rank) {
    ASSERT_TRUE(rank.bootstrap);
    const std::vector<std::byte> block(i == 0 ? kMaxGatherBytes + 1 : 0);
    const auto blocks = rank.bootstrap->all_gather(block, "too much");
    ASSERT_FALSE(blocks);
    EXPECT_NE(blocks.error().what().find("has 67108865 bytes; all together may have 67108864"),
              std::string::npos)
        << blocks.error().what();
  });
}

// Whoever is told may lack memory for it.
TEST_F(BootstrapTest, AFailureIsDeliveredUntilItIsTaken) {
  std::atomic<int> calls = 0;
  auto ranks = joined_ranks(2);
  ranks[0].bootstrap->on_failure([&](const Error&) {
    if (++calls <= 2) throw std::bad_alloc();
    calls.notify_all();
  });
  ranks[1].bootstrap->announce_failure(Error(WEFT_ERROR_DEVICE, "gone mad"));
  for (int seen = 0; seen < 3; seen = calls)
    calls.wait(seen);
  ranks[0].bootstrap.reset();
  EXPECT_EQ(calls, 3);
}

// They come but once.
TEST_F(BootstrapTest, LastWordsAreAnsweredUntilThereIsMemory) {
  std::atomic<int> calls = 0;
  auto ranks = joined_ranks(3);
  ranks[0].bootstrap->on_question([&](const Question&) {
    if (++calls <= 2) throw std::bad_alloc();
    calls.notify_all();
  });
  ranks[1].bootstrap->leave();
  for (int seen = 0; seen < 3; seen = calls)
    calls.wait(seen);
  ranks[0].bootstrap.reset();
  EXPECT_EQ(calls, 3);
}

TEST_F(BootstrapTest, WhatComesWhileThereIsNoMemoryIsNotLost) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  Heard heard;
  auto ranks = joined_ranks(3);
  heard.listen(*ranks[1].bootstrap);
  {
    const test::ReactorWithoutMemory none(*ranks[1].reactor);
    ranks[0].bootstrap->leave();
    ranks[2].bootstrap->announce_failure(Error(WEFT_ERROR_DEVICE, "gone mad"));
    none.await_refusal();
  }
  const auto error = heard.wait();
  ASSERT_TRUE(error);
  EXPECT_NE(error->what().find("gone mad"), std::string::npos) << error->what();
}

// Counts the questions of each rank, as their texts. Declared before the ranks that ask.
class Questions {
 public:
  void listen(Bootstrap& bootstrap) {
    bootstrap.on_question([this](const Question& question) {
      const std::lock_guard lock(mutex_);
      const auto* text = reinterpret_cast<const char*>(question.text.data());
      ++heard_[{question.asker, std::string(text, question.text.size())}];
      changed_.notify_all();
    });
  }
  int wait_for(int asker, const std::string& question, int times = 1) {
    std::unique_lock lock(mutex_);
    const std::pair key(asker, question);
    changed_.wait_for(lock, seconds(15), [&] { return heard_[key] >= times; });
    return heard_[key];
  }
  std::size_t kinds() {
    const std::lock_guard lock(mutex_);
    return heard_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, std::string>, int> heard_;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST_F(BootstrapTest, AQuestionReachesAllOthersFromBothSides) {
  std::vector<Questions> heard(5);
  auto ranks = joined_ranks(5);
  for (std::size_t i = 0; i < 5; ++i)
    heard[i].listen(*ranks[i].bootstrap);
  ranks[3].bootstrap->ask(bytes_of("who is there?"));
  for (const std::size_t i : {0U, 1U, 2U, 4U})
    EXPECT_EQ(heard[i].wait_for(3, "who is there?", 2), 2) << i;
  EXPECT_EQ(heard[3].kinds(), 0U);
  for (const auto& rank : ranks)
    EXPECT_FALSE(rank.bootstrap->failure());
}

TEST_F(BootstrapTest, AQuestionStopsAtARankThatLeftWhoseNeighboursKnowItsLastWords) {
  std::vector<Questions> heard(4);
  auto ranks = joined_ranks(4);
  for (std::size_t i = 0; i < 4; ++i)
    heard[i].listen(*ranks[i].bootstrap);
  ranks[1].bootstrap->leave(bytes_of("so long"));
  // Last words come like a question.
  EXPECT_EQ(heard[0].wait_for(1, "so long"), 1);
  EXPECT_EQ(heard[2].wait_for(1, "so long"), 1);
  for (const std::size_t i : {0U, 2U}) {
    const auto departures = ranks[i].bootstrap->departed_neighbours();
    ASSERT_EQ(departures.size(), 1U);
    EXPECT_EQ(departures[0].rank, 1);
    EXPECT_TRUE(std::ranges::equal(departures[0].last_words, bytes_of("so long")));
  }
  EXPECT_TRUE(ranks[3].bootstrap->departed_neighbours().empty());
  // Rank 0 has one way left to ask.
  ranks[0].bootstrap->ask(bytes_of("and now?"));
  EXPECT_EQ(heard[2].wait_for(0, "and now?"), 1);
  EXPECT_EQ(heard[3].wait_for(0, "and now?"), 1);
  EXPECT_EQ(heard[1].kinds(), 0U);
  EXPECT_FALSE(ranks[2].bootstrap->failure());
}

// Each rank hands it on; where one has left nobody takes it.
TEST_F(BootstrapTest, ATextGoesRoundFromRankToRank) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> way;
  auto ranks = joined_ranks(3);
  const auto wait_for = [&](std::size_t stops) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, seconds(15), [&] { return way.size() >= stops; });
    return std::exchange(way, {});
  };
  for (int self = 0; self < 3; ++self) {
    Bootstrap& bootstrap = *ranks[static_cast<std::size_t>(self)].bootstrap;
    bootstrap.on_round([&, self](const RoundText& round) {
      if (self != round.asker) round.hand_on(1 - round.side, round.text);
      const std::lock_guard lock(mutex);
      const auto* text = reinterpret_cast<const char*>(round.text.data());
      way.push_back(fmt::format("{} of {} at {}, from side {}",
                                std::string(text, round.text.size()), round.asker, self,
                                round.side));
      std::ranges::sort(way);
      changed.notify_all();
    });
  }
  EXPECT_TRUE(ranks[1].bootstrap->hand_on(0, 1, bytes_of("hello")));
  EXPECT_EQ(wait_for(3), (std::vector<std::string>{"hello of 1 at 0, from side 1",
                                                   "hello of 1 at 1, from side 1",
                                                   "hello of 1 at 2, from side 1"}));
  EXPECT_TRUE(ranks[1].bootstrap->hand_on(1, 1, bytes_of("back")));
  EXPECT_EQ(wait_for(3),
            (std::vector<std::string>{"back of 1 at 0, from side 0", "back of 1 at 1, from side 0",
                                      "back of 1 at 2, from side 0"}));
  ranks[2].bootstrap->leave({});
  while (ranks[1].bootstrap->departed_neighbours().empty())
    std::this_thread::yield();
  EXPECT_FALSE(ranks[1].bootstrap->hand_on(0, 1, bytes_of("gone")));
  EXPECT_TRUE(ranks[1].bootstrap->hand_on(1, 1, bytes_of("near")));
  EXPECT_EQ(wait_for(1), (std::vector<std::string>{"near of 1 at 0, from side 0"}));
}

// Both ends of a connection between two addresses, as if they were of two hosts.
std::array<UniqueFd, 2> connection_between_hosts() {
  SocketAddress there = *SocketAddress::parse("127.0.0.2", 0);
  auto listener = listen_at(there, false);
  EXPECT_TRUE(listener);
  auto here = start_connect(there);
  EXPECT_TRUE(here);
  std::array<pollfd, 1> entry{pollfd{.fd = listener->get(), .events = POLLIN, .revents = 0}};
  EXPECT_TRUE(*poll_until(entry, Deadline::after(seconds(10))));
  UniqueFd accepted(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_TRUE(accepted);
  return {std::move(*here), std::move(accepted)};
}

int bytes_under_way(int fd) {
  int bytes = -1;
  EXPECT_EQ(ioctl(fd, SIOCOUTQ, &bytes), 0);
  return bytes;
}

// Reads what lies there; how much that was.
std::size_t read_all(int fd) {
  std::array<std::byte, 4096> bytes;
  std::size_t sum = 0;
  for (ssize_t got = 0; (got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0;)
    sum += static_cast<std::size_t>(got);
  return sum;
}

// Others ask again and again while they wait for it.
TEST_F(BootstrapTest, ANeighbourThatIsStoppedIsNotTakenForDeadHoweverMuchIsAsked) {
  Logger log(testing::quiet());
  auto reactor = Reactor::create();
  ASSERT_TRUE(reactor);
  const MessageKey key = *random_secret();
  std::array<std::array<UniqueFd, 2>, 2> links = {connection_between_hosts(),
                                                  connection_between_hosts()};
  const std::array<int, 2> own = {links[0][0].get(), links[1][0].get()};
  const auto rank = [](int number) {
    return PeerIdentity{.rank = number, .pid = 1, .host = "h", .address = {}};
  };
  auto watch = FailureWatch::start(rank(0), 3, rank(1), Wire(std::move(links[0][0]), key), rank(2),
                                   Wire(std::move(links[1][0]), key), **reactor, log);
  ASSERT_TRUE(watch);
  const std::vector<std::byte> question(kMaxQuestionBytes);
  for (int i = 0; i < 4000; ++i) {
    (*watch)->ask(question);
    EXPECT_TRUE((*watch)->hand_on(0, 0, question));
  }
  // Their kernels have taken all of it: nothing is left that could be waited for in vain.
  for (const int fd : own) {
    while (bytes_under_way(fd) > 0 && !(*watch)->failure())
      std::this_thread::yield();
  }
  EXPECT_FALSE((*watch)->failure()) << (*watch)->failure()->to_string();
  // Who reads again is asked again.
  for (const auto& link : links) {
    EXPECT_GT(read_all(link[1].get()), 0U);
    const Deadline deadline = Deadline::after(seconds(10));
    std::size_t got = 0;
    while (got == 0 && !deadline.passed()) {
      (*watch)->ask(question);
      got = read_all(link[1].get());
    }
    EXPECT_GT(got, 0U);
  }
}

TEST_F(BootstrapTest, AFailureThatBlamesAnotherRankNamesIt) {
  std::vector<Heard> heard(3);
  auto ranks = joined_ranks(3);
  for (const std::size_t i : {1U, 2U})
    heard[i].listen(*ranks[i].bootstrap);
  Error error(WEFT_ERROR_PEER, "rank 2 left too early");
  error.with_native(ErrorSource::kPeer, 2);
  ranks[0].bootstrap->announce_failure(error);
  for (const std::size_t i : {1U, 2U}) {
    const auto failure = heard[i].wait();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->native(), 2);
  }
}

}  // namespace
}  // namespace weft
