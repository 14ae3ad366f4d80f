// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a communicator comes to be, step by step; every step is collective. All that is decided on
// the way is decided by every rank for itself, from what all told, and comes out alike.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/base/version.h"
#include "core/comm/co_residency.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/hello.h"
#include "core/model/ring_geometry.h"
#include "core/model/two_shot.h"
#include "core/topology/codec.h"
#include "core/transport/net_devices.h"
#include "core/transport/offer_codec.h"

namespace weft {
namespace {

constexpr std::uint32_t kSteps = 8;  // slots of a connection

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
// of host memory are what two and four H200 took (docs/performance.md).
constexpr std::uint32_t kDeviceSteps = 4;
constexpr std::uint32_t kDeviceStepBytes = 128 * 1024;
// Of lines; by LL128 each thread has its part of one pair of them.
constexpr std::uint32_t kDeviceLineStepBytes = 15 * 1024;
constexpr std::uint32_t kDeviceChannels = 64;
constexpr std::uint64_t kLeastDeviceChannelBytes = std::uint64_t{16} << 10;
constexpr std::uint32_t kStagedChannels = 16;
constexpr std::uint32_t kMessageChannels = 8;
// What a step costs the thread that moves it counts more than what it holds up; each message of a
// pair, of which a rank has as many as there are others, has less of the host's memory.
constexpr std::uint32_t kMessageStepBytes = 512 * 1024;
constexpr std::uint32_t kPairMessageStepBytes = 256 * 1024;
// A thread that moves messages both ways carries half of what a stream of TCP could.
constexpr std::uint32_t kMostDeviceNetPorts = 8;
// Blocks of all-to-alls, gathers and scatters that go by inboxes, where ranks have those.
constexpr std::uint64_t kMostDirectExchangeBytes = std::uint64_t{512} << 10;
// Two ranks send to each other over so many channels that these are those of a rank together.
constexpr std::uint32_t kPairChannelsOfARank = 64;
constexpr std::uint64_t kLeastPairPartBytes = std::uint64_t{32} << 10;
// Messages of a step of lines. Of LL a line is twice its payload.
constexpr std::uint32_t kPairLineBytes = 16U << 10U;
constexpr std::uint32_t kPairLineStepBytes = 2 * (kPairLineBytes + 128);
constexpr std::uint32_t kPairLineSteps = 8;
// Payload that the lines of so many headers would hold.
constexpr std::uint64_t kDirectHeaderBytes = std::uint64_t{8} * kMostDirectParts;
constexpr std::uint64_t kDeviceDirectBytes = (std::uint64_t{1} << 20) + kDirectHeaderBytes;
constexpr std::uint64_t kStagedDirectBytes = (std::uint64_t{256} << 10) + kDirectHeaderBytes;
constexpr std::uint64_t kDeviceWideBytes = std::uint64_t{4} << 20;  // of two ranks
constexpr CostTable kLinkCosts = {.hops = {HopCost{.latency_us = 4.5, .bytes_per_us = 5300.0},
                                           HopCost{.latency_us = 4.5, .bytes_per_us = 5300.0},
                                           HopCost{.latency_us = 30.0, .bytes_per_us = 1000.0}},
                                  .call_us = 1.5,
                                  .rooted_bytes = 1.0,
                                  .direct = {.latency_us = 0.5, .bytes_per_us = 240000.0},
                                  .wide = {.latency_us = 1.25, .bytes_per_us = 225000.0},
                                  .exchange_us = 3.0,
                                  .two_shot = {.latency_us = 0.75, .bytes_per_us = 620000.0}};
constexpr CostTable kStagedCosts = {.hops = {HopCost{.latency_us = 6.0, .bytes_per_us = 5000.0},
                                             HopCost{.latency_us = 6.0, .bytes_per_us = 5000.0},
                                             HopCost{.latency_us = 30.0, .bytes_per_us = 1000.0}},
                                    .call_us = 3.0,
                                    .rooted_bytes = 1.0,
                                    .direct = {.latency_us = 2.5, .bytes_per_us = 30000.0}};

NamedList named_list(const Config& config, const char* name) {
  const ConfigEntry* entry = config.find(name);
  return {.ids = config.list(name),
          .named_by_user = entry != nullptr && entry->is_set(),
          .origin = entry != nullptr ? entry->origin().to_string() : "default"};
}

std::uint64_t whole_grains(std::uint64_t bytes) {
  return std::max(bytes / kChunkGrainBytes, std::uint64_t{1}) * kChunkGrainBytes;
}

// A rank that fails closes its ends: those who were connecting to it see only that, before or after
// the news of its failure comes.
bool may_be_a_consequence(const Error& error) {
  return error.code() == WEFT_ERROR_PEER || error.code() == WEFT_ERROR_NETWORK ||
         error.code() == WEFT_ERROR_ABORTED;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(Context& context, Config config,
                                                           std::uint32_t rank, std::uint32_t ranks,
                                                           DeviceRuntime& runtime) {
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
  auto joined = join_others(id, cancel_fd);
  if (joined) return {};
  Error error = std::move(joined.error());
  if (may_be_a_consequence(error)) {
    if (bootstrap_ != nullptr) failure_->suspect(error);
    if (auto cause = failure_->settle()) error = std::move(*cause);
  }
  error.with_context(fmt::format("rank {} of {} cannot join its communicator", rank_, ranks_));
  // Others are waiting for this rank: they get the reason, unless they find it themselves.
  failure_->establish(error, bootstrap_ != nullptr && !all_find_error_);
  return fail(std::move(error));
}

Status Communicator::join_others(const UniqueId& id, int cancel_fd) {
  WEFT_TRY_ASSIGN(const UniqueIdContents contents, read_unique_id(id));
  WEFT_TRY_ASSIGN(const Secret secret, derive_secret(contents.secret, "transports", 0));
  WEFT_TRY_ASSIGN(const Secret name, derive_secret(contents.secret, "communicator", 0));
  std::memcpy(&number_, name.data(), sizeof(number_));

  BootstrapOptions options = bootstrap_options(config_, context_.host());
  options.cancel_fd = cancel_fd;
  options.local_letters = &context_.local_letters();
  WEFT_TRY_ASSIGN(bootstrap_, Bootstrap::join(id, static_cast<int>(rank_), static_cast<int>(ranks_),
                                              options, context_.reactor(), context_.logger()));
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
      .path_failed = [failure = failure_](const Error& error) { failure->suspect(error); }});
  if (!runtime_.reports_ends()) {
    WEFT_TRY_ASSIGN(report_, KernelReport::create(runtime_, rank_, ranks_, failure_));
    WEFT_TRY(start_kernel_watch());
  }
  failure_->set_hook(
      [this](const Error& cause, bool tell_others) { stop_everything(cause, tell_others); });
  bootstrap_->on_failure(
      [failure = failure_](const Error& error) { failure->establish(error, false); });
  bootstrap_->on_question([this](const Question& question) { answer_question(question); });
  bootstrap_->on_round([this](const RoundText& round) { pass_comparison(round); });

