// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How libweft.so opens a device of libweft-cuda.so. Both are built from one tree and share C++
// types, so their versions must be equal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/device_runtime.h"

inline constexpr const char* kCudaEntry = "weft_cuda_open";

/// Opens CUDA device `index`; the caller deletes it. On failure writes why to `text`, at most
/// `size` bytes with the zero.
using WeftCudaOpen = weft_result(const char* version, std::int32_t index, weft::DeviceRuntime** out,
                                 char* text, std::size_t size);
