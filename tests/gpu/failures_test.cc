// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Kernels that spin for a peer that never comes: they leave, in time, and with the right cause. And
// ranks whose calls differ.
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"

namespace weft::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kSoon = 5s;         // for everyone to know
constexpr auto kSpinning = 300ms;  // by then a kernel spins

struct End {
  weft_result result = WEFT_OK;
  std::string text;
};

/// Enqueues `work` and waits for the stream, on a thread of its own.
std::future<End> spin(Member& member, const Team::Action& work) {
  return std::async(std::launch::async, [&member, work]() -> End {
    try {
      use_device(member.device);
      work(member);
      check(weft_stream_synchronize(member.stream), "weft_stream_synchronize");
    } catch (const Problem& problem) {
      return {problem.code, problem.what()};
    }
    return {};
  });
}

/// The end, within kSoon. If it does not come, the watchdog ends the program.
End end_of(std::future<End>& waiting) {
  EXPECT_EQ(waiting.wait_for(kSoon), std::future_status::ready) << "the stream still waits";
  return waiting.get();
}

/// What a member's communicator says, once it is no more OK.
weft_result error_of(const Member& member) {
  const Clock::time_point deadline = Clock::now() + kSoon;
  weft_result error = WEFT_OK;
  while (error == WEFT_OK && Clock::now() < deadline) {
    check(weft_comm_get_async_error(member.comm, &error), "weft_comm_get_async_error");
    std::this_thread::sleep_for(1ms);
  }
  return error;
}

/// Device memory for calls whose results are of no interest.
class Scratch {
 public:
  explicit Scratch(Team& team) {
    for (const Member& member : team.members()) {
      zones_.push_back(std::make_unique<Zone>(member.device, kCount * 4, 0));
      zones_.back()->write({}, 0, member.cuda);
    }
  }
  void all_reduce(const Member& member, std::size_t count = kCount,
                  weft_data_type type = WEFT_FLOAT32, weft_reduction reduction = WEFT_SUM) {
    std::byte* buffer = zones_[member.rank]->data();
    check(weft_all_reduce(buffer, buffer, count, type, reduction, member.comm, member.stream),
          "weft_all_reduce");
  }
  /// `at`: bytes of the buffer before what is reduced.
  void all_reduce_at(const Member& member, std::size_t count, std::size_t at) {
    std::byte* buffer = zones_[member.rank]->data() + at;
    check(
        weft_all_reduce(buffer, buffer, count, WEFT_FLOAT32, WEFT_SUM, member.comm, member.stream),
        "weft_all_reduce");
  }
  void broadcast(const Member& member, std::size_t count, std::uint32_t root) {
    std::byte* buffer = zones_[member.rank]->data();
    check(weft_broadcast(buffer, buffer, count, WEFT_FLOAT32, root, member.comm, member.stream),
          "weft_broadcast");
  }

