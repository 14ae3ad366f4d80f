// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the header net.h promises of every net, part 3: sleeping, taking back, and every way to end.
#include <atomic>
#include <chrono>
#include <optional>
#include <poll.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/plugin/net/net_rank.h"

namespace weft::test {
namespace {

bool can_sleep(NetRank& rank) {
  return (rank.device().capabilities & WEFT_NET_CAN_SLEEP) != 0 && rank.api().arm != nullptr;
}

bool takes_unregistered(NetRank& rank) {
  return (rank.device().capabilities & WEFT_NET_UNREGISTERED) != 0;
}

/// Polls and sleeps by turns, as an engine does, until the completion has come. A sleep that
/// nothing ends within a minute is a failure. `asleep` becomes true when the first one begins.
std::optional<weft_net_completion> sleep_until(NetRank& rank, std::uint64_t user,
                                               std::atomic<bool>* asleep = nullptr) {
  for (;;) {
    rank.poll();
    if (const auto completion = rank.take(user)) return completion;
    std::int32_t descriptor = -1;
    const weft_result armed = rank.api().arm(rank.net(), &descriptor);
    if (armed == WEFT_AGAIN) continue;
    EXPECT_EQ(armed, WEFT_OK);
    if (asleep != nullptr) *asleep = true;
    pollfd watched = {.fd = descriptor, .events = POLLIN, .revents = 0};
    const int woken = ::poll(&watched, 1, 60'000);
    EXPECT_EQ(woken, 1) << "nothing woke the sleeper";
    if (woken != 1) return std::nullopt;
  }
}

TEST(NetSleep, EnginesThatSleepMoveALongMessage) {
  NetRank a;
  NetRank b;
  if (!can_sleep(a)) GTEST_SKIP() << "the net cannot sleep";
  Link link = make_link(a, b);
  const Bytes data = pattern(16 << 20, 1);
  Bytes room(16 << 20);
  std::optional<weft_net_completion> received;
  std::thread engine([&] {
    // Asleep before there is anything, with nothing posted; then with a receive posted.
    EXPECT_EQ(link.receiver.receive(room, 1), WEFT_OK);
    received = sleep_until(b, 1);
  });
  EXPECT_EQ(link.sender.send(data, 2), WEFT_OK);
  EXPECT_TRUE(sleep_until(a, 2).has_value());
  engine.join();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->status, WEFT_OK);
  EXPECT_EQ(room, data);
}

TEST(NetSleep, PingPongWakesEachSideInTurn) {
  NetRank a;
  NetRank b;
  if (!can_sleep(a)) GTEST_SKIP() << "the net cannot sleep";
  Link there = make_link(a, b);
  Link back = make_link(b, a);
  constexpr int kRounds = 200;
  const auto run = [](NetRank& rank, End& out, End& in, bool first) {
    const Bytes ball(100, 7);
    Bytes room(100);
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_EQ(in.receive(room, 1), WEFT_OK);
      if (first) {
        EXPECT_EQ(out.send(ball, 2), WEFT_OK);
      }
      EXPECT_TRUE(sleep_until(rank, 1).has_value());
      if (!first) {
        EXPECT_EQ(out.send(ball, 2), WEFT_OK);
      }
      EXPECT_TRUE(sleep_until(rank, 2).has_value());
    }
  };
  std::thread other([&] { run(b, back.sender, there.receiver, false); });
  run(a, there.sender, back.receiver, true);
  other.join();
}

TEST(NetSleep, GivesTheSameDescriptorEachTime) {
  NetRank a;
  NetRank b;
  if (!can_sleep(a)) GTEST_SKIP() << "the net cannot sleep";
  const auto armed = [&] {
    std::int32_t descriptor = -1;
    EXPECT_TRUE(eventually([&] {
      const weft_result result = a.api().arm(a.net(), &descriptor);
      if (result == WEFT_AGAIN) a.poll();
      return result == WEFT_OK;
    }));
    return descriptor;
  };
  const std::int32_t first = armed();
  EXPECT_GE(first, 0);
  Link link = make_link(a, b);
  EXPECT_EQ(armed(), first);
}

TEST(NetSleep, IsRefusedWhileACompletionWaits) {
  NetRank a;
  NetRank b;
  if (!can_sleep(a)) GTEST_SKIP() << "the net cannot sleep";
  Link link = make_link(a, b);
  const Bytes data(1, 1);
  Bytes room(1);
  std::vector<Bytes> rooms(8, Bytes(1));
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    link.receiver.must_receive(link.sender, rooms[i], i);
    link.sender.must_send(link.receiver, data, 100 + i);
  }
  // The rank of this suite takes up to four completions a poll: with eight to come, some wait.
  ASSERT_TRUE(eventually([&] {
    a.poll();
    std::int32_t descriptor = -1;
    weft_net_completion one{};
    one.struct_size = sizeof one;
    std::uint64_t count = 0;
    EXPECT_EQ(b.api().poll(b.net(), &one, sizeof one, 1, &count), WEFT_OK);
    if (count == 0) return false;
    // Some of the other seven have come, or will wake the descriptor.
    const weft_result armed = b.api().arm(b.net(), &descriptor);
    if (armed == WEFT_AGAIN) return true;
    pollfd watched = {.fd = descriptor, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&watched, 1, 60'000), 1);
    return true;
  }));
}

TEST(NetCancel, TakesAPostedReceiveBack) {
  NetRank a;
  NetRank b;
  if (b.api().cancel == nullptr) GTEST_SKIP() << "the net cannot cancel";
  Link link = make_link(a, b);
  Bytes first(100);
  Bytes second(100);
  weft_net_request* request = nullptr;
  ASSERT_EQ(link.receiver.receive(first, 1, 0, &request), WEFT_OK);
  link.receiver.must_receive(link.sender, second, 2);
  const weft_result cancelled = b.api().cancel(request);
  ASSERT_TRUE(cancelled == WEFT_OK || cancelled == WEFT_AGAIN);
  const Bytes data = pattern(100, 1);
  link.sender.must_send(link.receiver, data, 3);
  if (cancelled == WEFT_OK) {
    EXPECT_EQ(await(b, a, 2).status, WEFT_OK);
    EXPECT_EQ(second, data);
    EXPECT_FALSE(b.take(1).has_value());
  } else {
    EXPECT_EQ(await(b, a, 1).status, WEFT_OK);
    EXPECT_EQ(first, data);
  }
}

TEST(NetDrain, AnswersOnceAllHasLeft) {
  NetRank a;
  NetRank b;
  if (a.api().drain == nullptr) GTEST_SKIP() << "the net cannot drain";
  Link link = make_link(a, b);
  EXPECT_TRUE(eventually([&] { return a.api().drain(a.net()) == WEFT_OK; })) << "nothing was sent";
  const Bytes data = pattern(16 << 20, 1);
  Bytes room(16 << 20);
  link.sender.must_send(link.receiver, data, 1);
  EXPECT_EQ(a.api().drain(a.net()), WEFT_IN_PROGRESS) << "16 MiB that nobody receives";
  link.receiver.must_receive(link.sender, room, 2);
  EXPECT_TRUE(eventually([&] {
    b.poll();
    return a.api().drain(a.net()) == WEFT_OK;
  }));
  EXPECT_EQ(await(b, a, 2).status, WEFT_OK);
  EXPECT_EQ(room, data);
}

TEST(NetClose, TakesPendingRequestsAlongUnreported) {
  NetRank a;
  NetRank b;
  Link doomed = make_link(a, b);
  Link other = make_link(a, b);
  const Bytes text(10, 9);
  // The rank of this suite takes up to four completions a poll: of these, some wait at both ends.
  std::vector<Bytes> rooms(10, Bytes(10));
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    doomed.receiver.must_receive(doomed.sender, rooms[i], 10 + i);
    doomed.sender.must_send(doomed.receiver, text, 20 + i);
  }
  ASSERT_TRUE(eventually([&] {
    a.poll();
    b.poll();
    return b.untaken() > 0;
  }));
  // And one message is on its way.
  Bytes room(8 << 20);
  const Bytes data = pattern(8 << 20, 1);
  doomed.receiver.must_receive(doomed.sender, room, 1);
  doomed.sender.must_send(doomed.receiver, data, 2);
  a.poll();
  const std::size_t told_a = a.untaken();
  const std::size_t told_b = b.untaken();
  doomed.receiver.close();
  doomed.sender.close();
  Bytes small(10);
  other.receiver.must_receive(other.sender, small, 3);
  other.sender.must_send(other.receiver, text, 4);
  EXPECT_EQ(await(b, a, 3).status, WEFT_OK);
  EXPECT_EQ(await(a, b, 4).status, WEFT_OK);
  EXPECT_EQ(small, text);
  EXPECT_EQ(a.untaken(), told_a);
  EXPECT_EQ(b.untaken(), told_b);
}

