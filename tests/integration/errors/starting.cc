// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that lack what a launcher tells, that do not come, or come twice.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

/// A rank alone, which joins by its environment.
void add_environment(Scenarios& all, std::string name, std::string message,
                     Environment environment) {
  all.push_back({.name = std::move(name),
                 .messages = {std::move(message)},
                 .play = [environment = std::move(environment)](std::vector<Said>& said) {
                   Rank rank(environment);
                   said.push_back(said_in(rank.ask("join env")));
                 }});
}

Environment by_hand(const Environment& more) {
  Environment all{{"WEFT_RANK", "0"},
                  {"WEFT_WORLD_SIZE", "2"},
                  {"WEFT_ROOT", "127.0.0.1:29500"},
                  {"WEFT_SECRET", std::string(64, '7')}};
  for (const auto& [name, value] : more)
    all[name] = value;
  return all;
}

/// A rank that mpirun started on this host.
Environment of_mpirun(int rank, const Environment& more = {}) {
  Environment all{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                  {"OMPI_COMM_WORLD_SIZE", "2"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                  {"PMIX_NAMESPACE", "errors-" + std::to_string(getpid())},
                  {"WEFT_SECRET", std::string(64, 'e')},
                  {"WEFT_TIMEOUTS_BOOTSTRAP", "1s"}};
  for (const auto& [name, value] : more)
    all[name] = value;
  return all;
}

void add_variables(Scenarios& all) {
  add_environment(all, "NoRank", "the environment variable <name> is not set", {});
  add_environment(
      all, "NoSecret",
      "the environment variable <name> is not set (the rank comes from <launcher>, by <name>)",
      of_mpirun(0, {{"WEFT_SECRET", std::nullopt}}));
  add_environment(all, "NoNumber",
                  "the environment variable <name> is \"<text>\", which is no number from <least> "
                  "to <most>",
                  by_hand({{"WEFT_RANK", "first"}}));
  add_environment(all, "RankBeyondSize",
                  "the environment variable <name> is <rank>, but <name> is <size>",
                  by_hand({{"WEFT_RANK", "2"}}));
  add_environment(all, "NoHostAndPort",
                  "the environment variable WEFT_ROOT is \"<text>\", which is no HOST:PORT",
                  by_hand({{"WEFT_ROOT", "node1"}}));
  add_environment(all, "NoSecretDigits",
                  "the environment variable WEFT_SECRET is not made of 64 hexadecimal digits",
                  by_hand({{"WEFT_SECRET", "sesame"}}));
  add_environment(all, "NoAddress", "cannot find the address of \"<host>\" (<variable>): <why>",
                  by_hand({{"WEFT_ROOT", "no-such-host.invalid:29500"}}));
  const auto slurm = [](const Environment& more) {
    Environment environment{{"SLURM_PROCID", "0"},
                            {"SLURM_STEP_NUM_TASKS", "2"},
                            {"SLURM_STEP_NUM_NODES", "2"},
                            {"SLURM_STEP_NODELIST", "n[1-2]"},
                            {"SLURM_JOB_ID", "1"},
                            {"SLURM_STEP_ID", "0"},
                            {"WEFT_SECRET", std::string(64, '7')}};
    for (const auto& [name, value] : more)
      environment[name] = value;
    return environment;
  };
  add_environment(all, "NodesInAnyOrder",
                  "the environment variable WEFT_ROOT is not set, and as SLURM_DISTRIBUTION is "
                  "\"arbitrary\", nothing tells the host of rank 0",
                  slurm({{"SLURM_DISTRIBUTION", "arbitrary"}}));
  add_environment(all, "NoNodes",
                  "the environment variable <name> is \"<text>\", which is no list of nodes",
                  slurm({{"SLURM_STEP_NODELIST", "n[1-"}}));
}

/// Listens at a port of 127.0.0.1 that others then cannot get; 0 is any.
class TakenPort {
 public:
  explicit TakenPort(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    static_cast<void>(setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (bind(fd_, raw, size) != 0 || listen(fd_, 1) != 0 || getsockname(fd_, raw, &size) != 0) {
      throw std::system_error(errno, std::generic_category(), "no port");
    }
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(fd_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

// Rank 1 alone tells the port, which somebody takes before rank 0 comes.
void play_ports(std::vector<Said>& said) {
  Rank second(of_mpirun(1));
  said.push_back(said_in(second.ask("join env")));
  const std::string& text = said.back().text;
  const std::string at = "127.0.0.1:";
  const auto colon = text.find(at);
  ASSERT_NE(colon, std::string::npos) << text;
  const TakenPort derived(static_cast<std::uint16_t>(std::stoul(text.substr(colon + at.size()))));
  Rank first(of_mpirun(0));
  said.push_back(said_in(first.ask("join env")));
  const TakenPort given(0);
  Rank other(by_hand(
      {{"WEFT_ROOT", at + std::to_string(given.port())}, {"WEFT_TIMEOUTS_BOOTSTRAP", "1s"}}));
  said.push_back(said_in(other.ask("join env")));
}

std::string id_of(Rank& rank) {
  const std::string answer = rank.ask("id");
  EXPECT_TRUE(answer.starts_with("id: ok ")) << answer;
  return answer.substr(std::min<std::size_t>(answer.size(), 7));
}

/// Two ranks of three, which have certainly come: with that_tells_arrivals().
std::string two_of_three_come(Job& job) {
  const std::string id = id_of(job[0]);
  job[0].tell("join " + id + " 3 0");
  job[1].tell("join " + id + " 3 1");
  await_arrivals(job[0], 2);
  return id;
}

void add_lives(Scenarios& all) {
  all.push_back(
      {.name = "RankThatDoesNotCome",
       .messages = {"<ranks> of <ranks> did not come within <time> (<ranks> here)",
                    "rendezvous still waits: <ranks> of <ranks> did not come within "
                    "<time> (<ranks> here)"},
       .play = [](std::vector<Said>& said) {
         Job job(1, {{"WEFT_TIMEOUTS_BOOTSTRAP", "1500ms"}, {"WEFT_TIMEOUTS_REPORT", "500ms"}});
         const std::string id = id_of(job[0]);
         said.push_back(said_in(job[0].ask("join " + id + " 2 0")));
         said.push_back({.code = {}, .text = job[0].process().err()});
       }});
  all.push_back({.name = "TwoOfOneRank",
                 .messages = {"two processes claim rank <rank> of <ranks>: pid <pid> on <host> and "
                              "pid <pid> on <host>"},
                 .play = [](std::vector<Said>& said) {
                   Job job(3);
                   const std::string id = id_of(job[0]);
                   for (const int rank : {0, 1, 2})
                     job[rank].tell("join " + id + " 3 " + (rank == 0 ? "0" : "1"));
                   for (const int rank : {0, 1, 2})
                     said.push_back(said_in(job[rank].answer()));
                 }});
  all.push_back({.name = "RanksThatCountDifferently",
                 .messages = {"ranks disagree on their number: <rank> says <ranks>, <rank> says "
                              "<ranks>"},
                 .play = [](std::vector<Said>& said) {
                   Job job(2);
                   const std::string id = id_of(job[0]);
                   job[0].tell("join " + id + " 2 0");
                   job[1].tell("join " + id + " 3 1");
                   said.push_back(said_in(job[0].answer()));
                   said.push_back(said_in(job[1].answer()));
                 }});
  all.push_back({.name = "RankThatDiesWhileOthersComeTogether",
                 .messages = {"<rank> died while the ranks were coming together: its connection "
                              "was closed"},
                 .play = [](std::vector<Said>& said) {
                   Job job(2, that_tells_arrivals());
                   static_cast<void>(two_of_three_come(job));
                   job.bury(1);
                   said.push_back(said_in(job[0].answer()));
                 }});
  all.push_back({.name = "RootThatDies",
                 .messages = {"the rendezvous at <address> died: its connection was closed"},
                 .play = [](std::vector<Said>& said) {
                   Job job(2, that_tells_arrivals());
                   static_cast<void>(two_of_three_come(job));
                   job.bury(0);
                   said.push_back(said_in(job[0].answer()));
                 }});
  all.push_back({.name = "RootThatGivesUp",
                 .messages = {"the rendezvous was given up before every rank came"},
                 .play = [](std::vector<Said>& said) {
                   Job job(2, that_tells_arrivals());
                   const std::string id = id_of(job[0]);
                   job[1].tell("join " + id + " 2 1");
                   await_arrivals(job[0], 1);
                   // Its context takes the rendezvous along.
                   EXPECT_TRUE(job[0].ask("leave").starts_with("leave: ok"));
                   said.push_back(said_in(job[1].answer()));
                 }});
  const auto with_id = [&all](std::string name, std::string message, auto spoil,
                              std::string ranks_and_rank) {
    all.push_back({.name = std::move(name),
                   .messages = {std::move(message)},
                   .play = [spoil, ranks_and_rank](std::vector<Said>& said) {
                     Rank rank;
                     std::string id = id_of(rank);
                     spoil(id);
                     said.push_back(said_in(rank.ask("join " + id + " " + ranks_and_rank)));
                   }});
  };
  with_id(
      "NoUniqueId", "this is no unique id: <why>",
      [](std::string& id) { id = std::string(256, '0'); }, "2 0");
  with_id(
      "IdOfAnotherVersion",
      "the unique id has version <version>, this library knows version <version>",
      [](std::string& id) { id.replace(8, 2, "63"); }, "2 0");
  with_id(
      "RankThatIsNone", "rank <rank> of <ranks>: ranks count from 0", [](const std::string&) {},
      "2 2");
  with_id(
      "TooManyRanks", "<number> ranks are more than the <number> that are possible",
      [](const std::string&) {}, "4000000000 0");
}

}  // namespace

void add_starting(Scenarios& all) {
  add_variables(all);
  all.push_back(
      {.name = "PortsThatAreTaken",
       .messages = {"rank <rank> of <ranks> cannot reach the rendezvous at <address> within <time>",
                    "the port follows from WEFT_SECRET, WEFT_ROOT=HOST_OF_RANK_0:PORT sets "
                    "another: cannot listen at <address> (errno <number>, <text>)",
                    "cannot listen at <address> (errno <number>, <text>)"},
       .play = play_ports});
  add_lives(all);
  all.push_back({.name = "NoDescriptorsLeft",
                 .messages = {"... (errno 24, Too many open files)"},
                 .play = [](std::vector<Said>& said) {
                   if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors itself";
                   Rank rank;
                   EXPECT_EQ(rank.ask("limit nofile 0"), "limit: ok");
                   said.push_back(said_in(rank.ask("id")));
                 }});
  all.push_back(
      {.name = "NoThreadsLeft",
       .messages = {"cannot start a thread for a rank of the group (errno <number>, <text>)"},
       .play = [](std::vector<Said>& said) {
         if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory does not fit into such limits";
         Rank rank;
         static_cast<void>(id_of(rank));  // its context is there
         EXPECT_EQ(rank.ask("limit memory 40000000"),
                   "limit: ok");  // stacks take 8 MiB each
         said.push_back(said_in(rank.ask("threads 32 all_reduce 1 0")));
       }});
}

}  // namespace weft::test
