// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The second ring: two idle connections of each rank to its neighbours, watched by the reactor.
// When one closes without a goodbye its rank died; that news, and failures that ranks announce,
// travel both ways round the ring, so that every rank learns of the same first culprit.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/reactor.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/wire.h"

namespace weft {

/// Any thread may call any member. The reactor and the logger outlive it.
class FailureWatch {
 public:
  /// The watch of an only rank, which has nobody to watch: interrupt still works.
  static Result<std::unique_ptr<FailureWatch>> start_alone(Reactor& reactor, Logger& log);
  static Result<std::unique_ptr<FailureWatch>> start(const PeerIdentity& self,
                                                     const PeerIdentity& next, Wire to_next,
                                                     const PeerIdentity& previous, Wire to_previous,
                                                     Reactor& reactor, Logger& log);
  /// Closes the connections. Not from a callback of the reactor.
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  /// `callback` runs once, on the reactor's thread, when another rank died or failed.
  void on_failure(std::function<void(const Error&)> callback);
  /// Tells the others that this rank failed; this rank's failure is `error`, if it is the first.
  void announce(const Error& error);
  /// This rank's failure is `error`, if it is the first; nobody is told.
  void interrupt(const Error& error);
  /// Says goodbye: from now on nothing is a failure, neither here nor to the neighbours.
  void leave();

  /// The first failure, if any.
  [[nodiscard]] std::optional<Error> failure() const;
  /// Whether that neighbour said goodbye.
  [[nodiscard]] bool next_left() const;
  [[nodiscard]] bool previous_left() const;
  /// Becomes readable with the first failure and stays so. Not to be read.
  [[nodiscard]] int failure_fd() const;

 private:
  struct State;
  explicit FailureWatch(std::unique_ptr<State> state);
  static Result<std::unique_ptr<FailureWatch>> launch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
