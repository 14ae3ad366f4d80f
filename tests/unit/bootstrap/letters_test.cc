// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Letters between ranks: whoever has left, whoever else knocks, and what is said of those that
// cannot be brought.

#include "core/bootstrap/letters.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include <gmock/gmock.h>

#include "tests/support/no_descriptors.h"
#include "tests/support/sanitized.h"
#include "tests/unit/bootstrap/ranks.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::BootstrapTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::joined_ranks;
using testing::Rank;

std::vector<std::byte> letter_text(int from, int to, std::size_t size) {
  std::vector<std::byte> text(size);
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(from * 31 + to));
  return text;
}

// What came to one rank, by sender, and what it could not bring. Declared before the ranks.
class Mailbox {
 public:
  /// A Bootstrap, or Letters.
  template <typename T>
  void listen(T& at) {
    at.on_undelivered([this](int to, const Error& why) {
      const std::lock_guard lock(mutex_);
      undelivered_.emplace_back(to, why);
      changed_.notify_all();
    });
    if constexpr (std::is_same_v<T, Bootstrap>) {
      at.on_letter(LetterSubject::kPairs, reader());
    } else {
      at.on_letter(reader());
    }
  }
  std::function<void(int from, std::vector<std::byte> text)> reader() {
    return [this](int from, std::vector<std::byte> text) {
      const std::lock_guard lock(mutex_);
      letters_[from].push_back(std::move(text));
      ++count_;
      changed_.notify_all();
    };
  }
  /// Until so many came.
  std::map<int, std::vector<std::vector<std::byte>>> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds(60), [&] { return count_ >= count; });
    return letters_;
  }
  std::vector<std::pair<int, Error>> wait_for_undelivered(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds(60), [&] { return undelivered_.size() >= count; });
    return undelivered_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
  std::map<int, std::vector<std::vector<std::byte>>> letters_;
  std::vector<std::pair<int, Error>> undelivered_;
};

TEST_F(BootstrapTest, LettersReachTheRankThatTheyAreFor) {
  constexpr int kRanks = 5;
  constexpr int kEach = 40;  // more at once than sockets take
  std::array<Mailbox, kRanks> boxes;
  const auto ranks = joined_ranks(kRanks);
  // Some listen only when letters are there already.
  for (std::size_t rank = 0; rank < 3; ++rank)
    boxes[rank].listen(*ranks[rank].bootstrap);
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      if (to == from) continue;
      for (int i = 0; i < kEach; ++i) {
        ranks[static_cast<std::size_t>(from)].bootstrap->post(
            to, LetterSubject::kPairs,
            letter_text(from, to, i == 0 ? 0 : kMostLetterText - static_cast<std::size_t>(i)));
      }
    }
  }
  for (std::size_t rank = 3; rank < kRanks; ++rank)
    boxes[rank].listen(*ranks[rank].bootstrap);
  for (int to = 0; to < kRanks; ++to) {
    const auto arrived = boxes[static_cast<std::size_t>(to)].wait((kRanks - 1) * kEach);
    EXPECT_EQ(arrived.size(), std::size_t{kRanks - 1}) << "rank " << to;
    for (const auto& [from, texts] : arrived) {
      EXPECT_GE(texts.size(), std::size_t{kEach});
      for (const auto& text : texts)
        EXPECT_EQ(text, letter_text(from, to, text.size()));
    }
  }
}

