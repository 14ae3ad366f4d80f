// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A device made current for a while.
#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

namespace weft::device::cuda {

/// The calling thread's; null: none.
[[nodiscard]] CUcontext current_context();

/// Makes the device current, and calls legal that a capture elsewhere in this thread would forbid;
/// both until it goes. Without a word where the device cannot be: who opens it asks for that.
///
/// By the context that the CUDA runtime has for the device, also where another one of the same
/// device is current, which the program made (cuCtxCreate) or which is a green one: what is made
/// there is of no use to other threads, and goes with it.
///
/// What was current comes back as a context, and by none where there was none: cudaSetDevice makes
/// the context of the device that it is given (CUDA runtime, from 12.0 on), half a gigabyte of a
/// GPU that a process may have nothing to do with, and a thread that never chose has device 0.
class Scope {
 public:
  explicit Scope(std::int32_t index);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace weft::device::cuda
