// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What failed, for the calling thread, and how calls of the CUDA runtime are made.
#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime.h>

#include <weft/types.h>

namespace weft::device::cuda {

struct Failure {
  cudaError_t code = cudaSuccess;
  std::string text;
};

// Of the calling thread, like errno: what a code of weft_result cannot say.
inline Failure& failure() {
  thread_local Failure kept;
  return kept;
}

inline weft_result translate(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return WEFT_OK;
    case cudaErrorMemoryAllocation:
      return WEFT_ERROR_OUT_OF_MEMORY;
    case cudaErrorNotReady:
      return WEFT_IN_PROGRESS;
    case cudaErrorNotSupported:
    case cudaErrorPeerAccessUnsupported:
      return WEFT_ERROR_UNSUPPORTED;
    default:
      return WEFT_ERROR_DEVICE;
  }
}

inline weft_result check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return WEFT_OK;
  if (error != cudaErrorNotReady) {
    failure() = {error, std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                            cudaGetErrorName(error) + ")"};
  }
  // Only errors that stick are of interest to the next call, the program's own too.
  static_cast<void>(cudaGetLastError());
  return translate(error);
}

#define WEFT_CUDA(call) \
  do { \
    const weft_result checked = check(call, #call); \
    if (checked != WEFT_OK) return checked; \
  } while (false)

}  // namespace weft::device::cuda