// Each subject has a reader of its own, and what has none is dropped.
TEST_F(BootstrapTest, LettersComeToTheReadersOfTheirSubjects) {
  Mailbox pairs;
  Mailbox outputs;
  Mailbox pairs_alone;
  const auto ranks = joined_ranks(3);
  ranks[1].bootstrap->on_letter(LetterSubject::kOutputs, outputs.reader());
  pairs.listen(*ranks[1].bootstrap);
  pairs_alone.listen(*ranks[2].bootstrap);
  for (const int to : {1, 2}) {
    ranks[0].bootstrap->post(to, LetterSubject::kOutputs, letter_text(0, to, 20));
    ranks[0].bootstrap->post(to, LetterSubject::kPairs, letter_text(0, to, 30));
  }
  EXPECT_THAT(pairs.wait(1)[0], ElementsAre(letter_text(0, 1, 30)));
  EXPECT_THAT(outputs.wait(1)[0], ElementsAre(letter_text(0, 1, 20)));
  EXPECT_THAT(pairs_alone.wait(1)[0], ElementsAre(letter_text(0, 2, 30)));
}

TEST_F(BootstrapTest, LettersNeedNoRankBetween) {
  constexpr int kRanks = 8;
  std::array<Mailbox, kRanks> boxes;
  auto ranks = joined_ranks(kRanks);
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    boxes[rank].listen(*ranks[rank].bootstrap);
  // They cut the ring into 3, 4 and 6, 7, 0, 1.
  for (const std::size_t leaver : {2U, 5U}) {
    ranks[leaver].bootstrap->leave();
    ranks[leaver].bootstrap.reset();
  }
  for (const auto& [a, b] : {std::pair(0, 4), std::pair(1, 6), std::pair(3, 7)}) {
    const auto one = static_cast<std::size_t>(a);
    const auto other = static_cast<std::size_t>(b);
    ranks[one].bootstrap->post(b, LetterSubject::kPairs, letter_text(a, b, 100));
    EXPECT_THAT(boxes[other].wait(1)[a], ElementsAre(letter_text(a, b, 100)));
    ranks[other].bootstrap->post(a, LetterSubject::kPairs, letter_text(b, a, kMostLetterText));
    EXPECT_THAT(boxes[one].wait(1)[b], ElementsAre(letter_text(b, a, kMostLetterText)));
  }
}

TEST_F(BootstrapTest, ALetterToARankThatLeftNamesIt) {
  std::array<Mailbox, 4> boxes;
  auto ranks = joined_ranks(4);
  for (std::size_t rank = 0; rank < 4; ++rank)
    boxes[rank].listen(*ranks[rank].bootstrap);
  ranks[2].bootstrap->leave();
  ranks[0].bootstrap->post(2, LetterSubject::kPairs, letter_text(0, 2, 10));
  ranks[0].bootstrap->post(3, LetterSubject::kPairs, letter_text(0, 3, 10));
  const auto undelivered = boxes[0].wait_for_undelivered(1);
  ASSERT_EQ(undelivered.size(), 1U);
  EXPECT_EQ(undelivered[0].first, 2);
  const Error& why = undelivered[0].second;
  EXPECT_EQ(why.code(), WEFT_ERROR_PEER);
  EXPECT_EQ(why.source(), ErrorSource::kPeer);
  EXPECT_EQ(why.native(), 2);
  EXPECT_THAT(why.what(),
              HasSubstr("rank 2 has left the communicator: process " + std::to_string(getpid()) +
                        " on hostA listens no more at " + ranks[0].bootstrap->peer(2).address));
  // Others get theirs, and nothing is a failure.
  EXPECT_EQ(boxes[3].wait(1)[0].size(), 1U);
  EXPECT_FALSE(ranks[0].bootstrap->failure());
}

