// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What elements are reduced by: values that kernels are templates over. Those here know element and
// operation at compile time, for GPUs; the host looks both up when it runs
// (core/device/host/host_reduction.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weft/types.h>

#include "core/device/narrow_float.h"
#include "core/device/portability.h"

namespace weft::device {

/// Bytes of payload of a line of the LL protocol; see flagged_line.h.
inline constexpr std::uint32_t kLinePayload = 8;

/// a + b. Integers wrap; floats of 16 and 8 bits are added as floats and rounded.
struct Add {
  template <class T>
  WEFT_HD static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else if constexpr (narrow_float<T>) {
      return from_float<T>(to_float(a) + to_float(b));
    } else {
      return a + b;
    }
  }
};

/// a * b, as Add.
struct Multiply {
  template <class T>
  WEFT_HD static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else if constexpr (narrow_float<T>) {
      return from_float<T>(to_float(a) * to_float(b));
    } else {
      return a * b;
    }
  }
};

/// The larger of both. A NaN on either side gives a NaN; of two equal values, zeros of both signs
/// included, the right one. A ring computes each element on one rank and copies it to the others,
/// so all ranks hold the same bits.
struct TakeMax {
  template <class T>
  WEFT_HD static T combine(T a, T b) {
    if constexpr (narrow_float<T>) {
      return from_float<T>(combine(to_float(a), to_float(b)));
    } else if constexpr (std::is_floating_point_v<T>) {
      return a > b || a != a ? a : b;  // NOLINT(misc-redundant-expression): true for a NaN alone
    } else {
      return a > b ? a : b;
    }
  }
};

/// The smaller of both, as TakeMax.
struct TakeMin {
  template <class T>
  WEFT_HD static T combine(T a, T b) {
    if constexpr (narrow_float<T>) {
      return from_float<T>(combine(to_float(a), to_float(b)));
    } else if constexpr (std::is_floating_point_v<T>) {
      return a < b || a != a ? a : b;  // NOLINT(misc-redundant-expression): true for a NaN alone
    } else {
      return a < b ? a : b;
    }
  }
};

/// value / divisor; integers round towards zero.
template <class T>
WEFT_HD T divide(T value, std::uint32_t divisor) {
  if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
    // Exact, as a quotient of 32 bits is no nearer to the next integer than 2^-32; and in vectors.
    return static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));
  } else if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
  } else if constexpr (narrow_float<T>) {
    return from_float<T>(to_float(value) / static_cast<float>(divisor));
  } else {
    return value / static_cast<T>(divisor);
  }
}

/// Whether elements of several ranks are combined as float32 and rounded once.
template <class T, class Op>
inline constexpr bool kAccumulates =
    narrow_float<T> && (std::is_same_v<Op, Add> || std::is_same_v<Op, Multiply>);

/// What a kernel asks of a reduction by value:
///  - element_bytes().
///  - finishes(): whether the complete sum is still to be divided, by finish_payload() or by
///    Memory::finish.
///  - combine_payloads(a, b), finish_payload(a): all elements of a line's payload at once.
///  - load_payload(from, bytes): the first 8 of `bytes` bytes at `from`, which is aligned to its
///    element; zeros beyond. store_payload(to, payload, bytes): the reverse.
/// `Memory::reduce` and `Memory::finish` take it for whole slices.
template <class T, class Op, bool kAverages = false>
struct TypedReduction {
  using Element = T;

  std::uint32_t divisor = 1;  ///< Of averages: the number of ranks.

  WEFT_HD static T combine(T a, T b) { return Op::combine(a, b); }
  WEFT_HD T finish(T value) const {
    if constexpr (kAverages) return divide(value, divisor);
    return value;
  }
  WEFT_HD static constexpr std::uint32_t element_bytes() { return sizeof(T); }
  WEFT_HD static constexpr bool finishes() { return kAverages; }

