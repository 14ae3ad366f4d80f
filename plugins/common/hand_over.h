// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a descriptor of memory reaches another process: over a Unix socket of the abstract namespace,
// which leaves no file behind, after both sides have shown that they know the communicator's
// secret. Nothing here waits: both sides are called again until they are done.
//
//   taker                        giver (has the memory)
//   connect  ------------------>  accept, same user?
//            <---- hello -------  a fresh nonce
//            ----- request ---->  nonce of its own, which memory, hash over both nonces
//            <---- grant -------  hash over both nonces, and the descriptor
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plugins/common/host.h"
#include "plugins/common/key.h"
#include "plugins/common/owned.h"
#include "plugins/common/segment.h"

namespace weft::plugins {

/// What a taker has to know of the giver, told over the bootstrap.
struct HandOverPlace {
  Nonce socket{};  ///< Where it is handed out.
  Nonce memory{};  ///< Which.
};

/// One side's socket for all that a transport has to hand out. [one-thread]
class Giver {
 public:
  class Store {
   public:
    virtual ~Store() = default;
    /// The descriptor for what `rank` may have under that name, or -1.
    virtual int find(const Nonce& memory, std::uint32_t rank) = 0;
    /// It has left. `line` is the socket where the taker keeps its end (Taker::Ends::stays), else
    /// none.
    virtual void given(const Nonce& memory, std::uint32_t rank, OwnedFd line) = 0;
  };

  /// `plugin` begins the texts of errors and the socket's name.
  Giver(const Host& host, std::string plugin) : host_(host), plugin_(std::move(plugin)) {}

  /// Begins to listen, if it does not yet. The name is random.
  weft_result open(Nonce* name);
  /// Takes all that has come in. Strangers are turned away; an error is one of this process.
  weft_result serve(const Key& key, Store& store);
  void close();
  /// Whether the taker at the other end of a line has let go of all that it took.
  [[nodiscard]] static bool has_ended(int line);
  /// Closes a socket, of either side, for processes as well that were forked meanwhile and have a
  /// copy of it: the other side would not hear of it before those end.
  static void end(OwnedFd& socket);

 private:
  struct Session {
    OwnedFd socket;
    Nonce nonce{};
    std::uint64_t since_ns = 0;
  };
  enum class Outcome { kWaiting, kOver, kFailed };

  weft_result accept_all();
  weft_result answer_all(const Key& key, Store& store);
  Outcome answer(Session& session, const Key& key, Store& store);
  [[nodiscard]] bool somebody_calls() const;
  void evict_idle();

  Host host_;
  std::string plugin_;
  OwnedFd listener_;
  Nonce name_{};
  std::vector<Session> sessions_;
};

/// The other side, for one piece of memory. [one-thread]
class Taker {
 public:
  /// Who asks whom.
  struct Ends {
    const char* plugin;  ///< As the giver's.
    std::uint32_t rank;  ///< Who asks.
    std::uint32_t peer;  ///< Who gives.
    /// The socket is kept by both sides: its end tells the giver that this one has let go, or died.
    bool stays = false;
  };

  /// Goes on as far as possible: OK with the descriptor, WEFT_IN_PROGRESS, or an error that names
  /// the peer. The same arguments each time. A giver that has just gone is still in progress: who
  /// can tell whether its process has ended looks meanwhile.
  weft_result step(const Host& host, const Key& key, const Ends& ends, const HandOverPlace& place,
                   OwnedFd* out);
  /// Whether it holds a socket.
  [[nodiscard]] bool started() const { return static_cast<bool>(socket_); }
  void stop() { socket_.reset(); }
  /// The socket, to be kept, once the descriptor has come.
  [[nodiscard]] OwnedFd keep() { return std::move(socket_); }

 private:
  weft_result start(const Host& host, const Ends& ends, const HandOverPlace& place);
  weft_result wait_refused(const Host& host, const Ends& ends);
  weft_result try_again(const Host& host, const Ends& ends);
  weft_result await_hello(const Host& host, const Key& key, const Ends& ends,
                          const HandOverPlace& place);
  weft_result await_grant(const Host& host, const Key& key, const Ends& ends,
                          const HandOverPlace& place, OwnedFd* out);

  OwnedFd socket_;
  bool asked_ = false;
  unsigned turns_ = 0;                  ///< How often the giver closed the socket.
  std::uint64_t refused_since_ns_ = 0;  ///< 0: it listens.
  Nonce theirs_{};
  Nonce ours_{};
};

}  // namespace weft::plugins
