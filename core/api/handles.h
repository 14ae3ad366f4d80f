// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the handles of the API are, and how its functions answer.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/base/error.h"
#include "core/comm/context.h"
#include "core/comm/graph.h"
#include "core/comm/group.h"
#include "core/comm/member.h"
#include "core/comm/stream.h"

struct weft_context {
  std::unique_ptr<weft::Context> context;
};

struct weft_window {
  weft_comm* comm;
  weft::Window* window;
};

struct weft_comm {
  weft_context* owner;
  std::unique_ptr<weft::Member> member;
  std::vector<std::unique_ptr<weft_window>> windows{};  ///< Registered and not deregistered.
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

// Outside of guarded(), as there may be no context.
inline weft_result null_argument(weft_context* context, const char* name) {
  if (context == nullptr) return WEFT_ERROR_INVALID_ARGUMENT;
  try {
    return context->context->remember(
        Error(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} is NULL", name)));
  } catch (const std::bad_alloc&) {
    return context->context->remember_no_memory();
  }
}

// The end of an open group tells that, too.
inline weft_result lack_memory(weft_context* context) {
  if (Group* const group = context->context->open_group()) group->note_lack_of_memory();
  return context->context->remember_no_memory();
}

// Of what a group takes note of: its end answers the error, and starts nothing.
inline weft_result refuse(weft_context* context, const Error& error) {
  if (Group* const group = context->context->open_group()) group->note_error(error);
  return context->context->remember(error);
}

inline weft_result refuse_null(weft_context* context, const char* name) {
  if (context == nullptr) return WEFT_ERROR_INVALID_ARGUMENT;
  try {
    return refuse(context, Error(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} is NULL", name)));
  } catch (const std::bad_alloc&) {
    return lack_memory(context);
  }
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
    return lack_memory(context);
  } catch (const std::exception& error) {
    return context->context->remember(Error(WEFT_ERROR_INTERNAL, error.what()));
  }
}

// `name`: of what the caller passed as `kind`.
inline Result<DeviceRuntime*> device_of(Context& context, weft_device_kind kind,
                                        std::int32_t device, const char* name) {
  if (kind == WEFT_DEVICE_HOST) return &context.runtime();
  if (kind == WEFT_DEVICE_CUDA) return context.cuda_device(device);
  return fail(WEFT_ERROR_INVALID_ARGUMENT, fmt::format("{} {} is none", name, kind),
              "one of WEFT_DEVICE_HOST, WEFT_DEVICE_CUDA");
}

// What blocks until other ranks do it as well: at once, or at the end of the thread's group. See
// Group::add_blocking.
template <typename Run, typename Deliver, typename Undo>
weft_result block(weft_context* context, const Communicator* of, Run run, Deliver deliver,
                  Undo undo) {
  Context& core = *context->context;
  if (Group* const group = core.open_group()) {
    group->add_blocking(of, std::move(run), std::move(deliver), std::move(undo));
    return WEFT_OK;
  }
  if (const Status done = run(); !done) return core.remember(done.error());
  try {
    deliver();
  } catch (...) {
    undo();
    throw;
  }
  return WEFT_OK;
}

}  // namespace weft::api