TEST_F(BootstrapTest, AForkedChildOfARankThatLeftIsNotTakenForIt) {
  Mailbox box;
  auto ranks = joined_ranks(3);
  box.listen(*ranks[0].bootstrap);
  const pid_t child = fork();
  if (child == 0) {
    while (true)
      pause();
  }
  ranks[2].bootstrap->leave();
  ranks[0].bootstrap->post(2, LetterSubject::kPairs, letter_text(0, 2, 10));
  EXPECT_EQ(box.wait_for_undelivered(1).size(), 1U);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(BootstrapTest, ARankThatFailedTakesNoLetters) {
  std::array<Mailbox, 2> boxes;
  auto ranks = joined_ranks(3);
  boxes[0].listen(*ranks[0].bootstrap);
  boxes[1].listen(*ranks[2].bootstrap);
  ranks[2].bootstrap->interrupt(Error(WEFT_ERROR_INTERNAL, "of itself"));
  ranks[0].bootstrap->post(2, LetterSubject::kPairs, letter_text(0, 2, 10));
  EXPECT_EQ(boxes[0].wait_for_undelivered(1).size(), 1U);
  EXPECT_TRUE(boxes[1].wait(0).empty());
}

TEST_F(BootstrapTest, LettersBetweenRanksOfOneContextNeedNoDescriptor) {
  constexpr int kRanks = 4;
  LocalLetters local;
  BootstrapOptions options = testing::quick_options();
  options.local_letters = &local;
  std::array<Mailbox, kRanks> boxes;
  auto ranks = joined_ranks(kRanks, options);
  for (std::size_t rank = 0; rank < 3; ++rank)
    boxes[rank].listen(*ranks[rank].bootstrap);
  {
    const test::NoDescriptors none;
    for (int from = 0; from < kRanks; ++from) {
      for (int to = 0; to < kRanks; ++to) {
        for (std::size_t i = 0; i < 20 && to != from; ++i)
          ranks[static_cast<std::size_t>(from)].bootstrap->post(to, LetterSubject::kPairs,
                                                                letter_text(from, to, i));
      }
    }
    // Until somebody takes them they wait.
    boxes[3].listen(*ranks[3].bootstrap);
    for (int to = 0; to < kRanks; ++to) {
      const auto come = boxes[static_cast<std::size_t>(to)].wait(20 * (kRanks - 1));
      EXPECT_EQ(come.size(), kRanks - 1);
      for (const auto& [from, texts] : come) {
        ASSERT_EQ(texts.size(), 20U);
        for (std::size_t i = 0; i < texts.size(); ++i)
          EXPECT_EQ(texts[i], letter_text(from, to, i))
              << "in the order in which they were written";
      }
    }
  }
  // As without: who left, or failed, takes none, and that is said.
  ranks[2].bootstrap->leave();
  ranks[3].bootstrap->interrupt(Error(WEFT_ERROR_INTERNAL, "of itself"));
  ranks[0].bootstrap->post(2, LetterSubject::kPairs, letter_text(0, 2, 10));
  ranks[0].bootstrap->post(3, LetterSubject::kPairs, letter_text(0, 3, 10));
  EXPECT_EQ(boxes[0].wait_for_undelivered(2).size(), 2U);
  EXPECT_EQ(boxes[3].wait(0).at(0).size(), 20U);
}

/// Rank 0 of two alone, with what it writes to and hears from in the hands of the test.
class LettersOfOne : public BootstrapTest {
 protected:
  LettersOfOne()
      : reactor_(*Reactor::create()), watch_(*FailureWatch::start_alone(*reactor_, log_)) {
    EXPECT_TRUE(partner_->listen(loopback(), false));
  }

  void TearDown() override {
    letters_.reset();
    partner_.reset();
    watch_.reset();
    reactor_.reset();
    BootstrapTest::TearDown();
  }

  static SocketAddress loopback() { return *SocketAddress::parse("127.0.0.1", 0); }

  void start(std::vector<SocketAddress> addresses_of_partner) {
    Acceptor acceptor(key_, log_, "rank 0");
    ASSERT_TRUE(acceptor.listen(loopback(), false));
    own_ = acceptor.endpoints().front();
    letters_ = *Letters::start(
        0,
        {{.who = {.rank = 0, .pid = 1, .host = "a", .address = {}}, .endpoints = {own_}},
         {.who = {.rank = 1, .pid = 2, .host = "b", .address = {}},
          .endpoints = std::move(addresses_of_partner)}},
        key_, std::move(acceptor), *watch_, *reactor_, log_);
    box_.listen(*letters_);
  }

  /// The connection that comes to the partner, whose hello is answered.
  std::optional<Wire> take_connection() {
    std::optional<Wire> taken;
    const Deadline deadline = Deadline::after(seconds(30));
    while (!taken && !deadline.passed()) {
      std::vector<pollfd> entries;
      partner_->add_poll(entries);
      (void)poll_until(entries, Deadline::after(milliseconds(50)));
      partner_->serve(entries, 0, [&](Wire wire, const Message& message) {
        EXPECT_EQ(message.type, MessageType::kRingHello);
        EXPECT_EQ(RingHelloMessage::decode(message.payload), hello(0, 1));
        wire.queue(MessageType::kRingHello, hello(1, 0).encode());
        EXPECT_TRUE(wire.flush());
        taken = std::move(wire);
      });
    }
    EXPECT_TRUE(taken);
    if (taken) taken->allow_data();
    return taken;
  }

  static RingHelloMessage hello(int from, int to) {
    return {.channel = RingChannel::kLetters, .from = from, .to = to, .nranks = 2};
  }

  /// A connection to rank 0.
  Wire call() {
    auto fd = start_connect(own_);
    EXPECT_TRUE(fd);
    Wire wire(std::move(*fd), key_);
    pollfd entry{.fd = wire.fd(), .events = POLLOUT, .revents = 0};
    EXPECT_TRUE(*poll_until({&entry, 1}, Deadline::after(seconds(30))));
    return wire;
  }

  /// The same, by which the partner's letter comes.
  Wire write(std::vector<std::byte> text) {
    Wire wire = call();
    say(wire, MessageType::kRingHello, hello(1, 0).encode());
    EXPECT_TRUE(next(wire));
    wire.allow_data();
    say(wire, MessageType::kLetter,
        LetterMessage{.from = 1, .to = 0, .text = std::move(text)}.encode());
    return wire;
  }

  /// Nothing where the connection ends instead.
  static std::optional<Message> next(Wire& wire) {
    const Deadline deadline = Deadline::after(seconds(30));
    while (!deadline.passed()) {
      const auto input = wire.fill();
      auto message = wire.next();
      if (message && *message) return std::move(*message);
      if (!message || !input || *input == Wire::Input::kClosed) return std::nullopt;
      pollfd entry{.fd = wire.fd(), .events = POLLIN, .revents = 0};
      (void)poll_until({&entry, 1}, deadline);
    }
    ADD_FAILURE() << "neither a message nor an end";
    return std::nullopt;
  }

  static void say(Wire& wire, MessageType type, std::span<const std::byte> payload) {
    wire.queue(type, payload);
    EXPECT_TRUE(wire.flush());
  }

  Logger log_{testing::quiet()};
  const Secret key_ = *random_secret();
  Mailbox box_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<FailureWatch> watch_;
  std::optional<Acceptor> partner_{std::in_place, key_, log_, "rank 1"};
  SocketAddress own_;
  std::unique_ptr<Letters> letters_;
};

TEST_F(LettersOfOne, WhatIsNotAcknowledgedIsSentAgain) {
  start(partner_->endpoints());
  const auto text = letter_text(0, 1, 3000);
  letters_->post(1, text);
  letters_->post(1, text);  // waits already
  letters_->post(1, letter_text(0, 1, 7));
  const auto expect_letter = [](Wire& wire, std::size_t size) {
    const auto message = next(wire);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->type, MessageType::kLetter);
    EXPECT_EQ(LetterMessage::decode(message->payload),
              (LetterMessage{.from = 0, .to = 1, .text = letter_text(0, 1, size)}));
  };
  {
    auto wire = take_connection();
    ASSERT_TRUE(wire);
    expect_letter(*wire, 3000);
  }
  auto wire = take_connection();
  ASSERT_TRUE(wire);
  expect_letter(*wire, 3000);
  say(*wire, MessageType::kLetterTaken, {});
  expect_letter(*wire, 7);
  say(*wire, MessageType::kLetterTaken, {});
  EXPECT_FALSE(next(*wire));  // the end
}

