// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What an execution needs before it runs: memory, connections, kernels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/model/multicast.h"
#include "core/model/two_shot.h"
#include "tests/schedule_checker/executor.h"

namespace weft::checker {

Inboxes::Geometry Executor::geometry() const {
  if (has_lanes()) {
    const bool once = plan_.algorithm == Algorithm::kDirect && !has_blocks(plan_.task.operation);
    const std::uint64_t bytes = once ? plan_.task.bytes() : plan_.step_bytes;
    return {.half_bytes = wide_half_bytes(bytes), .lines_are_taken = true};
  }
  if (plan_.algorithm == Algorithm::kMulticast) {
    return {.half_bytes = plain_half_bytes(kChunkGrainBytes, execution_.direct_parts),
            .headers = execution_.direct_parts};
  }
  if (plan_.algorithm == Algorithm::kTwoShot) {
    return {.half_bytes = plain_half_bytes(plan_.step_bytes, execution_.direct_parts),
            .headers = execution_.direct_parts};
  }
  // Of others than all-reduces each part has a header.
  const std::uint64_t headers =
      plan_.task.operation == Operation::kAllReduce ? 0 : kMostDirectParts * sizeof(std::uint64_t);
  return {.half_bytes = direct_half_bytes(plan_.task.bytes() + headers),
          .period = execution_.flag_period};
}

void Executor::add_staged_memory() {
  const MulticastPlaces places =
      multicast_places(plan_.step_bytes, plan_.ranks, execution_.direct_parts);
  staged_ = std::make_unique<StagedMemory>(verdict_.report, *inboxes_, plan_.ranks,
                                           places.at(execution_.direct_parts, 0));
  world_.staged = staged_.get();
  for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank)
    inboxes_->set_multicast(rank, &staged_->view(rank));
}

void Executor::add_buffers() {
  std::vector<ChannelPart> parts;
  for (const ChannelPlan& channel : plan_.channels)
    parts.push_back({.offset = channel.offset, .count = channel.count});
  buffers_.set_channels(std::move(parts));
  const std::uint64_t block = direct() ? 0 : plan_.task.count;
  if (execution_.calls * input_elements() > kMostElements) {
    throw std::length_error("more elements than have numbers");
  }
  for (std::uint32_t call = 0; call < execution_.calls; ++call) {
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      CallBuffers& own = of_calls_.emplace_back();
      const bool joined = this->joined(rank);
      if (has_output(rank)) {
        const std::uint64_t own_block = joined && scatters() ? rank * plan_.task.count : 0;
        own.output = buffers_.add(
            {.rank = rank,
             .elements = joined ? std::max(input_elements(), output_elements()) : output_elements(),
             .output_begin = own_block,
             .output_end = own_block + output_elements(),
             .block = block,
             .call = call});
      }
      if (has_input(rank) && !joined) {
        own.input = buffers_.add({.rank = rank, .elements = input_elements(), .call = call});
      }
    }
  }
  for (std::uint32_t rank = 0; execution_.outputs && rank < plan_.ranks; ++rank) {
    LiveBuffers& live = live_.emplace_back();
    Buffer output = buffers_.at(*of_call(0, rank).output);
    output.once = true;
    output.whole_lines = true;
    live.output = buffers_.add(output);
    if (of_call(0, rank).input) {
      live.input = buffers_.add({.rank = rank, .elements = input_elements(), .whole_lines = true});
    }
  }
  buffers_.allocate();
  for (std::uint32_t call = 0; call < execution_.calls; ++call) {
    for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
      if (!has_input(rank)) continue;
      Value* const input = input_of(call, rank);
      const Value first = make_value(input_expression(rank), element(call, 0));
      for (std::uint64_t i = 0; i < input_elements(); ++i)
        input[i] = first + (i << kHopBits);
    }
  }
}

// An algorithm with other edges than a ring's adds them here and binds them in connect().
void Executor::add_connections() {
  if (execution_.over_nets) {
    nets_ = std::make_unique<Nets>(world_, connections_, plan_.ranks, plan_.steps);
    world_.under_way.resize(plan_.ranks);
  }
  if (plan_.algorithm == Algorithm::kTree) {
    for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
      const std::vector<std::uint32_t>& parents = plan_.channels[channel].parents;
      auto& edges = tree_edges_.emplace_back();
      trees_.emplace_back(plan_.ranks);
      if (!is_executed(channel)) continue;
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        if (parents.at(rank) == rank) continue;
        edges[{rank, parents[rank]}] = connections_.add(rank, parents[rank], channel);
        edges[{parents[rank], rank}] = connections_.add(parents[rank], rank, channel);
      }
    }
  } else if (plan_.algorithm == Algorithm::kChain) {
    for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
      auto& edges = tree_edges_.emplace_back();
      chains_.emplace_back(plan_.ranks);
      if (!is_executed(channel)) continue;
      for (std::uint32_t rank = 0; rank + 1 < plan_.ranks; ++rank) {
        edges[{rank, rank + 1}] = connections_.add(rank, rank + 1, channel);
        edges[{rank + 1, rank}] = connections_.add(rank + 1, rank, channel);
      }
    }
  } else if (plan_.algorithm == Algorithm::kPat) {
    for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
      auto& edges = tree_edges_.emplace_back();
      pats_.emplace_back(plan_.ranks);
      if (!is_executed(channel)) continue;
      for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
        const PatPlace place = pat_place(plan_, channel, rank);
        const auto add = [&](const std::vector<std::uint32_t>& others) {
          for (const std::uint32_t other : others) {
            if (edges.contains({rank, other})) continue;  // ahead and behind
            edges[{rank, other}] = connections_.add(rank, other, channel);
          }
        };
        if (pat_scatters(pat_operation(plan_))) add(place.behind);
        if (pat_gathers(pat_operation(plan_))) add(place.ahead);
      }
    }
  } else if (plan_.ranks > 1) {
    for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel) {
      const std::vector<std::uint32_t>& ring = plan_.channels[channel].ring;
      std::vector<std::size_t>& leaving = leaving_.emplace_back(plan_.ranks);
      if (!is_executed(channel)) continue;
      for (std::size_t i = 0; i < ring.size(); ++i) {
        const std::uint32_t next = ring[(i + 1) % ring.size()];
        if (!nets_) {
          leaving.at(ring[i]) = connections_.add(ring[i], next, channel);
          continue;
        }
        leaving.at(ring[i]) = nets_->size();
        nets_->add(ring[i], next, channel, steps_sent(plan_, channel, ring[i]) * execution_.calls);
      }
      if (plan_.both_ends) {
        const std::uint32_t sender = steps_sent(plan_, channel, 0) != 0 ? 0 : 1;
        connections_.lend_slots(leaving.at(1 - sender), leaving.at(sender));
      }
    }
  }
  connections_.allocate();
}

