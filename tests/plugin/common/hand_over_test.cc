// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Handing out descriptors: more takers than a giver talks to at once, both sides stopped for long,
// givers that go away, and what is then said.

#include "plugins/common/hand_over.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fake_host.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/sanitized.h"

namespace {

/// Runs once, between the kernel's look for a message and its look for a closed peer.
std::function<void()> between_looks;

}  // namespace

extern "C" ssize_t __real_recvmsg(int socket, msghdr* message, int flags);

/// What the kernel answers when a peer sends and closes between the two looks (see hand_over.cc).
extern "C" ssize_t __wrap_recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t got = __real_recvmsg(socket, message, flags);
  if (got >= 0 || errno != EAGAIN || !between_looks) return got;
  std::exchange(between_looks, nullptr)();
  return 0;
}

namespace weft::plugins {
namespace {

std::uint64_t now = 1;  // ns; of all hosts of this program

constexpr std::uint64_t kSecond = 1'000'000'000;

class HandOver : public testing::Test, public Giver::Store {
 protected:
  HandOver() : services_(*fake_.services()), host_(&services_) {
    now = 1;
    services_.now_ns = [](weft_host_instance*) { return now; };
    memory_.reset(memfd_create("hand-over-test", MFD_CLOEXEC));
  }

  int find(const Nonce& memory, std::uint32_t rank) override {
    const auto found = wanted_.find(memory);
    return found != wanted_.end() && found->second == rank ? memory_.get() : -1;
  }
  void given(const Nonce& memory, std::uint32_t /*rank*/, OwnedFd line) override {
    wanted_.erase(memory);
    line_ = std::move(line);
  }

  /// Memory for rank `rank`, handed out by `giver`.
  HandOverPlace offer(Giver& giver, std::uint32_t rank) {
    HandOverPlace place;
    EXPECT_EQ(giver.open(&place.socket), WEFT_OK);
    place.memory = random_nonce();
    wanted_.emplace(place.memory, rank);
    return place;
  }

  weft_result step(Taker& taker, std::uint32_t rank, const HandOverPlace& place) {
    OwnedFd got;
    return taker.step(host_, key_, {.plugin = "test", .rank = rank, .peer = 0}, place, &got);
  }

  test::FakeHost fake_;
  weft_host services_;
  Host host_;
  const std::vector<std::uint8_t> secret_ = std::vector<std::uint8_t>(32, 7);
  Key key_{secret_};
  OwnedFd memory_;
  OwnedFd line_;
  std::map<Nonce, std::uint32_t> wanted_;
};

struct Asking {
  HandOverPlace place;
  Taker taker;
  weft_result result = WEFT_IN_PROGRESS;
};

// All-to-all within a large host under load: the giver talks to 64 at once, and may make room by
// turning away who belongs here.
TEST_F(HandOver, TakersThatAreStoppedWhileOthersWaitGetTheirMemory) {
  Giver giver(host_, "test");
  std::vector<std::unique_ptr<Asking>> all;
  for (std::uint32_t rank = 1; rank <= 200; ++rank) {
    all.push_back(std::make_unique<Asking>());
    all.back()->place = offer(giver, rank);
  }
  const auto step_all = [&](std::size_t first) {
    for (std::size_t i = first; i < all.size(); ++i) {
      Asking& one = *all[i];
      if (one.result != WEFT_IN_PROGRESS) continue;
      one.result = step(one.taker, static_cast<std::uint32_t>(i + 1), one.place);
      ASSERT_GE(one.result, 0) << "rank " << i + 1 << ": " << fake_.last_error().what;
    }
  };
  step_all(0);
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  // The first 64 have their hello and say nothing for long; the others wait.
  now += 6 * kSecond;
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  for (int round = 0; round < 20; ++round) {
    step_all(0);
    ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  }
  for (const auto& one : all)
    EXPECT_EQ(one->result, WEFT_OK);
}

// Nobody calls, or who calls is answered as soon as others have been.
TEST_F(HandOver, GiverThatHasNoDescriptorForAMomentGoesOn) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
  Giver giver(host_, "test");
  Asking first;
  first.place = offer(giver, 1);
  {
    const test::NoDescriptors none;
    EXPECT_EQ(giver.serve(key_, *this), WEFT_OK) << fake_.last_error().what;
  }
  EXPECT_EQ(step(first.taker, 1, first.place), WEFT_IN_PROGRESS);
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  Asking second;
  second.place = offer(giver, 2);
  EXPECT_EQ(step(second.taker, 2, second.place), WEFT_IN_PROGRESS);
  {
    const test::NoDescriptors none;
    EXPECT_EQ(giver.serve(key_, *this), WEFT_OK) << fake_.last_error().what;
    // Of the first nothing is heard for long, and then there is nobody to wait for.
    now += 60 * kSecond;
    EXPECT_EQ(giver.serve(key_, *this), WEFT_ERROR_OUT_OF_RESOURCES);
  }
}

// A child that was forked meanwhile has copies of its sockets.
TEST_F(HandOver, GiverThatEndsDoesSoThoughAChildLives) {
  Giver giver(host_, "test");
  std::array<Asking, 2> all;
  all[0].place = offer(giver, 1);
  all[1].place = offer(giver, 2);
  EXPECT_EQ(step(all[0].taker, 1, all[0].place), WEFT_IN_PROGRESS);
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  giver.close();
  for (std::uint32_t rank = 1; rank <= 2; ++rank) {
    Asking& one = all.at(rank - 1);
    for (int i = 0; i < 100 && one.result == WEFT_IN_PROGRESS; ++i) {
      now += kSecond;
      one.result = step(one.taker, rank, one.place);
    }
    EXPECT_EQ(one.result, WEFT_ERROR_PEER) << "rank " << rank;
  }
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// What takers have asked lies there when the giver goes on: it must not take them for strangers.
TEST_F(HandOver, GiverThatWasStoppedAnswersWhatWasAskedMeanwhile) {
  Giver giver(host_, "test");
  std::vector<std::unique_ptr<Asking>> all;
  for (std::uint32_t rank = 1; rank <= 100; ++rank) {
    all.push_back(std::make_unique<Asking>());
    all.back()->place = offer(giver, rank);
  }
  const auto step_all = [&] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->result == WEFT_IN_PROGRESS) {
        all[i]->result = step(all[i]->taker, static_cast<std::uint32_t>(i + 1), all[i]->place);
      }
    }
  };
  step_all();
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  step_all();
  now += 60 * kSecond;
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  EXPECT_EQ(wanted_.size(), 100U - 64U) << "those who had asked have their memory";
  step_all();
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(all[i]->result, WEFT_OK) << i;
}

