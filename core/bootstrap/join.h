// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How one rank becomes a member: over the rendezvous to its two neighbours. Internal to bootstrap.
#pragma once

#include <optional>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/bootstrap/message.h"
#include "core/bootstrap/options.h"
#include "core/bootstrap/unique_id.h"
#include "core/bootstrap/wire.h"

namespace weft {

/// The four connections of a rank in a ring of at least two, and where it listens on.
struct RingWires {
  PeerIdentity self;
  PeerIdentity next;
  PeerIdentity previous;
  Wire data_to_next;
  Wire data_from_previous;
  Wire control_to_next;
  Wire control_to_previous;
  Acceptor acceptor;
  MessageKey key;
};

/// Blocks until every rank has its connections, or answers the error that every rank gets.
[[nodiscard]] Result<RingWires> join_ring(const UniqueId& id, int rank, int nranks,
                                          const BootstrapOptions& options, Logger& log);

}  // namespace weft
