// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The reactor: who is called, on which thread, and what remove() promises. Every wait is for an
// event, never for time.
#include "core/base/reactor.h"

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/fd.h"

namespace weft {
namespace {

using testing::HasSubstr;

/// A descriptor that is ready once signalled, until it is drained.
UniqueFd make_event() {
  return UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}
void signal(const UniqueFd& event) {
  ASSERT_EQ(eventfd_write(event.get(), 1), 0);
}
void drain(const UniqueFd& event) {
  eventfd_t value = 0;
  ASSERT_EQ(eventfd_read(event.get(), &value), 0);
}

class ReactorTest : public testing::Test {
 protected:
  void SetUp() override {
    auto created = Reactor::create();
    ASSERT_TRUE(created.has_value()) << created.error().to_string();
    reactor_ = std::move(*created);
  }
  std::unique_ptr<Reactor> reactor_;
};

TEST_F(ReactorTest, CallsTheWatcherOfAReadyDescriptorOnItsThread) {
  const auto event = make_event();
  std::promise<std::uint32_t> called;
  std::atomic<bool> on_thread = false;
  const auto id = reactor_->add(event.get(), EPOLLIN, [&](std::uint32_t events) {
    on_thread = reactor_->on_reactor_thread();
    drain(event);
    called.set_value(events);
  });
  ASSERT_TRUE(id.has_value());
  signal(event);
  EXPECT_EQ(called.get_future().get(), static_cast<std::uint32_t>(EPOLLIN));
  EXPECT_TRUE(on_thread);
  EXPECT_FALSE(reactor_->on_reactor_thread());
  reactor_->remove(*id);
}

TEST_F(ReactorTest, WatchesAreLevelTriggered) {
  const auto event = make_event();
  std::promise<void> thrice;
  int calls = 0;
  const auto id = reactor_->add(event.get(), EPOLLIN, [&](std::uint32_t) {
    if (++calls == 3) {
      drain(event);
      thrice.set_value();
    }
  });
  ASSERT_TRUE(id.has_value());
  signal(event);
  thrice.get_future().wait();
  reactor_->remove(*id);
}

TEST_F(ReactorTest, ReportsAPeerThatHangsUp) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const UniqueFd here(pair[0]);
  UniqueFd there(pair[1]);
  std::promise<std::uint32_t> called;
  std::atomic<bool> once = false;
  const auto id = reactor_->add(here.get(), EPOLLRDHUP, [&](std::uint32_t events) {
    if (!once.exchange(true)) called.set_value(events);
  });
  ASSERT_TRUE(id.has_value());
  there.reset();
  EXPECT_NE(called.get_future().get() & EPOLLRDHUP, 0U);
  reactor_->remove(*id);
}

TEST_F(ReactorTest, RemoveWaitsForTheRunningCallback) {
  const auto event = make_event();
  std::promise<void> entered;
  std::promise<void> let_go;
  std::atomic<bool> left = false;
  const auto id = reactor_->add(event.get(), EPOLLIN, [&](std::uint32_t) {
    drain(event);
    entered.set_value();
    let_go.get_future().wait();
    left = true;
  });
  ASSERT_TRUE(id.has_value());
  signal(event);
  entered.get_future().wait();
  std::atomic<bool> removed = false;
  std::promise<void> removing;
  std::thread remover([&] {
    removing.set_value();
    reactor_->remove(*id);
    EXPECT_TRUE(left) << "remove() returned while the callback ran";
    removed = true;
  });
  removing.get_future().wait();
  EXPECT_FALSE(removed);
  let_go.set_value();
  remover.join();
  EXPECT_TRUE(removed);
}

TEST_F(ReactorTest, ARemovedWatcherIsNotCalledAgain) {
  const auto removed_event = make_event();
  const auto later_event = make_event();
  std::atomic<int> calls = 0;
  const auto removed = reactor_->add(removed_event.get(), EPOLLIN, [&](std::uint32_t) { ++calls; });
  ASSERT_TRUE(removed.has_value());
  reactor_->remove(*removed);
  signal(removed_event);
  // A second watch that is served after the first became ready shows that the reactor had its
  // chance to call it.
  std::promise<void> later;
  const auto id = reactor_->add(later_event.get(), EPOLLIN, [&](std::uint32_t) {
    drain(later_event);
    later.set_value();
  });
  ASSERT_TRUE(id.has_value());
  signal(later_event);
  later.get_future().wait();
  EXPECT_EQ(calls, 0);
  reactor_->remove(*id);
}

TEST_F(ReactorTest, ACallbackMayRemoveItself) {
  const auto event = make_event();
  std::promise<Reactor::WatchId> known;
  std::promise<void> done;
  auto known_future = known.get_future();
  const auto id = reactor_->add(event.get(), EPOLLIN, [&](std::uint32_t) {
    reactor_->remove(known_future.get());
    done.set_value();
  });
  ASSERT_TRUE(id.has_value());
  known.set_value(*id);
  signal(event);
  done.get_future().wait();
  // Still ready, no longer watched: a second call would throw from the promise it has used up.
  reactor_.reset();
}

TEST_F(ReactorTest, ACallbackMayAddAWatch) {
  const auto first = make_event();
  const auto second = make_event();
  std::promise<void> done;
  std::promise<Reactor::WatchId> inner;
  const auto id = reactor_->add(first.get(), EPOLLIN, [&](std::uint32_t) {
    drain(first);
    const auto added = reactor_->add(second.get(), EPOLLIN, [&](std::uint32_t) {
      drain(second);
      done.set_value();
    });
    ASSERT_TRUE(added.has_value());
    inner.set_value(*added);
  });
  ASSERT_TRUE(id.has_value());
  signal(first);
  signal(second);
  done.get_future().wait();
  reactor_->remove(inner.get_future().get());
  reactor_->remove(*id);
}

TEST_F(ReactorTest, ADescriptorThatCannotBeWatchedIsAnError) {
  const auto closed = reactor_->add(-1, EPOLLIN, [](std::uint32_t) {});
  ASSERT_FALSE(closed.has_value());
  EXPECT_EQ(closed.error().native(), EBADF);
  EXPECT_THAT(closed.error().to_string(), HasSubstr("cannot watch descriptor -1"));
  const auto event = make_event();
  const auto first = reactor_->add(event.get(), EPOLLIN, [](std::uint32_t) {});
  ASSERT_TRUE(first.has_value());
  const auto twice = reactor_->add(event.get(), EPOLLIN, [](std::uint32_t) {});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().native(), EEXIST);
  reactor_->remove(*first);
}

