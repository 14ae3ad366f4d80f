// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Opens CUDA devices through libweft-cuda.so, which is loaded when the first is asked for: this
// library links nothing of CUDA and works where there is none.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/device_runtime.h"
#include "core/base/error.h"

namespace weft {

/// DEVICE with what is missing: the library, the driver or the device.
Result<std::unique_ptr<DeviceRuntime>> open_cuda_device(std::int32_t index);

}  // namespace weft
