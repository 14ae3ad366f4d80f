// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a device's last failure was, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/device_runtime.h"

namespace weft {

/// What the driver said of the calling thread's last failure.
[[nodiscard]] inline std::string device_failure_text(DeviceRuntime& runtime) {
  std::int64_t native = 0;
  const std::string_view said = runtime.last_failure(&native);
  return std::string(said.empty() ? "its device cannot" : said);
}

}  // namespace weft
