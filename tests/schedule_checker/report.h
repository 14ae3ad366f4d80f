// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What plans and kernels are held to, and what was found against it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::checker {

enum class Rule : std::uint8_t {
  kMissing,       ///< Every rank's contribution is in each result, multiplied where that is due,
  kTwice,         ///< and once; nothing is added to what is finished, nothing multiplied again.
  kWrongElement,  ///< Only what lies at the same place of its block is combined and delivered.
  kOrder,         ///< Contributions are combined in the order that the algorithm promises.
  kAgreement,     ///< Ranks have one plan, and results of the same bits: one expression.
  kDeadlock,      ///< Somebody can always go on until all have ended.
  kOverwritten,   ///< A slot is filled only when it is known to be free.
  kReadTooEarly,  ///< A slot is read only when it is known to be filled.
  kReadTooLate,   ///< Nobody reads a slot that was given back.
  kNotWritten,    ///< The whole output is written; nothing is read that was not.
  kOutside,       ///< Ranks touch what is theirs: their buffers, their ends of connections.
  kTraffic,       ///< Steps and bytes are those that the plan announces.
  kBound,         ///< Hops and bytes meet the algorithm's own bound.
  kKernel,        ///< Kernels end well.
  kAway,          ///< Others write into an output while its rank is in the call, and let them.
};

[[nodiscard]] constexpr std::string_view rule_name(Rule rule) {
  constexpr std::string_view kNames[] = {"missing contribution",
                                         "contribution twice",
                                         "wrong element",
                                         "wrong order",
                                         "ranks disagree",
                                         "deadlock",
                                         "overwritten",
                                         "read too early",
                                         "read too late",
                                         "not written",
                                         "outside",
                                         "traffic",
                                         "bound",
                                         "kernel",
                                         "not in the call"};
  return kNames[static_cast<std::size_t>(rule)];
}

struct Violation {
  Rule rule;
  std::string text;
};

/// The first few violations: what follows the first is often its consequence.
class Report {
 public:
  void add(Rule rule, std::string text) {
    constexpr std::size_t kMost = 8;
    if (violations_.size() < kMost) violations_.push_back({.rule = rule, .text = std::move(text)});
  }
  [[nodiscard]] bool empty() const { return violations_.empty(); }
  [[nodiscard]] const std::vector<Violation>& violations() const { return violations_; }
  [[nodiscard]] bool has(Rule rule) const {
    return std::ranges::find(violations_, rule, &Violation::rule) != violations_.end();
  }
  /// A line for each.
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const Violation& violation : violations_)
      text.append(rule_name(violation.rule)).append(": ").append(violation.text).append("\n");
    return text;
  }

 private:
  std::vector<Violation> violations_;
};

}  // namespace weft::checker
