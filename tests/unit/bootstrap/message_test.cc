// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Framing and contents of messages: what is written is read, and nothing else is.

#include "core/bootstrap/message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weft {
namespace {

MessageKey key() {
  return *random_secret();
}

std::vector<std::byte> as_bytes(const std::vector<std::uint8_t>& values) {
  std::vector<std::byte> bytes;
  for (const std::uint8_t value : values) {
    bytes.push_back(std::byte{value});
  }
  return bytes;
}

HelloMessage some_hello() {
  HelloMessage hello;
  hello.nranks = 7;
  hello.who = {.rank = -3, .pid = 1LL << 40, .host = "hostA", .address = "10.0.0.1:1"};
  hello.endpoints = {*SocketAddress::parse("10.0.0.1", 5), *SocketAddress::parse("fd00::1", 65535)};
  return hello;
}

RC_GTEST_PROP(Message, ComesOutAsItWentInHoweverItIsCut, ()) {
  const MessageKey k = key();
  std::vector<std::byte> stream;
  std::vector<Message> sent;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    Message message;
    message.type = static_cast<MessageType>(*rc::gen::inRange(1, kLastMessageType + 1));
    message.payload = as_bytes(*rc::gen::arbitrary<std::vector<std::uint8_t>>());
    append_message(stream, k, message.type, message.payload);
    sent.push_back(message);
  }
  MessageParser parser(k);
  std::vector<Message> got;
  std::span<const std::byte> rest(stream);
  while (!rest.empty()) {
    const auto piece = static_cast<std::size_t>(*rc::gen::inRange(1, 100));
    parser.feed(rest.first(std::min(piece, rest.size())));
    rest = rest.subspan(std::min(piece, rest.size()));
    while (true) {
      auto message = parser.next();
      RC_ASSERT(message.has_value());
      if (!*message) break;
      got.push_back(**message);
    }
  }
  RC_ASSERT(got == sent);
  RC_ASSERT(parser.buffered() == 0U);
}

RC_GTEST_PROP(Message, WithAnyBitFlippedIsRefusedForEver, ()) {
  const MessageKey k = key();
  std::vector<std::byte> stream;
  append_message(stream, k, MessageType::kHello, some_hello().encode());
  const auto bit = *rc::gen::inRange<std::size_t>(0, stream.size() * 8);
  stream[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
  MessageParser parser(k);
  parser.feed(stream);
  const auto message = parser.next();
  // A longer length waits for bytes that never come; nothing is ever given out.
  if (message) {
    RC_ASSERT(!message->has_value());
    return;
  }
  parser.feed(stream);
  RC_ASSERT(!parser.next().has_value());
}

TEST(Message, LengthsBeyondTheBoundAreRefusedBeforeTheyCome) {
  for (const auto& [type, bound] : {std::pair(MessageType::kHello, kMaxControlPayload),
                                    std::pair(MessageType::kGatherData, kMaxDataPayload)}) {
    const MessageKey k = key();
    std::vector<std::byte> fits;
    append_message(fits, k, type, std::vector<std::byte>(bound));
    MessageParser good(k);
    if (type == MessageType::kGatherData) good.allow_data();
    good.feed(fits);
    EXPECT_TRUE(good.next()->has_value());
    std::vector<std::byte> too_long;
    append_message(too_long, k, type, std::vector<std::byte>(bound + 1));
    MessageParser bad(k);
    if (type == MessageType::kGatherData) bad.allow_data();
    bad.feed(std::span(too_long).first(12));
    EXPECT_FALSE(bad.next());
  }
}

TEST(Message, OfAnotherKeyIsRefused) {
  std::vector<std::byte> stream;
  append_message(stream, key(), MessageType::kGo, {});
  MessageParser parser(key());
  parser.feed(stream);
  const auto message = parser.next();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().what(),
            "a message whose keyed hash is wrong (of another job, or forged)");
}

template <typename T>
void expect_round_trip(const T& value) {
  const auto bytes = value.encode();
  EXPECT_EQ(T::decode(bytes), value);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(T::decode(std::span(bytes).first(size)));
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(T::decode(longer));
}

TEST(Message, ContentsRoundTripAndNothingShorterOrLongerIsRead) {
  expect_round_trip(some_hello());
  expect_round_trip(WelcomeMessage{.next = {.rank = 1, .pid = 2, .host = "h", .address = "a"},
                                   .next_endpoints = {*SocketAddress::parse("127.0.0.1", 9)},
                                   .previous = {.rank = 3, .pid = 4, .host = "", .address = ""}});
  expect_round_trip(ErrorMessage{.culprit = 2, .code = -8, .what = "what", .hint = "hint"});
  expect_round_trip(
      RingHelloMessage{.channel = RingChannel::kControl, .from = 1, .to = 2, .nranks = 3});
  expect_round_trip(
      RingHelloMessage{.channel = RingChannel::kLetters, .from = 2, .to = 1, .nranks = 3});
  expect_round_trip(MemberMessage{
      .who = {.rank = 1, .pid = 2, .host = "h", .address = "a"},
      .endpoints = {*SocketAddress::parse("127.0.0.1", 9), *SocketAddress::parse("fd00::1", 8)}});
  expect_round_trip(
      GatherBeginMessage{.sequence = 1ULL << 60, .origin = 2, .bytes = 3, .what = "w"});
}

