// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <climits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/cuda/direct_shape.h"
#include "core/device/cuda/driver_call.h"
#include "core/device/cuda/early_launch.h"
#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"
#include "core/device/cuda/memory_fabric.h"
#include "core/device/cuda/pair_groups.h"
#include "core/device/cuda/ring_argument.h"
#include "core/device/cuda/scope.h"
#include "core/device/one_shot_blocks.h"
#include "core/device/two_shot_ll128.h"
#include "core/model/step_lines.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {
namespace {

constexpr bool kKernelsAreOptimised = WEFT_CUDA_KERNELS_ARE_OPTIMISED != 0;

/// Whether a ring's data goes through the host's memory. Of a root nothing comes, of the last rank
/// nothing goes.
bool goes_far(const WorkItem& item) {
  return item.from_previous.in_host_memory || item.to_next.in_host_memory;
}

/// `Argument` is that of the kernel at `address`.
template <class Argument>
weft_result launch_items(CudaStream& stream, const Launch& launch, const RingKernel& kernel,
                         const void* address) {
  UnsetArgument<Argument> unset;
  Argument& argument = unset.get();
  fill(launch, argument);
  if constexpr (requires { argument.outputs; }) {
    argument.agrees = launch.outputs != nullptr;
    if (argument.agrees) {
      argument.outputs = {.call = *launch.outputs, .peers = *launch.outputs->peers};
      if (!kernel.fills_outputs) argument.outputs.call.offer = 0;
    }
  }
  void* arguments[] = {&argument};
  // Clusters need more room for a moment, which those that share a device may not have.
  const bool clusters = stream.has_clusters && launch.own_processors;
  const std::uint32_t ctas = clusters ? kCtasOfCluster : 1;
  // A ring that waits for the kernel before it has room already: what may have to run beside must
  // find some. What is large and goes through the host's memory gained nothing by it
  // (docs/performance.md).
  const bool gains = !are_packed(launch.items.size()) || !goes_far(launch.items.front());
  const auto items = static_cast<std::uint32_t>(launch.items.size());
  const bool overlaps = (clusters || items <= kCtasThatMayComeEarly) && gains &&
                        kernel.awaits_kernel_before && stream.rings_may_overlap &&
                        !std::exchange(stream.has_stored, false);
  std::array<cudaLaunchAttribute, 2> attributes{};
  std::uint32_t given = 0;
  if (clusters) {
    attributes[given].id = cudaLaunchAttributeClusterDimension;
    attributes[given++].val.clusterDim = {.x = kCtasOfCluster, .y = 1, .z = 1};
  }
  if (overlaps) {
    attributes[given].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[given++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(items * ctas);
  config.blockDim = dim3(kernel.threads);
  config.dynamicSmemBytes = kernel.shared_bytes;
  config.stream = stream.native;
  config.attrs = attributes.data();
  config.numAttrs = given;
  return check(cudaLaunchKernelExC(&config, address, arguments), "cudaLaunchKernelExC");
}

weft_result launch_ring(CudaStream& stream, const Launch& launch, const RingKernel& kernel) {
  using Takes = RingKernel::Takes;
  if (are_packed(launch.items.size()) && launch.packed == nullptr) return WEFT_ERROR_UNSUPPORTED;
  if (launch.outputs != nullptr) {
    if (kernel.for_outputs == nullptr) return WEFT_ERROR_UNSUPPORTED;
    return launch_items<RingArgumentWithOutputs>(stream, launch, kernel, kernel.for_outputs);
  }
  switch (kernel.takes) {
    case Takes::kAnyWithOutputs:
      return launch_items<RingArgumentWithOutputs>(stream, launch, kernel, kernel.address);
    case Takes::kFew:
      return launch_items<FewRingArgument>(stream, launch, kernel, kernel.address);
    case Takes::kPacked:
      return launch_items<PackedRingArgument>(stream, launch, kernel, kernel.address);
    case Takes::kLinked:
      if (launch.links == nullptr) return WEFT_ERROR_UNSUPPORTED;
      return launch_items<LinkedRingArgument>(stream, launch, kernel, kernel.address);
    default:
      return launch_items<RingArgument>(stream, launch, kernel, kernel.address);
  }
}

const void* inbox_kernel_for(const WorkItem& item, const DirectShape& shape) {
  if (item.algorithm == Algorithm::kMulticast) return multicast_kernel_for(item, shape.parts);
  if (item.protocol == Protocol::kLL128) {
    if (!fits_wide_ranges(item, *item.direct, kMostDirectRanks)) return wide_kernel_for(item);
    return item.operation == Operation::kAllReduce ? wide_two_shot_kernel_for(item)
                                                   : wide_blocks_kernel_for(item);
  }
  if (item.algorithm == Algorithm::kTwoShot) return two_shot_kernel_for(item, shape.parts);
  return item.operation == Operation::kAllReduce ? direct_kernel_for(item)
                                                 : blocks_kernel_for(item);
}

}  // namespace

// Programmatic serialization: the kernel may be set up while the one before it in the stream still
// runs, and waits for its end itself.
weft_result launch_inbox(CudaStream& stream, const Launch& launch, const DirectShape& shape,
                         bool may_overlap) {
  const WorkItem& item = launch.items.front();
  const void* kernel = launch.items.size() == 1 ? inbox_kernel_for(item, shape) : nullptr;
  if (kernel == nullptr) return WEFT_ERROR_UNSUPPORTED;
  // Kernels of a DirectArgument take as much of it.
  UnsetArgument<MulticastArgument> unset;
  MulticastArgument& argument = unset.get();
  argument.direct.control = control_of(launch);
  const bool moves_bytes = item.protocol == Protocol::kLL && !reduces(item.operation);
  argument.direct.item = moves_bytes ? moved_as_bytes(item) : item;
  argument.direct.peers = *item.direct;
  if (item.algorithm == Algorithm::kMulticast) argument.view = *item.direct->multicast;
  void* arguments[] = {&argument};
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.parts);
  config.blockDim = dim3(shape.threads);
  config.stream = stream.native;
  config.attrs = &overlap;
  config.numAttrs = may_overlap && may_come_early(launch, shape.parts) ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

namespace {

/// `agrees`: on outputs, before.
RingKernel channel_kernel_for(std::span<const WorkItem> items, bool copies_in_bulk, bool agrees) {
  const WorkItem& item = items.front();
  const auto count = static_cast<std::uint32_t>(items.size());
  if (copies_in_bulk && !goes_far(item)) {
    const RingKernel bulk = bulk_kernel_for(items, agrees);
    if (bulk.address != nullptr) return bulk;
  }
  if (!agrees) {
    const RingKernel posting = posting_copy_kernel_for(item, count);
    if (posting.address != nullptr) return posting;
  }
  if (item.protocol == Protocol::kLL) return ll_kernel_for(item);
  if (item.protocol == Protocol::kLL128) return ll128_kernel_for(item);
  switch (item.algorithm) {
    case Algorithm::kChain:
      return chain_kernel_for(item);
    case Algorithm::kTree:
      return tree_kernel_for(item);
    case Algorithm::kPat:
      return pat_kernel_for(item);
    default:
      return kernel_for(item, count, agrees);
  }
}

/// `whole_device`: as of launch_pairs.
weft_result launch_one(CudaStream& stream, const Launch& launch, std::uint32_t whole_device = 0) {
  if (launch.items.empty()) return WEFT_OK;
  if (launch.items.front().algorithm == Algorithm::kPair) {
    return launch_pairs(stream, launch, whole_device);
  }
  if (launch.window_reduction != nullptr) return launch_window_reduction(stream, launch);
  if (launch.items.front().algorithm == Algorithm::kCopy) return launch_copies(stream, launch);
  if (launch.items.front().direct != nullptr) {
    return launch_inbox(stream, launch, direct_shape_of(launch.items.front()), stream.may_overlap);
  }
  const auto items = static_cast<std::uint32_t>(launch.items.size());
  if (items > kMostItems) return WEFT_ERROR_OUT_OF_RESOURCES;
  const RingKernel kernel =
      channel_kernel_for(launch.items, stream.copies_in_bulk, launch.outputs != nullptr);
  if (kernel.address == nullptr) return WEFT_ERROR_UNSUPPORTED;
  return launch_ring(stream, launch, kernel);
}

/// Empty where the driver does not tell: nothing depends on it but nearness to NICs, rules, and
/// what is known of the paths between devices.
std::string pci_address_of(int device) {
  std::array<char, 32> room{};
  if (cudaDeviceGetPCIBusId(room.data(), static_cast<int>(room.size()), device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // the next call is not about it
    return {};
  }
  std::string address(room.data());
  std::ranges::transform(address, address.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return address;
}

/// Of a MIG instance its own (CUDA driver API, cuDeviceGetUuid); empty where the driver tells none.
std::string uuid_of(int index) {
  CUdevice device = 0;
  CUuuid uuid{};
  if (WEFT_DRIVER(cuDeviceGet, &device, index) != WEFT_OK ||
      WEFT_DRIVER(cuDeviceGetUuid, &uuid, device) != WEFT_OK) {
    return {};
  }
  std::string text;
  for (const char byte : uuid.bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    text += {kDigits[value >> 4], kDigits[value & 15]};
  }
  return text;
}

}  // namespace

std::string_view last_open_failure() {
  return failure().text;
}

weft_result CudaDevice::open(std::int32_t index, CudaDevice** out) {
  int count = 0;
  WEFT_CUDA(cudaGetDeviceCount(&count));
  if (index < 0 || index >= count) {
    failure() = {cudaErrorInvalidDevice, "there is no CUDA device " + std::to_string(index) +
                                             ": this process sees " + std::to_string(count)};
    return WEFT_ERROR_INVALID_ARGUMENT;
  }
  // The driver would compile them all first, for minutes, and they would run several times slower
  // than anybody expects.
  if (!kKernelsAreOptimised) {
    failure() = {cudaErrorNoKernelImageForDevice,
                 "libweft-cuda.so was built where no GPU is: its kernels are not optimised"};
    return WEFT_ERROR_UNSUPPORTED;
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(index));
  const weft_result prepared = device->prepare();
  if (prepared != WEFT_OK) return prepared;
  *out = device.release();
  return WEFT_OK;
}

weft_result CudaDevice::prepare() {
  const Scope scope(index_);
  WEFT_CUDA(cudaSetDevice(index_));  // else another one may still be current
  WEFT_CUDA(cudaFree(nullptr));      // makes the context
  int processors = 0;
  WEFT_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, index_));
  int major = 0;
  WEFT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_));
  // A driver that does not know what is asked for shares no device so.
  int shared = 0;
  if (cudaDeviceGetAttribute(&shared, cudaDevAttrMpsEnabled, index_) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
  is_of_processes_ = shared != 0;
  int fewest = INT_MAX;
  int oldest = INT_MAX;
  // A kernel that is loaded when first launched is loaded while others may spin, and waits for
  // them.
  const auto load = [&](const void* kernel, std::uint32_t shared_bytes) -> weft_result {
    cudaFuncAttributes attributes{};
    WEFT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    oldest = std::min(oldest, attributes.ptxVersion);
    if (shared_bytes != 0) {
      WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)));
    }
    const int most = std::min(attributes.maxThreadsPerBlock, static_cast<int>(kPostingThreads));
    int on_one = 0;
    WEFT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_one, kernel, most, shared_bytes));
    fewest = std::min(fewest, on_one);
    return WEFT_OK;
  };
  for (const auto kernels :
       {ring_kernels(), known_ring_kernels(), few_ring_kernels(), posting_copy_kernels(),
        chain_kernels(), tree_kernels(), pat_kernels(), ll_kernels(), ll128_kernels(),
        pair_kernels(), direct_kernels(), blocks_kernels(), wide_kernels(), wide_rooted_kernels(),
        wide_two_shot_kernels(), wide_blocks_kernels(), two_shot_kernels()}) {
    for (const void* kernel : kernels) {
      if (const weft_result loaded = load(kernel, 0); loaded != WEFT_OK) return loaded;
    }
  }
  for (const void* kernel :
       {reduce_sources_kernel_address(), store_kernel_address(), empty_kernel_address()}) {
    if (const weft_result loaded = load(kernel, 0); loaded != WEFT_OK) return loaded;
  }
  if (const weft_result ready = memory_.prepare(); ready != WEFT_OK) return ready;
  // Kernels compiled for older devices leave out what those lack, whichever device they run on.
  constexpr int kFirstWithClusters = 9;
  const bool knows_clusters = major >= kFirstWithClusters && oldest >= kFirstWithClusters * 10;
  launches_overlap_ = knows_clusters;
  has_clusters_ = knows_clusters;
  if (has_clusters_) {
    if (const weft_result asked = ask_for_bulk_copies(); asked != WEFT_OK) return asked;
    const weft_result loaded = load(multicast_kernel_address(), 0);
    if (loaded != WEFT_OK) return loaded;
  }
  if (copies_in_bulk_) {
    for (const void* kernel : bulk_ring_kernels()) {
      const weft_result loaded = load(kernel, bulk_shared_bytes());
      if (loaded != WEFT_OK) return loaded;
    }
  }
  processors_ = static_cast<std::uint32_t>(processors);
  groups_at_once_ = static_cast<std::uint32_t>(fewest) * processors_;
  if (const weft_result found = find_line_bytes(major); found != WEFT_OK) return found;
  pci_address_ = pci_address_of(index_);
  if (!pci_address_.empty()) memory_fabric_ = memory_fabric_of(index_, pci_address_);
  device_id_ = uuid_of(index_);
  return WEFT_OK;
}

