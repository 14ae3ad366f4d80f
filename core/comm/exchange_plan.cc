// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/exchange_plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "core/comm/exchange.h"
#include "core/model/direct_peers.h"
#include "core/model/inbox_message.h"
#include "core/model/step_lines.h"
#include "core/schedule/call_text.h"

namespace weft {
namespace {

// More are told by their number.
constexpr std::size_t kMostRoundsTold = 16;
constexpr std::size_t kMostBlocksTold = 16;

/// Where blocks differ they have no size in common.
std::string call_text(const ExchangePlan& plan) {
  if (joins_pair(plan.task.operation)) {
    return task_text(plan.task) + ", one of each rank";
  }
  if (plan.task.operation != Operation::kAllToAllV) return task_text(plan.task);
  std::uint64_t most = 0;
  for (const ExchangeBlock& block : plan.blocks)
    most = std::max(most, block.bytes);
  return fmt::format("{} of {}: blocks of {} at most", operation_name(plan.task.operation),
                     data_type_name(plan.task.type), size_text(most));
}

std::string blocks_text(std::span<const ExchangeBlock> round) {
  const bool alike = std::ranges::all_of(
      round, [&](const ExchangeBlock& block) { return block.bytes == round.front().bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(round.size(), kMostBlocksTold); ++i) {
    text += fmt::format("{}{} -> {}", i == 0 ? "" : ", ", round[i].from, round[i].to);
    if (!alike) text += fmt::format(" ({})", size_text(round[i].bytes));
  }
  if (round.size() > kMostBlocksTold)
    text += fmt::format(", {} more", round.size() - kMostBlocksTold);
  if (alike) {
    text += fmt::format(": {}{}", size_text(round.front().bytes), round.size() > 1 ? " each" : "");
  }
  return text;
}

/// A line for each run of ranks that are alike, of those for which `line_of` says anything.
template <class LineOf>
void append_by_rank(std::uint32_t ranks, std::string_view what, const LineOf& line_of,
                    std::string& text) {
  for (std::uint32_t first = 0; first < ranks;) {
    const std::string line = line_of(first);
    std::uint32_t last = first;
    while (last + 1 < ranks && line_of(last + 1) == line)
      ++last;
    if (!line.empty()) {
      const std::string who = first == last ? fmt::format("rank {}", first)
                                            : fmt::format("ranks {}-{}, each", first, last);
      text += fmt::format("  {:<11} {}: {}\n", what, who, line);
    }
    first = last + 1;
  }
}

void append_rounds(const ExchangePlan& plan, std::string& text) {
  std::size_t told = 0;
  std::set<std::uint32_t> rounds;
  for (const ExchangeBlock& block : plan.blocks)
    rounds.insert(block.round);
  text += fmt::format("  rounds      {}, the order in which a rank looks at its partners\n",
                      rounds.size());
  for (auto first = plan.blocks.begin(); first != plan.blocks.end();) {
    const auto last = std::find_if(first, plan.blocks.end(), [&](const ExchangeBlock& block) {
      return block.round != first->round;
    });
    if (told++ == kMostRoundsTold) {
      text += fmt::format("    ...  {} more\n", rounds.size() - kMostRoundsTold);
      return;
    }
    text += fmt::format("    {:<3} {}\n", first->round, blocks_text({first, last}));
    first = last;
  }
}

void append_host_way(const ExchangePlan& plan, std::string& text) {
  text += fmt::format("  algorithm   {}\n", algorithm_name(Algorithm::kPair));
  text += fmt::format("  protocol    {}\n", protocol_name(Protocol::kSimple));
  text += fmt::format("  connection  {} steps of {}, one each way between two ranks\n",
                      plan.slots.steps, size_text(plan.slots.step_bytes));
  text += "  channels    1\n";
  const auto lent = std::ranges::count_if(plan.blocks, &ExchangeBlock::lent);
  if (lent == 0) return;
  text += fmt::format("  single copy {} of {} blocks, read from the sender's memory, {} a step\n",
                      lent, plan.blocks.size(), size_text(kLentStepBytes));
}

void append_device_way(const ExchangePlan& plan, std::string& text) {
  const auto inbox_lines = inbox_protocol(plan.task, plan.ways.inboxes);
  text += fmt::format("  algorithm   {}\n",
                      algorithm_name(inbox_lines ? Algorithm::kDirect : Algorithm::kPair));
  std::uint64_t longest = 0;
  for (const ExchangeBlock& block : plan.blocks)
    longest = std::max(longest, block.bytes);
  const PairCut cut = longest == 0 ? PairCut{} : cut_message(longest, plan.ways.spread);
  const bool lines = cut.goes_by_lines();
  const bool wide_lines = cut.goes_by_wide_lines();
  const Protocol of_pairs = lines        ? Protocol::kLL
                            : wide_lines ? Protocol::kLL128
                                         : Protocol::kSimple;
  text += fmt::format("  protocol    {}\n", protocol_name(inbox_lines.value_or(of_pairs)));
  if (inbox_lines) {
    const InboxExchanges& sizes = plan.ways.inboxes;
    const bool wide = *inbox_lines == Protocol::kLL128;
    text += fmt::format(
        "  inboxes     each rank writes its blocks, of up to {}, into the others'{}\n",
        size_text(wide ? sizes.most_wide : sizes.most_by_ll), wide ? ", lines of 128 bytes" : "");
    const auto lines_of_longest = static_cast<std::uint32_t>(direct_lines(longest) - 1);
    const std::uint32_t stripes = wide ? 1 : stripes_of(lines_of_longest, sizes.stripes);
    if (stripes > 1) {
      text += fmt::format(
          "  over a net  the longest block in {} stripes, each by a port of its own\n", stripes);
    }
    return;
  }
  if (lines) {
    text += fmt::format("  lines       messages of up to {} go whole with their flags{}\n",
                        size_text(plan.ways.spread.line_bytes * plan.ways.spread.line_channels),
                        cut.line_channels < 2
                            ? std::string()
                            : fmt::format(", the longest over {} channels", cut.line_channels));
    return;
  }
  const SlotGeometry& slots = wide_lines ? plan.ways.spread.wide_slots : plan.slots;
  text += fmt::format(
      "  connection  {} steps of {}{} on each channel, each way between two ranks\n", slots.steps,
      size_text(slots.step_bytes), wide_lines ? ", lines of 128 bytes," : "");
  text += fmt::format("  channels    {} of the longest block, {} each{}\n", cut.channels,
                      size_text(cut.part_bytes),
                      cut.line_channels != 0 ? ", and one of lines for headers" : "");
  const std::uint64_t small = plan.ways.spread.most_by_lines_of_net;
  if (small == 0) return;
  text += fmt::format("  over a net  parts of up to {} by lines, which its ports take and store\n",
                      size_text(small));
}

void append_launches(const ExchangePlan& plan, std::string& text) {
  append_by_rank(
      plan.ranks, "launches", [&](std::uint32_t rank) { return launch_text(plan.launches[rank]); },
      text);
  if (plan.ways.window_bytes != 0) {
    text += fmt::format(
        "  windows     an output of {} or more that lies in one is written by copy engines\n",
        size_text(plan.ways.window_bytes));
  }
}

void append_reason(const ExchangePlan& plan, std::string& text) {
  if (!plan.launches.empty() && plan.goes_by_inboxes()) {
    text +=
        "  reason      nothing is combined, and blocks so small are there soonest when they are\n"
        "              written, with flags in each line, where the other rank looks for them\n";
    return;
  }
  text +=
      "  reason      nothing is combined, so each block goes straight to the rank that it is "
      "for;\n"
      "              whichever can move does, in steps, and no rank waits for a round to end\n";
  if (!plan.launches.empty()) return;
  text += fmt::format("  considered\n    {}, {}: the only way\n", algorithm_name(Algorithm::kPair),
                      protocol_name(Protocol::kSimple));
}

/// Steps of connections that a block of `bytes` takes, on all its channels, headers aside.
std::uint64_t messages_of(std::uint64_t bytes, const SlotGeometry& slots,
                          const PairSpread& spread) {
  const PairCut cut = cut_message(bytes, spread);
  if (cut.goes_by_lines()) return cut.line_channels;
  const std::uint64_t most = cut.goes_by_wide_lines()
                                 ? step_payload(Protocol::kLL128, spread.wide_slots.step_bytes)
                                 : slots.step_bytes;
  const auto steps = [&](std::uint64_t part) { return (part + most - 1) / most; };
  if (cut.channels < 2) return std::max<std::uint64_t>(steps(bytes), 1);
  const std::uint64_t last = bytes - (cut.channels - 1) * cut.part_bytes;
  return (cut.channels - 1) * steps(cut.part_bytes) + steps(last);
}

}  // namespace

bool ExchangePlan::goes_by_inboxes() const {
  return inbox_protocol(task, ways.inboxes).has_value();
}

std::uint32_t pair_ends_of(const ExchangePlan& plan, std::uint32_t rank) {
  const auto channels = [&](std::uint64_t bytes, bool lines) {
    if (bytes == 0) return 0U;
    PairSpread spread = plan.ways.spread;
    if (!lines) spread.line_bytes = spread.most_wide_bytes = 0;
    const PairCut cut = cut_message(bytes, spread);
    return cut.channels + cut.line_channels;
  };
  std::uint32_t ends = channels(plan.copied[rank], false);
  for (const ExchangeBlock& block : plan.blocks) {
    if (block.from == rank || block.to == rank) ends += channels(block.bytes, true);
  }
  return ends;
}

ExchangePlan plan_exchange(std::span<const Call> calls, const SlotGeometry& slots,
                           const ExchangeWays& ways, const ReadsPeer& reads) {
  const auto ranks = static_cast<std::uint32_t>(calls.size());
  ExchangePlan plan{.task = calls.front().task,
                    .ranks = ranks,
                    .slots = slots,
                    .blocks = {},
                    .copied = std::vector<std::uint64_t>(ranks),
                    .ways = ways,
                    .launches = {}};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t element = element_size(plan.task.type);
    for_each_block(calls[rank], rank, ranks,
                   [&](std::uint32_t round, std::uint32_t to, const Block& block, bool sends) {
                     if (!sends) return;
                     const std::uint64_t bytes = block.count * element;
                     const bool lent =
                         bytes >= ways.spread.least_lent_bytes && reads && reads(rank, to);
                     SlotGeometry steps = slots;
                     if (lent) steps.step_bytes = kLentStepBytes;
                     plan.blocks.push_back({.round = round,
                                            .from = rank,
                                            .to = to,
                                            .bytes = bytes,
                                            .messages = messages_of(bytes, steps, ways.spread),
                                            .lent = lent});
                   });
    plan.copied[rank] = block_sent(calls[rank], rank, rank).count * element;
  }
  std::ranges::stable_sort(plan.blocks, {}, &ExchangeBlock::round);
  return plan;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> joined_pairs(const ExchangePlan& plan) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const ExchangeBlock& block : plan.blocks)
    pairs.emplace(std::minmax(block.from, block.to));
  return {pairs.begin(), pairs.end()};
}

