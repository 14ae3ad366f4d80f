// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"

namespace weft::device::cuda {

weft_result store(CudaStream& stream, void* to, std::span<const std::byte> bytes) {
  stream.has_stored = true;
  constexpr std::size_t kMostBytes = sizeof(StoreArgument::words);
  UnsetArgument<StoreArgument> unset;
  StoreArgument& argument = unset.get();
  for (std::size_t done = 0; done < bytes.size(); done += kMostBytes) {
    const auto part = bytes.subspan(done, std::min(kMostBytes, bytes.size() - done));
    argument.to = static_cast<std::uint64_t*>(to) + done / sizeof(std::uint64_t);
    argument.count = static_cast<std::uint32_t>(part.size() / sizeof(std::uint64_t));
    std::memcpy(argument.words, part.data(), part.size());
    void* arguments[] = {&argument};
    WEFT_CUDA(cudaLaunchKernel(store_kernel_address(), dim3(1), dim3(kThreads), arguments, 0,
                               stream.native));
  }
  return WEFT_OK;
}

}  // namespace weft::device::cuda
