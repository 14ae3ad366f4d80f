// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections between ranks that run on CUDA devices of one host: memory of the receiver's device
// that the sender's device reaches, in the same process or another. All of it comes from the host's
// memory service; this plugin knows no CUDA.
//
// Each counter lies on the device whose kernel waits for it, and is stored to from afar: tail, slot
// metadata, slots and the receiver's error word at the receiver; head and the sender's error word
// at the sender. Both ends therefore own memory, and each opens the other's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <plugin_api/transport.h>

#include "plugins/common/host.h"
#include "plugins/common/segment.h"

namespace weft::p2p {

/// Device memory of one prepare call, cut into parts, one a connection. Given back with the last
/// connection that holds it.
class Arena {
 public:
  static weft_result make(const plugins::Host& host, std::int32_t device, std::uint64_t bytes,
                          std::shared_ptr<Arena>* out);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] std::byte* at(std::uint64_t offset) const {
    return static_cast<std::byte*>(memory_.address) + offset;
  }
  [[nodiscard]] std::uint64_t size() const { return memory_.size; }
  [[nodiscard]] const weft_memory_export& ticket() const { return ticket_; }

 private:
  explicit Arena(const plugins::Host& host) : host_(host) {}

  const plugins::Host host_;
  weft_memory memory_{};
  weft_memory_export ticket_{};
};

/// Arenas of peers, opened once each.
class Imports {
 public:
  explicit Imports(const plugins::Host& host, std::int32_t device) : host_(host), device_(device) {}
  Imports(const Imports&) = delete;
  Imports& operator=(const Imports&) = delete;
  ~Imports();

  weft_result open(const std::array<std::uint8_t, 128>& ticket, weft_memory* out);

 private:
  const plugins::Host host_;
  const std::int32_t device_;
  std::map<std::array<std::uint8_t, 128>, weft_memory> opened_;
};

/// What one end tells the other. Travels, not trusted.
struct DeviceBlob {
  std::uint64_t magic = 0;
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;
  std::uint32_t direction = 0;
  std::array<plugins::ProtocolSpec, plugins::kMaxProtocols> protocols{};
  std::uint64_t offset = 0;  ///< Of the end's part in its arena.
  std::array<std::uint8_t, 128> ticket{};
};
static_assert(sizeof(DeviceBlob) == 36 + 36 + 8 + 128);

/// Where the parts of an end lie, in bytes from its start.
struct PartLayout {
  struct Protocol {
    plugins::ProtocolSpec spec;
    std::uint64_t counter = 0;  ///< Tail at the receiver, head at the sender.
    std::uint64_t slots = 0;    ///< The receiver's alone, as `buffer`.
    std::uint64_t buffer = 0;
  };
  std::vector<Protocol> protocols;
  std::uint64_t bytes = 0;
};
PartLayout lay_out(weft_direction direction, const std::vector<plugins::ProtocolSpec>& specs);

/// This end's memory and, once connected, the other's.
struct DeviceEnd {
  std::shared_ptr<Arena> arena;
  std::uint64_t offset = 0;
  PartLayout mine;
  PartLayout theirs;
  std::byte* peer_part = nullptr;
  DeviceBlob blob;

  [[nodiscard]] std::byte* part() const { return arena->at(offset); }
  /// False if the connection has no such protocol.
  bool describe(weft_protocol protocol, weft_direction direction, std::int32_t device,
                weft_protocol_view* out) const;
};

}  // namespace weft::p2p
