// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How many channels a communicator has, and what slots its connections have: by the device, by how
// far the memory reaches that joins its ranks, and by its configuration. Of what all ranks have in
// common, so it comes out alike.
#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include <fmt/format.h>

#include "core/comm/co_residency.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/model/pair_transfer.h"
#include "core/model/ring_geometry.h"
#include "core/model/step_lines.h"
#include "core/model/two_shot.h"

namespace weft {
namespace {

constexpr std::uint32_t kSteps = 8;  // slots of a connection
// Of two ranks on CPUs that a net joins, with processors enough: each message costs. Of more ranks
// what is passed on waits for the end of a longer message, and so do ranks that share a processor.
constexpr std::uint32_t kHostMessageStepBytes = 256 * 1024;

// Of ranks that a net joins: so many gather small inputs of all-reduces also where they share
// processors; of more each waits for others who wait for a processor.
constexpr std::uint32_t kFewGatheringRanks = 4;

// There may be as many pairs as ranks, so their buffers are small, and smaller where there are
// many: together they shall not take more than this of a rank, as long as their steps are worth a
// message.
constexpr std::uint32_t kPairSteps = 4;
constexpr std::uint32_t kMostPairStepBytes = 64 * 1024;
constexpr std::uint32_t kLeastPairStepBytes = 16 * 1024;
constexpr std::uint32_t kPairBytesOfARank = 16U << 20U;
constexpr std::uint32_t kMostTreeStepBytes = 32 * 1024;
// Lines are for small calls.
constexpr std::uint32_t kMostLineStepBytes = 16 * 1024;
// Of calls that have a root. On fewer processors than ranks a rank runs until its slots are used
// up: with 256 of them a change of ranks is shared by as many calls, with 8 it takes longer than
// those.
constexpr std::uint32_t kSmallStepBytes = 1024;
constexpr std::uint32_t kMostSmallSteps = 256;

// Of ranks on GPUs. A channel is a CTA, which moves nothing while a step changes hands: so many
// together fill a link. Where data goes through host memory, which carries far less, fewer do, and
// fewer still where a net takes it on from there. The costs order alternatives; those of links and
// of host memory are what two and four H200 took (docs/performance.md). By them broadcasts and
// reduces of 1 to 16 MiB round rings took within a fifth of what is planned, but for reduces of
// 1 MiB between four.
constexpr std::uint32_t kDeviceSteps = 4;
constexpr std::uint32_t kDeviceStepBytes = 128 * 1024;
// Of rings of more than two GPUs: broadcasts and reduces of 256 MiB and more gain 1 to 2 % by them,
// by larger ones no more. Three of these lie in a page of 2 MiB, of larger ones two.
constexpr std::uint32_t kDeviceRingSteps = 8;
constexpr std::uint32_t kDeviceRingStepBytes = 80 * 1024;
// Of communicators that join beside another one, whose memory adds up: half of it, for 1 to 4 % of
// the time of the largest calls, and 7 % of sends; of rings less, since the driver takes some, too.
constexpr std::uint32_t kLaterDeviceStepBytes = kDeviceStepBytes / 2;
constexpr std::uint32_t kLaterDeviceRingStepBytes = 56 * 1024;
// Of lines; by LL128 each thread has its part of one pair of them.
constexpr std::uint32_t kDeviceLineStepBytes = 15 * 1024;
constexpr std::uint32_t kDeviceChannels = kMostRingChannels;
// Of calls with a root between two GPUs; smaller ones seldom go by rings, and were not timed so.
constexpr std::uint64_t kLeastBytesByBothEnds = std::uint64_t{2} << 20;
constexpr std::uint64_t kLeastDeviceChannelBytes = std::uint64_t{16} << 10;
// There the smaller steps are, the earlier the last rank of a ring begins.
constexpr std::uint32_t kStagedChannels = 24;
constexpr std::uint32_t kStagedPairChannels = 16;
constexpr std::uint32_t kStagedStepBytes = 64 * 1024;
constexpr std::uint32_t kMessageChannels = 8;
// What a step costs the thread that moves it counts more than what it holds up; each message of a
// pair, of which a rank has as many as there are others, has less of the host's memory.
constexpr std::uint32_t kMessageStepBytes = 512 * 1024;
constexpr std::uint32_t kPairMessageStepBytes = 256 * 1024;
// So much alone pays for one of few_net_ports() channels, and for one of as many parts of a send.
constexpr std::uint64_t kLeastMessageBytesOfFew = std::uint64_t{8} << 10;
constexpr std::uint64_t kLeastMessagePartBytes = std::uint64_t{4} << 10;
// Blocks of all-to-alls, gathers and scatters that go by inboxes, where ranks have those.
constexpr std::uint64_t kMostDirectExchangeBytes = std::uint64_t{512} << 10;
// Through host memory those for all others together, since lines of LL are twice their payload.
constexpr std::uint64_t kMostStagedExchangeBytes = std::uint64_t{128} << 10;
// Where a net joins some, those for one other rank, for each stripe that messages have: a port
// takes each line by itself, and pairs, whose steps it takes whole, are as fast from there on.
constexpr std::uint64_t kMostMessageExchangeBytes = std::uint64_t{8} << 10;
// What a rank has for all others together in an all-to-all by wide lines: what all-gathers take so
// is less, up to there, than what all-to-alls took by pairs, between two GPUs and between four.
constexpr std::uint64_t kMostWideExchangeBytes = std::uint64_t{12} << 20;
constexpr const char* kAllToAllProtocols = "collectives.all_to_all.protocol";
// What one rank sends to another goes over so many channels, the fewer the more ranks there are;
// what it sends to all of them, over as many of all together: a CTA for each end fills a link, and
// ends that share one wait for each other. Twice as many, with slots of their own, carry 5 % more
// between more than two GPUs where each has a CTA for each end, and some that copy beside them:
// with those afterwards all-to-alls of 1 GiB between two took 1.4 times as long. Between two GPUs
// the channels of sends carry more.
constexpr std::uint32_t kPairChannelsOfARank = 96;
constexpr std::uint32_t kExchangeChannelsOfARank = 32;
constexpr std::uint32_t kMostExchangeChannelsOfARank = 64;
constexpr std::uint32_t kExchangeSteps = 2;
constexpr std::uint64_t kLeastPairPartBytes = std::uint64_t{32} << 10;
constexpr std::uint32_t kFewPairChannels = 16;
constexpr std::uint64_t kLeastPairPartBytesOfMany = std::uint64_t{128} << 10;
// Through host memory 16 parts of 32 KiB take longer than 8 of 64.
constexpr std::uint32_t kFewStagedPairChannels = 8;
constexpr std::uint64_t kLeastStagedPairPartBytesOfMany = std::uint64_t{64} << 10;
// Messages of a step of lines. Of LL a line is twice its payload.
constexpr std::uint32_t kPairLineBytes = 16U << 10U;
constexpr std::uint32_t kPairLineStepBytes = 2 * (kPairLineBytes + 128);
constexpr std::uint32_t kPairLineSteps = 8;
// Of a part of a send: a port takes each line by itself, which costs more than it brings beyond.
constexpr std::uint64_t kMostMessageLineBytes = std::uint64_t{8} << 10;
// Parts of half as much are there sooner still, but more of them cost the host more.
constexpr std::uint64_t kLeastPairLinePartBytes = std::uint64_t{8} << 10;
// Longer messages go in steps of lines of LL128, up to where steps of Simple carry as much, which
// have no flags but wait until each has arrived. A CTA moves less by lines: so they do where there
// are channels enough to fill a link all the same. Twice the slots would carry 4 % more of 8 MiB.
constexpr std::uint64_t kMostPairWideBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kLeastPairWidePartBytes = std::uint64_t{32} << 10;
constexpr std::uint32_t kPairWideStepBytes = 64 * 1024;
constexpr std::uint32_t kPairWideSteps = 4;
// Payload that the lines of so many headers would hold.
constexpr std::uint64_t kDirectHeaderBytes = std::uint64_t{8} * kMostDirectParts;
constexpr std::uint64_t kDeviceDirectBytes = (std::uint64_t{1} << 20) + kDirectHeaderBytes;
// Where wide lines carry what is larger, and where data goes through host memory.
constexpr std::uint64_t kFewDirectBytes = (std::uint64_t{256} << 10) + kDirectHeaderBytes;
// Where a net joins some ranks: what is larger goes round rings, over several ports at once.
constexpr std::uint64_t kMessageDirectBytes = (std::uint64_t{64} << 10) + kDirectHeaderBytes;
constexpr std::uint64_t kDeviceWideBytes = std::uint64_t{16} << 20;  // of one rank
constexpr CostTable kLinkCosts = {.hops = {HopCost{.latency_us = 6.0, .bytes_per_us = 5700.0},
                                           HopCost{.latency_us = 6.0, .bytes_per_us = 5700.0},
                                           HopCost{.latency_us = 30.0, .bytes_per_us = 1000.0}},
                                  .call_us = 1.5,
                                  .rooted_bytes = 1.0,
                                  .rooted_hop_us = 2.4,
                                  .direct = {.latency_us = 0.5, .bytes_per_us = 240000.0},
                                  .wide = {.latency_us = 0.7, .bytes_per_us = 265000.0},
                                  .wide_ranges = {.latency_us = 0.95, .bytes_per_us = 290000.0},
                                  .wide_rank_us = 0.4,
                                  .exchange_us = 3.0,
                                  .two_shot = {.latency_us = 0.75, .bytes_per_us = 620000.0}};
constexpr CostTable kStagedCosts = {.hops = {HopCost{.latency_us = 6.0, .bytes_per_us = 5000.0},
                                             HopCost{.latency_us = 6.0, .bytes_per_us = 5000.0},
                                             HopCost{.latency_us = 30.0, .bytes_per_us = 1000.0}},
                                    .call_us = 3.0,
                                    .rooted_bytes = 1.0,
                                    .direct = {.latency_us = 2.5, .bytes_per_us = 30000.0}};
/// As H200 took over TCP on loopback, between two and between four. Messages to other ranks go by
/// ports of their own, side by side, and so do the stripes of each.
constexpr CostTable message_costs(std::uint32_t ranks, std::uint32_t stripes) {
  CostTable costs = kStagedCosts;
  costs.hops[static_cast<std::size_t>(HopKind::kNetwork)] = {.latency_us = 18.0,
                                                             .bytes_per_us = 3000.0};
  const std::uint32_t others = ranks - 1;
  costs.direct = {.latency_us = 6.8 + 2.7 * others,
                  .bytes_per_us = 1700.0 * others * (0.15 + 0.85 * stripes)};
  return costs;
}

// Of operations that wide lines carry.
constexpr std::array kProtocolsOfWideLines = {
    "collectives.all_reduce.protocol",     "collectives.all_gather.protocol",
    "collectives.reduce_scatter.protocol", "collectives.broadcast.protocol",
    "collectives.reduce.protocol",         kAllToAllProtocols};

bool has(const Config& config, const char* list, std::string_view name) {
  const auto& all = config.list(list);
  return std::ranges::find(all, name) != all.end();
}

/// Of each of these.
auto allows_wide_lines(const Config& config) {
  return [&config](const char* protocols) {
    return has(config, protocols, protocol_name(Protocol::kLL128));
  };
}

std::uint64_t whole_grains(std::uint64_t bytes) {
  return std::max(bytes / kChunkGrainBytes, std::uint64_t{1}) * kChunkGrainBytes;
}

}  // namespace

// How far the memory reaches that joins the pairs.
Communicator::Reach Communicator::find_reach() const {
  Reach reach = Reach::kDeviceMemory;
  for (std::uint32_t a = 0; a < ranks_; ++a) {
    for (std::uint32_t b = a + 1; b < ranks_; ++b) {
      // Cannot fail: choose_transports has chosen for every pair.
      const PairWire wire = chooser_->wire(a, b).value_or(PairWire{});
      if (wire.kind == PluginKind::kNet) return Reach::kMessages;
      if (!wire.device_memory) reach = Reach::kMemory;
    }
  }
  return reach;
}

bool Communicator::a_net_joins_ranks_of_a_host() const {
  for (std::uint32_t a = 0; a < ranks_; ++a) {
    for (std::uint32_t b = a + 1; b < ranks_; ++b) {
      if (topology_.same_host(a, b) &&
          chooser_->wire(a, b).value_or(PairWire{}).kind == PluginKind::kNet) {
        return true;
      }
    }
  }
  return false;
}

// On GPUs a two-shot needs memory of its own, which it gets unless the configuration leaves it out,
// or it is done faster by LL128. Where it would be the host's, a ring moves less through there.
std::uint64_t Communicator::two_shot_range() const {
  if (limits_.direct_bytes == 0) return 0;
  const std::uint64_t twice = whole_grains(2 * limits_.direct_block_bytes);
  // What a line takes beside its payload is free, but for the header.
  if (runtime_.reports_ends())
    return std::min(plain_range_bytes(direct_half_bytes(limits_.direct_bytes), 1), twice);
  if (reach_ != Reach::kDeviceMemory) return 0;
  const bool by_lines =
      has(config_, "collectives.all_reduce.protocol", protocol_name(Protocol::kLL128));
  if (limits_.wide_bytes != 0 && by_lines) return 0;
  if (!has(config_, "collectives.all_reduce.algorithm", algorithm_name(Algorithm::kTwoShot))) {
    return 0;
  }
  // A piece of them all together is 8 direct calls at most, however many ranks there are.
  return std::min(twice, whole_grains(8 * limits_.direct_block_bytes / ranks_));
}

// Of ranks on GPUs: why a line of 128 bytes that one of them stores may not arrive whole at
// another; empty where it does.
std::string Communicator::why_lines_come_apart() const {
  if (reach_ != Reach::kDeviceMemory) {
    return "not all of these GPUs reach each other's memory, and elsewhere lines of 128 bytes may "
           "come apart";
  }
  if (line_bytes_ >= least_order_bytes(Protocol::kLL128)) return {};
  return "of these GPUs nobody knows that lines of 128 bytes arrive whole: they do by NVLink "
         "between GPUs of compute capability 9.0 and more, where each process sees two, and those "
         "of all ranks of its host";
}

// Memory keeps words together, and a CPU's kernels order a line's words before its flag. A net
// moves whole steps: rings by lines that ports took were no faster (docs/performance.md).
void Communicator::choose_lines() {
  if (!runtime_.reports_ends()) limits_.no_ll128 = why_lines_come_apart();
  for (std::uint32_t a = 0; a < ranks_; ++a) {
    for (std::uint32_t b = a + 1; b < ranks_; ++b) {
      // Cannot fail: choose_transports has chosen for every pair.
      if (chooser_->wire(a, b).value_or(PairWire{}).kind != PluginKind::kNet) continue;
      limits_.no_lines = fmt::format("{} joins ranks {} and {}, and a net moves whole steps",
                                     chooser_->choose(a, b).value_or(PairChoice{}).plugin, a, b);
      return;
    }
  }
  constexpr std::uint32_t kLineBytes = 128;
  limits_.line_step_bytes =
      std::min(limits_.step_bytes / kLineBytes * kLineBytes,
               runtime_.reports_ends() ? kMostLineStepBytes : kDeviceLineStepBytes);
}

// Of wide lines each rank writes its whole input to each other one, while a two-shot writes to all
// of them together no more than twice: the more ranks, the smaller the calls that these are for,
// and for all inboxes of a rank together no more room than two ranks have.
std::uint64_t Communicator::wide_bytes() const {
  if (config_.is_set("buffers.direct")) {
    return limits_.direct_bytes / kChunkGrainBytes * kChunkGrainBytes;
  }
  if (std::ranges::none_of(kProtocolsOfWideLines, allows_wide_lines(config_))) return 0;
  return whole_grains(kDeviceWideBytes / ranks_ / ranks_ / (is_later_ ? 2 : 1));
}

// Computed from what all ranks have in common.
Status Communicator::choose_limits() {
  const auto wanted = static_cast<std::uint32_t>(config_.integer("channels.max"));
  limits_ = {.steps = kSteps,
             .step_bytes = static_cast<std::uint32_t>(config_.bytes("buffers.step")),
             .max_channels = wanted != 0 ? wanted : host_channels(topology_),
             .min_channel_bytes = config_.bytes("channels.least_bytes")};
  is_bounded_ = wanted != 0;
  if (is_bounded_) direct_parts_ = std::min(wanted, kMostDirectParts);
  const bool on_host = runtime_.reports_ends();
  reach_ = find_reach();
  const bool links = reach_ == Reach::kDeviceMemory;
  if (on_host && ranks_ == 2 && reach_ == Reach::kMessages && !config_.is_set("buffers.step") &&
      all_have_own_processors(topology_, limits_.max_channels)) {
    limits_.step_bytes = kHostMessageStepBytes;
  }
  // Messages of CPUs, which look for no lines, go round rings.
  if (ranks_ > 1 && ranks_ <= kMostDirectRanks && (reach_ != Reach::kMessages || !on_host)) {
    const bool usual = !on_host && !config_.is_set("buffers.direct");
    const bool has_wide_lines = !on_host && why_lines_come_apart().empty();
    const bool all_wide =
        has_wide_lines && std::ranges::all_of(kProtocolsOfWideLines, allows_wide_lines(config_));
    const std::uint64_t of_devices = reach_ == Reach::kMessages ? kMessageDirectBytes
                                     : links && !all_wide       ? kDeviceDirectBytes
                                                                : kFewDirectBytes;
    limits_.direct_bytes = usual ? of_devices : config_.bytes("buffers.direct");
    // On GPUs each part of such a call has a header of its own.
    limits_.direct_block_bytes =
        on_host ? limits_.direct_bytes
                : limits_.direct_bytes - std::min(limits_.direct_bytes, kDirectHeaderBytes);
    // A CPU's rates of such calls are those of a ring, in which a root does not wait for others.
    // Nor does a net's, whose messages follow each other without an answer.
    limits_.direct_roots = !on_host && reach_ != Reach::kMessages;
    if (has_wide_lines) limits_.wide_bytes = wide_bytes();
    limits_.two_shot_range = two_shot_range();
  }
  limits_.no_multicast = no_multicast();
  limits_.trees = true;
  // Between two GPUs they are slower than what else there is; between more nobody has timed them.
  limits_.late_by_cost = on_host;
  choose_lines();
  limits_.tree_step_bytes = std::min(limits_.step_bytes, kMostTreeStepBytes);
  if (on_host) {
    // A net moves whole steps, each for itself. No rank gets further ahead of another than calls
    // are remembered (CallHistory), so that calls that differ are found.
    const auto ahead = static_cast<std::uint32_t>(CallHistory::kLength / ranks_);
    limits_.small_steps = std::min(std::bit_floor(ahead), kMostSmallSteps);
    if (reach_ != Reach::kMessages && limits_.small_steps > kSteps) {
      limits_.small_step_bytes = kSmallStepBytes;
    }
    // What PAT does more is little beside what messages cost, which it has fewer of.
    if (reach_ == Reach::kMessages) {
      limits_.gathers_inputs =
          ranks_ <= kFewGatheringRanks || all_have_own_processors(topology_, limits_.max_channels);
      costs_.pat_us = 0;
      costs_.pat_bytes = 1.25;
      // Half of a tree's ranks only write, and run ahead; but who has two children moves twice as
      // much.
      costs_.tree_reduce_us = 1;
      costs_.tree_reduce_bytes = 1.5;
    }
    own_processors_ = have_own_processors(topology_, rank_, limits_.max_channels);
    ranks_per_processor_ = ranks_of_each_processor(topology_, rank_);
    return {};
  }
  const SlotGeometry of_rings = slots_of_device_rings();
  limits_.steps = of_rings.steps;
  limits_.step_bytes = of_rings.step_bytes;
  if (reach_ == Reach::kMessages) {
    limits_.gathers_inputs = true;  // whose kernels wait for no processor
  }
  if (!config_.is_set("channels.least_bytes")) {
    limits_.min_channel_bytes = kLeastDeviceChannelBytes;
    if (reach_ == Reach::kMessages) {
      limits_.few_channels = few_net_ports(topology_);
      limits_.min_bytes_of_few = kLeastMessageBytesOfFew;
    }
  }
  limits_.outputs_from = config_.bytes("buffers.outputs_from");
  if (limits_.outputs_from != 0) {
    limits_.no_outputs = no_outputs();
    limits_.are_outputs_mapped = !is_of_one_process();
  }
  if (links && config_.is_set("buffers.both_ends_from")) {
    limits_.both_ends_from = config_.bytes("buffers.both_ends_from");
  } else if (why_lines_come_apart().empty()) {  // by NVLink
    limits_.both_ends_from = kLeastBytesByBothEnds;
  }
  limits_.max_channels = wanted != 0 ? std::min(wanted, kDeviceChannels) : kDeviceChannels;
  if (!links && wanted == 0) {
    limits_.max_channels = reach_ == Reach::kMemory ? kStagedChannels : kMessageChannels;
  }
  costs_ = links                      ? kLinkCosts
           : reach_ == Reach::kMemory ? kStagedCosts
                                      : message_costs(ranks_, inbox_stripes());
  if (reach_ == Reach::kMessages && a_net_joins_ranks_of_a_host()) {
    const HopCost network = costs_.hops[static_cast<std::size_t>(HopKind::kNetwork)];
    costs_.hops.fill(network);
  }
  WEFT_TRY_ASSIGN(const GroupShare share, groups_of_each_rank(topology_, device_groups_));
  if (share.all == 0) return {};
  own_processors_ = !shares_device(topology_, rank_);
  groups_of_a_rank_ = share.all;
  limits_.max_channels = std::min(limits_.max_channels, share.channels);
  // The next kernel may wait already beside a direct one; so it is with sends and receives.
  direct_parts_ = std::min(share.parts, direct_parts_);
  pair_parts_ = share.parts;
  return {};
}

// Workers of CPUs move their messages themselves; a GPU has the engines do it, whose threads share
// the host's processors with the program's.
std::uint32_t Communicator::net_ports() const {
  const auto wanted = static_cast<std::uint32_t>(config_.integer("transports.net_ports"));
  if (wanted != 0) return wanted;
  return runtime_.reports_ends() ? 1 : device_net_ports(topology_, rank_);
}

// By what the ranks reach each other over, unless the configuration says how long steps are.
SlotGeometry Communicator::slots_of_devices(std::uint32_t message_bytes,
                                            const SlotGeometry& over_links) const {
  SlotGeometry slots{.steps = kDeviceSteps, .step_bytes = limits_.step_bytes};
  if (config_.is_set("buffers.step")) return slots;
  if (reach_ == Reach::kDeviceMemory) return over_links;
  slots.step_bytes = reach_ == Reach::kMessages ? message_bytes : kStagedStepBytes;
  return slots;
}

SlotGeometry Communicator::slots_of_device_rings() const {
  SlotGeometry over_links{.steps = kDeviceSteps, .step_bytes = kDeviceStepBytes};
  if (is_later_) {
    over_links.step_bytes = kLaterDeviceRingStepBytes;
  } else if (ranks_ != 2) {
    over_links = {.steps = kDeviceRingSteps, .step_bytes = kDeviceRingStepBytes};
  }
  return slots_of_devices(kMessageStepBytes, over_links);
}

SlotGeometry Communicator::slots_of_device_pairs() const {
  return slots_of_devices(
      kPairMessageStepBytes,
      {.steps = kDeviceSteps, .step_bytes = is_later_ ? kLaterDeviceStepBytes : kDeviceStepBytes});
}

SlotGeometry Communicator::slots_of_pairs() const {
  if (!runtime_.reports_ends()) return slots_of_device_pairs();
  const std::uint32_t share = std::bit_floor(kPairBytesOfARank / kPairSteps / ranks_);
  return {.steps = kPairSteps,
          .step_bytes = std::min(limits_.step_bytes,
                                 std::clamp(share, kLeastPairStepBytes, kMostPairStepBytes))};
}

// GPUs move a message by several groups at once, each over a channel of its own; a CPU has but one
// worker for all.
void Communicator::choose_spread() {
  pair_ends_.towards = [this](std::uint32_t rank, std::uint32_t channel) -> const PairConnections& {
    return *partner(rank, channel);
  };
  if (runtime_.reports_ends()) {
    const std::uint64_t least = config_.bytes("transports.single_copy");
    if (least != 0) pair_ends_.spread.least_lent_bytes = least;
    return;
  }
  pair_parts_ = std::min(limits_.max_channels, pair_parts_);
  const std::uint32_t share = std::bit_floor(std::max(kPairChannelsOfARank / (ranks_ - 1), 1U));
  const std::uint32_t most = reach_ == Reach::kDeviceMemory ? kMostPairChannels
                             : reach_ == Reach::kMemory     ? kStagedPairChannels
                                                            : kMessageChannels;
  PairSpread& spread = pair_ends_.spread;
  spread = {.channels = std::min(share, most),
            .least_bytes = kLeastPairPartBytes,
            .few_channels = kFewPairChannels,
            .least_bytes_of_many = kLeastPairPartBytesOfMany};
  choose_inbox_exchanges();
  if (reach_ == Reach::kMessages) {
    // A port puts the payload of lines together in a slot.
    spread.most_by_lines_of_net =
        std::min<std::uint64_t>(kMostMessageLineBytes, slots_of_pairs().step_bytes);
    spread.least_bytes = kLeastMessagePartBytes;
    spread.few_channels = few_net_ports(topology_);
    spread.least_bytes_of_many = kLeastPairPartBytes;
    return;
  }
  if (reach_ == Reach::kMemory) {
    spread.few_channels = kFewStagedPairChannels;
    spread.least_bytes_of_many = kLeastStagedPairPartBytesOfMany;
  }
  spread.line_bytes = kPairLineBytes;
  if (reach_ == Reach::kDeviceMemory) {
    spread.line_channels = std::min(share, kMostPairLineChannels);
    spread.least_line_bytes = kLeastPairLinePartBytes;
    if (share >= kMostPairWideChannels && why_lines_come_apart().empty()) {
      spread.most_wide_bytes = kMostPairWideBytes;
      spread.least_wide_part_bytes = kLeastPairWidePartBytes;
      spread.wide_channels = kMostPairWideChannels;
      spread.wide_slots = {.steps = kPairWideSteps, .step_bytes = kPairWideStepBytes};
    }
  }
}

// All-to-alls by wide lines begin where they are faster, or where LL has no room.
void Communicator::choose_inbox_exchanges() {
  InboxExchanges& chosen = inbox_exchanges_;
  chosen.most_by_ll = std::min(limits_.direct_block_bytes, kMostDirectExchangeBytes);
  if (reach_ == Reach::kMemory && !config_.is_set("buffers.direct")) {
    chosen.most_by_ll = std::min(chosen.most_by_ll, kMostStagedExchangeBytes / (ranks_ - 1));
  }
  if (reach_ == Reach::kMessages && !config_.is_set("buffers.direct")) {
    chosen.most_by_ll = std::min(chosen.most_by_ll, kMostMessageExchangeBytes * inbox_stripes());
  }
  if (reach_ == Reach::kMessages) chosen.stripes = inbox_stripes();
  chosen.roots_by_ll = limits_.direct_roots;
  chosen.all_to_alls_by_ll = has(config_, kAllToAllProtocols, protocol_name(Protocol::kLL));
  if (limits_.wide_bytes == 0 ||
      !has(config_, kAllToAllProtocols, protocol_name(Protocol::kLL128))) {
    return;
  }
  chosen.least_wide = chosen.all_to_alls_by_ll
                          ? std::min(least_wide_block(ranks_, costs_), chosen.most_by_ll + 1)
                          : 1;
  chosen.most_wide = kMostWideExchangeBytes / (ranks_ - 1);
}

// An exchange has as many partners as there are other ranks, all ranks know.
void Communicator::choose_exchange_spread() {
  exchange_ends_ = pair_ends_;
  if (runtime_.reports_ends()) return;
  const auto share = [this](std::uint32_t of_a_rank) {
    return std::max(of_a_rank / (ranks_ - 1), 1U);
  };
  PairSpread& spread = exchange_ends_.spread;
  spread.most_wide_bytes = 0;
  spread.channels = std::min(spread.channels, share(kExchangeChannelsOfARank));
  spread.line_channels = std::min(spread.line_channels, share(kExchangeChannelsOfARank));
  if (reach_ == Reach::kMessages) spread.few_channels = share(spread.few_channels);
  if (reach_ != Reach::kDeviceMemory || is_later_ || ranks_ == 2) return;
  std::uint32_t most = kMostExchangeChannelsOfARank;
  if (groups_of_a_rank_ != 0) {
    const std::uint32_t copying = (kCopyingGroupsOfLink + ranks_ - 2) / (ranks_ - 1);
    most = std::min(most, (groups_of_a_rank_ - std::min(groups_of_a_rank_, copying)) / 2);
  }
  spread.channels = std::min(share(most), kMostExchangeChannels);
  spread.first_channel = kExchangeChannel - kPairChannel;
}

// Of two ranks, and of a later communicator, exchanges go over channels of sends.
SlotGeometry Communicator::slots_of_exchanges() const {
  SlotGeometry slots = slots_of_pairs();
  if (exchange_ends_.spread.first_channel == 0) return slots;
  slots.steps = kExchangeSteps;
  return slots;
}

// Of rings by Simple, whose slots are the largest, one way alone where a rank has two neighbours.
// What else there is goes both ways. Of channels that no call takes there is nothing: who writes of
// one asks for memory.
LinkShape Communicator::shape_of(const PairLink& link) const {
  static constexpr LinkShape kNone{.slots = {}, .to = false, .from = false};
  const std::uint32_t channel = link.channel;
  if (link.peer == rank_) return kNone;
  if (is_of_rings(channel)) {
    if (channel >= rings_.size()) return kNone;
    const auto& ring = rings_[channel];
    const std::size_t ranks = ring.size();
    const auto place = static_cast<std::size_t>(std::ranges::find(ring, rank_) - ring.begin());
    return {.slots = {.steps = limits_.steps, .step_bytes = limits_.step_bytes},
            .to = ring[(place + 1) % ranks] == link.peer,
            .from = ring[(place + ranks - 1) % ranks] == link.peer};
  }
  if (is_of_inboxes(channel)) {
    const bool is_one = connections_->direct() != nullptr &&
                        std::ranges::find(inbox_links_, link) != inbox_links_.end();
    return is_one ? LinkShape{.slots = connections_->inbox_slots()} : kNone;
  }
  const auto among = [channel](std::uint32_t first, std::uint32_t count,
                               const SlotGeometry& slots) {
    const bool is_one = channel - first < count && slots.step_bytes != 0;
    return is_one ? LinkShape{.slots = slots} : kNone;
  };
  const PairSpread& spread = pair_ends_.spread;
  if (is_of_pair_lines(channel)) {
    return among(kPairLineChannel, spread.line_bytes == 0 ? 0 : spread.line_channels,
                 {.steps = kPairLineSteps, .step_bytes = kPairLineStepBytes});
  }
  if (is_of_pair_wide_lines(channel)) {
    return among(kPairWideChannel, spread.wide_channels, spread.wide_slots);
  }
  if (is_of_exchanges(channel)) {
    const PairSpread& exchanges = exchange_ends_.spread;
    return among(kExchangeChannel, exchanges.first_channel == 0 ? 0 : exchanges.channels,
                 slots_of_exchanges());
  }
  if (is_of_pairs(channel)) {
    SlotGeometry slots = slots_of_pairs();
    // Parts that are that small go over few channels.
    if (channel - kPairChannel < spread.few_channels) {
      slots.line_payload = static_cast<std::uint32_t>(spread.most_by_lines_of_net);
    }
    return among(kPairChannel, spread.channels, slots);
  }
  const std::uint32_t most = limits_.max_channels;
  if (channel >= kFirstSmallChannel) {
    return among(kFirstSmallChannel, most,
                 {.steps = limits_.small_steps, .step_bytes = limits_.small_step_bytes});
  }
  if (channel >= kFirstLLChannel) {
    return among(channel < kFirstLL128Channel ? kFirstLLChannel : kFirstLL128Channel,
                 limits_.no_lines.empty() ? most : 0,
                 {.steps = limits_.steps, .step_bytes = limits_.line_step_bytes});
  }
  return among(kFirstTreeChannel, most,
               {.steps = limits_.steps, .step_bytes = limits_.tree_step()});
}

Status Communicator::start_pairs() {
  choose_spread();
  choose_exchange_spread();
  inbox_links_ = find_inbox_links();
  WEFT_TRY_ASSIGN(pairs_, PairConnector::start(
                              *connections_, *bootstrap_, context_.reactor(),
                              [this](const PairLink& link) { return shape_of(link); },
                              [this](std::uint32_t peer) { return choice_with(peer); },
                              [failure = failure_](const Error& error) {
                                // Who knows why the partner failed, or how it left, may say so in
                                // a moment. If nobody has when this is told again, it counts.
                                if (may_be_a_consequence(error)) {
                                  failure->suspect(error);
                                  static_cast<void>(failure->known());
                                } else {
                                  failure->establish(error, true);
                                }
                              }));
  return {};
}

}  // namespace weft
