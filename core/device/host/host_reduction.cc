// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/host/host_reduction.h"

#include <algorithm>
#include <cstring>

#include "core/model/direct_peers.h"
#include "core/model/operation.h"

namespace weft::device {
namespace {

template <class T>
void divide_loop(std::byte* first, std::byte* second, std::uint64_t count, std::uint32_t divisor) {
  for (std::uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, first + i * sizeof(T), sizeof(T));
    value = divide(value, divisor);
    std::memcpy(first + i * sizeof(T), &value, sizeof(T));
  }
  if (second != nullptr) std::memcpy(second, first, count * sizeof(T));
}

// By weft_data_type.
constexpr DivideLoop kDivide[kLoopTypeCount] = {
    divide_loop<std::int8_t>,   divide_loop<std::uint8_t>, divide_loop<std::int32_t>,
    divide_loop<std::uint32_t>, divide_loop<std::int64_t>, divide_loop<std::uint64_t>,
    divide_loop<Float16>,       divide_loop<float>,        divide_loop<double>,
    divide_loop<Bfloat16>,      divide_loop<Float8E4M3>,   divide_loop<Float8E5M2>,
};

}  // namespace

bool reducible(weft_data_type type, weft_reduction reduction) {
  return type >= 0 && static_cast<std::uint32_t>(type) < kLoopTypeCount && reduction >= WEFT_SUM &&
         reduction <= kPremulSum;
}

Premultiplier::Premultiplier(const ElementLoops& loops, weft_data_type type, const Factor& factor)
    : loop_(loops.reduce[loop_index(type, WEFT_PROD)]),
      element_bytes_(static_cast<std::uint32_t>(element_size(type))) {
  std::byte element[sizeof(factor.bits)] = {};
  if (factor.from == nullptr) {
    std::memcpy(element, &factor.bits, element_bytes_);
  } else {
    std::memcpy(element, factor.from, element_bytes_);
  }
  for (std::size_t at = 0; at < kTileBytes; at += element_bytes_)
    std::memcpy(factors_ + at, element, element_bytes_);
}

void Premultiplier::multiply(std::byte* to, const std::byte* from, std::uint64_t count) const {
  const std::uint64_t most = kTileBytes / element_bytes_;
  while (count != 0) {
    const std::uint64_t now = std::min(count, most);
    loop_(to, nullptr, from, factors_, now);
    to += now * element_bytes_;
    from += now * element_bytes_;
    count -= now;
  }
}

HostReduction::HostReduction(const ElementLoops& loops, weft_data_type type,
                             weft_reduction reduction, std::uint32_t divisor,
                             const Premultiplier* premultiplier, bool rounds_each)
    : premultiplier_(premultiplier),
      divisor_(divisor),
      element_bytes_(static_cast<std::uint32_t>(element_size(type))) {
  const bool sums = reduction == WEFT_AVG || reduction == kPremulSum;
  const weft_reduction combined = sums ? WEFT_SUM : reduction;
  loop_ = loops.reduce[loop_index(type, combined)];
  if (reduction == WEFT_AVG && reducible(type, reduction)) divide_ = kDivide[type];
  if (weft::accumulates(type, reduction) && !rounds_each) {
    accumulate_ = loops.accumulate[accumulate_index(type, reduction)];
  }
}

void HostReduction::accumulate(std::byte* first, std::byte* second, const std::byte* const* from,
                               std::uint32_t ranks, std::uint32_t own, std::uint64_t count) const {
  const float divisor = finishes() ? static_cast<float>(divisor_) : 1;
  if (!premultiplies()) {
    // Of two ranks one step is all, and its loop is faster.
    if (ranks == 2 && !finishes()) return loop_(first, second, from[0], from[1], count);
    return accumulate_(first, second, from, ranks, count, divisor);
  }
  // Tile by tile, as premultiply_reduce().
  alignas(64) std::byte tile[Premultiplier::kTileBytes];
  const std::uint64_t most = sizeof(tile) / element_bytes_;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t now = std::min(count - done, most);
    const std::uint64_t at = done * element_bytes_;
    const std::byte* tiles[kMostDirectRanks];
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      tiles[rank] = rank == own ? tile : from[rank] + at;
    premultiplier_->multiply(tile, from[own] + at, now);
    accumulate_(first + at, second == nullptr ? nullptr : second + at, tiles, ranks, now, divisor);
    done += now;
  }
}

// A tile is read before anything is written where it lay: `first` may be the input.
void HostReduction::premultiply_reduce(std::byte* first, std::byte* second, const std::byte* other,
                                       const std::byte* input, std::uint64_t count,
                                       bool input_first) const {
  alignas(64) std::byte tile[Premultiplier::kTileBytes];
  const std::uint64_t most = sizeof(tile) / element_bytes_;
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t now = std::min(count - done, most);
    const std::uint64_t at = done * element_bytes_;
    premultiplier_->multiply(tile, input + at, now);
    loop_(first + at, second == nullptr ? nullptr : second + at, input_first ? tile : other + at,
          input_first ? other + at : tile, now);
    done += now;
  }
}

}  // namespace weft::device
