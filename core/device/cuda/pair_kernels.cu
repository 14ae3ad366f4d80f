// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and receives: a CTA for each group of transfers, one warp of which posts.
#include <array>
#include <cstddef>
#include <utility>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/posting.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/packed_transfer.h"
#include "core/device/pair_batch.h"

namespace weft::device::cuda {
namespace {

using Word = std::uint64_t;
static_assert(sizeof(PairTransfer) % sizeof(Word) == 0);

__device__ void copy_words(void* to, const void* from, std::uint32_t transfers) {
  const std::uint32_t words = transfers * (sizeof(PairTransfer) / sizeof(Word));
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x)
    static_cast<Word*>(to)[i] = static_cast<const Word*>(from)[i];
}

__device__ void move_transfers(const KernelControl& control, PairTransfer* transfers,
                               std::uint32_t count) {
  __shared__ std::uint64_t slots[2];
  __shared__ PostBoard board;
  if (threadIdx.x >= kThreads) return serve_posts(board, kThreads);
  CtaGroup group(slots, kThreads);
  using Memory = Posting<CudaMemory>;
  Memory memory(control.abort, control.waiting, transfers->tag, board);
  const KernelOutcome outcome = PairBatch<CtaGroup, Memory>(group, memory, transfers, count).run();
  memory.dismiss(group);
  if (group.leader()) report(control, outcome);
}

// What a CTA notes about its transfers it notes in shared memory: a replay begins anew.
template <std::uint32_t kTransfers>
__global__ void __launch_bounds__(kPostingThreads, 1)
    pair_kernel(const __grid_constant__ PairArgument<kTransfers> argument) {
  __shared__ Word own[kTransfers * (sizeof(PairTransfer) / sizeof(Word))];
  const std::uint32_t begin = argument.begin[blockIdx.x];
  const std::uint32_t count = argument.begin[blockIdx.x + 1] - begin;
  copy_words(own, argument.transfers + begin, count);
  __syncthreads();
  overlap_launches();
  move_transfers(argument.control, reinterpret_cast<PairTransfer*>(own), count);
}

template <std::uint32_t kTransfers>
__global__ void __launch_bounds__(kPostingThreads, 1)
    packed_pair_kernel(const __grid_constant__ PackedPairArgument<kTransfers> argument) {
  __shared__ Word own[kTransfers * (sizeof(PairTransfer) / sizeof(Word))];
  const std::uint32_t begin = argument.begin[blockIdx.x];
  const std::uint32_t count = argument.begin[blockIdx.x + 1] - begin;
  auto* const transfers = reinterpret_cast<PairTransfer*>(own);
  AllThreads threads;
  unpack_transfers(threads, argument.transfers + begin, argument.views, count, transfers);
  overlap_launches();
  move_transfers(argument.control, transfers, count);
}

// Of a launch with more transfers than an argument holds, which are in device memory.
__global__ void __launch_bounds__(kPostingThreads, 1)
    stored_pairs_kernel(const __grid_constant__ StoredPairs argument) {
  const std::uint32_t begin = argument.begin[blockIdx.x];
  move_transfers(argument.control, argument.transfers + begin,
                 argument.begin[blockIdx.x + 1] - begin);
}

// Of copies within the device, by CTAs in turn.
__global__ void __launch_bounds__(kThreads, 1)
    copy_kernel(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  __shared__ std::uint64_t slots[2];
  CtaGroup group(slots);
  CudaMemory memory(nullptr, nullptr, 0);
  constexpr std::uint64_t kSlice = 1 << 16;
  for (std::uint64_t at = blockIdx.x * kSlice; at < bytes; at += gridDim.x * kSlice)
    memory.copy(group, to + at, nullptr, from + at, bytes - at < kSlice ? bytes - at : kSlice);
}

// Those of a PairArgument, then of a PackedPairArgument.
constexpr std::size_t kFirstPacked = kWholePairs.size();

template <std::size_t... kWhole, std::size_t... kPacked>
auto kernels_of(std::index_sequence<kWhole...> /*sizes*/,
                std::index_sequence<kPacked...> /*packed*/) {
  return std::array{reinterpret_cast<const void*>(&pair_kernel<kWholePairs[kWhole]>)...,
                    reinterpret_cast<const void*>(&packed_pair_kernel<kPackedPairs[kPacked]>)...,
                    reinterpret_cast<const void*>(&stored_pairs_kernel),
                    reinterpret_cast<const void*>(&copy_kernel)};
}

const auto& kernels() {
  static const auto kAll = kernels_of(std::make_index_sequence<kWholePairs.size()>(),
                                      std::make_index_sequence<kPackedPairs.size()>());
  return kAll;
}

}  // namespace

const void* pair_kernel_of_size(std::size_t place) {
  return kernels()[place];
}

const void* packed_pair_kernel_of_size(std::size_t place) {
  return kernels()[kFirstPacked + place];
}

const void* stored_pairs_kernel_address() {
  return reinterpret_cast<const void*>(&stored_pairs_kernel);
}

const void* copy_kernel_address() {
  return reinterpret_cast<const void*>(&copy_kernel);
}

std::span<const void* const> pair_kernels() {
  return kernels();
}

}  // namespace weft::device::cuda