TEST_F(HandOver, AnEndThatOvertakesTheGrantLosesNothing) {
  Giver giver(host_, "test");
  const HandOverPlace place = offer(giver, 1);
  Taker taker;
  ASSERT_EQ(step(taker, 1, place), WEFT_IN_PROGRESS);
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  between_looks = [&] {
    EXPECT_EQ(giver.serve(key_, *this), WEFT_OK);
    EXPECT_TRUE(wanted_.empty());
    giver.close();
  };
  EXPECT_EQ(step(taker, 1, place), WEFT_OK) << fake_.last_error().what;
  EXPECT_FALSE(between_looks) << "the taker had to wait for its grant";
}

TEST_F(HandOver, GiverThatGoesIsNamedAfterASecond) {
  Giver giver(host_, "test");
  const HandOverPlace place = offer(giver, 1);
  Taker taker;
  ASSERT_EQ(step(taker, 1, place), WEFT_IN_PROGRESS);
  ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  giver.close();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(step(taker, 1, place), WEFT_IN_PROGRESS);
  now += kSecond - 1;
  EXPECT_EQ(step(taker, 1, place), WEFT_IN_PROGRESS);
  now += 1;
  EXPECT_EQ(step(taker, 1, place), WEFT_ERROR_PEER);
  EXPECT_EQ(fake_.last_error().what,
            "test: rank 0 closed its Unix socket before it passed its memory");
}

TEST_F(HandOver, TakerOfWhatIsNotThereIsToldInTheEnd) {
  Giver giver(host_, "test");
  HandOverPlace place = offer(giver, 1);
  place.memory = random_nonce();
  Taker taker;
  weft_result result = WEFT_IN_PROGRESS;
  for (int i = 0; i < 1000 && result == WEFT_IN_PROGRESS; ++i) {
    result = step(taker, 1, place);
    ASSERT_EQ(giver.serve(key_, *this), WEFT_OK);
  }
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  EXPECT_EQ(fake_.last_error().what,
            "test: rank 0 listens, and turned this rank away again and again before it passed its "
            "memory");
}

TEST_F(HandOver, OfAnotherSecretIsTurnedAway) {
  Giver giver(host_, "test");
  const HandOverPlace place = offer(giver, 1);
  const std::vector<std::uint8_t> other(32, 8);
  key_ = Key(other);
  Taker taker;
  const Key right{secret_};
  weft_result result = WEFT_IN_PROGRESS;
  for (int i = 0; i < 1000 && result == WEFT_IN_PROGRESS; ++i) {
    result = step(taker, 1, place);
    ASSERT_EQ(giver.serve(right, *this), WEFT_OK);
  }
  EXPECT_EQ(result, WEFT_ERROR_PEER);
  EXPECT_EQ(wanted_.size(), 1U);
}

}  // namespace
}  // namespace weft::plugins