TEST(NetClose, EndsTheReceivesOfTheOtherEnd) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  Link other = make_link(a, b);
  std::vector<Bytes> rooms(3, Bytes(100));
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    link.receiver.must_receive(link.sender, rooms[i], i);
  }
  link.sender.close();
  for (std::size_t i = 0; i < rooms.size(); ++i)
    EXPECT_LT(await(b, a, i).status, 0);
  EXPECT_NE(link.receiver.error_text(), "");
  // The connection answers the error itself from now on; others do not notice.
  EXPECT_LT(link.receiver.receive(rooms[0], 9), 0);
  EXPECT_LT(b.api().ready(link.receiver.get()), 0);
  const Bytes data = pattern(100, 1);
  Bytes room(100);
  other.receiver.must_receive(other.sender, room, 10);
  other.sender.must_send(other.receiver, data, 11);
  EXPECT_EQ(await(b, a, 10).status, WEFT_OK);
  EXPECT_EQ(room, data);
}

TEST(NetClose, AfterTheLastMessageDoesNotLoseIt) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const Bytes data = pattern(100000, 1);
  link.sender.must_send(link.receiver, data, 1);
  EXPECT_EQ(await(a, b, 1).status, WEFT_OK);
  link.sender.close();
  Bytes room(100000);
  link.receiver.must_receive(link.sender, room, 2);
  EXPECT_EQ(await(b, a, 2).status, WEFT_OK) << link.receiver.error_text();
  EXPECT_EQ(room, data);
}

