// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the header net.h promises of every net, part 2: messages. Sizes, values, tags and order,
// back-pressure, groups, many connections, and random interleavings of all of it.
#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "tests/plugin/net/net_rank.h"

namespace weft::test {
namespace {

class NetSizes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(NetSizes, ArriveWholeWithTheirValue) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const std::size_t size = GetParam();
  const Bytes data = pattern(size, 42);
  Bytes room(size + 64, 0xee);  // more room than message: the rest stays untouched
  link.receiver.must_receive(link.sender, room, 1, 9);
  link.sender.must_send(link.receiver, data, 2, 9, 0xfedcba9876543210);
  const weft_net_completion received = await(b, a, 1);
  EXPECT_EQ(received.status, WEFT_OK) << link.receiver.error_text();
  EXPECT_EQ(received.size, size);
  EXPECT_EQ(received.value, 0xfedcba9876543210);
  EXPECT_EQ(received.connection, link.receiver.get());
  EXPECT_TRUE(std::equal(data.begin(), data.end(), room.begin()));
  EXPECT_TRUE(std::all_of(room.begin() + static_cast<std::ptrdiff_t>(size), room.end(),
                          [](std::uint8_t byte) { return byte == 0xee; }));
  const weft_net_completion sent = await(a, b, 2);
  EXPECT_EQ(sent.status, WEFT_OK);
  EXPECT_EQ(sent.connection, link.sender.get());
}

INSTANTIATE_TEST_SUITE_P(Sizes, NetSizes,
                         ::testing::Values(0, 1, 7, 31, 32, 33, 63, 64, 4095, 4096, 8191, 8192,
                                           8193, 16352, 16384, 16385, 65535, 65536, 65537,
                                           (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 4194305,
                                           16 << 20));

TEST(NetMessages, OfOneTagKeepTheirOrder) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  constexpr std::size_t kCount = 200;
  std::vector<Bytes> data;
  std::vector<Bytes> rooms(kCount, Bytes(5000));
  // Short behind long: a net that lets the short ones pass would mix them up.
  for (std::size_t i = 0; i < kCount; ++i)
    data.push_back(pattern(i % 3 == 0 ? 5000 : i % 7, i));
  std::size_t posted = 0;
  std::size_t sent = 0;
  ASSERT_TRUE(eventually([&] {
    while (posted < kCount && link.receiver.receive(rooms[posted], posted) == WEFT_OK)
      ++posted;
    while (sent < kCount && link.sender.send(data[sent], 1000 + sent, 0, sent) == WEFT_OK)
      ++sent;
    a.poll();
    b.poll();
    return b.untaken() == kCount;
  }));
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto completion = b.take(i);
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, WEFT_OK);
    EXPECT_EQ(completion->size, data[i].size());
    EXPECT_EQ(completion->value, i);
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), rooms[i].begin())) << i;
  }
}

TEST(NetMessages, GoByTheNextPollThoughMoreWereSaidToFollow) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  std::vector<Bytes> data;
  std::vector<Bytes> rooms;
  for (std::size_t i = 0; i < 8; ++i) {
    data.push_back(pattern(i % 3 == 2 ? 100'000 : 8, i));
    rooms.emplace_back(100'000);
  }
  for (std::size_t i = 0; i < rooms.size(); ++i)
    link.receiver.must_receive(link.sender, rooms[i], i);
  // None of them is followed by one without the flag.
  for (std::size_t first = 0; first < data.size(); first += 4) {
    for (std::size_t i = first; i < first + 4; ++i) {
      ASSERT_EQ(link.sender.send(data[i], 100 + i, 0, i, nullptr, WEFT_NET_SEND_MORE), WEFT_OK);
    }
    for (std::size_t i = first; i < first + 4; ++i) {
      EXPECT_EQ(await(a, b, 100 + i).status, WEFT_OK);
      const weft_net_completion received = await(b, a, i);
      EXPECT_EQ(received.size, data[i].size());
      EXPECT_EQ(received.value, i);
      EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), rooms[i].begin())) << i;
    }
  }
}

