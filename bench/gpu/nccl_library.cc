// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/nccl_library.h"

#include <cstring>

#include "bench/gpu/board.h"

namespace weft::gpu_bench {

static_assert(sizeof(ncclUniqueId) == kIdBytes);

namespace {

ncclDataType_t nccl_type(const ElementType& type) {
  switch (type.kind) {
    case ElementKind::kFloat32:
      return ncclFloat32;
    case ElementKind::kBfloat16:
      return ncclBfloat16;
    case ElementKind::kFloat16:
      return ncclFloat16;
  }
  return ncclFloat32;
}

}  // namespace

NcclApi::NcclApi(const std::string& file) {
  if (file.empty()) throw Failure{"not asked for"};
  const SharedObject library(file);
  library.get(get_version, "ncclGetVersion");
  library.get(get_error_string, "ncclGetErrorString");
  library.get(get_unique_id, "ncclGetUniqueId");
  library.get(comm_init_rank, "ncclCommInitRank");
  library.get(comm_abort, "ncclCommAbort");
  library.get(comm_destroy, "ncclCommDestroy");
  library.get(comm_get_async_error, "ncclCommGetAsyncError");
  library.get(group_start, "ncclGroupStart");
  library.get(group_end, "ncclGroupEnd");
  library.get(all_reduce, "ncclAllReduce");
  library.get(all_gather, "ncclAllGather");
  library.get(reduce_scatter, "ncclReduceScatter");
  library.get(broadcast, "ncclBroadcast");
  library.get(reduce, "ncclReduce");
  library.get(send, "ncclSend");
  library.get(recv, "ncclRecv");
  library.find(all_to_all, "ncclAlltoAll");
  library.find(get_last_error, "ncclGetLastError");
  library.find(mem_alloc, "ncclMemAlloc");
  library.find(mem_free, "ncclMemFree");
  library.find(window_register, "ncclCommWindowRegister");
  library.find(window_deregister, "ncclCommWindowDeregister");
}

std::string NcclLibrary::version() const {
  int code = 0;
  check(api_.get_version(&code), "ncclGetVersion");
  return text("%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
}

std::string NcclLibrary::call_name(const Operation& operation) const {
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return "ncclAllReduce";
    case OperationKind::kAllGather:
      return "ncclAllGather";
    case OperationKind::kReduceScatter:
      return "ncclReduceScatter";
    case OperationKind::kBroadcast:
      return "ncclBroadcast";
    case OperationKind::kReduce:
      return "ncclReduce";
    case OperationKind::kAllToAll:
      if (api_.all_to_all != nullptr) return "ncclAlltoAll";
      break;
    case OperationKind::kSendRecv:
      break;
  }
  return "ncclSend and ncclRecv in a group";
}

void NcclLibrary::make_id(char* id) {
  ncclUniqueId made;
  check(api_.get_unique_id(&made), "ncclGetUniqueId");
  std::memcpy(id, &made, sizeof made);
}

void NcclLibrary::join(const char* id) {
  ncclUniqueId shared;
  std::memcpy(&shared, id, sizeof shared);
  check(api_.comm_init_rank(&comm_, static_cast<int>(seat_.ranks), shared,
                            static_cast<int>(seat_.rank)),
        "ncclCommInitRank");
}

void NcclLibrary::call(const Call& call) {
  const ncclDataType_t type = nccl_type(call.type);
  constexpr int kRootRank = kRoot;
  cudaStream_t stream = seat_.stream;
  switch (call.operation.kind) {
    case OperationKind::kAllReduce:
      return check(api_.all_reduce(call.send, call.recv, call.count, type, ncclSum, comm_, stream),
                   "ncclAllReduce");
    case OperationKind::kAllGather:
      return check(api_.all_gather(call.send, call.recv, call.count, type, comm_, stream),
                   "ncclAllGather");
    case OperationKind::kReduceScatter:
      return check(
          api_.reduce_scatter(call.send, call.recv, call.count, type, ncclSum, comm_, stream),
          "ncclReduceScatter");
    case OperationKind::kBroadcast:
      return check(api_.broadcast(call.send, call.recv, call.count, type, kRootRank, comm_, stream),
                   "ncclBroadcast");
    case OperationKind::kReduce:
      return check(
          api_.reduce(call.send, call.recv, call.count, type, ncclSum, kRootRank, comm_, stream),
          "ncclReduce");
    case OperationKind::kAllToAll:
      if (api_.all_to_all == nullptr) return exchange_blocks(call, type);
      return check(api_.all_to_all(call.send, call.recv, call.count, type, comm_, stream),
                   "ncclAlltoAll");
    case OperationKind::kSendRecv:
      return send_to_next(call, type);
  }
}

template <class Transfers>
void NcclLibrary::grouped(Transfers transfers) {
  check(api_.group_start(), "ncclGroupStart");
  try {
    transfers();
  } catch (const Failure&) {
    static_cast<void>(api_.group_end());  // Open, it would swallow all that follows.
    throw;
  }
  check(api_.group_end(), "ncclGroupEnd");
}

void NcclLibrary::exchange_blocks(const Call& call, ncclDataType_t type) {
  const size_t block = call.count * call.type.bytes;
  grouped([&] {
    for (uint32_t peer = 0; peer < seat_.ranks; ++peer) {
      check(api_.send(static_cast<const std::byte*>(call.send) + peer * block, call.count, type,
                      static_cast<int>(peer), comm_, seat_.stream),
            "ncclSend");
      check(api_.recv(static_cast<std::byte*>(call.recv) + peer * block, call.count, type,
                      static_cast<int>(peer), comm_, seat_.stream),
            "ncclRecv");
    }
  });
}

void NcclLibrary::send_to_next(const Call& call, ncclDataType_t type) {
  const uint32_t next = (seat_.rank + 1) % seat_.ranks;
  const uint32_t previous = (seat_.rank + seat_.ranks - 1) % seat_.ranks;
  grouped([&] {
    check(api_.send(call.send, call.count, type, static_cast<int>(next), comm_, seat_.stream),
          "ncclSend");
    check(api_.recv(call.recv, call.count, type, static_cast<int>(previous), comm_, seat_.stream),
          "ncclRecv");
  });
}

void NcclLibrary::check_communicator() {
  ncclResult_t error = ncclSuccess;
  check(api_.comm_get_async_error(comm_, &error), "ncclCommGetAsyncError");
  check(error, "asynchronous error");
}

void NcclLibrary::abort() {
  if (comm_ != nullptr) static_cast<void>(api_.comm_abort(comm_));
  comm_ = nullptr;
}

void NcclLibrary::leave() {
  if (comm_ != nullptr) check(api_.comm_destroy(comm_), "ncclCommDestroy");
  comm_ = nullptr;
}

void NcclLibrary::check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess) return;
  const char* more = api_.get_last_error != nullptr ? api_.get_last_error(comm_) : "";
  throw Failure{text("%s: %s: %s", call, api_.get_error_string(result), more)};
}