TEST(Message, QuestionsAndLettersAreAnyBytesWithinTheirBounds) {
  LetterMessage letter{.from = 7, .to = 3, .text = std::vector<std::byte>(kMaxLetterBytes)};
  EXPECT_EQ(LetterMessage::decode(letter.encode()), letter);
  auto long_letter = letter.encode();
  long_letter.push_back(std::byte{1});
  EXPECT_FALSE(LetterMessage::decode(long_letter));
  EXPECT_FALSE(LetterMessage::decode(std::span(long_letter).first(7)));
  EXPECT_TRUE(LetterMessage::decode(std::span(long_letter).first(8))->text.empty());

  QuestionMessage message{.asker = 7, .question = std::vector<std::byte>(kMaxQuestionBytes)};
  EXPECT_EQ(QuestionMessage::decode(message.encode()), message);
  auto longer = message.encode();
  longer.push_back({});
  EXPECT_FALSE(QuestionMessage::decode(longer));
  EXPECT_FALSE(QuestionMessage::decode(std::span(longer).first(3)));
  EXPECT_EQ(QuestionMessage::decode(std::span(longer).first(4))->question.size(), 0U);
}

RC_GTEST_PROP(Message, ContentsOfAnyBytesAreReadOrRefused,
              (const std::vector<std::uint8_t>& values)) {
  const auto bytes = as_bytes(values);
  if (const auto message = HelloMessage::decode(bytes)) RC_ASSERT(message->encode() == bytes);
  if (const auto message = ErrorMessage::decode(bytes)) RC_ASSERT(message->encode() == bytes);
  if (const auto message = RingHelloMessage::decode(bytes)) RC_ASSERT(message->encode() == bytes);
  (void)WelcomeMessage::decode(bytes);
  if (const auto message = LetterMessage::decode(bytes)) RC_ASSERT(message->encode() == bytes);
  if (const auto message = QuestionMessage::decode(bytes)) RC_ASSERT(message->encode() == bytes);
  (void)GatherBeginMessage::decode(bytes);
  if (const auto message = MemberMessage::decode(bytes)) RC_ASSERT(message->encode() == bytes);
}

TEST(Message, TextsAreCutToTheirBounds) {
  const ErrorMessage message{
      .culprit = 0, .code = -1, .what = std::string(100'000, 'x'), .hint = std::string(9999, 'y')};
  const auto read = ErrorMessage::decode(message.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->what.size(), kMaxErrorBytes);
  EXPECT_EQ(read->hint.size(), kMaxHintBytes);
  EXPECT_LE(message.encode().size(), kMaxControlPayload);
}

TEST(UniqueId, RoundTripsAndRefusesOthers) {
  UniqueIdContents contents;
  contents.secret = *random_secret();
  contents.roots = {*SocketAddress::parse("10.0.0.1", 65535), *SocketAddress::parse("fd00::1", 1)};
  const UniqueId id = make_unique_id(contents);
  EXPECT_EQ(*read_unique_id(id), contents);
  EXPECT_FALSE(read_unique_id(UniqueId{}));
  const auto broken = [&](std::size_t at, int value) {
    UniqueId copy = id;
    copy.bytes[at] = static_cast<std::byte>(value);
    const auto read = read_unique_id(copy);
    EXPECT_FALSE(read);
    return read ? WEFT_OK : read.error().code();
  };
  EXPECT_EQ(broken(0, 'x'), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(broken(4, 9), WEFT_ERROR_UNSUPPORTED);
  EXPECT_EQ(broken(5, 0), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(broken(5, 5), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(broken(5, 3), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(broken(40, 5), WEFT_ERROR_INVALID_ARGUMENT);
}

TEST(Secret, DerivedOnesDiffer) {
  const Secret secret = *random_secret();
  EXPECT_NE(secret, *random_secret());
  EXPECT_NE(*derive_secret(secret, "a", 0), *derive_secret(secret, "a", 1));
  EXPECT_NE(*derive_secret(secret, "a", 0), *derive_secret(secret, "b", 0));
  EXPECT_EQ(*derive_secret(secret, "a", 0), *derive_secret(secret, "a", 0));
}

TEST(Message, SpansReadWell) {
  EXPECT_EQ(format_span(60'000'000'000), "60s");
  EXPECT_EQ(format_span(1'500'000'000), "1500ms");
  EXPECT_EQ(format_span(20), "20ns");
}

}  // namespace
}  // namespace weft