TEST(NetMessages, NeedNoRegistrationWhereTheDeviceSaysSo) {
  NetRank a;
  NetRank b;
  if ((a.device().capabilities & WEFT_NET_UNREGISTERED) == 0) {
    GTEST_SKIP() << "the net sends registered memory only";
  }
  Link link = make_link(a, b);
  for (const std::size_t size : {0UL, 100UL, 1UL << 20}) {
    const Bytes data = pattern(size, 3);
    Bytes room(size);
    weft_net_recv buffer{};
    buffer.struct_size = sizeof buffer;
    buffer.data = room.data();
    buffer.size = size;
    buffer.user = 1;
    weft_net_request* wanted = nullptr;
    ASSERT_EQ(b.api().irecv(link.receiver.get(), &buffer, sizeof buffer, 1, &wanted), WEFT_OK);
    weft_net_send message{};
    message.struct_size = sizeof message;
    message.data = data.data();
    message.size = size;
    message.user = 2;
    weft_net_request* request = nullptr;
    ASSERT_EQ(a.api().isend(link.sender.get(), &message, &request), WEFT_OK);
    EXPECT_EQ(await(b, a, 1).status, WEFT_OK);
    EXPECT_EQ(await(a, b, 2).status, WEFT_OK);
    EXPECT_EQ(room, data);
  }
}

TEST(NetMessages, MeetReceivesOfTheirTag) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const std::vector<std::uint32_t> send_tags = {3, 1, 2, 1, 3, 2};
  const std::vector<std::uint32_t> receive_tags = {1, 2, 3, 2, 3, 1};
  std::vector<Bytes> rooms(receive_tags.size(), Bytes(1000));
  std::vector<Bytes> data;
  for (std::size_t i = 0; i < send_tags.size(); ++i)
    data.push_back(pattern(1000, i));
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    link.receiver.must_receive(link.sender, rooms[i], i, receive_tags[i]);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    link.sender.must_send(link.receiver, data[i], 100 + i, send_tags[i], i);
  }
  std::map<std::uint32_t, std::deque<std::size_t>> expected;
  for (std::size_t i = 0; i < send_tags.size(); ++i)
    expected[send_tags[i]].push_back(i);
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    const std::size_t message = expected[receive_tags[i]].front();
    expected[receive_tags[i]].pop_front();
    EXPECT_EQ(await(b, a, i).value, message);
    EXPECT_EQ(rooms[i], data[message]);
  }
}

TEST(NetMessages, WaitForAReceiveThatIsPostedLate) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const Bytes data = pattern(3 << 20, 8);
  link.sender.must_send(link.receiver, data, 1);
  for (int i = 0; i < 200; ++i) {
    a.poll();
    b.poll();
  }
  EXPECT_EQ(b.untaken(), 0U);
  Bytes room(3 << 20);
  link.receiver.must_receive(link.sender, room, 2);
  EXPECT_EQ(await(b, a, 2).status, WEFT_OK);
  EXPECT_EQ(room, data);
}

TEST(NetMessages, BeyondTheLimitAreAskedToComeAgainAndNotLost) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const std::size_t count = std::size_t{a.device().max_requests} * 3 + 5;
  const Bytes data = pattern(20000, 1);
  std::vector<Bytes> rooms(count, Bytes(20000));
  std::size_t sent = 0;
  std::size_t posted = 0;
  bool was_full = false;
  ASSERT_TRUE(eventually([&] {
    // Without a poll in between, so that the limit is met.
    while (sent < count) {
      const weft_result result = link.sender.send(data, 100000 + sent, 0, sent);
      was_full |= result == WEFT_AGAIN;
      if (result != WEFT_OK) break;
      ++sent;
    }
    while (posted < count && link.receiver.receive(rooms[posted], posted) == WEFT_OK)
      ++posted;
    a.poll();
    b.poll();
    return b.untaken() == count && a.untaken() == count;
  }));
  EXPECT_TRUE(was_full);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(b.take(i)->value, i);
    EXPECT_EQ(rooms[i], data);
  }
}

TEST(NetMessages, FillAGroupOfReceives) {
  NetRank a;
  NetRank b;
  Link link = make_link(a, b);
  const std::size_t count = b.device().max_receives;
  std::vector<Bytes> rooms(count, Bytes(700));
  ASSERT_EQ(link.receiver.receive_group(rooms, 50, 4), WEFT_OK);
  std::vector<Bytes> data;
  for (std::size_t i = 0; i < count; ++i)
    data.push_back(pattern(700, i));
  for (std::size_t i = 0; i < count; ++i)
    link.sender.must_send(link.receiver, data[i], i, 4, i);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(await(b, a, 50 + i).value, i);
    EXPECT_EQ(rooms[i], data[i]);
  }
}

