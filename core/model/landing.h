// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Where what a rank receives is to come to: into a slot, or straight to the caller's output.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/model/ring_geometry.h"

namespace weft {

/// The steps that one rank receives on one channel of a ring all-reduce, in their order. A chunk
/// that is complete needs nothing but to be where the caller wants it, and it may come there at any
/// time: it contains this rank's contribution, so the rank has read its input and is in this call.
/// (All-gathers and broadcasts do not wait for that: what they bring may come before the call has
/// begun here, while the caller's earlier work still uses the buffer.)
struct LandingWalk {
  std::byte* output = nullptr;  ///< The channel's first element; null: all goes into slots.
  std::uint64_t count = 0;      ///< The item's, as all that follows.
  std::uint64_t chunk = 0;
  std::uint32_t ranks = 0;
  std::uint32_t position = 0;
  std::uint32_t element_bytes = 1;
  std::uint32_t step_bytes = 0;

  std::uint64_t base = 0;  ///< First element of the present loop.
  std::uint64_t done = 0;  ///< Bytes of the present chunk.
  std::uint32_t hop = 1;

  struct Step {
    std::byte* target = nullptr;  ///< Null: into the slot.
    std::uint32_t bytes = 0;      ///< 0 beyond the last step.
  };

  [[nodiscard]] constexpr Step next() {
    while (base < count) {
      const RingLoop loop = ring_loop(base, count, chunk, ranks, element_bytes);
      const Extent extent = loop.extent(ring_chunk(position, hop, ranks), count);
      const std::uint64_t bytes = extent.count * element_bytes;
      if (done < bytes) {
        Step step{
            .bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(step_bytes, bytes - done))};
        if (hop >= ranks && output != nullptr) {
          step.target = output + extent.offset * element_bytes + done;
        }
        done += step.bytes;
        return step;
      }
      done = 0;
      if (++hop == 2 * ranks - 1) {
        hop = 1;
        base += loop.chunk * ranks;
      }
    }
    return {};
  }
};

}  // namespace weft
