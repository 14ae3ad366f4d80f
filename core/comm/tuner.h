// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The tuner of one communicator: a plugin's answers as judgements of the planner, and what all
// ranks must have alike for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plugin/tuner_plugin.h"
#include "core/schedule/cost_source.h"
#include "core/schedule/planner.h"
#include "core/topology/topology.h"

namespace weft {

/// By what a rank plans; travels when ranks join. `plugin` is empty where there is no tuner.
struct TunerNotice {
  std::string plugin;
  TunerTable table;
  /// Why the rank cannot use the tuner that its configuration names; empty where it can.
  std::string unusable;
  /// Why the rank has no tuner though its configuration names none; empty where it has one, or is
  /// not to have any.
  std::string missing;
};

[[nodiscard]] std::vector<std::byte> encode_notice(const TunerNotice& notice);
/// Texts of at most 4 KiB; what is longer of `unusable` and `missing` is cut by encode_notice.
[[nodiscard]] Result<TunerNotice> decode_notice(std::span<const std::byte> bytes);
/// Whether all ranks plan, and alike; names the rank that cannot, or both ranks, what they plan by,
/// and both hashes.
[[nodiscard]] Status check_tuners(std::span<const TunerNotice> notices);

/// What a tuner is told of its communicator.
struct TunerScene {
  const Topology& topology;
  const PlanLimits& limits;
  std::uint64_t communicator = 0;  ///< The same number on all of its ranks.
};

/// Threads: one at a time. The plugin outlives it.
class Tuner final : public CostSource {
 public:
  static Result<std::unique_ptr<Tuner>> open(const Plugin& plugin, const TunerScene& scene);
  ~Tuner() override;

  Result<std::vector<Judgement>> judge(const Task& task, std::span<const Offer> offers) override;
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] TunerNotice notice() const {
    return {.plugin = plugin_.id(), .table = table_, .unusable = {}, .missing = {}};
  }

 private:
  Tuner(TunerPlugin plugin, weft_tuner* tuner, const TunerScene& scene);

  TunerPlugin plugin_;
  weft_tuner* tuner_;
  TunerTable table_;
  std::uint32_t ranks_;
  std::uint32_t max_channels_;
};

}  // namespace weft
