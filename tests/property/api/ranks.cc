// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/property/api/ranks.h"

#include <algorithm>
#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "tests/integration/api/handles.h"

namespace weft::test {
namespace {

/// What a rank calls with.
struct Membership {
  std::vector<weft_comm*> comms;
  std::vector<weft_stream*> streams;
};

/// A case as one rank takes part in it.
class OneRanksCase {
 public:
  OneRanksCase(const Case& of, const World& world, std::uint32_t rank) : case_(&of), rank_(rank) {
    for (const Part& part : of.parts) {
      const std::uint32_t own = world.rank_in(part.communicator, rank);
      if (part.shape) {
        calls_.emplace_back(std::in_place_type<Trial>, *part.shape, own, world.ranks,
                            static_cast<std::uint32_t>(part.seed));
      } else {
        calls_.emplace_back(exchange_of(part, own, world));
      }
    }
  }

  /// Alike on all ranks.
  [[nodiscard]] bool needs_group() const {
    return case_->grouped || std::ranges::any_of(calls_, [](const auto& call) {
             const auto* exchange = std::get_if<Exchange>(&call);
             return exchange != nullptr && exchange->needs_group();
           });
  }
  [[nodiscard]] std::uint64_t seed() const { return case_->seed; }
  [[nodiscard]] bool is_captured(const World& world) const {
    return case_->is_captured_by(rank_, world);
  }

  /// In a group that is open, or that is not needed.
  void start(weft_context* context, const Membership& with) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      weft_comm* const comm = with.comms[case_->parts[i].communicator];
      weft_stream* const stream = with.streams[case_->parts[i].stream];
      auto* trial = std::get_if<Trial>(&calls_[i]);
      const auto& options = case_->parts[i].options;
      must(context, weft_comm_set_call_options(comm, options ? &*options : nullptr));
      must(context, trial != nullptr ? trial->start(comm, stream)
                                     : std::get<Exchange>(calls_[i]).start(nullptr, comm, stream));
    }
  }

  /// Whether all calls are on one stream, which it is.
  [[nodiscard]] weft_stream* only_stream(const Membership& with) const {
    weft_stream* const first = with.streams[case_->parts.front().stream];
    const bool alone = std::ranges::all_of(
        case_->parts, [&](const Part& part) { return with.streams[part.stream] == first; });
    return alone ? first : nullptr;
  }
  /// New data in the same buffers.
  void renew(std::uint32_t round) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (auto* trial = std::get_if<Trial>(&calls_[i])) {
        trial->renew(static_cast<std::uint32_t>(case_->parts[i].seed) + round);
      } else {
        std::get<Exchange>(calls_[i]).renew();
      }
    }
  }

  /// Throws Failure unless all came right. Adds what must be alike on all ranks to `digest`.
  void check(std::uint64_t& digest) const {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const auto* trial = std::get_if<Trial>(&calls_[i]);
      const std::string text =
          trial != nullptr ? trial->wrong() : std::get<Exchange>(calls_[i]).wrong();
      if (!text.empty()) throw Failure({seed()}, text);
      if (trial != nullptr && case_->parts[i].shape->kind == Kind::kAllReduce) {
        digest = (digest * 0x100000001B3U) ^ trial->digest();
      }
    }
  }

 private:
  const Case* case_;
  std::uint32_t rank_;
  std::vector<std::variant<Trial, Exchange>> calls_;
};

/// The cases of one batch, for some of the ranks: all of one thread.
class Batch {
 public:
  Batch(weft_context* context, const World& world, std::span<const Case> cases)
      : context_(context), world_(&world), cases_(cases) {}

  /// `digests` has an element for each case of each of `members`.
  void run(std::span<const std::uint32_t> ranks, std::span<const Membership> members,
           std::vector<std::vector<std::uint64_t>>& digests) {
    std::vector<std::vector<OneRanksCase>> all;  // of a case, of a rank
    std::vector<std::vector<GraphHandle>> graphs(cases_.size());
    for (const Case& one : cases_) {
      all.emplace_back();
      for (const std::uint32_t rank : ranks)
        all.back().emplace_back(one, *world_, rank);
    }
    for (std::uint32_t round = 0; round < world_->rounds; ++round) {
      run_once(all, members, graphs);
      const bool is_last = round + 1 == world_->rounds;
      for (auto& ranks_cases : all) {
        for (std::size_t i = 0; i < ranks_cases.size(); ++i) {
          std::uint64_t digest = 0;
          ranks_cases[i].check(digest);
          if (is_last) digests[i].push_back(digest);
          if (!is_last) ranks_cases[i].renew(round + 1);
        }
      }
    }
  }

