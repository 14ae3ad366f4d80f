// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/cuda_library.h"

#include <array>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/version.h"
#include "core/device/cuda/entry.h"

namespace weft {
namespace {

constexpr const char* kFile = "libweft-cuda.so";

// Beside the library or program that this code is in; in a build tree, where the build puts it.
std::vector<std::filesystem::path> places() {
  Dl_info self{};
  std::vector<std::filesystem::path> found;
  if (dladdr(reinterpret_cast<const void*>(&open_cuda_device), &self) == 0) return found;
  std::error_code ignored;
  const auto folder =
      std::filesystem::canonical(std::filesystem::path(self.dli_fname), ignored).parent_path();
  found.push_back(folder / kFile);
  for (auto up = folder; up.has_relative_path(); up = up.parent_path()) {
    found.push_back(up / "core/device/cuda" / kFile);
    if (std::filesystem::exists(up / "build.ninja", ignored)) break;
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<DeviceRuntime>> open_cuda_device(std::int32_t index) {
  std::filesystem::path file;
  const auto candidates = places();
  for (const auto& candidate : candidates) {
    std::error_code ignored;
    if (std::filesystem::exists(candidate, ignored)) {
      file = candidate;
      break;
    }
  }
  if (file.empty()) {
    return fail(WEFT_ERROR_DEVICE,
                fmt::format("CUDA device {} cannot be used: {} is not there", index,
                            candidates.empty() ? std::string(kFile) : candidates.front().string()),
                "install a build of Weft that was made with a CUDA toolkit");
  }
  // Never closed: kernels and the driver's threads may outlive every context.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return fail(WEFT_ERROR_DEVICE,
                fmt::format("CUDA device {} cannot be used: {}", index, dlerror()));
  }
  auto* open = reinterpret_cast<WeftCudaOpen*>(dlsym(library, kCudaEntry));
  if (open == nullptr) {
    return fail(WEFT_ERROR_DEVICE, fmt::format("{} has no {}: another library of that name?",
                                               file.string(), kCudaEntry));
  }
  DeviceRuntime* device = nullptr;
  std::array<char, 512> text{};
  const weft_result result = open(version_text(), index, &device, text.data(), text.size());
  if (result != WEFT_OK) {
    return fail(result == WEFT_ERROR_INVALID_ARGUMENT ? result : WEFT_ERROR_DEVICE,
                fmt::format("CUDA device {} cannot be used: {}", index, text.data()),
                result == WEFT_ERROR_UNSUPPORTED
                    ? "take a libweft-cuda.so of the same version that was built to run: meson "
                      "configure BUILD -Dgpu_ptx_only=false"
                    : "nvidia-smi shows driver and devices; CUDA_VISIBLE_DEVICES may hide some");
  }
  return std::unique_ptr<DeviceRuntime>(device);
}

}  // namespace weft
