// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/launcher.h"

namespace weft {
namespace {

// Also what a person sets by hand.
constexpr Launcher kWeftRun{
    .name = "weft run",
    .rank = "WEFT_RANK",
    .world_size = "WEFT_WORLD_SIZE",
    .local_rank = "WEFT_LOCAL_RANK",
    .local_size = {},
    .host_count = {},
    .root_host = {},
    .job = {},
    .root_hint =
        "start the program by: weft run -n N -- PROGRAM; by hand, give every rank "
        "WEFT_ROOT=HOST_OF_RANK_0:PORT",
    .secret_hint =
        "start the program by: weft run -n N -- PROGRAM; by hand, give every rank the "
        "same WEFT_SECRET, made once by: openssl rand -hex 32",
    .start_hint = "start the program by: weft run -n N -- PROGRAM, or by torchrun, mpirun or srun",
};

// Variables: "Environment Variables" of https://docs.pytorch.org/docs/stable/elastic/run.html.
// MASTER_ADDR is the host of rank 0. MASTER_PORT is not ours: torchrun or rank 0's process group
// listens there; but it differs between jobs of one host.
constexpr Launcher kTorchrun{
    .name = "torchrun",
    .rank = "RANK",
    .world_size = "WORLD_SIZE",
    .local_rank = "LOCAL_RANK",
    .local_size = "LOCAL_WORLD_SIZE",
    .host_count = {},
    .root_host = "MASTER_ADDR",
    .job = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"},
    .root_hint = "export WEFT_ROOT=HOST_OF_RANK_0:PORT, the same on every host, before torchrun",
    .secret_hint =
        "export WEFT_SECRET=$(openssl rand -hex 32), the same value on every host, "
        "before torchrun",
    .start_hint = "start the program by torchrun",
};

// The same variables from another hand: what torch.distributed reads with init_method env://
// (https://docs.pytorch.org/docs/stable/distributed.html, "Environment variable initialization").
constexpr Launcher kTorchVariables{
    .name = "RANK and WORLD_SIZE",
    .rank = "RANK",
    .world_size = "WORLD_SIZE",
    .local_rank = "LOCAL_RANK",
    .local_size = "LOCAL_WORLD_SIZE",
    .host_count = {},
    .root_host = "MASTER_ADDR",
    .job = {"MASTER_PORT"},
    .root_hint = "give every rank WEFT_ROOT=HOST_OF_RANK_0:PORT, or MASTER_ADDR=HOST_OF_RANK_0",
    .secret_hint = "give every rank the same WEFT_SECRET, made once by: openssl rand -hex 32",
    .start_hint = "give every rank RANK and WORLD_SIZE",
};

// Variables: "Environment variables set for MPI applications" of
// https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html; the same in version 4. The
// namespace is PMIx' name of one run of mpirun. It says nothing of rank 0's host: mpirun itself may
// run elsewhere.
constexpr Launcher kOpenMpi{
    .name = "Open MPI",
    .rank = "OMPI_COMM_WORLD_RANK",
    .world_size = "OMPI_COMM_WORLD_SIZE",
    .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
    .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
    .host_count = {},
    .root_host = {},
    .job = {"PMIX_NAMESPACE"},
    .root_hint =
        "mpirun -x WEFT_ROOT=HOST_OF_RANK_0:PORT -x WEFT_SECRET ..., or carry a unique id "
        "by MPI_Bcast",
    .secret_hint = "export WEFT_SECRET=$(openssl rand -hex 32), then: mpirun -x WEFT_SECRET ...",
    .start_hint = "start the program by: mpirun -n N PROGRAM",
};

// Variables: "OUTPUT ENVIRONMENT VARIABLES" of srun(1), https://slurm.schedmd.com/srun.html. Those
// of the step are set by srun alone; SLURM_PROCID and SLURM_NTASKS stand in batch scripts, too,
// where there is one process. Rank 0 runs on the step's first node unless the distribution is
// arbitrary.
constexpr Launcher kSlurm{
    .name = "Slurm",
    .rank = "SLURM_PROCID",
    .world_size = "SLURM_STEP_NUM_TASKS",
    .local_rank = "SLURM_LOCALID",
    .local_size = {},
    .host_count = "SLURM_STEP_NUM_NODES",
    .root_host = "SLURM_STEP_NODELIST",
    .first_of_list = true,
    .job = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
    .root_hint = "srun --export=ALL,WEFT_ROOT=HOST_OF_RANK_0:PORT ...",
    .secret_hint = "export WEFT_SECRET=$(openssl rand -hex 32) before srun, which hands it on",
    .start_hint = "in a batch script or an allocation, start the program by: srun PROGRAM",
};

// MPICH's Hydra (mpiexec), Intel MPI and others: PMI_RANK and PMI_SIZE, as
// https://github.com/pmodels/mpich/blob/main/doc/wiki/pmi/PMI-1.1_wire_protocol.md has them; the
// other two come from Hydra alone.
constexpr Launcher kPmi{
    .name = "PMI",
    .rank = "PMI_RANK",
    .world_size = "PMI_SIZE",
    .local_rank = "MPI_LOCALRANKID",
    .local_size = "MPI_LOCALNRANKS",
    .host_count = {},
    .root_host = {},
    .job = {"PMI_JOBID"},
    .root_hint =
        "mpiexec -genv WEFT_ROOT HOST_OF_RANK_0:PORT ..., or carry a unique id by "
        "MPI_Bcast",
    .secret_hint = "export WEFT_SECRET=$(openssl rand -hex 32) before mpiexec, which hands it on",
    .start_hint = "start the program by: mpiexec -n N PROGRAM",
};

// A process of PMIx knows its rank and its namespace by the environment (PMIx Standard,
// "Environmental variables", https://pmix.github.io/standard); all else it would have to ask the
// PMIx library.
constexpr Launcher kPmix{
    .name = "PMIx",
    .rank = "PMIX_RANK",
    .world_size = "WEFT_WORLD_SIZE",
    .local_rank = {},
    .local_size = {},
    .host_count = {},
    .root_host = {},
    .job = {"PMIX_NAMESPACE"},
    .root_hint = "give every rank WEFT_ROOT=HOST_OF_RANK_0:PORT",
    .secret_hint = "give every rank the same WEFT_SECRET, made once by: openssl rand -hex 32",
    .start_hint =
        "the environment of PMIx does not tell how many ranks there are: give every rank "
        "WEFT_WORLD_SIZE",
};

std::string_view text_of(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

// srun can also speak PMI-2 or PMIx to its tasks: those name their job after Slurm's step. A PMI
// inside a Slurm job that is not srun's (mpiexec in a batch script) does not.
bool pmi_is_of_slurm(const EnvironmentMap& environment) {
  const std::string_view job = text_of(environment, "SLURM_JOB_ID");
  const std::string_view step = text_of(environment, "SLURM_STEP_ID");
  if (job.empty() || step.empty() || text_of(environment, kSlurm.rank).empty()) return false;
  std::string name(job);
  name += '.';
  name += step;
  return text_of(environment, "PMI_JOBID") == name ||
         text_of(environment, "PMIX_NAMESPACE") == "slurm.pmix." + name;
}

}  // namespace

// Launchers start one another, and what the outer one told is still there: mpirun in a batch job of
// Slurm starts its daemons by srun, srun starts a torchrun on each node. So first what nobody wraps
// around others, last what most are wrapped into. Rules on one host give the same answer on all.
const Launcher& find_launcher(const EnvironmentMap& environment) {
  // An empty variable counts as unset, as all of them do.
  const auto has = [&](std::string_view name) { return !text_of(environment, name).empty(); };
  if (has(kWeftRun.rank)) return kWeftRun;
  if (has("TORCHELASTIC_RUN_ID") && has(kTorchrun.rank)) return kTorchrun;
  if (has(kOpenMpi.rank)) return kOpenMpi;
  if (pmi_is_of_slurm(environment)) return kSlurm;
  if (has(kPmi.rank)) return kPmi;
  if (has(kPmix.rank)) return kPmix;
  // Common words: only both together mean something.
  if (has(kTorchVariables.rank) && has(kTorchVariables.world_size)) return kTorchVariables;
  if (has(kSlurm.rank)) return kSlurm;
  return kWeftRun;
}

}  // namespace weft
