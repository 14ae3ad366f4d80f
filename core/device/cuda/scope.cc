// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/scope.h"

#include "core/device/cuda/driver_call.h"

namespace weft::device::cuda {

Scope::Scope(std::int32_t index) {
  static_cast<void>(WEFT_DRIVER(cuCtxGetCurrent, &before_));
  int current = index;
  if (before_ != nullptr) static_cast<void>(cudaGetDevice(&current));
  changed_ = before_ == nullptr || current != index;
  if (changed_) static_cast<void>(cudaSetDevice(index));
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
}

Scope::~Scope() {
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  if (changed_) static_cast<void>(WEFT_DRIVER(cuCtxSetCurrent, before_));
}

}  // namespace weft::device::cuda
