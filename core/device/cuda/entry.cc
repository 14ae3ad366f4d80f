// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The one function of libweft-cuda.so.
#include "core/device/cuda/entry.h"

#include <cstring>
#include <new>
#include <string_view>

#include "core/device/cuda/cuda_device.h"

extern "C" __attribute__((visibility("default"))) weft_result
weft_cuda_open(const char* version, std::int32_t index, weft::DeviceRuntime** out, char* text,
               std::size_t size) {
  std::string_view why;
  weft_result result = WEFT_OK;
  try {
    if (std::strcmp(version, WEFT_CUDA_VERSION) != 0) {
      why = "libweft-cuda.so is of version " WEFT_CUDA_VERSION ", libweft.so of another";
      result = WEFT_ERROR_UNSUPPORTED;
    } else {
      weft::device::cuda::CudaDevice* device = nullptr;
      result = weft::device::cuda::CudaDevice::open(index, &device);
      if (result != WEFT_OK) why = weft::device::cuda::last_open_failure();
      *out = device;
    }
  } catch (const std::bad_alloc&) {
    result = WEFT_ERROR_OUT_OF_MEMORY;
    why = "out of memory";
  }
  if (size > 0) {
    const std::size_t length = why.copy(text, size - 1);
    text[length] = '\0';
  }
  return result;
}