  /// `at`: bytes of the buffer before the output.
  void all_gather(const Member& member, std::size_t count, std::size_t at = 0) {
    check(weft_all_gather(input(member), zones_[member.rank]->data() + at, count, WEFT_FLOAT32,
                          member.comm, member.stream),
          "weft_all_gather");
  }
  /// The first quarter of each buffer.
  void register_windows(Team& team) {
    team.issue([&](Member& member) {
      weft_window* window = nullptr;
      check(weft_window_register(member.comm, zones_[member.rank]->data(), kWindow, &window),
            "weft_window_register");
    });
  }
  void all_to_all(const Member& member, std::size_t count, weft_data_type type = WEFT_FLOAT32) {
    check(weft_all_to_all(input(member), zones_[member.rank]->data(), count, type, member.comm,
                          member.stream),
          "weft_all_to_all");
  }
  void reduce_scatter(const Member& member, std::size_t count, weft_reduction reduction) {
    check(weft_reduce_scatter(input(member), zones_[member.rank]->data(), count, WEFT_FLOAT32,
                              reduction, member.comm, member.stream),
          "weft_reduce_scatter");
  }
  /// The operation that the command line names, where all wait for all; else all-reduce.
  void wait_for_all(const Member& member, std::size_t count = kCount) {
    const Operation operation = options().operation.value_or(Operation::kAllReduce);
    const std::size_t block = std::max<std::size_t>(count / 2 / zones_.size(), 1);
    if (operation == Operation::kAllGather) return all_gather(member, block);
    if (operation == Operation::kReduceScatter) return reduce_scatter(member, block, WEFT_SUM);
    if (operation == Operation::kAllToAll) return all_to_all(member, block);
    all_reduce(member, count);
  }
  /// Blocks of `count`, that of rank 0 one longer by `more`.
  void all_gather_v(const Member& member, std::size_t count, std::size_t more) {
    std::vector<std::size_t> counts(zones_.size(), count);
    counts[0] += more;
    std::vector<std::size_t> offsets(zones_.size());
    for (std::size_t i = 0; i < offsets.size(); ++i)
      offsets[i] = i * (count + 1000);
    check(weft_all_gather_v(input(member), zones_[member.rank]->data(), counts.data(),
                            offsets.data(), WEFT_FLOAT32, member.comm, member.stream),
          "weft_all_gather_v");
  }
  void send_or_recv(const Member& member, std::size_t count) {
    if (member.rank != 0) return recv_from(member, 0, count);
    send_to(member, 1, count);
  }
  void send_to(const Member& member, std::uint32_t peer, std::size_t count = kCount) {
    check(weft_send(zones_[member.rank]->data(), count, WEFT_FLOAT32, peer, member.comm,
                    member.stream),
          "weft_send");
  }
  void recv_from(const Member& member, std::uint32_t peer, std::size_t count = kCount) {
    check(weft_recv(zones_[member.rank]->data(), count, WEFT_FLOAT32, peer, member.comm,
                    member.stream),
          "weft_recv");
  }

  static constexpr std::size_t kCount = 100000;
  static constexpr std::size_t kWindow = kCount;

 private:
  /// Apart from what the calls receive.
  [[nodiscard]] std::byte* input(const Member& member) const {
    return zones_[member.rank]->data() + kCount / 2 * 4;
  }

  std::vector<std::unique_ptr<Zone>> zones_;
};

class AbortTest : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }
  void TearDown() override {
    if (IsSkipped()) return;
    // Whatever has happened to the last one.
    Team next(Mode::kThreads, GetParam());
    Trial(next, {.type = kInt32, .count = 65537}).run(options().seed);
  }
};

void abort_while_spinning(const Team::Action& work, Team& team, Scratch& scratch) {
  std::vector<Member>& members = team.members();
  std::future<End> waiting = spin(members[0], work);
  ASSERT_EQ(waiting.wait_for(kSpinning), std::future_status::timeout)
      << "the call ended without its peers: " << waiting.get().text;
  check(weft_comm_abort(members[0].comm), "weft_comm_abort");
  const End end = end_of(waiting);
  EXPECT_EQ(end.result, WEFT_ERROR_ABORTED) << end.text;
  EXPECT_EQ(error_of(members[0]), WEFT_ERROR_ABORTED);
  for (std::size_t i = 1; i < members.size(); ++i) {
    EXPECT_EQ(error_of(members[i]), WEFT_ERROR_PEER);
    try {
      scratch.all_reduce(members[i]);
      ADD_FAILURE() << "rank " << i << " calls on as if nothing were";
    } catch (const Problem& problem) {
      EXPECT_EQ(problem.code, WEFT_ERROR_PEER);
      EXPECT_NE(std::string(problem.what()).find("rank 0"), std::string::npos) << problem.what();
    }
  }
}

TEST_P(AbortTest, WhileItsFirstCallSpins) {
  Team team(Mode::kThreads, GetParam());
  Scratch scratch(team);
  abort_while_spinning([&](Member& member) { scratch.wait_for_all(member); }, team, scratch);
}

