// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A communicator's windows, and the launches of calls that go through them.
#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/stream.h"
#include "core/comm/windows.h"

namespace weft {

Result<Window*> Communicator::register_window(void* memory, std::uint64_t bytes) {
  if (failure_->stopped()) {
    if (auto cause = failure_->settle()) return fail(std::move(*cause));
  }
  if (windows_.count() == kMostWindows) {
    return fail(WEFT_ERROR_OUT_OF_RESOURCES,
                fmt::format("a communicator registers up to {} windows in its life", kMostWindows),
                "register few and large ones, and keep them");
  }
  try {
    return share_window(memory, bytes);
  } catch (const std::bad_alloc&) {
    // Others wait for this rank in the next step, or have a window that it has not.
    failure_->note(no_memory(), true);
    return fail(no_memory());
  }
}

Result<Window*> Communicator::share_window(void* memory, std::uint64_t bytes) {
  const auto limit = config_.duration("timeouts.bootstrap");
  auto shared = connections_->share(
      memory, bytes, [this](std::uint32_t peer) { return choice_with(peer); }, *bootstrap_,
      limit ? Deadline::after(*limit) : Deadline::never());
  if (!shared) {
    // Sizes that differ all ranks have found alike. After anything else they no longer agree on
    // what exists: the communicator is lost, by the failure that came first.
    if (shared.error().code() == WEFT_ERROR_MISMATCH) return fail(std::move(shared.error()));
    failure_->establish(shared.error(), true);
    if (auto cause = failure_->settle()) return fail(std::move(*cause));
    return fail(std::move(shared.error()));
  }
  Window* const window = windows_.add(memory, bytes, std::move(*shared));
  if (!window->shared->refusal().empty()) {
    context_.logger().warn(Topic::kComm, "window {} of {} bytes is not mapped: {}", window->number,
                           bytes, window->shared->refusal());
  }
  return window;
}

// Nobody writes there any more once this rank's calls have ended: each ends with word from all
// others that theirs have.
Status Communicator::deregister_window(const Window* window) {
  Status ended = finish();
  windows_.remove(window);
  return ended;
}

// Kernels meet in inboxes before and after what is done there.
bool Communicator::may_go_through_windows() const {
  return report_ != nullptr && ranks_ > 1 && has_inboxes_in_memory();
}

std::optional<WindowPlace> Communicator::copied_into(const Call& call) const {
  if (windows_.empty() || least_copied_ == 0 || !may_go_through_windows()) return std::nullopt;
  if (call.task.options.names_way()) return std::nullopt;
  const std::uint64_t bytes = copied_output(call.task, ranks_);
  if (bytes == 0 || bytes < least_copied_) return std::nullopt;
  return windows_.find(call.recv, bytes);
}

// Where the inputs of such a call lie, and of an all-reduce its outputs: all ranks read and write
// there.
std::optional<ReductionPlaces> Communicator::reduced_in(const Call& call) const {
  if (windows_.empty() || report_ == nullptr) return std::nullopt;
  const std::uint64_t least = reduced_from(call.task);
  const std::uint64_t bytes = reduced_input(call.task, ranks_);
  if (least == 0 || bytes < least) return std::nullopt;
  const auto input = windows_.find(call.send, bytes);
  if (!input) return std::nullopt;
  if (call.task.operation != Operation::kAllReduce) {
    return ReductionPlaces{.input = *input, .output = {}};
  }
  const auto output = windows_.find(call.recv, bytes);
  if (!output) return std::nullopt;
  return ReductionPlaces{.input = *input, .output = *output};
}

bool Communicator::goes_through_windows(const Call& call) const {
  return copied_into(call).has_value() || reduced_in(call).has_value();
}

Result<const Launch*> Communicator::reduction_launch(const Call& call,
                                                     const ReductionPlaces& places,
                                                     Stream& stream) {
  if (window_staging_ == nullptr) {
    void* memory = nullptr;
    const std::uint64_t bytes = config_.bytes("windows.staging");
    if (const weft_result result = table_memory_.allocate_unset(bytes, &memory);
        result != WEFT_OK) {
      Error error = device_error(
          runtime_, result,
          fmt::format("cannot allocate {} bytes of device {} {} for reductions in windows", bytes,
                      runtime_.name(), runtime_.index()),
          "make windows.staging smaller, or windows.reduce_from 0");
      withdraw({}, error);
      return fail(std::move(error));
    }
    window_staging_ = static_cast<std::byte*>(memory);
  }
  window_reduction_ = make_window_reduction(call, rank_, ranks_, places);
  window_reduction_.rounds_each = config_.flag("collectives.deterministic");
  window_reduction_.staging = window_staging_;
  window_reduction_.staging_bytes = config_.bytes("windows.staging");
  const std::uint32_t named = call.task.options.max_channels;
  window_reduction_.most_parts =
      named != 0 ? std::min(named, limits_.max_channels) : limits_.max_channels;
  Task task = call.task;
  task.place = places.number();
  WorkItem& item = begin_inbox_item(task);
  item.algorithm = Algorithm::kCopy;
  return finish_counted(nullptr, [&] {
    launch_by_report(stream);
    reported_launch_.window_reduction = &window_reduction_;
    return &reported_launch_;
  });
}

Result<const Launch*> Communicator::copy_launch(const Call& call, const WindowPlace& place,
                                                Stream& stream) {
  Task task = call.task;
  task.place = place.number();
  pairs_repeat_ = false;
  pair_transfers_.clear();
  make_copies(call, rank_, ranks_, place.window->addresses(), place.offset, pair_transfers_);
  WorkItem& item = begin_inbox_item(task);
  item.algorithm = Algorithm::kCopy;
  item.transfers = pair_transfers_.data();
  item.transfer_count = static_cast<std::uint32_t>(pair_transfers_.size());
  return finish_counted(nullptr, [&] {
    launch_by_report(stream);
    return &reported_launch_;
  });
}

}  // namespace weft
