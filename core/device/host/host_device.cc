// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Memory and the list of streams; the streams themselves do the work.
#include "core/device/host/host_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/device/host/host_reduction.h"
#include "core/device/host/host_stream.h"
#include "core/model/operation.h"

namespace weft::device {
namespace {

/// A cache line and its prefetched neighbour.
constexpr std::size_t kAlignment = 128;

// DeviceStream is never defined: its address stands for the stream of the runtime that made it.
HostStream* host(DeviceStream* stream) {
  return reinterpret_cast<HostStream*>(stream);
}

}  // namespace

HostDevice::HostDevice(HostDeviceOptions options)
    : shared_(std::make_unique<HostShared>(best_element_loops(), options.max_threads)) {}

HostDevice::~HostDevice() = default;

std::string_view HostDevice::instruction_set() const {
  return shared_->loops.name;
}

bool HostDevice::has_kernel(const Task& task) const {
  return reduces(task.operation) ? reducible(task.type, task.reduction)
                                 : element_size(task.type) != 0;
}

weft_result HostDevice::allocate(std::size_t bytes, void** out) {
  *out = nullptr;
  if (bytes > PTRDIFF_MAX - kAlignment) return WEFT_ERROR_OUT_OF_MEMORY;
  const std::size_t rounded = std::max(bytes, std::size_t{1}) + kAlignment - 1;
  void* memory = std::aligned_alloc(kAlignment, rounded / kAlignment * kAlignment);
  if (memory == nullptr) return WEFT_ERROR_OUT_OF_MEMORY;
  std::memset(memory, 0, bytes);
  *out = memory;
  return WEFT_OK;
}

void HostDevice::release(void* memory) {
  std::free(memory);
}

weft_result HostDevice::create_stream(DeviceStream** out) {
  *out = nullptr;
  try {
    auto stream = std::make_shared<HostStream>(*shared_);
    const std::scoped_lock lock(shared_->streams_mutex);
    shared_->add(stream);
    *out = reinterpret_cast<DeviceStream*>(stream.get());
  } catch (const std::bad_alloc&) {
    return WEFT_ERROR_OUT_OF_MEMORY;
  }
  return WEFT_OK;
}

void HostDevice::destroy_stream(DeviceStream* stream) {
  if (stream == nullptr) return;
  host(stream)->close();
  // Barriers of other streams may own it a little longer.
  const std::scoped_lock lock(shared_->streams_mutex);
  shared_->of_closed_streams.add(host(stream)->counts());
  std::erase_if(shared_->streams,
                [stream](const auto& known) { return known.get() == host(stream); });
}

weft_result HostDevice::reserve(DeviceStream* stream, const LaunchRoom& room) {
  return host(stream)->reserve(room);
}

weft_result HostDevice::launch(DeviceStream* stream, std::span<const Launch> launches) {
  return host(stream)->launch(launches);
}

weft_result HostDevice::synchronize(DeviceStream* stream) {
  return host(stream)->synchronize();
}

weft_result HostDevice::query(DeviceStream* stream) {
  return host(stream)->query();
}

std::uint64_t HostDevice::last_piece(DeviceStream* stream) {
  return host(stream)->last_piece();
}

weft_result HostDevice::order_after(DeviceStream* stream, DeviceStream* earlier,
                                    std::uint64_t piece) {
  return host(stream)->order_after(*host(earlier), piece);
}

HostDeviceStatistics HostDevice::statistics() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  PieceCounts counts;
  {
    const std::scoped_lock lock(shared_->streams_mutex);
    counts.add(shared_->of_closed_streams);
    for (const auto& stream : shared_->streams)
      counts.add(stream->counts());
  }
  return {.pieces_by_caller = counts.by_caller.load(kRelaxed),
          .pieces_by_worker = counts.by_worker.load(kRelaxed),
          .pieces_deferred = counts.deferred.load(kRelaxed),
          .pieces_woken = counts.woken.load(kRelaxed),
          .handed_over = counts.handed_over.load(kRelaxed),
          .threads = shared_->budget.running(),
          .threads_resting = shared_->asleep.load(kRelaxed)};
}

}  // namespace weft::device