TEST_P(AbortTest, WhileManyCallsAreQueued) {
  Team team(Mode::kThreads, GetParam());
  Scratch scratch(team);
  Trial(team, {.type = kFloat32, .count = 4093}).run(options().seed);
  abort_while_spinning(
      [&](Member& member) {
        for (std::size_t i = 0; i < 100; ++i)
          scratch.wait_for_all(member, 1 + i * 1000);
      },
      team, scratch);
}

TEST_P(AbortTest, WhileAReplaySpins) {
  Team team(Mode::kThreads, GetParam());
  Scratch scratch(team);
  Graphs graphs(team, [&](Member& member) { scratch.wait_for_all(member); });
  abort_while_spinning([&](Member& member) { graphs.launch(member); }, team, scratch);
}

TEST_P(AbortTest, ByTheRankThatNeverCalls) {
  Team team(Mode::kThreads, GetParam());
  Scratch scratch(team);
  std::vector<Member>& members = team.members();
  std::vector<std::future<End>> waiting;
  for (std::size_t i = 0; i + 1 < members.size(); ++i)
    waiting.push_back(spin(members[i], [&](Member& member) { scratch.wait_for_all(member); }));
  std::this_thread::sleep_for(kSpinning);
  check(weft_comm_abort(members.back().comm), "weft_comm_abort");
  const std::string culprit = "rank " + std::to_string(members.size() - 1);
  for (std::future<End>& each : waiting) {
    const End end = end_of(each);
    EXPECT_EQ(end.result, WEFT_ERROR_PEER) << end.text;
    EXPECT_NE(end.text.find(culprit), std::string::npos) << end.text;
  }
}

// Kernels wait before what the copy engines are given, copies and reductions.
TEST_P(AbortTest, OfCallsThroughAWindow) {
  SKIP_ON_HOST();
  for (const char* const from : {"windows.copy_from", "windows.reduce_from"}) {
    SCOPED_TRACE(from);
    Team team(Mode::kThreads, GetParam(), {{from, "1"}});
    Scratch scratch(team);
    scratch.register_windows(team);
    const bool copies = std::string_view(from) == "windows.copy_from";
    abort_while_spinning(
        [&](Member& member) {
          copies ? scratch.all_gather(member, 1000) : scratch.all_reduce(member, 10000);
        },
        team, scratch);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, AbortTest, testing::ValuesIn(kPairs), layout_name<Layout>);

// ---- ranks whose calls differ ----

class MismatchTest : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }

  /// Rank 0 calls `first`, all others `second`: each learns it, and both calls.
  static void differ(const std::function<void(Member&, Scratch&)>& first,
                     const std::function<void(Member&, Scratch&)>& second,
                     const std::vector<std::string>& words) {
    Team team(Mode::kThreads, GetParam());
    Scratch scratch(team);
    differ(team, scratch, first, second, words);
  }
  static void differ(Team& team, Scratch& scratch,
                     const std::function<void(Member&, Scratch&)>& first,
                     const std::function<void(Member&, Scratch&)>& second,
                     const std::vector<std::string>& words) {
    std::vector<std::future<End>> waiting;
    for (Member& member : team.members()) {
      waiting.push_back(
          spin(member, [&](Member& self) { (self.rank == 0 ? first : second)(self, scratch); }));
    }
    const Clock::time_point deadline = Clock::now() + kSoon;
    bool hangs = false;
    for (const std::future<End>& each : waiting)
      hangs |= each.wait_until(deadline) != std::future_status::ready;
    EXPECT_FALSE(hangs) << "still waiting after 5 s";
    if (hangs) Team::abort_all();
    for (std::size_t rank = 0; rank < waiting.size(); ++rank) {
      const End end = end_of(waiting[rank]);
      EXPECT_EQ(end.result, WEFT_ERROR_MISMATCH) << "rank " << rank << ": " << end.text;
      EXPECT_NE(end.text.find("rank 0 called"), std::string::npos) << end.text;
      for (const std::string& word : words)
        EXPECT_NE(end.text.find(word), std::string::npos) << word << " in: " << end.text;
    }
  }
};

