// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a communicator comes to be, step by step; every step is collective. All that is decided on
// the way is decided by every rank for itself, from what all told, and comes out alike.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/version.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/hello.h"
#include "core/comm/join_times.h"
#include "core/comm/whole_lines.h"
#include "core/topology/codec.h"
#include "core/topology/paths.h"
#include "core/transport/net_devices.h"
#include "core/transport/offer_codec.h"
#include "plugin_api/tuner.h"

namespace weft {
namespace {

// Ranks have the same list, not the same origin of it: who names the default wants no more by that
// than who names nothing, or one rank would give up where the others go on.
NamedList named_list(const Config& config, const char* name) {
  const ConfigEntry* entry = config.find(name);
  return {.ids = config.list(name),
          .named_by_user = entry != nullptr && entry->text() != entry->parameter.default_text,
          .origin = entry != nullptr ? entry->origin().to_string() : "default"};
}

// The edges of rings that begin or end at a rank.
std::vector<NetEdge> own_edges(const std::vector<std::vector<std::uint32_t>>& rings,
                               std::uint32_t rank) {
  std::vector<NetEdge> edges;
  for (std::uint32_t channel = 0; channel < rings.size(); ++channel) {
    const auto& ring = rings[channel];
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const NetEdge edge{.channel = channel, .from = ring[i], .to = ring[(i + 1) % ring.size()]};
      if (edge.from == rank || edge.to == rank) edges.push_back(edge);
    }
  }
  return edges;
}

}  // namespace

Status Communicator::check_numbers(std::uint32_t rank, std::uint32_t ranks) {
  if (ranks == 0 || rank >= ranks) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("rank {} of {}: ranks count from 0", rank, ranks),
                "give each rank a number of its own below the number of ranks");
  }
  if (ranks > kMaxRanks) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("{} ranks are more than the {} that are possible", ranks, kMaxRanks),
                "check what was passed as the number of ranks");
  }
  return {};
}

Result<std::unique_ptr<Communicator>> Communicator::create(Context& context, Config config,
                                                           std::uint32_t rank, std::uint32_t ranks,
                                                           DeviceRuntime& runtime) {
  WEFT_TRY(check_numbers(rank, ranks));
  return std::unique_ptr<Communicator>(
      new Communicator(context, std::move(config), rank, ranks, runtime));
}

Result<std::unique_ptr<Communicator>> Communicator::join(Context& context, Config config,
                                                         const UniqueId& id, std::uint32_t rank,
                                                         std::uint32_t ranks,
                                                         DeviceRuntime& runtime) {
  WEFT_TRY_ASSIGN(auto communicator, create(context, std::move(config), rank, ranks, runtime));
  WEFT_TRY(communicator->join(id));
  return communicator;
}

Status Communicator::join(const UniqueId& id, int cancel_fd) {
  Status joined;
  try {
    joined = join_others(id, cancel_fd);
  } catch (const std::bad_alloc&) {
    joined = fail(or_no_memory([] {
      return Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory to join",
                   "raise the limit of address space (ulimit -v)");
    }));
  }
  if (joined) return {};
  Error error = or_no_memory([&] { return why_not_joined(std::move(joined.error())); });
  // Others are waiting for this rank: they get the reason, unless they find it themselves.
  failure_->note(or_no_memory([&] { return error; }), bootstrap_ != nullptr && !all_find_error_);
  return fail(std::move(error));
}

Error Communicator::why_not_joined(Error error) {
  if (may_be_a_consequence(error)) {
    if (bootstrap_ != nullptr) failure_->suspect(error);
    if (auto cause = failure_->settle()) error = std::move(*cause);
  }
  return std::move(error).with_context(
      fmt::format("rank {} of {} cannot join its communicator", rank_, ranks_));
}