Arena NcclWindowLibrary::take_arena(const Arena& /*plain*/, size_t bytes) {
  if (api_.window_register == nullptr || api_.mem_alloc == nullptr) {
    throw Failure{"this NCCL has no ncclCommWindowRegister"};
  }
  for (Window& window : windows_) {
    check(api_.mem_alloc(&window.memory, bytes), "ncclMemAlloc");
    check(
        api_.window_register(comm_, window.memory, bytes, &window.handle, NCCL_WIN_COLL_SYMMETRIC),
        "ncclCommWindowRegister");
    // Where it cannot, NCCL says success and gives none; the numbers would be its default's.
    if (window.handle == nullptr) throw Failure{"ncclCommWindowRegister gave no window"};
  }
  return {static_cast<std::byte*>(windows_[0].memory), static_cast<std::byte*>(windows_[1].memory)};
}

void NcclWindowLibrary::leave() {
  for (Window& window : windows_) {
    if (comm_ != nullptr && window.handle != nullptr) {
      check(api_.window_deregister(comm_, window.handle), "ncclCommWindowDeregister");
    }
    if (window.memory != nullptr) check(api_.mem_free(window.memory), "ncclMemFree");
    window = {};
  }
  NcclLibrary::leave();
}

}  // namespace weft::gpu_bench
