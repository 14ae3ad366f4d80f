// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Memory of all ranks of a communicator behind one address, for calls by multicast
// (core/model/multicast.h): who could at all, and how it is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/bootstrap/bootstrap.h"
#include "core/model/multicast.h"
#include "core/topology/topology.h"

namespace weft {

/// Why these ranks have none, whatever their devices can do; empty where they may. Computed from
/// what all ranks have in common.
[[nodiscard]] std::string no_multicast_between(const Topology& topology);

/// One rank's share. Used by the thread that makes the communicator, and ends it.
class Multicast {
 public:
  /// Null with the reason, alike on all ranks, where some rank cannot.
  struct Made {
    std::unique_ptr<Multicast> memory;
    std::string refusal;
  };
  /// Of `bytes` or more of each rank's device, alike on all. Collective over the bootstrap; blocks.
  /// Nothing is made where some device says that it has no multicast.
  static Result<Made> create(DeviceRuntime& runtime, const Topology& topology, std::uint32_t rank,
                             std::uint64_t bytes, Bootstrap& bootstrap);

  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;
  /// Gives it back: at once, since a rank whose calls have ended well is left alone by all others;
  /// with its device where leave_to_peers() was called.
  ~Multicast();

  /// Kernels of other ranks may still store to this rank's memory: calls have ended badly.
  void leave_to_peers() { may_be_used_ = true; }
  [[nodiscard]] const MulticastView& view() const { return view_; }

 private:
  explicit Multicast(DeviceRuntime& runtime) : runtime_(runtime) {}

  DeviceRuntime& runtime_;
  MulticastTeam* team_ = nullptr;
  MulticastView view_;
  bool may_be_used_ = false;
};

}  // namespace weft
