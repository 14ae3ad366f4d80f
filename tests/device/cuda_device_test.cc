// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a CUDA device finds out when it is opened: which kernels it has room for, and which paths
// keep lines whole; how its streams end; and who may take all of it. It takes no GPU: of the CUDA
// runtime, of kernels and of memory there is what that asks for, as the test wants it, and the
// linker leaves all else out.
#include "core/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"
#include "core/device/cuda/memory_fabric.h"
#include "core/device/cuda/scope.h"

namespace {

/// What this process sees: devices of one kind.
struct SeenMachine {
  int major = 9;
  int compiled_for = 90;          // capability of all kernels
  int shared_bytes = 227 * 1024;  // that a CTA may have
  std::vector<std::string> devices = {"0000:1A:00.0"};
  std::set<std::pair<int, int>> nvlinks{};  // from the lower number to the higher
  std::set<const void*> loaded{};           // kernels
  cudaError_t made_current = cudaSuccess;   // what whoever makes one current is answered
};

SeenMachine& seen() {
  static SeenMachine machine;
  return machine;
}

/// The one stream of a program, with work that ends when the test says so.
class SeenStream {
 public:
  /// It is the null stream, and the program captures one that would wait for it.
  bool would_break_a_capture = false;
  bool has_broken_a_capture = false;
  bool is_captured = false;
  bool refuses_kernels = false;
  int waits = 0;              ///< For events, of any stream.
  int capture_questions = 0;  ///< Which capture it is part of.

