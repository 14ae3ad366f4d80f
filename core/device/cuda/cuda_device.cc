// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>

#include <cuda.h>

#include "core/device/cuda/kernels.h"
#include "core/model/work_item.h"

namespace weft::device::cuda {
namespace {

struct Failure {
  cudaError_t code = cudaSuccess;
  std::string text;
};

// Of the calling thread, like errno: what a code of weft_result cannot say.
Failure& failure() {
  thread_local Failure kept;
  return kept;
}

weft_result translate(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return WEFT_OK;
    case cudaErrorMemoryAllocation:
      return WEFT_ERROR_OUT_OF_MEMORY;
    case cudaErrorNotReady:
      return WEFT_IN_PROGRESS;
    case cudaErrorNotSupported:
    case cudaErrorPeerAccessUnsupported:
      return WEFT_ERROR_UNSUPPORTED;
    default:
      return WEFT_ERROR_DEVICE;
  }
}

weft_result check(cudaError_t error, const char* what) {
  if (error == cudaSuccess || error == cudaErrorNotReady) return translate(error);
  failure() = {error, std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                          cudaGetErrorName(error) + ")"};
  // Only errors that stick are of interest to the next call.
  static_cast<void>(cudaGetLastError());
  return translate(error);
}

#define WEFT_CUDA(call) \
  do { \
    const weft_result checked = check(call, #call); \
    if (checked != WEFT_OK) return checked; \
  } while (false)

// Makes the device current, and calls legal that a capture elsewhere in this thread would forbid;
// both until it goes.
class Scope {
 public:
  explicit Scope(std::int32_t index) {
    static_cast<void>(cudaGetDevice(&before_));
    if (before_ != index) static_cast<void>(cudaSetDevice(index));
    changed_ = before_ != index;
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

struct CudaStream {
  cudaStream_t native = nullptr;
  cudaEvent_t event = nullptr;  // for order_after
  bool owned = false;
  bool may_overlap = false;  // kernels with the end of the one before
};

// DeviceStream is never defined: its address stands for the stream of the runtime that made it.
CudaStream* cuda(DeviceStream* stream) {
  return reinterpret_cast<CudaStream*>(stream);
}

using ProcessName = std::array<std::uint64_t, 2>;

// Drawn once for each process: a pid alone means little where processes have namespaces.
const ProcessName& this_process() {
  static const ProcessName name = [] {
    ProcessName drawn{};
    std::random_device random;
    for (std::uint64_t& word : drawn)
      word = (static_cast<std::uint64_t>(random()) << 32) | random();
    return drawn;
  }();
  return name;
}

// The extent of an allocation. By the driver's function, which the runtime hands out: linking the
// driver would need it on every machine.
weft_result address_range(void* memory, CUdeviceptr* base, std::size_t* bytes) {
  using GetAddressRange = CUresult(CUdeviceptr*, std::size_t*, CUdeviceptr);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  WEFT_CUDA(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, 12000,
                                             cudaEnableDefault, &found));
  if (function == nullptr ||
      reinterpret_cast<GetAddressRange*>(function)(
          base, bytes, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS) {
    failure() = {cudaErrorInvalidDevicePointer, "the driver knows no allocation there"};
    return WEFT_ERROR_DEVICE;
  }
  return WEFT_OK;
}

constexpr std::size_t kSmallGrain = 512;

std::size_t rounded(std::size_t bytes) {
  const std::size_t grain = bytes >= kExportGrain / 4 ? kExportGrain : kSmallGrain;
  return (std::max<std::size_t>(bytes, 1) + grain - 1) / grain * grain;
}

template <std::uint32_t kItems>
weft_result launch_items(CudaStream& stream, const Launch& launch, const void* kernel) {
  KernelArgument<kItems> argument;
  argument.control = {.abort = reinterpret_cast<const std::uint32_t*>(launch.abort),
                      .outcome = launch.outcome,
                      .waiting = launch.waiting};
  std::copy(launch.items.begin(), launch.items.end(), argument.items);
  void* arguments[] = {&argument};
  return check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(launch.items.size())),
                                dim3(kThreads), arguments, 0, stream.native),
               "cudaLaunchKernel");
}

// Programmatic serialization: the kernel may be set up while the one before it in the stream still
// runs, and waits for its end itself.
weft_result launch_direct(CudaStream& stream, const Launch& launch) {
  const WorkItem& item = launch.items.front();
  const void* kernel = launch.items.size() == 1 ? direct_kernel_for(item) : nullptr;
  if (kernel == nullptr) return WEFT_ERROR_UNSUPPORTED;
  DirectArgument argument{.control = {.abort = reinterpret_cast<const std::uint32_t*>(launch.abort),
                                      .outcome = launch.outcome,
                                      .waiting = launch.waiting},
                          .item = item,
                          .peers = *item.direct};
  void* arguments[] = {&argument};
  const std::uint64_t payload = item.count * element_size(item.type);
  const DirectShape shape = direct_shape(direct_lines(payload));
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.parts);
  config.blockDim = dim3(shape.threads);
  config.stream = stream.native;
  config.attrs = &overlap;
  config.numAttrs = stream.may_overlap ? 1 : 0;
  return check(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

weft_result launch_one(CudaStream& stream, const Launch& launch) {
  if (launch.items.empty()) return WEFT_OK;
  if (launch.items.front().direct != nullptr) return launch_direct(stream, launch);
  const auto items = static_cast<std::uint32_t>(launch.items.size());
  if (items > kMostItems) return WEFT_ERROR_OUT_OF_RESOURCES;
  const void* kernel = kernel_for(launch.items.front(), items);
  if (kernel == nullptr) return WEFT_ERROR_UNSUPPORTED;
  switch (argument_items(items)) {
    case 2:
      return launch_items<2>(stream, launch, kernel);
    case 8:
      return launch_items<8>(stream, launch, kernel);
    default:
      return launch_items<kMostItems>(stream, launch, kernel);
  }
}

}  // namespace

struct CudaDevice::Ticket {
  ProcessName process{};
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::int32_t device = 0;
  std::uint32_t reserved = 0;
  cudaIpcMemHandle_t handle{};
};

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
  std::unique_ptr<CudaDevice> device(new CudaDevice(index));
  const weft_result prepared = device->prepare();
  if (prepared != WEFT_OK) return prepared;
  *out = device.release();
  return WEFT_OK;
}

