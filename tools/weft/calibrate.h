// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From measured times to a table of costs, for `weft bench --calibrate`.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/operation.h"
#include "plugins/tuner/table.h"

namespace weft::tool {

/// An algorithm with a protocol, by the names of the configuration.
struct WayNames {
  std::string algorithm;
  std::string protocol;
};

/// Every pair that `collectives.<operation>` can be set to, whether or not it can be done.
[[nodiscard]] std::vector<WayNames> ways_to_try(Operation operation);

/// Rules that say of each sample's size about what was measured, as few as that takes: each is
/// `frame` with a range of sizes, a latency, a bandwidth and its samples. `samples` ascend by size.
/// Noise only adds, so a time that is longer than that of a larger size counts as the latter. The
/// first rule begins at 0, the last ends short of twice the largest size. Sizes are not 0.
[[nodiscard]] std::vector<tuner::Rule> fit(const tuner::Rule& frame,
                                           const std::vector<tuner::Sample>& samples);

/// `old` without what an earlier calibration of the same operation, device, ranks and hosts wrote,
/// then `fresh`. What was written by hand thus counts first.
[[nodiscard]] std::vector<tuner::Rule> merge_rules(std::vector<tuner::Rule> old,
                                                   const std::vector<tuner::Rule>& fresh);

/// The rules of a file; none where there is no such file. CONFIG, with the place, where it is no
/// table.
[[nodiscard]] Result<std::vector<tuner::Rule>> read_rules(const std::string& file);
/// Whether write_rules could make its file.
[[nodiscard]] Status check_writable(const std::string& file);
/// Replaces the file as a whole: whoever reads it sees the old rules or the new ones.
[[nodiscard]] Status write_rules(const std::string& file, const std::vector<tuner::Rule>& rules);

}  // namespace weft::tool