// Ranks look at their ends each in its own time: one may be done with a connection on which the
// other has nothing to do, and gone, before that has heard that it is there.
TEST(NetClose, BeforeTheOtherEndHasAskedIsNoFailureToConnect) {
  for (const bool receiver_closes : {true, false}) {
    NetRank a;
    NetRank b;
    weft_blob handle{};
    weft_net_listener* listener = nullptr;
    ASSERT_EQ(b.api().listen(b.net(), 0, &handle, &listener), WEFT_OK);
    weft_net_connection* connection = nullptr;
    ASSERT_GE(a.api().connect(a.net(), 0, handle, &connection), WEFT_OK);
    End sender(&a, connection);
    End receiver;
    const auto accept = [&] {
      connection = nullptr;
      EXPECT_GE(b.api().accept(listener, &connection), WEFT_OK);
      if (connection != nullptr) receiver = End(&b, connection);
      return connection != nullptr;
    };
    if (receiver_closes) {
      ASSERT_TRUE(eventually([&] {
        a.poll();
        return accept();
      }));
      EXPECT_EQ(b.api().ready(receiver.get()), WEFT_OK);
      receiver.close();
      for (int i = 0; i < 100 && sender.error_text().empty(); ++i) {
        a.poll();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(a.api().ready(sender.get()), WEFT_OK) << sender.error_text();
    } else {
      ASSERT_TRUE(eventually([&] {
        b.poll();
        return a.api().ready(sender.get()) == WEFT_OK;
      }));
      sender.close();
      ASSERT_TRUE(eventually(accept));
      b.poll();
      EXPECT_EQ(b.api().ready(receiver.get()), WEFT_OK) << receiver.error_text();
    }
    b.api().close_listener(listener);
  }
}

TEST(NetClose, InTheMiddleOfAMessageIsAnError) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const Bytes data = pattern(64 << 20, 1);
  Bytes room(64 << 20);
  ASSERT_EQ(link.sender.send(data, 1), WEFT_OK);
  // Far more than the path holds, and nobody receives: its beginning leaves, its end cannot.
  for (int i = 0; i < 100; ++i)
    a.poll();
  ASSERT_FALSE(a.take(1).has_value());
  link.receiver.must_receive(link.sender, room, 2);
  b.poll();
  link.sender.close();
  EXPECT_LT(await(b, a, 2).status, 0);
  EXPECT_NE(link.receiver.error_text(), "");
}

