// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a launcher tells a process by environment variables: its rank, how many ranks there are, and
// where they meet. Reading it is pure; other launchers are one more line in a table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/bootstrap/unique_id.h"

namespace weft {

using EnvironmentMap = std::map<std::string, std::string, std::less<>>;

struct JobEnvironment {
  std::string launcher;  ///< Whose variables gave the rank: "weft run", "torchrun", "Open MPI".
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string root_host;  ///< A numeric address or a host name.
  std::uint16_t root_port = 0;
  Secret secret{};
};

/// The environment of this process. Not while another thread changes it.
[[nodiscard]] EnvironmentMap current_environment();

/// Reads WEFT_RANK, WEFT_WORLD_SIZE and WEFT_LOCAL_RANK, or those of torchrun or Open MPI when
/// WEFT_RANK is not set, and WEFT_ROOT (HOST:PORT or [V6]:PORT; torchrun's MASTER_ADDR and
/// MASTER_PORT do not replace it, as torchrun holds that port itself) and WEFT_SECRET (64
/// hexadecimal digits). Errors name the variable.
[[nodiscard]] Result<JobEnvironment> read_job_environment(const EnvironmentMap& environment);

/// The unique id of the `instance`-th communicator that this job makes from its environment: each
/// has a secret of its own, all share the root's port. Resolves a host name, which may block.
[[nodiscard]] Result<UniqueId> unique_id_of(const JobEnvironment& job, std::uint64_t instance);

/// A secret as WEFT_SECRET carries it.
[[nodiscard]] std::string secret_to_hex(const Secret& secret);

}  // namespace weft
