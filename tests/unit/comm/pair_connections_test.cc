// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connecting two ranks, where one of them does nothing for a while.
#include "core/transport/pair_connections.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/bootstrap/unique_id.h"
#include "core/transport/net_devices.h"
#include "core/transport/offer_codec.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/sanitized.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using test::Ranks;

constexpr SlotGeometry kOneWay{.steps = 2, .step_bytes = 4096};

/// Keeps a reactor's thread from everything else until it goes.
class Held {
 public:
  explicit Held(Reactor& reactor) : reactor_(reactor), event_(eventfd(1, EFD_CLOEXEC)) {
    const auto block = [this](std::uint32_t /*events*/) {
      std::unique_lock lock(mutex_);
      held_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return over_; });
    };
    watch_ = Ranks::value(reactor_.add(event_.get(), EPOLLIN, block));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    reactor_.remove(watch_);
  }

 private:
  Reactor& reactor_;
  UniqueFd event_;
  Reactor::WatchId watch_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;  // guarded by mutex_
  bool over_ = false;  // guarded by mutex_
};

/// Two ranks of this process, each with a context and so with a reactor of its own: letters between
/// them go by sockets, memory without them.
class TwoRanks : public testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<Context> context;
    std::unique_ptr<Bootstrap> bootstrap;
    std::unique_ptr<Connections> connections;
    std::unique_ptr<PairConnector> pairs;
    std::atomic<int> failures{0};
  };

  TwoRanks() {
    for (Rank& rank : ranks_)
      rank.context = Ranks::value(
          Context::create("", test::environment_with({{"WEFT_NET_SOCKET_INTERFACES", "=lo"}})));
    Context& first = *ranks_[0].context;
    const UniqueId id = Ranks::value(first.serve_rendezvous(first.config()));
    on_each([&](std::uint32_t number, Rank& rank) {
      Context& context = *rank.context;
      rank.bootstrap = Ranks::value(Bootstrap::join(
          id, static_cast<int>(number), 2, bootstrap_options(context.config(), context.host()),
          context.reactor(), context.logger()));
    });
    Topology topology{.hosts = {first.host()}, .ranks = {}};
    for (std::uint32_t number = 0; number < 2; ++number)
      topology.ranks.push_back(Ranks::value(first.next_rank_info(number, first.runtime())));
    std::vector<std::optional<std::vector<std::byte>>> infos(2);
    for (std::uint32_t number = 0; number < 2; ++number) {
      Context& context = *ranks_[number].context;
      auto& connections = ranks_[number].connections;
      connections = std::make_unique<Connections>(TransportContext{.rank = number,
                                                                   .ranks = 2,
                                                                   .communicator = 1,
                                                                   .secret = {},
                                                                   .host_id = first.host().host_id,
                                                                   .runtime = &context.runtime(),
                                                                   .engine_of = {},
                                                                   .logger = &context.logger(),
                                                                   .devices_of = {},
                                                                   .path_failed = {}});
      connections->open(*Ranks::value(context.plugins().load("p2p")), infos[number].emplace());
    }
    for (Rank& rank : ranks_) {
      static_cast<void>(rank.connections->ask("p2p", topology, infos));
      if (!rank.connections->open_paths({}, choice_with)) throw std::runtime_error("no paths");
    }
  }
  ~TwoRanks() override {
    on_each([](std::uint32_t /*number*/, Rank& rank) { rank.bootstrap->leave(); });
    for (Rank& rank : ranks_) {
      rank.pairs.reset();
      rank.connections.reset();
      rank.bootstrap.reset();
    }
  }

  static PairChoice choice_with(std::uint32_t /*peer*/) {
    PairChoice choice;
    choice.plugin = "p2p";
    return choice;
  }
  template <class Body>
  void on_each(Body body) {
    std::vector<std::thread> threads;
    for (std::uint32_t number = 0; number < 2; ++number)
      threads.emplace_back([&, number] { body(number, ranks_[number]); });
    for (std::thread& thread : threads)
      thread.join();
  }
  void start(std::uint32_t number, std::function<LinkShape(const PairLink& link)> shape_of) {
    Rank& rank = ranks_[number];
    rank.pairs = Ranks::value(PairConnector::start(
        *rank.connections, *rank.bootstrap, rank.context->reactor(), std::move(shape_of),
        choice_with, [&rank](const Error&) { ++rank.failures; }));
  }
  Status wait(std::uint32_t number, milliseconds limit, std::uint32_t channel = 0) {
    const PairLink link{.peer = 1 - number, .channel = channel};
    return ranks_[number].pairs->wait({&link, 1}, Deadline::after(limit), [] { return false; });
  }

  Rank ranks_[2];
};

