// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and receives: a CTA for each group of transfers, one warp of which posts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "core/device/cuda/cta_policies.cuh"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/overlap.cuh"
#include "core/device/cuda/posting.cuh"
#include "core/device/cuda/report.cuh"
#include "core/device/pair_batch.h"

namespace weft::device::cuda {
namespace {

using Word = std::uint64_t;
static_assert(sizeof(PairTransfer) % sizeof(Word) == 0);

// By the threads of a CTA, or of a team.
__device__ void copy_words(void* to, const void* from, std::uint32_t transfers) {
  const std::uint32_t words = transfers * (sizeof(PairTransfer) / sizeof(Word));
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x)
    static_cast<Word*>(to)[i] = static_cast<const Word*>(from)[i];
}

// By kLanes threads and a warp that posts for them, of each of so many teams.
template <std::uint32_t kLanes, std::uint32_t kTeamsOfCta>
__device__ void move_transfers(const KernelControl& control, PairTransfer* transfers,
                               std::uint32_t count) {
  __shared__ std::uint64_t slots[kTeamsOfCta][2];
  __shared__ PostBoard board[kTeamsOfCta];
  const std::uint32_t team = kTeamsOfCta == 1 ? 0 : threadIdx.y;
  if (threadIdx.x >= kLanes) return serve_posts(board[team], kLanes, team);
  CtaGroup group(slots[team], kLanes, team);
  using Memory = Posting<CudaMemory>;
  Memory memory(control.abort, control.waiting, transfers->tag, board[team]);
  const KernelOutcome outcome = PairBatch<CtaGroup, Memory>(group, memory, transfers, count).run();
  memory.dismiss(group);
  if (group.leader()) report(control, outcome);
}

// What a CTA notes about its transfers it notes in shared memory: a replay begins anew.
template <std::uint32_t kTransfers>
__global__ void __launch_bounds__(kPostingThreads, 1)
    pair_kernel(const __grid_constant__ PairArgument<kTransfers> argument) {
  overlap_launches();
  __shared__ Word own[kTransfers * (sizeof(PairTransfer) / sizeof(Word))];
  const std::uint32_t begin = argument.begin[blockIdx.x];
  const std::uint32_t count = argument.begin[blockIdx.x + 1] - begin;
  copy_words(own, argument.transfers + begin, count);
  __syncthreads();
  move_transfers<kThreads, 1>(argument.control, reinterpret_cast<PairTransfer*>(own), count);
}

// The same of more groups than CTAs: two of them side by side wait less than one that takes turns.
__global__ void __launch_bounds__(kTeams* kTeamThreads, 1)
    pair_teams_kernel_of(const __grid_constant__ PairArgument<kMostArgumentPairs> argument) {
  overlap_launches();
  __shared__ Word own[kMostArgumentPairs * (sizeof(PairTransfer) / sizeof(Word))];
  const std::uint32_t number = threadIdx.y == 0 ? blockIdx.x : argument.groups - 1 - blockIdx.x;
  if (threadIdx.y != 0 && number < gridDim.x) return;  // all of the team
  const std::uint32_t begin = argument.begin[number];
  const std::uint32_t count = argument.begin[number + 1] - begin;
  // Behind those of the first team.
  const std::uint32_t before =
      threadIdx.y == 0 ? 0 : argument.begin[blockIdx.x + 1] - argument.begin[blockIdx.x];
  auto* const transfers = reinterpret_cast<PairTransfer*>(own) + before;
  copy_words(transfers, argument.transfers + begin, count);
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(kLanesBarrier + threadIdx.y * kBarriersOfTeam),
               "r"(kTeamThreads)
               : "memory");
  move_transfers<kTeamLanes, kTeams>(argument.control, transfers, count);
}

// Of a launch with more transfers than an argument holds, which are in device memory.
__global__ void __launch_bounds__(kPostingThreads, 1)
    stored_pairs_kernel(const __grid_constant__ StoredPairs argument) {
  const std::uint32_t begin = argument.begin[blockIdx.x];
  move_transfers<kThreads, 1>(argument.control, argument.transfers + begin,
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

template <std::size_t... kPlaces>
auto kernels_of(std::index_sequence<kPlaces...> /*sizes*/) {
  return std::array{reinterpret_cast<const void*>(&pair_kernel<kArgumentPairs[kPlaces]>)...};
}

const auto& kernels() {
  static const auto kAll = kernels_of(std::make_index_sequence<kArgumentPairs.size()>());
  return kAll;
}

}  // namespace

const void* pair_kernel_of_size(std::size_t place) {
  return kernels()[place];
}

const void* pair_teams_kernel() {
  return reinterpret_cast<const void*>(&pair_teams_kernel_of);
}

const void* stored_pairs_kernel_address() {
  return reinterpret_cast<const void*>(&stored_pairs_kernel);
}

const void* copy_kernel_address() {
  return reinterpret_cast<const void*>(&copy_kernel);
}

std::span<const void* const> pair_kernels() {
  static const auto kAll = [] {
    std::array<const void*, kArgumentPairs.size() + 3> all{};
    const auto rest = std::copy(kernels().begin(), kernels().end(), all.begin());
    std::ranges::copy(
        std::array{pair_teams_kernel(), stored_pairs_kernel_address(), copy_kernel_address()},
        rest);
    return all;
  }();
  return kAll;
}

}  // namespace weft::device::cuda
