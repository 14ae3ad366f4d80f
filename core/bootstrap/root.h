// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The rendezvous of one unique id: every rank tells it where it listens and learns its neighbours.
// It is there that somebody knows who is missing, so errors of a join are decided here and told to
// every rank that came.
#pragma once

#include <memory>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/bootstrap/options.h"
#include "core/bootstrap/unique_id.h"

namespace weft {

/// Serves from a thread of its own. The deadline counts from the first rank's coming; until then it
/// waits without limit. It closes its port by itself once all ranks are connected with one another.
/// After a failure it stays for another timeout span to tell the reason to those who come late.
class BootstrapRoot {
 public:
  /// A fresh secret, any port, the addresses of the selected interfaces.
  static Result<std::unique_ptr<BootstrapRoot>> start(const BootstrapOptions& options, Logger& log);
  /// At the port that `id` names, shared with a placeholder or other roots of this user. Tries
  /// again until the timeout while the port is taken (blocks). Listens on every address, unless
  /// the id says 127.0.0.1 or ::1. Null when this host serves `id` already: whoever joins then
  /// learns who else claims its rank.
  static Result<std::unique_ptr<BootstrapRoot>> start_at(const UniqueId& id,
                                                         const BootstrapOptions& options,
                                                         Logger& log);
  /// Ends the thread. Ranks that still wait are told so.
  ~BootstrapRoot();
  BootstrapRoot(const BootstrapRoot&) = delete;
  BootstrapRoot& operator=(const BootstrapRoot&) = delete;

  [[nodiscard]] const UniqueId& id() const;
  /// True once the thread has done its work and closed its port.
  [[nodiscard]] bool finished() const;

 private:
  struct State;
  explicit BootstrapRoot(std::unique_ptr<State> state);
  static Result<std::unique_ptr<BootstrapRoot>> launch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