weft_result CudaDevice::prepare() {
  const Scope scope(index_);
  WEFT_CUDA(cudaFree(nullptr));  // makes the context
  WEFT_CUDA(cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking));
  // A kernel that is loaded when first launched is loaded while others may spin, and waits for
  // them.
  for (const auto kernels : {ring_kernels(), direct_kernels()}) {
    for (const void* kernel : kernels) {
      cudaFuncAttributes attributes{};
      WEFT_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    }
  }
  int major = 0;
  WEFT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index_));
  launches_overlap_ = major >= 9;
  std::array<char, 32> address{};
  // Only nearness to NICs depends on it: a driver that does not tell leaves it unknown.
  if (cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), index_) ==
      cudaSuccess) {
    pci_address_ = address.data();
    std::ranges::transform(pci_address_, pci_address_.begin(), [](char c) {
      return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }
  return WEFT_OK;
}

CudaDevice::~CudaDevice() {
  const Scope scope(index_);
  for (void* memory : imports_)
    static_cast<void>(cudaIpcCloseMemHandle(memory));
  for (const auto& [size, memory] : device_memory_.free)
    static_cast<void>(cudaFree(memory));
  for (const auto& [memory, size] : device_memory_.used)
    static_cast<void>(cudaFree(memory));
  for (const auto& [size, memory] : shared_memory_.free)
    static_cast<void>(cudaFreeHost(memory));
  for (const auto& [memory, size] : shared_memory_.used)
    static_cast<void>(cudaFreeHost(memory));
  if (own_stream_ != nullptr) static_cast<void>(cudaStreamDestroy(own_stream_));
}

std::string_view CudaDevice::last_failure(std::int64_t* native) {
  *native = failure().code;
  return failure().text;
}

weft_result CudaDevice::zero(void* memory, std::size_t bytes) {
  WEFT_CUDA(cudaMemsetAsync(memory, 0, bytes, own_stream_));
  WEFT_CUDA(cudaStreamSynchronize(own_stream_));
  return WEFT_OK;
}

weft_result CudaDevice::take(Pool& pool, std::size_t bytes, bool shared, void** out) {
  *out = nullptr;
  const Scope scope(index_);
  const std::size_t size = rounded(bytes);
  void* memory = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = pool.free.find(size);
    if (found != pool.free.end()) {
      memory = found->second;
      pool.free.erase(found);
    }
  }
  if (memory == nullptr) {
    if (shared) {
      WEFT_CUDA(cudaHostAlloc(&memory, size, cudaHostAllocPortable | cudaHostAllocMapped));
    } else {
      WEFT_CUDA(cudaMalloc(&memory, size));
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    pool.used.emplace(memory, size);
  }
  if (shared) {
    std::memset(memory, 0, size);
  } else if (const weft_result zeroed = zero(memory, size); zeroed != WEFT_OK) {
    give_back(pool, memory);
    return zeroed;
  }
  *out = memory;
  return WEFT_OK;
}

void CudaDevice::give_back(Pool& pool, void* memory) {
  if (memory == nullptr) return;
  const std::scoped_lock lock(mutex_);
  const auto found = pool.used.find(memory);
  if (found == pool.used.end()) return;
  pool.free.emplace(found->second, memory);
  pool.used.erase(found);
}

bool CudaDevice::has_kernel(const Task& task) const {
  return kernel_exists(task);
}

weft_result CudaDevice::allocate(std::size_t bytes, void** out) {
  return take(device_memory_, bytes, false, out);
}
void CudaDevice::release(void* memory) {
  give_back(device_memory_, memory);
}
weft_result CudaDevice::allocate_shared(std::size_t bytes, void** out) {
  return take(shared_memory_, bytes, true, out);
}
void CudaDevice::release_shared(void* memory) {
  give_back(shared_memory_, memory);
}

weft_result CudaDevice::export_memory(void* memory, MemoryTicket* out) {
  Ticket ticket;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = device_memory_.used.find(memory);
    // A smaller one shares its pages with others, which a ticket would open as well.
    if (found == device_memory_.used.end() || found->second % kExportGrain != 0) {
      failure() = {cudaErrorInvalidValue, "only whole allocations of 512 KiB or more are exported"};
      return WEFT_ERROR_INVALID_ARGUMENT;
    }
    ticket.bytes = found->second;
  }
  const Scope scope(index_);
  WEFT_CUDA(cudaIpcGetMemHandle(&ticket.handle, memory));
  ticket.process = this_process();
  ticket.address = reinterpret_cast<std::uint64_t>(memory);
  ticket.device = index_;
  static_assert(sizeof(ticket) <= sizeof(out->bytes));
  std::memcpy(out->bytes.data(), &ticket, sizeof(ticket));
  return WEFT_OK;
}