// The kernels keep much in shared memory, of which devices of compute capability 12.x have less
// than those of 9.0 and 10.x: a CTA may have 99 KiB. Without these kernels others copy.
weft_result CudaDevice::ask_for_bulk_copies() {
  int room = 0;
  WEFT_CUDA(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, index_));
  std::size_t most = 0;
  for (const void* kernel : bulk_ring_kernels()) {
    cudaFuncAttributes attributes{};
    WEFT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    most = std::max(most, attributes.sharedSizeBytes + bulk_shared_bytes());
  }
  copies_in_bulk_ = most <= static_cast<std::size_t>(room);
  return WEFT_OK;
}

// NVLink carries a warp's line of 128 bytes in one packet: seen on compute capability 9.0
// (tests/gpu/litmus.cu), not looked at before. Atomics of peers are native over NVLink, not over
// PCIe. A device that sees no other cannot tell, and of those that this process does not see
// nothing is said: a host may have both.
weft_result CudaDevice::find_line_bytes(int major) {
  constexpr int kLeastMajor = 9;
  constexpr std::uint32_t kWholeLine = 128;
  int devices = 0;
  WEFT_CUDA(cudaGetDeviceCount(&devices));
  if (major < kLeastMajor || devices < 2) return WEFT_OK;
  std::vector<std::string> asked;
  for (int peer = 0; peer < devices; ++peer) {
    if (peer == index_) continue;
    int native = 0;
    WEFT_CUDA(
        cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, index_, peer));
    if (native == 0) return WEFT_OK;
    if (std::string address = pci_address_of(peer); !address.empty()) {
      asked.push_back(std::move(address));
    }
  }
  line_bytes_ = kWholeLine;
  line_peers_ = std::move(asked);
  return WEFT_OK;
}

