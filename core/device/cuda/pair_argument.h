// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What arguments of kernels of sends and receives hold of a launch: host code, pure. Of an argument
// that nobody has set, all that its kernel looks at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/device_runtime.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/pair_groups.h"
#include "core/device/cuda/ring_argument.h"
#include "core/device/packed_transfer.h"

namespace weft::device::cuda {

/// Of transfers that are as they are, in groups.
template <std::uint32_t kTransfers>
void fill(const Launch& launch, const PairGroups& groups, PairArgument<kTransfers>& argument) {
  argument.control = control_of(launch);
  std::ranges::copy(groups.begin, argument.begin);
  std::ranges::copy(groups.transfers, argument.transfers);
}

/// Of these, which are divided.
template <std::uint32_t kTransfers>
void fill(const Launch& launch, std::span<const PairTransfer> transfers, const PairGroups& groups,
          PackedPairArgument<kTransfers>& argument) {
  argument.control = control_of(launch);
  argument.views = launch.pair_views;
  std::ranges::copy(groups.begin, argument.begin);
  for (std::size_t i = 0; i < transfers.size(); ++i)
    pack_transfer(transfers[groups.order[i]], groups.after[i], argument.transfers[i]);
}

}  // namespace weft::device::cuda
