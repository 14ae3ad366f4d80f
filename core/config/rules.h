// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Rules of `transports.rules`: which pairs of ranks one speaks of, and which plugins may then carry
// them. Typed values and pure functions; choosing a transport by them is not done here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "core/config/network.h"
#include "core/config/origin.h"

namespace weft {

/// Any end of a pair.
struct AnyEnd {
  friend bool operator==(const AnyEnd&, const AnyEnd&) = default;
};

/// The host of that name (ASCII letters compare without case; kept in lower case).
struct HostName {
  std::string name;
  friend bool operator==(const HostName&, const HostName&) = default;
};

/// One end of a pair: everything, one host, or the hosts with an address in a network.
using RuleEnd = std::variant<AnyEnd, HostName, Network>;

enum class RuleScope : std::uint8_t { kSameProcess, kSameHost, kSameFabric, kEnds };

/// The pairs that a rule speaks of. With kEnds one rank of the pair must be `first` and the other
/// `second`, whichever way round; a rule that names one end has it in both.
struct Between {
  RuleScope scope = RuleScope::kEnds;
  RuleEnd first;
  RuleEnd second;

  /// As in the file: `same-host`, `any`, `10.0.0.0/24`, `[node1, any]`.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Between&, const Between&) = default;
};

/// One rule. Its list is exhaustive: no other plugin may carry a pair that it decides.
struct Rule {
  Between between;
  std::vector<std::string> use;  ///< Plugins, best first; never empty.
  Origin origin;

  /// As in the file: `{between: same-host, use: [shm]}`.
  [[nodiscard]] std::string to_string() const;

  /// Rules are equal that say the same, wherever they stand.
  friend bool operator==(const Rule& a, const Rule& b) {
    return a.between == b.between && a.use == b.use;
  }
};

/// What is known of one rank of a pair.
struct RankFacts {
  std::string host;
  std::vector<IpAddress> addresses;
};

/// What is known of a pair of ranks, the same on whichever rank asks.
struct PairFacts {
  bool same_process = false;
  bool same_host = false;
  bool same_fabric = false;
  RankFacts a;
  RankFacts b;
};

/// Whether the pair is one of those that `between` speaks of.
[[nodiscard]] bool matches(const Between& between, const PairFacts& pair);

/// Whether every pair that `inner` can match is matched by `outer`. Never true by mistake; where it
/// cannot be known from the text alone (a host that lies in a network) it is false.
[[nodiscard]] bool covers(const Between& outer, const Between& inner);

/// The value of `between` from its one or two words. WEFT_ERROR_CONFIG says what is wrong.
[[nodiscard]] Result<Between> parse_between(const std::vector<std::string>& ends);

/// `[{between: same-host, use: [shm]}, ...]`, which the reader of the file reads again.
[[nodiscard]] std::string print_rules(const std::vector<Rule>& rules);

}  // namespace weft
