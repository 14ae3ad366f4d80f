// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A reduction that is looked up when it runs, as the host has one (core/device/host), for groups of
// several lanes: a kernel over it is compiled once for all types and operations. Which they are is
// asked once a slice, or once a payload of a line.
//
// Sums and products of integers come out alike with and without a sign, so one loop does both.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device/lane_loops.h"
#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/model/direct_peers.h"
#include "core/model/operation.h"
#include "core/model/work_item.h"

namespace weft::device {

/// Stands for a type in calls.
template <class T>
struct TypeTag {
  using Type = T;
};

/// Calls visit(TypeTag<T>) for the element type; not at all for a value that is none.
template <class Visit>
WEFT_HD void visit_type(weft_data_type type, const Visit& visit) {
  switch (type) {
    case WEFT_INT8:
      return visit(TypeTag<std::int8_t>{});
    case WEFT_UINT8:
      return visit(TypeTag<std::uint8_t>{});
    case WEFT_INT32:
      return visit(TypeTag<std::int32_t>{});
    case WEFT_UINT32:
      return visit(TypeTag<std::uint32_t>{});
    case WEFT_INT64:
      return visit(TypeTag<std::int64_t>{});
    case WEFT_UINT64:
      return visit(TypeTag<std::uint64_t>{});
    case WEFT_FLOAT16:
      return visit(TypeTag<Float16>{});
    case WEFT_FLOAT32:
      return visit(TypeTag<float>{});
    case WEFT_FLOAT64:
      return visit(TypeTag<double>{});
    case WEFT_BFLOAT16:
      return visit(TypeTag<Bfloat16>{});
    case WEFT_FLOAT8_E4M3:
      return visit(TypeTag<Float8E4M3>{});
    case WEFT_FLOAT8_E5M2:
      return visit(TypeTag<Float8E5M2>{});
    default:
      return;
  }
}

/// The same where a sign makes no difference: without it.
template <class Visit>
WEFT_HD void visit_unsigned_type(weft_data_type type, const Visit& visit) {
  switch (type) {
    case WEFT_INT8:
    case WEFT_UINT8:
      return visit(TypeTag<std::uint8_t>{});
    case WEFT_INT32:
    case WEFT_UINT32:
      return visit(TypeTag<std::uint32_t>{});
    case WEFT_INT64:
    case WEFT_UINT64:
      return visit(TypeTag<std::uint64_t>{});
    case WEFT_FLOAT16:
      return visit(TypeTag<Float16>{});
    case WEFT_FLOAT32:
      return visit(TypeTag<float>{});
    case WEFT_FLOAT64:
      return visit(TypeTag<double>{});
    case WEFT_BFLOAT16:
      return visit(TypeTag<Bfloat16>{});
    case WEFT_FLOAT8_E4M3:
      return visit(TypeTag<Float8E4M3>{});
    case WEFT_FLOAT8_E5M2:
      return visit(TypeTag<Float8E5M2>{});
    default:
      return;
  }
}

/// The same of floats of 16 and of 8 bits alone.
template <class Visit>
WEFT_HD void visit_narrow_type(weft_data_type type, const Visit& visit) {
  switch (type) {
    case WEFT_FLOAT16:
      return visit(TypeTag<Float16>{});
    case WEFT_BFLOAT16:
      return visit(TypeTag<Bfloat16>{});
    case WEFT_FLOAT8_E4M3:
      return visit(TypeTag<Float8E4M3>{});
    case WEFT_FLOAT8_E5M2:
      return visit(TypeTag<Float8E5M2>{});
    default:
      return;
  }
}

/// What a rank's own input is multiplied by.
template <class T>
struct Scaling {
  using Element = T;
  T factor;

  WEFT_HD T scale(T value) const { return Multiply::combine(value, factor); }
  WEFT_HD Line scale(Line line) const {
    struct Elements {
      T of[sizeof(Line) / sizeof(T)];
    };
    auto elements = std::bit_cast<Elements>(line);
    for (T& element : elements.of)
      element = scale(element);
    return std::bit_cast<Line>(elements);
  }
};

/// What reductions.h asks of a reduction. Small: it is passed by value.
class AnyReduction {
 public:
  AnyReduction() = default;
  /// An element size of 0 is that of no type: such a reduction does nothing. `divisor` is that of
  /// averages, `factor` that of kPremulSum, which is read now; WorkItem::rounds_each.
  WEFT_HD AnyReduction(weft_data_type type, weft_reduction reduction, std::uint32_t divisor,
                       const Factor& factor, bool rounds_each = false)
      : divisor_(divisor),
        type_(static_cast<std::uint8_t>(type)),
        reduction_(static_cast<std::uint8_t>(reduction)),
        element_bytes_(static_cast<std::uint8_t>(element_size(type))),
        accumulates_(weft::accumulates(type, reduction) && !rounds_each) {
    if (premultiplies()) {
      factor_ = factor.from == nullptr ? factor.bits : load_payload(factor.from, element_bytes_);
    }
  }

