// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ranks and the rendezvous say to one another: framed messages with magic, version, bounded
// length and a keyed hash, and the contents of each kind. Pure: bytes in, values out. Nothing here
// trusts a byte: a length is checked before it is used, a hash before a payload is looked at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/unique_id.h"

namespace weft {

/// Changes with any change of a message's meaning; compared by the rendezvous.
inline constexpr std::uint32_t kBootstrapProtocol = 5;

/// Header: magic 4, frame version 2, type 2, payload length 4, keyed hash 32; little-endian.
inline constexpr std::size_t kMessageHeaderBytes = 44;

/// Bounds of a payload: of everything but all-gather data, and of one piece of that data.
inline constexpr std::size_t kMaxControlPayload = std::size_t{8} * 1024;
inline constexpr std::size_t kMaxDataPayload = std::size_t{64} * 1024;

/// Bounds of the texts inside.
inline constexpr std::size_t kMaxHostBytes = 255;
inline constexpr std::size_t kMaxErrorBytes = 4096;
inline constexpr std::size_t kMaxHintBytes = 1024;
inline constexpr std::size_t kMaxPurposeBytes = 128;
inline constexpr std::size_t kMaxEndpoints = 8;

/// Bound of what a question, and what a goodbye says, in the terms of the layers above.
inline constexpr std::size_t kMaxQuestionBytes = 1024;

/// Bound of what a letter says.
inline constexpr std::size_t kMaxLetterBytes = std::size_t{60} * 1024;

enum class MessageType : std::uint16_t {
  kHello = 1,    ///< rank -> root: who I am and where I listen.
  kHelloTaken,   ///< root -> rank: noted, wait.
  kWelcome,      ///< root -> rank: all are here; your neighbours.
  kRejected,     ///< root -> rank, rank -> root: the join failed, and why.
  kReady,        ///< rank -> root: connected to both neighbours.
  kGo,           ///< root -> rank: all ranks are connected.
  kRingHello,    ///< rank -> next rank, or the one that it writes to, and back.
  kGatherBegin,  ///< rank -> next rank: a block of an all-gather follows.
  kGatherData,   ///< a piece of that block.
  kFailure,      ///< along the control ring, both ways.
  kGoodbye,      ///< along the control ring, to both neighbours; with the rank's last words.
  kQuestion,     ///< along the control ring, both ways, until it is back or meets one that left.
  kRound,        ///< along the control ring, a rank at a time, as each rank decides.
  kLetter,       ///< rank -> rank, after a hello.
  kLetterTaken,  ///< rank -> rank, back: delivered.
};
inline constexpr auto kLastMessageType = static_cast<std::uint16_t>(MessageType::kLetterTaken);

struct Message {
  MessageType type = MessageType::kHello;
  std::vector<std::byte> payload;

  bool operator==(const Message&) const = default;
};

/// The key of the hash, derived from the secret of a unique id.
using MessageKey = Secret;

/// Appends one framed message to `out`. The payload must be within the bound of its type.
void append_message(std::vector<std::byte>& out, const MessageKey& key, MessageType type,
                    std::span<const std::byte> payload);

/// Takes bytes as they come and gives out verified messages. The first byte that cannot belong to a
/// message of this key ends it: every later call answers that same error.
class MessageParser {
 public:
  explicit MessageParser(const MessageKey& key) : key_(key) {}

  /// From now on messages with all-gather data are taken, too: their bound is larger.
  void allow_data() { bound_ = kMaxDataPayload; }

  /// Before bytes are taken from where they would be lost without memory.
  void make_room(std::size_t bytes);
  void feed(std::span<const std::byte> bytes);
  /// The next whole message, nothing when more bytes are needed.
  Result<std::optional<Message>> next();
  /// How many bytes one message may have.
  [[nodiscard]] std::size_t message_bound() const { return kMessageHeaderBytes + bound_; }
  /// Bytes held that no message was made of yet.
  [[nodiscard]] std::size_t buffered() const { return buffer_.size() - consumed_; }

 private:
  MessageKey key_;
  std::size_t bound_ = kMaxControlPayload;
  std::vector<std::byte> buffer_;
  std::size_t consumed_ = 0;
  std::optional<Error> broken_;
};

/// Who a rank is, as far as messages to people are concerned.
struct PeerIdentity {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;     ///< Its host label.
  std::string address;  ///< Where it listened during the join; empty for the only rank.

  bool operator==(const PeerIdentity&) const = default;
  /// "rank 2 (pid 1234 on hostA)".
  [[nodiscard]] std::string to_string() const;
};

// The contents of the messages that have any. decode() answers nothing for malformed payloads,
// trailing bytes included; encode() cuts texts to their bounds.

struct HelloMessage {
  std::uint32_t protocol = kBootstrapProtocol;
  std::int32_t nranks = 0;
  PeerIdentity who;
  std::vector<SocketAddress> endpoints{};

  bool operator==(const HelloMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<HelloMessage> decode(std::span<const std::byte> payload);
};

struct WelcomeMessage {
  PeerIdentity next;
  std::vector<SocketAddress> next_endpoints;
  PeerIdentity previous;

  bool operator==(const WelcomeMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<WelcomeMessage> decode(std::span<const std::byte> payload);
};

/// An error on the wire; `culprit` is the rank it blames, -1 for none.
struct ErrorMessage {
  std::int32_t culprit = -1;
  std::int32_t code = 0;
  std::string what;
  std::string hint;

  bool operator==(const ErrorMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<ErrorMessage> decode(std::span<const std::byte> payload);
};

enum class RingChannel : std::uint8_t {
  kData = 0,
  kControl = 1,
  kLetters = 2  ///< Of no ring: a connection for letters of any rank to any other.
};

struct RingHelloMessage {
  RingChannel channel = RingChannel::kData;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t nranks = 0;

  bool operator==(const RingHelloMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<RingHelloMessage> decode(std::span<const std::byte> payload);
};

struct GatherBeginMessage {
  std::uint64_t sequence = 0;  ///< Number of the all-gather within its communicator.
  std::int32_t origin = 0;     ///< Whose block follows.
  std::uint64_t bytes = 0;
  std::string what;

  bool operator==(const GatherBeginMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<GatherBeginMessage> decode(std::span<const std::byte> payload);
};

/// A question from `asker` to every other rank.
struct QuestionMessage {
  std::int32_t asker = 0;
  std::vector<std::byte> question;

  bool operator==(const QuestionMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<QuestionMessage> decode(std::span<const std::byte> payload);
};

/// What one rank says to another.
struct LetterMessage {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::vector<std::byte> text;

  bool operator==(const LetterMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<LetterMessage> decode(std::span<const std::byte> payload);
};

/// What a rank tells all others of itself once the ring is made: the payload of an all-gather.
struct MemberMessage {
  PeerIdentity who;
  std::vector<SocketAddress> endpoints;  ///< Where it listens.

  bool operator==(const MemberMessage&) const = default;
  [[nodiscard]] std::vector<std::byte> encode() const;
  static std::optional<MemberMessage> decode(std::span<const std::byte> payload);
};

/// A span of time for people: "60s", "1500ms".
[[nodiscard]] std::string format_span(std::int64_t nanoseconds);

}  // namespace weft
