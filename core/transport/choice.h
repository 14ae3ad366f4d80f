// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which plugin carries a pair of ranks: a pure function of what all ranks told each other, so every
// rank chooses alike for every pair. Nothing is loaded or connected here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/rules.h"
#include "core/topology/topology.h"

namespace weft {

enum class PluginKind : std::uint8_t { kTransport = 0, kNet = 1 };

/// A device of a net, as the plugin of its rank lists it.
struct OfferedDevice {
  std::string name;             ///< "eth0"; of a NIC where one has that name.
  std::uint64_t fabric_id = 0;  ///< Devices with different ids (not 0) cannot reach each other.
  friend bool operator==(const OfferedDevice&, const OfferedDevice&) = default;
};

/// So many devices of a net are told of and used, from the first on.
inline constexpr std::size_t kMaxOfferedDevices = 32;

/// What one rank has to say of one plugin that the configuration speaks of.
struct PluginOffer {
  std::string id;
  std::string version;
  PluginKind kind = PluginKind::kTransport;
  std::string unusable;                  ///< Why this rank cannot use it; empty where it can.
  std::vector<OfferedDevice> devices{};  ///< Of a net; the plugin's best first.
};

/// What one rank's memory transport says of one peer.
struct ReachAnswer {
  bool reachable = false;
  bool device_memory = false;        ///< Kernels of both devices reach it by themselves.
  bool single_copy = false;          ///< This rank's kernels can have that one's memory read.
  std::uint64_t bandwidth_mbps = 0;  ///< 0: unknown.
  std::uint64_t latency_ns = 0;      ///< 0: unknown.
  std::string reason;
  friend bool operator==(const ReachAnswer&, const ReachAnswer&) = default;
};

/// What a memory transport says of each rank. To it most ranks are alike, of thousands: each answer
/// is kept once.
class ReachAnswers {
 public:
  ReachAnswers() = default;
  ReachAnswers(std::initializer_list<ReachAnswer> by_rank);
  /// `of_rank` holds indices in `distinct`.
  ReachAnswers(std::vector<ReachAnswer> distinct, std::vector<std::uint32_t> of_rank);

  [[nodiscard]] std::size_t size() const { return of_rank_.size(); }
  [[nodiscard]] const ReachAnswer& operator[](std::size_t rank) const {
    return distinct_[of_rank_[rank]];
  }
  [[nodiscard]] std::span<const ReachAnswer> distinct() const { return distinct_; }
  [[nodiscard]] std::span<const std::uint32_t> of_rank() const { return of_rank_; }
  /// Of the next rank.
  void push_back(const ReachAnswer& answer);

 private:
  std::vector<ReachAnswer> distinct_;
  std::vector<std::uint32_t> of_rank_;
};

/// Where the list of plugins comes from, for messages and for how strict to be.
struct NamedList {
  std::vector<std::string> ids;
  bool named_by_user = false;  ///< False for the built-in default: what is missing is passed over.
  std::string origin;          ///< "weft.yaml:4:10", "WEFT_TRANSPORTS_ORDER", "default".
};

/// Everything the choice depends on; alike on every rank.
struct ChoiceInput {
  const Topology* topology = nullptr;
  NamedList order;          ///< transports.order; "net" stands for the list `nets`.
  NamedList nets;           ///< transports.net
  std::vector<Rule> rules;  ///< transports.rules
  std::vector<std::vector<PluginOffer>> offers;  ///< By rank.
  /// answers[rank][id][peer]: of memory transports that the rank can use.
  std::vector<std::map<std::string, ReachAnswers, std::less<>>> answers;
};

/// The plugin that joins a pair.
struct PairChoice {
  std::string plugin;
  PluginKind kind = PluginKind::kTransport;
  bool device_memory = false;  ///< Kernels of both ranks reach it by themselves.
  bool single_copy = false;    ///< Each of both reads the other's host memory.
  std::string reason;          ///< One line: what the plugin said and which list or rule named it.
  friend bool operator==(const PairChoice&, const PairChoice&) = default;
};

/// So many plugins may a configuration name: a rank takes no longer offer from a peer.
inline constexpr std::size_t kMaxPlugins = 64;

/// Every plugin id that order, nets and rules name, once, in order of mention; CONFIG when they are
/// more than kMaxPlugins.
[[nodiscard]] Result<std::vector<std::string>> mentioned_plugins(const NamedList& order,
                                                                 const NamedList& nets,
                                                                 const std::vector<Rule>& rules);

/// Fails, the same on every rank, where a plugin that the user named is unusable on some rank.
[[nodiscard]] Status check_named_plugins(const ChoiceInput& input);

/// How a pair is joined, without the texts.
struct PairWire {
  PluginKind kind = PluginKind::kTransport;
  bool device_memory = false;
  bool single_copy = false;
};

/// Chooses for many pairs of one input, and works out once what they have in common. The input must
/// outlive it and stay as it is.
class PairChooser {
 public:
  explicit PairChooser(const ChoiceInput& input);
  /// The first plugin, of the rule that matches the pair or else of the order, with which both ends
  /// can reach each other. The error lists each candidate and why not.
  [[nodiscard]] Result<PairChoice> choose(std::uint32_t a, std::uint32_t b) const;
  /// Of the same choice; nothing where that fails.
  [[nodiscard]] std::optional<PairWire> wire(std::uint32_t a, std::uint32_t b) const;

 private:
  /// What a rank says of a plugin; null where it says nothing.
  struct Seat {
    const PluginOffer* offer = nullptr;
    const ReachAnswers* answers = nullptr;
  };
  struct Candidates {
    const Rule* rule = nullptr;  ///< Null: the order.
    std::vector<std::size_t> ids;
  };
  [[nodiscard]] Candidates candidates(const Rule* rule, const std::vector<std::string>& ids);
  [[nodiscard]] const Candidates& candidates_of(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::optional<PairWire> judge(std::size_t id, std::uint32_t a, std::uint32_t b,
                                              std::string* reason) const;

  const ChoiceInput& input_;
  std::vector<std::string> ids_;
  Candidates by_order_;
  std::vector<Candidates> by_rule_;
  std::vector<Seat> seats_;       ///< ranks of the first id, then of the next one.
  std::vector<RankFacts> facts_;  ///< Of each rank, where there are rules.
};

/// What is known of a pair, for matching rules.
[[nodiscard]] PairFacts pair_facts(const Topology& topology, std::uint32_t a, std::uint32_t b);

}  // namespace weft
