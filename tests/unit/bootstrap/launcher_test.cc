// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The launchers that Weft knows, by recorded environments: who counts where several left variables,
// what each tells, and which variable is to be set where it tells too little.

#include "core/bootstrap/launcher.h"

#include <string>

#include <gtest/gtest.h>

#include "core/bootstrap/job_environment.h"
#include "core/bootstrap/node_list.h"
#include "tests/support/launcher_fixture.h"

namespace weft {
namespace {

const std::string kSecret(64, '5');

test::LauncherFixture fixture(const std::string& name) {
  return test::launcher_fixture(LAUNCHER_FIXTURES, name);
}

std::string complaint_of(const EnvironmentMap& environment) {
  const auto job = read_job_environment(environment);
  if (job) return "no error";
  EXPECT_EQ(job.error().code(), WEFT_ERROR_CONFIG);
  return job.error().to_string();
}

struct Expected {
  const char* fixture;
  const char* launcher;
  int world_size;
  const char* local_ranks;  ///< A digit a rank; "-" where the launcher does not tell.
  const char* root_host;    ///< Without WEFT_ROOT; "" where the launcher does not tell.
};

constexpr Expected kExpected[] = {
    {"torchrun", "torchrun", 4, "0123", "127.0.0.1"},
    {"torchrun-in-slurm", "torchrun", 4, "0101", "node01"},
    {"open-mpi", "Open MPI", 4, "0123", "127.0.0.1"},
    {"open-mpi-in-slurm", "Open MPI", 4, "0120", ""},
    {"slurm", "Slurm", 4, "0123", "127.0.0.1"},
    {"slurm-two-nodes", "Slurm", 2, "00", "node01"},
    {"slurm-pmi2", "Slurm", 4, "0120", "node01"},
    {"slurm-pmix", "Slurm", 2, "01", "127.0.0.1"},
    {"pmi-hydra", "PMI", 4, "0123", "127.0.0.1"},
    {"pmi-hydra-in-slurm", "PMI", 4, "0120", ""},
};

TEST(Launcher, EachIsRecognizedByItsRecordedEnvironment) {
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.fixture);
    const auto ranks = fixture(expected.fixture);
    ASSERT_EQ(static_cast<int>(ranks.size()), expected.world_size);
    Secret common{};
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      SCOPED_TRACE(rank);
      EnvironmentMap environment = ranks[rank];
      environment["WEFT_SECRET"] = kSecret;
      environment["WEFT_ROOT"] = "10.0.0.1:29500";
      auto job = read_job_environment(environment);
      ASSERT_TRUE(job) << job.error().to_string();
      EXPECT_EQ(job->launcher, expected.launcher);
      EXPECT_EQ(job->rank, static_cast<int>(rank));
      EXPECT_EQ(job->world_size, expected.world_size);
      EXPECT_EQ(job->local_rank, expected.local_ranks[rank] - '0');
      EXPECT_EQ(job->root_host, "10.0.0.1");
      EXPECT_EQ(job->root_port, 29500);
      EXPECT_FALSE(job->derived_port);
      if (rank == 0) common = job->secret;
      EXPECT_EQ(job->secret, common) << "ranks of one job must agree";
      environment.erase("WEFT_ROOT");
      job = read_job_environment(environment);
      if (*expected.root_host == '\0') {
        EXPECT_FALSE(job);
        continue;
      }
      ASSERT_TRUE(job) << job.error().to_string();
      EXPECT_EQ(job->root_host, expected.root_host);
      EXPECT_TRUE(job->derived_port);
      EXPECT_GE(job->root_port, 61000);
      EXPECT_EQ(job->secret, common);
    }
  }
}

TEST(Launcher, RanksOfOneJobDeriveOnePortAndOthersAnother) {
  auto ranks = fixture("slurm");
  for (auto& rank : ranks)
    rank["WEFT_SECRET"] = kSecret;
  const auto first = read_job_environment(ranks[0]);
  ASSERT_TRUE(first);
  EXPECT_EQ(read_job_environment(ranks[3])->root_port, first->root_port);
  // The next step of the same job, with the same secret in its script.
  ranks[0]["SLURM_STEP_ID"] = "1";
  EXPECT_NE(read_job_environment(ranks[0])->secret, first->secret);
  EXPECT_NE(read_job_environment(ranks[0])->root_port, first->root_port);
  ranks[1]["WEFT_SECRET"] = std::string(64, '6');
  EXPECT_NE(read_job_environment(ranks[1])->root_port, first->root_port);
}

