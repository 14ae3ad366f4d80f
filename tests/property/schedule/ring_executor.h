// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Carries out one channel of a plan on paper: every rank does what a ring kernel does, step by
// step, over connections with a fixed number of slots; elements are sets of the ranks whose input
// went into them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/plan.h"

namespace weft::test {

struct ExecutionResult {
  std::string failure;                  ///< Empty: every rank ended with the right result.
  std::vector<std::uint64_t> sent;      ///< Steps by rank.
  std::vector<std::uint64_t> received;  ///< Steps by rank.
};

/// `slots` is how many steps a connection holds; plan.steps is what the plan is made for.
[[nodiscard]] ExecutionResult execute(const Plan& plan, std::size_t channel, std::uint32_t slots);

}  // namespace weft::test
