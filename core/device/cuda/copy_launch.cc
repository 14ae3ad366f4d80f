// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls whose data the copy engines move, straight into buffers of other ranks. All ranks meet
// before, since an output may still be in use, and afterwards, since others write here. A copy is
// complete, and seen by all devices, before the kernel behind it in the stream begins.
#include <cstdint>
#include <span>

#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"

namespace weft::device::cuda {
namespace {

constexpr DirectShape kOneWarp{.parts = 1, .threads = 32};

weft_result copy(const PairTransfer& transfer, cudaStream_t stream) {
  return check(
      cudaMemcpyAsync(transfer.to, transfer.from, transfer.bytes, cudaMemcpyDefault, stream),
      "cudaMemcpyAsync");
}

}  // namespace

// A one-shot without elements.
weft_result meet(CudaStream& stream, const Launch& launch, bool may_overlap) {
  WorkItem meeting = launch.items.front();
  meeting.operation = Operation::kAllGather;
  meeting.algorithm = Algorithm::kDirect;
  meeting.count = 0;
  meeting.transfers = nullptr;
  meeting.transfer_count = 0;
  Launch by_kernel = launch;
  by_kernel.items = {&meeting, 1};
  return launch_inbox(stream, by_kernel, kOneWarp, may_overlap);
}

weft_result fork_side(CudaStream& stream) {
  if (stream.side == nullptr) {
    if (const weft_result made = make_stream(&stream.side); made != WEFT_OK) return made;
  }
  for (cudaEvent_t* const event : {&stream.forked, &stream.joined}) {
    if (*event == nullptr) WEFT_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  WEFT_CUDA(cudaEventRecord(stream.forked, stream.native));
  return check(cudaStreamWaitEvent(stream.side, stream.forked, 0), "cudaStreamWaitEvent");
}

weft_result join_side(CudaStream& stream) {
  WEFT_CUDA(cudaEventRecord(stream.joined, stream.side));
  return check(cudaStreamWaitEvent(stream.native, stream.joined, 0), "cudaStreamWaitEvent");
}

// What stays on the device is copied beside the rest: it takes no link.
weft_result launch_copies(CudaStream& stream, const Launch& launch) {
  const WorkItem& item = launch.items.front();
  const std::span<const PairTransfer> copies(item.transfers, item.transfer_count);
  const bool has_own =
      !launch.shares_device && !copies.empty() && copies.back().view.peer == item.direct->rank;
  if (const weft_result met = meet(stream, launch, stream.may_overlap); met != WEFT_OK) return met;
  if (has_own) {
    if (const weft_result forked = fork_side(stream); forked != WEFT_OK) return forked;
  }
  for (const PairTransfer& one : copies.first(copies.size() - (has_own ? 1 : 0))) {
    if (const weft_result copied = copy(one, stream.native); copied != WEFT_OK) return copied;
  }
  if (has_own) {
    if (const weft_result copied = copy(copies.back(), stream.side); copied != WEFT_OK) {
      return copied;
    }
    if (const weft_result joined = join_side(stream); joined != WEFT_OK) return joined;
  }
  return meet(stream, launch, false);
}

}  // namespace weft::device::cuda
