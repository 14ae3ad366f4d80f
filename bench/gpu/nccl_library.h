// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// NCCL, over plain buffers and over symmetric windows.
#pragma once

#include <array>
#include <nccl.h>

#include "bench/gpu/libraries.h"
#include "bench/gpu/loading.h"

namespace weft::gpu_bench {

struct NcclApi {
  explicit NcclApi(const std::string& file);

  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) comm_init_rank;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclReduce) reduce;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  /// Spelled out, so that this builds with headers from before it. Null in such libraries.
  ncclResult_t (*all_to_all)(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
  decltype(&ncclMemAlloc) mem_alloc;
  decltype(&ncclMemFree) mem_free;
  decltype(&ncclCommWindowRegister) window_register;
  decltype(&ncclCommWindowDeregister) window_deregister;
};

class NcclLibrary : public Library {
 public:
  NcclLibrary(const NcclApi& api, const Seat& seat) : api_(api), seat_(seat) {}

  [[nodiscard]] std::string version() const override;
  [[nodiscard]] std::string call_name(const Operation& operation) const override;
  void make_id(char* id) override;
  void join(const char* id) override;
  void call(const Call& call) override;
  void check_communicator() override;
  void abort() override;
  void leave() override;

 protected:
  void check(ncclResult_t result, const char* call) const;

  const NcclApi& api_;
  const Seat seat_;
  ncclComm_t comm_ = nullptr;

 private:
  /// Sends and receives of `transfers` in one group.
  template <class Transfers>
  void grouped(Transfers transfers);
  void exchange_blocks(const Call& call, ncclDataType_t type);
  void send_to_next(const Call& call, ncclDataType_t type);
};

/// NCCL over buffers that all ranks have registered as symmetric windows.
class NcclWindowLibrary final : public NcclLibrary {
 public:
  using NcclLibrary::NcclLibrary;

  Arena take_arena(const Arena& plain, size_t bytes) override;
  void leave() override;

 private:
  struct Window {
    void* memory = nullptr;
    ncclWindow_t handle = nullptr;
  };
  std::array<Window, 2> windows_;
};

}  // namespace weft::gpu_bench
