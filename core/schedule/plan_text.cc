// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A plan in words, for `weft explain`.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/model/connection_view.h"
#include "core/schedule/call_text.h"
#include "core/schedule/plan.h"

namespace weft {

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (unit + 1 < std::size(kUnits) && bytes >> (10 * (unit + 1)) != 0)
    ++unit;
  if (unit == 0) return fmt::format("{} B", bytes);
  const std::uint64_t quarter = std::uint64_t{1} << (10 * unit - 2);
  if (bytes % quarter != 0) return fmt::format("{} B", bytes);
  return fmt::format("{} {}", static_cast<double>(bytes) / static_cast<double>(quarter * 4),
                     kUnits[unit]);
}

std::string way_text(const WayOptions& options) {
  std::string text;
  if (options.algorithm) text += fmt::format(" as {}", algorithm_name(*options.algorithm));
  if (options.protocol) text += fmt::format(" with {}", protocol_name(*options.protocol));
  return text;
}

std::string task_text(const Task& task) {
  std::string text = fmt::format("{} of {}: {} x {}", operation_name(task.operation),
                                 size_text(task.bytes()), task.count, data_type_name(task.type));
  if (reduces(task.operation)) text += fmt::format(", {}", reduction_name(task.reduction));
  if (has_root(task.operation)) text += fmt::format(", root {}", task.root);
  if (has_blocks(task.operation)) {
    text += has_uneven_blocks(task.operation) ? ", at most, for each rank" : ", for each rank";
  }
  return text;
}

namespace {

std::string time_text(double us) {
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

/// A line for each rank that has children, from the root down.
std::string tree_text(const Plan& plan, std::size_t channel) {
  std::string text;
  std::vector<std::uint32_t> below;
  for (std::uint32_t rank = 0; rank < plan.ranks; ++rank) {
    if (tree_place(plan, channel, rank).root) below.push_back(rank);
  }
  for (std::size_t next = 0; next < below.size(); ++next) {
    const TreePlace place = tree_place(plan, channel, below[next]);
    if (!place.children.empty()) {
      text += fmt::format("        {} {} -> {}\n", place.root ? "tree" : "    ", below[next],
                          fmt::join(place.children, ", "));
    }
    below.insert(below.end(), place.children.begin(), place.children.end());
  }
  return text;
}

/// What distances mean where the order stands in rows; empty where it does not.
std::string rows_text(const Plan& plan) {
  if (plan.pat_row == 1) return {};
  return fmt::format(
      "        in rows of {0}, each on one host: places are of the row below {0}, and from {0} on "
      "lead\n"
      "        to the same place of other rows\n",
      plan.pat_row);
}

/// Partners, and how the blocks are dealt out to messages.
std::string pat_text(const Plan& plan, const ChannelPlan& channel) {
  const PatRound round = pat_round_of(plan, channel);
  const bool scatters = pat_scatters(pat_operation(plan));
  const bool gathers = pat_gathers(pat_operation(plan));
  std::vector<std::string> levels;
  for (std::uint32_t i = 0; i < round.levels(); ++i) {
    const std::uint32_t level = scatters ? i : round.levels() - 1 - i;
    const std::uint32_t blocks = round.blocks_over(level);
    levels.push_back(fmt::format("{} ({} block{} in {} message{})", 1U << level, blocks,
                                 blocks == 1 ? "" : "s", round.messages_over(level),
                                 round.messages_over(level) == 1 ? "" : "s"));
  }
  const std::uint64_t rounds = pat_rounds(plan, channel);
  return fmt::format(
      "        order {}; each sends to the ranks that are so many places {}\n"
      "        {}{}{}\n{}",
      fmt::join(channel.ring, ", "), scatters ? "behind" : "ahead", fmt::join(levels, ", "),
      scatters && gathers ? ", then back ahead" : "",
      rounds == 1 ? std::string() : fmt::format(", in each of {} rounds", rounds),
      rows_text(plan) + (plan.gathers_inputs
                             ? "        what each brings, and sums up all of it in that order\n"
                             : ""));
}

struct RankTraffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const RankTraffic&, const RankTraffic&) = default;
};

RankTraffic total_traffic(const Plan& plan, std::uint32_t rank) {
  RankTraffic total;
  for (std::size_t channel = 0; channel < plan.channels.size(); ++channel) {
    total.messages += steps_sent(plan, channel, rank);
    total.bytes += bytes_sent(plan, channel, rank);
  }
  return total;
}

/// One line for each run of ranks that send alike.
void append_traffic(const Plan& plan, std::string& text) {
  for (std::uint32_t first = 0; first < plan.ranks;) {
    const RankTraffic traffic = total_traffic(plan, first);
    std::uint32_t last = first;
    while (last + 1 < plan.ranks && total_traffic(plan, last + 1) == traffic)
      ++last;
    const std::string who = first == last ? fmt::format("rank {}", first)
                                          : fmt::format("ranks {}-{}, each", first, last);
    text += fmt::format("  sends       {}: {} messages, {}\n", who, traffic.messages,
                        size_text(traffic.bytes));
    first = last + 1;
  }
}

std::string alternative_text(const Alternative& alternative) {
  if (!alternative.refused.empty()) return "not possible: " + alternative.refused;
  std::string text = time_text(alternative.predicted_us);
  if (alternative.predicted_us != alternative.model_us) {
    text += fmt::format(", by the built-in costs {}", time_text(alternative.model_us));
  }
  if (!alternative.note.empty()) text += "; " + alternative.note;
  return text;
}

