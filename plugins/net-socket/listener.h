// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Waits for the streams of one sender, and turns everyone else away.
//
// Strangers cost little: those that have not named the listener's token are bounded in number (the
// oldest goes first) and in time, and are never answered. The token and the key tell the sender.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "net.h"
#include "receiver.h"
#include "socket.h"
#include "wire.h"

namespace weft::net_socket {

class Listener final : public Member {
 public:
  static Result<std::unique_ptr<Listener>> listen(Net& net, const Interface& interface);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() override;

  /// The bytes that the sender needs.
  [[nodiscard]] const std::vector<uint8_t>& handle() const { return handle_; }
  /// The connection, or NULL while the sender has not come.
  Result<std::unique_ptr<Receiver>> accept();
  [[nodiscard]] Net& net() { return net_; }

  void progress() override;
  void on_tick(Clock::time_point now) override;
  void on_abort() override;

 private:
  /// A listening socket.
  struct Door final : EventSink {
    ~Door() { owner->net_.close_watched(fd); }
    void on_events(uint32_t events) override;
    Listener* owner = nullptr;
    Fd fd;
    bool ready = false;
  };

  /// Someone who has connected and not yet proved anything.
  struct Caller final : EventSink {
    ~Caller() { owner->net_.close_watched(fd); }
    void on_events(uint32_t events) override;
    Listener* owner = nullptr;
    Fd fd;
    Address from;
    Clock::time_point deadline;
    bool readable = true;
    bool named_token = false;
    bool proved = false;
    std::array<uint8_t, kHelloBytes> said{};
    size_t filled = 0;
    Hello hello;
    Nonce nonce{};
  };

  /// The proved streams of one connection.
  struct Group {
    Token connection{};
    uint32_t stripe = 0;
    Address from;
    Clock::time_point deadline;
    std::vector<Fd> streams;
    size_t present = 0;
  };

  /// Callers that have not named the token.
  static constexpr size_t kMaxStrangers = 64;
  /// All callers: every stream of a few senders at once.
  static constexpr size_t kMaxCallers = kMaxStrangers + size_t{4} * kMaxStreams;
  static constexpr size_t kMaxGroups = 4;

  Listener(Net& net, const Interface& interface) : net_(net), device_(interface.name) {}
  void take_callers(Door& door);
  /// False if the caller is to be dropped.
  bool hear(Caller& caller);
  bool hear_hello(Caller& caller);
  bool hear_proof(Caller& caller);
  bool join_group(Caller& caller);
  void drop_oldest_stranger();
  void turned_away(const Caller& caller, const char* why);
  [[nodiscard]] Clock::time_point deadline() const;

  Net& net_;
  std::string device_;
  Token token_{};
  std::vector<uint8_t> handle_;
  std::list<Door> doors_;
  std::list<Caller> callers_;
  std::list<Group> groups_;
  std::optional<Group> sender_;
  std::optional<Failure> failure_;
  bool accepted_ = false;
};

}  // namespace weft::net_socket