// It may have sent all that there is, and left, before its letter is read: the receiver would ask
// it again, and find nobody.
TEST_F(TwoRanks, WhoSendsAloneIsConnectedOnceItsLetterIsThere) {
  std::unique_ptr<Held> held;
  start(0, [&](const PairLink& /*link*/) -> LinkShape {
    // The receiver's letter has come. It shall not get an answer.
    if (held == nullptr) held = std::make_unique<Held>(ranks_[1].context->reactor());
    return {.slots = kOneWay, .to = true, .from = false};
  });
  start(1, [](const PairLink& /*link*/) -> LinkShape {
    return {.slots = kOneWay, .to = false, .from = true};
  });
  const PairLink of_receiver{.peer = 0, .channel = 0};
  ranks_[1].pairs->want({&of_receiver, 1});
  const Status early = wait(0, milliseconds(300));
  held.reset();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code(), WEFT_ERROR_TIMEOUT) << early.error().to_string();
  EXPECT_TRUE(wait(0, milliseconds(60'000)));
  EXPECT_TRUE(wait(1, milliseconds(60'000)));
  EXPECT_EQ(ranks_[0].failures + ranks_[1].failures, 0);
}

// The other waits for a letter that was never sent: neither would come to an end.
TEST_F(TwoRanks, WhoHasNoDescriptorToAnswerSaysSoAtOnce) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  // The sender takes what the receiver's letter tells of, and has nothing left when it is to write
  // its own.
  std::optional<test::NoDescriptors> none;
  std::atomic<bool> joins{false};
  const UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Reactor& reactor = ranks_[0].context->reactor();
  const Reactor::WatchId watch =
      Ranks::value(reactor.add(event.get(), EPOLLIN, [&](std::uint32_t /*events*/) {
        eventfd_t count = 0;
        eventfd_read(event.get(), &count);
        none.emplace();
        joins = true;
      }));
  start(0, [&](const PairLink& /*link*/) -> LinkShape {
    eventfd_write(event.get(), 1);
    return {.slots = kOneWay, .to = true, .from = false};
  });
  start(1, [](const PairLink& /*link*/) -> LinkShape {
    return {.slots = kOneWay, .to = false, .from = true};
  });
  Status failed;
  // Now and then the letter is on its way before: then the two are connected.
  for (std::uint32_t channel = 0; channel < 10 && failed; ++channel) {
    joins = false;
    const PairLink of_receiver{.peer = 0, .channel = channel};
    ranks_[1].pairs->want({&of_receiver, 1});
    for (int i = 0; i < 60'000 && !joins; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    const PairLink of_sender{.peer = 1, .channel = channel};
    ranks_[0].pairs->want({&of_sender, 1});
    failed = wait(0, milliseconds(5'000), channel);
    none.reset();
  }
  reactor.remove(watch);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().to_string(),
            "connecting with rank 1: rank 0 cannot create a socket (errno 24, Too many open "
            "files); try: raise the limit of open files (ulimit -n)");
}

class WithoutDescriptors : public TwoRanks, public testing::WithParamInterface<bool> {};

// Nobody waits here, and what kept the answer from the other rank has passed when that asks again,
// or when this one calls, whichever comes first.
TEST_P(WithoutDescriptors, WhoCouldNotAnswerAnswersLater) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  const bool own_call_first = GetParam();
  std::optional<test::NoDescriptors> none;
  std::atomic<bool> joins{false};
  const UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Reactor& reactor = ranks_[0].context->reactor();
  const Reactor::WatchId watch =
      Ranks::value(reactor.add(event.get(), EPOLLIN, [&](std::uint32_t /*events*/) {
        eventfd_t count = 0;
        eventfd_read(event.get(), &count);
        if (!joins) none.emplace();
        joins = true;
      }));
  start(0, [&](const PairLink& /*link*/) -> LinkShape {
    eventfd_write(event.get(), 1);
    return {.slots = kOneWay, .to = true, .from = false};
  });
  start(1, [](const PairLink& /*link*/) -> LinkShape {
    return {.slots = kOneWay, .to = false, .from = true};
  });
  const PairLink of_receiver{.peer = 0, .channel = 0};
  ranks_[1].pairs->want({&of_receiver, 1});
  for (int i = 0; i < 60'000 && !joins; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(100));
  reactor.remove(watch);
  none.reset();
  const PairLink of_sender{.peer = 1, .channel = 0};
  if (own_call_first) ranks_[0].pairs->want({&of_sender, 1});
  EXPECT_TRUE(wait(1, milliseconds(60'000)));
  if (!own_call_first) ranks_[0].pairs->want({&of_sender, 1});
  EXPECT_TRUE(wait(0, milliseconds(60'000)));
  EXPECT_EQ(ranks_[0].failures + ranks_[1].failures, 0);
}
INSTANTIATE_TEST_SUITE_P(Both, WithoutDescriptors, testing::Bool());

// It may be in no call, and would tell nobody of what it only suspects.
TEST_F(TwoRanks, AFailureIsToldAgainWhenNewsOfItsCauseMayHaveCome) {
  start(0, [](const PairLink& /*link*/) -> LinkShape { return {.slots = kOneWay}; });
  ranks_[1].bootstrap->post(0, LetterSubject::kPairs, {});
  for (int i = 0; i < 10'000 && ranks_[0].failures < 2; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(ranks_[0].failures, 2);
  EXPECT_EQ(wait(0, milliseconds(60'000)).error().code(), WEFT_ERROR_PEER);
}

// Who holds the communicator's secret could otherwise make a rank take memory for hundreds of
// links.
TEST(LettersOfPairs, OfChannelsThatNoCallTakesAreRefused) {
  const auto context = Ranks::value(Context::create(
      "", test::environment_with({{"WEFT_TRANSPORTS_ORDER", "p2p"}, {"WEFT_CHANNELS_MAX", "1"}})));
  for (const std::uint32_t channel :
       {1U, kFirstTreeChannel + 1, kFirstLLChannel + 1, kFirstLL128Channel + 1,
        kFirstSmallChannel + 1, kPairChannel + 1, kPairLineChannel, kEndOfPairChannels}) {
    const UniqueId id = Ranks::value(context->serve_rendezvous(context->config()));
    std::unique_ptr<Communicator> communicators[2];
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        communicators[rank] = Ranks::value(
            Communicator::join(*context, context->config(), id, rank, 2, context->runtime()));
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    std::vector<std::byte> letter = {std::byte{1}, std::byte(channel & 0xFF),
                                     std::byte(channel >> 8)};
    const std::vector<std::byte> blobs = encode_blobs({});
    letter.insert(letter.end(), blobs.begin(), blobs.end());
    letter.push_back(std::byte(LetterSubject::kPairs));
    const auto secret = Ranks::value(read_unique_id(id)).secret;
    ASSERT_TRUE(context->local_letters().bring(secret, 1, 0, letter));
    std::optional<Error> failure;
    for (int i = 0; i < 10'000 && !failure; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
      failure = communicators[0]->known_failure();
    }
    ASSERT_TRUE(failure) << channel;
    EXPECT_EQ(failure->what(),
              "rank 1 wrote of channel " + std::to_string(channel) + ", which there is not");
    communicators[0]->abort();  // who leaves waits for the news that a suspicion waits for
  }
}

}  // namespace
}  // namespace weft
