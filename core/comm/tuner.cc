// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/tuner.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxNoticeText = std::size_t{4} * 1024;

weft_tuner_operation operation_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return WEFT_TUNER_ALL_REDUCE;
    case Operation::kBroadcast:
      return WEFT_TUNER_BROADCAST;
    case Operation::kAllGather:
    case Operation::kAllGatherV:
      return WEFT_TUNER_ALL_GATHER;
    case Operation::kReduceScatter:
    case Operation::kReduceScatterV:
      return WEFT_TUNER_REDUCE_SCATTER;
    case Operation::kReduce:
      return WEFT_TUNER_REDUCE;
    default:
      return WEFT_TUNER_SEND_RECV;
  }
}

weft_tuner_algorithm algorithm_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return WEFT_TUNER_RING;
    case Algorithm::kTree:
      return WEFT_TUNER_TREE;
    case Algorithm::kPat:
      return WEFT_TUNER_PAT;
    case Algorithm::kDirect:
      return WEFT_TUNER_ONE_SHOT;
    case Algorithm::kTwoShot:
      return WEFT_TUNER_TWO_SHOT;
    case Algorithm::kMulticast:
      return WEFT_TUNER_IN_NETWORK;
    default:
      return WEFT_TUNER_DIRECT;
  }
}

weft_tuner_protocol protocol_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLL:
      return WEFT_TUNER_LL;
    case Protocol::kLL128:
      return WEFT_TUNER_LL128;
    case Protocol::kSimple:
      break;
  }
  return WEFT_TUNER_SIMPLE;
}

weft_tuner_question question_of(const Task& task, std::uint32_t ranks, std::uint32_t max_channels) {
  weft_tuner_question question{};
  question.struct_size = sizeof(question);
  question.operation = operation_of(task.operation);
  question.type = task.type;
  // Plugins know the constants of weft_reduction.
  const weft_reduction reduction = task.reduction == kPremulSum ? WEFT_SUM : task.reduction;
  question.reduction = reduces(task.operation) ? reduction : -1;
  question.bytes = task.bytes();
  question.total_bytes = task.bytes() * ranks;  // The planner keeps both far from overflow.
  question.root = task.root;
  const std::uint32_t allowed = task.options.max_channels;
  question.cta_budget = allowed == 0 ? max_channels : std::min(max_channels, allowed);
  question.group_size = 1;
  return question;
}

weft_tuner_offer offer_of(const Offer& offer, std::uint32_t id) {
  weft_tuner_offer out{};
  out.struct_size = sizeof(out);
  out.id = id;
  out.algorithm = algorithm_of(offer.algorithm);
  out.protocol = protocol_of(offer.protocol);
  out.path = WEFT_TUNER_PATH_SM;
  out.min_channels = 1;
  out.max_channels = offer.max_channels;
  out.channel_step = 1;
  // Chunks and threads are the host's: nothing to choose.
  out.host_estimate_ns =
      static_cast<std::uint64_t>(std::clamp(offer.predicted_us * 1e3, 1.0, 1e18));
  return out;
}

/// "the table a.yaml of plugin tuner (version 1, hash 00ff)".
std::string describe(const TunerNotice& notice) {
  if (notice.plugin.empty()) {
    if (notice.missing.empty()) return "the built-in costs";
    return fmt::format("the built-in costs (it has no tuner: {})", notice.missing);
  }
  return fmt::format("the table {} of plugin {} (version {}, hash {:016x})", notice.table.name,
                     notice.plugin, notice.table.version, notice.table.hash);
}

}  // namespace

std::vector<std::byte> encode_notice(const TunerNotice& notice) {
  return encode_document(json::array({notice.plugin, notice.table.version, notice.table.hash,
                                      notice.table.name, notice.unusable.substr(0, kMaxNoticeText),
                                      notice.missing.substr(0, kMaxNoticeText)}));
}

