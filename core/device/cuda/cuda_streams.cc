// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The streams of a CUDA device: whose they are, in what order their work comes, which of them are
// captured, and when they have ended.
#include <chrono>
#include <memory>
#include <mutex>

#include "core/device/cuda/cuda_device.h"
#include "core/device/cuda/driver_call.h"
#include "core/device/cuda/failure.h"
#include "core/device/cuda/kernels.h"
#include "core/device/cuda/launch.h"
#include "core/device/cuda/scope.h"

namespace weft::device::cuda {
namespace {

// Long enough for a launch, the first ones of a process included. Who has it for longer launches
// behind so much that the driver makes it wait, perhaps for whoever waits here.
constexpr std::chrono::milliseconds kPatience{100};

// Where two threads give their streams the first work at once, it may be that what one of the
// streams is given then, or later, waits for the other one's, though the device has queues for both
// (bench/results/2026-12-01-gpu-new-streams-ways-h200.txt): kernels that wait for each other never
// end so. One thread at a time never meets it. What fails here, the stream's next work tells.
void begin_stream(cudaStream_t stream) {
  static std::timed_mutex mutex;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  const weft_result told = WEFT_DRIVER(cuStreamIsCapturing, stream, &status);
  if (told != WEFT_OK || status != CU_STREAM_CAPTURE_STATUS_NONE) return;
  const std::unique_lock lock(mutex, kPatience);
  const void* kernel = empty_kernel_address();
  static_cast<void>(
      check(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, stream), "cudaLaunchKernel"));
}

}  // namespace

weft_result make_stream(cudaStream_t* out) {
  WEFT_CUDA(cudaStreamCreateWithFlags(out, cudaStreamNonBlocking));
  begin_stream(*out);
  return WEFT_OK;
}

weft_result CudaDevice::create_stream(DeviceStream** out) {
  const Scope scope(index_);
  auto stream = std::make_unique<CudaStream>();
  stream->memory = &memory_;
  stream->may_overlap = launches_overlap_;
  stream->has_clusters = has_clusters_;
  stream->copies_in_bulk = copies_in_bulk_;
  stream->rings_may_overlap = launches_overlap_ && !is_of_processes_;
  stream->owned = true;
  if (const weft_result made = make_stream(&stream->native); made != WEFT_OK) return made;
  *out = reinterpret_cast<DeviceStream*>(stream.release());
  return WEFT_OK;
}

// What Weft has is of the runtime's context, and a stream of another one takes no kernels of that.
weft_result CudaDevice::check_context_of(cudaStream_t native) const {
  const bool is_null = native == nullptr || native == cudaStreamLegacy;
  // The null stream is of whichever context is current; without one, of that which Scope chooses.
  if (is_null && current_context() == nullptr) return WEFT_OK;
  // To ask for its context ends the capture of a stream that waits for it; that it is captured so
  // may be asked.
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (is_null && WEFT_DRIVER(cuStreamIsCapturing, native, &status) != WEFT_OK) return WEFT_OK;
  CUcontext its = nullptr;
  CUgreenCtx green = nullptr;  // a part of the runtime's
  CUdevice device = 0;
  const bool is_told = WEFT_DRIVER_BY_NAME(12050, cuStreamGetCtx_v2, "cuStreamGetCtx", native, &its,
                                           &green) == WEFT_OK &&
                       (!is_null || WEFT_DRIVER(cuCtxGetDevice, &device) == WEFT_OK);
  if (!is_told) return WEFT_OK;  // older drivers: the first launch finds it out
  const Scope scope(index_);
  CUdevice own = 0;
  if (its == current_context()) return WEFT_OK;
  const bool is_elsewhere =
      is_null && WEFT_DRIVER(cuDeviceGet, &own, index_) == WEFT_OK && own != device;
  if (is_elsewhere) return WEFT_OK;  // then it is the null stream of this device
  failure() = {cudaErrorInvalidResourceHandle,
               "it is of another device, or of a CUDA context that the program made; Weft works in "
               "the one that the CUDA runtime has for the device"};
  return WEFT_ERROR_INVALID_ARGUMENT;
}

weft_result CudaDevice::wrap_stream(void* native, DeviceStream** out) {
  const weft_result checked = check_context_of(static_cast<cudaStream_t>(native));
  if (checked != WEFT_OK) return checked;
  auto stream = std::make_unique<CudaStream>();
  stream->memory = &memory_;
  stream->may_overlap = launches_overlap_;
  stream->has_clusters = has_clusters_;
  stream->copies_in_bulk = copies_in_bulk_;
  stream->rings_may_overlap = launches_overlap_ && !is_of_processes_;
  stream->native = static_cast<cudaStream_t>(native);
  if (!is_lasting(reinterpret_cast<DeviceStream*>(stream.get()))) {
    const Scope scope(index_);
    begin_stream(stream->native);
  }
  *out = reinterpret_cast<DeviceStream*>(stream.release());
  return WEFT_OK;
}

