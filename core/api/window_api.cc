// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Windows, and memory to make them of, in the C API.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/windows.h"

namespace {

using weft::Error;
using weft::Status;
using weft::api::guarded;
using weft::api::null_argument;
using weft::api::refuse;
using weft::api::refuse_null;

}  // namespace

extern "C" {

weft_result weft_memory_allocate(weft_context* context, weft_device_kind kind, int32_t device,
                                 size_t bytes, void** out) {
  if (context == nullptr || out == nullptr) {
    return null_argument(context, out == nullptr ? "out" : "context");
  }
  return guarded(context, [&]() -> weft_result {
    weft::Context& core = *context->context;
    const auto runtime = weft::api::device_of(core, kind, device, "the device kind");
    if (!runtime) return core.remember(runtime.error());
    if (bytes == 0) {
      return core.remember(Error(WEFT_ERROR_INVALID_ARGUMENT, "0 bytes of memory were asked for",
                                 "ask for at least one byte"));
    }
    const auto memory = core.allocate_for_program(**runtime, bytes);
    if (!memory) return core.remember(memory.error());
    *out = *memory;
    return WEFT_OK;
  });
}

weft_result weft_memory_free(weft_context* context, void* memory) {
  if (context == nullptr) return null_argument(nullptr, "context");
  if (memory == nullptr) return WEFT_OK;
  return guarded(context, [&] {
    return weft::api::answer(context, context->context->release_for_program(memory));
  });
}

weft_result weft_window_register(weft_comm* comm, void* memory, size_t bytes, weft_window** out) {
  if (comm == nullptr) return null_argument(nullptr, "comm");
  if (out == nullptr) return refuse_null(comm->owner, "out");
  return guarded(comm->owner, [&]() -> weft_result {
    const auto communicator = comm->member->for_calls();
    if (!communicator) return refuse(comm->owner, communicator.error());
    if (memory == nullptr || bytes == 0) {
      return refuse(comm->owner,
                    Error(WEFT_ERROR_INVALID_ARGUMENT,
                          fmt::format("a window of {} bytes at {}", bytes, fmt::ptr(memory)),
                          "register memory of at least one byte"));
    }
    const auto made = std::make_shared<weft::Window*>();
    const auto run = [communicator = *communicator, memory, bytes, made]() -> Status {
      WEFT_TRY_ASSIGN(*made, communicator->register_window(memory, bytes));
      return {};
    };
    const auto deliver = [comm, made, out] {
      comm->windows.push_back(std::make_unique<weft_window>(comm, *made));
      *out = comm->windows.back().get();
    };
    // Without a handle nobody could deregister it, and calls would go on to find it.
    const auto undo = [comm, communicator = *communicator, made] {
      std::erase_if(comm->windows, [&](const auto& one) { return one->window == *made; });
      communicator->withdraw_window(*made);
    };
    return weft::api::block(comm->owner, *communicator, run, deliver, undo);
  });
}

weft_result weft_window_deregister(weft_window* window) {
  if (window == nullptr) return WEFT_OK;
  weft_comm* const comm = window->comm;
  return guarded(comm->owner, [&]() -> weft_result {
    weft::Member& member = *comm->member;
    const auto communicator = member.for_calls();
    if (!communicator && !member.has_ended()) {
      return comm->owner->context->remember(communicator.error());
    }
    // Of one that was finalized, too, the memory of others stays open until then.
    const Status ended = member.joined()->deregister_window(window->window);
    std::erase_if(comm->windows, [&](const auto& one) { return one.get() == window; });
    return weft::api::answer(comm->owner, ended);
  });
}

weft_result weft_window_pointer(weft_window* window, uint32_t rank, void** out) {
  if (window == nullptr) return null_argument(nullptr, "window");
  weft_comm* const comm = window->comm;
  if (out == nullptr) return null_argument(comm->owner, "out");
  return guarded(comm->owner, [&]() -> weft_result {
    weft::Context& context = *comm->owner->context;
    const weft::Window& core = *window->window;
    if (rank >= comm->member->ranks()) {
      return context.remember(Error(
          WEFT_ERROR_INVALID_ARGUMENT,
          fmt::format("rank {} is none of this communicator of {}", rank, comm->member->ranks()),
          "a rank counted from 0"));
    }
    if (rank == comm->member->rank()) {
      *out = core.base;
      return WEFT_OK;
    }
    if (core.addresses().empty()) {
      return context.remember(
          Error(WEFT_ERROR_UNSUPPORTED,
                fmt::format("window {} is not mapped: {}", core.number, core.shared->refusal()),
                "use the window in calls alone, which go another way"));
    }
    *out = core.addresses()[rank];
    return WEFT_OK;
  });
}

}  // extern "C"
