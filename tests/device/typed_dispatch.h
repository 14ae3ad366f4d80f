// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a type and a reduction that are known at run time to one that the compiler knows: enough of
// them for tests of the templates.
#pragma once

#include <type_traits>

#include "core/device/reductions.h"
#include "core/device/work_item_kernel.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {

template <class T, class Op, bool kAverages>
bool asks_for(const WorkItem& item, const TypedReduction<T, Op, kAverages>& /*reduction*/) {
  if (item.type != kTypeOf<T>) return false;
  if (kAverages) return item.reduction == WEFT_AVG;
  if (std::is_same_v<Op, Add>) return item.reduction == WEFT_SUM;
  if (std::is_same_v<Op, Multiply>) return item.reduction == WEFT_PROD;
  return item.reduction == (std::is_same_v<Op, TakeMax> ? WEFT_MAX : WEFT_MIN);
}

/// What a test asks for: each makes the compiler write its kernel once more.
template <class... All>
struct Reductions {};

template <class... All>
bool asks_for_any(const WorkItem& item, Reductions<All...> /*these*/) {
  return (asks_for(item, All{}) || ...);
}

/// Answers what `run(reduction)` answers, by the one of these that the item asks for; an operation
/// that only copies, and asks for none of them, takes the first.
template <class First, class... Others, class Run>
KernelOutcome with_reduction(Reductions<First, Others...> these, const WorkItem& item, Run&& run) {
  if (asks_for(item, First{}) || (!reduces(item.operation) && !asks_for_any(item, these))) {
    First reduction;
    reduction.divisor = item.ranks;
    return run(reduction);
  }
  if constexpr (sizeof...(Others) != 0) {
    return with_reduction(Reductions<Others...>{}, item, run);
  }
  return unsupported();
}

}  // namespace weft::device::testing
