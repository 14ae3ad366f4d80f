// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The driver's version and clocks; declared by hand, since nvml.h is not everywhere.
#pragma once

#include <array>

#include "bench/gpu/loading.h"

namespace weft::gpu_bench {

class NvmlApi {
 public:
  NvmlApi() {
    const SharedObject library("libnvidia-ml.so.1");
    int (*init)() = nullptr;
    library.get(init, "nvmlInit_v2");
    library.get(driver_version_, "nvmlSystemGetDriverVersion");
    library.get(device_by_bus_id_, "nvmlDeviceGetHandleByPciBusId_v2");
    library.get(clock_info_, "nvmlDeviceGetClockInfo");
    if (init() != 0) throw Failure{"nvmlInit_v2 failed"};
  }

  [[nodiscard]] std::string driver_version() const {
    std::array<char, 81> version{};
    return driver_version_(version.data(), version.size() - 1) == 0 ? version.data() : "unknown";
  }

  enum class Clock { kMultiprocessors = 1, kMemory = 2 };

  /// 0 if unknown.
  [[nodiscard]] unsigned megahertz(int device, Clock clock) const {
    std::array<char, 32> bus_id{};
    void* handle = nullptr;
    unsigned value = 0;
    if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device) !=
            cudaSuccess ||
        device_by_bus_id_(bus_id.data(), &handle) != 0 ||
        clock_info_(handle, static_cast<int>(clock), &value) != 0) {
      return 0;
    }
    return value;
  }

 private:
  int (*driver_version_)(char*, unsigned);
  int (*device_by_bus_id_)(const char*, void**);
  int (*clock_info_)(void*, int, unsigned*);
};

}  // namespace weft::gpu_bench
