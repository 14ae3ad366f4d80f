// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/stream.h"

#include <string>
#include <utility>

#include "core/comm/context.h"

namespace weft {

Stream::Stream(Context& context, DeviceStream* device_stream)
    : context_(context), device_stream_(device_stream) {}

Result<std::unique_ptr<Stream>> Stream::create(Context& context) {
  DeviceStream* device_stream = nullptr;
  if (const weft_result result = context.runtime().create_stream(&device_stream);
      result != WEFT_OK) {
    return fail(result,
                "cannot create a stream of device " + std::string(context.runtime().name()));
  }
  return std::unique_ptr<Stream>(new Stream(context, device_stream));
}

Stream::~Stream() {
  context_.runtime().destroy_stream(device_stream_);
}

Status Stream::synchronize() {
  return explain(context_.runtime().synchronize(device_stream_));
}

Result<weft_result> Stream::query() {
  const weft_result result = context_.runtime().query(device_stream_);
  if (result == WEFT_IN_PROGRESS) return result;
  WEFT_TRY(explain(result));
  return WEFT_OK;
}

void Stream::note_failure(std::shared_ptr<Failure> failure) {
  const std::scoped_lock lock(mutex_);
  if (failure_ == nullptr) failure_ = std::move(failure);
}

Status Stream::explain(weft_result result) {
  std::shared_ptr<Failure> failure;
  {
    const std::scoped_lock lock(mutex_);
    failure = std::exchange(failure_, nullptr);
  }
  if (failure != nullptr) {
    if (auto cause = failure->settle()) return fail(std::move(*cause));
  }
  if (result == WEFT_OK) return {};
  return fail(result, "work on the stream failed");
}

}  // namespace weft