  /// For may_accumulate.
  WEFT_HD static constexpr bool accumulates()
    requires kAccumulates<T, Op>
  {
    return true;
  }
  template <std::uint32_t kRanks, class Of>
    requires kAccumulates<T, Op>
  [[nodiscard]] WEFT_HD auto accumulate_ranks(std::uint32_t ranks, const Of& of) const {
    using Bits = std::remove_cvref_t<decltype(of(std::uint32_t{}))>;
    constexpr std::uint32_t kCount = sizeof(Bits) / sizeof(T);
    struct Elements {
      T of[kCount];
    };
    float sums[kCount];
    const auto first = std::bit_cast<Elements>(of(0));
    for (std::uint32_t i = 0; i < kCount; ++i)
      sums[i] = to_float(first.of[i]);
    WEFT_UNROLL
    for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
      if (rank >= ranks) continue;
      const auto next = std::bit_cast<Elements>(of(rank));
      for (std::uint32_t i = 0; i < kCount; ++i)
        sums[i] = Op::combine(sums[i], to_float(next.of[i]));
    }
    Elements result;
    for (std::uint32_t i = 0; i < kCount; ++i)
      result.of[i] = from_float<T>(kAverages ? divide(sums[i], divisor) : sums[i]);
    return std::bit_cast<Bits>(result);
  }

  WEFT_HD static std::uint64_t combine_payloads(std::uint64_t a, std::uint64_t b) {
    const auto left = std::bit_cast<Payload>(a);
    const auto right = std::bit_cast<Payload>(b);
    Payload result;
    for (std::uint32_t i = 0; i < Payload::kCount; ++i)
      result.of[i] = combine(left.of[i], right.of[i]);
    return std::bit_cast<std::uint64_t>(result);
  }
  WEFT_HD std::uint64_t finish_payload(std::uint64_t payload) const {
    if constexpr (!kAverages) return payload;
    auto elements = std::bit_cast<Payload>(payload);
    for (std::uint32_t i = 0; i < Payload::kCount; ++i)
      elements.of[i] = finish(elements.of[i]);
    return std::bit_cast<std::uint64_t>(elements);
  }
  WEFT_HD static std::uint64_t load_payload(const std::byte* from, std::uint64_t bytes) {
    if (bytes >= kLinePayload && reinterpret_cast<std::uintptr_t>(from) % kLinePayload == 0) {
      return *reinterpret_cast<const std::uint64_t*>(from);
    }
    auto line = std::bit_cast<Payload>(std::uint64_t{0});
    for (std::uint32_t i = 0; i < Payload::kCount; ++i) {
      if (i * sizeof(T) < bytes) line.of[i] = reinterpret_cast<const T*>(from)[i];
    }
    return std::bit_cast<std::uint64_t>(line);
  }
  WEFT_HD static void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t bytes) {
    if (bytes >= kLinePayload && reinterpret_cast<std::uintptr_t>(to) % kLinePayload == 0) {
      *reinterpret_cast<std::uint64_t*>(to) = payload;
      return;
    }
    const auto line = std::bit_cast<Payload>(payload);
    for (std::uint32_t i = 0; i < Payload::kCount; ++i) {
      if (i * sizeof(T) < bytes) reinterpret_cast<T*>(to)[i] = line.of[i];
    }
  }

 private:
  struct Payload {
    static constexpr std::uint32_t kCount = kLinePayload / sizeof(T);
    T of[kCount];
  };
};

template <class T>
using Sum = TypedReduction<T, Add>;
template <class T>
using Prod = TypedReduction<T, Multiply>;
template <class T>
using Max = TypedReduction<T, TakeMax>;
template <class T>
using Min = TypedReduction<T, TakeMin>;
/// The sum, divided by the number of ranks when it is complete.
template <class T>
using Average = TypedReduction<T, Add, true>;

/// Stands where an algorithm only copies.
struct NoReduction {};

}  // namespace weft::device
