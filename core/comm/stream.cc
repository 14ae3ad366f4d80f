// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/stream.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/comm/context.h"
#include "core/comm/graph.h"

namespace weft {
namespace {

// cudaStreamPerThread: in each thread the name of another stream. What a communicator launches, and
// waits for, it does on threads of its own, too.
constexpr std::uintptr_t kStreamPerThread = 2;

// Communicators of one stream that fail before somebody asks.
constexpr std::size_t kFailuresAtOnce = 16;

}  // namespace

Stream::Stream(Context& context, DeviceRuntime& runtime, DeviceStream* device_stream,
               bool is_wrapped)
    : context_(context),
      runtime_(runtime),
      is_wrapped_(is_wrapped),
      device_stream_(device_stream,
                     [&runtime](DeviceStream* stream) { runtime.destroy_stream(stream); }) {
  failures_.reserve(kFailuresAtOnce);
}

Result<std::unique_ptr<Stream>> Stream::create(Context& context) {
  DeviceStream* device_stream = nullptr;
  if (const weft_result result = context.runtime().create_stream(&device_stream);
      result != WEFT_OK) {
    return fail(result,
                "cannot create a stream of device " + std::string(context.runtime().name()));
  }
  return std::unique_ptr<Stream>(new Stream(context, context.runtime(), device_stream, false));
}

Result<std::unique_ptr<Stream>> Stream::wrap(Context& context, std::int32_t device, void* native) {
  if (reinterpret_cast<std::uintptr_t>(native) == kStreamPerThread) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                "cudaStreamPerThread is another stream in each thread, and Weft has threads of its "
                "own",
                "pass a stream of cudaStreamCreate, and order its work by events");
  }
  WEFT_TRY_ASSIGN(DeviceRuntime * runtime, context.cuda_device(device));
  DeviceStream* device_stream = nullptr;
  if (const weft_result result = runtime->wrap_stream(native, &device_stream); result != WEFT_OK) {
    return fail(device_error(*runtime, result,
                             "cannot wrap a stream of CUDA device " + std::to_string(device),
                             "make streams after cudaSetDevice of their device, or in a context of "
                             "cuDevicePrimaryCtxRetain"));
  }
  return std::unique_ptr<Stream>(new Stream(context, *runtime, device_stream, true));
}

Stream::~Stream() {
  wait_while_held();
  // A communicator that ends on another thread may hold it by now, and be the last to.
  if (!is_wrapped_ || device_stream_.use_count() > 1) runtime_.leave_stream(device_stream_.get());
  device_stream_.reset();  // before the rest, which work under way may still note its failure in
}

Status Stream::begin_capture() {
  WEFT_TRY(check_not_held());
  WEFT_TRY(check_not_captured("weft_stream_end_capture ends that"));
  if (!runtime_.reports_ends()) {
    return fail(WEFT_ERROR_UNSUPPORTED,
                fmt::format("streams of {} devices are captured by the functions of their own API",
                            runtime_.name()),
                "cudaStreamBeginCapture, cudaStreamEndCapture");
  }
  capture_ = std::make_unique<Graph>();
  return {};
}

Result<std::unique_ptr<Graph>> Stream::end_capture() {
  WEFT_TRY(check_not_held());
  if (capture_ == nullptr) {
    return fail(WEFT_ERROR_INVALID_USAGE, "the stream is not captured",
                "weft_stream_begin_capture begins that");
  }
  return std::move(capture_);
}

Status Stream::launch(Graph& graph) {
  WEFT_TRY(check_not_held());
  WEFT_TRY(check_not_captured("launch graphs on other streams; one cannot be part of another"));
  if (!runtime_.reports_ends()) {
    return fail(
        WEFT_ERROR_INVALID_ARGUMENT,
        fmt::format("the graph is one of the host device, the stream belongs to device {} {}",
                    runtime_.name(), runtime_.index()),
        "launch it on a stream of weft_stream_create");
  }
  return graph.launch(*this);
}

Status Stream::check_not_captured(const char* what_then) const {
  if (capture_ == nullptr) return {};
  return fail(WEFT_ERROR_INVALID_USAGE, "the stream is captured: its calls are recorded, not run",
              what_then);
}

Status Stream::check_not_captured_by_program() const {
  if (!runtime_.is_capturing(device_stream_.get())) [[likely]]
    return {};
  return fail(
      WEFT_ERROR_INVALID_USAGE,
      "the program is capturing the stream: to wait for it or to ask it would end that",
      "cudaStreamEndCapture first; of the null stream the captures of all blocking streams");
}

void Stream::hold(std::shared_future<void> done) {
  holder_ = std::move(done);
  held_.store(true, std::memory_order_release);
}

