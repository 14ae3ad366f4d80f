// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which GPUs of several hosts NVLink joins, as the management library (NVML) tells it.
#pragma once

#include <cstdint>
#include <string>

namespace weft::device::cuda {

/// "<cluster's 32 hex digits>-<clique>" of the memory fabric that CUDA device `device` has joined;
/// empty where it has none, or nobody tells. `bus_id` is its PCI address. Loads NVML only where the
/// driver can hand out memory for a fabric.
std::string memory_fabric_of(std::int32_t device, const std::string& bus_id);

}  // namespace weft::device::cuda