  /// Somebody uses it, or awaits an event of it.
  void use() {
    const std::scoped_lock lock(mutex_);
    was_used_when_gone_ = was_used_when_gone_ || is_gone_;
  }
  void await_work() {
    std::unique_lock lock(mutex_);
    is_awaited_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return has_ended_; });
  }

  void wait_until_awaited() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return is_awaited_; }));
  }
  void go() {
    const std::scoped_lock lock(mutex_);
    is_gone_ = true;
  }
  void end_work() {
    const std::scoped_lock lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool has_ended() {
    const std::scoped_lock lock(mutex_);
    return has_ended_;
  }
  [[nodiscard]] bool was_used_when_gone() {
    const std::scoped_lock lock(mutex_);
    return was_used_when_gone_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_awaited_ = false;
  bool is_gone_ = false;
  bool has_ended_ = false;
  bool was_used_when_gone_ = false;
};

/// How many groups the latest launch of transfers was allowed to take of a whole device.
std::uint32_t& seen_groups() {
  static std::uint32_t groups = 0;
  return groups;
}

/// Empty kernels that streams are given, and launches of them that are under way.
class SeenBeginnings {
 public:
  bool lasts = false;  ///< The next one waits for a later one; set while none is under way.

  void launch() {
    const int under_way = ++under_way_;
    if (lasts) {
      lasts = false;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (over_ == 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      EXPECT_NE(over_, 0) << "the other one has waited for this";
    } else {
      most_ = std::max(most_.load(), under_way);
      std::this_thread::yield();
    }
    ++over_;
    --under_way_;
  }
  /// All there were since this was asked last, and the most at once.
  std::pair<int, int> take() { return {over_.exchange(0), most_.exchange(0)}; }

 private:
  std::atomic<int> under_way_{0};
  std::atomic<int> over_{0};
  std::atomic<int> most_{0};
};

SeenBeginnings& beginnings() {
  static SeenBeginnings seen_ones;
  return seen_ones;
}

/// What the program is told when it asks whether a launch of its own went well.
cudaError_t& last_error() {
  static cudaError_t error = cudaSuccess;
  return error;
}
cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

SeenStream*& seen_stream() {
  static SeenStream* stream = nullptr;
  return stream;
}

// Of the driver: what it answers of the one stream, and of a device.
CUresult tell_of_capture(CUstream /*stream*/, CUstreamCaptureStatus* status) {
  if (seen_stream()->would_break_a_capture) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  seen_stream()->use();
  *status =
      seen_stream()->is_captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
// Contexts, by their addresses: that which the runtime has for all devices here, and another one.
constexpr std::array<char, 2> kContexts{};
CUcontext context(std::size_t which) {
  return reinterpret_cast<CUcontext>(const_cast<char*>(&kContexts[which]));
}
CUcontext& current() {
  thread_local CUcontext now = nullptr;
  return now;
}
CUcontext& context_of_stream() {
  static CUcontext its = context(0);
  return its;
}
CUresult tell_context_of(CUstream stream, CUcontext* its, CUgreenCtx* green) {
  const bool is_null = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (is_null && seen_stream()->would_break_a_capture) {
    seen_stream()->has_broken_a_capture = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  *its = is_null ? current() : context_of_stream();
  *green = nullptr;
  return CUDA_SUCCESS;
}
CUresult tell_current_device(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult tell_device(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult tell_uuid(CUuuid* uuid, CUdevice device) {
  *uuid = {};
  uuid->bytes[0] = static_cast<char>(0xA0 + device);
  uuid->bytes[15] = 0x0F;
  return CUDA_SUCCESS;
}

constexpr std::size_t kStaticBytes = 1664;  // of shared memory, of each kernel
constexpr std::uint32_t kBulkBytes = 132 * 1024;
// Their addresses are those of kernels.
constexpr std::array<char, 4> kNames{};
constexpr std::array<const void*, 1> kOtherKernel = {&kNames[0]};
constexpr std::array<const void*, 1> kBulkKernel = {&kNames[1]};
constexpr std::array<const void*, 1> kMulticastKernel = {&kNames[2]};
constexpr std::array<const void*, 1> kEmptyKernel = {&kNames[3]};

}  // namespace

extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* /*result*/) {
  const std::string_view wanted = name;
  *function = nullptr;
  if (wanted == "cuStreamIsCapturing") *function = reinterpret_cast<void*>(tell_of_capture);
  if (wanted == "cuStreamGetCtx") *function = reinterpret_cast<void*>(tell_context_of);
  if (wanted == "cuCtxGetDevice") *function = reinterpret_cast<void*>(tell_current_device);
  if (wanted == "cuDeviceGet") *function = reinterpret_cast<void*>(tell_device);
  if (wanted == "cuDeviceGetUuid") *function = reinterpret_cast<void*>(tell_uuid);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(seen().devices.size());
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  *value = 0;
  if (attribute == cudaDevAttrComputeCapabilityMajor) *value = seen().major;
  if (attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin) *value = seen().shared_bytes;
  if (attribute == cudaDevAttrMultiProcessorCount) *value = 132;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  const bool links = seen().nvlinks.contains({std::min(from, to), std::max(from, to)});
  *value = attribute == cudaDevP2PAttrNativeAtomicSupported && links ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device) {
  std::snprintf(address, static_cast<std::size_t>(size), "%s",
                seen().devices[static_cast<std::size_t>(device)].c_str());
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  *attributes = {};
  attributes->sharedSizeBytes = kStaticBytes;
  attributes->maxThreadsPerBlock = 512;
  attributes->ptxVersion = seen().compiled_for;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute /*which*/, int value) {
  const std::size_t bytes = kStaticBytes + static_cast<std::size_t>(value);
  return std::cmp_greater(bytes, seen().shared_bytes) ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int /*threads*/, size_t /*shared*/) {
  seen().loaded.insert(kernel);
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t /*stream*/) {
  seen_stream()->use();
  return noted(seen_stream()->has_ended() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventQuery(cudaEvent_t /*event*/) {
  return noted(seen_stream()->has_ended() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  seen_stream()->use();
  seen_stream()->await_work();
  seen_stream()->use();
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t* /*graph*/,
                                     const cudaGraphNode_t** /*nodes*/,
                                     const cudaGraphEdgeData** /*edges*/, size_t* /*count*/) {
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status,
                                     unsigned long long* number) {
#endif
  if (seen_stream()->would_break_a_capture) return noted(cudaErrorStreamCaptureImplicit);
  seen_stream()->use();
  ++seen_stream()->capture_questions;
  *status = cudaStreamCaptureStatusNone;
  if (seen_stream()->is_captured) {
    *status = cudaStreamCaptureStatusActive;
    *number = 7;
  }
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t /*stream*/) {
  seen_stream()->use();
  EXPECT_FALSE(seen_stream()->would_break_a_capture);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) {
  seen_stream()->await_work();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t /*stream*/, cudaEvent_t /*event*/,
                                unsigned /*flags*/) {
  ++seen_stream()->waits;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 /*ctas*/, dim3 /*threads*/,
                             void** /*arguments*/, size_t /*shared*/, cudaStream_t /*stream*/) {
  EXPECT_EQ(kernel, kEmptyKernel[0]);
  EXPECT_NE(current(), nullptr);
  beginnings().launch();
  return noted(seen_stream()->refuses_kernels ? cudaErrorLaunchFailure : cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) {
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int /*device*/) {
  return seen().made_current;
}
cudaError_t cudaFree(void* /*memory*/) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error(), cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t /*error*/) {
  return "error";
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "an error";
}
}

namespace weft::device::cuda {

#define WEFT_OTHER_KERNELS(name) \
  std::span<const void* const> name() { \
    return kOtherKernel; \
  }
WEFT_OTHER_KERNELS(ring_kernels)
WEFT_OTHER_KERNELS(chain_kernels)
WEFT_OTHER_KERNELS(tree_kernels)
WEFT_OTHER_KERNELS(pat_kernels)
WEFT_OTHER_KERNELS(ll_kernels)
WEFT_OTHER_KERNELS(ll128_kernels)
WEFT_OTHER_KERNELS(known_ring_kernels)
WEFT_OTHER_KERNELS(few_ring_kernels)
WEFT_OTHER_KERNELS(posting_copy_kernels)
WEFT_OTHER_KERNELS(pair_kernels)
WEFT_OTHER_KERNELS(direct_kernels)
WEFT_OTHER_KERNELS(blocks_kernels)
WEFT_OTHER_KERNELS(wide_kernels)
WEFT_OTHER_KERNELS(wide_rooted_kernels)
WEFT_OTHER_KERNELS(wide_two_shot_kernels)
WEFT_OTHER_KERNELS(wide_blocks_kernels)
WEFT_OTHER_KERNELS(two_shot_kernels)
#undef WEFT_OTHER_KERNELS
std::span<const void* const> bulk_ring_kernels() {
  return kBulkKernel;
}
std::uint32_t bulk_shared_bytes() {
  return kBulkBytes;
}
const void* multicast_kernel_address() {
  return kMulticastKernel[0];
}
const void* store_kernel_address() {
  return kOtherKernel[0];
}
const void* empty_kernel_address() {
  return kEmptyKernel[0];
}
const void* reduce_sources_kernel_address() {
  return kOtherKernel[0];
}
RingKernel bulk_kernel_for(std::span<const WorkItem> /*items*/, bool /*agrees*/) {
  return {.address = kBulkKernel[0], .threads = 96};
}
RingKernel posting_copy_kernel_for(const WorkItem& /*item*/, std::uint32_t /*items*/) {
  return {.address = kOtherKernel[0], .threads = 544};
}

std::string memory_fabric_of(std::int32_t /*device*/, const std::string& /*bus_id*/) {
  return {};
}
weft_result launch_pairs(CudaStream& /*stream*/, const Launch& /*launch*/,
                         std::uint32_t whole_device) {
  seen_groups() = whole_device;
  return WEFT_OK;
}
CUcontext current_context() {
  return current();
}
Scope::Scope(std::int32_t /*index*/) : before_(std::exchange(current(), context(0))) {}
Scope::~Scope() {
  current() = before_;
}
weft_result CudaMemory::prepare() {
  return WEFT_OK;
}
CudaMemory::~CudaMemory() = default;
MulticastMemory::~MulticastMemory() = default;

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

/// The device of that number, of such a machine; null where it cannot be opened.
std::unique_ptr<CudaDevice> open_on(SeenMachine machine, std::int32_t index = 0) {
  seen() = std::move(machine);
  CudaDevice* opened = nullptr;
  EXPECT_EQ(CudaDevice::open(index, &opened), WEFT_OK) << last_open_failure();
  return std::unique_ptr<CudaDevice>(opened);
}

/// Threads of the kernel that a broadcast by a ring takes.
std::uint32_t threads_of_copies(const CudaDevice& device) {
  WorkItem item{};
  item.operation = Operation::kBroadcast;
  item.algorithm = Algorithm::kRing;
  item.protocol = Protocol::kSimple;
  return device.shape_of({&item, 1}, false).lanes;
}

TEST(CudaDevices, CopyInBulkWhereTheirKernelsHaveRoom) {
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  EXPECT_THAT(seen().loaded, Contains(kBulkKernel[0]));
  EXPECT_THAT(seen().loaded, Contains(kMulticastKernel[0]));
  EXPECT_EQ(threads_of_copies(*device), 96U);
}

// Compute capability 12.x.
TEST(CudaDevices, CopyOtherwiseWhereACtaHasLessSharedMemory) {
  const auto device = open_on({.major = 12, .shared_bytes = 99 * 1024});
  ASSERT_NE(device, nullptr);
  EXPECT_THAT(seen().loaded, Not(Contains(kBulkKernel[0])));
  EXPECT_THAT(seen().loaded, Contains(kMulticastKernel[0]));
  EXPECT_EQ(threads_of_copies(*device), 544U);
}

// What a kernel has of its own counts, too.
TEST(CudaDevices, CopyInBulkToTheLastByteOfSharedMemory) {
  const int needed = static_cast<int>(kBulkBytes + kStaticBytes);
  const auto fits = open_on({.major = 12, .shared_bytes = needed});
  EXPECT_THAT(seen().loaded, Contains(kBulkKernel[0]));
  const auto lacks = open_on({.major = 12, .shared_bytes = needed - 1});
  EXPECT_THAT(seen().loaded, Not(Contains(kBulkKernel[0])));
}

TEST(CudaDevices, HaveNeitherKernelBeforeClusters) {
  const auto device = open_on({.major = 8, .shared_bytes = 163 * 1024});
  EXPECT_THAT(seen().loaded, UnorderedElementsAre(kOtherKernel[0], kEmptyKernel[0]));
}

// Their bodies are empty there: large broadcasts would end well and have moved nothing.
TEST(CudaDevices, HaveNeitherKernelThatIsCompiledForDevicesWithoutClusters) {
  const auto device = open_on({.major = 9, .compiled_for = 80});
  ASSERT_NE(device, nullptr);
  EXPECT_THAT(seen().loaded, UnorderedElementsAre(kOtherKernel[0], kEmptyKernel[0]));
  EXPECT_EQ(threads_of_copies(*device), 544U);
}

TEST(CudaDevices, VouchForLinesTowardsThoseTheyWereAskedAbout) {
  const SeenMachine pair{.devices = {"0000:1A:00.0", "0000:B2:00.0"}, .nvlinks = {{0, 1}}};
  const auto first = open_on(pair, 0);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->line_bytes(), 128U);
  EXPECT_EQ(first->pci_address(), "0000:1a:00.0");
  EXPECT_THAT(first->line_peers(), ElementsAre("0000:b2:00.0"));
  const auto second = open_on(pair, 1);
  ASSERT_NE(second, nullptr);
  EXPECT_THAT(second->line_peers(), ElementsAre("0000:1a:00.0"));
}

TEST(CudaDevices, VouchForNoLinesAlone) {
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->line_bytes(), 8U);
  EXPECT_THAT(device->line_peers(), IsEmpty());
}

// Each call asks, and what tells more takes longer.
TEST(CudaStreams, AreAskedForTheirCaptureWhereThereIsOne) {
  SeenStream native;
  seen_stream() = &native;
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  DeviceStream* stream = nullptr;
  ASSERT_EQ(device->wrap_stream(&native, &stream), WEFT_OK);
  EXPECT_EQ(device->capture_number(stream), 0U);
  EXPECT_EQ(native.capture_questions, 0);
  native.is_captured = true;
  EXPECT_EQ(device->capture_number(stream), 7U);
  EXPECT_EQ(native.capture_questions, 1);
  device->destroy_stream(stream);
}

// As instances into which MIG divides a GPU are, which have one address together.
TEST(CudaDevices, AreToldApartByTheIdThatTheDriverGivesThem) {
  const SeenMachine instances{.devices = {"0000:1A:00.0", "0000:1A:00.0"}};
  const auto first = open_on(instances, 0);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->device_id(), "a000000000000000000000000000000f");
  const auto second = open_on(instances, 1);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->device_id(), "a100000000000000000000000000000f");
}

// Else what is opened would be whichever was current.
TEST(CudaDevices, AreNotOpenedWhereTheyCannotBeCurrent) {
  seen() = {.made_current = cudaErrorMemoryAllocation};
  CudaDevice* opened = nullptr;
  EXPECT_EQ(CudaDevice::open(0, &opened), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(opened, nullptr);
  EXPECT_NE(last_open_failure().find("cudaSetDevice"), std::string_view::npos);
}

TEST(CudaStreams, OfAnotherContextAreRefused) {
  SeenStream native;
  seen_stream() = &native;
  const SeenMachine machine{.devices = {"0000:1A:00.0", "0000:1B:00.0"}};
  const auto first = open_on(machine, 0);
  const auto second = open_on(machine, 1);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const auto wrap = [](CudaDevice& device, void* stream) {
    DeviceStream* out = nullptr;
    const weft_result result = device.wrap_stream(stream, &out);
    if (result == WEFT_OK) device.destroy_stream(out);
    return result;
  };
  context_of_stream() = context(1);
  EXPECT_EQ(wrap(*first, &native), WEFT_ERROR_INVALID_ARGUMENT);
  context_of_stream() = context(0);
  EXPECT_EQ(wrap(*first, &native), WEFT_OK);
  // The null stream is of whichever is current, and of another device where that is current.
  current() = context(1);
  EXPECT_EQ(wrap(*first, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(wrap(*first, cudaStreamLegacy), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(wrap(*second, nullptr), WEFT_OK);
  EXPECT_EQ(wrap(*first, &native), WEFT_OK);
  native.would_break_a_capture = true;
  EXPECT_EQ(wrap(*second, nullptr), WEFT_OK);
  EXPECT_FALSE(native.has_broken_a_capture);
  native.would_break_a_capture = false;
  current() = nullptr;
  EXPECT_EQ(wrap(*first, nullptr), WEFT_OK);
}

/// Gives the stream to the device, and takes it back.
void wrap_once(CudaDevice& device, void* native) {
  DeviceStream* stream = nullptr;
  ASSERT_EQ(device.wrap_stream(native, &stream), WEFT_OK);
  device.destroy_stream(stream);
}

// Two streams that several threads give their first work at once may wait for each other's.
TEST(CudaStreams, AreBegunOneAtATime) {
  SeenStream native;
  seen_stream() = &native;
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  beginnings().take();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        wrap_once(*device, &native);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_THAT(beginnings().take(), Pair(800, 1));
}

// By the driver, which makes launches wait where a stream holds very many.
TEST(CudaStreams, AreBegunThoughAnotherOneIsHeldUp) {
  SeenStream native;
  seen_stream() = &native;
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  beginnings().take();
  beginnings().lasts = true;
  std::thread other([&] { wrap_once(*device, &native); });
  wrap_once(*device, &native);
  other.join();
  EXPECT_THAT(beginnings().take(), Pair(2, testing::_));
}

// What is captured would be replayed; the null stream waits for streams of the program, and they
// for it.
TEST(CudaStreams, AreNotBegunWhereThatIsMoreThanNothing) {
  SeenStream native;
  seen_stream() = &native;
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  beginnings().take();
  native.is_captured = true;
  wrap_once(*device, &native);
  native.is_captured = false;
  wrap_once(*device, nullptr);
  wrap_once(*device, cudaStreamLegacy);
  EXPECT_THAT(beginnings().take(), Pair(0, 0));
  native.refuses_kernels = true;
  wrap_once(*device, &native);
  EXPECT_THAT(beginnings().take(), Pair(1, 1));
  EXPECT_EQ(last_error(), cudaSuccess) << "the program would take it for its own launch's";
}

// Once its owner has left a stream of the program the program may end it at once.
TEST(CudaStreams, AreLeftWhileOthersAwaitThem) {
  SeenStream native;
  seen_stream() = &native;
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  DeviceStream* stream = nullptr;
  ASSERT_EQ(device->wrap_stream(&native, &stream), WEFT_OK);
  std::thread other([&] { EXPECT_EQ(device->await_stream(stream), WEFT_OK); });
  native.wait_until_awaited();
  EXPECT_EQ(device->query(stream), WEFT_IN_PROGRESS);
  EXPECT_EQ(last_error(), cudaSuccess) << "the program would take it for its own launch's";
  device->leave_stream(stream);
  EXPECT_FALSE(native.has_ended());
  native.go();
  EXPECT_EQ(device->query(stream), WEFT_IN_PROGRESS);
  EXPECT_EQ(last_error(), cudaSuccess);
  native.end_work();
  EXPECT_EQ(device->query(stream), WEFT_OK);
  other.join();
  EXPECT_EQ(device->await_stream(stream), WEFT_OK);
  EXPECT_EQ(device->capture_number(stream), 0U);
  device->destroy_stream(stream);
  EXPECT_FALSE(native.was_used_when_gone());
}

// Whoever records an event there ends the capture of a stream that has nothing to do with it.
TEST(CudaStreams, OfNullAreLeftAloneWhileAnotherIsCaptured) {
  SeenStream native;
  seen_stream() = &native;
  native.would_break_a_capture = true;
  const auto device = open_on({});
  ASSERT_NE(device, nullptr);
  DeviceStream* stream = nullptr;
  ASSERT_EQ(device->wrap_stream(nullptr, &stream), WEFT_OK);
  EXPECT_NE(device->capture_number(stream), 0U);
  EXPECT_EQ(last_error(), cudaSuccess) << "the program would take it for its own launch's";
  EXPECT_TRUE(device->is_lasting(stream));
  device->leave_stream(stream);
  EXPECT_NE(device->capture_number(stream), 0U);
  // It is there for whoever comes after what it was given, and waits for that.
  native.would_break_a_capture = false;
  EXPECT_EQ(device->capture_number(stream), 0U);
  EXPECT_EQ(device->query(stream), WEFT_IN_PROGRESS);
  DeviceStream* later = nullptr;
  ASSERT_EQ(device->wrap_stream(&native, &later), WEFT_OK);
  EXPECT_FALSE(device->is_lasting(later));
  EXPECT_EQ(device->order_after(later, stream, kWholeStream), WEFT_OK);
  EXPECT_EQ(native.waits, 1);
  native.end_work();
  EXPECT_EQ(device->await_stream(stream), WEFT_OK);
  EXPECT_EQ(device->query(stream), WEFT_OK);
  device->destroy_stream(later);
  device->destroy_stream(stream);
}

/// A context's view of a device, with a stream to launch on.
struct DeviceOfContext {
  std::unique_ptr<CudaDevice> device;
  DeviceStream* stream = nullptr;

  DeviceOfContext(const SeenMachine& machine, std::int32_t index)
      : device(open_on(machine, index)) {
    EXPECT_EQ(device->wrap_stream(seen_stream(), &stream), WEFT_OK);
  }
  DeviceOfContext(const DeviceOfContext&) = delete;
  DeviceOfContext& operator=(const DeviceOfContext&) = delete;
  ~DeviceOfContext() { device->destroy_stream(stream); }

  /// Whether an exchange that wants all of the device may have that.
  [[nodiscard]] bool has_all() const {
    WorkItem item{};
    item.algorithm = Algorithm::kPair;
    item.transfer_count = 8;
    item.most_parts = 2;
    Launch launch{.items = {&item, 1}};
    launch.own_processors = true;
    EXPECT_TRUE(wants_the_device(launch));
    EXPECT_EQ(device->launch(stream, {&launch, 1}), WEFT_OK);
    return seen_groups() != 0;
  }
};

// Contexts know nothing of each other, and kernels of their communicators have to fit there alike.
TEST(WholeDevices, AreHadByTheOnlyCommunicatorOfAllContexts) {
  SeenStream native;
  seen_stream() = &native;
  const SeenMachine machine{.devices = {"0000:1A:00.0", "0000:B2:00.0"}};
  const DeviceOfContext one(machine, 0);
  const DeviceOfContext two(machine, 0);
  const DeviceOfContext elsewhere(machine, 1);
  one.device->communicators() += 1;
  elsewhere.device->communicators() += 1;
  EXPECT_TRUE(one.has_all());
  EXPECT_TRUE(elsewhere.has_all());
  EXPECT_EQ(native.waits, 0);
  two.device->communicators() += 1;
  EXPECT_FALSE(two.has_all());
  EXPECT_EQ(native.waits, 1) << "what took all may still run";
  EXPECT_FALSE(one.has_all());
  native.end_work();
  EXPECT_FALSE(two.has_all());
  EXPECT_EQ(native.waits, 2) << "nothing that took all is left";
  one.device->communicators() -= 1;
  EXPECT_TRUE(two.has_all());
  two.device->communicators() -= 1;
  elsewhere.device->communicators() -= 1;
}

TEST(CudaDevices, VouchForNoLinesBesideOneThatPcieJoins) {
  const auto device =
      open_on({.devices = {"0000:1A:00.0", "0000:B2:00.0", "0000:C0:00.0"}, .nvlinks = {{0, 1}}});
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->line_bytes(), 8U);
  EXPECT_THAT(device->line_peers(), IsEmpty());
}

}  // namespace
}  // namespace weft::device::cuda