Status Stream::why_held() {
  return fail(WEFT_ERROR_INVALID_USAGE,
              "an earlier call on the stream is still connecting its ranks",
              "ask weft_comm_get_async_error of that call's communicator until it no longer tells "
              "WEFT_IN_PROGRESS");
}

void Stream::wait_while_held() const {
  if (holder_.valid()) holder_.wait();
}

Status Stream::synchronize() {
  wait_while_held();
  if (capture_ != nullptr) [[unlikely]]
    return check_not_captured("end the capture, launch the graph, and wait then");
  WEFT_TRY(check_not_captured_by_program());
  const weft_result result = runtime_.synchronize(device_stream_.get());
  // Noted before the work ended, so whoever saw it end sees it.
  const bool all_well = reports_.empty() && !failed_.load(std::memory_order_acquire);
  if (result == WEFT_OK && all_well) [[likely]]
    return {};
  return explain(result);
}

Result<weft_result> Stream::query() {
  WEFT_TRY(check_not_captured("end the capture, launch the graph, and ask then"));
  if (holder_.valid() && holder_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return WEFT_IN_PROGRESS;
  }
  WEFT_TRY(check_not_captured_by_program());
  const weft_result result = runtime_.query(device_stream_.get());
  if (result == WEFT_IN_PROGRESS) return result;
  WEFT_TRY(explain(result));
  return WEFT_OK;
}

void Stream::note_failure(std::shared_ptr<Failure> failure) {
  const std::scoped_lock lock(mutex_);
  // No exception may leave a thread of the device: what there is no room for is not settled.
  const bool is_known = std::ranges::find(failures_, failure) != failures_.end();
  if (!is_known && failures_.size() < failures_.capacity()) failures_.push_back(std::move(failure));
  failed_.store(true, std::memory_order_release);
}

void Stream::watch(const std::shared_ptr<KernelReport>& report) {
  // By what owns them: it is in the way of each call, and needs neither's count.
  const auto same = [&](const Watched& known) {
    return !known.report.owner_before(report) && !report.owner_before(known.report);
  };
  const auto found = std::ranges::find_if(reports_, same);
  if (found != reports_.end()) {
    found->is_settled = false;
    return;
  }
  forget_ended();
  reports_.push_back({.report = report, .failure = report->failure()});
}

// What has gone has waited for its work.
void Stream::forget_ended() {
  std::erase_if(reports_, [this](const Watched& watched) {
    if (!watched.report.expired()) return false;
    if (watched.failure->stopped() && !watched.is_settled) note_failure(watched.failure);
    return true;
  });
}

// `ended`: nothing that was launched here is under way any more.
void Stream::look_at_reports(bool ended) {
  forget_ended();
  for (Watched& watched : reports_) {
    const auto report = watched.report.lock();
    if (report == nullptr) continue;  // gone meanwhile: the next time
    report->look();
    const bool failed = watched.failure->stopped();
    if (failed) note_failure(watched.failure);
    watched.is_settled = watched.is_settled || failed || ended;
  }
}

void Stream::note_loss(weft_result answer) {
  for (const Watched& watched : reports_) {
    if (const auto report = watched.report.lock()) report->note_loss(answer);
  }
}

std::vector<std::shared_ptr<Failure>> Stream::take_failures() {
  std::vector<std::shared_ptr<Failure>> taken;
  taken.reserve(kFailuresAtOnce);
  const std::scoped_lock lock(mutex_);
  failed_.store(false, std::memory_order_relaxed);
  std::swap(taken, failures_);
  return taken;
}

// All of them: whoever knows that its work has ended has its buffers back, which connections of a
// communicator that has not been stopped may still read and write. The first one's cause, if any.
std::optional<Error> Stream::settle_failures() {
  std::optional<Error> first;
  const std::vector<std::shared_ptr<Failure>> failures = take_failures();
  try {
    for (const auto& failure : failures) {
      auto cause = failure->settle();
      if (!first) first = std::move(cause);
    }
  } catch (const std::bad_alloc&) {
    // Whoever asks again is told of them.
    for (const auto& failure : failures)
      note_failure(failure);
    throw;
  }
  return first;
}

Status Stream::explain(weft_result result) {
  if (!reports_.empty()) {
    if (result != WEFT_OK) note_loss(result);
    look_at_reports(result == WEFT_OK);
  }
  if (failed_.load(std::memory_order_acquire)) {
    if (auto cause = settle_failures()) return fail(std::move(*cause));
  }
  if (result == WEFT_OK) return {};
  std::int64_t native = 0;
  const std::string_view said = runtime_.last_failure(&native);
  if (said.empty()) return fail(result, "work on the stream failed");
  return fail(Error(result, "work on the stream failed: " + std::string(said))
                  .with_native(ErrorSource::kCuda, native));
}

}  // namespace weft