void Executor::connect(std::uint32_t channel, std::uint32_t rank, WorkItem& item) {
  if (direct()) {
    item.direct = &inboxes_->peers(rank);
  } else if (plan_.algorithm == Algorithm::kTree) {
    const auto& edges = tree_edges_[channel];
    trees_[channel][rank] = tree_links(
        tree_place(plan_, channel, rank),
        [&](std::uint32_t other) { return connections_.sender(edges.at({rank, other})); },
        [&](std::uint32_t other) { return connections_.receiver(edges.at({other, rank})); });
    item.tree = &trees_[channel][rank];
  } else if (plan_.algorithm == Algorithm::kChain) {
    const auto& edges = tree_edges_[channel];
    chains_[channel][rank] = chain_links(
        rank, plan_.ranks, plan_.task.root,
        [&](std::uint32_t other) { return connections_.sender(edges.at({rank, other})); },
        [&](std::uint32_t other) { return connections_.receiver(edges.at({other, rank})); });
    item.chain = &chains_[channel][rank];
  } else if (plan_.algorithm == Algorithm::kPat) {
    const auto& edges = tree_edges_[channel];
    pats_[channel][rank] = pat_links(
        pat_operation(plan_), pat_place(plan_, channel, rank),
        [&](std::uint32_t other) { return connections_.sender(edges.at({rank, other})); },
        [&](std::uint32_t other) { return connections_.receiver(edges.at({other, rank})); });
    item.pat = &pats_[channel][rank];
  } else if (plan_.ranks > 1 && channel < leaving_.size()) {
    const std::size_t to_next = leaving_[channel][rank];
    const std::size_t from_previous = leaving_[channel][ring_place(plan_, channel, rank).previous];
    item.to_next = nets_ ? nets_->sender(to_next) : connections_.sender(to_next);
    item.from_previous =
        nets_ ? nets_->receiver(from_previous) : connections_.receiver(from_previous);
  }
}

void Executor::add_kernels() {
  ended_.resize(plan_.ranks);
  for (std::uint32_t channel = 0; channel < plan_.channels.size(); ++channel)
    blocks_.push_back(channel_blocks(plan_, channel));
  for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
    for (std::uint32_t kernel = 0; kernel < kernels_of_rank(); ++kernel) {
      const std::uint32_t lanes = has_lanes() ? execution_.lanes : 1;
      const std::uint32_t threads = execution_.outputs ? kBulkThreads : 1;
      if (has_lanes() && kernel % lanes == 0) {
        teams_.push_back(std::make_unique<LaneTeam>(fibers_, lanes, execution_.gang));
      }
      actors_.push_back({.rank = rank,
                         .channel = direct() ? 0 : kinds_.first[kernel / threads],
                         .call = 0,
                         .part = direct() ? kernel / lanes : 0,
                         .lane = kernel % (direct() ? lanes : threads)});
    }
  }
}

// A rank that has an input and an output in place has one live buffer, as it has in each call.
void Executor::add_outputs() {
  if (plan_.ranks <= kMostDirectRanks) {
    constexpr std::uint64_t kHalfBytes = 128;  // of a header and an offer
    inboxes_ = std::make_unique<Inboxes>(
        verdict_.report, plan_.ranks,
        Inboxes::Geometry{.half_bytes = kHalfBytes, .period = execution_.flag_period});
    world_.inboxes = inboxes_.get();
  }
  for (std::uint32_t rank = 0; rank < plan_.ranks; ++rank) {
    OutputCalls::Live& live = live_[rank].of_call;
    Value* const output = buffers_.data(*live_[rank].output);
    live.output = has_output(rank) ? output : nullptr;
    live.begin = output;
    if (!has_input(rank)) continue;
    live.input = live_[rank].input ? buffers_.data(*live_[rank].input)
                                   : output + (gathers() ? rank * plan_.task.count : 0);
  }
  outputs_ = std::make_unique<OutputCalls>(
      world_, *execution_.outputs, plan_.ranks, static_cast<std::uint32_t>(plan_.channels.size()),
      output_elements() * sizeof(Value), execution_.turns, execution_.seed);
}

}  // namespace weft::checker
