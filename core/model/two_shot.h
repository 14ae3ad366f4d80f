// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a direct two-shot all-reduce cuts its elements, and where its payload lies in the halves of
// inboxes that are not made for lines: what plans announce and kernels do.
//
// A call is cut into pieces, a piece into a range for each rank, which that rank reduces, and a
// range into a share for each part of a rank's kernel. Ranges and pieces do not depend on the
// number of parts.
//
// Model: tests/models/two_shot.pml
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/model/direct_peers.h"
#include "core/model/ring_geometry.h"

namespace weft {

/// What stands at the beginning of a half of an inbox, one for each part.
struct alignas(64) DirectHeader {
  std::uint64_t call;     ///< Number of the exchange, from 1 on; posted last.
  std::uint64_t tag;      ///< Of the call that the payload belongs to.
  std::uint32_t waiters;  ///< Of `call`.
  std::uint64_t count;    ///< Of a one-shot between CPUs: the elements, of which a tag has a hash.
};

/// The most bytes of a range.
inline constexpr std::uint64_t kMostTwoShotRange = 2 * kMostDirectBytes;

/// What a plain half with so many headers cannot hold payload in: each part has a place of its own,
/// whose size is rounded up to whole grains.
[[nodiscard]] constexpr std::uint64_t plain_spent_bytes(std::uint32_t headers) {
  return headers * sizeof(DirectHeader) + (headers > 1 ? headers * kChunkGrainBytes : 0);
}

/// Bytes of a rank's range, whole grains, that fit into a plain half with so many headers.
[[nodiscard]] constexpr std::uint64_t plain_range_bytes(std::uint64_t half_bytes,
                                                        std::uint32_t headers) {
  const std::uint64_t spent = plain_spent_bytes(headers);
  return half_bytes < spent ? 0 : (half_bytes - spent) / kChunkGrainBytes * kChunkGrainBytes;
}

/// Bytes of a plain half for ranges of so many, a multiple of 128.
[[nodiscard]] constexpr std::uint64_t plain_half_bytes(std::uint64_t range_bytes,
                                                       std::uint32_t headers) {
  return (range_bytes + plain_spent_bytes(headers) + 127) / 128 * 128;
}

/// The piece that begins at element `base` of `count`, base < count: rank r's range is its
/// extent(r, count). `range` elements at most, a multiple of a grain, go to a rank.
[[nodiscard]] constexpr RingLoop two_shot_piece(std::uint64_t base, std::uint64_t count,
                                                std::uint64_t range, std::uint32_t ranks,
                                                std::uint64_t element_bytes) {
  const std::uint64_t left = count - base;
  if (left >= range * ranks) return {.base = base, .chunk = range};
  const std::uint64_t each = quotient(left + ranks - 1, ranks);
  return {.base = base,
          .chunk = std::min(range, rounded_to_grains(each, grain_elements(element_bytes)))};
}

/// What part `part` of `parts` has of a range; may be empty.
[[nodiscard]] constexpr Extent two_shot_share(Extent range, std::uint32_t part, std::uint32_t parts,
                                              std::uint64_t element_bytes) {
  const std::uint64_t each = quotient(range.count + parts - 1, parts);
  const std::uint64_t share = rounded_to_grains(each, grain_elements(element_bytes));
  const std::uint64_t begin = std::min(range.count, part * share);
  return {.offset = range.offset + begin, .count = std::min(share, range.count - begin)};
}

/// Where part `part`'s payload begins in a plain half with `headers` headers, in bytes. The same in
/// all pieces of a call, since parts do not wait for each other.
[[nodiscard]] constexpr std::uint64_t two_shot_place(std::uint64_t range_bytes, std::uint32_t part,
                                                     std::uint32_t parts, std::uint32_t headers) {
  const std::uint64_t each = quotient(range_bytes + parts - 1, parts);
  const std::uint64_t place = rounded_to_grains(each, kChunkGrainBytes);
  return headers * sizeof(DirectHeader) + part * place;
}

}  // namespace weft
