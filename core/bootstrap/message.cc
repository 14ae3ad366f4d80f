// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/message.h"

#include <algorithm>
#include <cstring>
#include <sodium.h>

#include <fmt/format.h>

namespace weft {
namespace {

constexpr std::uint32_t kMagic = 0x42544657;  // "WFTB" in memory order
constexpr std::uint16_t kFrameVersion = 1;
constexpr std::size_t kPrefixBytes = 12;
constexpr std::size_t kHashBytes = 32;
static_assert(kPrefixBytes + kHashBytes == kMessageHeaderBytes);

class PayloadWriter {
 public:
  template <typename T>
  void number(T value) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (unsigned i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>((bits >> (8U * i)) & 0xffU));
    }
  }
  void raw(std::span<const std::byte> bytes) {
    bytes_.reserve(bytes_.size() + bytes.size());  // else g++ 12 warns of an overflow that is none
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view value, std::size_t bound) {
    value = value.substr(0, bound);
    number(static_cast<std::uint32_t>(value.size()));
    raw(std::as_bytes(std::span(value)));
  }
  void identity(const PeerIdentity& who) {
    number(static_cast<std::int32_t>(who.rank));
    number(who.pid);
    text(who.host, kMaxHostBytes);
    text(who.address, kMaxHostBytes);
  }
  void addresses(std::span<const SocketAddress> values) {
    values = values.first(std::min(values.size(), kMaxEndpoints));
    number(static_cast<std::uint8_t>(values.size()));
    for (const SocketAddress& value : values) {
      number(static_cast<std::uint8_t>(value.family));
      number(value.port);
      raw(value.bytes);
    }
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads past the end give zeros and clear ok_, so that decoders check once, at their end.
class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    std::make_unsigned_t<T> bits = 0;
    const auto from = take(sizeof(T));
    for (unsigned i = 0; i < from.size(); ++i) {
      bits = static_cast<std::make_unsigned_t<T>>(
          bits | static_cast<std::make_unsigned_t<T>>(std::to_integer<std::uint64_t>(from[i])
                                                      << (8U * i)));
    }
    return static_cast<T>(bits);
  }
  std::string text(std::size_t bound) {
    const auto size = number<std::uint32_t>();
    if (size > bound) ok_ = false;
    const auto from = take(size);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  PeerIdentity identity() {
    PeerIdentity who;
    who.rank = number<std::int32_t>();
    who.pid = number<std::int64_t>();
    who.host = text(kMaxHostBytes);
    who.address = text(kMaxHostBytes);
    return who;
  }
  std::vector<SocketAddress> addresses() {
    const auto count = number<std::uint8_t>();
    if (count > kMaxEndpoints) ok_ = false;
    std::vector<SocketAddress> values;
    for (unsigned i = 0; ok_ && i < count; ++i) {
      SocketAddress value;
      const auto family = number<std::uint8_t>();
      if (family != 4 && family != 6) {
        ok_ = false;
        break;
      }
      value.family = static_cast<SocketAddress::Family>(family);
      value.port = number<std::uint16_t>();
      std::ranges::copy(take(value.bytes.size()), value.bytes.begin());
      values.push_back(value);
    }
    return values;
  }
  [[nodiscard]] bool finished() const { return ok_ && bytes_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (!ok_ || count > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const auto result = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return result;
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

std::array<std::byte, kHashBytes> keyed_hash(const MessageKey& key,
                                             std::span<const std::byte> prefix,
                                             std::span<const std::byte> payload) {
  crypto_generichash_state state;
  std::array<std::byte, kHashBytes> hash{};
  const auto chars = [](std::span<const std::byte> bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
  };
  crypto_generichash_init(&state, chars(key), key.size(), hash.size());
  crypto_generichash_update(&state, chars(prefix), prefix.size());
  crypto_generichash_update(&state, chars(payload), payload.size());
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(hash.data()), hash.size());
  return hash;
}

template <typename T>
std::optional<std::remove_cvref_t<T>> if_finished(const PayloadReader& reader, T&& value) {
  if (!reader.finished()) return std::nullopt;
  return std::forward<T>(value);
}

}  // namespace

void append_message(std::vector<std::byte>& out, const MessageKey& key, MessageType type,
                    std::span<const std::byte> payload) {
  PayloadWriter prefix;
  prefix.number(kMagic);
  prefix.number(kFrameVersion);
  prefix.number(static_cast<std::uint16_t>(type));
  prefix.number(static_cast<std::uint32_t>(payload.size()));
  const auto head = prefix.take();
  const auto hash = keyed_hash(key, head, payload);
  out.reserve(out.size() + kMessageHeaderBytes + payload.size());
  out.insert(out.end(), head.begin(), head.end());
  out.insert(out.end(), hash.begin(), hash.end());
  out.insert(out.end(), payload.begin(), payload.end());
}

void MessageParser::make_room(std::size_t bytes) {
  const std::size_t held = buffer_.size();
  if (buffer_.capacity() - held < bytes) buffer_.reserve(std::max(held + bytes, 2 * held));
}

void MessageParser::feed(std::span<const std::byte> bytes) {
  if (broken_) return;
  if (consumed_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(consumed_));
    consumed_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Message>> MessageParser::next() {
  if (broken_) return fail(*broken_);
  const auto reject = [this](std::string why) {
    broken_.emplace(WEFT_ERROR_NETWORK, std::move(why));
    buffer_.clear();
    consumed_ = 0;
    return fail(*broken_);
  };
  const auto bytes = std::span<const std::byte>(buffer_).subspan(consumed_);
  // What has come of the magic is looked at early, so that a stranger is dropped at once.
  for (unsigned i = 0; i < 4 && i < bytes.size(); ++i) {
    if (std::to_integer<std::uint32_t>(bytes[i]) != ((kMagic >> (8U * i)) & 0xffU)) {
      return reject("bytes that are no weft bootstrap message");
    }
  }
  if (bytes.size() < kPrefixBytes) return std::nullopt;
  PayloadReader prefix(bytes.first(kPrefixBytes));
  prefix.number<std::uint32_t>();
  const auto version = prefix.number<std::uint16_t>();
  const auto type = prefix.number<std::uint16_t>();
  const auto length = prefix.number<std::uint32_t>();
  if (version != kFrameVersion) {
    return reject(fmt::format("a message of frame version {}, this library speaks version {}",
                              version, kFrameVersion));
  }
  if (type == 0 || type > kLastMessageType) {
    return reject(fmt::format("a message of unknown type {}", type));
  }
  if (length > bound_) {
    return reject(fmt::format("a message of type {} that claims {} bytes", type, length));
  }
  if (bytes.size() < kMessageHeaderBytes + length) return std::nullopt;
  const auto payload = bytes.subspan(kMessageHeaderBytes, length);
  const auto hash = keyed_hash(key_, bytes.first(kPrefixBytes), payload);
  if (sodium_memcmp(hash.data(), bytes.data() + kPrefixBytes, hash.size()) != 0) {
    return reject("a message whose keyed hash is wrong (of another job, or forged)");
  }
  Message message{.type = static_cast<MessageType>(type),
                  .payload = {payload.begin(), payload.end()}};
  consumed_ += kMessageHeaderBytes + length;
  return message;
}

std::string PeerIdentity::to_string() const {
  return fmt::format("rank {} (pid {} on {})", rank, pid, host);
}

std::vector<std::byte> HelloMessage::encode() const {
  PayloadWriter writer;
  writer.number(protocol);
  writer.number(nranks);
  writer.identity(who);
  writer.addresses(endpoints);
  return writer.take();
}

std::optional<HelloMessage> HelloMessage::decode(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  HelloMessage message;
  message.protocol = reader.number<std::uint32_t>();
  message.nranks = reader.number<std::int32_t>();
  message.who = reader.identity();
  message.endpoints = reader.addresses();
  return if_finished(reader, std::move(message));
}

std::vector<std::byte> WelcomeMessage::encode() const {
  PayloadWriter writer;
  writer.identity(next);
  writer.addresses(next_endpoints);
  writer.identity(previous);
  return writer.take();
}

std::optional<WelcomeMessage> WelcomeMessage::decode(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  WelcomeMessage message;
  message.next = reader.identity();
  message.next_endpoints = reader.addresses();
  message.previous = reader.identity();
  return if_finished(reader, std::move(message));
}

std::vector<std::byte> ErrorMessage::encode() const {
  PayloadWriter writer;
  writer.number(culprit);
  writer.number(code);
  writer.text(what, kMaxErrorBytes);
  writer.text(hint, kMaxHintBytes);
  return writer.take();
}

std::optional<ErrorMessage> ErrorMessage::decode(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  ErrorMessage message;
  message.culprit = reader.number<std::int32_t>();
  message.code = reader.number<std::int32_t>();
  message.what = reader.text(kMaxErrorBytes);
  message.hint = reader.text(kMaxHintBytes);
  if (message.code >= 0) return std::nullopt;
  return if_finished(reader, std::move(message));
}

std::vector<std::byte> RingHelloMessage::encode() const {
  PayloadWriter writer;
  writer.number(static_cast<std::uint8_t>(channel));
  writer.number(from);
  writer.number(to);
  writer.number(nranks);
  return writer.take();
}

std::optional<RingHelloMessage> RingHelloMessage::decode(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  RingHelloMessage message;
  const auto channel = reader.number<std::uint8_t>();
  if (channel > static_cast<std::uint8_t>(RingChannel::kLetters)) return std::nullopt;
  message.channel = static_cast<RingChannel>(channel);
  message.from = reader.number<std::int32_t>();
  message.to = reader.number<std::int32_t>();
  message.nranks = reader.number<std::int32_t>();
  return if_finished(reader, message);
}

std::vector<std::byte> GatherBeginMessage::encode() const {
  PayloadWriter writer;
  writer.number(sequence);
  writer.number(origin);
  writer.number(bytes);
  writer.text(what, kMaxPurposeBytes);
  return writer.take();
}

std::optional<GatherBeginMessage> GatherBeginMessage::decode(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  GatherBeginMessage message;
  message.sequence = reader.number<std::uint64_t>();
  message.origin = reader.number<std::int32_t>();
  message.bytes = reader.number<std::uint64_t>();
  message.what = reader.text(kMaxPurposeBytes);
  return if_finished(reader, std::move(message));
}

std::vector<std::byte> QuestionMessage::encode() const {
  PayloadWriter writer;
  writer.number(asker);
  writer.raw(std::span(question).first(std::min(question.size(), kMaxQuestionBytes)));
  return writer.take();
}

std::optional<QuestionMessage> QuestionMessage::decode(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(asker) || payload.size() > sizeof(asker) + kMaxQuestionBytes) {
    return std::nullopt;
  }
  PayloadReader reader(payload.first(sizeof(asker)));
  const auto question = payload.subspan(sizeof(asker));
  return QuestionMessage{.asker = reader.number<std::int32_t>(),
                         .question = {question.begin(), question.end()}};
}

std::vector<std::byte> LetterMessage::encode() const {
  PayloadWriter writer;
  writer.number(from);
  writer.number(to);
  writer.raw(std::span(text).first(std::min(text.size(), kMaxLetterBytes)));
  return writer.take();
}

std::optional<LetterMessage> LetterMessage::decode(std::span<const std::byte> payload) {
  constexpr std::size_t kHead = sizeof(from) + sizeof(to);
  if (payload.size() < kHead || payload.size() > kHead + kMaxLetterBytes) return std::nullopt;
  PayloadReader reader(payload.first(kHead));
  LetterMessage letter;
  letter.from = reader.number<std::int32_t>();
  letter.to = reader.number<std::int32_t>();
  letter.text.assign(payload.begin() + kHead, payload.end());
  return letter;
}

std::vector<std::byte> MemberMessage::encode() const {
  PayloadWriter writer;
  writer.identity(who);
  writer.addresses(endpoints);
  return writer.take();
}

std::optional<MemberMessage> MemberMessage::decode(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  MemberMessage message;
  message.who = reader.identity();
  message.endpoints = reader.addresses();
  return if_finished(reader, std::move(message));
}

std::string format_span(std::int64_t nanoseconds) {
  if (nanoseconds % 1'000'000'000 == 0) return fmt::format("{}s", nanoseconds / 1'000'000'000);
  if (nanoseconds >= 1'000'000) return fmt::format("{}ms", nanoseconds / 1'000'000);
  return fmt::format("{}ns", nanoseconds);
}

}  // namespace weft