  WEFT_TRY(agree_on_topology());
  WEFT_TRY(choose_transports());
  WEFT_TRY(connect());
  WEFT_TRY(prepare_outputs());
  if (ranks_ > 1) WEFT_TRY(start_pairs());
  WEFT_TRY(prepare_multicast());
  return agree_on_tuner(open_tuner());
}

// After all else, since a tuner is told of everything that was chosen.
Status Communicator::open_tuner() {
  const std::string& id = config_.text("tuner.plugin");
  if (id == "none" || ranks_ == 1) return {};
  if (config_.text("tuner.table") != context_.config().text("tuner.table")) {
    return fail(WEFT_ERROR_CONFIG,
                "tuner.table counts for a whole context, not for one communicator",
                "set it in the configuration file or by WEFT_TUNER_TABLE");
  }
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
    return {};
  }
  WEFT_TRY_ASSIGN(
      tuner_,
      Tuner::open(**plugin, {.topology = topology_, .limits = limits_, .communicator = number_}));
  return {};
}

// Plans are alike only where what they depend on is. It is the end of joining as well. A rank that
// cannot use its tuner comes here to say so: no rank then hears it as another one's failure, though
// it found the same mistake.
Status Communicator::agree_on_tuner(const Status& opened) {
  TunerNotice mine = tuner_ != nullptr ? tuner_->notice() : TunerNotice{};
  if (!opened) mine.unusable = opened.error().to_string();
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

SlotGeometry Communicator::slots_of_pairs() const {
  if (!runtime_.reports_ends()) {
    const bool usual = reach_ == Reach::kMessages && !config_.is_set("buffers.step");
    return {.steps = limits_.steps,
            .step_bytes = usual ? kPairMessageStepBytes : limits_.step_bytes};
  }
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
                             : reach_ == Reach::kMemory     ? kStagedChannels
                                                            : kMessageChannels;
  pair_ends_.spread = {.channels = std::min(share, most), .least_bytes = kLeastPairPartBytes};
  if (reach_ == Reach::kMessages) return;  // whose payload no flags can lie in
  most_direct_exchange_ = std::min(limits_.direct_block_bytes, kMostDirectExchangeBytes);
  pair_ends_.spread.line_bytes = kPairLineBytes;
}

Status Communicator::start_pairs() {
  choose_spread();
  const SlotGeometry of_pairs = slots_of_pairs();
  const SlotGeometry of_trees{.steps = limits_.steps, .step_bytes = limits_.tree_step()};
  const SlotGeometry of_lines{.steps = limits_.steps, .step_bytes = limits_.line_step_bytes};
  const SlotGeometry of_small{.steps = limits_.small_steps, .step_bytes = limits_.small_step_bytes};
  const SlotGeometry of_pair_lines{.steps = kPairLineSteps, .step_bytes = kPairLineStepBytes};
  WEFT_TRY_ASSIGN(pairs_, PairConnector::start(
                              *connections_, *bootstrap_, context_.reactor(),
                              [=](const PairLink& link) {
                                if (link.channel == kPairLineChannel) return of_pair_lines;
                                if (is_of_pairs(link.channel)) return of_pairs;
                                if (link.channel >= kFirstSmallChannel) return of_small;
                                return link.channel < kFirstLLChannel ? of_trees : of_lines;
                              },
                              [this](std::uint32_t peer) { return choice_with(peer); },
                              [failure = failure_](const Error& error) {
                                // Who knows that the partner died, or how it left, may say so in a
                                // moment.
                                if (error.source() == ErrorSource::kPeer) {
                                  failure->suspect(error);
                                } else {
                                  failure->establish(error, true);
                                }
                              }));
  return {};
}

// Cannot fail: choose_transports has chosen for every pair.
PairChoice Communicator::choice_with(std::uint32_t peer) const {
  return chooser_->choose(std::min(rank_, peer), std::max(rank_, peer)).value_or(PairChoice{});
}

Status Communicator::agree_on_topology() {
  WEFT_TRY_ASSIGN(RankInfo info, context_.next_rank_info(rank_, runtime_));
  WEFT_TRY_ASSIGN(auto report, encode_report({.rank = std::move(info), .host = context_.host()}));
  const Hello mine{.version = version_text(),
                   .agreed_settings = config_.agreed_text(),
                   .report = std::move(report),
                   .device_groups = runtime_.groups_at_once(),
                   .line_bytes = runtime_.line_bytes()};
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
    line_bytes_ = std::min(line_bytes_, hello->line_bytes);
    hellos.push_back(std::move(*hello));
  }
  WEFT_TRY(by_all(check_agreement(hellos)));
  WEFT_TRY_ASSIGN(topology_, merge(reports));
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
    std::vector<std::vector<std::byte>> infos(ranks_);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      const auto found = std::ranges::find_if(
          offers[rank], [&](const TravellingOffer& item) { return item.offer.id == offer.id; });
      if (found != offers[rank].end()) infos[rank] = found->peer_info;
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

// On GPUs a two-shot needs memory of its own, which it gets unless the configuration leaves it out.
// Where it would be the host's, a ring moves less through there.
std::uint64_t Communicator::two_shot_range() const {
  if (limits_.direct_bytes == 0) return 0;
  const std::uint64_t twice = whole_grains(2 * limits_.direct_block_bytes);
  // What a line takes beside its payload is free, but for the header.
  if (runtime_.reports_ends())
    return std::min(plain_range_bytes(direct_half_bytes(limits_.direct_bytes), 1), twice);
  if (reach_ != Reach::kDeviceMemory) return 0;
  const auto& allowed = config_.list("collectives.all_reduce.algorithm");
  if (std::ranges::find(allowed, algorithm_name(Algorithm::kTwoShot)) == allowed.end()) return 0;
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
  if (line_bytes_ >= kWideLineBytes) return {};
  return "of these GPUs nobody knows that lines of 128 bytes arrive whole: they do by NVLink "
         "between GPUs of compute capability 9.0 and more, of which each process sees two";
}

// Memory keeps words together, and a CPU's kernels order a line's words before its flag. A net
// moves whole steps.
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
  if (config_.is_set("buffers.direct")) return limits_.direct_bytes;
  const auto& allowed = config_.list("collectives.all_reduce.protocol");
  if (std::ranges::find(allowed, protocol_name(Protocol::kLL128)) == allowed.end()) return 0;
  return whole_grains(8 * kDeviceWideBytes / ranks_ / ranks_ / ranks_);
}

