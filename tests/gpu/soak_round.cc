// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_round.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/gpu/device.h"
#include "tests/gpu/graphs.h"

namespace weft::gpu_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kSoon = 20s;  // for a rank to learn of an abort; processes take turns on a device

/// Of each place one at a time, so that what the library keeps of each is soon all that it needs.
constexpr std::size_t kEach = 3;
const std::array<std::array<Settings, kEach>, 3>& settings() {
  static const std::array<std::array<Settings, kEach>, 3> kAll{{
      {{{},
        {{"buffers.direct", "1MiB"}},
        {{"collectives.all_reduce.algorithm", "ring"},
         {"collectives.all_reduce.protocol", "simple"},
         {"collectives.broadcast.algorithm", "ring"},
         {"collectives.broadcast.protocol", "simple"},
         {"collectives.reduce.algorithm", "ring"},
         {"collectives.reduce.protocol", "simple"},
         {"buffers.both_ends_from", "1"}}}},
      {{{}, {{"channels.max", "4"}}, {{"buffers.step", "16KiB"}}}},
      {{{{"collectives.all_reduce.algorithm", "two-shot"}},
        {{"transports.order", "shm"}},
        {{"transports.order", "net"}, {"transports.net", "net-socket"}}}},
  }};
  return kAll;
}
constexpr std::size_t kThroughHost = 2;  // the place of those that may go through the host

/// Waits until the member's communicator is no more OK, and answers why.
weft_result error_of(const Member& member) {
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  weft_result error = WEFT_OK;
  while (error == WEFT_OK && std::chrono::steady_clock::now() < deadline) {
    check(weft_comm_get_async_error(member.comm, &error), "weft_comm_get_async_error");
    if (error == WEFT_OK) std::this_thread::sleep_for(1ms);
  }
  return error;
}

/// Calls of the kind that every rank needs all others for.
std::vector<std::unique_ptr<Trial>> all_reduces(Team& team, Draws& draws) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::uint64_t i = draws.next(4) + 1; i > 0; --i) {
    const Call call{.type = kInt32,
                    .reduction = WEFT_MAX,
                    .count = 1 + draws.next(std::min<std::size_t>(options().largest / 4, 300000)),
                    .in_place = draws.one_in(2)};
    trials.push_back(std::make_unique<Trial>(team, call));
    trials.back()->prepare(draws.next(1000000));
  }
  return trials;
}

}  // namespace

Round::Round(Soak& soak, std::uint64_t number)
    : soak_(soak), draws_(draw(options().seed, number)) {}

const std::array<std::pair<Round::Step, std::string_view>, Round::kSteps>& Round::steps() {
  static constexpr std::array<std::pair<Step, std::string_view>, kSteps> kAll{
      {{&Round::call, "calls"},
       {&Round::call, "calls"},
       {&Round::call, "calls"},
       {&Round::call_through_windows, "windows"},
       {&Round::call_through_windows, "windows"},
       {&Round::call_with_options, "options"},
       {&Round::call_two_teams, "two communicators"},
       {&Round::replay, "graphs"},
       {&Round::replay, "graphs"},
       {&Round::replace, "a new communicator"},
       {&Round::leave_under_way, "ended under way"},
       {&Round::abort, "an abort"}}};
  return kAll;
}

bool Round::has_step(std::string_view name) {
  return std::ranges::any_of(steps(), [&](const auto& step) { return step.second == name; });
}

void Round::run() {
  try {
    soak_.tell("the first communicator");
    renew(0);
    for (std::size_t i = 0; i < soak_.steps; ++i) {
      auto [step, name] = steps().at(draws_.next(kSteps));
      while (!soak_.only.empty() && name != soak_.only)
        std::tie(step, name) = steps().at(draws_.next(kSteps));
      soak_.tell("step " + std::to_string(i) + ", " + std::string(name));
      (this->*step)();
    }
  } catch (...) {
    Team::abort_all();
    throw;
  }
}

void Round::renew(std::size_t slot) {
  leave(slot);
  Layout layout = soak_.layout;
  if (soak_.mode != Mode::kProcess) {
    // A two-shot alone is no way for one rank.
    const std::uint64_t least = slot == kThroughHost ? 2 : 1;
    const std::uint64_t drawn = least + draws_.next(layout.ranks - least + 1);
    if (draws_.one_in(2)) layout.ranks = static_cast<std::uint32_t>(drawn);
  }
  teams_[slot] = std::make_unique<Team>(soak_.mode, layout, settings()[slot][draws_.next(kEach)]);
  for (const Member& member : teams_[slot]->members())
    soak_.second[slot].open(member);
  ++soak_.done.communicators;
}

void Round::leave(std::size_t slot) {
  const bool finalizes = draws_.one_in(2);
  if (teams_[slot] == nullptr) return;
  if (finalizes) {
    teams_[slot]->each(
        [](Member& member) { check(weft_comm_finalize(member.comm), "weft_comm_finalize"); });
  }
  teams_[slot].reset();
}