  [[nodiscard]] WEFT_HD std::uint32_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] WEFT_HD bool finishes() const { return reduction_ == WEFT_AVG; }
  [[nodiscard]] WEFT_HD bool premultiplies() const { return reduction_ == kPremulSum; }
  [[nodiscard]] WEFT_HD bool accumulates() const { return accumulates_; }

  /// Calls visit(r) with the TypedReduction that combines; it does not finish.
  template <class Visit>
  WEFT_HD void visit_combination(const Visit& visit) const {
    visit_combination_of(type_, reduction_, visit);
  }
  /// Calls visit(r) with the Average that finishes; finishes() must hold.
  template <class Visit>
  WEFT_HD void visit_average(const Visit& visit) const {
    const std::uint32_t divisor = divisor_;
    visit_type(type_,
               [&](auto tag) { visit(Average<typename decltype(tag)::Type>{.divisor = divisor}); });
  }
  /// Calls visit(s) with the Scaling of the rank's own input; premultiplies() must hold.
  template <class Visit>
  WEFT_HD void visit_scaling(const Visit& visit) const {
    visit_scaling_of(type_, factor_, visit);
  }

  /// For may_accumulate, of payloads: each in one call for all ranks.
  template <std::uint32_t kRanks, class Of>
  [[nodiscard]] WEFT_HD std::uint64_t accumulate_ranks(std::uint32_t ranks, const Of& of) const {
    PayloadOfEach payloads{};
    WEFT_UNROLL
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      if (rank < ranks) payloads.of[rank] = of(rank);
    return accumulate_payloads(type_, reduction_, divisor_, ranks, payloads);
  }
  [[nodiscard]] WEFT_HD std::uint64_t combine_payloads(std::uint64_t a, std::uint64_t b) const {
    return combine_payloads_of(type_, reduction_, a, b);
  }
  [[nodiscard]] WEFT_HD Line combine_lines(Line a, Line b) const {
    return combine_lines_of(type_, reduction_, a, b);
  }
  [[nodiscard]] WEFT_HD std::uint64_t finish_payload(std::uint64_t payload) const {
    return finishes() ? divide_payload(type_, divisor_, payload) : payload;
  }
  /// premultiplies() must hold.
  [[nodiscard]] WEFT_HD std::uint64_t premultiply_payload(std::uint64_t payload) const {
    return scale_payload(type_, factor_, payload);
  }
  [[nodiscard]] WEFT_HD static std::uint64_t load_payload(const std::byte* from,
                                                          std::uint64_t bytes) {
    const auto place = reinterpret_cast<std::uintptr_t>(from);
    if (bytes >= kLinePayload && place % kLinePayload == 0) return load_unit<std::uint64_t>(from);
    std::uint64_t payload = 0;
    if (bytes >= kLinePayload && place % sizeof(std::uint32_t) == 0) {
      payload = load_unit<std::uint32_t>(from + sizeof(std::uint32_t));
      return payload << 32 | load_unit<std::uint32_t>(from);
    }
    for (std::uint32_t i = 0; i < kLinePayload; ++i) {
      if (i < bytes) payload |= std::uint64_t{load_unit<std::uint8_t>(from + i)} << (8 * i);
    }
    return payload;
  }
  WEFT_HD static void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t bytes) {
    const auto place = reinterpret_cast<std::uintptr_t>(to);
    if (bytes >= kLinePayload && place % kLinePayload == 0) return store_unit(to, payload);
    if (bytes >= kLinePayload && place % sizeof(std::uint32_t) == 0) {
      store_unit(to, static_cast<std::uint32_t>(payload));
      store_unit(to + sizeof(std::uint32_t), static_cast<std::uint32_t>(payload >> 32));
      return;
    }
    for (std::uint32_t i = 0; i < kLinePayload; ++i) {
      if (i < bytes) store_unit(to + i, static_cast<std::uint8_t>(payload >> (8 * i)));
    }
  }

 private:
  struct PayloadOfEach {
    std::uint64_t of[kMostDirectRanks];
  };

  template <class Visit>
  WEFT_HD static void visit_combination_of(weft_data_type type, weft_reduction reduction,
                                           const Visit& visit) {
    switch (reduction) {
      case WEFT_PROD:
        return visit_unsigned_type(type,
                                   [&](auto tag) { visit(Prod<typename decltype(tag)::Type>{}); });
      case WEFT_MAX:
        return visit_type(type, [&](auto tag) { visit(Max<typename decltype(tag)::Type>{}); });
      case WEFT_MIN:
        return visit_type(type, [&](auto tag) { visit(Min<typename decltype(tag)::Type>{}); });
      default:  // averages and sums of multiplied inputs, too
        return visit_unsigned_type(type,
                                   [&](auto tag) { visit(Sum<typename decltype(tag)::Type>{}); });
    }
  }
  template <class Visit>
  WEFT_HD static void visit_scaling_of(weft_data_type type, std::uint64_t factor,
                                       const Visit& visit) {
    visit_unsigned_type(type, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      struct Payload {
        T of[kLinePayload / sizeof(T)];
      };
      visit(Scaling<T>{.factor = std::bit_cast<Payload>(factor).of[0]});
    });
  }

  // Outlined, and by value, so that nobody's reduction has to lie in memory for them.
  WEFT_HD_OUTLINE static std::uint64_t combine_payloads_of(weft_data_type type,
                                                           weft_reduction reduction,
                                                           std::uint64_t a, std::uint64_t b) {
    std::uint64_t result = 0;
    visit_combination_of(type, reduction,
                         [&](const auto& typed) { result = typed.combine_payloads(a, b); });
    return result;
  }
  WEFT_HD_OUTLINE static Line combine_lines_of(weft_data_type type, weft_reduction reduction,
                                               Line a, Line b) {
    Line result{};
    visit_combination_of(type, reduction, [&](const auto& typed) {
      result = device::combine_lines<std::remove_cvref_t<decltype(typed)>>(a, b);
    });
    return result;
  }
  WEFT_HD_OUTLINE static std::uint64_t accumulate_payloads(weft_data_type type,
                                                           weft_reduction reduction,
                                                           std::uint32_t divisor,
                                                           std::uint32_t ranks,
                                                           PayloadOfEach payloads) {
    std::uint64_t result = 0;
    visit_narrow_type(type, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto combine_by = [&](const auto& typed) {
        result = typed.template accumulate_ranks<kMostDirectRanks>(
            ranks, [&payloads](std::uint32_t rank) { return payloads.of[rank]; });
      };
      switch (reduction) {
        case WEFT_PROD:
          return combine_by(Prod<T>{});
        case WEFT_AVG:
          return combine_by(Average<T>{.divisor = divisor});
        default:
          return combine_by(Sum<T>{});
      }
    });
    return result;
  }
  WEFT_HD_OUTLINE static std::uint64_t divide_payload(weft_data_type type, std::uint32_t divisor,
                                                      std::uint64_t payload) {
    std::uint64_t result = 0;
    visit_type(type, [&](auto tag) {
      result = Average<typename decltype(tag)::Type>{.divisor = divisor}.finish_payload(payload);
    });
    return result;
  }
  WEFT_HD_OUTLINE static std::uint64_t scale_payload(weft_data_type type, std::uint64_t factor,
                                                     std::uint64_t payload) {
    std::uint64_t result = 0;
    visit_scaling_of(type, factor, [&](const auto& scaling) {
      using T = typename std::remove_cvref_t<decltype(scaling)>::Element;
      struct Payload {
        T of[kLinePayload / sizeof(T)];
      };
      auto elements = std::bit_cast<Payload>(payload);
      for (T& element : elements.of)
        element = scaling.scale(element);
      result = std::bit_cast<std::uint64_t>(elements);
    });
    return result;
  }

  std::uint64_t factor_ = 0;  // an element, in the first bytes
  std::uint32_t divisor_ = 1;
  std::uint8_t type_ = 0;
  std::uint8_t reduction_ = 0;
  std::uint8_t element_bytes_ = 0;
  bool accumulates_ = false;
};

