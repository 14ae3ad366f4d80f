// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A stream as applications hold it: the device's stream, and whose failure to tell when its work
// ended badly.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/comm/failure.h"
#include "core/comm/kernel_report.h"

namespace weft {

class Context;
class Graph;

/// Threads: note_failure from workers; release by any; the rest by the thread that uses the stream.
class Stream {
 public:
  static Result<std::unique_ptr<Stream>> create(Context& context);
  /// A stream of CUDA device `device`, which its owner keeps and destroys after this.
  static Result<std::unique_ptr<Stream>> wrap(Context& context, std::int32_t device, void* native);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] Context& context() const { return context_; }
  [[nodiscard]] DeviceRuntime& runtime() const { return runtime_; }
  [[nodiscard]] DeviceStream* device_stream() const { return device_stream_.get(); }
  /// The same for those who order work after this stream's. Of a wrapped one what is left of it can
  /// be waited for when it has gone, by who holds this; a created one is waited for when it goes,
  /// so others hold it for moments alone.
  [[nodiscard]] const std::shared_ptr<DeviceStream>& handle() const { return device_stream_; }

  /// Expires when this goes, which its handle may outlive.
  [[nodiscard]] std::weak_ptr<const void> life() const { return life_; }

  /// From now on calls are recorded instead of made, until end_capture. Of the host device alone:
  /// UNSUPPORTED. What was called before is left as it is.
  Status begin_capture();
  /// What was recorded.
  Result<std::unique_ptr<Graph>> end_capture();
  /// Where calls are recorded; null where they are made.
  [[nodiscard]] Graph* capture() const { return capture_.get(); }
  /// Makes the calls of a graph here.
  Status launch(Graph& graph);

  /// Calls made on it are started by a thread in the background, which alone uses it until it calls
  /// release(), but for synchronize and query; after that and before `done` it lets go of it.
  void hold(std::shared_future<void> done);
  void release() { held_.store(false, std::memory_order_release); }
  /// INVALID_USAGE while it is held.
  [[nodiscard]] Status check_not_held() const {
    if (!held_.load(std::memory_order_acquire)) [[likely]]
      return {};
    return why_held();
  }

  /// Waits until the stream is empty, then tells why its work failed, if it did. INVALID_USAGE
  /// while it is captured.
  Status synchronize();
  /// WEFT_IN_PROGRESS as a value; errors as synchronize.
  Result<weft_result> query();

  /// Work of a communicator on this stream ended badly.
  void note_failure(std::shared_ptr<Failure> failure);
  /// Work whose kernels report only to memory is launched: look there when the stream is asked.
  void watch(const std::shared_ptr<KernelReport>& report);

 private:
  /// A communicator whose kernels ran here. Its failure may be told after it has gone.
  struct Watched {
    std::weak_ptr<KernelReport> report;
    std::shared_ptr<Failure> failure;
    bool is_settled = false;  ///< All that it launched here ended well, or it was told why not.
  };

  Stream(Context& context, DeviceRuntime& runtime, DeviceStream* device_stream, bool is_wrapped);
  void look_at_reports(bool ended);
  void forget_ended();
  void note_loss(weft_result answer);
  Status explain(weft_result result);
  std::vector<std::shared_ptr<Failure>> take_failures();
  std::optional<Error> settle_failures();
  [[nodiscard]] Status check_not_captured(const char* what_then) const;
  [[nodiscard]] Status check_not_captured_by_program() const;
  [[nodiscard]] static Status why_held();
  void wait_while_held() const;

  Context& context_;
  DeviceRuntime& runtime_;
  const bool is_wrapped_;
  std::shared_ptr<DeviceStream> device_stream_;
  const std::shared_ptr<const void> life_ = std::make_shared<int>();
  std::unique_ptr<Graph> capture_;  // used by the stream's thread alone
  std::vector<Watched> reports_;    // used by the stream's thread alone
  std::atomic<bool> held_{false};
  std::shared_future<void> holder_;  // ends some time after held_
  std::mutex mutex_;
  // Guarded by mutex_: of bad ends since the last ask, each once, in the order in which they came.
  std::vector<std::shared_ptr<Failure>> failures_;
  std::atomic<bool> failed_{false};  // whether there is one; stored under mutex_
};

}  // namespace weft