Team& Round::pick() {
  const std::size_t slot = draws_.next(kTeams);
  if (teams_[slot] == nullptr) renew(slot);
  return *teams_[slot];
}

SecondStreams& Round::second_of(const Team& team) {
  const auto found = std::ranges::find(teams_, &team, &std::unique_ptr<Team>::get);
  return soak_.second[static_cast<std::size_t>(found - teams_.begin())];
}

void Round::finish(Batch& batch) {
  batch.synchronize();
  if (soak_.spoils) batch.spoil();
  batch.check(soak_.done);
}

void Round::call() {
  Team& team = pick();
  Batch batch(team, second_of(team), draws_, 2 + draws_.next(10), Kind::kAny);
  for (std::uint64_t turn = draws_.next(3) + 1; turn > 0; --turn) {
    batch.prepare(draws_);
    batch.issue(draws_);
    finish(batch);
  }
}

// Windows are registered for the calls, and given up thereafter.
void Round::call_through_windows() {
  // What is drawn hangs on the seed alone, also where the host stands in.
  const bool own = draws_.one_in(2);
  const std::string before =
      std::exchange(options().windows, own || options().host ? "weft" : "cuda");
  {
    renew(1);  // such a communicator goes through windows for the smallest calls
    Batch batch(*teams_[1], soak_.second[1], draws_, 3 + draws_.next(6), Kind::kAny);
    for (std::uint64_t turn = draws_.next(3) + 1; turn > 0; --turn) {
      batch.prepare(draws_);
      batch.issue(draws_);
      finish(batch);
    }
  }
  options().windows = before;
}

void Round::call_with_options() {
  Team& team = pick();
  for (std::uint64_t turn = draws_.next(4) + 1; turn > 0; --turn) {
    const WithOptions with(team, random_options(draws_));
    Trial trial(team, soak_call(draws_, team.layout().ranks, Kind::kAny));
    const std::uint64_t seed = draws_.next(1000000);
    ++soak_.done.options;
    try {
      trial.run(seed);
      ++soak_.done.calls;
    } catch (const Unsupported&) {
      ++soak_.done.refused;
    }
  }
}

void Round::call_two_teams() {
  const std::size_t slot = draws_.next(kTeams);
  const std::size_t another = (slot + 1 + draws_.next(kTeams - 1)) % kTeams;
  for (const std::size_t each : {slot, another}) {
    if (teams_[each] == nullptr) renew(each);
  }
  Batch first(*teams_[slot], soak_.second[slot], draws_, 1 + draws_.next(6), Kind::kSmall);
  Batch second(*teams_[another], soak_.second[another], draws_, 1 + draws_.next(6), Kind::kSmall);
  first.prepare(draws_);
  second.prepare(draws_);
  // On streams of each, and in one order on all ranks.
  for (Batch* batch : {&first, &second})
    batch->team().issue([&](Member& member) { batch->issue(member); });
  finish(first);
  finish(second);
}

void Round::replay() {
  const std::size_t slot = draws_.next(kTeams);
  if (teams_[slot] == nullptr) renew(slot);
  Team& team = *teams_[slot];
  // What a net carries cannot be captured; that it is refused, others try.
  const bool through_host = slot == kThroughHost;
  Batch batch(team, soak_.second[slot], draws_, 1 + draws_.next(4),
              through_host ? Kind::kCapturable : Kind::kAny);
  std::optional<Graphs> graphs;
  try {
    graphs.emplace(team, [&](Member& member) { batch.issue(member); });
  } catch (const Unsupported&) {
    if (!through_host) throw;
    return;
  }
  ++soak_.done.graphs;
  for (std::uint64_t turn = draws_.next(5); turn > 0; --turn) {
    batch.prepare(draws_);
    if (draws_.one_in(4)) {
      batch.issue(draws_);
    } else {
      team.each([&](Member& member) { graphs->launch(member); });
    }
    finish(batch);
  }
  // The last launch outlives the graph, or there was none.
  if (draws_.one_in(3)) return;
  batch.prepare(draws_);
  team.each([&](Member& member) { graphs->launch(member); });
  graphs.reset();
  finish(batch);
}

// While another one is at work.
void Round::replace() {
  const std::size_t slot = draws_.next(kTeams);
  const std::size_t another = (slot + 1) % kTeams;
  if (teams_[another] == nullptr) renew(another);
  Batch batch(*teams_[another], soak_.second[another], draws_, 1 + draws_.next(6), Kind::kAny);
  batch.prepare(draws_);
  batch.issue(draws_);
  renew(slot);
  finish(batch);
}

void Round::leave_under_way() {
  const std::size_t slot = draws_.next(kTeams);
  if (teams_[slot] == nullptr) renew(slot);
  Team& team = *teams_[slot];
  const bool finalizes = draws_.one_in(2);
  {
    Batch batch(team, soak_.second[slot], draws_, 1 + draws_.next(6), Kind::kAny);
    batch.prepare(draws_);
    batch.issue(draws_);
    if (finalizes) {
      team.each(
          [](Member& member) { check(weft_comm_finalize(member.comm), "weft_comm_finalize"); });
    } else {
      team.leave();
    }
    finish(batch);
  }
  teams_[slot].reset();
}

