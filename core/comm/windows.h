// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Windows: buffers that all ranks registered together, so that each reaches those of all others,
// and calls that move data straight into them.
//
// Whether a call goes through a window is a matter of where its output lies, and the input of one
// that reduces, which each rank sees for itself. That it is alike on all ranks is the program's
// promise; the tag of the call carries window and offset, so a promise that was broken is an error
// on every rank. Copies that were queued behind the comparison are made all the same: what windows
// hold after an error is undefined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/start.h"
#include "core/model/pair_transfer.h"
#include "core/model/window_reduction.h"
#include "core/transport/shared_buffer.h"

namespace weft {

struct Window {
  std::uint32_t number = 0;  ///< Of the communicator's windows, from 1 on; alike on all ranks.
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  std::unique_ptr<SharedBuffer> shared{};

  /// Where it is seen from this rank, by rank; none where not all ranks reach all others.
  [[nodiscard]] std::span<std::byte* const> addresses() const { return shared->addresses(); }
};

/// Where an output lies.
struct WindowPlace {
  const Window* window = nullptr;
  std::uint64_t offset = 0;

  /// Task::place: 15 bits for the window, and more than any memory has for the offset.
  [[nodiscard]] std::uint64_t number() const {
    return (std::uint64_t{window->number} << 48) | offset;
  }
};
inline constexpr std::uint32_t kMostWindows = (1U << 15) - 1;

/// Where the buffers of a call lie whose inputs are reduced out of windows.
struct ReductionPlaces {
  WindowPlace input;
  WindowPlace output;  ///< Of all-reduce alone: others keep what they reduce.

  /// Task::place.
  [[nodiscard]] std::uint64_t number() const {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
    return output.window == nullptr ? input.number() : (input.number() * kOdd) ^ output.number();
  }
};

/// The windows of one rank of a communicator. Used by the thread that makes the calls.
class Windows {
 public:
  [[nodiscard]] bool empty() const { return windows_.empty(); }
  /// Windows that were ever added.
  [[nodiscard]] std::uint32_t count() const { return count_; }
  Window* add(void* base, std::uint64_t bytes, std::unique_ptr<SharedBuffer> shared);
  /// Whether it was there.
  bool remove(const Window* window);
  /// The window registered last that holds all of [memory, memory + bytes) and is mapped.
  [[nodiscard]] std::optional<WindowPlace> find(const void* memory, std::uint64_t bytes) const;

 private:
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<Window>> windows_;
};

/// Bytes of a rank's output of a call whose outputs are alike on all ranks, wherever copies alone
/// carry it out; 0 of other calls.
[[nodiscard]] std::uint64_t copied_output(const Task& task, std::uint32_t ranks);

/// What rank `rank` copies in such a call: into the outputs of all others, which lie `offset` bytes
/// from `addresses`, first into that of the rank after it, so that no rank is everybody's first;
/// then, as the last, what stays with it. The peer of a view tells whose output it is.
void make_copies(const Call& call, std::uint32_t rank, std::uint32_t ranks,
                 std::span<std::byte* const> addresses, std::uint64_t offset,
                 std::vector<PairTransfer>& copies);

/// Bytes of a rank's input of a call that may be reduced out of windows; 0 of other calls.
[[nodiscard]] std::uint64_t reduced_input(const Task& task, std::uint32_t ranks);

/// What rank `rank` does in such a call, without staging memory.
[[nodiscard]] WindowReduction make_window_reduction(const Call& call, std::uint32_t rank,
                                                    std::uint32_t ranks,
                                                    const ReductionPlaces& places);

}  // namespace weft
