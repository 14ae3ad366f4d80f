// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A stream as applications hold it: the device's stream, and whose failure to tell when its work
// ended badly.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/comm/failure.h"

namespace weft {

class Context;

/// Threads: note_failure from workers; the rest by the thread that uses the stream.
class Stream {
 public:
  static Result<std::unique_ptr<Stream>> create(Context& context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] Context& context() const { return context_; }
  [[nodiscard]] DeviceStream* device_stream() const { return device_stream_; }

  /// Waits until the stream is empty, then tells why its work failed, if it did.
  Status synchronize();
  /// WEFT_IN_PROGRESS as a value; errors as synchronize.
  Result<weft_result> query();

  /// Work of a communicator on this stream ended badly.
  void note_failure(std::shared_ptr<Failure> failure);

 private:
  Stream(Context& context, DeviceStream* device_stream);
  Status explain(weft_result result);

  Context& context_;
  DeviceStream* device_stream_;
  std::mutex mutex_;
  std::shared_ptr<Failure> failure_;  // guarded by mutex_: of the first bad end since the last ask
};

}  // namespace weft