TEST(NetClose, OfTheReceiverEndsSends) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const Bytes data = pattern(64 << 20, 1);
  ASSERT_EQ(link.sender.send(data, 1), WEFT_OK);
  link.receiver.close();
  EXPECT_LT(await(a, b, 1).status, 0);
  EXPECT_NE(link.sender.error_text(), "");
  EXPECT_LT(link.sender.send(data, 2), 0);
}

TEST(NetMessages, TooLongForTheRoomAreAnErrorOfTheConnection) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  Bytes room(1000, 0xee);
  Bytes behind(1000);
  link.receiver.must_receive(link.sender, room, 1);
  link.receiver.must_receive(link.sender, behind, 2);
  const Bytes data = pattern(1001, 1);
  link.sender.must_send(link.receiver, data, 3);
  EXPECT_LT(await(b, a, 1).status, 0);
  EXPECT_LT(await(b, a, 2).status, 0);
  const std::string text = link.receiver.error_text();
  EXPECT_NE(text.find("1001"), std::string::npos) << text;
  EXPECT_NE(text.find("1000"), std::string::npos) << text;
}

TEST(NetAbort, FromAnotherThreadEndsEverything) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  Bytes room(100);
  Bytes more(100);
  link.receiver.must_receive(link.sender, room, 1);
  link.receiver.must_receive(link.sender, more, 2);
  std::thread aborter([&] { b.api().abort(b.net()); });
  EXPECT_EQ(await(b, a, 1).status, WEFT_ERROR_ABORTED);
  EXPECT_EQ(await(b, a, 2).status, WEFT_ERROR_ABORTED);
  aborter.join();
  EXPECT_EQ(link.receiver.receive(room, 3), WEFT_ERROR_ABORTED);
  EXPECT_EQ(b.api().ready(link.receiver.get()), WEFT_ERROR_ABORTED);
  // The peer is another matter: it loses the connection.
  const Bytes data = pattern(64 << 20, 1);
  const weft_result sent = link.sender.send(data, 4);
  if (sent == WEFT_OK) {
    EXPECT_LT(await(a, b, 4).status, 0);
  } else {
    EXPECT_LT(sent, 0);
  }
}