TEST_P(MismatchTest, Counts) {
  differ([](Member& member, Scratch& scratch) { scratch.all_reduce(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.all_reduce(member, 2000); },
         {"all_reduce"});
}
TEST_P(MismatchTest, LargeCounts) {
  differ([](Member& member, Scratch& scratch) { scratch.all_reduce(member, 100000); },
         [](Member& member, Scratch& scratch) { scratch.all_reduce(member, 99999); },
         {"all_reduce"});
}
// One of them may be done by another algorithm.
TEST_P(MismatchTest, SmallAndLargeCounts) {
  differ([](Member& member, Scratch& scratch) { scratch.all_reduce(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.all_reduce(member, 100000); },
         {"all_reduce"});
}
TEST_P(MismatchTest, Types) {
  differ([](Member& member, Scratch& scratch) { scratch.all_reduce(member, 1000, WEFT_FLOAT32); },
         [](Member& member, Scratch& scratch) { scratch.all_reduce(member, 1000, WEFT_INT32); },
         {"float32", "int32"});
}
TEST_P(MismatchTest, Reductions) {
  differ([](Member& member,
            Scratch& scratch) { scratch.all_reduce(member, 1000, WEFT_INT32, WEFT_SUM); },
         [](Member& member, Scratch& scratch) {
           scratch.all_reduce(member, 1000, WEFT_INT32, WEFT_MAX);
         },
         {"sum", "max"});
}
TEST_P(MismatchTest, Operations) {
  differ([](Member& member, Scratch& scratch) { scratch.all_reduce(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.broadcast(member, 1000, 0); },
         {"all_reduce", "broadcast"});
}
TEST_P(MismatchTest, Roots) {
  differ([](Member& member, Scratch& scratch) { scratch.broadcast(member, 1000, 1); },
         [](Member& member, Scratch& scratch) { scratch.broadcast(member, 1000, 0); },
         {"broadcast"});
}

TEST_P(MismatchTest, CountsOfReduceScatter) {
  differ([](Member& member, Scratch& scratch) { scratch.reduce_scatter(member, 1000, WEFT_SUM); },
         [](Member& member, Scratch& scratch) { scratch.reduce_scatter(member, 2000, WEFT_SUM); },
         {"reduce_scatter of"});
}
TEST_P(MismatchTest, CountsOfBlocks) {
  // Of a kernel's peer no more is known than its tag.
  differ([](Member& member, Scratch& scratch) { scratch.all_gather(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.all_gather(member, 2000); },
         {"all_gather of", options().host ? "2000 float32" : "another number"});
}
TEST_P(MismatchTest, OperationsOfOtherKinds) {
  differ([](Member& member, Scratch& scratch) { scratch.all_to_all(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.all_gather(member, 1000); },
         {"all_to_all", "all_gather"});
}
TEST_P(MismatchTest, CountsOfAllToAll) {
  differ([](Member& member, Scratch& scratch) { scratch.all_to_all(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.all_to_all(member, 999); }, {"all_to_all"});
}
TEST_P(MismatchTest, TypesOfAllToAll) {
  differ([](Member& member, Scratch& scratch) { scratch.all_to_all(member, 1000); },
         [](Member& member, Scratch& scratch) { scratch.all_to_all(member, 1000, WEFT_INT32); },
         {"float32", "int32"});
}
TEST_P(MismatchTest, ReductionsOfReduceScatter) {
  differ([](Member& member, Scratch& scratch) { scratch.reduce_scatter(member, 1000, WEFT_SUM); },
         [](Member& member, Scratch& scratch) { scratch.reduce_scatter(member, 1000, WEFT_AVG); },
         {"reduce_scatter", "sum", "avg"});
}
TEST_P(MismatchTest, Tables) {
  differ([](Member& member, Scratch& scratch) { scratch.all_gather_v(member, 1000, 0); },
         [](Member& member, Scratch& scratch) { scratch.all_gather_v(member, 1000, 1); },
         {"all_gather_v"});
}
// By one way all goes to all others, by the other a part to each: each rank waits for more than
// another sends.
TEST_P(MismatchTest, WaysByWideLines) {
  SKIP_ON_HOST();
  if (device_count() < 2) GTEST_SKIP() << "one device alone cannot tell what joins it to others";
  const auto by = [](weft_call_algorithm algorithm, std::size_t count) {
    return [algorithm, count](Member& member, Scratch& scratch) {
      const weft_call_options way{.struct_size = sizeof(way),
                                  .algorithm = algorithm,
                                  .protocol = WEFT_CALL_PROTOCOL_LL128,
                                  .max_channels = 0};
      check(weft_comm_set_call_options(member.comm, &way), "weft_comm_set_call_options");
      scratch.all_reduce(member, count);
    };
  };
  differ(by(WEFT_CALL_ALGORITHM_DIRECT, 2000), by(WEFT_CALL_ALGORITHM_TWO_SHOT, 2001),
         {"all_reduce"});
}
// Outputs lie in the window, but elsewhere, or not in it.
TEST_P(MismatchTest, PlacesInAWindow) {
  SKIP_ON_HOST();
  Team team(Mode::kThreads, GetParam(), {{"windows.copy_from", "1"}});
  Scratch scratch(team);
  scratch.register_windows(team);
  differ(
      team, scratch, [](Member& member, Scratch& scratch) { scratch.all_gather(member, 1000); },
      [](Member& member, Scratch& scratch) { scratch.all_gather(member, 1000, 4); },
      {"all_gather of", "window"});
}
TEST_P(MismatchTest, PlacesOfReductionsInAWindow) {
  SKIP_ON_HOST();
  Team team(Mode::kThreads, GetParam(), {{"windows.reduce_from", "1"}});
  Scratch scratch(team);
  scratch.register_windows(team);
  differ(
      team, scratch,
      [](Member& member, Scratch& scratch) { scratch.all_reduce_at(member, 1000, 0); },
      [](Member& member, Scratch& scratch) { scratch.all_reduce_at(member, 1000, 4); },
      {"all_reduce of", "window"});
}
TEST_P(MismatchTest, InAWindowAndInNone) {
  SKIP_ON_HOST();
  Team team(Mode::kThreads, GetParam(), {{"windows.copy_from", "1"}});
  Scratch scratch(team);
  scratch.register_windows(team);
  differ(
      team, scratch, [](Member& member, Scratch& scratch) { scratch.all_gather(member, 1000); },
      [](Member& member, Scratch& scratch) { scratch.all_gather(member, 1000, Scratch::kWindow); },
      {"all_gather of", "window"});
}
// Whoever sends may have done so, and be told later: one of the two learns it, and nobody hangs.
TEST_P(MismatchTest, SendsAndReceives) {
  Team team(Mode::kThreads, GetParam());
  Scratch scratch(team);
  std::vector<std::future<End>> waiting;
  for (const std::size_t rank : {0U, 1U}) {
    waiting.push_back(spin(team.members()[rank], [&, rank](Member& self) {
      scratch.send_or_recv(self, rank == 0 ? 1000 : 2000);
    }));
  }
  std::string found;
  for (std::future<End>& each : waiting) {
    if (each.wait_for(kSoon) != std::future_status::ready) {
      ADD_FAILURE() << "still waiting after 5 s";
      Team::abort_all();
    }
    const End end = each.get();
    if (end.result == WEFT_ERROR_MISMATCH) found = end.text;
  }
  EXPECT_NE(found.find("send of"), std::string::npos) << found;
  EXPECT_NE(found.find("recv of"), std::string::npos) << found;
}

INSTANTIATE_TEST_SUITE_P(Gpu, MismatchTest, testing::ValuesIn(kPairs), layout_name<Layout>);

// ---- ranks that wait for long ----

class LongWaits : public testing::TestWithParam<LayoutAndTransport> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(layout()); }

  static const Layout& layout() { return std::get<0>(GetParam()); }
  static const std::string& transport() { return std::get<1>(GetParam()); }
  static Settings settings(const Settings& more) {
    Settings all = settings_of(transport());
    all.emplace_back("timeouts.operation", "1s");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Rank 0 alone does it.
  static void time_out(const Settings& more, const std::function<void(Member&, Scratch&)>& work) {
    Team team(Mode::kThreads, layout(), settings(more));
    Scratch scratch(team);
    std::future<End> waiting =
        spin(team.members()[0], [&](Member& member) { work(member, scratch); });
    if (waiting.wait_for(kLimitSeen) != std::future_status::ready) {
      ADD_FAILURE() << "the limit was not seen";
      Team::abort_all();
    }
    const End end = waiting.get();
    EXPECT_EQ(end.result, WEFT_ERROR_TIMEOUT) << end.text;
    EXPECT_NE(end.text.find("rank 0 of"), std::string::npos) << end.text;
  }

  static constexpr auto kLimitSeen = 10s;
};

// In what each kind of kernel waits.
TEST_P(LongWaits, ForOthersEndAtTheLimit) {
  for (const std::size_t count : {std::size_t{100}, Scratch::kCount})
    time_out({}, [count](Member& member, Scratch& scratch) { scratch.all_reduce(member, count); });
  time_out({{"collectives.all_reduce.algorithm", "ring"}},
           [](Member& member, Scratch& scratch) { scratch.all_reduce(member); });
  time_out({}, [](Member& member, Scratch& scratch) { scratch.all_gather(member, 10000); });
  time_out({}, [](Member& member, Scratch& scratch) { scratch.recv_from(member, 1); });
}

/// Of the default transports.
class PartnersThatLeft : public LongWaits {};

// Nobody can end such a wait: no limit is needed for it to be an error.
TEST_P(PartnersThatLeft, EndWaitsForThem) {
  Team team(Mode::kThreads, layout(), settings_of(transport()));
  Scratch scratch(team);
  for (Member& member : team.members()) {
    if (member.rank == 0) scratch.recv_from(member, 1);
    if (member.rank == 1) scratch.send_to(member, 0);
  }
  team.synchronize();
  check(weft_comm_destroy(std::exchange(team.members()[1].comm, nullptr)), "weft_comm_destroy");
  std::future<End> waiting =
      spin(team.members()[0], [&](Member& member) { scratch.recv_from(member, 1); });
  if (waiting.wait_for(kLimitSeen) != std::future_status::ready) {
    ADD_FAILURE() << "still waiting after 10 s";
    Team::abort_all();
  }
  const End end = waiting.get();
  EXPECT_EQ(end.result, WEFT_ERROR_PEER) << end.text;
  EXPECT_NE(end.text.find("from rank 1, but rank 1 has left the communicator"), std::string::npos)
      << end.text;
}

// Calls over a net are not captured.
class LongReplays : public LongWaits {};

// One rank comes half a second late to each of them, which together is more than the limit.
TEST_P(LongReplays, AreNotOneWait) {
  constexpr int kReplays = 5;
  for (const std::size_t count : {std::size_t{100}, Scratch::kCount}) {
    Team team(Mode::kThreads, layout(), settings({}));
    Scratch scratch(team);
    Graphs graphs(team, [&](Member& member) { scratch.all_reduce(member, count); });
    team.each([&](Member& member) {
      for (int replay = 0; replay < kReplays; ++replay) {
        if (member.rank == 1) std::this_thread::sleep_for(500ms);
        graphs.launch(member);
        check(weft_stream_synchronize(member.stream), "weft_stream_synchronize");
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, PartnersThatLeft,
                         testing::Combine(testing::ValuesIn(kPairs), testing::Values("p2p", "shm")),
                         layout_and_transport_name);
INSTANTIATE_TEST_SUITE_P(Gpu, LongReplays,
                         testing::Combine(testing::ValuesIn(kPairs), testing::Values("p2p", "shm")),
                         layout_and_transport_name);
INSTANTIATE_TEST_SUITE_P(Gpu, LongWaits,
                         testing::Combine(testing::ValuesIn(kPairs),
                                          testing::Values("p2p", "shm", "net")),
                         layout_and_transport_name);

}  // namespace
}  // namespace weft::gpu_test
