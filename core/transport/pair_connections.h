// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections between any two ranks, made when a rank first needs them: edges of rings and trees,
// inboxes, partners of sends.
#pragma once

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/reactor.h"
#include "core/bootstrap/bootstrap.h"
#include "core/transport/choice.h"
#include "core/transport/connections.h"

namespace weft {

/// Names the connections of a rank with another on one channel, one each way or one alone: two
/// ranks may have several.
struct PairLink {
  std::uint32_t peer = 0;
  std::uint32_t channel = kPairChannel;  ///< Or another one of net_devices.h.
  friend auto operator<=>(const PairLink&, const PairLink&) = default;
};

/// What a link consists of; both ends compute it alike.
struct LinkShape {
  SlotGeometry slots;  ///< Of each way.
  bool to = true;      ///< From this rank to the peer.
  bool from = true;    ///< From the peer to this rank.

  [[nodiscard]] bool exists() const { return to || from; }
};

/// A rank's ends towards one other rank. Of inboxes they are empty: DirectPeers has those.
struct PairConnections {
  ConnectionEnd to;
  ConnectionEnd from;
};

/// The rank that wants a pair writes the blobs of its ends to the other one as a letter of the
/// bootstrap; that one answers with its own, whatever its application is doing: all of it happens
/// on the reactor's thread, step by step, so that nobody has to call something for another rank to
/// get on. A letter that cannot be brought is a failure of a rank that wants the pair, not of one
/// that answers.
///
/// Threads: want, find and wait by any; all else belongs to the reactor's thread. The plugins see
/// one thread at a time: transports that of the reactor, nets whoever holds their port's lock.
class PairConnector {
 public:
  /// What it refers to outlives it, and the paths of `connections` are open. `failed` is told of a
  /// pair that cannot be joined, and once more a second later: this rank may be in no call, and
  /// nobody ask whether what it suspects has been confirmed, while others wait.
  static Result<std::unique_ptr<PairConnector>> start(
      Connections& connections, Bootstrap& bootstrap, Reactor& reactor,
      std::function<LinkShape(const PairLink& link)> shape_of,
      std::function<PairChoice(std::uint32_t peer)> choice_of,
      std::function<void(const Error&)> failed);
  /// Not on the reactor's thread. Before the connections are destroyed.
  ~PairConnector();
  PairConnector(const PairConnector&) = delete;
  PairConnector& operator=(const PairConnector&) = delete;

  /// Null until the pair is connected. Lives as long as this.
  [[nodiscard]] const PairConnections* find(const PairLink& link);
  /// Whether all of them are connected.
  [[nodiscard]] bool are_connected(std::span<const PairLink> links);
  /// Begins to connect what is not connected yet; at once.
  void want(std::span<const PairLink> links);
  /// Blocks until all of `links`, which were wanted, are connected; ends early where `stopped()`,
  /// which is asked now and then, says so.
  Status wait(std::span<const PairLink> links, const Deadline& deadline,
              const std::function<bool()>& stopped);

  /// Copies `destination.size()` bytes from `address` in the process of rank `peer`, whose end
  /// kPairChannel is connected and has its peer_memory. Any thread; blocks as long as that takes.
  /// PEER where that process has ended, SYSTEM where the kernel refuses.
  Status read_memory(std::uint32_t peer, std::span<std::byte> destination, std::uint64_t address);

  /// Whether a partner that has left may have done so because its part was done: its answer came,
  /// and this end has not yet had the time to come up. No longer after looks at it for some ten
  /// seconds, nor once it has failed.
  [[nodiscard]] bool comes_up(const PairLink& link);

  /// Where data between this rank and others has got to, for reports.
  [[nodiscard]] std::string describe_waiting();

 private:
  struct Inbox;
  struct Pair;
  PairConnector(Connections& connections, Bootstrap& bootstrap, Reactor& reactor,
                std::function<LinkShape(const PairLink& link)> shape_of,
                std::function<PairChoice(std::uint32_t peer)> choice_of,
                std::function<void(const Error&)> failed);
  Status listen();
  void work(bool on_time);
  Status move(bool on_time);
  Status take_letter(std::uint32_t from, std::span<const std::byte> letter);
  Status advance(Pair& pair);
  bool forget_what_passes(Pair& pair);
  void note_wanted(Pair& pair);
  void request(const PairLink& link, const SlotGeometry& slots, Connections::Edge& edge) const;
  Status prepare(Pair& pair);
  void post(Pair& pair);
  Status begin(Pair& pair);
  Result<bool> look_at(Pair& pair);
  Result<bool> join(Pair& pair);
  [[nodiscard]] bool may_leave_unheard(const Pair& pair) const;
  void set_coming_up(const Pair& pair, bool comes);
  void set_joining(Pair& pair, bool joins);
  Status finish(Pair& pair);
  Status finish_inboxes(Pair& pair);
  static void close_listener(Connections::Edge& edge);
  [[nodiscard]] std::string describe_rings() const;
  Pair& pair_of(const PairLink& link);
  void give_up();
  [[nodiscard]] bool tell(const Error& failure) const;
  void set_timer(std::chrono::nanoseconds period);

  Connections& connections_;
  Bootstrap& bootstrap_;
  Reactor& reactor_;
  const std::function<LinkShape(const PairLink& link)> shape_of_;
  const std::function<PairChoice(std::uint32_t peer)> choice_of_;
  const std::function<void(const Error&)> failed_;
  std::shared_ptr<Inbox> inbox_;  // shared with the bootstrap's callback, which may outlive this
  UniqueFd timer_;
  Reactor::WatchId wake_watch_ = 0;
  Reactor::WatchId timer_watch_ = 0;

  // The reactor's thread alone.
  std::map<PairLink, std::unique_ptr<Pair>> pairs_;
  std::set<Pair*> coming_;    // not connected yet
  std::vector<Pair*> moved_;  // there was a letter, or a call, since they were advanced
  std::int64_t joining_ = 0;  // of them, those whose ends come up
  int looks_ = 0;             // on time, since the last of them began to
  std::chrono::nanoseconds period_{};
  std::optional<Error> untold_;  // failure_ once whoever is to be told knows it

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<PairLink, const PairConnections*> ready_;  // guarded by mutex_
  std::set<PairLink> wanted_;                         // guarded by mutex_
  std::set<PairLink> coming_up_;                      // guarded by mutex_
  std::optional<Error> failure_;                      // guarded by mutex_; work() sets it
};

}  // namespace weft
