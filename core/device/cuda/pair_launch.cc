// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/device/cuda/cuda_memory.h"
#include "core/device/cuda/early_launch.h"
#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"
#include "core/device/cuda/pair_argument.h"
#include "core/device/cuda/pair_groups.h"

namespace weft::device::cuda {
namespace {

weft_result launch_kernel(CudaStream& stream, const Launch& launch, const void* kernel,
                          std::uint32_t ctas, void* argument) {
  void* arguments[] = {argument};
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(ctas);
  config.blockDim = dim3(kPostingThreads);
  config.stream = stream.native;
  config.attrs = &overlap;
  const bool may_overlap = stream.may_overlap && may_come_early(launch, ctas);
  config.numAttrs = !std::exchange(stream.has_stored, false) && may_overlap ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

/// With the smallest argument from this one on that they fit into.
template <std::size_t kPlace = 0>
weft_result launch_whole(CudaStream& stream, const Launch& launch, const PairGroups& groups) {
  if constexpr (kPlace + 1 < kWholePairs.size()) {
    if (groups.transfers.size() > kWholePairs[kPlace]) {
      return launch_whole<kPlace + 1>(stream, launch, groups);
    }
  }
  UnsetArgument<PairArgument<kWholePairs[kPlace]>> argument;
  fill(launch, groups, argument.get());
  return launch_kernel(stream, launch, pair_kernel_of_size(kPlace), groups.count(),
                       &argument.get());
}

/// The same.
template <std::size_t kPlace = 0>
weft_result launch_packed(CudaStream& stream, const Launch& launch,
                          std::span<const PairTransfer> transfers, const PairGroups& groups) {
  if constexpr (kPlace + 1 < kPackedPairs.size()) {
    if (transfers.size() > kPackedPairs[kPlace]) {
      return launch_packed<kPlace + 1>(stream, launch, transfers, groups);
    }
  }
  UnsetArgument<PackedPairArgument<kPackedPairs[kPlace]>> argument;
  fill(launch, transfers, groups, argument.get());
  return launch_kernel(stream, launch, packed_pair_kernel_of_size(kPlace), groups.count(),
                       &argument.get());
}

// Of more than fit into an argument. The memory is that of one launch: the driver's own for streams
// held 32 MiB of the device once it was asked for, and 13 of the heap (tests/gpu/README.md).
weft_result launch_stored(CudaStream& stream, const Launch& launch, const PairGroups& groups) {
  void* memory = nullptr;
  const std::size_t bytes = groups.transfers.size() * sizeof(PairTransfer);
  const weft_result allocated = stream.memory->allocate_unset(bytes, &memory);
  if (allocated != WEFT_OK) return allocated;
  StoredPairs stored{
      .control = control_of(launch), .transfers = static_cast<PairTransfer*>(memory), .begin = {}};
  std::ranges::copy(groups.begin, stored.begin);
  weft_result launched = store(stream, memory, std::as_bytes(std::span(groups.transfers)));
  if (launched == WEFT_OK) {
    void* arguments[] = {&stored};
    launched = check(cudaLaunchKernel(stored_pairs_kernel_address(), dim3(groups.count()),
                                      dim3(kPostingThreads), arguments, 0, stream.native),
                     "cudaLaunchKernel");
  }
  const weft_result left = stream.memory->release_behind(stream.native, memory);
  return launched != WEFT_OK ? launched : left;
}

// More are better left to the driver.
constexpr std::uint64_t kMostCopyingCtas = 20;

bool is_copy(const PairTransfer& transfer) {
  return transfer.view.cursor == nullptr;
}

std::uint64_t copied_bytes(std::span<const PairTransfer> transfers) {
  std::uint64_t bytes = 0;
  for (const PairTransfer& transfer : transfers)
    bytes += is_copy(transfer) ? transfer.bytes : 0;
  return bytes;
}

/// What the busier way over links carries.
std::uint64_t passed_bytes(std::span<const PairTransfer> transfers) {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  for (const PairTransfer& transfer : transfers) {
    if (!is_copy(transfer)) (transfer.from != nullptr ? sent : received) += transfer.bytes;
  }
  return std::max(sent, received);
}

std::vector<PairTransfer> without_copies(std::span<const PairTransfer> transfers) {
  std::vector<PairTransfer> rest;
  std::vector<std::uint32_t> place(transfers.size());
  rest.reserve(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (is_copy(transfers[i])) continue;
    place[i] = static_cast<std::uint32_t>(rest.size());
    PairTransfer& transfer = rest.emplace_back(transfers[i]);
    if (transfer.after != kNoTransfer) transfer.after = place[transfer.after];
  }
  return rest;
}

// What was cut into parts is one copy again. The side has forked from the stream.
weft_result copy_beside(CudaStream& stream, const WorkItem& item) {
  const std::span<const PairTransfer> transfers(item.transfers, item.transfer_count);
  const std::uint64_t passed = std::max(passed_bytes(transfers), std::uint64_t{1});
  const std::uint64_t wanted =
      (kCopyingGroupsOfLink * copied_bytes(transfers) + passed - 1) / passed;
  const auto ctas =
      static_cast<std::uint32_t>(std::min(wanted, std::uint64_t{std::max(item.most_parts, 1U)}));
  for (std::size_t i = 0; i < transfers.size();) {
    const PairTransfer& first = transfers[i++];
    if (!is_copy(first)) continue;
    std::uint64_t bytes = first.bytes;
    while (i < transfers.size() && is_copy(transfers[i]) &&
           transfers[i].from == first.from + bytes && transfers[i].to == first.to + bytes) {
      bytes += transfers[i++].bytes;
    }
    std::byte* to = first.to;
    const std::byte* from = first.from;
    void* arguments[] = {&to, &from, &bytes};
    if (wanted > kMostCopyingCtas) {
      WEFT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.side));
    } else {
      WEFT_CUDA(cudaLaunchKernel(copy_kernel_address(), dim3(ctas), dim3(kThreads), arguments, 0,
                                 stream.side));
    }
  }
  return join_side(stream);
}

weft_result launch_groups(CudaStream& stream, const Launch& launch,
                          std::span<const PairTransfer> transfers, std::uint32_t whole_device) {
  if (transfers.empty()) return WEFT_OK;
  const std::uint32_t ctas = whole_device != 0
                                 ? std::min(whole_device, kMostPairGroups)
                                 : std::clamp(launch.items.front().most_parts, 1U, kMostItems);
  PairGroups& groups = stream.groups;
  const bool whole = transfers.size() <= kMostWholePairs;
  // Copies need no views.
  const bool have_views = launch.pair_views != nullptr || std::ranges::all_of(transfers, is_copy);
  if (!whole && transfers.size() <= kMostPackedPairs && have_views) {
    divide_transfers(transfers, ctas, groups);
    return launch_packed(stream, launch, transfers, groups);
  }
  group_transfers(transfers, ctas, groups);
  return whole ? launch_whole(stream, launch, groups) : launch_stored(stream, launch, groups);
}

}  // namespace

weft_result launch_pairs(CudaStream& stream, const Launch& launch, std::uint32_t whole_device) {
  const WorkItem& item = launch.items.front();
  const std::span<const PairTransfer> transfers(item.transfers, item.transfer_count);
  if (!copies_go_beside(launch, copied_bytes(transfers))) {
    return launch_groups(stream, launch, transfers, whole_device);
  }
  if (const weft_result forked = fork_side(stream); forked != WEFT_OK) return forked;
  // The kernel first: a copy of the driver's may be a kernel which leaves none of the processors
  // free.
  const weft_result launched =
      launch_groups(stream, launch, without_copies(transfers), whole_device);
  if (launched != WEFT_OK) return launched;
  return copy_beside(stream, item);
}

}  // namespace weft::device::cuda