/// What calls that only move ask of a reduction, where elements are bytes (moved_as_bytes()). What
/// begins or ends within a word is outlined, for all ranks' payloads.
struct MovedBytes {
  WEFT_HD static constexpr std::uint32_t element_bytes() { return 1; }
  [[nodiscard]] WEFT_HD static std::uint64_t load_payload(const std::byte* from,
                                                          std::uint64_t bytes) {
    const bool whole =
        bytes >= kLinePayload && reinterpret_cast<std::uintptr_t>(from) % kLinePayload == 0;
    return whole ? load_unit<std::uint64_t>(from) : load_pieces(from, bytes);
  }
  WEFT_HD static void store_payload(std::byte* to, std::uint64_t payload, std::uint64_t bytes) {
    if (bytes >= kLinePayload && reinterpret_cast<std::uintptr_t>(to) % kLinePayload == 0) {
      return store_unit(to, payload);
    }
    store_pieces(to, payload, bytes);
  }

 private:
  WEFT_HD_OUTLINE static std::uint64_t load_pieces(const std::byte* from, std::uint64_t bytes) {
    return AnyReduction::load_payload(from, bytes);
  }
  WEFT_HD_OUTLINE static void store_pieces(std::byte* to, std::uint64_t payload,
                                           std::uint64_t bytes) {
    AnyReduction::store_payload(to, payload, bytes);
  }
};

}  // namespace weft::device
