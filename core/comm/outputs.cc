// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls whose data may go straight into the outputs of other ranks: which ranks could at all, what
// this one offers in a call, and which way calls went.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"

namespace weft {

// Computed from what all ranks have in common.
std::string Communicator::no_outputs() const {
  if (ranks_ > kMostDirectRanks) {
    return fmt::format("more than {} ranks do not agree on outputs", kMostDirectRanks);
  }
  if (reach_ != Reach::kDeviceMemory || limits_.direct_bytes == 0) {
    return "these ranks do not write into each other's memory, or buffers.direct is 0";
  }
  if (is_of_one_process()) return {};
  if (config_.bytes("buffers.outputs_mapped") == 0) {
    return "these ranks are of several processes, and buffers.outputs_mapped is 0";
  }
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    if (topology_.same_host(0, rank)) continue;
    return fmt::format("ranks 0 and {} are on two hosts", rank);
  }
  return {};
}

bool Communicator::is_of_one_process() const {
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    if (!topology_.same_process(0, rank)) return false;
  }
  return true;
}

// A device that is not reached is not an error: this rank then offers nothing.
Status Communicator::prepare_outputs() {
  if (ranks_ == 1 || limits_.outputs_from == 0 || !limits_.no_outputs.empty()) return {};
  void* table = nullptr;
  if (const weft_result result = table_memory_.allocate(sizeof(OutputTable), &table);
      result != WEFT_OK) {
    return fail(device_error(runtime_, result,
                             fmt::format("cannot allocate {} bytes of device {} {}",
                                         sizeof(OutputTable), runtime_.name(), runtime_.index())));
  }
  output_table_ = static_cast<OutputTable*>(table);
  if (!is_of_one_process()) return start_output_mappings();
  offers_outputs_ = true;
  for (const RankInfo& other : topology_.ranks) {
    if (other.rank == rank_) continue;
    std::int32_t device = -1;
    const weft_result reached = runtime_.reach(other.device_pci, &device);
    if (reached != WEFT_OK) {
      std::int64_t native = 0;
      context_.logger().info(
          Topic::kTransport,
          "rank {} does not write into outputs of rank {}, nor they into its: {}", rank_,
          other.rank, runtime_.last_failure(&native));
      offers_outputs_ = false;
      continue;
    }
    if (std::ranges::find(output_devices_, device) == output_devices_.end()) {
      output_devices_.push_back(device);
    }
  }
  return {};
}

// Before letters come: the reader of the last subject lets them in.
Status Communicator::start_output_mappings() {
  void* map = nullptr;
  if (const weft_result result = runtime_.allocate_shared(sizeof(OutputMap), &map);
      result != WEFT_OK) {
    return fail(device_error(runtime_, result,
                             fmt::format("cannot allocate {} bytes of host memory for device {} {}",
                                         sizeof(OutputMap), runtime_.name(), runtime_.index())));
  }
  output_map_ = static_cast<OutputMap*>(map);
  output_timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!output_timer_) return fail(Error::from_errno(errno, "cannot make a timer"));
  WEFT_TRY_ASSIGN(ProcessWitness witness, ProcessWitness::create());
  std::vector<std::uint64_t> pids;
  pids.reserve(ranks_);
  for (const RankInfo& rank : topology_.ranks)
    pids.push_back(rank.pid);
  // Memory that a program has freed is noticed so soon, though it calls nothing.
  const auto arm = [timer = output_timer_.get()](std::int64_t nanoseconds) {
    constexpr std::int64_t kPeriod = 400'000'000;
    const itimerspec times{.it_interval = {.tv_sec = 0, .tv_nsec = kPeriod},
                           .it_value = {.tv_sec = 0, .tv_nsec = nanoseconds}};
    // Fails for no timer that was made.
    static_cast<void>(timerfd_settime(timer, 0, &times, nullptr));
  };
  output_mappings_ = std::make_unique<OutputMappings>(
      OutputSurroundings{
          .runtime = runtime_,
          .log = context_.logger(),
          .rank = rank_,
          .pids = std::move(pids),
          .most_bytes = config_.bytes("buffers.outputs_mapped"),
          .map = output_map_,
          .ended = report_->outputs_ended(),
          .post =
              [this](std::uint32_t to, std::vector<std::byte> letter) {
                bootstrap_->post(static_cast<int>(to), LetterSubject::kOutputs, std::move(letter));
              },
          .brings =
              [this](std::uint32_t to) { return bootstrap_->brings_letters(static_cast<int>(to)); },
          .wake = [arm] { arm(1); },
          .has_failed =
              [this] {
                report_->look();
                return failure_->stopped();
              }},
      std::move(witness));
  bootstrap_->on_letter(LetterSubject::kOutputs,
                        [this](int from, const std::vector<std::byte>& text) {
                          output_mappings_->take(static_cast<std::uint32_t>(from), text);
                        });
  WEFT_TRY_ASSIGN(output_watch_,
                  context_.reactor().add(output_timer_.get(), EPOLLIN, [this](std::uint32_t) {
                    std::uint64_t expirations = 0;
                    static_cast<void>(read(output_timer_.get(), &expirations, sizeof(expirations)));
                    output_mappings_->work();
                  }));
  arm(1);
  return {};
}

// A captured call of ranks of several processes offers nothing: see OutputMappings.
const OutputCall* Communicator::output_call(const Call& call, const Stream& stream) {
  const Task& task = call.task;
  const void* const begin = call.recv != nullptr ? call.recv : call.send;
  const std::uint64_t bytes = has_blocks(task.operation) ? task.bytes() * ranks_ : task.bytes();
  output_call_ = {.table = output_table_,
                  .peers = connections_->direct(),
                  .map = output_map_,
                  .offer = 0,
                  .begin = static_cast<const std::byte*>(begin),
                  .bytes = bytes,
                  .calls = report_->output_calls()};
  // Into the output of a broadcast's root nobody writes.
  const bool is_written = !has_root(task.operation) || task.root != rank_;
  if (output_mappings_ != nullptr) {
    if (runtime_.is_capturing(stream.device_stream())) return &output_call_;
    output_call_.offer = is_written ? output_mappings_->offer(begin, bytes) : kUnwrittenOutput;
    if (output_call_.offer == 0) return &output_call_;
    output_call_.ended = report_->outputs_ended();
    output_call_.number = output_mappings_->number_call();
    return &output_call_;
  }
  const auto is_open_to = [&](std::int32_t device) {
    return runtime_.is_open_to(device, begin, bytes);
  };
  const bool offers =
      offers_outputs_ && (!is_written || std::ranges::all_of(output_devices_, is_open_to));
  if (offers) output_call_.offer = reinterpret_cast<std::uint64_t>(begin);
  return &output_call_;
}

}  // namespace weft
