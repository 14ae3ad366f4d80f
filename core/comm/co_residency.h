// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How ranks share what their kernels run on while they wait for each other. On a GPU all of them
// must fit at once, or those that run wait for ever for those that cannot begin; processors are
// shared by turns.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "core/topology/topology.h"

namespace weft {

/// How many groups each rank's kernels may have of its device, alike for all ranks; 0: any number.
struct GroupShare {
  /// Of a rank that takes all that is its own. Two communicators do not fit then.
  std::uint32_t all = 0;
  /// Of a kernel that waits for other ranks: those of two communicators fit.
  std::uint32_t channels = 0;
  /// Of one beside which the next of its communicator may wait already, and takes room.
  std::uint32_t parts = 0;
};

/// `groups_at_once[r]` is what rank r's device runs at once (DeviceRuntime::groups_at_once).
/// Devices are told apart by their host, PCI address and id; one without an address counts as its
/// rank's alone. OUT_OF_RESOURCES where a device has more ranks than it runs groups.
[[nodiscard]] Result<GroupShare> groups_of_each_rank(const Topology& topology,
                                                     std::span<const std::uint32_t> groups_at_once);

/// Whether the device of `rank` is another rank's, too.
[[nodiscard]] bool shares_device(const Topology& topology, std::uint32_t rank);

/// How many of the processors that the ranks on the host of `rank` may keep busy each of them has,
/// were they divided evenly; 0 where there are more ranks, or nothing is known of processors.
[[nodiscard]] std::uint32_t processors_of_each(const Topology& topology, std::uint32_t rank);

/// How many ranks on the host of `rank` have each of these processors between them, were they
/// divided evenly, rounded up, at least 1; 1, too, where nothing is known of processors.
[[nodiscard]] std::uint32_t ranks_of_each_processor(const Topology& topology, std::uint32_t rank);

/// Ports to each net of a rank on a GPU, where the configuration names no number. Each has a
/// thread, which carries half of what a stream of TCP could where it moves messages both ways.
[[nodiscard]] std::uint32_t device_net_ports(const Topology& topology, std::uint32_t rank);

/// Over how many of these at once little is sent between ranks on GPUs that a net joins, alike on
/// all ranks, at least 1: ports beside each other are through with it sooner, but where ranks are
/// of one host more of all of them get in each other's way (docs/performance.md).
[[nodiscard]] std::uint32_t few_net_ports(const Topology& topology);

/// Over how many messages between inboxes go in stripes: as above, but no more than ports that do
/// not receive meanwhile.
[[nodiscard]] std::uint32_t net_stripes(const Topology& topology);

/// Whether each of the ranks on the host of `rank` can have `workers` of the processors that they
/// may keep busy for itself.
[[nodiscard]] bool have_own_processors(const Topology& topology, std::uint32_t rank,
                                       std::uint32_t workers);
/// The same of each of all ranks, so they all say alike.
[[nodiscard]] bool all_have_own_processors(const Topology& topology, std::uint32_t workers);

}  // namespace weft
