// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/choice.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace weft {
namespace {

constexpr std::string_view kNetGroup = "net";
constexpr std::string_view kNets = "transports.net";

void append_once(std::vector<std::string>& list, const std::string& id) {
  if (std::ranges::find(list, id) == list.end()) list.push_back(id);
}

/// `ids` with "net" replaced by the nets.
std::vector<std::string> expand(const std::vector<std::string>& ids,
                                const std::vector<std::string>& nets) {
  std::vector<std::string> expanded;
  for (const auto& id : ids) {
    if (id == kNetGroup) {
      for (const auto& net : nets)
        append_once(expanded, net);
    } else {
      append_once(expanded, id);
    }
  }
  return expanded;
}

const PluginOffer* find_offer(const ChoiceInput& input, std::uint32_t rank, std::string_view id) {
  const auto& offers = input.offers[rank];
  const auto found = std::ranges::find(offers, id, &PluginOffer::id);
  return found == offers.end() ? nullptr : &*found;
}

std::string describe_rank(const Topology& topology, std::uint32_t rank) {
  return fmt::format("rank {} on {}", rank, topology.hosts[topology.ranks[rank].host].host_name);
}

std::string_view kind_name(PluginKind kind) {
  return kind == PluginKind::kNet ? "net" : "transport";
}

RankFacts facts_of(const Topology& topology, std::uint32_t rank) {
  const HostInfo& host = topology.hosts[topology.ranks[rank].host];
  RankFacts facts{.host = host.host_name, .addresses = {}};
  for (const auto& nic : host.nics) {
    for (const auto& text : nic.addresses) {
      // Addresses were reported by the peer: one that does not parse is of no use to a rule.
      if (auto address = parse_address(text)) facts.addresses.push_back(*address);
    }
  }
  return facts;
}

bool reaches(const ReachAnswers* answers, std::uint32_t peer) {
  return answers != nullptr && peer < answers->size() && (*answers)[peer].reachable;
}

std::string refusal(const ReachAnswers* answers, std::uint32_t rank, std::uint32_t peer) {
  if (answers == nullptr || peer >= answers->size()) {
    return fmt::format("rank {} gave no answer on rank {}", rank, peer);
  }
  return fmt::format("rank {} says: {}", rank, (*answers)[peer].reason);
}

PairFacts facts_of(const Topology& topology, std::uint32_t a, RankFacts of_a, std::uint32_t b,
                   RankFacts of_b) {
  return {.same_process = topology.same_process(a, b),
          .same_host = topology.same_host(a, b),
          .same_fabric = topology.same_fabric(a, b),
          .a = std::move(of_a),
          .b = std::move(of_b)};
}

Status check_list(const ChoiceInput& input, const std::vector<std::string>& ids,
                  std::string_view key, std::string_view origin) {
  for (const auto& id : ids) {
    // In transports.net itself it stands for nothing: there it would be a plugin's name.
    if (id == kNetGroup && key != kNets) continue;
    for (std::uint32_t rank = 0; rank < input.topology->rank_count(); ++rank) {
      const PluginOffer* offer = find_offer(input, rank, id);
      if (offer != nullptr && offer->unusable.empty()) continue;
      return fail(
          WEFT_ERROR_CONFIG,
          fmt::format("{} ({}) names plugin \"{}\", which {} cannot use: {}", key, origin, id,
                      describe_rank(*input.topology, rank),
                      offer == nullptr ? std::string("it is not known there") : offer->unusable),
          "make the plugin usable there, or take it out of the list");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> mentioned_plugins(const NamedList& order, const NamedList& nets,
                                                   const std::vector<Rule>& rules) {
  std::vector<std::string> ids;
  const auto mention = [&](const std::vector<std::string>& list) {
    for (const auto& id : expand(list, nets.ids))
      append_once(ids, id);
  };
  mention(order.ids);
  for (const auto& rule : rules)
    mention(rule.use);
  if (ids.size() > kMaxPlugins) {
    return fail(
        WEFT_ERROR_CONFIG,
        fmt::format("transports.order ({}), transports.net ({}) and transports.rules name {} "
                    "plugins, more than the {} that are possible",
                    order.origin, nets.origin, ids.size(), kMaxPlugins),
        "name only the plugins that the job needs");
  }
  return ids;
}

Status check_named_plugins(const ChoiceInput& input) {
  if (input.order.named_by_user) {
    WEFT_TRY(check_list(input, input.order.ids, "transports.order", input.order.origin));
  }
  if (input.nets.named_by_user) {
    // The list counts only where something refers to it.
    const bool used = std::ranges::find(input.order.ids, kNetGroup) != input.order.ids.end() ||
                      std::ranges::any_of(input.rules, [](const Rule& rule) {
                        return std::ranges::find(rule.use, kNetGroup) != rule.use.end();
                      });
    if (used) WEFT_TRY(check_list(input, input.nets.ids, kNets, input.nets.origin));
  }
  for (const auto& rule : input.rules) {
    WEFT_TRY(check_list(input, rule.use, "a rule of transports.rules", rule.origin.to_string()));
  }
  return {};
}

ReachAnswers::ReachAnswers(std::initializer_list<ReachAnswer> by_rank) {
  for (const ReachAnswer& answer : by_rank)
    push_back(answer);
}

ReachAnswers::ReachAnswers(std::vector<ReachAnswer> distinct, std::vector<std::uint32_t> of_rank)
    : distinct_(std::move(distinct)), of_rank_(std::move(of_rank)) {}

void ReachAnswers::push_back(const ReachAnswer& answer) {
  // Neighbours are often alike.
  if (!of_rank_.empty() && distinct_[of_rank_.back()] == answer) {
    of_rank_.push_back(of_rank_.back());
    return;
  }
  const auto found = std::ranges::find(distinct_, answer);
  of_rank_.push_back(static_cast<std::uint32_t>(found - distinct_.begin()));
  if (found == distinct_.end()) distinct_.push_back(answer);
}

PairChooser::PairChooser(const ChoiceInput& input) : input_(input) {
  by_order_ = candidates(nullptr, input.order.ids);
  for (const Rule& rule : input.rules)
    by_rule_.push_back(candidates(&rule, rule.use));
  const std::uint32_t ranks = input.topology->rank_count();
  for (const std::string& id : ids_) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto answers = input.answers[rank].find(id);
      seats_.push_back(
          {.offer = find_offer(input, rank, id),
           .answers = answers == input.answers[rank].end() ? nullptr : &answers->second});
    }
  }
  for (std::uint32_t rank = 0; rank < ranks && !by_rule_.empty(); ++rank)
    facts_.push_back(facts_of(*input.topology, rank));
}

PairChooser::Candidates PairChooser::candidates(const Rule* rule,
                                                const std::vector<std::string>& ids) {
  Candidates candidates{.rule = rule, .ids = {}};
  for (const std::string& id : expand(ids, input_.nets.ids)) {
    append_once(ids_, id);
    candidates.ids.push_back(static_cast<std::size_t>(std::ranges::find(ids_, id) - ids_.begin()));
  }
  return candidates;
}

const PairChooser::Candidates& PairChooser::candidates_of(std::uint32_t a, std::uint32_t b) const {
  if (by_rule_.empty()) return by_order_;
  const PairFacts facts = facts_of(*input_.topology, a, facts_[a], b, facts_[b]);
  const auto found = std::ranges::find_if(by_rule_, [&](const Candidates& candidates) {
    return matches(candidates.rule->between, facts);
  });
  return found == by_rule_.end() ? by_order_ : *found;
}

/// What one plugin can do for the pair; `reason`, unless null, is told why, or why it can't.
std::optional<PairWire> PairChooser::judge(std::size_t id, std::uint32_t a, std::uint32_t b,
                                           std::string* reason) const {
  const auto say = [&](auto text) {
    if (reason != nullptr) *reason = text();
    return std::nullopt;
  };
  const Seat* seats = &seats_[id * input_.topology->rank_count()];
  for (const std::uint32_t rank : {a, b}) {
    const PluginOffer* offer = seats[rank].offer;
    if (offer == nullptr) return say([&] { return fmt::format("rank {} does not know it", rank); });
    if (!offer->unusable.empty()) {
      return say([&] { return fmt::format("unusable on rank {}: {}", rank, offer->unusable); });
    }
  }
  const PluginOffer& at_a = *seats[a].offer;
  const PluginOffer& at_b = *seats[b].offer;
  if (at_a.version != at_b.version) {
    return say([&] {
      return fmt::format("version {} on rank {} and {} on rank {}", at_a.version, a, at_b.version,
                         b);
    });
  }
  if (at_a.kind != at_b.kind) {
    // Each rank tells for itself, and whoever has no such net cannot connect one.
    return say([&] {
      return fmt::format("it is a {} on rank {} and a {} on rank {}", kind_name(at_a.kind), a,
                         kind_name(at_b.kind), b);
    });
  }
  if (at_a.kind == PluginKind::kNet) {
    say([] { return "both ranks have a device"; });
    return PairWire{.kind = PluginKind::kNet};
  }
  for (const std::uint32_t rank : {a, b}) {
    const std::uint32_t peer = rank == a ? b : a;
    const ReachAnswers* answers = seats[rank].answers;
    if (!reaches(answers, peer)) return say([&] { return refusal(answers, rank, peer); });
  }
  const ReachAnswer& first = (*seats[a].answers)[b];
  const ReachAnswer& second = (*seats[b].answers)[a];
  say([&] { return first.reason; });
  return PairWire{.kind = PluginKind::kTransport,
                  .device_memory = first.device_memory && second.device_memory,
                  .single_copy = first.single_copy && second.single_copy};
}

std::optional<PairWire> PairChooser::wire(std::uint32_t a, std::uint32_t b) const {
  for (const std::size_t id : candidates_of(a, b).ids) {
    if (const auto wire = judge(id, a, b, nullptr)) return wire;
  }
  return std::nullopt;
}

Result<PairChoice> PairChooser::choose(std::uint32_t a, std::uint32_t b) const {
  const Candidates& candidates = candidates_of(a, b);
  const Rule* rule = candidates.rule;
  const std::string named_by =
      rule != nullptr ? fmt::format("rule {} ({})", rule->to_string(), rule->origin.to_string())
                      : fmt::format("transports.order ({})", input_.order.origin);

  std::string refusals;
  std::string passed_over;
  for (const std::size_t index : candidates.ids) {
    const std::string& id = ids_[index];
    std::string reason;
    if (const auto wire = judge(index, a, b, &reason)) {
      return PairChoice{.plugin = id,
                        .kind = wire->kind,
                        .device_memory = wire->device_memory,
                        .single_copy = wire->single_copy,
                        .reason = fmt::format("{}; first that can of {}{}", reason, named_by,
                                              passed_over.empty() ? "" : ", after " + passed_over)};
    }
    refusals += fmt::format("\n  {}: {}", id, reason);
    passed_over += (passed_over.empty() ? "" : ", ") + id;
  }
  return fail(WEFT_ERROR_CONFIG,
              fmt::format("{} and {} cannot be joined: {} allows none that can:{}",
                          describe_rank(*input_.topology, a), describe_rank(*input_.topology, b),
                          named_by, refusals),
              rule != nullptr ? "add a plugin that can to the rule's list, or remove the rule"
                              : "add a transport that can to transports.order");
}

PairFacts pair_facts(const Topology& topology, std::uint32_t a, std::uint32_t b) {
  return facts_of(topology, a, facts_of(topology, a), b, facts_of(topology, b));
}

}  // namespace weft
