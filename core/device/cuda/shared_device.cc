// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/shared_device.h"

#include <map>

#include "core/device/cuda/scope.h"

namespace weft::device::cuda {

SharedDevice::~SharedDevice() {
  if (whole_over == nullptr) return;
  const Scope scope(index);
  static_cast<void>(cudaEventDestroy(whole_over));
}

std::shared_ptr<SharedDevice> shared_device(std::int32_t index) {
  static std::mutex mutex;
  static std::map<std::int32_t, std::weak_ptr<SharedDevice>> devices;
  const std::scoped_lock lock(mutex);
  std::weak_ptr<SharedDevice>& known = devices[index];
  std::shared_ptr<SharedDevice> shared = known.lock();
  if (shared == nullptr) {
    shared = std::make_shared<SharedDevice>(index);
    known = shared;
  }
  return shared;
}

}  // namespace weft::device::cuda
