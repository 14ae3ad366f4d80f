// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Processes with the recorded environments of launchers meet and add, or say what they lack.

#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/fd.h"
#include "core/bootstrap/job_environment.h"
#include "tests/integration/launchers/ranks.h"
#include "tests/support/launcher_fixture.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

/// The recorded environments of all ranks, with `more` on top.
std::vector<Environment> recorded(const std::string& name, const Environment& more) {
  std::vector<Environment> ranks;
  for (const auto& variables : launcher_fixture(LAUNCHER_FIXTURES, name)) {
    Environment& rank = ranks.emplace_back(variables.begin(), variables.end());
    for (const auto& [variable, value] : more)
      rank[variable] = value;
  }
  return ranks;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// A port of 127.0.0.1 that nobody else gets as long as this lives; ranks of this user can.
class Port {
 public:
  Port() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    (void)setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    if (bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::system_error(errno, std::generic_category(), "no port");
    number_ = ntohs(address.sin_port);
  }
  [[nodiscard]] std::string root() const { return "127.0.0.1:" + std::to_string(number_); }

 private:
  UniqueFd fd_;
  std::uint16_t number_ = 0;
};

TEST(Recorded, OneHostNeedsASecretAlone) {
  for (const char* name : {"torchrun", "open-mpi", "slurm", "slurm-pmix", "pmi-hydra"}) {
    SCOPED_TRACE(name);
    expect_right_sums(start_ranks(recorded(name, {{"WEFT_SECRET", kSecret}})));
  }
}

// Names of nodes give way to addresses of this host.
TEST(Recorded, SeveralHostsMeetAtTheOneThatTheLauncherNames) {
  for (const auto& [name, variable, value] : {
           std::tuple("slurm-two-nodes", "SLURM_STEP_NODELIST", "127.0.0.[1,3]"),
           std::tuple("slurm-pmi2", "SLURM_STEP_NODELIST", "127.0.0.[1-2]"),
           std::tuple("torchrun-in-slurm", "MASTER_ADDR", "127.0.0.1"),
       }) {
    SCOPED_TRACE(name);
    expect_right_sums(start_ranks(recorded(name, {{"WEFT_SECRET", kSecret}, {variable, value}})));
  }
}

TEST(Recorded, OthersMeetAtWeftRoot) {
  const Port port;
  Environment more{{"WEFT_SECRET", kSecret}, {"WEFT_ROOT", port.root()}};
  for (const char* name :
       {"open-mpi-in-slurm", "pmi-hydra-in-slurm", "slurm-two-nodes", "torchrun-in-slurm"}) {
    SCOPED_TRACE(name);
    expect_right_sums(start_ranks(recorded(name, more)));
  }
  more["WEFT_WORLD_SIZE"] = "2";
  expect_right_sums(start_ranks(recorded("pmix", more)));
}

TEST(Recorded, WithoutAMeetingPlaceEveryRankSaysSoAtOnce) {
  for (const char* name : {"open-mpi-in-slurm", "pmi-hydra-in-slurm"}) {
    SCOPED_TRACE(name);
    for (const auto& rank : start_ranks(recorded(name, {{"WEFT_SECRET", kSecret}}))) {
      const Outcome outcome = rank->wait();
      EXPECT_EQ(outcome.exit_status, 1);
      EXPECT_THAT(outcome.err, HasSubstr("WEFT_ERROR_CONFIG: the environment variable WEFT_ROOT is "
                                         "not set (the rank comes from "));
    }
  }
}

TEST(Recorded, ANodeThatNobodyKnowsIsNamedWithItsVariable) {
  const auto ranks = start_ranks(
      recorded("slurm-two-nodes",
               {{"WEFT_SECRET", kSecret}, {"SLURM_STEP_NODELIST", "no-such-node[1-2].invalid"}}));
  for (const auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.exit_status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("cannot find the address of \"no-such-node1.invalid\" "
                                       "(SLURM_STEP_NODELIST): "));
    EXPECT_THAT(outcome.err, HasSubstr("write a numeric address into WEFT_ROOT"));
  }
}

// Two steps of one batch script, which exports one secret: the second comes and goes while the
// first still waits for a rank.
TEST(Recorded, JobsAtOnceMayShareASecret) {
  auto environments = recorded("slurm", {{"WEFT_SECRET", kSecret}});
  const Environment late = environments.back();
  environments.pop_back();
  auto first = start_ranks(environments);
  expect_right_sums(
      start_ranks(recorded("slurm", {{"WEFT_SECRET", kSecret}, {"SLURM_STEP_ID", "1"}})));
  first.push_back(std::move(start_ranks({late}).front()));
  expect_right_sums(first);
}

/// Holds the port that rank 0 would serve at; nothing if another program does.
UniqueFd take_port_of(const Environment& environment) {
  EnvironmentMap variables;
  for (const auto& [name, value] : environment)
    variables[name] = *value;
  const auto job = read_job_environment(variables);
  EXPECT_TRUE(job) << job.error().to_string();
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = loopback(job->root_port);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), 1) != 0)
    fd.reset();
  return fd;
}

TEST(Recorded, ATakenPortIsNamedWithAWayOut) {
  auto ranks = recorded("slurm", {{"WEFT_TIMEOUTS_BOOTSTRAP", "500ms"}});
  ranks.resize(1);
  UniqueFd taken;
  for (char digit = '0'; digit <= '9' && !taken; ++digit) {
    ranks[0]["WEFT_SECRET"] = std::string(64, digit);
    taken = take_port_of(ranks[0]);
  }
  ASSERT_TRUE(taken) << "others hold all of ten ports";
  const Outcome outcome = start_ranks(ranks)[0]->wait();
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot listen at 127.0.0.1:"));
  EXPECT_THAT(outcome.err, HasSubstr("Address already in use"));
  EXPECT_THAT(outcome.err, HasSubstr("the port follows from WEFT_SECRET, "
                                     "WEFT_ROOT=HOST_OF_RANK_0:PORT sets another"));
}

}  // namespace
}  // namespace weft::test