weft_result CudaDevice::import_memory(const MemoryTicket& bytes, void** out, std::size_t* size) {
  Ticket ticket;
  std::memcpy(&ticket, bytes.bytes.data(), sizeof(ticket));
  const Scope scope(index_);
  if (ticket.process == this_process()) return import_own(ticket, out, size);
  void* memory = nullptr;
  WEFT_CUDA(cudaIpcOpenMemHandle(&memory, ticket.handle, cudaIpcMemLazyEnablePeerAccess));
  {
    const std::scoped_lock lock(mutex_);
    imports_.insert(memory);
  }
  // How much that opened says the driver, not the ticket.
  CUdeviceptr base = 0;
  const weft_result known = address_range(memory, &base, size);
  if (known != WEFT_OK) return known;
  *out = memory;
  return WEFT_OK;
}

// Memory that this process holds itself has an address already, but the ticket may be stale.
weft_result CudaDevice::import_own(const Ticket& ticket, void** out, std::size_t* size) {
  auto* memory = reinterpret_cast<void*>(ticket.address);
  cudaPointerAttributes attributes{};
  WEFT_CUDA(cudaPointerGetAttributes(&attributes, memory));
  CUdeviceptr base = 0;
  bool alive = attributes.type == cudaMemoryTypeDevice && attributes.device == ticket.device;
  if (alive) {
    const Scope owner(ticket.device);  // the driver asks the current context
    alive = address_range(memory, &base, size) == WEFT_OK && base == ticket.address;
  }
  if (!alive) {
    failure() = {cudaErrorInvalidDevicePointer, "the ticket names memory that is no more"};
    return WEFT_ERROR_PEER;
  }
  const weft_result reached = reach_device(ticket.device);
  if (reached != WEFT_OK) return reached;
  *out = memory;
  return WEFT_OK;
}

