// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/output_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace weft::checker {
namespace {

// A barrier is a word: the number of its phase, the bytes that it waits for, whether all have come
// to it.
constexpr std::uint64_t kOnePhase = 1;
constexpr std::uint64_t kPhaseMask = UINT32_MAX;
constexpr std::uint64_t kOneByte = std::uint64_t{1} << 32;
constexpr std::uint64_t kArrived = std::uint64_t{1} << 63;

constexpr std::uint64_t pending_bytes(std::uint64_t barrier) {
  return (barrier & ~kArrived) >> 32;
}

}  // namespace

bool BulkMemory::happens_now(bool store) {
  if (it_.times == CopyTimes::kMixed) return it_.team.random.below(2) == 0;
  return it_.times == CopyTimes::kAtOnce || (it_.times == CopyTimes::kLateStores && !store);
}

void BulkMemory::make_barrier(std::uint64_t* barrier, std::uint32_t arrivals) {
  if (arrivals != 1) wrong(Rule::kKernel, "makes a barrier for several");
  *barrier = 0;
}

void BulkMemory::complete(std::uint64_t* barrier) {
  if ((*barrier & kArrived) == 0 || pending_bytes(*barrier) != 0) return;
  *barrier = (*barrier & kPhaseMask) + kOnePhase;
  world_.fibers.changed(actor_.rank);
}

void BulkMemory::arrive(std::uint64_t* barrier) {
  arrive_and_expect(barrier, 0);
}

void BulkMemory::arrive_and_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  if (world_.fibers.stopped()) return;
  if ((*barrier & kArrived) != 0) {
    return wrong(Rule::kOverwritten, "comes to a barrier of a piece whose phase has not ended");
  }
  *barrier += kArrived + bytes * kOneByte;
  complete(barrier);
  world_.fibers.perhaps_yield();
}

bool BulkMemory::has_completed(std::uint64_t* barrier, std::uint32_t parity) {
  world_.fibers.perhaps_yield();
  const auto completed = [&] { return (*barrier & 1U) != parity; };
  if (completed() || it_.team.loads.empty()) return completed();
  // Whoever looks at a barrier gives its copies the time that they need.
  std::vector<BulkTeam::Load> due;
  std::erase_if(it_.team.loads, [&](const BulkTeam::Load& load) {
    if (load.barrier != barrier) return false;
    due.push_back(load);
    return true;
  });
  for (const BulkTeam::Load& load : due)
    land(load);
  return completed();
}

void BulkMemory::bulk_load(std::byte* piece, const std::byte* from, std::uint32_t bytes,
                           std::uint64_t* barrier) {
  if (world_.fibers.stopped()) return;
  if (reinterpret_cast<std::uintptr_t>(from) % device::kBulkGrain != 0) {
    return wrong(Rule::kOutside, "copies in bulk from within a line");
  }
  if (acquired_) {
    return wrong(Rule::kReadTooEarly, "copies in bulk what it was told of, in no order with that");
  }
  if (!may_read(from, bytes)) return;
  const BulkTeam::Load load{.barrier = barrier, .piece = piece, .from = from, .bytes = bytes};
  if (happens_now(false)) {
    land(load);
  } else {
    it_.team.loads.push_back(load);
    world_.fibers.changed(actor_.rank);  // whoever looks at the barrier looks again
  }
}

void BulkMemory::land(const BulkTeam::Load& load) {
  if (!may_read(load.from, load.bytes)) return;
  for (std::uint32_t at = 0; at < load.bytes; at += sizeof(Value)) {
    const Value value = *reinterpret_cast<const Value*>(load.from + at);
    if (!is_something(value)) return;
    *reinterpret_cast<Value*>(load.piece + at) = value;
  }
  *load.barrier -= load.bytes * kOneByte;
  complete(load.barrier);
}