TEST(NetMessages, TravelBothWaysAndOverManyConnections) {
  NetRank a;
  NetRank b;
  constexpr std::size_t kLinks = 24;
  std::vector<Link> links;
  for (std::size_t i = 0; i < kLinks; ++i) {
    links.push_back(i % 2 == 0 ? make_link(a, b) : make_link(b, a));
  }
  std::vector<Bytes> data;
  std::vector<Bytes> rooms(kLinks, Bytes(100000));
  for (std::size_t i = 0; i < kLinks; ++i)
    data.push_back(pattern(100000 - i, i));
  for (std::size_t i = 0; i < kLinks; ++i) {
    links[i].receiver.must_receive(links[i].sender, rooms[i], i);
    links[i].sender.must_send(links[i].receiver, data[i], 100 + i);
  }
  for (std::size_t i = 0; i < kLinks; ++i) {
    NetRank& receiver = i % 2 == 0 ? b : a;
    NetRank& sender = i % 2 == 0 ? a : b;
    EXPECT_EQ(await(receiver, sender, i).status, WEFT_OK);
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), rooms[i].begin())) << i;
  }
}

/// One step of a random history.
struct Step {
  enum Kind { kSend, kReceive, kPollSender, kPollReceiver };
  Kind kind;
  std::uint32_t tag;
  std::size_t size;
  std::uint32_t flags;
};

rc::Gen<Step> any_step() {
  const auto size =
      rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 40), rc::gen::inRange<std::size_t>(0, 5000),
                     rc::gen::inRange<std::size_t>(0, 300000));
  return rc::gen::apply(
      [](int kind, std::uint32_t tag, std::size_t bytes, std::uint32_t flags) {
        return Step{static_cast<Step::Kind>(kind), tag, bytes, flags};
      },
      rc::gen::inRange(0, 4), rc::gen::inRange<std::uint32_t>(0, 3), size,
      rc::gen::element<std::uint32_t>(0, WEFT_NET_SEND_MORE));
}

TEST(NetProperty, AnyInterleavingDeliversEachTagInOrder) {
  const bool holds = rc::check("interleavings", [] {
    NetRank a;
    NetRank b;
    Link link = make_link(a, b);
    // Receives that nothing comes for must not take all the room.
    const std::size_t most = a.device().max_requests / 4;
    const auto steps = *rc::gen::container<std::vector<Step>>(any_step());
    struct Message {
      std::uint32_t tag;
      Bytes data;
    };
    std::deque<Message> messages;  // a deque: addresses stay
    std::deque<std::pair<std::uint32_t, Bytes>> rooms;
    std::map<std::uint32_t, std::vector<std::size_t>> sent_of_tag;
    std::map<std::uint32_t, std::vector<std::size_t>> posted_of_tag;
    const auto post = [&](std::uint32_t tag) {
      rooms.emplace_back(tag, Bytes(300000));
      if (link.receiver.receive(rooms.back().second, rooms.size() - 1, tag) == WEFT_OK) {
        posted_of_tag[tag].push_back(rooms.size() - 1);
      } else {
        rooms.pop_back();
      }
    };
    for (const Step& step : steps) {
      if (step.kind == Step::kSend) {
        if (messages.size() == most) continue;
        messages.push_back({step.tag, pattern(step.size, messages.size())});
        if (link.sender.send(messages.back().data, messages.size() - 1, step.tag, messages.size(),
                             nullptr, step.flags) == WEFT_OK) {
          sent_of_tag[step.tag].push_back(messages.size() - 1);
        } else {
          messages.pop_back();
        }
      } else if (step.kind == Step::kReceive) {
        if (rooms.size() < most) post(step.tag);
      } else {
        (step.kind == Step::kPollSender ? a : b).poll();
      }
    }
    // Post what is still missing, then everything sent must arrive.
    std::size_t expected = 0;
    RC_ASSERT(eventually([&] {
      bool all_posted = true;
      expected = 0;
      for (const auto& [tag, sent] : sent_of_tag) {
        if (posted_of_tag[tag].size() < sent.size()) post(tag);
        all_posted &= posted_of_tag[tag].size() >= sent.size();
        expected += sent.size();
      }
      a.poll();
      b.poll();
      return all_posted && b.untaken() == expected && a.untaken() == expected;
    }));
    for (const auto& [tag, sent] : sent_of_tag) {
      for (std::size_t i = 0; i < sent.size(); ++i) {
        const std::size_t room = posted_of_tag[tag][i];
        const Message& message = messages[sent[i]];
        const auto completion = b.take(room);
        RC_ASSERT(completion.has_value());
        RC_ASSERT(completion->status == WEFT_OK);
        RC_ASSERT(completion->size == message.data.size());
        RC_ASSERT(completion->value == sent[i] + 1);
        RC_ASSERT(std::equal(message.data.begin(), message.data.end(), rooms[room].second.begin()));
        RC_ASSERT(a.take(sent[i]).has_value());
      }
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace weft::test
