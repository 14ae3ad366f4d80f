// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/host/host_reduction.h"

#include <cstring>

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
    divide_loop<Bfloat16>,
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
  if (reduction == WEFT_AVG && reducible(type, reduction)) divide_ = kDivide[type];
}

}  // namespace weft::device