// Whoever calls is left in the queue of the listening socket, and gets no answer.
TEST_F(LettersOfOne, WithoutADescriptorForWhoCallsSayWhy) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  start(partner_->endpoints());
  const UniqueFd caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(caller);
  sockaddr_storage native{};
  const socklen_t length = own_.to_native(native);
  std::vector<std::pair<int, Error>> undelivered;
  {
    const test::NoDescriptors none;
    ASSERT_EQ(connect(caller.get(), reinterpret_cast<sockaddr*>(&native), length), 0);
    undelivered = box_.wait_for_undelivered(1);
  }
  ASSERT_FALSE(undelivered.empty());
  EXPECT_EQ(undelivered[0].first, 0);
  EXPECT_EQ(undelivered[0].second.code(), WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(undelivered[0].second.to_string(),
            "rank 0 cannot accept a connection (errno 24, Too many open files); try: raise the "
            "limit of open files (ulimit -n)");
  // Once there are some again, letters come.
  Wire wire = write(letter_text(1, 0, 5));
  EXPECT_THAT(box_.wait(1)[1], ElementsAre(letter_text(1, 0, 5)));
}

// Whoever waits for a letter learns why none comes, and whoever writes here that nobody listens.
TEST_F(LettersOfOne, WithoutMemorySayWhyAndEnd) {
  start(partner_->endpoints());
  letters_->on_letter([](int, const std::vector<std::byte>&) { throw std::bad_alloc(); });
  Wire wire = write(letter_text(1, 0, 5));
  const auto undelivered = box_.wait_for_undelivered(2);
  ASSERT_EQ(undelivered.size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    const auto& [to, why] = undelivered[static_cast<std::size_t>(rank)];
    EXPECT_EQ(to, rank);
    EXPECT_EQ(why.code(), WEFT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(why.to_string(),
              "rank 0 has no memory for letters to other ranks; try: raise the limit of address "
              "space (ulimit -v), or of the container");
  }
  while (next(wire)) {
  }
  letters_->post(1, letter_text(0, 1, 7));                     // goes nowhere
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the reactor has looked by then
  EXPECT_EQ(box_.wait_for_undelivered(2).size(), 2U);
}

// There may be too little even to say so.
TEST_F(LettersOfOne, WithoutMemorySayWhyOnceThereIsSome) {
  start(partner_->endpoints());
  std::atomic<int> tries{0};
  letters_->on_undelivered([&](int /*to*/, const Error& /*why*/) {
    if (++tries < 3) throw std::bad_alloc();
  });
  letters_->on_letter([](int, const std::vector<std::byte>&) { throw std::bad_alloc(); });
  const Wire wire = write(letter_text(1, 0, 5));
  for (int i = 0; i < 30'000 && tries < 4; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(tries, 4);  // twice in vain, then of both ranks
  letters_.reset();
}

TEST_F(LettersOfOne, TriesAllAddressesAndTakesNoStrangerForThePartner) {
  SocketAddress closed = loopback();
  {
    ASSERT_TRUE(listen_at(closed, false));
  }
  SocketAddress other = loopback();
  const auto stranger = listen_at(other, false);
  ASSERT_TRUE(stranger);
  std::vector<SocketAddress> addresses = {closed, other};
  std::ranges::copy(partner_->endpoints(), std::back_inserter(addresses));
  start(addresses);
  letters_->post(1, letter_text(0, 1, 10));
  // Whoever listens there gets a hello and no letter, and says something else.
  pollfd entry{.fd = stranger->get(), .events = POLLIN, .revents = 0};
  ASSERT_TRUE(*poll_until({&entry, 1}, Deadline::after(seconds(30))));
  {
    Wire wire(UniqueFd(accept4(stranger->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
              key_);
    const auto message = next(wire);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->type, MessageType::kRingHello);
    EXPECT_EQ(send(wire.fd(), "HTTP/1.1 400", 12, MSG_NOSIGNAL), 12);
    EXPECT_FALSE(next(wire));
  }
  auto wire = take_connection();
  ASSERT_TRUE(wire);
  const auto message = next(*wire);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->type, MessageType::kLetter);
  EXPECT_TRUE(box_.wait_for_undelivered(0).empty());
}

TEST_F(LettersOfOne, TakesNothingFromWhoDoesNotShowTheSecret) {
  start(partner_->endpoints());
  {
    auto fd = start_connect(own_);
    ASSERT_TRUE(fd);
    Wire forged(std::move(*fd), *random_secret());
    pollfd entry{.fd = forged.fd(), .events = POLLOUT, .revents = 0};
    ASSERT_TRUE(*poll_until({&entry, 1}, Deadline::after(seconds(30))));
    forged.queue(MessageType::kRingHello, hello(1, 0).encode());
    (void)forged.flush();
    EXPECT_FALSE(next(forged));
  }
  // Who knows the secret and is nobody who writes here: no letter without a hello, no hello of
  // another ring, size or rank.
  RingHelloMessage of_ring = hello(1, 0);
  of_ring.channel = RingChannel::kControl;
  RingHelloMessage of_others = hello(1, 0);
  of_others.nranks = 3;
  const LetterMessage letter{.from = 1, .to = 0, .text = letter_text(1, 0, 10)};
  for (const RingHelloMessage& wrong :
       {of_ring, of_others, hello(0, 0), hello(2, 0), hello(-1, 0), hello(1, 1)}) {
    Wire wire = call();
    say(wire, MessageType::kRingHello, wrong.encode());
    EXPECT_FALSE(next(wire));
  }
  {
    Wire wire = call();
    say(wire, MessageType::kLetter, letter.encode());
    EXPECT_FALSE(next(wire));
  }
  // Nor letters of others, nor to others, nor anything else after the hello.
  LetterMessage of_other = letter;
  of_other.from = 0;
  LetterMessage to_other = letter;
  to_other.to = 1;
  for (const auto& [type, payload] : {std::pair(MessageType::kLetter, of_other.encode()),
                                      std::pair(MessageType::kLetter, to_other.encode()),
                                      std::pair(MessageType::kGoodbye, letter.encode())}) {
    Wire wire = call();
    say(wire, MessageType::kRingHello, hello(1, 0).encode());
    ASSERT_TRUE(next(wire));
    say(wire, type, payload);
    EXPECT_FALSE(next(wire));
  }
  EXPECT_TRUE(box_.wait(0).empty());
  Wire wire = call();
  say(wire, MessageType::kRingHello, hello(1, 0).encode());
  const auto answer = next(wire);
  ASSERT_TRUE(answer);
  EXPECT_EQ(RingHelloMessage::decode(answer->payload), hello(0, 1));
  say(wire, MessageType::kLetter, letter.encode());
  const auto taken = next(wire);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->type, MessageType::kLetterTaken);
  EXPECT_THAT(box_.wait(1)[1], ElementsAre(letter.text));
}

TEST_F(LettersOfOne, SilentStrangersDoNotKeepLettersOut) {
  start(partner_->endpoints());
  const std::size_t before = testing::count_entries("/proc/self/fd");
  std::vector<Wire> strangers;
  for (int i = 0; i < 400; ++i)
    strangers.push_back(call());
  Wire wire = call();
  say(wire, MessageType::kRingHello, hello(1, 0).encode());
  ASSERT_TRUE(next(wire));
  say(wire, MessageType::kLetter,
      LetterMessage{.from = 1, .to = 0, .text = letter_text(1, 0, 10)}.encode());
  EXPECT_EQ(box_.wait(1)[1].size(), 1U);
  // Of each connection one end is the test's.
  EXPECT_LE(testing::count_entries("/proc/self/fd"), before + strangers.size() + 256 + 3);
}

}  // namespace
}  // namespace weft
