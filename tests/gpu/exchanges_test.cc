// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and receives on CUDA buffers.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/operations.h"

namespace weft::gpu_test {
namespace {

/// Each rank draws the order of its calls from `order`.
Call exchange(std::uint64_t order) {
  return {.operation = Operation::kExchange, .order = order | 1U};
}

std::vector<std::size_t> counts(bool few) {
  if (few || options().small) return {1, 4093};
  return {1, 257, 4093, 65537, 1048573, options().largest / kFloat32.bytes};
}

void ring_shift(Team& team, bool few, Seeds& seeds) {
  const std::uint32_t ranks = team.layout().ranks;
  for (const std::size_t count : counts(few)) {
    for (std::uint32_t by = 1; by < std::max(ranks, 2U); ++by) {
      Call call = exchange(seeds.next());
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        call.messages.push_back({.from = rank, .to = (rank + by) % ranks, .count = count});
      Trial(team, call).run(seeds.next());
    }
  }
}

// Messages of all sizes, of which some are empty, and those to oneself.
void every_to_every(Team& team, bool few, Seeds& seeds) {
  const std::uint32_t ranks = team.layout().ranks;
  for (const std::size_t count : counts(few)) {
    if (count > 2000000) continue;
    Call call = exchange(seeds.next());
    for (std::uint32_t from = 0; from < ranks; ++from) {
      for (std::uint32_t to = 0; to < ranks; ++to) {
        const std::uint64_t drawn = seeds.next();
        call.messages.push_back({.from = from,
                                 .to = to,
                                 .count = count >> (draw(drawn, 0) % 12),
                                 .type = kAllTypes[draw(drawn, 1) % kAllTypes.size()]});
      }
    }
    Trial(team, call).run(seeds.next());
  }
}

// Both ways, in the order in which they are called.
void many_between_two(Team& team, bool few, Seeds& seeds) {
  const std::uint32_t last = team.layout().ranks - 1;
  Call call = exchange(seeds.next());
  for (std::uint32_t i = 0; i < (few ? 10U : 60U); ++i) {
    const std::uint64_t drawn = seeds.next();
    const bool back = draw(drawn, 0) % 3 == 0;
    call.messages.push_back({.from = back ? last : 0,
                             .to = back ? 0 : last,
                             .count = (draw(drawn, 1) % 200000) >> (draw(drawn, 2) % 18)});
  }
  for (int i = 0; i < 3; ++i)
    Trial(team, call).run(seeds.next());
}

// More than the argument of a kernel holds.
void hundreds_between_two(Team& team, bool /*few*/, Seeds& seeds) {
  const std::uint32_t last = team.layout().ranks - 1;
  Call call = exchange(seeds.next());
  for (std::uint32_t i = 0; i < 500; ++i) {
    call.messages.push_back({.from = i % 3 == 0 ? last : 0,
                             .to = i % 3 == 0 ? 0 : last,
                             .count = i % 50 == 0 ? 20011 : 1 + i % 7});
  }
  for (int i = 0; i < 3; ++i)
    Trial(team, call).run(seeds.next());
}

void to_itself(Team& team, bool few, Seeds& seeds) {
  for (const std::size_t count : counts(few)) {
    if (count > 2000000) continue;
    Call call = exchange(seeds.next());
    for (std::uint32_t rank = 0; rank < team.layout().ranks; ++rank) {
      for (const std::size_t part : {count, count / 3, std::size_t{0}, count / 2})
        call.messages.push_back({.from = rank, .to = rank, .count = part});
    }
    Trial(team, call).run(seeds.next());
  }
}

// Without a group, each waits for its partner in its stream.
void one_by_one(Team& team, bool few, Seeds& seeds) {
  const std::uint32_t ranks = team.layout().ranks;
  if (ranks == 1) return;
  Call call = exchange(seeds.next());
  call.grouped = false;
  for (std::uint32_t i = 0; i < (few ? 2 : 10) * ranks; ++i)
    call.messages.push_back(
        {.from = i % ranks, .to = (i + 1) % ranks, .count = 1 + seeds.next() % 70000});
  Trial(team, call).run(seeds.next());
}

// Without a wait between.
void run_in_sequence(Team& team, const std::vector<Call>& calls, Seeds& seeds) {
  std::vector<std::unique_ptr<Trial>> trials;
  for (const Call& call : calls)
    trials.push_back(std::make_unique<Trial>(team, call));
  for (const auto& trial : trials)
    trial->prepare(seeds.next());
  if (team.mode() == Mode::kOneThread) {
    for (const auto& trial : trials)
      team.issue([&](Member& member) { trial->issue(member); });
  } else {
    team.each([&](Member& member) {
      for (const auto& trial : trials)
        trial->issue(member);
    });
  }
  team.synchronize();
  for (const auto& trial : trials)
    trial->check();
}

void groups_in_sequence(Team& team, bool few, Seeds& seeds) {
  const std::uint32_t ranks = team.layout().ranks;
  std::vector<Call> calls;
  for (std::uint32_t i = 0; i < (few ? 4U : 20U); ++i) {
    Call& call = calls.emplace_back(exchange(seeds.next()));
    for (std::uint32_t from = 0; from < ranks; ++from)
      call.messages.push_back(
          {.from = from, .to = (from + i) % ranks, .count = seeds.next() * 7919 % 100000});
  }
  run_in_sequence(team, calls, seeds);
}

// Of what a call is like the one before but for its buffers the device is given what was kept of
// it: so each has buffers of its own, and what is unlike comes between.
void alike_in_sequence(Team& team, bool few, Seeds& seeds) {
  const std::uint32_t ranks = team.layout().ranks;
  const std::size_t count = few || options().small ? 70001 : 700001;
  Call shift = exchange(seeds.next());
  for (std::uint32_t from = 0; from < ranks; ++from)
    shift.messages.push_back({.from = from, .to = (from + 1) % ranks, .count = count});
  const Call to_all{.operation = Operation::kAllToAll, .count = count};
  Call elsewhere = to_all;
  elsewhere.send_offset = 3;
  elsewhere.recv_offset = 1;
  Call shorter = to_all;
  --shorter.count;
  const Call gather{.operation = Operation::kGather, .count = count, .root = ranks - 1};
  Call in_place = gather;
  in_place.in_place = true;
  run_in_sequence(team,
                  {to_all, to_all, elsewhere, shift, shift, to_all, gather, gather, in_place,
                   in_place, gather, to_all, shorter, shorter, to_all, shift},
                  seeds);
}

constexpr std::array kKinds{ring_shift, every_to_every,     many_between_two, to_itself,
                            one_by_one, groups_in_sequence, alike_in_sequence};

}  // namespace

void run_exchanges(Team& team, bool few) {
  Seeds seeds;
  for (const auto& kind : kKinds)
    kind(team, few, seeds);
}

void run_two_communicators(Team& team, Team& other, bool few) {
  Seeds seeds;
  const std::uint32_t ranks = team.layout().ranks;
  Call to_next = exchange(seeds.next());
  Call to_all = exchange(seeds.next());
  for (std::uint32_t from = 0; from < ranks; ++from) {
    to_next.messages.push_back({.from = from, .to = (from + 1) % ranks, .count = 65537});
    for (std::uint32_t to = 0; to < ranks; ++to)
      to_all.messages.push_back({.from = from, .to = to, .count = 4093 * (to + 1)});
  }
  const std::array calls{to_next, to_all, Call{.operation = Operation::kAllToAll, .count = 4093},
                         Call{.type = kInt32, .count = 65537}};
  std::vector<std::unique_ptr<Trial>> own, others;
  for (const Call& call : calls) {
    own.push_back(std::make_unique<Trial>(team, call));
    others.push_back(std::make_unique<Trial>(other, call));
  }
  for (int turn = 0; turn < (few ? 2 : 10); ++turn) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      own[i]->prepare(seeds.next());
      others[i]->prepare(seeds.next());
    }
    // All ranks call on both in the same order, on a stream of each.
    for (std::size_t i = 0; i < calls.size(); ++i) {
      team.issue([&](Member& member) { own[i]->issue(member); });
      other.issue([&](Member& member) { others[i]->issue(member); });
    }
    team.synchronize();
    other.synchronize();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      own[i]->check();
      others[i]->check();
    }
  }
}

