// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Letters: what one rank says to another, whoever else has left. Each rank goes on listening where
// it did while the ring was made, and all know where that is. Who writes connects to the addressee
// itself; both show by a hello that they know the communicator's secret; then come the letters,
// each acknowledged, and the end of the connection. A letter that is not acknowledged is sent
// again.
//
// A rank that leaves, or whose communicator failed, listens no more. So where every address of an
// addressee refuses, it has left. An address that swallows packets, or where somebody else listens
// now, shows nothing: it is tried again until the writer's own deadline.
//
// Descriptors: as long as the communicator lives the listening sockets (one where all ranks share a
// host, else at most kMaxRootAddresses), a timer and an epoll descriptor. While letters are under
// way at most two connections to others, and one of each rank that writes.
//
// Between ranks of one context no sockets are needed, as long as both listen: see LocalLetters.
//
// Strangers can do no more than at the rendezvous: see Acceptor, which takes few at a time here.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/bootstrap/failure_watch.h"
#include "core/bootstrap/local_letters.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/wire.h"

namespace weft {

/// Any thread may call any member but brings(). Nothing blocks: all is done on the reactor's
/// thread.
class Letters {
 public:
  /// `members` are all ranks, in order. Reactor, logger, watch and `local`, which may be null,
  /// outlive it; once the watch knows a failure no more letters come or go.
  static Result<std::unique_ptr<Letters>> start(int rank, std::vector<MemberMessage> members,
                                                const MessageKey& key, Acceptor acceptor,
                                                const FailureWatch& watch, Reactor& reactor,
                                                Logger& log, LocalLetters* local = nullptr);
  ~Letters();
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  /// `callback` runs on the reactor's thread for each letter of another rank, now and then twice
  /// for one, and must neither block nor stop this. Letters wait until it is set.
  void on_letter(std::function<void(int from, std::vector<std::byte> text)> callback);
  /// Likewise for each rank to which letters can never be brought: it has left (kPeer). And for
  /// each to which they were not, since this process is out of descriptors; for this rank itself,
  /// where none can come for that reason; that may pass. And for all, itself too, once it is out of
  /// memory: no letter comes or goes any more.
  void on_undelivered(std::function<void(int to, const Error& why)> callback);
  /// Sends a letter, at most kMaxLetterBytes, to another rank. One that is like the last of those
  /// that still wait for the same rank is not sent twice.
  void post(int to, std::vector<std::byte> text);
  /// Whether letters to a rank are still on their way: neither acknowledged nor given up. On the
  /// reactor's thread alone.
  [[nodiscard]] bool brings(int to) const;
  /// Listens no more, and forgets what was not delivered; no callback runs any more. Not from a
  /// callback.
  void stop();

 private:
  struct State;
  explicit Letters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
