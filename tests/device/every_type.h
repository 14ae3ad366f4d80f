// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// All element types, for tests that go through them.
#pragma once

#include <cstdint>

#include "core/device/float8.h"
#include "core/device/half.h"

namespace weft::device::testing {

/// Calls check.operator()<T>() for each.
template <class Check>
void for_each_type(const Check& check) {
  check.template operator()<std::int8_t>();
  check.template operator()<std::uint8_t>();
  check.template operator()<std::int32_t>();
  check.template operator()<std::uint32_t>();
  check.template operator()<std::int64_t>();
  check.template operator()<std::uint64_t>();
  check.template operator()<Float16>();
  check.template operator()<float>();
  check.template operator()<double>();
  check.template operator()<Bfloat16>();
  check.template operator()<Float8E4M3>();
  check.template operator()<Float8E5M2>();
}

}  // namespace weft::device::testing
