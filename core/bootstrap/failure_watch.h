// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The second ring: two idle connections of each rank to its neighbours, watched by the reactor.
// When one closes without a goodbye its rank died; that news, and failures that ranks announce,
// travel both ways round the ring, so that every rank learns of the same first culprit. Questions
// of one rank to all others take the same way.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/wire.h"

namespace weft {

/// A neighbour that said goodbye, and what it said.
struct Departure {
  int rank = 0;
  std::vector<std::byte> last_words;
  std::chrono::steady_clock::time_point since;  ///< When that came.
};

/// What another rank asks all. Its memory is the watch's, for the time of the callback.
struct Question {
  int asker = 0;
  std::span<const std::byte> text;
  /// The neighbours that are known to have left.
  std::span<const Departure> departed;
};

/// What goes round from rank to rank, each of which sees to it that it goes on. Its memory is the
/// watch's, for the time of the callback.
struct RoundText {
  int asker = 0;
  std::size_t side = 0;  ///< Where it came from: 0 the next rank, 1 the previous one.
  std::span<const std::byte> text;
  /// The neighbours that are known to have left.
  std::span<const Departure> departed;
  /// FailureWatch::hand_on, of this text's asker: whoever holds the watch may be about to let go of
  /// it, on another thread.
  std::function<bool(std::size_t side, std::span<const std::byte> text)> hand_on;
};

/// Any thread may call any member. The reactor and the logger outlive it.
class FailureWatch {
 public:
  /// The watch of an only rank, which has nobody to watch: interrupt still works.
  static Result<std::unique_ptr<FailureWatch>> start_alone(Reactor& reactor, Logger& log);
  static Result<std::unique_ptr<FailureWatch>> start(const PeerIdentity& self, int nranks,
                                                     const PeerIdentity& next, Wire to_next,
                                                     const PeerIdentity& previous, Wire to_previous,
                                                     Reactor& reactor, Logger& log);
  /// Closes the connections. Not from a callback of the reactor.
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// `callback` runs once, on the reactor's thread, when another rank died or failed.
  void on_failure(std::function<void(const Error&)> callback);
  /// `callback` runs on the reactor's thread for each question of another rank, which may come
  /// twice: once from each side; also for the last words of a neighbour. What it refers to must
  /// live until this is destroyed.
  void on_question(std::function<void(const Question&)> callback);
  /// Sends a question, at most kMaxQuestionBytes, both ways round the ring, as far as ranks that
  /// left let it come. A lost question is not repeated: a link that is full takes none.
  void ask(std::span<const std::byte> question);
  /// `callback` runs on the reactor's thread for each text that goes round. What it refers to must
  /// live until this is destroyed.
  void on_round(std::function<void(const RoundText&)> callback);
  /// Hands a text of `asker`, at most kMaxQuestionBytes, to the next rank (`side` 0) or the
  /// previous one (1). False if that one has left or is gone. A link that is full takes none.
  bool hand_on(std::size_t side, int asker, std::span<const std::byte> text);
  /// Tells the others that this rank failed; this rank's failure is `error`, if it is the first.
  void announce(const Error& error);
  /// This rank's failure is `error`, if it is the first; nobody is told.
  void interrupt(const Error& error);
  /// Says goodbye, with at most kMaxQuestionBytes of last words for the neighbours: from now on
  /// nothing is a failure, neither here nor to them.
  void leave(std::span<const std::byte> last_words = {});

  /// The first failure, if any.
  [[nodiscard]] std::optional<Error> failure() const;
  /// The neighbours that said goodbye; both are the same rank where there are two in all.
  [[nodiscard]] std::vector<Departure> departed_neighbours() const;
  /// Becomes readable with the first failure and stays so. Not to be read.
  [[nodiscard]] int failure_fd() const;

 private:
  struct State;
  explicit FailureWatch(std::unique_ptr<State> state);
  static Result<std::unique_ptr<FailureWatch>> launch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
