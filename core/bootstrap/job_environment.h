// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a launcher tells a process by environment variables: its rank, how many ranks there are, and
// where they meet. Reading it is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/bootstrap/launcher.h"
#include "core/bootstrap/unique_id.h"

namespace weft {

struct JobEnvironment {
  std::string launcher;  ///< Whose variables gave the rank: "weft run", "torchrun", "Open MPI".
  int rank = 0;
  int world_size = 1;
  std::optional<int> local_rank;  ///< Nothing where the launcher does not tell.
  std::string root_host;          ///< A numeric address or a host name.
  std::uint16_t root_port = 0;
  std::string root_source;    ///< What the root was read from: "WEFT_ROOT", "MASTER_ADDR".
  bool derived_port = false;  ///< The port follows from the secret; WEFT_ROOT would say another.
  Secret secret{};
};

/// The environment of this process. Not while another thread changes it.
[[nodiscard]] EnvironmentMap current_environment();

/// Reads rank, number of ranks and local rank as the launcher gives them (launcher.h), where ranks
/// meet, and the secret. Errors are CONFIG and name the variable to set or to correct.
///
/// Where they meet: WEFT_ROOT (HOST:PORT or [V6]:PORT). Without it 127.0.0.1 if the launcher tells
/// that all ranks are on one host, else the host of rank 0 if it tells that one; the port, from
/// 61000 on, then follows from the secret and the job.
///
/// The secret: WEFT_SECRET, 64 hexadecimal digits. It has no default, since all that launchers tell
/// of a job others can read or guess; an only rank needs none. Where the launcher names the job,
/// the job's secret is made of both: jobs that run at once may share a WEFT_SECRET.
[[nodiscard]] Result<JobEnvironment> read_job_environment(const EnvironmentMap& environment);

/// The unique id of the `instance`-th communicator that this job makes from its environment: each
/// has a secret of its own, all share the root's port. Resolves a host name, which may block.
[[nodiscard]] Result<UniqueId> unique_id_of(const JobEnvironment& job, std::uint64_t instance);

/// A secret as WEFT_SECRET carries it.
[[nodiscard]] std::string secret_to_hex(const Secret& secret);

}  // namespace weft
