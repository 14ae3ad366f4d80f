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

/// What one plugin could do for the pair.
struct Verdict {
  bool possible = false;
  PluginKind kind = PluginKind::kTransport;
  bool device_memory = false;
  std::string reason;
};

Verdict judge(const ChoiceInput& input, const std::string& id, std::uint32_t a, std::uint32_t b) {
  for (const std::uint32_t rank : {a, b}) {
    const PluginOffer* offer = find_offer(input, rank, id);
    if (offer == nullptr) return {.reason = fmt::format("rank {} does not know it", rank)};
    if (!offer->unusable.empty()) {
      return {.reason = fmt::format("unusable on rank {}: {}", rank, offer->unusable)};
    }
  }
  const PluginOffer& at_a = *find_offer(input, a, id);
  const PluginOffer& at_b = *find_offer(input, b, id);
  if (at_a.version != at_b.version) {
    return {.reason = fmt::format("version {} on rank {} and {} on rank {}", at_a.version, a,
                                  at_b.version, b)};
  }
  if (at_a.kind != at_b.kind) {
    // Each rank tells for itself, and whoever has no such net cannot connect one.
    return {.reason = fmt::format("it is a {} on rank {} and a {} on rank {}", kind_name(at_a.kind),
                                  a, kind_name(at_b.kind), b)};
  }
  if (at_a.kind == PluginKind::kNet) {
    return {.possible = true, .kind = PluginKind::kNet, .reason = "both ranks have a device"};
  }
  for (const auto& [rank, peer] : {std::pair(a, b), std::pair(b, a)}) {
    const auto answers = input.answers[rank].find(id);
    if (answers == input.answers[rank].end() || peer >= answers->second.size()) {
      return {.reason = fmt::format("rank {} gave no answer on rank {}", rank, peer)};
    }
    const ReachAnswer& answer = answers->second[peer];
    if (!answer.reachable) {
      return {.reason = fmt::format("rank {} says: {}", rank, answer.reason)};
    }
  }
  const ReachAnswer& first = input.answers[a].find(id)->second[b];
  const ReachAnswer& second = input.answers[b].find(id)->second[a];
  return {.possible = true,
          .kind = PluginKind::kTransport,
          .device_memory = first.device_memory && second.device_memory,
          .reason = first.reason};
}

Status check_list(const ChoiceInput& input, const std::vector<std::string>& ids,
                  std::string_view key, std::string_view origin) {
  for (const auto& id : ids) {
    if (id == kNetGroup) continue;
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
    if (used) WEFT_TRY(check_list(input, input.nets.ids, "transports.net", input.nets.origin));
  }
  for (const auto& rule : input.rules) {
    WEFT_TRY(check_list(input, rule.use, "a rule of transports.rules", rule.origin.to_string()));
  }
  return {};
}

PairFacts pair_facts(const Topology& topology, std::uint32_t a, std::uint32_t b) {
  const auto facts_of = [&](std::uint32_t rank) {
    const HostInfo& host = topology.hosts[topology.ranks[rank].host];
    RankFacts facts{.host = host.host_name, .addresses = {}};
    for (const auto& nic : host.nics) {
      for (const auto& text : nic.addresses) {
        // Addresses were reported by the peer: one that does not parse is of no use to a rule.
        if (auto address = parse_address(text)) facts.addresses.push_back(*address);
      }
    }
    return facts;
  };
  return {.same_process = topology.same_process(a, b),
          .same_host = topology.same_host(a, b),
          // Until a memory fabric joins hosts, a fabric is one host.
          .same_fabric = topology.same_host(a, b),
          .a = facts_of(a),
          .b = facts_of(b)};
}

Result<PairChoice> choose_pair(const ChoiceInput& input, std::uint32_t a, std::uint32_t b) {
  const PairFacts facts = pair_facts(*input.topology, a, b);
  const auto rule = std::ranges::find_if(
      input.rules, [&](const Rule& candidate) { return matches(candidate.between, facts); });
  const bool by_rule = rule != input.rules.end();
  const std::string named_by =
      by_rule ? fmt::format("rule {} ({})", rule->to_string(), rule->origin.to_string())
              : fmt::format("transports.order ({})", input.order.origin);

  std::string refusals;
  std::string passed_over;
  for (const auto& id : expand(by_rule ? rule->use : input.order.ids, input.nets.ids)) {
    const Verdict verdict = judge(input, id, a, b);
    if (verdict.possible) {
      return PairChoice{
          .plugin = id,
          .kind = verdict.kind,
          .device_memory = verdict.device_memory,
          .reason = fmt::format("{}; first that can of {}{}", verdict.reason, named_by,
                                passed_over.empty() ? "" : ", after " + passed_over)};
    }
    refusals += fmt::format("\n  {}: {}", id, verdict.reason);
    passed_over += (passed_over.empty() ? "" : ", ") + id;
  }
  return fail(WEFT_ERROR_CONFIG,
              fmt::format("{} and {} cannot be joined: {} allows none that can:{}",
                          describe_rank(*input.topology, a), describe_rank(*input.topology, b),
                          named_by, refusals),
              by_rule ? "add a plugin that can to the rule's list, or remove the rule"
                      : "add a transport that can to transports.order");
}

}  // namespace weft