std::string launch_text(const LaunchShape& shape) {
  if (shape.groups == 0) return {};
  return fmt::format("{} {} of {} threads, on a device of {} multiprocessors", shape.groups,
                     shape.groups == 1 ? "CTA" : "CTAs", shape.lanes, shape.processors);
}

std::string to_text(const ExchangePlan& plan) {
  struct Sent {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Sent> sent(plan.ranks);
  for (const ExchangeBlock& block : plan.blocks) {
    sent[block.from].messages += block.messages;
    sent[block.from].bytes += block.bytes;
  }
  std::string text = fmt::format("{}, {} ranks\n", call_text(plan), plan.ranks);
  if (plan.launches.empty()) {
    append_host_way(plan, text);
  } else {
    append_device_way(plan, text);
  }
  append_rounds(plan, text);
  if (!plan.goes_by_inboxes()) {
    append_by_rank(
        plan.ranks, "sends",
        [&](std::uint32_t rank) {
          if (sent[rank].messages == 0) return std::string();
          return fmt::format("{} {}, {}", sent[rank].messages,
                             sent[rank].messages == 1 ? "message" : "messages",
                             size_text(sent[rank].bytes));
        },
        text);
  }
  append_by_rank(
      plan.ranks, "copies",
      [&](std::uint32_t rank) {
        return plan.copied[rank] == 0 ? std::string() : size_text(plan.copied[rank]) + " to itself";
      },
      text);
  if (!plan.launches.empty()) append_launches(plan, text);
  append_reason(plan, text);
  return text;
}

}  // namespace weft
