// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ranks and supervisor share, in a memory file that children inherit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bench/gpu/values.h"

namespace weft::gpu_bench {

inline constexpr size_t kIdBytes = 128;

/// Of a rank's part of a step; of all ranks it is the last of these that one of them had.
enum class Outcome : uint32_t {
  kGood,
  kGivenUp,  ///< Since another rank's part did not go well.
  kRefused,
  kFailed
};

/// All zero at the start of a job.
struct Board {
  std::atomic<uint32_t> arrived;     ///< Ranks at the barrier.
  std::atomic<uint32_t> generation;  ///< Barriers passed.
  std::atomic<uint32_t> trouble;     ///< The last step in which a rank failed.
  std::atomic<uint32_t> ended;       ///< A child is gone: wait for nobody.
  char id[kIdBytes];                 ///< Of the communicator that is being made.

  struct Place {
    std::atomic<uint32_t> step;  ///< Grows with every step.
    char where[160];             ///< What this rank is doing; read by the supervisor at any time.
    Outcome outcome;             ///< Of its part of the step.
    char words[1536];            ///< Why it failed, was refused, or what was wrong.
    double value;
    uint64_t wrong;
  };
  Place places[kMaxRanks];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// Cut where it does not fit.
void copy_text(char* to, size_t size, std::string_view from);

/// Ends the program if it cannot.
Board* map_board(int file);

}  // namespace weft::gpu_bench
