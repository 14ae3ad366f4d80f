// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections between ranks that run on CUDA devices of one host: memory of both ends, in the same
// process or in two, of which each opens the other's. All of it comes from the host's memory
// service; this plugin knows no CUDA.
//
// Each counter lies on the device whose kernel waits for it, and is stored to from afar: tail, slot
// metadata and the receiver's error word at the receiver; head and the sender's error word at the
// sender. What is polled itself, lines of LL and LL128, lies at the receiver as well. Slots of
// Simple are not: they lie where the mode says.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <plugin_api/transport.h>

#include "plugins/common/fork_closed.h"
#include "plugins/common/hand_over.h"
#include "plugins/common/host.h"
#include "plugins/common/segment.h"

namespace weft::p2p {

/// Where slots of Simple lie, which decides over which way of the link their bytes go.
enum class Mode : std::uint32_t {
  kWrite = 0,  ///< At the receiver: the sender's kernel stores them there.
  kRead = 1    ///< At the sender: the receiver's kernel loads them from there.
};

/// Device memory of which connections have parts, whoever their peers are. Given back with the
/// transport and the last connection that holds it.
class Arena {
 public:
  /// `sharing`: the ways to try, a descriptor before IPC.
  static weft_result make(const plugins::Host& host, std::int32_t device, std::uint64_t bytes,
                          weft_memory_sharing sharing, std::shared_ptr<Arena>* out);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// Cuts off a part; false where what is left is smaller. No part is cut twice, so each is zeroed
  /// as all of the memory was.
  bool cut(std::uint64_t bytes, std::uint64_t* offset);
  [[nodiscard]] std::byte* at(std::uint64_t offset) const {
    return static_cast<std::byte*>(memory_.address) + offset;
  }
  [[nodiscard]] std::uint64_t size() const { return memory_.size; }
  [[nodiscard]] const weft_memory_export& ticket() const { return ticket_; }
  /// Where it is handed out by its descriptor.
  [[nodiscard]] const plugins::Nonce& name() const { return name_; }
  [[nodiscard]] bool by_descriptor() const { return ticket_.sharing == WEFT_SHARING_DESCRIPTOR; }
  /// -1 where it travels as bytes alone, and once nobody waits for it.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

  /// A peer gets a part: unless it has taken the descriptor before, one waits for it.
  weft_result promise(std::uint32_t peer);
  /// Whether `peer` has yet to take it; the descriptor goes with the last who has.
  [[nodiscard]] bool awaits(std::uint32_t peer) const { return awaited_.contains(peer); }
  void taken_by(std::uint32_t peer);

 private:
  explicit Arena(const plugins::Host& host) : host_(host) {}
  weft_result export_by(weft_memory_sharing way);

  const plugins::Host host_;
  weft_memory memory_{};
  weft_memory_export ticket_{};
  plugins::ForkClosedFd descriptor_;
  plugins::Nonce name_ = plugins::random_nonce();
  std::uint64_t used_ = 0;  // bytes from the start
  std::set<std::uint32_t> awaited_;
  std::set<std::uint32_t> takers_;
};

/// A part of an arena.
struct Part {
  std::shared_ptr<Arena> arena;  ///< Null: there is none.
  std::uint64_t offset = 0;

  [[nodiscard]] std::byte* address() const { return arena->at(offset); }
  [[nodiscard]] bool awaits(std::uint32_t peer) const {
    return arena != nullptr && arena->awaits(peer);
  }
};

struct DeviceBlob;
struct PartPlace;

/// Arenas of peers, opened once each, until this is destroyed, which kernels that use them have to
/// precede. Their owners learn of it, by the end of a socket: each peer's first takes stay
/// connected. [one-thread]
class Imports {
 public:
  explicit Imports(const plugins::Host& host, std::int32_t device) : host_(host), device_(device) {}
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;
  ~Imports();

  /// The arena of a part that a peer's blob tells of; WEFT_IN_PROGRESS until its descriptor has
  /// come.
  weft_result open(const plugins::Key& key, const DeviceBlob& blob, const PartPlace& place,
                   weft_memory* out);

 private:
  struct Import {
    plugins::Taker taker;
    bool stays = false;    ///< Its socket; chosen when it is asked for.
    weft_memory memory{};  ///< Open where it has an address.
  };
  weft_result take(const plugins::Key& key, const DeviceBlob& blob, const PartPlace& place,
                   Import& import, plugins::OwnedFd* out);

  const plugins::Host host_;
  const std::int32_t device_;
  /// By peer. Children would hide that this process has died.
  std::map<std::uint32_t, std::vector<std::unique_ptr<plugins::ForkClosedFd>>> lines_;
  std::map<plugins::Nonce, Import> imports_;
};

/// Where a part lies, as its owner tells it.
struct PartPlace {
  std::uint64_t offset = 0;  ///< In its arena.
  plugins::HandOverPlace arena;
  std::array<std::uint8_t, 128> ticket{};
};

/// What one end tells the other. Travels, not trusted.
struct DeviceBlob {
  std::uint64_t magic = 0;
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;
  std::uint32_t direction = 0;
  weft_memory_sharing sharing = WEFT_SHARING_NONE;  ///< How its arenas travel.
  std::array<plugins::ProtocolSpec, plugins::kMaxProtocols> protocols{};
  Mode mode = Mode::kWrite;
  PartPlace words;
  PartPlace buffers;  ///< Of an end that has some.
};
static_assert(std::has_unique_object_representations_v<DeviceBlob>);

/// Where what an end has lies in its parts, in bytes from their starts. Words and buffers are
/// parts of their own: of buffers, powers of two mostly, no room is lost in the driver's pages.
struct EndLayout {
  struct Protocol {
    plugins::ProtocolSpec spec;
    std::uint64_t counter = 0;  ///< Of words. Tail at the receiver, head at the sender.
    std::uint64_t slots = 0;    ///< Of words. The receiver's alone.
    std::uint64_t buffer = 0;   ///< Of buffers. Of the end that holds_buffer() names alone.
  };
  std::vector<Protocol> protocols;
  std::uint64_t word_bytes = 0;    ///< Of the error word, counters and metadata of slots.
  std::uint64_t buffer_bytes = 0;  ///< 0: it has none.
};
/// Whether the end of `direction` has the slots.
constexpr bool holds_buffer(weft_direction direction, weft_protocol protocol, Mode mode) {
  const bool at_sender = mode == Mode::kRead && protocol == WEFT_PROTOCOL_SIMPLE;
  return (direction == WEFT_DIRECTION_SEND) == at_sender;
}
EndLayout lay_out(weft_direction direction, Mode mode,
                  const std::vector<plugins::ProtocolSpec>& specs);

/// This end's memory and, once connected, the other's.
struct DeviceEnd {
  EndLayout mine;
  EndLayout theirs;
  Part words;
  Part buffers;
  std::byte* peer_words = nullptr;
  std::byte* peer_buffers = nullptr;
  DeviceBlob blob;

  /// False if the connection has no such protocol.
  bool describe(weft_protocol protocol, weft_direction direction, std::int32_t device,
                weft_protocol_view* out) const;
};

}  // namespace weft::p2p
