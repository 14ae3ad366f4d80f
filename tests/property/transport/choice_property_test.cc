// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The choice is a function of what all told: repeated it is the same, from either end it names the
// same plugin, and what it names could be used by both.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/transport/choice.h"
#include "tests/support/sample_topology.h"

namespace weft {
namespace {

const std::vector<std::string> kPlugins = {"p2p", "shm", "net-ib", "net-socket"};

const std::vector<std::vector<std::string>> kPairs = {
    {"same-process"}, {"same-host"},         {"any"}, {"node0"}, {"node0", "node1"},
    {"10.0.0.2/32"},  {"10.0.0.0/30", "any"}};

rc::Gen<std::vector<std::string>> names(bool with_group) {
  std::vector<std::string> known = kPlugins;
  known.emplace_back("net-none");
  if (with_group) known.emplace_back("net");
  return rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(known));
}

PluginKind kind_of(const std::string& id) {
  return id.starts_with("net") ? PluginKind::kNet : PluginKind::kTransport;
}

ChoiceInput any_input(const Topology& topology) {
  ChoiceInput input;
  input.topology = &topology;
  input.order = {.ids = *names(true), .named_by_user = false, .origin = "default"};
  input.nets = {.ids = *names(false), .named_by_user = false, .origin = "default"};
  const auto rules = *rc::gen::inRange(0, 4);
  for (int i = 0; i < rules; ++i) {
    const auto words = *rc::gen::elementOf(kPairs);
    input.rules.push_back(
        {.between = parse_between(words).value(), .use = *names(true), .origin = {}});
  }
  for (std::uint32_t rank = 0; rank < topology.rank_count(); ++rank) {
    input.offers.emplace_back();
    input.answers.emplace_back();
    for (const auto& id : kPlugins) {
      const auto state = *rc::gen::inRange(0, 12);
      if (state == 0) continue;
      input.offers.back().push_back({.id = id,
                                     .version = state == 1 ? "2" : "1",
                                     .kind = kind_of(id),
                                     .unusable = state == 2 ? "broken" : ""});
      if (kind_of(id) == PluginKind::kNet || state == 3) continue;
      for (std::uint32_t peer = 0; peer < topology.rank_count(); ++peer) {
        input.answers.back()[id].push_back(
            {.reachable = *rc::gen::inRange(0, 4) != 0, .reason = id + " says so"});
      }
    }
  }
  return input;
}

bool usable(const ChoiceInput& input, std::uint32_t rank, std::uint32_t peer,
            const PairChoice& choice) {
  const auto offer = std::ranges::find(input.offers[rank], choice.plugin, &PluginOffer::id);
  if (offer == input.offers[rank].end() || !offer->unusable.empty()) return false;
  return choice.kind == PluginKind::kNet ||
         input.answers[rank].find(choice.plugin)->second[peer].reachable;
}

RC_GTEST_PROP(ChoiceProperty, IsOneForBothEndsAndUsable, ()) {
  std::vector<test::Placement> places;
  const auto ranks = *rc::gen::inRange<std::uint32_t>(2, 6);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    places.push_back({.host = *rc::gen::inRange<std::uint32_t>(0, 3),
                      .process = *rc::gen::inRange<std::uint32_t>(0, 2)});
  }
  const Topology topology = test::sample_topology(places);
  const ChoiceInput input = any_input(topology);
  const ChoiceInput copy = input;
  const auto mentioned = *mentioned_plugins(input.order, input.nets, input.rules);
  const PairChooser chooser(input);
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = 0; b < ranks; ++b) {
      if (a == b) continue;
      const auto choice = chooser.choose(a, b);
      const auto again = PairChooser(copy).choose(a, b);
      RC_ASSERT(choice.has_value() == again.has_value());
      if (choice) RC_ASSERT(*choice == *again);
      if (!choice) RC_ASSERT(choice.error().to_string() == again.error().to_string());
      const auto wire = chooser.wire(a, b);
      RC_ASSERT(choice.has_value() == wire.has_value());
      if (wire) {
        RC_ASSERT(choice->kind == wire->kind && choice->device_memory == wire->device_memory);
      }
      const auto turned = PairChooser(input).choose(b, a);
      RC_ASSERT(choice.has_value() == turned.has_value());
      if (!choice) continue;
      RC_ASSERT(choice->plugin == turned->plugin && choice->kind == turned->kind);
      RC_ASSERT(usable(input, a, b, *choice) && usable(input, b, a, *choice));
      RC_ASSERT(std::ranges::find(mentioned, choice->plugin) != mentioned.end());
      // A rule that matches is the only one to decide.
      const auto rule = std::ranges::find_if(input.rules, [&](const Rule& each) {
        return matches(each.between, pair_facts(topology, a, b));
      });
      if (rule == input.rules.end()) continue;
      const auto allowed = *mentioned_plugins(
          {.ids = rule->use, .named_by_user = false, .origin = {}}, input.nets, {});
      RC_ASSERT(std::ranges::find(allowed, choice->plugin) != allowed.end());
    }
  }
}

}  // namespace
}  // namespace weft
