// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/weft_library.h"

#include <array>
#include <cstring>
#include <utility>

#include "bench/gpu/board.h"

namespace weft::gpu_bench {

static_assert(sizeof(weft_unique_id) == kIdBytes);

namespace {

weft_data_type weft_type(const ElementType& type) {
  switch (type.kind) {
    case ElementKind::kFloat32:
      return WEFT_FLOAT32;
    case ElementKind::kBfloat16:
      return WEFT_BFLOAT16;
    case ElementKind::kFloat16:
      return WEFT_FLOAT16;
  }
  return WEFT_FLOAT32;
}

}  // namespace

WeftApi::WeftApi(const std::string& folder) {
  if (folder.empty()) throw Failure{"not asked for"};
  const SharedObject library(folder + "/libweft.so.0");
  library.get(version, "weft_version");
  library.get(result_name, "weft_result_name");
  library.get(last_error, "weft_last_error");
  library.get(context_create, "weft_context_create");
  library.get(context_destroy, "weft_context_destroy");
  library.get(get_unique_id, "weft_get_unique_id");
  library.get(comm_init_rank, "weft_comm_init_rank");
  library.get(comm_destroy, "weft_comm_destroy");
  library.get(comm_abort, "weft_comm_abort");
  library.get(comm_get_async_error, "weft_comm_get_async_error");
  library.get(stream_from_cuda, "weft_stream_from_cuda");
  library.get(stream_destroy, "weft_stream_destroy");
  library.get(group_start, "weft_group_start");
  library.get(group_end, "weft_group_end");
  library.get(all_reduce, "weft_all_reduce");
  library.get(all_gather, "weft_all_gather");
  library.get(reduce_scatter, "weft_reduce_scatter");
  library.get(broadcast, "weft_broadcast");
  library.get(reduce, "weft_reduce");
  library.get(all_to_all, "weft_all_to_all");
  library.get(send, "weft_send");
  library.get(recv, "weft_recv");
  library.get(memory_allocate, "weft_memory_allocate");
  library.get(memory_free, "weft_memory_free");
  library.get(window_register, "weft_window_register");
  library.get(window_pointer, "weft_window_pointer");
  const Clock::time_point begin = Clock::now();
  check(context_create(nullptr, &context), "weft_context_create");
  context_seconds = seconds_since(begin);
}

void WeftApi::check(weft_result result, const char* call) const {
  if (result == WEFT_OK) return;
  std::array<char, 1024> why{};
  last_error(context, why.data(), why.size());
  std::string words = text("%s: %s: %s", call, result_name(result), why.data());
  if (result == WEFT_ERROR_UNSUPPORTED) throw Refusal{{std::move(words)}};
  throw Failure{std::move(words)};
}

std::string WeftLibrary::call_name(const Operation& operation) const {
  if (operation.kind == OperationKind::kSendRecv) return "weft_send and weft_recv in a group";
  return std::string("weft_") + operation.name;
}

void WeftLibrary::make_id(char* id) {
  weft_unique_id made;
  api_.check(api_.get_unique_id(api_.context, &made), "weft_get_unique_id");
  std::memcpy(id, &made, sizeof made);
}

void WeftLibrary::join(const char* id) {
  weft_unique_id shared;
  std::memcpy(&shared, id, sizeof shared);
  weft_comm_config config{};
  config.struct_size = sizeof config;
  config.device_kind = WEFT_DEVICE_CUDA;
  config.device = seat_.device;
  api_.check(api_.comm_init_rank(api_.context, &config, seat_.ranks, &shared, seat_.rank, &comm_),
             "weft_comm_init_rank");
  api_.check(api_.stream_from_cuda(api_.context, seat_.device, seat_.stream, &stream_),
             "weft_stream_from_cuda");
}

void WeftLibrary::call(const Call& call) {
  const weft_data_type type = weft_type(call.type);
  switch (call.operation.kind) {
    case OperationKind::kAllReduce:
      return api_.check(
          api_.all_reduce(call.send, call.recv, call.count, type, WEFT_SUM, comm_, stream_),
          "weft_all_reduce");
    case OperationKind::kAllGather:
      return api_.check(api_.all_gather(call.send, call.recv, call.count, type, comm_, stream_),
                        "weft_all_gather");
    case OperationKind::kReduceScatter:
      return api_.check(
          api_.reduce_scatter(call.send, call.recv, call.count, type, WEFT_SUM, comm_, stream_),
          "weft_reduce_scatter");
    case OperationKind::kBroadcast:
      return api_.check(
          api_.broadcast(call.send, call.recv, call.count, type, kRoot, comm_, stream_),
          "weft_broadcast");
    case OperationKind::kReduce:
      return api_.check(
          api_.reduce(call.send, call.recv, call.count, type, WEFT_SUM, kRoot, comm_, stream_),
          "weft_reduce");
    case OperationKind::kAllToAll:
      return api_.check(api_.all_to_all(call.send, call.recv, call.count, type, comm_, stream_),
                        "weft_all_to_all");
    case OperationKind::kSendRecv:
      return send_to_next(call, type);
  }
}

void WeftLibrary::send_to_next(const Call& call, weft_data_type type) {
  const uint32_t next = (seat_.rank + 1) % seat_.ranks;
  const uint32_t previous = (seat_.rank + seat_.ranks - 1) % seat_.ranks;
  api_.check(api_.group_start(api_.context), "weft_group_start");
  try {
    api_.check(api_.send(call.send, call.count, type, next, comm_, stream_), "weft_send");
    api_.check(api_.recv(call.recv, call.count, type, previous, comm_, stream_), "weft_recv");
  } catch (const Failure&) {
    static_cast<void>(api_.group_end(api_.context));  // Open, it would swallow all that follows.
    throw;
  }
  api_.check(api_.group_end(api_.context), "weft_group_end");
}

void WeftLibrary::check_communicator() {
  weft_result error = WEFT_OK;
  api_.check(api_.comm_get_async_error(comm_, &error), "weft_comm_get_async_error");
  api_.check(error, "asynchronous error");
}

void WeftLibrary::abort() {
  if (comm_ != nullptr) static_cast<void>(api_.comm_abort(comm_));
}

Arena WeftWindowLibrary::take_arena(const Arena& /*plain*/, size_t bytes) {
  for (void*& memory : memory_) {
    api_.check(api_.memory_allocate(api_.context, WEFT_DEVICE_CUDA, seat_.device, bytes, &memory),
               "weft_memory_allocate");
    weft_window* window = nullptr;
    api_.check(api_.window_register(comm_, memory, bytes, &window), "weft_window_register");
    void* seen = nullptr;
    api_.check(api_.window_pointer(window, (seat_.rank + 1) % seat_.ranks, &seen),
               "weft_window_pointer");
  }
  return {static_cast<std::byte*>(memory_[0]), static_cast<std::byte*>(memory_[1])};
}

void WeftWindowLibrary::leave() {
  WeftLibrary::leave();
  for (void*& memory : memory_) {
    api_.check(api_.memory_free(api_.context, std::exchange(memory, nullptr)), "weft_memory_free");
  }
}

void WeftLibrary::leave() {
  weft_stream* const stream = std::exchange(stream_, nullptr);
  weft_comm* const comm = std::exchange(comm_, nullptr);
  api_.check(api_.stream_destroy(stream), "weft_stream_destroy");
  api_.check(api_.comm_destroy(comm), "weft_comm_destroy");
}

}  // namespace weft::gpu_bench