// Computed from what all ranks have in common.
Status Communicator::choose_limits() {
  const auto wanted = static_cast<std::uint32_t>(config_.integer("channels.max"));
  limits_ = {.steps = kSteps,
             .step_bytes = static_cast<std::uint32_t>(config_.bytes("buffers.step")),
             .max_channels = wanted != 0 ? wanted : host_channels(topology_)};
  const bool on_host = runtime_.reports_ends();
  reach_ = find_reach();
  const bool links = reach_ == Reach::kDeviceMemory;
  if (ranks_ > 1 && ranks_ <= kMostDirectRanks && reach_ != Reach::kMessages) {
    const bool usual = !on_host && !config_.is_set("buffers.direct");
    const std::uint64_t of_devices = links ? kDeviceDirectBytes : kStagedDirectBytes;
    limits_.direct_bytes = usual ? of_devices : config_.bytes("buffers.direct");
    // On GPUs each part of such a call has a header of its own.
    limits_.direct_block_bytes =
        on_host ? limits_.direct_bytes
                : limits_.direct_bytes - std::min(limits_.direct_bytes, kDirectHeaderBytes);
    // A CPU's rates of such calls are those of a ring, in which a root does not wait for others.
    limits_.direct_roots = !on_host;
    limits_.two_shot_range = two_shot_range();
    if (!on_host && why_lines_come_apart().empty()) limits_.wide_bytes = wide_bytes();
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
      costs_.pat_us = 0;
      costs_.pat_bytes = 1.25;
    }
    own_processors_ = have_own_processors(topology_, rank_, limits_.max_channels);
    return {};
  }
  if (!config_.is_set("buffers.step")) {
    limits_.step_bytes = reach_ == Reach::kMessages ? kMessageStepBytes : kDeviceStepBytes;
  }
  limits_.steps = kDeviceSteps;
  if (links) limits_.min_channel_bytes = kLeastDeviceChannelBytes;
  limits_.outputs_from = config_.bytes("buffers.outputs_from");
  if (limits_.outputs_from != 0) {
    limits_.no_outputs = no_outputs();
    limits_.are_outputs_mapped = !is_of_one_process();
  }
  limits_.max_channels = wanted != 0 ? std::min(wanted, kDeviceChannels) : kDeviceChannels;
  if (!links && wanted == 0) {
    limits_.max_channels = reach_ == Reach::kMemory ? kStagedChannels : kMessageChannels;
  }
  costs_ = links ? kLinkCosts : kStagedCosts;
  WEFT_TRY_ASSIGN(const std::uint32_t groups, groups_of_each_rank(topology_, device_groups_));
  if (groups == 0) return {};
  limits_.max_channels = std::min(limits_.max_channels, groups);
  // Beside a direct kernel the next may wait already, and takes room as well; so it is with sends
  // and receives.
  direct_parts_ = std::clamp(groups / 2, 1U, kMostDirectParts);
  pair_parts_ = std::max(groups / 2, 1U);
  return {};
}