// Memory that was not registered is the host's again once it has called abort.
TEST(NetAbort, KeepsLaterCallsFromWritingWhereAReceiveWasPosted) {
  NetRank a;
  NetRank b;
  if (!can_sleep(b)) GTEST_SKIP() << "nothing tells when a message has come";
  if (!takes_unregistered(b)) GTEST_SKIP() << "the net wants memory registered";
  Link link = make_link(a, b);
  pollfd news = {.fd = -1, .events = POLLIN, .revents = 0};
  ASSERT_EQ(b.api().arm(b.net(), &news.fd), WEFT_OK);
  const Bytes data = pattern(100, 1);
  link.sender.must_send(link.receiver, data, 1);
  EXPECT_EQ(await(a, a, 1).status, WEFT_OK);
  ASSERT_EQ(::poll(&news, 1, 60'000), 1);
  b.poll();
  const Bytes untouched(100, 0xee);
  Bytes room = untouched;
  const weft_net_recv buffer = {.struct_size = sizeof buffer,
                                .tag = 0,
                                .data = room.data(),
                                .size = room.size(),
                                .registration = nullptr,
                                .user = 2,
                                .flags = 0,
                                .reserved = 0};
  weft_net_request* request = nullptr;
  ASSERT_EQ(b.api().irecv(link.receiver.get(), &buffer, sizeof buffer, 1, &request), WEFT_OK);
  b.api().abort(b.net());
  const Bytes at_abort = room;
  EXPECT_LE(await(b, b, 2).status, WEFT_OK);
  EXPECT_EQ(room, at_abort);
}

TEST(NetAbort, KeepsLaterCallsFromReadingWhatWasToBeSent) {
  NetRank a;
  NetRank b;
  if (!takes_unregistered(a)) GTEST_SKIP() << "the net wants memory registered";
  Link link = make_link(a, b);
  const Bytes data = pattern(100, 1);
  Bytes sent = data;
  const weft_net_send message = {.struct_size = sizeof message,
                                 .tag = 0,
                                 .data = sent.data(),
                                 .size = sent.size(),
                                 .value = 0,
                                 .registration = nullptr,
                                 .user = 1,
                                 .flags = WEFT_NET_SEND_MORE,
                                 .reserved = 0};
  weft_net_request* request = nullptr;
  ASSERT_EQ(a.api().isend(link.sender.get(), &message, &request), WEFT_OK);
  a.api().abort(a.net());
  sent.assign(sent.size(), 0xee);
  EXPECT_LE(await(a, a, 1).status, WEFT_OK);
  // It may have left before.
  Bytes room(100);
  if (link.receiver.receive(room, 2) == WEFT_OK && await(b, b, 2).status == WEFT_OK) {
    EXPECT_EQ(room, data);
  }
}

TEST(NetAbort, WakesASleeper) {
  NetRank a;
  NetRank b;
  if (!can_sleep(a)) GTEST_SKIP() << "the net cannot sleep";
  Link link = make_link(a, b);
  Bytes room(100);
  std::optional<weft_net_completion> ended;
  ASSERT_EQ(link.receiver.receive(room, 1), WEFT_OK);
  std::atomic<bool> asleep = false;
  std::thread sleeper([&] { ended = sleep_until(b, 1, &asleep); });
  EXPECT_TRUE(eventually([&] { return asleep.load(); }));
  // Time for it to call the kernel. Where that takes longer, abort must end the sleep all the same.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  b.api().abort(b.net());
  sleeper.join();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->status, WEFT_ERROR_ABORTED);
}

TEST(NetAbort, EndsListenersAndConnectionsThatWait) {
  NetRank a;
  a.device();
  weft_blob handle{};
  weft_net_listener* listener = nullptr;
  ASSERT_EQ(a.api().listen(a.net(), 0, &handle, &listener), WEFT_OK);
  NetRank b;
  b.device();
  weft_net_connection* connection = nullptr;
  ASSERT_GE(b.api().connect(b.net(), 0, handle, &connection), 0);
  a.api().abort(a.net());
  b.api().abort(b.net());
  weft_net_connection* accepted = nullptr;
  EXPECT_TRUE(eventually([&] { return a.api().accept(listener, &accepted) < 0; }));
  EXPECT_EQ(accepted, nullptr);
  EXPECT_TRUE(eventually([&] { return b.api().ready(connection) < 0; }));
  b.api().close_connection(connection);
  a.api().close_listener(listener);
}

}  // namespace
}  // namespace weft::test
