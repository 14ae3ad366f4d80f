// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"
#include "core/device/cuda/pair_groups.h"

namespace weft::device::cuda {
namespace {

KernelControl control_of(const Launch& launch) {
  return {.abort = reinterpret_cast<const std::uint32_t*>(launch.abort),
          .outcome = launch.outcome,
          .waiting = launch.waiting};
}

template <std::uint32_t kTransfers>
weft_result launch_in_argument(CudaStream& stream, const Launch& launch, const PairGroups& groups) {
  PairArgument<kTransfers> argument;
  argument.control = control_of(launch);
  std::ranges::copy(groups.begin, argument.begin);
  std::ranges::copy(groups.transfers, argument.transfers);
  void* arguments[] = {&argument};
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(groups.count());
  config.blockDim = dim3(kPostingThreads);
  config.stream = stream.native;
  config.attrs = &overlap;
  config.numAttrs = stream.may_overlap ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, pair_kernel_for(kTransfers), arguments),
               "cudaLaunchKernelExC");
}

// The memory is the stream's: made, used and given back in its order, also in each replay of a
// graph.
weft_result launch_stored(CudaStream& stream, const Launch& launch, const PairGroups& groups) {
  void* memory = nullptr;
  WEFT_CUDA(
      cudaMallocAsync(&memory, groups.transfers.size() * sizeof(PairTransfer), stream.native));
  StoredPairs stored{
      .control = control_of(launch), .transfers = static_cast<PairTransfer*>(memory), .begin = {}};
  std::ranges::copy(groups.begin, stored.begin);
  PairArgument<kMostArgumentPairs> part{};
  for (std::size_t done = 0; done < groups.transfers.size(); done += kMostArgumentPairs) {
    const auto next =
        std::span(groups.transfers)
            .subspan(done)
            .first(std::min<std::size_t>(kMostArgumentPairs, groups.transfers.size() - done));
    std::ranges::copy(next, part.transfers);
    PairTransfer* to = stored.transfers + done;
    auto count = static_cast<std::uint32_t>(next.size());
    void* arguments[] = {&part, &to, &count};
    WEFT_CUDA(cudaLaunchKernel(store_pairs_kernel(), dim3(1), dim3(kThreads), arguments, 0,
                               stream.native));
  }
  void* arguments[] = {&stored};
  WEFT_CUDA(cudaLaunchKernel(stored_pairs_kernel_address(), dim3(groups.count()),
                             dim3(kPostingThreads), arguments, 0, stream.native));
  return check(cudaFreeAsync(memory, stream.native), "cudaFreeAsync");
}

}  // namespace

weft_result launch_pairs(CudaStream& stream, const Launch& launch) {
  const WorkItem& item = launch.items.front();
  if (item.transfer_count == 0) return WEFT_OK;
  const PairGroups groups = group_transfers({item.transfers, item.transfer_count},
                                            std::clamp(item.most_parts, 1U, kMostItems));
  switch (item.transfer_count > kMostArgumentPairs ? 0 : argument_pairs(item.transfer_count)) {
    case 0:
      return launch_stored(stream, launch, groups);
    case kFewArgumentPairs:
      return launch_in_argument<kFewArgumentPairs>(stream, launch, groups);
    case kSomeArgumentPairs:
      return launch_in_argument<kSomeArgumentPairs>(stream, launch, groups);
    default:
      return launch_in_argument<kMostArgumentPairs>(stream, launch, groups);
  }
}

}  // namespace weft::device::cuda
