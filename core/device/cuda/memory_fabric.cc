// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/memory_fabric.h"

#include <algorithm>
#include <array>
#include <dlfcn.h>

#include "core/device/cuda/driver_memory.h"

namespace weft::device::cuda {
namespace {

/// nvmlGpuFabricInfo_t: declared here, since nvml.h is not everywhere. NVML API Reference Guide,
/// "Device Queries", nvmlDeviceGetGpuFabricInfo.
struct FabricInfo {
  std::array<unsigned char, 16> cluster;
  int status;  // of the registration
  unsigned clique;
  unsigned char state;
};
constexpr int kSuccess = 0;
constexpr unsigned char kRegistered = 3;  // NVML_GPU_FABRIC_STATE_COMPLETED

/// NVML's functions, loaded and begun for as long as this lives.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = find<int()>("nvmlInit_v2");
    begun_ = init != nullptr && init() == kSuccess;
  }
  ~Nvml() {
    if (begun_) {
      if (const auto shutdown = find<int()>("nvmlShutdown")) shutdown();
    }
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool get_fabric(const std::string& bus_id, FabricInfo* out) const {
    if (!begun_) return false;
    const auto by_bus_id = find<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    const auto fabric = find<int(void*, FabricInfo*)>("nvmlDeviceGetGpuFabricInfo");
    void* device = nullptr;
    return by_bus_id != nullptr && fabric != nullptr &&
           by_bus_id(bus_id.c_str(), &device) == kSuccess && fabric(device, out) == kSuccess;
  }

 private:
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  void* const library_;
  bool begun_ = false;
};

}  // namespace

std::string memory_fabric_of(std::int32_t device, const std::string& bus_id) {
  if (bus_id.empty() || !has_fabric_handles(device)) return {};
  FabricInfo info{};
  if (!Nvml().get_fabric(bus_id, &info)) return {};
  const bool named =
      std::ranges::any_of(info.cluster, [](unsigned char byte) { return byte != 0; });
  if (info.state != kRegistered || info.status != kSuccess || !named) return {};
  std::string id;
  for (const unsigned char byte : info.cluster) {
    id += "0123456789abcdef"[byte >> 4U];
    id += "0123456789abcdef"[byte & 15U];
  }
  return id + "-" + std::to_string(info.clique);
}

}  // namespace weft::device::cuda
