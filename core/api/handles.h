// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the handles of the API are, and how its functions answer.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/base/error.h"
#include "core/comm/context.h"
#include "core/comm/graph.h"
#include "core/comm/member.h"
#include "core/comm/stream.h"

struct weft_context {
  std::unique_ptr<weft::Context> context;
};

struct weft_comm {
  weft_context* owner;
  std::unique_ptr<weft::Member> member;
};

struct weft_stream {
  weft_context* owner;
  std::unique_ptr<weft::Stream> stream;
};

struct weft_graph {
  weft_context* owner;
  std::unique_ptr<weft::Graph> graph;
};

namespace weft::api {

inline weft_result answer(weft_context* context, const Status& status) {
  return status ? WEFT_OK : context->context->remember(status.error());
}

// WEFT_IN_PROGRESS is no error.
inline weft_result answer(weft_context* context, const Result<weft_result>& result) {
  return result ? *result : context->context->remember(result.error());
}

inline weft_result null_argument(weft_context* context, const char* name) {
  const Error error(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} is NULL", name));
  return context != nullptr ? context->context->remember(error) : error.code();
}

// No exception leaves the library. Memory is the only thing that ordinarily throws in here.
template <typename Function>
weft_result guarded(weft_context* context, Function&& function) {
  try {
    if (const Status process = context->context->check_process(); !process) {
      return context->context->remember(process.error());
    }
    return function();
  } catch (const std::bad_alloc&) {
    return WEFT_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    return context->context->remember(Error(WEFT_ERROR_INTERNAL, error.what()));
  }
}

}  // namespace weft::api