/// What lies between ranks.
std::string connection_text(const Plan& plan) {
  switch (plan.algorithm) {
    case Algorithm::kDirect:
      return fmt::format("  inboxes     {} halves of {} from each other rank{}\n", plan.steps,
                         size_text(plan.step_bytes),
                         plan.protocol == Protocol::kLL128 ? ", lines of 128 bytes" : "");
    case Algorithm::kTwoShot:
      return fmt::format("  inboxes     {} halves from each other rank, ranges of {} at most{}\n",
                         plan.steps, size_text(plan.step_bytes),
                         plan.protocol == Protocol::kLL128 ? ", lines of 128 bytes" : "");
    case Algorithm::kMulticast:
      return fmt::format("  multicast   ranges of {} at most, combined and stored by a switch\n",
                         size_text(plan.step_bytes));
    case Algorithm::kTree:
    case Algorithm::kPat:
    case Algorithm::kChain:
      if (plan.channels.empty()) break;
      return fmt::format("  connection  {} steps of {}, chunks of {}\n", plan.steps,
                         size_text(plan.step_bytes),
                         size_text(plan.channels[0].chunk * element_size(plan.task.type)));
    case Algorithm::kRing:
    case Algorithm::kPair:
    case Algorithm::kCopy:
      break;
  }
  return fmt::format("  connection  {} steps of {}, chunks of {} {}\n", plan.steps,
                     size_text(plan.step_bytes), plan.chunk_steps,
                     plan.chunk_steps == 1 ? "step" : "steps");
}

std::string direct_text(const Task& task, const ChannelPlan& channel) {
  const std::string ranks = fmt::format("{}", fmt::join(channel.ring, ", "));
  if (!has_root(task.operation)) {
    return fmt::format("        each of the ranks {} writes to all others\n", ranks);
  }
  if (task.operation == Operation::kReduce) {
    return fmt::format("        of the ranks {} all others write to rank {}\n", ranks, task.root);
  }
  return fmt::format("        rank {} writes to all others of the ranks {}\n", task.root, ranks);
}

std::string multicast_text(const Task& task, const ChannelPlan& channel) {
  const char* const what = task.operation == Operation::kAllGather
                               ? "stores its block to all at once"
                           : task.operation == Operation::kReduceScatter
                               ? "loads its block, combined over all"
                               : "loads a range, combined over all, and stores it to all at once";
  return fmt::format("        each of the ranks {} {}\n", fmt::join(channel.ring, ", "), what);
}

/// Which way a channel's elements go.
std::string way_text(const Plan& plan, const ChannelPlan& channel) {
  switch (plan.algorithm) {
    case Algorithm::kDirect:
      return direct_text(plan.task, channel);
    case Algorithm::kTwoShot:
      return fmt::format(
          "        each of the ranks {} reduces a range and writes it to all others\n",
          fmt::join(channel.ring, ", "));
    case Algorithm::kMulticast:
      return multicast_text(plan.task, channel);
    case Algorithm::kTree:
      return tree_text(plan, channel.index);
    case Algorithm::kPat:
      return pat_text(plan, channel);
    case Algorithm::kChain:
      return fmt::format("        chain {} -> {}, and back down\n", channel.ring.front(),
                         fmt::join(channel.ring | std::views::drop(1), " -> "));
    case Algorithm::kRing:
    case Algorithm::kPair:
    case Algorithm::kCopy:
      break;
  }
  const auto same = std::ranges::find_if(
      plan.channels, [&](const ChannelPlan& other) { return other.ring == channel.ring; });
  if (same->index != channel.index) return fmt::format("        ring as channel {}\n", same->index);
  return fmt::format("        ring {} -> {}\n", fmt::join(channel.ring, " -> "),
                     channel.ring.front());
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("{}, {} ranks\n", task_text(plan.task), plan.ranks);
  text += fmt::format("  algorithm   {}\n", algorithm_name(plan.algorithm));
  text += fmt::format("  protocol    {}\n", protocol_name(plan.protocol));
  if (plan.by_rank) text += "  order       by rank number, from rank 0 on: deterministic\n";
  const std::uint64_t element_bytes = element_size(plan.task.type);
  text += connection_text(plan);
  if (plan.into_outputs) {
    text +=
        "  outputs     written by other ranks where all can, else by slots: seen in each call\n";
    if (plan.are_outputs_mapped) {
      text +=
          "              by other processes once they have mapped them: of memory that was mapped\n"
          "              to be exported by descriptors; of any other, or captured, by slots\n";
    }
  } else if (!plan.no_outputs.empty()) {
    text += fmt::format("  outputs     not written by other ranks: {}\n", plan.no_outputs);
  }
  if (plan.both_ends) {
    text += fmt::format("  slots       {} steps by turns at the receiver and at the sender\n",
                        kStepsOfTurn);
  }
  text += fmt::format("  channels    {}\n", plan.channels.size());
  for (const ChannelPlan& channel : plan.channels) {
    text +=
        fmt::format("    {:<2}  elements {} to {} ({})\n", channel.index, channel.offset,
                    channel.offset + channel.count - 1, size_text(channel.count * element_bytes));
    text += way_text(plan, channel);
  }
  if (!plan.channels.empty()) append_traffic(plan, text);
  text += fmt::format("  predicted   {}\n", time_text(plan.predicted_us));
  text += fmt::format("  reason      {}\n", plan.reason);
  text += "  considered\n";
  for (const Alternative& alternative : plan.alternatives) {
    text += fmt::format("    {}, {}: {}\n", alternative.algorithm, alternative.protocol,
                        alternative_text(alternative));
  }
  return text;
}

}  // namespace weft
