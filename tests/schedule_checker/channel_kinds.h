// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which channels of a plan do the same at different places: where one is executed, the others need
// not be.
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/plan.h"
#include "tests/schedule_checker/report.h"

namespace weft::checker {

/// Channels of which each other one of the plan is an image.
struct ChannelKinds {
  std::vector<std::uint32_t> first;    ///< Of each kind, ascending.
  std::vector<std::uint32_t> members;  ///< By kind: how many channels it has.
};

/// Each its own kind.
[[nodiscard]] ChannelKinds all_channels(const Plan& plan);

/// Channels are of one kind if they have as many elements, chunks of one size and the ranks in the
/// same places. For the blocks that such a plan has, all of one length, that is all that a kernel
/// is told but for connections, which no two channels share, and where its part begins. What the
/// plan makes of two channels of a kind for each rank is compared, and reported where it differs.
[[nodiscard]] ChannelKinds kinds_of_channels(const Plan& plan, Report& report);

/// Reports where the channels leave out an element, or two have the same one.
void check_cut(const Plan& plan, Report& report);

}  // namespace weft::checker
