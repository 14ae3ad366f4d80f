// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Launchers as a table: by which environment variables each tells a process its rank, how many
// ranks there are, and where they can meet. A further launcher is one more entry here, one in the
// list of core/bootstrap/launcher.cc that says which one counts, and a recorded environment in
// tests/fixtures/launchers.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

namespace weft {

using EnvironmentMap = std::map<std::string, std::string, std::less<>>;

/// Names of variables; an empty one means that the launcher does not tell.
struct Launcher {
  std::string_view name;  ///< As people call it: "Open MPI".
  std::string_view rank;
  std::string_view world_size;
  std::string_view local_rank;
  /// How many ranks share this rank's host. As many as the world: nobody is elsewhere.
  std::string_view local_size;
  /// How many hosts there are.
  std::string_view host_count;
  /// The host of rank 0: a name, or with `first_of_list` a node list of Slurm.
  std::string_view root_host;
  bool first_of_list = false;
  /// Together they tell jobs apart that one user runs at once. The same on every rank.
  std::array<std::string_view, 3> job;
  /// What to try where WEFT_ROOT, WEFT_SECRET, or the rank or the number of ranks is missing.
  std::string_view root_hint;
  std::string_view secret_hint;
  std::string_view start_hint;
};

/// The launcher that started this process. Where several did, one inside another, the innermost:
/// see launcher.cc. `weft run` if there is none.
[[nodiscard]] const Launcher& find_launcher(const EnvironmentMap& environment);

}  // namespace weft
