// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All-gather over the data ring: in n-1 steps each rank passes on the block it got last. Blocks are
// of any size; sending and receiving go on at the same time, so large ones cannot deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/bootstrap/failure_watch.h"
#include "core/bootstrap/options.h"
#include "core/bootstrap/wire.h"

namespace weft {

/// Bound of all blocks of one all-gather together.
inline constexpr std::size_t kMaxGatherBytes = 64UL * 1024 * 1024;

/// Used by one thread at a time. Once it has failed it is of no more use.
class RingGather {
 public:
  RingGather(int rank, int nranks, Wire to_next, Wire from_previous, FailureWatch& watch,
             Logger& log)
      : rank_(rank),
        nranks_(nranks),
        to_next_(std::move(to_next)),
        from_previous_(std::move(from_previous)),
        watch_(watch),
        log_(log) {
    from_previous_.allow_data();
  }

  /// `peers` name ranks in errors: all of them, indexed by rank.
  Result<std::vector<std::vector<std::byte>>> run(std::span<const std::byte> mine,
                                                  std::string_view what,
                                                  std::span<const PeerIdentity> peers,
                                                  const BootstrapOptions& options);

 private:
  struct Step;
  Result<std::vector<std::vector<std::byte>>> steps(std::span<const std::byte> mine,
                                                    std::string_view what,
                                                    std::span<const PeerIdentity> peers,
                                                    const BootstrapOptions& options);
  Status send_some(Step& step);
  Status receive_some(Step& step);
  Status take(Step& step, const Message& message);
  Error lost(const Step& step, const PeerIdentity& who);

  int rank_;
  int nranks_;
  Wire to_next_;
  Wire from_previous_;
  FailureWatch& watch_;
  Logger& log_;
  std::uint64_t sequence_ = 0;
};

}  // namespace weft