weft_result CudaDevice::reach(std::string_view pci_address, std::int32_t* device) {
  int found = 0;
  WEFT_CUDA(cudaDeviceGetByPCIBusId(&found, std::string(pci_address).c_str()));
  *device = found;
  return memory_.reach(found);
}

bool CudaDevice::is_out_of_reach(std::string_view pci_address) const {
  int peer = index_;
  int possible = 1;
  cudaError_t asked = cudaDeviceGetByPCIBusId(&peer, std::string(pci_address).c_str());
  if (asked == cudaSuccess && peer != index_) {
    asked = cudaDeviceCanAccessPeer(&possible, index_, peer);
  }
  if (asked != cudaSuccess) static_cast<void>(cudaGetLastError());  // the next call is not about it
  return asked == cudaSuccess && possible == 0;
}

std::string_view CudaDevice::last_failure(std::int64_t* native) {
  *native = failure().code;
  return failure().text;
}

bool CudaDevice::has_kernel(const Task& task) const {
  if (joins_pair(task.operation) || is_exchange(task.operation)) return true;
  return kernel_exists(task);
}

LaunchShape CudaDevice::shape_of(std::span<const WorkItem> items, bool into_outputs) const {
  if (items.empty()) return {};
  const WorkItem& item = items.front();
  if (item.direct != nullptr) {
    const DirectShape shape = direct_shape_of(item);
    return {.groups = shape.parts, .lanes = shape.threads, .processors = processors_};
  }
  if (item.algorithm == Algorithm::kPair) {
    const std::uint32_t whole = std::min(kMostPairGroups, groups_at_once_);
    const bool takes_all =
        !is_of_processes_ && want_the_device(item.transfer_count, item.most_parts);
    return {.groups = takes_all ? std::min(item.transfer_count, whole)
                                : std::clamp(item.most_parts, 1U, kMostItems),
            .lanes = kPostingThreads,
            .processors = processors_};
  }
  return {.groups = static_cast<std::uint32_t>(items.size()),
          .lanes = channel_kernel_for(items, copies_in_bulk_, into_outputs).threads,
          .processors = processors_};
}

