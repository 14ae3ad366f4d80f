// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/operations.h"

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::gpu_test {
namespace {

/// Elements of the larger buffer, or nearly so: of one block where they are few.
std::vector<std::size_t> sizes(bool few) {
  if (options().small) return {0, 1, 257, 4093};
  if (few) return {0, 257, 65537};
  return {0, 1, 257, 4093, 65537, 1048573};
}

std::size_t count_of(Operation operation, std::size_t size, std::uint32_t ranks) {
  return has_blocks(operation) && size > 5000 ? size / ranks : size;
}

struct Place {
  bool in_place;
  std::uint32_t send, recv;
};
constexpr std::array<Place, 6> kPlaces{
    {{false, 0, 0}, {false, 1, 0}, {false, 0, 1}, {false, 1, 1}, {true, 0, 0}, {true, 0, 1}}};

/// What differs from call to call without being the point of it.
void vary(Call& call, std::uint64_t seed, std::uint32_t ranks) {
  // Of what is moved, only the size of an element matters.
  constexpr std::array kMoved{kFloat32, kUint8, kFloat64, kBfloat16};
  constexpr std::array kReduced{std::pair(kFloat32, WEFT_SUM), std::pair(kInt32, WEFT_MAX),
                                std::pair(kFloat16, WEFT_SUM)};
  if (reduces(call.operation)) {
    std::tie(call.type, call.reduction) = kReduced[draw(seed, 0) % kReduced.size()];
  } else {
    call.type = kMoved[draw(seed, 0) % kMoved.size()];
  }
  call.root = static_cast<std::uint32_t>(draw(seed, 1) % ranks);
  call.omit_unused = draw(seed, 2) % 2 == 0;
  if (has_tables(call.operation)) call.table = static_cast<std::uint32_t>(draw(seed, 3) % 12);
}

void run_large(Team& team, Operation operation, Seeds& seeds) {
  const std::uint32_t ranks = team.layout().ranks;
  const std::size_t most = options().largest / kFloat32.bytes / (has_blocks(operation) ? ranks : 1);
  Call call{.operation = operation, .type = kFloat32, .count = most, .root = ranks - 1};
  Trial(team, call).run(seeds.next());
  call.count = most - 3;
  call.in_place = can_be_in_place(operation);
  call.table = 4;  // one has all
  call.recv_offset = 1;
  Trial(team, call).run(seeds.next());
  // Copies of 16 bytes begin well, and leave a rest.
  call.recv_offset = 0;
  Trial(team, call).run(seeds.next());
  if (reduces(operation)) return;
  call.type = kUint8;
  call.count = most * kFloat32.bytes - 5;
  Trial(team, call).run(seeds.next());
}

/// Each reduction of a type, made ones too.
std::vector<std::pair<weft_reduction, Premul>> reductions() {
  return {{WEFT_SUM, Premul::kNo},     {WEFT_PROD, Premul::kNo},  {WEFT_MAX, Premul::kNo},
          {WEFT_MIN, Premul::kNo},     {WEFT_AVG, Premul::kNo},   {WEFT_SUM, Premul::kNow},
          {WEFT_SUM, Premul::kAtCall}, {WEFT_SUM, Premul::kMixed}};
}

}  // namespace

void run_operation(Team& team, Operation operation, bool few) {
  Seeds seeds;
  const std::uint32_t ranks = team.layout().ranks;
  for (const std::size_t size : sizes(few)) {
    for (const Place& place : kPlaces) {
      if (place.in_place && !can_be_in_place(operation)) continue;
      if (few && place.send != place.recv) continue;
      const std::uint64_t seed = seeds.next();
      Call call{.operation = operation,
                .count = count_of(operation, size, ranks),
                .in_place = place.in_place,
                .send_offset = place.send,
                .recv_offset = place.recv};
      vary(call, seed, ranks);
      if (call.bytes() * (has_blocks(operation) ? ranks : 1) > options().largest) continue;
      Trial(team, call).run(seed);
    }
  }
  if (!options().small && !few) run_large(team, operation, seeds);
}

void run_tables(Team& team, Operation operation, bool few) {
  Seeds seeds;
  // Blocks of any size, one rank that has all, and sizes that differ by powers of ten.
  const std::array<std::pair<std::uint32_t, std::uint32_t>, 3> pairs{{{3, 6}, {1, 4}, {2, 9}}};
  for (const auto& [one, another] : pairs) {
    std::vector<std::unique_ptr<Trial>> trials;
    for (std::uint32_t i = 0; i < (few ? 4U : 12U); ++i) {
      trials.push_back(std::make_unique<Trial>(team, Call{.operation = operation,
                                                          .type = kInt32,
                                                          .count = 20011,
                                                          .omit_unused = i % 4 < 2,
                                                          .table = i % 2 == 0 ? one : another}));
      trials.back()->prepare(seeds.next());
    }
    for (const auto& trial : trials)
      team.issue([&](Member& member) { trial->issue(member); });
    team.synchronize();
    for (const auto& trial : trials)
      trial->check();
  }
}

void run_type(Team& team, const Type& type, bool few) {
  Seeds seeds;
  const std::uint32_t ranks = team.layout().ranks;
  std::vector<std::size_t> counts{257, 65537};
  if (few || options().small) counts.pop_back();
  for (const Operation operation : kCollectives) {
    if (!is_wanted(operation)) continue;
    for (const std::size_t size : counts) {
      Call call{.operation = operation,
                .type = type,
                .count = count_of(operation, size, ranks),
                .root = ranks - 1,
                .send_offset = 1};
      if (has_tables(operation)) call.table = 3 + static_cast<std::uint32_t>(seeds.next() % 3);
      if (!reduces(operation)) {
        Trial(team, call).run(seeds.next());
        continue;
      }
      for (const auto& [reduction, premul] : reductions()) {
        call.reduction = reduction;
        call.premul = premul;
        call.in_place = !call.in_place;
        call.whole = false;
        Trial(team, call).run(seeds.next());
        call.whole = true;
        if (size == counts[0]) Trial(team, call).run(seeds.next());
      }
    }
  }
  for (const auto& [reduction, premul] : reductions()) {
    if (premul != Premul::kNo || !is_wanted(Operation::kAllReduce)) continue;
    const Call call{.type = type, .reduction = reduction, .count = 4093, .specials = true};
    Trial(team, call).run(seeds.next());
  }
}

void run_few_of_each(Team& team) {
  Seeds seeds;
  const std::uint32_t ranks = team.layout().ranks;
  for (const Operation operation : kCollectives) {
    if (!is_wanted(operation)) continue;
    for (const std::size_t size : {257UL, 65537UL, 1048576UL}) {
      Call call{.operation = operation, .count = count_of(operation, size, ranks)};
      const std::uint64_t seed = seeds.next();
      vary(call, seed, ranks);
      if (call.bytes() * ranks > options().largest) continue;
      call.in_place = can_be_in_place(operation) && seed % 2 == 0;
      Trial(team, call).run(seed);
    }
  }
  if (!is_wanted(Operation::kExchange)) return;
  Call exchange{.operation = Operation::kExchange};
  for (const std::size_t count : {257UL, 65537UL, 1048576UL}) {
    if (count * 4 > options().largest) continue;
    exchange.messages.clear();
    for (std::uint32_t from = 0; from < ranks; ++from)
      for (std::uint32_t to = 0; to < ranks; ++to)
        exchange.messages.push_back({.from = from, .to = to, .count = count / ranks + from});
    exchange.order = seeds.next();
    Trial(team, exchange).run(exchange.order);
  }
}

Call random_call(std::uint64_t seed, std::uint32_t ranks) {
  std::uint64_t drawn = 100;
  const auto next = [&](std::uint64_t end) { return draw(seed, ++drawn) % end; };
  const auto operation = static_cast<Operation>(next(kCollectives.size() + 1));
  const std::size_t most = std::size_t{1} << next(17);
  Call call{.operation = operation, .count = count_of(operation, next(most + 1), ranks)};
  if (operation == Operation::kExchange) {
    for (std::uint64_t i = next(8) + 1; i > 0; --i) {
      call.messages.push_back({.from = static_cast<std::uint32_t>(next(ranks)),
                               .to = static_cast<std::uint32_t>(next(ranks)),
                               .count = next(most + 1),
                               .type = kAllTypes[next(kAllTypes.size())]});
    }
    call.order = seed | 1U;
    return call;
  }
  vary(call, seed, ranks);
  call.in_place = can_be_in_place(operation) && next(2) == 0;
  call.send_offset = static_cast<std::uint32_t>(next(2));
  call.recv_offset = static_cast<std::uint32_t>(next(2));
  if (reduces(operation)) {
    call.type = kAllTypes[next(kAllTypes.size())];
    const auto all = reductions();
    std::tie(call.reduction, call.premul) = all[next(all.size())];
  }
  return call;
}

namespace {

/// More streams of a team's members, beside their own.
class MoreStreams {
 public:
  MoreStreams(Team& team, std::size_t count) : team_(team), made_(team.layout().ranks) {
    for (const Member& member : team.members())
      for (std::size_t i = 0; i < count; ++i)
        made_[member.rank].push_back(open_stream(member.device));
  }
  MoreStreams(const MoreStreams&) = delete;
  MoreStreams& operator=(const MoreStreams&) = delete;
  ~MoreStreams() {
    for (const Member& member : team_.members())
      for (const Stream& stream : made_[member.rank])
        close_stream(member.device, stream);
  }

  /// Null for the member's own, the first.
  [[nodiscard]] weft_stream* of(const Member& member, std::size_t i) const {
    return i == 0 ? nullptr : made_[member.rank][i - 1].weft;
  }
  void synchronize() {
    team_.each([&](Member& member) {
      for (const Stream& stream : made_[member.rank])
        check(weft_stream_synchronize(stream.weft), "weft_stream_synchronize");
    });
  }

 private:
  Team& team_;
  std::vector<std::vector<Stream>> made_;
};

}  // namespace

void run_mix(Team& team, std::size_t streams, bool few) {
  constexpr std::size_t kTrials = 24;
  const std::size_t rounds = few || options().small ? 3 : 15;
  const std::uint64_t seed = options().seed * 31 + streams;
  MoreStreams more(team, streams - 1);
  std::vector<std::unique_ptr<Trial>> trials;
  for (std::size_t i = 0; i < kTrials; ++i)
    trials.push_back(
        std::make_unique<Trial>(team, random_call(draw(seed, i), team.layout().ranks)));
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::uint64_t own = draw(seed, 1000 + round);
    for (std::size_t i = 0; i < kTrials; ++i)
      trials[i]->prepare(own % 1000000 + i);
    for (std::size_t i = kTrials - 1; i > 0; --i)
      std::swap(trials[i], trials[draw(own, i) % (i + 1)]);
    const auto call = [&](Member& member, std::size_t i) {
      trials[i]->issue(member, more.of(member, draw(own, 100 + i) % streams));
    };
    if (team.mode() == Mode::kOneThread) {
      for (std::size_t i = 0; i < kTrials; ++i)
        team.issue([&](Member& member) { call(member, i); });
    } else {
      team.each([&](Member& member) {
        for (std::size_t i = 0; i < kTrials; ++i)
          call(member, i);
      });
    }
    team.synchronize();
    more.synchronize();
    for (const auto& trial : trials)
      trial->check();
  }
}

}  // namespace weft::gpu_test