namespace {

class Exchanges : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout);
  }
  std::unique_ptr<Team> team_;
  Seeds seeds_;
};
TEST_P(Exchanges, RingShift) {
  ring_shift(*team_, false, seeds_);
}
TEST_P(Exchanges, EveryToEvery) {
  every_to_every(*team_, false, seeds_);
}
TEST_P(Exchanges, ManyBetweenTwo) {
  many_between_two(*team_, false, seeds_);
}
TEST_P(Exchanges, HundredsBetweenTwo) {
  hundreds_between_two(*team_, false, seeds_);
}
TEST_P(Exchanges, ToItself) {
  to_itself(*team_, false, seeds_);
}
TEST_P(Exchanges, OneByOne) {
  one_by_one(*team_, false, seeds_);
}
TEST_P(Exchanges, GroupsInSequence) {
  groups_in_sequence(*team_, false, seeds_);
}
TEST_P(Exchanges, AlikeInSequence) {
  alike_in_sequence(*team_, false, seeds_);
}
TEST_P(Exchanges, TwoCommunicators) {
  Team other(GetParam().mode, GetParam().layout);
  run_two_communicators(*team_, other, false);
}
class WholeDevice : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override { SKIP_UNLESS_POSSIBLE(GetParam()); }
};
// A communicator that has a GPU for itself takes nearly all of it for a large all-to-all. Here rank
// 0 calls one before another communicator joins, and the others after that one's first call.
TEST_P(WholeDevice, IsSharedWithWhoJoinsLater) {
  Seeds seeds;
  const std::size_t bytes = options().host ? std::size_t{1} << 20 : std::size_t{64} << 20;
  Team team(Mode::kThreads, GetParam());
  const Call call{.operation = Operation::kAllToAll,
                  .count = bytes / kFloat32.bytes / GetParam().ranks};
  Trial large(team, call);
  large.run(seeds.next());  // and connects
  large.prepare(seeds.next());
  const auto issue_of = [&](bool first) {
    team.each([&](Member& member) {
      if ((member.rank == 0) == first) large.issue(member);
    });
  };
  issue_of(true);
  Team later(Mode::kThreads, GetParam());
  Trial small(later, {.type = kInt32, .count = 65537});
  Trial also_large(later, call);
  for (Trial* const trial : {&small, &also_large})
    trial->prepare(seeds.next());
  for (Trial* const trial : {&small, &also_large})
    later.issue([&](Member& member) { trial->issue(member); });
  issue_of(false);
  team.synchronize();
  later.synchronize();
  for (Trial* const trial : {&large, &small, &also_large})
    trial->check();
  // Alone again.
  later.leave();
  large.run(seeds.next());
}
INSTANTIATE_TEST_SUITE_P(Gpu, WholeDevice, testing::Values(Layout{2, false}, Layout{4, false}),
                         layout_name<Layout>);

INSTANTIATE_TEST_SUITE_P(Gpu, Exchanges, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

}  // namespace
}  // namespace weft::gpu_test