// One rank never calls, the kernels of the others wait for it, and some rank gives up.
void Round::abort() {
  const std::size_t slot = draws_.next(kTeams);
  const std::size_t another = (slot + 1) % kTeams;
  while (teams_[slot] == nullptr || teams_[slot]->layout().ranks < 2)
    renew(slot);
  if (teams_[another] == nullptr) renew(another);
  Team& team = *teams_[slot];
  const std::uint32_t ranks = team.layout().ranks;
  const auto silent = static_cast<std::uint32_t>(draws_.next(ranks));
  const auto aborter = static_cast<std::uint32_t>(draws_.next(ranks));
  const auto delay = std::chrono::milliseconds(draws_.one_in(3) ? 0 : draws_.next(40));
  const bool launches = draws_.one_in(2) && slot != kThroughHost;
  const bool is_used = draws_.one_in(2);
  {
    if (is_used) {
      Batch before(team, soak_.second[slot], draws_, 1, Kind::kSmall);
      before.prepare(draws_);
      before.issue(draws_);
      finish(before);
    }
    const std::vector<std::unique_ptr<Trial>> trials = all_reduces(team, draws_);
    std::optional<Graphs> graphs;
    const auto call = [&](Member& member) {
      for (const auto& trial : trials)
        trial->issue(member);
    };
    if (launches) graphs.emplace(team, call);
    // A process may be far ahead of others, which are to come to their calls.
    sum(*teams_[another], 0);
    Batch beside(*teams_[another], soak_.second[another], draws_, 1 + draws_.next(4), Kind::kSmall);
    beside.prepare(draws_);

    std::vector<weft_result> issued(ranks, WEFT_OK);
    team.each([&](Member& member) {
      if (member.rank == silent) return;
      try {
        launches ? graphs->launch(member) : call(member);
      } catch (const Problem& problem) {
        issued[member.rank] = problem.code;  // processes: the abort came first
      }
    });
    beside.issue(draws_);
    finish(beside);
    team.each([&](Member& member) {
      if (member.rank != aborter) return;
      std::this_thread::sleep_for(delay);
      check(weft_comm_abort(member.comm), "weft_comm_abort");
    });
    std::atomic<std::uint64_t> misnamed = 0;
    team.each([&](Member& member) {
      const weft_result due = member.rank == aborter ? WEFT_ERROR_ABORTED : WEFT_ERROR_PEER;
      const auto expect = [&](weft_result got, const char* where) {
        if (got == due) return;
        // Kernels that were queued behind the one that left may write before they look whether they
        // are to stop, and a peer that looks later finds data of another call.
        if (got == WEFT_ERROR_MISMATCH && member.rank != aborter && trials.size() > 1) {
          ++misnamed;
          return;
        }
        throw Problem(WEFT_ERROR_INTERNAL, "rank " + std::to_string(member.rank) + " of " +
                                               std::to_string(ranks) + " after rank " +
                                               std::to_string(aborter) + " aborted: " + where +
                                               ": " + weft_result_name(got) + ": " + last_error());
      };
      if (issued[member.rank] != WEFT_OK) expect(issued[member.rank], "the call");
      expect(error_of(member), "weft_comm_get_async_error");
      if (member.rank == silent || issued[member.rank] != WEFT_OK) return;
      expect(weft_stream_synchronize(member.stream), "weft_stream_synchronize");
    });
    if (misnamed != 0) ++soak_.done.misnamed;
  }
  ++soak_.done.aborts;
  teams_[slot].reset();
  if (draws_.one_in(2)) renew(slot);
}

std::int64_t Round::total(std::int64_t of_process) {
  soak_.tell("the end of a round");
  if (teams_[0] == nullptr) renew(0);
  return sum(*teams_[0], of_process);
}

std::int64_t Round::sum(Team& team, std::int64_t of_process) {
  std::vector<std::unique_ptr<Zone>> words(team.layout().ranks);
  team.each([&](Member& member) {
    Bytes bytes(sizeof(of_process));
    std::memcpy(bytes.data(), &of_process, sizeof(of_process));
    words[member.rank] = std::make_unique<Zone>(member.device, bytes.size(), 0);
    words[member.rank]->write(bytes, 1, member.cuda);
  });
  team.issue([&](Member& member) {
    std::byte* word = words[member.rank]->data();
    check(weft_all_reduce(word, word, 1, WEFT_INT64, WEFT_SUM, member.comm, member.stream),
          "weft_all_reduce");
  });
  team.synchronize();
  std::int64_t answer = 0;
  const Member& member = team.members().front();
  std::memcpy(&answer, words[member.rank]->read(member.cuda).data(), sizeof(answer));
  return answer;
}

void Round::close() {
  for (std::size_t slot = 0; slot < kTeams; ++slot)
    leave(slot);
}

}  // namespace weft::gpu_test