 private:
  void run_once(std::vector<std::vector<OneRanksCase>>& all, std::span<const Membership> members,
                std::vector<std::vector<GraphHandle>>& graphs) {
    try {
      for (std::size_t i = 0; i < all.size(); ++i)
        start(all[i], members, graphs[i]);
      for (const Membership& member : members) {
        for (weft_stream* stream : member.streams)
          must(context_, weft_stream_synchronize(stream));
      }
    } catch (const std::exception& error) {
      std::vector<std::uint64_t> seeds;
      for (const Case& one : cases_)
        seeds.push_back(one.seed);
      // Buffers of work under way must outlive it.
      for (const Membership& member : members) {
        for (weft_comm* comm : member.comms)
          weft_comm_abort(comm);
      }
      for (const Membership& member : members) {
        for (weft_stream* stream : member.streams)
          weft_stream_synchronize(stream);
      }
      throw Failure(seeds, error.what());
    }
  }

  // Calls that all stand in one group, or those of each rank. In the first round `graphs` is empty,
  // and gets what was captured.
  void start(std::vector<OneRanksCase>& of_ranks, std::span<const Membership> members,
             std::vector<GraphHandle>& graphs) {
    const bool grouped = of_ranks.front().needs_group() || world_->shares_streams;
    const std::size_t together = grouped ? of_ranks.size() : 1;
    const bool is_first = graphs.empty();
    for (std::size_t first = 0; first < of_ranks.size(); first += together) {
      const std::span<OneRanksCase> unit(&of_ranks[first], together);
      const auto with = members.subspan(first, together);
      if (is_first) graphs.push_back(capture_some(unit, with, grouped));
      const GraphHandle& graph = graphs[first / together];
      if (graph == nullptr) {
        call(unit, with, grouped);
      } else {
        // Not always on the stream that was captured.
        must(context_, weft_graph_launch(graph.get(), with.front().streams.back()));
      }
    }
  }

  // Null where these ranks call, each time.
  GraphHandle capture_some(std::span<OneRanksCase> unit, std::span<const Membership> with,
                           bool grouped) {
    weft_stream* const stream = unit.front().only_stream(with.front());
    if (stream == nullptr || !unit.front().is_captured(*world_)) return nullptr;
    for (std::size_t i = 0; i < unit.size(); ++i) {
      if (unit[i].only_stream(with[i]) != stream) return nullptr;
    }
    return capture(context_, stream, [&] { call(unit, with, grouped); });
  }

  void call(std::span<OneRanksCase> unit, std::span<const Membership> with, bool grouped) {
    if (grouped) must(context_, weft_group_start(context_));
    try {
      for (std::size_t i = 0; i < unit.size(); ++i)
        unit[i].start(context_, with[i]);
    } catch (...) {
      if (grouped) weft_group_end(context_);
      throw;
    }
    if (grouped) must(context_, weft_group_end(context_));
  }

  weft_context* context_;
  const World* world_;
  std::span<const Case> cases_;
};

/// Digests of the cases, for each of `ranks`.
std::vector<std::vector<std::uint64_t>> run_batches(weft_context* context, const World& world,
                                                    std::span<const Case> cases,
                                                    std::span<const std::uint32_t> ranks,
                                                    std::span<const Membership> members) {
  std::vector<std::vector<std::uint64_t>> digests(ranks.size());
  for (std::size_t first = 0; first < cases.size(); first += world.batch) {
    const std::size_t count = std::min<std::size_t>(world.batch, cases.size() - first);
    Batch(context, world, cases.subspan(first, count)).run(ranks, members, digests);
  }
  return digests;
}

std::vector<weft_stream*> raw(const std::vector<StreamHandle>& handles) {
  std::vector<weft_stream*> streams;
  for (const StreamHandle& handle : handles)
    streams.push_back(handle.get());
  return streams;
}

std::vector<weft_comm*> raw(const std::vector<CommHandle>& handles) {
  std::vector<weft_comm*> comms;
  for (const CommHandle& handle : handles)
    comms.push_back(handle.get());
  return comms;
}

void expect_alike(const World& world, std::span<const Case> cases,
                  const std::vector<std::vector<std::uint64_t>>& digests) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::uint32_t rank = 1; rank < world.ranks; ++rank) {
      if (digests[rank][i] != digests[0][i]) {
        throw Failure({cases[i].seed}, "ranks 0 and " + std::to_string(rank) +
                                           " got other bits of what is one result");
      }
    }
  }
}

