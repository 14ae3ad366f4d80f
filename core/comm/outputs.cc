// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls whose data may go straight into the outputs of other ranks: which ranks could at all, what
// this one offers in a call, and which way calls went.
#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

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
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    if (topology_.same_process(0, rank)) continue;
    return fmt::format(
        "ranks 0 and {} are of two processes, and memory of another one is mapped in "
        "windows alone",
        rank);
  }
  return {};
}

// A device that is not reached is not an error: this rank then offers nothing.
Status Communicator::prepare_outputs() {
  if (ranks_ == 1 || limits_.outputs_from == 0 || !limits_.no_outputs.empty()) return {};
  void* table = nullptr;
  if (const weft_result result = table_memory_.allocate(sizeof(OutputTable), &table);
      result != WEFT_OK) {
    return fail(result, fmt::format("cannot allocate {} bytes of device {} {}", sizeof(OutputTable),
                                    runtime_.name(), runtime_.index()));
  }
  output_table_ = static_cast<OutputTable*>(table);
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

const OutputCall* Communicator::output_call(const Call& call) {
  const Task& task = call.task;
  const void* const begin = call.recv != nullptr ? call.recv : call.send;
  output_call_ = {.table = output_table_,
                  .peers = connections_->direct(),
                  .offer = 0,
                  .begin = static_cast<const std::byte*>(begin),
                  .calls = report_->output_calls()};
  const std::uint64_t bytes = has_blocks(task.operation) ? task.bytes() * ranks_ : task.bytes();
  // Into the output of a broadcast's root nobody writes.
  const bool is_written = !has_root(task.operation) || task.root != rank_;
  const auto is_open_to = [&](std::int32_t device) {
    return runtime_.is_open_to(device, begin, bytes);
  };
  const bool offers =
      offers_outputs_ && (!is_written || std::ranges::all_of(output_devices_, is_open_to));
  if (offers) output_call_.offer = reinterpret_cast<std::uint64_t>(begin);
  return &output_call_;
}

}  // namespace weft
