// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Weft, as an application uses it, over plain buffers that nobody registered and over windows.
#pragma once

#include <array>

#include <weft/weft.h>

#include "bench/gpu/libraries.h"
#include "bench/gpu/loading.h"

namespace weft::gpu_bench {

/// Weft and the context of this process.
class WeftApi {
 public:
  explicit WeftApi(const std::string& folder);
  WeftApi(const WeftApi&) = delete;
  WeftApi& operator=(const WeftApi&) = delete;
  ~WeftApi() { static_cast<void>(context_destroy(context)); }

  /// Throws Refusal for UNSUPPORTED.
  void check(weft_result result, const char* call) const;

  weft_context* context = nullptr;
  double context_seconds = 0;  ///< That making it took.
  decltype(&weft_version) version;
  decltype(&weft_result_name) result_name;
  decltype(&weft_last_error) last_error;
  decltype(&weft_context_create) context_create;
  decltype(&weft_context_destroy) context_destroy;
  decltype(&weft_get_unique_id) get_unique_id;
  decltype(&weft_comm_init_rank) comm_init_rank;
  decltype(&weft_comm_destroy) comm_destroy;
  decltype(&weft_comm_abort) comm_abort;
  decltype(&weft_comm_get_async_error) comm_get_async_error;
  decltype(&weft_stream_from_cuda) stream_from_cuda;
  decltype(&weft_stream_destroy) stream_destroy;
  decltype(&weft_group_start) group_start;
  decltype(&weft_group_end) group_end;
  decltype(&weft_all_reduce) all_reduce;
  decltype(&weft_all_gather) all_gather;
  decltype(&weft_reduce_scatter) reduce_scatter;
  decltype(&weft_broadcast) broadcast;
  decltype(&weft_reduce) reduce;
  decltype(&weft_all_to_all) all_to_all;
  decltype(&weft_send) send;
  decltype(&weft_recv) recv;
  decltype(&weft_memory_allocate) memory_allocate;
  decltype(&weft_memory_free) memory_free;
  decltype(&weft_window_register) window_register;
  decltype(&weft_window_pointer) window_pointer;
};

class WeftLibrary : public Library {
 public:
  WeftLibrary(const WeftApi& api, const Seat& seat) : api_(api), seat_(seat) {}

  [[nodiscard]] std::string version() const override { return api_.version(); }
  [[nodiscard]] std::string call_name(const Operation& operation) const override;
  [[nodiscard]] double setup_seconds() const override { return api_.context_seconds; }
  void make_id(char* id) override;
  void join(const char* id) override;
  void call(const Call& call) override;
  void check_communicator() override;
  void abort() override;
  void leave() override;

 protected:
  const WeftApi& api_;
  const Seat seat_;
  weft_comm* comm_ = nullptr;

 private:
  void send_to_next(const Call& call, weft_data_type type);

  weft_stream* stream_ = nullptr;
};

/// Weft over buffers that all ranks have registered as windows.
class WeftWindowLibrary final : public WeftLibrary {
 public:
  using WeftLibrary::WeftLibrary;

  Arena take_arena(const Arena& plain, size_t bytes) override;
  void leave() override;

 private:
  std::array<void*, 2> memory_{};
};

}  // namespace weft::gpu_bench