Result<TunerNotice> decode_notice(std::span<const std::byte> bytes) {
  try {
    const json document = decode_document(bytes);
    const auto whole = [&](std::size_t at) {
      if (!document.at(at).is_number_unsigned()) throw std::invalid_argument("no whole number");
      return document.at(at).get<std::uint64_t>();
    };
    TunerNotice notice{
        .plugin = document.at(0).get<std::string>(),
        .table = {.version = whole(1), .hash = whole(2), .name = document.at(3).get<std::string>()},
        .unusable = document.at(4).get<std::string>(),
        .missing = document.at(5).get<std::string>()};
    const auto is_long = [](const std::string& text) { return text.size() > kMaxNoticeText; };
    if (is_long(notice.plugin) || is_long(notice.table.name) || is_long(notice.unusable) ||
        is_long(notice.missing)) {
      return fail(WEFT_ERROR_PEER, "a peer named a tuner by a text that is too long",
                  "run the same version of weft on every rank");
    }
    return notice;
  } catch (const std::exception& error) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("a peer sent a malformed notice of its tuner: {}", error.what()),
                "run the same version of weft on every rank");
  }
}

Status check_tuners(std::span<const TunerNotice> notices) {
  for (std::size_t rank = 0; rank < notices.size(); ++rank) {
    if (notices[rank].unusable.empty()) continue;
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("rank {} cannot use its tuner: {}", rank, notices[rank].unusable));
  }
  for (std::size_t rank = 1; rank < notices.size(); ++rank) {
    const TunerNotice& first = notices[0];
    const TunerNotice& other = notices[rank];
    if (first.plugin == other.plugin && first.table.version == other.table.version &&
        first.table.hash == other.table.hash) {
      continue;
    }
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("ranks would plan differently: rank 0 by {}, rank {} by {}",
                            describe(first), rank, describe(other)),
                "install the same plugins and the same table on every host");
  }
  return {};
}

Tuner::Tuner(TunerPlugin plugin, weft_tuner* tuner, const TunerScene& scene)
    : plugin_(std::move(plugin)),
      tuner_(tuner),
      ranks_(scene.topology.rank_count()),
      max_channels_(scene.limits.max_channels) {}

Tuner::~Tuner() {
  plugin_.close(tuner_);
}

Result<std::unique_ptr<Tuner>> Tuner::open(const Plugin& plugin, const TunerScene& scene) {
  WEFT_TRY_ASSIGN(TunerPlugin wrapped, TunerPlugin::wrap(plugin));
  const Topology& topology = scene.topology;
  std::size_t largest = 0;
  for (std::uint32_t host = 0; host < topology.hosts.size(); ++host)
    largest = std::max(largest, topology.ranks_on_host(host).size());
  weft_tuner_open_info info{};
  info.struct_size = sizeof(info);
  info.ranks = topology.rank_count();
  info.hosts = static_cast<std::uint32_t>(topology.hosts.size());
  info.ranks_per_host = static_cast<std::uint32_t>(largest);
  info.max_channels = scene.limits.max_channels;
  info.traffic_class = -1;
  info.communicator = scene.communicator;
  info.device = topology.ranks[0].device.c_str();
  info.link_stride = sizeof(weft_tuner_link);
  WEFT_TRY_ASSIGN(weft_tuner * handle, wrapped.open(info));
  std::unique_ptr<Tuner> tuner(new Tuner(std::move(wrapped), handle, scene));
  WEFT_TRY_ASSIGN(tuner->table_, tuner->plugin_.table(handle));
  return tuner;
}

std::string Tuner::name() const {
  return table_.name.empty() ? plugin_context(plugin_.id()) : table_.name;
}

Result<std::vector<Judgement>> Tuner::judge(const Task& task, std::span<const Offer> offers) {
  const weft_tuner_question question = question_of(task, ranks_, max_channels_);
  std::vector<weft_tuner_offer> asked;
  asked.reserve(offers.size());
  for (const Offer& offer : offers)
    asked.push_back(offer_of(offer, static_cast<std::uint32_t>(asked.size())));
  WEFT_TRY_ASSIGN(const auto answers, plugin_.evaluate(tuner_, question, asked));
  std::vector<Judgement> judgements(offers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Judgement& judgement = judgements[i];
    judgement.never = answers[i].time_ns == UINT64_MAX;
    if (answers[i].time_ns != 0 && !judgement.never)
      judgement.us = static_cast<double>(answers[i].time_ns) / 1e3;
    judgement.channels = answers[i].channels;
    judgement.note = plugin_.explain(tuner_, question, asked[i]);
  }
  return judgements;
}

}  // namespace weft
