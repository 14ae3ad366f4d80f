// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Memory for lanes that share lines and may come to them from different places.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/cuda/cta_policies.cuh"

namespace weft::device::cuda {

template <class Base>
class GatheredLoads : public Base {
 public:
  using Base::Base;

  [[nodiscard]] __device__ static Line load_wide(CtaGroup& group, const std::byte* from,
                                                 std::uint64_t flag, bool last) {
    __syncwarp();
    return Base::load_wide(group, from, flag, last);
  }
};

}  // namespace weft::device::cuda