void try_in_one_thread(weft_context* context, const World& world, const CommSettings& settings,
                       std::span<const Case> cases) {
  std::vector<StreamHandle> streams;
  std::vector<std::vector<CommHandle>> comms;  // of a communicator, of a rank
  for (std::uint32_t i = 0; i < world.communicators; ++i)
    comms.push_back(init_all(context, settings, world.ranks));
  std::vector<Membership> members(world.ranks);
  std::vector<std::uint32_t> ranks(world.ranks);
  for (std::uint32_t rank = 0; rank < world.ranks; ++rank) {
    ranks[rank] = rank;
    for (std::uint32_t i = 0; i < world.communicators; ++i)
      members[rank].comms.push_back(comms[i][world.rank_in(i, rank)].get());
    if (rank > 0 && world.shares_streams) {
      members[rank].streams = members[0].streams;
      continue;
    }
    for (std::uint32_t i = 0; i < world.streams; ++i) {
      streams.push_back(make_stream(context));
      members[rank].streams.push_back(streams.back().get());
    }
  }
  expect_alike(world, cases, run_batches(context, world, cases, ranks, members));
}

void try_in_threads(weft_context* context, const World& world, const CommSettings& settings,
                    std::span<const Case> cases) {
  std::vector<weft_unique_id> ids(world.communicators);
  for (weft_unique_id& id : ids)
    must(context, weft_get_unique_id(context, &id));
  std::mutex mutex;
  std::optional<Failure> failure;
  std::vector<std::vector<std::uint64_t>> digests(world.ranks);
  // Ranks that left carry no letters of those that meet for the first time.
  std::latch done(world.ranks);
  const auto be_rank = [&](std::uint32_t rank) {
    try {
      const std::vector<StreamHandle> streams = make_streams(context, world.streams);
      std::vector<CommHandle> comms;
      for (std::uint32_t i = 0; i < world.communicators; ++i) {
        weft_comm* comm = nullptr;
        must(context, weft_comm_init_rank(context, settings.get(), world.ranks, &ids[i],
                                          world.rank_in(i, rank), &comm));
        comms.emplace_back(comm);
      }
      const Membership member{.comms = raw(comms), .streams = raw(streams)};
      digests[rank] = run_batches(context, world, cases, {&rank, 1}, {&member, 1})[0];
      done.arrive_and_wait();
    } catch (const std::exception& error) {
      done.count_down();
      // What the others say afterwards follows from the first.
      const std::scoped_lock lock(mutex);
      if (failure) return;
      const auto* known = dynamic_cast<const Failure*>(&error);
      failure.emplace(known != nullptr ? known->seeds() : std::vector{cases[0].seed},
                      "rank " + std::to_string(rank) + ": " + error.what());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < world.ranks; ++rank)
      threads.emplace_back(be_rank, rank);
  }
  if (failure) throw Failure(*failure);
  expect_alike(world, cases, digests);
}

}  // namespace

void try_cases(weft_context* context, const World& world, std::span<const Case> cases) {
  const CommSettings settings(world.settings());
  if (world.place == Place::kOneThread) {
    try_in_one_thread(context, world, settings, cases);
  } else {
    try_in_threads(context, world, settings, cases);
  }
}

std::uint64_t try_cases_as_process(weft_context* context, const World& world,
                                   std::span<const Case> cases) {
  const CommSettings settings(world.settings());
  const std::vector<StreamHandle> streams = make_streams(context, world.streams);
  std::vector<CommHandle> comms;
  for (std::uint32_t i = 0; i < world.communicators; ++i) {
    weft_comm* comm = nullptr;
    must(context, weft_comm_init_env(context, settings.get(), &comm));
    comms.emplace_back(comm);
  }
  std::uint32_t rank = 0;
  must(context, weft_comm_rank(comms[0].get(), &rank));
  const Membership member{.comms = raw(comms), .streams = raw(streams)};
  const auto digests = run_batches(context, world, cases, {&rank, 1}, {&member, 1});
  std::uint64_t all = 0;
  for (const std::uint64_t one : digests[0]) {
    all = (all * 0x100000001B3U) ^ one;
  }
  // Ranks that left carry no letters of those that meet for the first time: none leaves yet.
  for (const CommHandle& comm : comms) {
    must(context, weft_comm_set_call_options(comm.get(), nullptr));
    Trial last(Shape{.kind = Kind::kAllReduce, .count = 1}, rank, world.ranks, 0);
    must(context, last.start(comm.get(), streams[0].get()));
    must(context, weft_stream_synchronize(streams[0].get()));
  }
  return all;
}

}  // namespace weft::test
