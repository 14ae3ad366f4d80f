// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that try the cases of a world, through the public API.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft/weft.h>

#include "tests/property/api/cases.h"

namespace weft::test {

/// What went wrong, and with which cases: more than one where they were under way together.
class Failure : public std::runtime_error {
 public:
  Failure(std::vector<std::uint64_t> seeds, const std::string& text)
      : std::runtime_error(text), seeds_(std::move(seeds)) {}
  [[nodiscard]] const std::vector<std::uint64_t>& seeds() const { return seeds_; }

 private:
  std::vector<std::uint64_t> seeds_;
};

/// Tries the cases in the world, with a context of its tuning, all of whose ranks live in this
/// process. Throws Failure.
void try_cases(weft_context* context, const World& world, std::span<const Case> cases);

/// The same as the rank that the launcher's environment says. Answers a digest of the results that
/// must be the same on all ranks.
std::uint64_t try_cases_as_process(weft_context* context, const World& world,
                                   std::span<const Case> cases);

}  // namespace weft::test