// Files of services and containers can set a variable to nothing, but hardly take it away.
TEST(Launcher, AnEmptyVariableCountsAsUnset) {
  for (const char* name : {"torchrun", "open-mpi", "slurm", "pmi-hydra"}) {
    EnvironmentMap environment = fixture(name)[1];
    const std::string_view launcher = find_launcher(environment).name;
    environment["WEFT_RANK"] = "";
    EXPECT_EQ(find_launcher(environment).name, launcher) << name;
    environment["WEFT_RANK"] = "1";
    EXPECT_EQ(find_launcher(environment).name, "weft run") << name;
  }
}

// Who does not tell a meeting place says which variable to set, on every rank; nobody tells a
// secret.
TEST(Launcher, ErrorsNameWhatToSetAndHow) {
  EnvironmentMap environment = fixture("open-mpi-in-slurm")[3];
  environment["WEFT_SECRET"] = kSecret;
  EXPECT_EQ(complaint_of(environment),
            "the environment variable WEFT_ROOT is not set (the rank comes from Open MPI, by "
            "OMPI_COMM_WORLD_RANK); try: mpirun -x WEFT_ROOT=HOST_OF_RANK_0:PORT -x WEFT_SECRET "
            "..., or carry a unique id by MPI_Bcast");
  environment = fixture("pmi-hydra-in-slurm")[0];
  environment["WEFT_SECRET"] = kSecret;
  EXPECT_EQ(complaint_of(environment),
            "the environment variable WEFT_ROOT is not set (the rank comes from PMI, by PMI_RANK); "
            "try: mpiexec -genv WEFT_ROOT HOST_OF_RANK_0:PORT ..., or carry a unique id by "
            "MPI_Bcast");
  for (const auto& [name, hint] : {
           std::pair("torchrun",
                     "export WEFT_SECRET=$(openssl rand -hex 32), the same value on "
                     "every host, before torchrun"),
           std::pair("open-mpi",
                     "export WEFT_SECRET=$(openssl rand -hex 32), then: mpirun -x WEFT_SECRET ..."),
           std::pair("slurm",
                     "export WEFT_SECRET=$(openssl rand -hex 32) before srun, which hands "
                     "it on"),
           std::pair("pmi-hydra",
                     "export WEFT_SECRET=$(openssl rand -hex 32) before mpiexec, which "
                     "hands it on"),
       }) {
    SCOPED_TRACE(name);
    for (const EnvironmentMap& rank : fixture(name)) {
      const std::string text = complaint_of(rank);
      EXPECT_TRUE(
          text.starts_with("the environment variable WEFT_SECRET is not set (the rank "
                           "comes from "))
          << text;
      EXPECT_TRUE(text.ends_with(std::string("; try: ") + hint)) << text;
    }
  }
  EXPECT_EQ(complaint_of({}),
            "the environment variable WEFT_RANK is not set; try: start the program by: weft run -n "
            "N -- PROGRAM, or by torchrun, mpirun or srun");
}

TEST(Launcher, PmixTellsNoNumberOfRanks) {
  EnvironmentMap environment = fixture("pmix")[1];
  environment["WEFT_SECRET"] = kSecret;
  EXPECT_EQ(complaint_of(environment),
            "the environment variable WEFT_WORLD_SIZE is not set (the rank comes from PMIx, by "
            "PMIX_RANK); try: the environment of PMIx does not tell how many ranks there are: give "
            "every rank WEFT_WORLD_SIZE");
  environment["WEFT_WORLD_SIZE"] = "2";
  EXPECT_TRUE(
      complaint_of(environment).starts_with("the environment variable WEFT_ROOT is not set"));
  environment["WEFT_ROOT"] = "10.0.0.1:29500";
  const auto job = read_job_environment(environment);
  ASSERT_TRUE(job) << job.error().to_string();
  EXPECT_EQ(job->launcher, "PMIx");
  EXPECT_EQ(job->rank, 1);
  EXPECT_EQ(job->local_rank, std::nullopt);
}

TEST(Launcher, ABatchScriptIsNoRank) {
  EnvironmentMap environment = fixture("slurm-batch-script")[0];
  environment["WEFT_SECRET"] = kSecret;
  EXPECT_EQ(complaint_of(environment),
            "the environment variable SLURM_STEP_NUM_TASKS is not set (the rank comes from Slurm, "
            "by SLURM_PROCID); try: in a batch script or an allocation, start the program by: srun "
            "PROGRAM");
}

