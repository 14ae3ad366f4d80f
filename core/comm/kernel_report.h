// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a communicator and kernels that run on their own talk: a word that makes kernels leave, and a
// place where the first that ends badly says why. For devices whose launches do not call back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/device_runtime.h"
#include "core/base/error.h"
#include "core/comm/failure.h"
#include "core/model/output_table.h"
#include "core/model/work_item.h"

namespace weft {

/// What a kernel of rank `rank` tells that got something of another call: the error with both
/// calls.
[[nodiscard]] Error find_kernel_mismatch(std::uint32_t rank, const KernelOutcome& outcome,
                                         const std::string& called, const std::string& their_call);

/// Why a kernel of rank `rank` of `ranks` ended badly, as evidence or as a cause, given to
/// `failure`. `called` names the call, where it is known.
void explain_kernel_end(Failure& failure, std::uint32_t rank, std::uint32_t ranks,
                        const KernelOutcome& outcome, const std::string& called,
                        const std::string& their_call);

/// Threads: all members from any.
class KernelReport {
 public:
  static Result<std::shared_ptr<KernelReport>> create(DeviceRuntime& runtime, std::uint32_t rank,
                                                      std::uint32_t ranks,
                                                      std::shared_ptr<Failure> failure);
  ~KernelReport();
  KernelReport(const KernelReport&) = delete;
  KernelReport& operator=(const KernelReport&) = delete;

  [[nodiscard]] const std::shared_ptr<Failure>& failure() const { return failure_; }
  [[nodiscard]] const std::atomic<std::uint32_t>* abort_word() const { return &shared_->abort; }
  [[nodiscard]] KernelOutcome* outcome() const { return &shared_->outcome; }
  [[nodiscard]] LongWait* waiting() const { return &shared_->waiting; }
  /// OutputCall::calls, and what stands there.
  [[nodiscard]] std::uint64_t* output_calls() const { return shared_->output_calls; }
  /// OutputCall::ended
  [[nodiscard]] std::uint64_t* outputs_ended() const { return &shared_->outputs_ended; }
  [[nodiscard]] std::uint64_t calls_that_went(OutputWay way) const {
    std::uint64_t& calls = shared_->output_calls[static_cast<std::size_t>(way)];
    return std::atomic_ref(calls).load(std::memory_order_relaxed);
  }

  /// Of memory that it holds.
  [[nodiscard]] static constexpr std::size_t bytes_held() { return sizeof(Shared); }
  /// Of kernels that waited for long since this was asked last: the tag of a call that one waited
  /// in, or 0, and whether one of these waits had not been told of before.
  [[nodiscard]] LongWait take_waiting();

  /// Waiting for its kernels was answered so. Where the device is lost, the communicator is as
  /// well.
  void note_loss(weft_result answer);
  /// Turns what a kernel reported into the communicator's failure, which has been raised when this
  /// returns. Throws where there is no memory for it: the next look does it.
  void look();

 private:
  // Host memory that kernels reach; each part on lines of its own.
  struct Shared {
    alignas(128) std::atomic<std::uint32_t> abort;
    alignas(128) KernelOutcome outcome;
    alignas(128) LongWait waiting;
    alignas(128) std::uint64_t output_calls[2];
    std::uint64_t outputs_ended;
  };

  KernelReport(DeviceRuntime& runtime, std::uint32_t rank, std::uint32_t ranks,
               std::shared_ptr<Failure> failure, Shared* shared);

  /// Of no half-told report.
  [[nodiscard]] KernelEnd await_end();
  void explain();

  DeviceRuntime& runtime_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  const std::shared_ptr<Failure> failure_;
  Shared* const shared_;
  std::atomic<bool> explaining_{false};  ///< By the first who looked.
  std::atomic<bool> explained_{false};
  std::atomic<bool> waited_in_vain_{false};  ///< For a report to be told to its end.
};

}  // namespace weft
