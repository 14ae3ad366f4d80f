// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From a type and a reduction that are known at run time to one that the compiler knows: enough of
// them for tests of the templates.
#pragma once

#include <cstdint>

#include "core/device/portability.h"
#include "core/device/reductions.h"
#include "core/device/work_item_kernel.h"

namespace weft::device::testing {

template <class T, class Run>
WEFT_HD KernelOutcome with_reduction_of(const WorkItem& item, Run&& run) {
  switch (item.reduction) {
    case WEFT_SUM:
      return run(Sum<T>{});
    case WEFT_PROD:
      return run(Prod<T>{});
    case WEFT_MAX:
      return run(Max<T>{});
    case WEFT_MIN:
      return run(Min<T>{});
    case WEFT_AVG:
      return run(Average<T>{.divisor = item.ranks});
    default:
      return unsupported();
  }
}

/// Answers what `run(reduction)` answers. Types: float32, int32, float16 and bfloat16; other types
/// reach the operations that only copy.
template <class Run>
WEFT_HD KernelOutcome with_reduction(const WorkItem& item, Run&& run) {
  switch (item.type) {
    case WEFT_INT32:
      return with_reduction_of<std::int32_t>(item, run);
    case WEFT_FLOAT16:
      return with_reduction_of<Float16>(item, run);
    case WEFT_BFLOAT16:
      return with_reduction_of<Bfloat16>(item, run);
    default:
      if (item.type != WEFT_FLOAT32 && reduces(item.operation)) return unsupported();
      return with_reduction_of<float>(item, run);
  }
}

}  // namespace weft::device::testing