TEST(Launcher, BadValuesAreNamed) {
  for (const auto& [name, variable] : {
           std::pair("torchrun", "RANK"),
           std::pair("torchrun", "WORLD_SIZE"),
           std::pair("torchrun", "LOCAL_RANK"),
           std::pair("torchrun", "LOCAL_WORLD_SIZE"),
           std::pair("open-mpi", "OMPI_COMM_WORLD_LOCAL_SIZE"),
           std::pair("slurm", "SLURM_PROCID"),
           std::pair("slurm", "SLURM_STEP_NUM_NODES"),
           std::pair("pmi-hydra", "MPI_LOCALRANKID"),
       }) {
    for (const char* value : {"-1", "x", "1 ", "70000", "99999999999999999999"}) {
      EnvironmentMap environment = fixture(name)[0];
      environment["WEFT_SECRET"] = kSecret;
      environment[variable] = value;
      EXPECT_TRUE(complaint_of(environment)
                      .starts_with("the environment variable " + std::string(variable) + " is \"" +
                                   value + "\", which is no number from "))
          << complaint_of(environment);
    }
  }
  EnvironmentMap environment = fixture("slurm-two-nodes")[1];
  environment["WEFT_SECRET"] = kSecret;
  environment["SLURM_STEP_NODELIST"] = "node[";
  EXPECT_TRUE(
      complaint_of(environment)
          .starts_with("the environment variable SLURM_STEP_NODELIST is \"node[\", which is "
                       "no list of nodes; try: srun --export=ALL,WEFT_ROOT="));
  environment = fixture("torchrun-in-slurm")[1];
  environment["WEFT_SECRET"] = kSecret;
  environment["MASTER_ADDR"] = std::string(254, 'a');
  EXPECT_TRUE(
      complaint_of(environment).starts_with("the environment variable MASTER_ADDR is \"aaa"));
}

// An arbitrary distribution may put rank 0 on any node.
TEST(Launcher, AnArbitraryDistributionNeedsARoot) {
  EnvironmentMap environment = fixture("slurm-two-nodes")[0];
  environment["WEFT_SECRET"] = kSecret;
  environment["SLURM_DISTRIBUTION"] = "arbitrary";
  EXPECT_TRUE(complaint_of(environment)
                  .starts_with("the environment variable WEFT_ROOT is not set, and as "
                               "SLURM_DISTRIBUTION is \"arbitrary\""));
  environment["WEFT_ROOT"] = "node03:29500";
  EXPECT_TRUE(read_job_environment(environment));
}

TEST(Launcher, AnOnlyRankNeedsNeitherRootNorSecret) {
  const auto job =
      read_job_environment({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  ASSERT_TRUE(job) << job.error().to_string();
  EXPECT_EQ(job->world_size, 1);
  EXPECT_TRUE(unique_id_of(*job, 0));
}

// RANK is a common word; both words together, and no other launcher: a hand-made job.
TEST(Launcher, RankAndWorldSizeByHand) {
  EnvironmentMap environment{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fd00::1"}, {"WEFT_SECRET", kSecret}};
  const auto job = read_job_environment(environment);
  ASSERT_TRUE(job) << job.error().to_string();
  EXPECT_EQ(job->rank, 1);
  EXPECT_EQ(job->root_host, "fd00::1");
  EXPECT_EQ(job->root_source, "MASTER_ADDR");
  // Within a launcher of which we know more, it is that one's.
  EnvironmentMap nested = fixture("open-mpi")[2];
  nested.insert(environment.begin(), environment.end());
  EXPECT_EQ(read_job_environment(nested)->launcher, "Open MPI");
  nested = fixture("slurm")[2];
  nested["RANK"] = "7";
  EXPECT_EQ(find_launcher(nested).name, "Slurm");
  // A batch script that starts ranks itself: Slurm knows of one process only.
  nested = fixture("slurm-batch-script")[0];
  nested.insert(environment.begin(), environment.end());
  EXPECT_EQ(read_job_environment(nested)->rank, 1);
  // WEFT_RANK is how to overrule all of them.
  nested["WEFT_RANK"] = "0";
  EXPECT_EQ(find_launcher(nested).name, "weft run");
}

TEST(NodeList, FirstNode) {
  const std::pair<const char*, const char*> lists[] = {
      {"node02", "node02"},
      {"node[01-02]", "node01"},
      {"node[01,03]", "node01"},
      {"login,node[1-3]", "login"},
      {"n[007]-ib.cluster.example,x", "n007-ib.cluster.example"},
      {"rack[0-1]n[2-4]", "rack0n2"},
      {"a_b-1", "a_b-1"},
      {"10.0.0.[1-2]", "10.0.0.1"},
  };
  for (const auto& [list, first] : lists)
    EXPECT_EQ(first_node(list), first) << list;
  for (const char* list : {"", ",a", "[", "node[", "node[]", "node[x]", "node[1x]", "node[-1]",
                           "node[1;2]", "no de", "-rf", ".a", "a/b", "a]b", "(null)", "a[[1]]"}) {
    EXPECT_EQ(first_node(list), std::nullopt) << list;
  }
  EXPECT_EQ(first_node(std::string(253, 'a')), std::string(253, 'a'));
  EXPECT_EQ(first_node(std::string(254, 'a')), std::nullopt);
  EXPECT_EQ(first_node("a[" + std::string(300, '1') + "]"), std::nullopt);
}

}  // namespace
}  // namespace weft