weft_result CudaDevice::store(DeviceStream* stream, void* to, std::span<const std::byte> bytes) {
  const Scope scope(index_);
  return cuda::store(*cuda(stream), to, bytes);
}

weft_result CudaDevice::launch(DeviceStream* stream, std::span<const Launch> launches) {
  const Scope scope(index_);
  for (const Launch& launch : launches) {
    const bool is_alone = communicators().load() == 1;
    const weft_result launched = is_alone && !wants_the_device(launch)
                                     ? launch_one(*cuda(stream), launch)
                                     : launch_beside(stream, launch);
    if (launched != WEFT_OK) return launched;
  }
  return WEFT_OK;
}

// Kernels of two communicators have to fit onto a device side by side: those of one may wait for
// ranks whose kernels wait, elsewhere, for those of the other. So who takes all of it is the only
// communicator there, of whichever context, and launches of one that joins later wait for that to
// be over; what is captured by the one does not take all, and of the other waits when it runs.
// Under the lock, since a communicator counts before its first launch: either it is seen here, or
// it sees the event.
weft_result CudaDevice::launch_beside(DeviceStream* on, const Launch& launch) {
  CudaStream& stream = *cuda(on);
  SharedDevice& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  const bool captures = is_capturing(on);
  const bool is_alone = shared.communicators.load() == 1;
  if (is_alone && !captures && !is_of_processes_ && wants_the_device(launch)) {
    if (shared.whole_over == nullptr) {
      WEFT_CUDA(cudaEventCreateWithFlags(&shared.whole_over, cudaEventDisableTiming));
    }
    const weft_result launched = launch_one(stream, launch, groups_at_once_);
    if (launched != WEFT_OK) return launched;
    shared.is_whole = true;
    return check(cudaEventRecord(shared.whole_over, stream.native), "cudaEventRecord");
  }
  if (!is_alone && shared.is_whole) {
    const cudaError_t over = cudaEventQuery(shared.whole_over);
    shared.is_whole = over == cudaErrorNotReady;
    if (shared.is_whole) {
      static_cast<void>(cudaGetLastError());  // the next call is not about it
      WEFT_CUDA(cudaStreamWaitEvent(stream.native, shared.whole_over,
                                    captures ? cudaEventWaitExternal : cudaEventWaitDefault));
    } else {
      WEFT_CUDA(over);
    }
  }
  // A driver with too much before it makes who launches wait, which others need not.
  lock.unlock();
  return launch_one(stream, launch);
}

}  // namespace weft::device::cuda