TEST_F(ReactorTest, UnknownIdsAreIgnored) {
  reactor_->remove(0);
  reactor_->remove(12345);
}

TEST_F(ReactorTest, DestructionReleasesWhatCallbacksHold) {
  const auto event = make_event();
  const auto held = std::make_shared<int>(1);
  ASSERT_TRUE(reactor_->add(event.get(), EPOLLIN, [held](std::uint32_t) {}).has_value());
  EXPECT_EQ(held.use_count(), 2);
  reactor_.reset();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(ReactorTest, RemoveReleasesWhatTheCallbackHolds) {
  const auto event = make_event();
  const auto held = std::make_shared<int>(1);
  std::promise<void> called;
  const auto id = reactor_->add(event.get(), EPOLLIN, [&event, &called, held](std::uint32_t) {
    drain(event);
    called.set_value();
  });
  ASSERT_TRUE(id.has_value());
  signal(event);
  called.get_future().wait();
  reactor_->remove(*id);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(ReactorTest, WhatACallbackHeldMayRemoveAWatchInItsDestructor) {
  const auto event = make_event();
  const auto other_event = make_event();
  const auto other = reactor_->add(other_event.get(), EPOLLIN, [](std::uint32_t) {});
  ASSERT_TRUE(other.has_value());
  std::promise<void> destroyed;
  std::shared_ptr<void> held(nullptr, [&](void*) {
    reactor_->remove(*other);
    destroyed.set_value();
  });
  const auto id = reactor_->add(event.get(), EPOLLIN, [held](std::uint32_t) {});
  ASSERT_TRUE(id.has_value());
  held.reset();
  reactor_->remove(*id);
  destroyed.get_future().wait();
}

TEST(Reactor, ExhaustedDescriptorsAreAnErrorThatNamesThem) {
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  // The lowest free descriptor is the first one refused.
  const int lowest_free = dup(STDERR_FILENO);
  ASSERT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit none = old_limit;
  none.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto reactor = Reactor::create();
  none.rlim_cur = static_cast<rlim_t>(lowest_free) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto half = Reactor::create();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  ASSERT_FALSE(reactor.has_value());
  EXPECT_EQ(reactor.error().code(), WEFT_ERROR_OUT_OF_RESOURCES);
  EXPECT_EQ(reactor.error().native(), EMFILE);
  ASSERT_FALSE(half.has_value());
  EXPECT_THAT(half.error().to_string(), HasSubstr("event descriptor"));
  // The half-made one gave its first descriptor back.
  const int again = dup(STDERR_FILENO);
  EXPECT_EQ(again, lowest_free);
  close(again);
}

}  // namespace
}  // namespace weft
