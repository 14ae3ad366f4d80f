// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What is run of all operations on a team, whoever drives it: tests on threads and ranks in
// processes of their own. `few`: of ranks that take turns on one device, where a call takes long.
#pragma once

#include <cstdint>
#include <span>

#include "tests/gpu/call.h"
#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"

namespace weft::gpu_test {

/// Seeds that differ from call to call, alike on all ranks.
class Seeds {
 public:
  std::uint64_t next() { return options().seed * 7919 + ++calls_; }

 private:
  std::uint64_t calls_ = 0;
};

/// Whether --operation leaves it in.
[[nodiscard]] inline bool is_wanted(Operation operation) {
  return !options().operation || *options().operation == operation;
}

/// One collective of all sizes in all places, up to options().largest; types and roots by turns.
void run_operation(Team& team, Operation operation, bool few);
/// Calls of one operation with blocks by two tables in turn, without a wait between.
void run_tables(Team& team, Operation operation, bool few);
/// All collectives of one type, small and of middle size, with all reductions.
void run_type(Team& team, const Type& type, bool few);
/// Each collective at three sizes, and exchanges.
void run_few_of_each(Team& team);

/// A random call, collective or exchange, alike on all ranks.
[[nodiscard]] Call random_call(std::uint64_t seed, std::uint32_t ranks);
/// Hundreds of random calls, some tens at a time without a wait, on so many streams by turns.
void run_mix(Team& team, std::size_t streams, bool few);

/// All kinds of exchanges, one after the other.
void run_exchanges(Team& team, bool few);
/// Exchanges and collectives of two communicators by turns.
void run_two_communicators(Team& team, Team& other, bool few);

/// One operation captured and replayed a hundred times, each with new inputs, and called by turns.
void replay_operation(Team& team, Operation operation, bool few);
/// Graphs of all-gathers by different tables, by turns with eager calls by others.
void replay_tables(Team& team, bool few);
/// Random calls, each of them launched or called by turns, without a wait between.
void replay_mix(Team& team, bool few);

}  // namespace weft::gpu_test
