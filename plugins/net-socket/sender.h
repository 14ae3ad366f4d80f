// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The sending end: connects its streams, proves itself, and writes messages.
#pragma once

#include <memory>
#include <span>

#include "connection.h"

namespace weft::net_socket {

/// The addresses of a connection; an empty `from` is the kernel's choice.
struct Route {
  Address from;
  Address to;
  bool local = false;  ///< The peer's address is one of this host.
};

class Sender final : public Connection {
 public:
  /// Begins to connect to the listener that `handle` names. Only what is wrong on this side fails
  /// here; what the network says is answered by ready().
  static Result<std::unique_ptr<Sender>> connect(Net& net, const Interface& interface,
                                                 std::span<const uint8_t> handle);

  Result<weft_result> isend(const weft_net_send& message, Request** out) override;
  bool cancel(Request* request) override;
  bool drained() override;
  void progress() override;
  void on_tick(Clock::time_point now) override;

 private:
  enum class Phase : uint8_t { kConnecting, kChallenge, kOpen };

  /// What only a sender's stream has: the handshake, and since when its peer owes an answer.
  struct Link {
    Phase phase = Phase::kConnecting;
    Hello hello;
    std::array<uint8_t, kChallengeBytes> challenge{};
    size_t filled = 0;
    Clock::time_point waiting_since{};
    uint32_t probes = 0;  ///< Unanswered in a row, when this was looked at last.
  };

  Sender(Net& net, const Interface& interface, uint32_t streams);
  Status start_stream(uint32_t index, const Route& route);
  void shake_hands(uint32_t index);
  bool finish_connect(uint32_t index);
  bool read_challenge(uint32_t index);
  bool say(uint32_t index, std::span<const uint8_t> bytes);
  /// Bytes of the message that the stream carries, its header included.
  [[nodiscard]] static uint64_t part_of(const Request& request, uint32_t stream);
  void move_data();
  void write_stream(uint32_t index);
  void advance(uint32_t index, uint64_t bytes);
  void complete_front();
  void tell_what_it_awaits();
  void look_for_end(uint32_t index);
  [[nodiscard]] uint64_t unsent_bytes() const;
  std::vector<Request*> take_pending() override;

  std::vector<Link> links_;
  RequestQueue sends_;
  Clock::time_point deadline_ = Clock::time_point::max();
};

}  // namespace weft::net_socket
