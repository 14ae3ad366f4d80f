// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How the memory of a connection reaches the other process: over a Unix socket of the abstract
// namespace, which leaves no file behind, after both sides have shown that they know the
// communicator's secret. Nothing here waits: both sides are called again until they are done.
//
//   sender                       receiver (has the memory)
//   connect  ------------------>  accept, same user?
//            <---- hello -------  a fresh nonce
//            ----- request ---->  nonce of its own, which memory, hash over both nonces
//            <---- grant -------  hash over both nonces, and the descriptor
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plugins/common/host.h"
#include "plugins/common/owned.h"
#include "plugins/shm/wire.h"

namespace weft::shm {

/// The receiver's side: one socket for all memory that a transport has to hand out. [one-thread]
class Server {
 public:
  /// Finds the memory that a request names: its descriptor, or -1; and is told when it was sent.
  class Store {
   public:
    virtual ~Store() = default;
    virtual int find(const Request& request) = 0;
    virtual void sent(const Request& request) = 0;
  };

  explicit Server(const plugins::Host& host) : host_(host) {}

  /// Begins to listen, if it does not yet. The name is random.
  weft_result open(Nonce* name);
  /// Takes all that has come in. Strangers are turned away; an error is one of this process.
  weft_result serve(const Key& key, Store& store);
  void close();

 private:
  struct Session {
    plugins::OwnedFd socket;
    Nonce nonce{};
    std::uint64_t since_ns = 0;
  };
  enum class Outcome { kWaiting, kOver, kFailed };

  weft_result accept_all();
  Outcome answer(const Session& session, const Key& key, Store& store);
  void evict_idle();

  plugins::Host host_;
  plugins::OwnedFd listener_;
  Nonce name_{};
  std::vector<Session> sessions_;
};

/// The sender's side, for one connection. [one-thread]
class Client {
 public:
  /// Goes on as far as possible: OK with the descriptor, WEFT_IN_PROGRESS, or an error that names
  /// `peer`.
  weft_result step(const plugins::Host& host, const Key& key, const Blob& peer, std::uint32_t rank,
                   plugins::OwnedFd* out);
  /// Whether it holds a socket.
  [[nodiscard]] bool started() const { return static_cast<bool>(socket_); }
  void stop() { socket_.reset(); }

 private:
  weft_result start(const plugins::Host& host, const Blob& peer);
  weft_result await_hello(const plugins::Host& host, const Key& key, const Blob& peer,
                          std::uint32_t rank);
  weft_result await_grant(const plugins::Host& host, const Key& key, const Blob& peer,
                          plugins::OwnedFd* out);

  plugins::OwnedFd socket_;
  bool asked_ = false;
  Nonce theirs_{};
  Nonce ours_{};
};

}  // namespace weft::shm
