// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/made_reductions.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "core/model/operation.h"

namespace weft {
namespace {

Error unknown(weft_reduction number) {
  if (number < ReductionNumbers::kFirst) {
    return Error(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} is no reduction", number),
                 "one of WEFT_SUM, WEFT_PROD, WEFT_MAX, WEFT_MIN, WEFT_AVG");
  }
  return Error(WEFT_ERROR_INVALID_ARGUMENT,
               fmt::format("reduction {} is none of this communicator", number),
               "use it with the communicator that it was made for, before it is destroyed");
}

}  // namespace

ReductionNumbers::ReductionNumbers() : next_(std::random_device{}()) {}

weft_reduction ReductionNumbers::next() {
  constexpr std::uint32_t kCount = INT32_MAX - kFirst;
  return kFirst + static_cast<weft_reduction>(next_.fetch_add(1) % kCount);
}

weft_reduction MadeReductions::add(weft_data_type type, const Factor& factor) {
  weft_reduction number = numbers_.next();
  while (std::ranges::find(made_, number, &Made::number) != made_.end())
    number = numbers_.next();
  made_.push_back({.number = number, .type = type, .factor = factor});
  return number;
}

Result<Factor> MadeReductions::find(weft_reduction number, weft_data_type type) const {
  const auto made = std::ranges::find(made_, number, &Made::number);
  if (made == made_.end()) return fail(unknown(number));
  if (made->type != type) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("reduction {} multiplies {}, but the call is of {}", number,
                            data_type_name(made->type), data_type_name(type)),
                "make one for each type");
  }
  return made->factor;
}

Status MadeReductions::remove(weft_reduction number) {
  const auto made = std::ranges::find(made_, number, &Made::number);
  if (made == made_.end()) return fail(unknown(number));
  made_.erase(made);
  return {};
}

}  // namespace weft