// Left open: closing waits for kernels, and a peer's memory that is mapped for longer harms nobody.
void CudaDevice::close_import(void* /*memory*/) {}

weft_result CudaDevice::reach_device(std::int32_t peer_index) {
  if (peer_index == index_) return WEFT_OK;
  {
    const std::scoped_lock lock(mutex_);
    if (reached_.contains(peer_index)) return WEFT_OK;
  }
  const Scope scope(index_);
  int possible = 0;
  WEFT_CUDA(cudaDeviceCanAccessPeer(&possible, index_, peer_index));
  if (possible == 0) {
    failure() = {cudaErrorPeerAccessUnsupported, "CUDA devices " + std::to_string(index_) +
                                                     " and " + std::to_string(peer_index) +
                                                     " cannot reach each other's memory"};
    return WEFT_ERROR_UNSUPPORTED;
  }
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer_index, 0);
  if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    WEFT_CUDA(enabled);
  }
  const std::scoped_lock lock(mutex_);
  reached_.insert(peer_index);
  return WEFT_OK;
}

weft_result CudaDevice::register_host(void* memory, std::size_t bytes) {
  const Scope scope(index_);
  const cudaError_t registered =
      cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (registered == cudaErrorHostMemoryAlreadyRegistered) {
    static_cast<void>(cudaGetLastError());
    return WEFT_OK;
  }
  WEFT_CUDA(registered);
  return WEFT_OK;
}

void CudaDevice::unregister_host(void* memory) {
  const Scope scope(index_);
  if (cudaHostUnregister(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

weft_result CudaDevice::create_stream(DeviceStream** out) {
  const Scope scope(index_);
  auto stream = std::make_unique<CudaStream>();
  stream->may_overlap = launches_overlap_;
  stream->owned = true;
  WEFT_CUDA(cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking));
  *out = reinterpret_cast<DeviceStream*>(stream.release());
  return WEFT_OK;
}

weft_result CudaDevice::wrap_stream(void* native, DeviceStream** out) {
  auto stream = std::make_unique<CudaStream>();
  stream->may_overlap = launches_overlap_;
  stream->native = static_cast<cudaStream_t>(native);
  *out = reinterpret_cast<DeviceStream*>(stream.release());
  return WEFT_OK;
}

void CudaDevice::destroy_stream(DeviceStream* stream) {
  if (stream == nullptr) return;
  const Scope scope(index_);
  const std::unique_ptr<CudaStream> owned(cuda(stream));
  if (owned->owned) {
    static_cast<void>(cudaStreamSynchronize(owned->native));
    static_cast<void>(cudaStreamDestroy(owned->native));
  }
  if (owned->event != nullptr) static_cast<void>(cudaEventDestroy(owned->event));
}

bool CudaDevice::is_capturing(DeviceStream* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(cuda(stream)->native, &status) != cudaSuccess) return false;
  return status != cudaStreamCaptureStatusNone;
}

// Across the border of a capture nothing can be ordered here: whoever replays a graph beside other
// work orders the two.
weft_result CudaDevice::order_after(DeviceStream* stream, DeviceStream* earlier) {
  const Scope scope(index_);
  if (is_capturing(stream) != is_capturing(earlier)) return WEFT_OK;
  CudaStream& before = *cuda(earlier);
  if (before.event == nullptr) {
    WEFT_CUDA(cudaEventCreateWithFlags(&before.event, cudaEventDisableTiming));
  }
  WEFT_CUDA(cudaEventRecord(before.event, before.native));
  WEFT_CUDA(cudaStreamWaitEvent(cuda(stream)->native, before.event, 0));
  return WEFT_OK;
}

weft_result CudaDevice::launch(DeviceStream* stream, std::span<const Launch> launches) {
  const Scope scope(index_);
  for (const Launch& launch : launches) {
    const weft_result launched = launch_one(*cuda(stream), launch);
    if (launched != WEFT_OK) return launched;
  }
  return WEFT_OK;
}

weft_result CudaDevice::synchronize(DeviceStream* stream) {
  const Scope scope(index_);
  return check(cudaStreamSynchronize(cuda(stream)->native), "cudaStreamSynchronize");
}

weft_result CudaDevice::query(DeviceStream* stream) {
  const Scope scope(index_);
  return check(cudaStreamQuery(cuda(stream)->native), "cudaStreamQuery");
}

}  // namespace weft::device::cuda