void BulkMemory::load_rest(std::byte* rest, const std::byte* from, std::uint32_t bytes) {
  if (acquired_) return wrong(Rule::kReadTooEarly, "copies what it was told of in no order");
  if (!may_read(from, bytes) || !is_something(*reinterpret_cast<const Value*>(from))) return;
  std::memcpy(rest, from, bytes);
}

bool BulkMemory::may_store(const std::byte* to, std::uint64_t bytes, bool lands) {
  if (world_.fibers.stopped()) return false;
  const bool is_output = world_.buffers.holds(to);
  const std::uint32_t owner = is_output ? world_.buffers.owner(to) : actor_.rank;
  if (!is_output || owner == actor_.rank) {
    const Place place = find(to, bytes);
    if (!may_write(place, to, bytes)) return false;
    // A slot counts what is written into it.
    if (!lands && place.in == Place::In::kSlot) place.slot.connection->bytes -= bytes;
    return true;
  }
  const ConnectionView& next = it_.item.to_next;
  if (owner != next.peer) {
    wrong(Rule::kOutside, fmt::format("writes into the output of rank {}", owner));
    return false;
  }
  const OpenOutput& there = it_.outputs[owner];
  if (!there.inside || there.call != actor_.call || !there.open) {
    wrong(Rule::kAway,
          fmt::format(
              "writes into the output of rank {}, which {}", owner,
              there.inside && there.call == actor_.call ? "is not open" : "is not in the call"));
    return false;
  }
  const Actor as_owner{.rank = owner, .channel = actor_.channel, .call = actor_.call};
  if (!world_.buffers.may_write(as_owner, to, bytes)) {
    stop_if_wrong();
    return false;
  }
  if (lands) world_.connections->owner(next.tail)->bytes += bytes;
  return true;
}

void BulkMemory::write(std::byte* to, const Value* values, std::uint32_t bytes) {
  if (!may_store(to, bytes, true)) return;
  const bool is_output = world_.buffers.holds(to);
  const bool leaves = is_output ? world_.buffers.owner(to) != actor_.rank : true;
  for (std::uint32_t i = 0; i < bytes / sizeof(Value); ++i) {
    if (!is_something(values[i])) return;
    reinterpret_cast<Value*>(to)[i] = values[i] + (leaves ? 1 : 0);
  }
}

void BulkMemory::bulk_store(std::byte* to, const std::byte* piece, std::uint32_t bytes) {
  if (world_.fibers.stopped()) return;
  if (reinterpret_cast<std::uintptr_t>(to) % device::kBulkGrain != 0) {
    return wrong(Rule::kOutside, "copies in bulk to within a line");
  }
  if (acquired_) {
    return wrong(Rule::kOverwritten, "copies in bulk to where it was let, in no order with that");
  }
  if (!may_store(to, bytes, false)) return;
  if (it_.team.groups.empty()) it_.team.groups.emplace_back();
  BulkTeam::Store store{.to = to, .piece = piece, .bytes = bytes};
  if (happens_now(true)) read(store);
  if (store.read && happens_now(true)) land(store);
  it_.team.groups.back().push_back(std::move(store));
  world_.fibers.perhaps_yield();
}

void BulkMemory::read(BulkTeam::Store& store) {
  if (store.read) return;
  store.read = true;
  const auto* const first = reinterpret_cast<const Value*>(store.piece);
  store.values.assign(first, first + store.bytes / sizeof(Value));
}

void BulkMemory::land(BulkTeam::Store& store) {
  if (store.landed) return;
  store.landed = true;
  read(store);
  write(store.to, store.values.data(), store.bytes);
}

void BulkMemory::store_rest(std::byte* to, const std::byte* rest, std::uint32_t bytes) {
  write(to, reinterpret_cast<const Value*>(rest), bytes);
}

void BulkMemory::close_group() {
  if (it_.team.groups.empty()) it_.team.groups.emplace_back();
  it_.team.groups.emplace_back();
}

