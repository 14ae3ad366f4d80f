// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that a real mpirun of Open MPI starts.

#include <string>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/launchers/ranks.h"
#include "tests/support/sanitized.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

class Mpirun : public testing::Test {
 protected:
  void SetUp() override {
    std::string version;
    try {
      version =
          weft::test::run({.arguments = {"mpirun", "--version"}, .environment = {}, .input = {}})
              .out;
    } catch (const std::system_error&) {
      GTEST_SKIP() << "there is no mpirun (Debian's package openmpi-bin)";
    }
    if (version.find("Open MPI") == std::string::npos) {
      GTEST_SKIP() << "mpirun is not Open MPI's";
    }
  }

  // Its sessions leave files, and on a machine of tests it may have to start more ranks than there
  // are processors, as root.
  Command mpirun(int ranks, std::vector<std::string> words, Environment more = {}) {
    Command command{.arguments = {"mpirun", "--oversubscribe", "-n", std::to_string(ranks)},
                    .environment = std::move(more),
                    .input = {}};
    command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    command.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    command.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
    command.environment["TMPDIR"] = sessions_.path();
    return command;
  }

 private:
  ScratchFolder sessions_;
};

void expect_all_sums(const Outcome& outcome, std::size_t ranks) {
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    EXPECT_THAT(outcome.out, HasSubstr(right_sums(rank, ranks)));
}

TEST_F(Mpirun, StartsRanksThatMeet) {
  Process job(mpirun(4, {EXAMPLE}, {{"WEFT_SECRET", kSecret}}));
  expect_all_sums(job.wait(), 4);
  EXPECT_TRUE(job.wait_for_relatives().empty());
}

TEST_F(Mpirun, HandsOnWhatMinusXNames) {
  expect_all_sums(
      weft::test::run(mpirun(3, {"-x", "WEFT_SECRET", EXAMPLE}, {{"WEFT_SECRET", kSecret}})), 3);
}

TEST_F(Mpirun, WithoutASecretSaysWhichVariableToSet) {
  const Outcome outcome = weft::test::run(mpirun(2, {EXAMPLE}));
  EXPECT_NE(outcome.exit_status, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("the environment variable WEFT_SECRET is not set (the rank comes from Open "
                        "MPI, by OMPI_COMM_WORLD_RANK); try: export WEFT_SECRET="));
}

// A variable of the user's does not make mpirun's ranks those of another launcher, nor do those of
// a cluster's shell.
TEST_F(Mpirun, CountsInsideOfOthers) {
  expect_all_sums(weft::test::run(mpirun(2, {EXAMPLE},
                                         {{"WEFT_SECRET", kSecret},
                                          {"RANK", "0"},
                                          {"WORLD_SIZE", "1"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_NTASKS", "8"}})),
                  2);
}

// Each of mpirun's processes is a job of its own then.
TEST_F(Mpirun, StartsJobsOfWeftRun) {
  const Outcome outcome =
      weft::test::run(mpirun(2, {WEFT_COMMAND, "run", "-n", "3", "--no-prefix", "--", EXAMPLE}));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string line = right_sums(rank, 3);
    const std::size_t first = outcome.out.find(line);
    ASSERT_NE(first, std::string::npos) << outcome.describe();
    EXPECT_NE(outcome.out.find(line, first + 1), std::string::npos) << outcome.describe();
  }
}

TEST_F(Mpirun, BenchmarksItsRanks) {
  const Outcome outcome =
      weft::test::run(mpirun(2, {WEFT_COMMAND, "bench", "all_reduce", "--max", "8", "--check"},
                             {{"WEFT_SECRET", kSecret}}));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(outcome.out, HasSubstr("# Out of bounds values : 0 OK"));
}

TEST_F(Mpirun, CarriesAUniqueId) {
#ifdef MPI_EXAMPLE
  if (kSanitized) GTEST_SKIP() << "a program with a sanitizer cannot use an MPI without";
  expect_all_sums(weft::test::run(mpirun(4, {MPI_EXAMPLE})), 4);
#else
  GTEST_SKIP() << "this build found no MPI to compile with (Debian's package libopenmpi-dev)";
#endif
}

}  // namespace
}  // namespace weft::test