Status Communicator::join_others(const UniqueId& id, int cancel_fd) {
  JoinTimes times;
  WEFT_TRY_ASSIGN(const UniqueIdContents contents, read_unique_id(id));
  WEFT_TRY_ASSIGN(const Secret secret, derive_secret(contents.secret, "transports", 0));
  WEFT_TRY_ASSIGN(const Secret name, derive_secret(contents.secret, "communicator", 0));
  std::memcpy(&number_, name.data(), sizeof(number_));

  BootstrapOptions options = bootstrap_options(config_, context_.host());
  options.cancel_fd = cancel_fd;
  options.local_letters = &context_.local_letters();
  WEFT_TRY_ASSIGN(bootstrap_, Bootstrap::join(id, static_cast<int>(rank_), static_cast<int>(ranks_),
                                              options, context_.reactor(), context_.logger()));
  times.end("to meet");
  // Nobody comes to a rendezvous of one rank, which would wait for somebody.
  if (ranks_ == 1) context_.end_rendezvous(id);
  connections_ = std::make_unique<Connections>(TransportContext{
      .rank = rank_,
      .ranks = ranks_,
      .communicator = number_,
      .secret = secret,
      .host_id = context_.host().host_id,
      .runtime = &runtime_,
      .engine_of = [this](std::uint32_t port) { return context_.engine(runtime_, port); },
      .logger = &context_.logger(),
      .devices_of = [this](const std::string& plugin,
                           const NetEdge& edge) { return choose_devices(*choice_, plugin, edge); },
      .path_failed = [failure = failure_](Error error) { failure->suspect(std::move(error)); }});
  // Before anything else may fail: the others wait, and are told.
  failure_->set_hook(
      [this](const Error& cause, bool tell_others) { stop_everything(cause, tell_others); });
  bootstrap_->on_failure(
      [failure = failure_](const Error& error) { failure->establish(error, false); });
  if (ranks_ > 1) WEFT_TRY(start_suspicion_watch());
  if (!runtime_.reports_ends()) {
    WEFT_TRY_ASSIGN(report_, KernelReport::create(runtime_, rank_, ranks_, failure_));
    WEFT_TRY(start_kernel_watch());
    times.end("device");
  }
  bootstrap_->on_question([this](const Question& question) { answer_question(question); });
  bootstrap_->on_round([this](const RoundText& round) { pass_round(round); });

  WEFT_TRY(agree_on_topology());
  times.end("topology");
  WEFT_TRY(choose_transports());
  times.end("transports");
  WEFT_TRY(open_paths());
  times.end("paths");
  WEFT_TRY(prepare_outputs());
  if (ranks_ > 1) WEFT_TRY(start_pairs());
  WEFT_TRY(prepare_multicast());
  times.end("pairs");
  WEFT_TRY(agree_on_tuner(open_tuner()));
  times.end("tuner");
  context_.logger().info(Topic::kInit, "rank {} of {} joined in {}", rank_, ranks_, times.text());
  return {};
}

// After all else, since a tuner is told of everything that was chosen.
Status Communicator::open_tuner() {
  const std::string& id = config_.text("tuner.plugin");
  if (id == "none" || ranks_ == 1) return {};
  auto plugin = context_.plugins().load(id);
  if (!plugin) {
    for (const char* key : {"tuner.plugin", "tuner.table"}) {
      const ConfigEntry* entry = config_.find(key);
      if (entry == nullptr || !entry->is_set()) continue;
      return fail(std::move(plugin.error())
                      .with_context(fmt::format("{} ({})", key, entry->origin().to_string())));
    }
    if (context_.first_without_tuner()) {
      context_.logger().warn(Topic::kComm, "there is no tuner, so the built-in costs count: {}",
                             plugin.error().to_string());
    }
    no_tuner_ = plugin.error().to_string();
    return {};
  }
  auto tuner =
      Tuner::open(**plugin, {.topology = topology_, .limits = limits_, .communicator = number_});
  if (!tuner && !(*plugin)->offers(WEFT_TUNER_INTERFACE)) {
    return fail(std::move(tuner.error())
                    .with_context(fmt::format("tuner.plugin ({})",
                                              config_.find("tuner.plugin")->origin().to_string())));
  }
  WEFT_TRY_ASSIGN(tuner_, std::move(tuner));
  return {};
}

