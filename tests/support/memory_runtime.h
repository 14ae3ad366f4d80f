// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A device that has memory and no kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "core/base/device_runtime.h"

namespace weft::test {

/// Host memory and nothing else; counts what is out.
class MemoryRuntime : public DeviceRuntime {
 public:
  [[nodiscard]] std::string_view name() const override { return "test"; }
  [[nodiscard]] bool has_kernel(const Task& /*task*/) const override { return false; }
  weft_result allocate(std::size_t bytes, void** out) override {
    if (fail) return WEFT_ERROR_OUT_OF_MEMORY;
    *out = std::aligned_alloc(128, (bytes + 127) / 128 * 128);
    std::fill_n(static_cast<char*>(*out), bytes, 0);
    ++live;
    latest = {static_cast<std::byte*>(*out), bytes};
    return WEFT_OK;
  }
  void release(void* memory) override {
    if (memory != nullptr) --live;
    std::free(memory);
  }
  weft_result allocate_shared(std::size_t bytes, void** out) override {
    return allocate(bytes, out);
  }
  void release_shared(void* memory) override { release(memory); }
  weft_result create_stream(DeviceStream** /*out*/) override { return WEFT_ERROR_UNSUPPORTED; }
  void destroy_stream(DeviceStream* /*stream*/) override {}
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> /*launches*/) override {
    return WEFT_ERROR_UNSUPPORTED;
  }
  weft_result synchronize(DeviceStream* /*stream*/) override { return WEFT_ERROR_UNSUPPORTED; }
  weft_result query(DeviceStream* /*stream*/) override { return WEFT_ERROR_UNSUPPORTED; }

  [[nodiscard]] std::string_view last_failure(std::int64_t* native) override {
    *native = fail ? 2 : 0;
    return fail ? "the driver has no more" : "";
  }

  int live = 0;
  std::span<std::byte> latest{};  ///< What was asked for last.
  bool fail = false;
};

}  // namespace weft::test
