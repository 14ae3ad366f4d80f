// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long ranks join, whose GPUs have their contexts, and what communicators take of a GPU. A job
// has one library alone: the first communicator pays for all that the library makes once for a
// process, later ones for themselves.
#include <algorithm>
#include <optional>

#include "bench/gpu/rank.h"

namespace weft::gpu_bench {

namespace {

/// Beside each other; none leaves before all have joined.
constexpr uint32_t kCommunicators = 6;
/// The first of them, which make calls.
constexpr uint32_t kThatCall = 2;
/// A block of the smallest all-to-all.
constexpr size_t kLeastBlock = 16;

}  // namespace

void Rank::measure_joins() {
  contestants_.reserve(kCommunicators);
  for (uint32_t number = 1; number <= kCommunicators; ++number) {
    Contestant& contestant = contestants_.emplace_back();
    contestant.name = options_.libraries.front();
    Joined joined;
    std::optional<double> called;
    if (!join_and_call(contestant, number <= kThatCall, joined, called)) {
      contestant.out = true;  // Refused or failed.
      if (is_first()) {
        report_.left_out(text("communicator %u of %s: %s", number, contestant.name.c_str(),
                              contestant.problem.words.c_str()));
      }
      return;
    }
    if (is_first()) report_.communicator(contestant, number, joined, called);
  }
}

bool Rank::join_and_call(Contestant& contestant, bool calls, Joined& joined,
                         std::optional<double>& called) {
  if (!join(contestant, joined)) return false;
  contestant.arena = buffers_.plain();
  if (!calls) return true;
  double taken = 0;
  if (!make_calls(contestant) || !take_memory(contestant, joined.free_before, taken)) return false;
  called = taken;
  return true;
}

bool Rank::make_calls(Contestant& contestant) {
  for (const size_t bytes : options_.sizes) {
    for (const char* const name : {"all_reduce", "all_to_all"}) {
      const Operation& operation = *find_operation(name);
      const bool has_blocks = operation.kind == OperationKind::kAllToAll;
      const size_t least = has_blocks ? kLeastBlock * options_.gpus : 0;
      const Shape shape =
          shape_of(operation, options_.gpus, std::max(bytes, least), options_.type.bytes);
      const std::string what = std::string(name) + " of " + bytes_text(shape.bytes);
      if (!attempt(contestant, what,
                   [&] { run_passes(contestant, {operation, shape, false, false}, 1); })) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace weft::gpu_bench
