// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/host/host_reduction.h"

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

struct OfType {
  CombinePayloads combine[kCombineCount];
  DivideLoop divide;
};

template <class T>
constexpr OfType kOf = {{&Sum<T>::combine_payloads, &Prod<T>::combine_payloads,
                         &Max<T>::combine_payloads, &Min<T>::combine_payloads},
                        &divide_loop<T>};

// By weft_data_type.
constexpr OfType kTypes[kLoopTypeCount] = {
    kOf<std::int8_t>,   kOf<std::uint8_t>, kOf<std::int32_t>, kOf<std::uint32_t>, kOf<std::int64_t>,
    kOf<std::uint64_t>, kOf<Float16>,      kOf<float>,        kOf<double>,        kOf<Bfloat16>,
};

}  // namespace

bool reducible(weft_data_type type, weft_reduction reduction) {
  return type >= 0 && static_cast<std::uint32_t>(type) < kLoopTypeCount && reduction >= WEFT_SUM &&
         reduction <= WEFT_AVG;
}

HostReduction::HostReduction(const ElementLoops& loops, weft_data_type type,
                             weft_reduction reduction, std::uint32_t divisor)
    : divisor_(divisor), element_bytes_(static_cast<std::uint32_t>(element_size(type))) {
  const weft_reduction combined = reduction == WEFT_AVG ? WEFT_SUM : reduction;
  loop_ = loops.reduce[loop_index(type, combined)];
  combine_payloads_ = kTypes[type].combine[combined];
  if (reduction == WEFT_AVG) divide_ = kTypes[type].divide;
}

}  // namespace weft::device
