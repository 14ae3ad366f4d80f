// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that were captured from a stream of the host device, to be made again as often as wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/comm/start.h"

namespace weft {

/// A replay makes the calls again: it numbers them, and gives them to the stream, as the calls
/// themselves would be, so other ranks cannot tell one from the other. What does not change is
/// kept: plans, bound to connections, and what starts together.
///
/// Ownership: its plans are shared with what is under way, so it may be destroyed at any time. The
/// communicators are not its own: a launch looks whether they still live.
///
/// Threads: one at a time; a launch is a use of the stream and of all the communicators.
class Graph {
 public:
  /// Notes calls that start together, all of the captured `stream`: makes their plans and
  /// connects what they need, which may block as start_calls does. What fails is not noted.
  Status record(std::span<const Call> calls, const Stream& stream);

  /// Makes the calls, on any stream of the host device. Where a communicator was finalized or
  /// destroyed nothing is started. A call that fails does not keep those of other communicators
  /// from being made, since other ranks may wait for them; the first failure is answered.
  Status launch(Stream& stream);

 private:
  /// The calls of a group, or one.
  struct Step {
    std::vector<Call> calls;
    std::vector<Piece> pieces;  // points into calls
  };
  struct Known {
    Communicator* communicator;
    std::weak_ptr<const void> life;  // of background as well
    Member* background;
    std::uint32_t rank;
    std::uint32_t ranks;
    std::size_t launches = 0;  // in all
    std::size_t items = 0;     // of a launch, at most
    std::size_t pairs = 0;     // the same
  };
  Known& known_of(Communicator& communicator, Member* background);
  void count(const Piece& piece);

  std::vector<Step> steps_;
  std::vector<Known> members_;
  LaunchRoom room_;  // that a launch needs
};

}  // namespace weft