void BulkMemory::await_reads_but(std::size_t left) {
  auto& groups = it_.team.groups;
  for (std::size_t i = 0; i + left + 1 < groups.size(); ++i) {
    for (BulkTeam::Store& store : groups[i])
      read(store);
  }
}

void BulkMemory::await_stores_but(std::size_t left) {
  auto& groups = it_.team.groups;
  while (groups.size() > left + 1) {
    for (BulkTeam::Store& store : groups.front())
      land(store);
    groups.pop_front();
  }
}

std::uint32_t BulkMemory::load_shared(const std::uint32_t* word) {
  fenced_ = false;
  return *word;
}

void BulkMemory::store_shared(std::uint32_t* word, std::uint32_t value) {
  *word = value;
  world_.fibers.changed(actor_.rank);
  world_.fibers.perhaps_yield();
}

std::uint64_t BulkMemory::load_acquire(std::uint64_t* counter) {
  acquired_ = true;
  return SymbolicMemory::load_acquire(counter);
}

void BulkMemory::store_relaxed(std::uint64_t* counter, std::uint64_t value) {
  OutputRank& rank = it_.rank;
  if (counter >= rank.calls && counter < rank.calls + std::size(rank.calls)) {
    *counter = value;
    return;
  }
  if (!fenced_) {
    return wrong(Rule::kReadTooEarly, "stores a counter in no order with what it tells of");
  }
  post(counter, nullptr, value);
}

void BulkMemory::give_back(std::uint64_t* head, std::uint64_t value) {
  post(head, nullptr, value);
}

bool BulkMemory::idle() {
  return world_.fibers.look_again(actor_.rank);
}

void BulkMemory::store_words(std::byte* to, device::Line line) {
  if (world_.fibers.stopped()) return;
  const Actor in_sequence{
      .rank = actor_.rank, .channel = actor_.channel, .call = it_.rank.agreements};
  if (!world_.inboxes->holds(to) || !world_.inboxes->may_write(in_sequence, to, sizeof(line))) {
    if (world_.report.empty()) wrong(Rule::kOutside, "tells an offer to nobody");
    return stop_if_wrong();
  }
  auto* words = reinterpret_cast<std::uint64_t*>(to);
  words[1] = line.high;
  world_.fibers.changed(world_.inboxes->owner(to));
  world_.fibers.perhaps_yield();
  words[0] = line.low;
  world_.fibers.changed(world_.inboxes->owner(to));
  world_.fibers.perhaps_yield();
}

std::uint32_t BulkThread::load_acquire(const std::uint32_t* word) const {
  it_.world.fibers.perhaps_yield();
  return *word;
}

void BulkThread::store_release(std::uint32_t* word, std::uint32_t value) const {
  *word = value;
  it_.world.fibers.changed(it_.actor.rank);
  it_.world.fibers.perhaps_yield();
}

std::uint32_t BulkThread::add(std::uint32_t* word, std::uint32_t value) const {
  const std::uint32_t before = *word;
  *word += value;
  it_.world.fibers.changed(it_.actor.rank);
  return before;
}

// From here on the host may unmap what others shared, and free what it shared itself.
void BulkThread::store_system(std::uint64_t* word, std::uint64_t value) const {
  *word = value;
  if (it_.rank.table.way != OutputWay::kOutputs || it_.rank.inside == 0) return;
  it_.world.report.add(Rule::kAway,
                       fmt::format("{}: tells the host that outputs are done with, while {} of its "
                                   "groups are at work",
                                   it_.actor.name(), it_.rank.inside));
  it_.world.fibers.stop();
}

void BulkThread::report(const KernelOutcome& outcome) const {
  if (it_.team.outcome.end == KernelEnd::kDone) it_.team.outcome = outcome;
  // Of the storer, which ends when all has come that the loader waited for.
  constexpr std::uint32_t kStorer = 1;
  if (it_.actor.lane == kStorer) --it_.rank.inside;
}

}  // namespace weft::checker