namespace {

/// So that its event comes after what is there by now.
weft_result record(CudaStream& stream) {
  if (stream.event == nullptr) {
    WEFT_CUDA(cudaEventCreateWithFlags(&stream.event, cudaEventDisableTiming));
  }
  WEFT_CUDA(cudaEventRecord(stream.event, stream.native));
  return WEFT_OK;
}

constexpr std::uint64_t kLostCapture = UINT64_MAX;

/// Under its mutex, or by its owner.
std::uint64_t capture_of(const CudaStream& stream) {
  if (stream.is_left) return stream.left_capture;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  const cudaError_t asked = cudaStreamGetCaptureInfo(stream.native, &status, &number);
  if (asked != cudaSuccess) static_cast<void>(cudaGetLastError());  // the next call is not about it
  // The null stream, while one is captured that would wait for it: to use it ends that capture.
  if (asked == cudaErrorStreamCaptureImplicit) return kLostCapture;
  if (asked != cudaSuccess || status == cudaStreamCaptureStatusNone) return 0;
  // Of one that went wrong nothing more is told.
  return status == cudaStreamCaptureStatusActive ? number : kLostCapture;
}

}  // namespace

// The null stream, by either of its names.
bool CudaDevice::is_lasting(const DeviceStream* stream) const {
  const cudaStream_t native = reinterpret_cast<const CudaStream*>(stream)->native;
  return native == nullptr || native == cudaStreamLegacy;
}

void CudaDevice::leave_stream(DeviceStream* stream) {
  CudaStream& left = *cuda(stream);
  if (left.owned) return static_cast<void>(synchronize(stream));
  // It may be that no event can be put there now, and that one can when somebody needs it.
  if (is_lasting(stream)) return;
  const Scope scope(index_);
  const std::scoped_lock lock(left.mutex);
  left.left_capture = capture_of(left);
  // Without an event nothing can wait for it any more, as of a stream that its owner ended too
  // early.
  if (left.left_capture != kLostCapture && record(left) != WEFT_OK) {
    left.left_capture = kLostCapture;
  }
  left.is_left = true;
}

void CudaDevice::destroy_stream(DeviceStream* stream) {
  if (stream == nullptr) return;
  const Scope scope(index_);
  const std::unique_ptr<CudaStream> owned(cuda(stream));
  if (owned->owned) {
    static_cast<void>(cudaStreamSynchronize(owned->native));
    static_cast<void>(cudaStreamDestroy(owned->native));
  }
  for (const cudaStream_t side : {owned->side, owned->writing}) {
    if (side != nullptr) static_cast<void>(cudaStreamDestroy(side));
  }
  for (const cudaEvent_t event : {owned->event, owned->forked, owned->joined}) {
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  }
  for (const auto& events : {owned->read, owned->reduced}) {
    for (std::uint32_t slot = 0; slot < kWindowSlots; ++slot) {
      if (events[slot] != nullptr) static_cast<void>(cudaEventDestroy(events[slot]));
    }
  }
}

std::uint64_t CudaDevice::capture_number(DeviceStream* stream) {
  const CudaStream& asked = *cuda(stream);
  const std::scoped_lock lock(cuda(stream)->mutex);
  // Each call asks, and mostly there is none. A stream of its own is of a context, so that none
  // need be current.
  const bool is_of_context = asked.native != nullptr && asked.native != cudaStreamLegacy &&
                             asked.native != cudaStreamPerThread;
  if (!asked.is_left && is_of_context) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    const weft_result told = WEFT_DRIVER(cuStreamIsCapturing, asked.native, &status);
    if (told == WEFT_OK && status == CU_STREAM_CAPTURE_STATUS_NONE) return 0;
  }
  const Scope scope(index_);  // else the caller's thread gets a context that it has not asked for
  return capture_of(asked);
}

// Across the border of a capture nothing can be ordered here: whoever replays a graph beside other
// work, or beside another graph, orders the two. What would have to come after work of a stream
// that is captured now, Communicator::check_order has refused.
weft_result CudaDevice::order_after(DeviceStream* stream, DeviceStream* earlier,
                                    std::uint64_t /*piece*/) {
  const Scope scope(index_);
  CudaStream& before = *cuda(earlier);
  const std::scoped_lock lock(before.mutex);
  if (capture_of(*cuda(stream)) != capture_of(before)) return WEFT_OK;
  if (!before.is_left) {
    if (const weft_result recorded = record(before); recorded != WEFT_OK) return recorded;
  }
  if (before.event == nullptr) return WEFT_OK;
  WEFT_CUDA(cudaStreamWaitEvent(cuda(stream)->native, before.event, 0));
  return WEFT_OK;
}

weft_result CudaDevice::synchronize(DeviceStream* stream) {
  const Scope scope(index_);
  return check(cudaStreamSynchronize(cuda(stream)->native), "cudaStreamSynchronize");
}

// By an event: the stream itself may be no more before it is empty.
weft_result CudaDevice::await_stream(DeviceStream* stream) {
  const Scope scope(index_);
  CudaStream& awaited = *cuda(stream);
  {
    const std::scoped_lock lock(awaited.mutex);
    if (awaited.is_left) {
      if (awaited.left_capture != 0) return WEFT_OK;  // that runs with its graph
    } else if (const weft_result recorded = record(awaited); recorded != WEFT_OK) {
      return recorded;
    }
  }
  return check(cudaEventSynchronize(awaited.event), "cudaEventSynchronize");
}

weft_result CudaDevice::query(DeviceStream* stream) {
  const Scope scope(index_);
  CudaStream& asked = *cuda(stream);
  const std::scoped_lock lock(asked.mutex);
  if (!asked.is_left) return check(cudaStreamQuery(asked.native), "cudaStreamQuery");
  if (asked.left_capture != 0) return WEFT_IN_PROGRESS;  // as long as nothing tells its end
  return check(cudaEventQuery(asked.event), "cudaEventQuery");
}

}  // namespace weft::device::cuda
