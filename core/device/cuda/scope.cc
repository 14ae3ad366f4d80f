// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/scope.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "core/device/cuda/driver_call.h"

namespace weft::device::cuda {
namespace {

/// Of devices of higher numbers it is asked for each time.
constexpr std::size_t kKnownDevices = 64;

/// The context that the runtime has for a device, as it was last seen to be; null: not yet.
std::atomic<CUcontext>* known_context(std::int32_t index) {
  static constinit std::array<std::atomic<CUcontext>, kKnownDevices> known{};
  const auto place = static_cast<std::size_t>(index);
  return place < known.size() ? &known[place] : nullptr;
}

}  // namespace

CUcontext current_context() {
  CUcontext current = nullptr;
  static_cast<void>(WEFT_DRIVER(cuCtxGetCurrent, &current));
  return current;
}

Scope::Scope(std::int32_t index) : before_(current_context()) {
  std::atomic<CUcontext>* const known = known_context(index);
  changed_ =
      before_ == nullptr || known == nullptr || before_ != known->load(std::memory_order_relaxed);
  if (changed_ && cudaSetDevice(index) == cudaSuccess && known != nullptr) {
    known->store(current_context(), std::memory_order_relaxed);
  }
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
}

Scope::~Scope() {
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  if (changed_) static_cast<void>(WEFT_DRIVER(cuCtxSetCurrent, before_));
}

}  // namespace weft::device::cuda
