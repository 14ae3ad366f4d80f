// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Reductions in windows: copy engines read and write, by streams beside the caller's, which sums
// up.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"
#include "core/device/window_pieces.h"

namespace weft::device::cuda {
namespace {

/// Bytes of a sum for a CTA of its own.
constexpr std::uint64_t kLeastPartBytes = 64 << 10;

weft_result copy(std::byte* to, const std::byte* from, std::uint64_t bytes, cudaStream_t stream) {
  return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

/// Streams beside the caller's.
weft_result make_queues(CudaStream& stream) {
  if (const weft_result forked = fork_side(stream); forked != WEFT_OK) return forked;
  if (stream.writing == nullptr) {
    if (const weft_result made = make_stream(&stream.writing); made != WEFT_OK) return made;
  }
  for (std::uint32_t slot = 0; slot < kWindowSlots; ++slot) {
    for (cudaEvent_t* const event : {&stream.read[slot], &stream.reduced[slot]}) {
      if (*event == nullptr) WEFT_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
  }
  return WEFT_OK;
}

class StreamQueues {
 public:
  /// Either by those of make_queues() or by the caller's stream alone.
  StreamQueues(CudaStream& stream, std::uint32_t most_parts, bool alone)
      : stream_(stream),
        reading_(alone ? stream.native : stream.side),
        writing_(alone ? stream.native : stream.writing),
        most_parts_(most_parts) {}

  weft_result read(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    return copy(to, from, bytes, reading_);
  }
  weft_result sum(SourcesToReduce sources) {
    const std::uint64_t bytes = sources.count * element_size(sources.type);
    const std::uint64_t wanted = (bytes + kLeastPartBytes - 1) / kLeastPartBytes;
    const auto parts = static_cast<unsigned>(std::min<std::uint64_t>(wanted, most_parts_));
    void* arguments[] = {&sources};
    return check(cudaLaunchKernel(reduce_sources_kernel_address(), dim3(parts), dim3(kThreads),
                                  arguments, 0, stream_.native),
                 "cudaLaunchKernel");
  }
  weft_result write(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    return copy(to, from, bytes, writing_);
  }
  weft_result sum_after_reads(std::uint32_t slot) {
    return order(reading_, stream_.read[slot], stream_.native);
  }
  weft_result write_after_sum(std::uint32_t slot) {
    return order(stream_.native, stream_.reduced[slot], writing_);
  }
  weft_result read_after_sum(std::uint32_t slot) {
    if (reading_ == stream_.native) return WEFT_OK;
    return check(cudaStreamWaitEvent(reading_, stream_.reduced[slot], 0), "cudaStreamWaitEvent");
  }
  /// What the caller's stream gets from now on comes after all. The last read has its sum.
  weft_result end() { return order(writing_, stream_.joined, stream_.native); }

 private:
  static weft_result order(cudaStream_t before, cudaEvent_t event, cudaStream_t after) {
    if (before == after) return WEFT_OK;
    WEFT_CUDA(cudaEventRecord(event, before));
    return check(cudaStreamWaitEvent(after, event, 0), "cudaStreamWaitEvent");
  }

  CudaStream& stream_;
  const cudaStream_t reading_;
  const cudaStream_t writing_;
  const std::uint32_t most_parts_;
};

weft_result reduce_range(CudaStream& stream, const WindowReduction& call, bool alone) {
  if (!alone) {
    if (const weft_result made = make_queues(stream); made != WEFT_OK) return made;
  }
  StreamQueues queues(stream, call.most_parts, alone);
  const weft_result reduced = reduce_by_pieces(call, queues);
  return reduced == WEFT_OK ? queues.end() : reduced;
}

}  // namespace

weft_result launch_window_reduction(CudaStream& stream, const Launch& launch) {
  if (const weft_result met = meet(stream, launch, stream.may_overlap); met != WEFT_OK) return met;
  if (launch.window_reduction->count != 0) {
    const weft_result reduced =
        reduce_range(stream, *launch.window_reduction, launch.shares_device);
    if (reduced != WEFT_OK) return reduced;
  }
  return meet(stream, launch, false);
}

}  // namespace weft::device::cuda