// Workers of CPUs move their messages themselves; a GPU has the engines do it, whose threads share
// the host's processors with the program's.
std::uint32_t Communicator::net_ports() const {
  const auto wanted = static_cast<std::uint32_t>(config_.integer("transports.net_ports"));
  if (wanted != 0) return wanted;
  if (runtime_.reports_ends()) return 1;
  return std::clamp(processors_of_each(topology_, rank_) / 2, 1U, kMostDeviceNetPorts);
}

Status Communicator::connect() {
  WEFT_TRY(by_all(choose_limits()));
  const std::uint32_t channels = limits_.max_channels;
  rings_ = weft::rings(topology_, channels);
  if (ranks_ == 1) return {};
  const std::vector<std::string> net_edges = describe_net_edges(rank_);
  for (const std::string& edge : net_edges) {
    context_.logger().info(Topic::kTransport, "{}", edge);
  }
  const std::uint32_t ports = net_ports();
  if (!net_edges.empty()) {
    context_.logger().info(Topic::kTransport, "rank {} has {} port{} to each net", rank_, ports,
                           ports == 1 ? "" : "s");
  }
  // Calls by multicast meet by the headers of plain halves, and have no payload there.
  std::uint64_t plain_range = runtime_.reports_ends() ? 0 : limits_.two_shot_range;
  if (!runtime_.reports_ends() && limits_.no_multicast.empty()) {
    plain_range = std::max(plain_range, kChunkGrainBytes);
  }
  const auto limit = config_.duration("timeouts.bootstrap");
  return connections_->connect(
      {.rings = rings_,
       .slots = {.steps = limits_.steps, .step_bytes = limits_.step_bytes},
       .net_ports = ports,
       .direct_bytes = limits_.direct_bytes,
       .direct_parts = direct_parts_,
       .wide_bytes = limits_.wide_bytes,
       .two_shot_range = plain_range},
      [this](std::uint32_t peer) { return choice_with(peer); }, *bootstrap_,
      limit ? Deadline::after(*limit) : Deadline::never());
}

}  // namespace weft