// Plans are alike only where what they depend on is. It is the end of joining as well. A rank that
// cannot use its tuner comes here to say so: no rank then hears it as another one's failure, though
// it found the same mistake.
Status Communicator::agree_on_tuner(const Status& opened) {
  TunerNotice mine = tuner_ != nullptr ? tuner_->notice() : TunerNotice{};
  if (!opened) mine.unusable = opened.error().to_string();
  mine.missing = no_tuner_;
  WEFT_TRY_ASSIGN(const auto gathered,
                  bootstrap_->all_gather(encode_notice(mine), "the end of joining"));
  std::vector<TunerNotice> notices;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    auto notice = decode_notice(gathered[rank]);
    if (!notice) {
      return fail(std::move(notice.error()).with_context(fmt::format("reading rank {}", rank)));
    }
    notices.push_back(std::move(*notice));
  }
  if (!opened) return by_all(opened);
  return by_all(check_tuners(notices));
}

// Cannot fail: choose_transports has chosen for every pair.
PairChoice Communicator::choice_with(std::uint32_t peer) const {
  return chooser_->choose(std::min(rank_, peer), std::max(rank_, peer)).value_or(PairChoice{});
}

// A rank alone has no connections, and counts for nobody.
std::uint32_t Communicator::enter_device() {
  if (ranks_ == 1) return 0;
  is_on_device_ = true;
  return context_.enter_device(runtime_, number_);
}

Status Communicator::agree_on_topology() {
  WEFT_TRY_ASSIGN(RankInfo info, context_.next_rank_info(rank_, runtime_));
  WEFT_TRY_ASSIGN(auto report, encode_report({.rank = std::move(info), .host = context_.host()}));
  const auto line_peers = runtime_.line_peers();
  const auto told = line_peers.first(std::min(line_peers.size(), kMostLinePeers));
  const Hello mine{.version = version_text(),
                   .agreed_settings = config_.agreed_text(),
                   .report = std::move(report),
                   .device_groups = runtime_.groups_at_once(),
                   .line_bytes = runtime_.line_bytes(),
                   .other_communicators = enter_device(),
                   .line_peers = {told.begin(), told.end()}};
  WEFT_TRY_ASSIGN(const auto gathered, bootstrap_->all_gather(encode_hello(mine), "greetings"));
  std::vector<Hello> hellos;
  std::vector<std::vector<std::byte>> reports;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    auto hello = decode_hello(gathered[rank]);
    if (!hello) {
      return fail(std::move(hello.error()).with_context(fmt::format("reading rank {}", rank)));
    }
    reports.push_back(hello->report);
    device_groups_.push_back(hello->device_groups);
    is_later_ = is_later_ || hello->other_communicators != 0;
    hellos.push_back(std::move(*hello));
  }
  WEFT_TRY(by_all(check_agreement(hellos)));
  WEFT_TRY_ASSIGN(topology_, merge(reports));
  line_bytes_ = common_line_bytes(topology_, hellos);
  for (const RankInfo& other : topology_.ranks) {
    if (other.device == topology_.ranks[0].device) continue;
    return by_all(Status(fail(WEFT_ERROR_MISMATCH,
                              fmt::format("rank 0 runs on device {}, and rank {} on device {}",
                                          topology_.ranks[0].device, other.rank, other.device),
                              "give all ranks of a communicator devices of one kind")));
  }
  return {};
}

