// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which kernels may be set up while the one before them in their stream runs: host code, pure.
#pragma once

#include <cstdint>

#include "core/base/device_runtime.h"
#include "core/device/cuda/kernels.h"

namespace weft::device::cuda {

static_assert(kCtasThatMayComeEarly == kGroupsThatMayComeEarly);

/// A kernel that is set up early holds its multiprocessors while it waits. Beside another
/// communicator, whose kernels may wait for those of other ranks that wait for these, two of one
/// and two of the other have to fit (core/comm/co_residency.h): (64 + 2) * 2 CTAs onto 132
/// multiprocessors. Ranks that share a device have half of it each, for both.
[[nodiscard]] constexpr bool may_come_early(const Launch& launch, std::uint32_t ctas) {
  return launch.own_processors || launch.shares_device || ctas <= kCtasThatMayComeEarly;
}

}  // namespace weft::device::cuda
