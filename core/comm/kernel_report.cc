// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/kernel_report.h"

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/comm/call_history.h"

namespace weft {
namespace {

// A kernel that has begun to tell why it ends is done with it a few stores later, unless its device
// died of something else in between.
constexpr std::chrono::seconds kLongestTelling{1};

// What rank `rank` called itself. Both ends of a message have the sender's call for a tag.
OperationTag as_called_by(std::uint32_t rank, std::uint32_t peer, OperationTag tag) {
  return split_operation_tag(tag).root == (rank & 0xFFFU) ? tag_of_receive(tag, peer) : tag;
}

std::string describe_tag(OperationTag tag, std::string_view count) {
  return fmt::format("{} (call {})", describe_operation(tag, count),
                     split_operation_tag(tag).sequence);
}

// A tag holds a fingerprint of the count, of the place in a window and of the limit of channels,
// not these themselves.
std::string describe_found(const KernelOutcome& outcome) {
  const OperationTagParts expected = split_operation_tag(outcome.expected);
  const OperationTagParts found = split_operation_tag(outcome.found);
  std::string text =
      describe_tag(outcome.found, count_beside(outcome.found, outcome.expected, "as many"));
  if (expected.in_window && found.in_window) text += ", or at another place of it";
  return text;
}

}  // namespace

Error find_kernel_mismatch(std::uint32_t rank, const KernelOutcome& outcome,
                           const std::string& called, const std::string& their_call) {
  return name_both(called, rank,
                   outcome.end == KernelEnd::kTagMismatch
                       ? their_call
                       : fmt::format("something that sends {} bytes where {} were due",
                                     outcome.found, outcome.expected),
                   outcome.peer);
}

void explain_kernel_end(Failure& failure, std::uint32_t rank, std::uint32_t ranks,
                        const KernelOutcome& outcome, const std::string& called,
                        const std::string& their_call) {
  switch (outcome.end) {
    case KernelEnd::kDone:
    case KernelEnd::kBeingTold:
    case KernelEnd::kAborted:  // whoever raised the flag has said why
      return;
    case KernelEnd::kTagMismatch:
    case KernelEnd::kSizeMismatch:
      return failure.establish(find_kernel_mismatch(rank, outcome, called, their_call), true);
    case KernelEnd::kPeerError: {
      // The word holds 1 + the rank that is to blame, see Communicator::stop_everything.
      const std::uint64_t culprit = outcome.found - 1;
      failure.suspect(
          Error(WEFT_ERROR_PEER, culprit < ranks ? fmt::format("rank {} failed, as rank {} reports",
                                                               culprit, outcome.peer)
                                                 : fmt::format("rank {} gave up", outcome.peer))
              .with_native(ErrorSource::kPeer,
                           static_cast<std::int64_t>(culprit < ranks ? culprit : outcome.peer)));
      return;
    }
    case KernelEnd::kForeignPlace:
      failure.establish(
          Error(WEFT_ERROR_PEER,
                fmt::format("rank {} offers an output in memory that it has not shared",
                            outcome.peer),
                "buffers.outputs_from 0 goes without; please report this")
              .with_native(ErrorSource::kPeer, outcome.peer),
          true);
      return;
    case KernelEnd::kUnsupported:
      failure.establish(
          Error(WEFT_ERROR_UNSUPPORTED, fmt::format("the device has no kernel for {}", called)),
          true);
      return;
  }
}

KernelReport::KernelReport(DeviceRuntime& runtime, std::uint32_t rank, std::uint32_t ranks,
                           std::shared_ptr<Failure> failure, Shared* shared)
    : runtime_(runtime),
      rank_(rank),
      ranks_(ranks),
      failure_(std::move(failure)),
      shared_(shared) {}

Result<std::shared_ptr<KernelReport>> KernelReport::create(DeviceRuntime& runtime,
                                                           std::uint32_t rank, std::uint32_t ranks,
                                                           std::shared_ptr<Failure> failure) {
  void* memory = nullptr;
  if (const weft_result result = runtime.allocate_shared(sizeof(Shared), &memory);
      result != WEFT_OK) {
    return fail(device_error(runtime, result,
                             fmt::format("cannot allocate {} bytes that device {} shares with the "
                                         "host",
                                         sizeof(Shared), runtime.name())));
  }
  auto* shared = new (memory) Shared{};
  std::shared_ptr<KernelReport> report(
      new KernelReport(runtime, rank, ranks, std::move(failure), shared));
  report->failure_->set_mirror(&shared->abort);
  return report;
}

KernelReport::~KernelReport() {
  failure_->set_mirror(nullptr);
  runtime_.release_shared(shared_);
}

LongWait KernelReport::take_waiting() {
  const auto take = [](std::uint64_t& word) {
    return std::atomic_ref(word).exchange(0, std::memory_order_relaxed);
  };
  const std::uint64_t begun = take(shared_->waiting.begun);
  return {.tag = take(shared_->waiting.tag), .begun = begun};
}

void KernelReport::note_loss(weft_result answer) {
  if (answer == WEFT_OK || !runtime_.is_lost()) return;
  failure_->establish(
      device_error(runtime_, answer,
                   fmt::format("work of rank {} on device {} cannot end", rank_, runtime_.name())),
      true);
}

KernelEnd KernelReport::await_end() {
  const std::atomic_ref<KernelEnd> word(shared_->outcome.end);
  KernelEnd end = word.load(std::memory_order_acquire);
  if (end != KernelEnd::kBeingTold || waited_in_vain_.load(std::memory_order_relaxed)) return end;
  const auto deadline = std::chrono::steady_clock::now() + kLongestTelling;
  while (end == KernelEnd::kBeingTold && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    end = word.load(std::memory_order_acquire);
  }
  if (end == KernelEnd::kBeingTold) waited_in_vain_.store(true, std::memory_order_relaxed);
  return end;
}

void KernelReport::look() {
  const KernelEnd end = await_end();
  if (end == KernelEnd::kDone || end == KernelEnd::kBeingTold) return;
  while (explaining_.exchange(true)) {
    // Who looks after a bad end finds the failure raised, also where another thread is about to.
    if (failure_->stopped() || explained_.load(std::memory_order_acquire)) return;
    std::this_thread::yield();
  }
  try {
    explain();
  } catch (const std::bad_alloc&) {
    explaining_.store(false);  // by whoever looks next
    throw;
  }
  explained_.store(true, std::memory_order_release);
}

void KernelReport::explain() {
  const KernelOutcome outcome = shared_->outcome;
  const bool tags = outcome.end == KernelEnd::kTagMismatch;
  explain_kernel_end(*failure_, rank_, ranks_, outcome,
                     tags
                         ? describe_tag(as_called_by(rank_, outcome.peer, outcome.expected), "some")
                         : std::string("an operation"),
                     tags ? describe_found(outcome) : std::string());
}

}  // namespace weft