Status Communicator::choose_transports() {
  choice_ = std::make_unique<ChoiceInput>();
  choice_->topology = &topology_;
  choice_->order = named_list(config_, "transports.order");
  choice_->nets = named_list(config_, "transports.net");
  choice_->rules = config_.rules();
  if (ranks_ == 1) return {};  // no pair to join, so no plugin is needed

  WEFT_TRY_ASSIGN(const auto ids,
                  by_all(mentioned_plugins(choice_->order, choice_->nets, choice_->rules)));
  std::vector<TravellingOffer> mine;
  for (const auto& id : ids) {
    TravellingOffer travelling;
    auto plugin = context_.plugins().load(id);
    if (plugin) {
      travelling.offer = connections_->open(**plugin, travelling.peer_info);
    } else {
      travelling.offer = {.id = id,
                          .version = {},
                          .kind = PluginKind::kTransport,
                          .unusable = plugin.error().to_string(),
                          .devices = {}};
    }
    if (!travelling.offer.unusable.empty()) {
      context_.logger().info(Topic::kTransport, "plugin {} is passed over: {}", id,
                             travelling.offer.unusable);
    }
    mine.push_back(std::move(travelling));
  }
  WEFT_TRY_ASSIGN(const auto gathered,
                  bootstrap_->all_gather(encode_offers(mine), "transport offers"));
  std::vector<std::vector<TravellingOffer>> offers;
  for (const auto& bytes : gathered) {
    WEFT_TRY_ASSIGN(auto decoded, decode_offers(bytes));
    choice_->offers.emplace_back();
    for (const auto& item : decoded)
      choice_->offers.back().push_back(item.offer);
    offers.push_back(std::move(decoded));
  }
  WEFT_TRY(by_all(check_named_plugins(*choice_)));

  Answers answers;
  for (const auto& [offer, own_info] : mine) {
    if (offer.kind != PluginKind::kTransport || !offer.unusable.empty()) continue;
    std::vector<std::optional<std::vector<std::byte>>> infos(ranks_);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const auto found = std::ranges::find_if(
          offers[rank], [&](const TravellingOffer& item) { return item.offer.id == offer.id; });
      if (found != offers[rank].end() && found->offer.unusable.empty())
        infos[rank] = found->peer_info;
    }
    answers[offer.id] = connections_->ask(offer.id, topology_, infos);
  }
  WEFT_TRY_ASSIGN(const auto all_answers,
                  bootstrap_->all_gather(encode_answers(answers), "transport answers"));
  for (const auto& bytes : all_answers) {
    WEFT_TRY_ASSIGN(auto decoded, decode_answers(bytes, ranks_));
    choice_->answers.push_back(std::move(decoded));
  }
  chooser_ = std::make_unique<const PairChooser>(*choice_);
  // Every pair, not only this rank's own: a pair that cannot be joined fails on every rank.
  for (std::uint32_t a = 0; a < ranks_; ++a) {
    for (std::uint32_t b = a + 1; b < ranks_; ++b) {
      const bool own = a == rank_ || b == rank_;
      if (!own && chooser_->wire(a, b)) continue;
      WEFT_TRY_ASSIGN(const PairChoice choice, by_all(chooser_->choose(a, b)));
      if (own) {
        context_.logger().info(Topic::kTransport, "ranks {} and {}: {}: {}", a, b, choice.plugin,
                               choice.reason);
      }
    }
  }
  return {};
}

// No rank is connected with another before a call needs it: see PairConnector.
Status Communicator::open_paths() {
  WEFT_TRY(by_all(choose_limits()));
  rings_ = weft::rings(topology_, limits_.max_channels);
  if (ranks_ == 1) return {};
  const std::vector<std::string> net_edges = describe_net_edges(own_edges(rings_, rank_));
  for (const std::string& edge : net_edges) {
    context_.logger().info(Topic::kTransport, "{}", edge);
  }
  const std::uint32_t ports = net_ports();
  if (!net_edges.empty()) {
    const std::uint32_t stripes = inbox_stripes();
    context_.logger().info(
        Topic::kTransport, "rank {} has {} port{} to each net{}", rank_, ports,
        ports == 1 ? "" : "s",
        stripes == 1 ? "" : fmt::format(", over which small messages go in {} stripes", stripes));
  }
  // Calls by multicast meet by the headers of plain halves, and have no payload there.
  std::uint64_t plain_range = runtime_.reports_ends() ? 0 : limits_.two_shot_range;
  if (!runtime_.reports_ends() && limits_.no_multicast.empty()) {
    plain_range = std::max(plain_range, kChunkGrainBytes);
  }
  return connections_->open_paths(
      {.net_ports = ports,
       .near_cpus =
           runtime_.reports_ends() ? std::vector<CpuRange>{} : cpus_near_device(topology_, rank_),
       .direct_bytes = limits_.direct_bytes,
       .direct_parts = direct_parts_,
       .wide_bytes = limits_.wide_bytes,
       .line_bytes = line_bytes_,
       .two_shot_range = plain_range},
      [this](std::uint32_t peer) { return choice_with(peer); });
}

}  // namespace weft
