// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls of the driver's own functions, which the runtime hands out by name: linking the driver
// would need it on every machine.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include <cuda.h>

#include "core/device/cuda/failure.h"

namespace weft::device::cuda {

/// A function of the driver, as of a version of CUDA: 12000 is 12.0.
template <typename Function>
weft_result find_in_driver(const char* name, unsigned version, Function** out) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  WEFT_CUDA(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
  if (function == nullptr) {
    failure() = {cudaErrorNotSupported, std::string("the driver has no ") + name};
    return WEFT_ERROR_UNSUPPORTED;
  }
  *out = reinterpret_cast<Function*>(function);
  return WEFT_OK;
}

/// Calls a function of the driver by name, which is looked up once and `known` from then on; what
/// it answers becomes this thread's failure.
template <typename Function, typename... Arguments>
weft_result call_driver(std::atomic<Function*>& known, const char* name, unsigned version,
                        Arguments... arguments) {
  Function* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) {
    const weft_result result = find_in_driver(name, version, &function);
    if (result != WEFT_OK) return result;
    known.store(function, std::memory_order_relaxed);
  }
  const CUresult answer = function(arguments...);
  if (answer == CUDA_SUCCESS) return WEFT_OK;
  // The codes that have a meaning of their own are numbered alike in both interfaces.
  return check(static_cast<cudaError_t>(answer), name);
}

}  // namespace weft::device::cuda

// By the types of cuda.h, whose names are macros for the newest revision. The runtime finds a
// function by its name without one: so no macro may expand it before it becomes text.
#define WEFT_DRIVER_BY_NAME(version, function, name, ...) \
  [](auto... arguments) { \
    static_assert(!std::string_view(name).contains("_v"), "a name without a revision"); \
    static constinit std::atomic<decltype(function)*> known{nullptr}; \
    return ::weft::device::cuda::call_driver(known, name, version, arguments...); \
  }(__VA_ARGS__)
#define WEFT_DRIVER_AS_OF(version, function, ...) \
  WEFT_DRIVER_BY_NAME(version, function, #function, __VA_ARGS__)
#define WEFT_DRIVER(function, ...) WEFT_DRIVER_BY_NAME(12000, function, #function, __VA_ARGS__)
