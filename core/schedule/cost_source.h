// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Who knows better than the built-in costs what the ways of doing a call would take.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/operation.h"

namespace weft {

/// A way in which a call could be done.
struct Offer {
  Algorithm algorithm = Algorithm::kRing;
  Protocol protocol = Protocol::kSimple;
  double predicted_us = 0;         ///< By the built-in costs.
  std::uint32_t max_channels = 1;  ///< 1 up to so many can be had.
  friend bool operator==(const Offer&, const Offer&) = default;
};

/// What is said of an offer.
struct Judgement {
  std::optional<double> us;    ///< Greater than 0; nullopt: no opinion.
  bool never = false;          ///< It is not to be used, as long as another way is left.
  std::uint32_t channels = 0;  ///< Within the offer; 0: no opinion.
  std::string note{};          ///< For people: why.
};

/// Threads: asked by one at a time.
class CostSource {
 public:
  CostSource() = default;
  CostSource(const CostSource&) = delete;
  CostSource& operator=(const CostSource&) = delete;
  virtual ~CostSource() = default;

  /// A judgement on each offer, in their order. The same task and offers must get the same answer
  /// on every rank: plans depend on it.
  virtual Result<std::vector<Judgement>> judge(const Task& task, std::span<const Offer> offers) = 0;
  /// For the reason of a plan: "cluster-a.tune.yaml".
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace weft
