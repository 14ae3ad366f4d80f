// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The error of a device's call that failed, with the words of its driver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/device_runtime.h"
#include "core/base/error.h"

namespace weft {

/// Of the calling thread's last call, which answered `code`.
[[nodiscard]] inline Error device_error(DeviceRuntime& runtime, weft_result code, std::string what,
                                        std::string hint = {}) {
  std::int64_t native = 0;
  const std::string_view said = runtime.last_failure(&native);
  if (said.empty()) return Error(code, std::move(what), std::move(hint));
  what.append(": ").append(said);
  return Error(code, std::move(what), std::move(hint)).with_native(ErrorSource::kCuda, native);
}

}  // namespace weft
