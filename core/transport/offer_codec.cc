// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/offer_codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMaxDeviceName = 256;
constexpr std::size_t kMaxPeerInfo = std::size_t{64} * 1024;
constexpr std::size_t kMaxBlob = std::size_t{1} << 20;
constexpr std::size_t kMaxBlobs = 1U << 16;

json::binary_t to_binary(std::span<const std::byte> bytes) {
  std::vector<std::uint8_t> copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return json::binary_t(std::move(copy));
}

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

std::string text_of(const json& value) {
  auto text = value.get<std::string>();
  require(text.size() <= kMaxText, "a text is too long");
  // Texts end up in logs and on terminals.
  std::ranges::replace_if(
      text, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');
  return text;
}

// The library would cast whatever number stands there.
std::uint64_t number_of(const json& value) {
  require(value.is_number_unsigned(), "not a whole number");
  return value.get<std::uint64_t>();
}

std::vector<std::byte> binary_of(const json& value, std::size_t most) {
  const auto& binary = value.get_binary();
  require(binary.size() <= most, "a block is too large");
  std::vector<std::byte> bytes(binary.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), binary.data(), binary.size());
  return bytes;
}

std::vector<OfferedDevice> devices_of(const json& list) {
  require(list.is_array() && list.size() <= kMaxOfferedDevices, "not a list of devices");
  std::vector<OfferedDevice> devices;
  for (const json& item : list) {
    require(item.is_array() && item.size() == 2, "not a device");
    devices.push_back({.name = text_of(item[0]), .fabric_id = number_of(item[1])});
    require(devices.back().name.size() <= kMaxDeviceName, "the name of a device is too long");
  }
  return devices;
}

ReachAnswers answers_of(const json& list, const json& runs, std::uint32_t ranks) {
  require(list.is_array() && list.size() <= ranks, "more answers than ranks");
  std::vector<ReachAnswer> distinct;
  for (const json& item : list) {
    require(item.is_array() && item.size() == 6, "not an answer");
    distinct.push_back({.reachable = item[0].get<bool>(),
                        .device_memory = item[1].get<bool>(),
                        .single_copy = item[2].get<bool>(),
                        .bandwidth_mbps = number_of(item[3]),
                        .latency_ns = number_of(item[4]),
                        .reason = text_of(item[5])});
  }
  require(runs.is_array(), "not a list of runs");
  std::vector<std::uint32_t> of_rank;
  for (const json& run : runs) {
    require(run.is_array() && run.size() == 2, "not a run");
    const std::uint64_t index = number_of(run[0]);
    const std::uint64_t count = number_of(run[1]);
    require(index < distinct.size(), "a run of an answer that there is not");
    require(count <= ranks - of_rank.size(), "more answers than ranks");
    of_rank.insert(of_rank.end(), count, static_cast<std::uint32_t>(index));
  }
  require(of_rank.size() == ranks, "not an answer for each rank");
  return {std::move(distinct), std::move(of_rank)};
}

// The library throws on malformed input; this is the edge at which that ends.
template <typename Function>
auto decode(const char* what, Function&& function) -> Result<decltype(function())> {
  try {
    return function();
  } catch (const std::exception& error) {
    return fail(WEFT_ERROR_PEER, fmt::format("a peer sent malformed {}: {}", what, error.what()),
                "run the same version of weft on every rank");
  }
}

}  // namespace

std::vector<std::byte> encode_offers(std::span<const TravellingOffer> offers) {
  json list = json::array();
  for (const auto& [offer, peer_info] : offers) {
    json devices = json::array();
    for (const OfferedDevice& device : offer.devices) {
      if (devices.size() == kMaxOfferedDevices) break;
      devices.push_back(json::array({device.name.substr(0, kMaxDeviceName), device.fabric_id}));
    }
    list.push_back(json::array({offer.id, offer.version, static_cast<unsigned>(offer.kind),
                                offer.unusable.substr(0, kMaxText),
                                json::binary(to_binary(peer_info)), std::move(devices)}));
  }
  return encode_document(list);
}

Result<std::vector<TravellingOffer>> decode_offers(std::span<const std::byte> bytes) {
  return decode("offers", [&] {
    const json list = decode_document(bytes);
    require(list.is_array() && list.size() <= kMaxPlugins, "not a list of offers");
    std::vector<TravellingOffer> offers;
    for (const json& item : list) {
      require(item.is_array() && item.size() == 6, "not an offer");
      const std::uint64_t kind = number_of(item[2]);
      require(kind <= static_cast<std::uint64_t>(PluginKind::kNet), "unknown kind of plugin");
      offers.push_back({.offer = {.id = text_of(item[0]),
                                  .version = text_of(item[1]),
                                  .kind = static_cast<PluginKind>(kind),
                                  .unusable = text_of(item[3]),
                                  .devices = devices_of(item[5])},
                        .peer_info = binary_of(item[4], kMaxPeerInfo)});
    }
    return offers;
  });
}

// Of each plugin the answers that differ, and then for runs of ranks which one it is, and how many
// ranks.
std::vector<std::byte> encode_answers(const Answers& answers) {
  json map = json::object();
  for (const auto& [id, list] : answers) {
    json distinct = json::array();
    for (const ReachAnswer& answer : list.distinct()) {
      distinct.push_back(json::array({answer.reachable, answer.device_memory, answer.single_copy,
                                      answer.bandwidth_mbps, answer.latency_ns,
                                      answer.reason.substr(0, kMaxText)}));
    }
    json runs = json::array();
    const auto of_rank = list.of_rank();
    for (std::size_t begin = 0; begin < of_rank.size();) {
      std::size_t end = begin;
      while (end < of_rank.size() && of_rank[end] == of_rank[begin])
        ++end;
      runs.push_back(json::array({of_rank[begin], end - begin}));
      begin = end;
    }
    map[id] = json::array({std::move(distinct), std::move(runs)});
  }
  return encode_document(map);
}

Result<Answers> decode_answers(std::span<const std::byte> bytes, std::uint32_t ranks) {
  return decode("answers", [&] {
    const json map = decode_document(bytes);
    require(map.is_object() && map.size() <= kMaxPlugins, "not a map of answers");
    Answers answers;
    for (const auto& [id, item] : map.items()) {
      require(item.is_array() && item.size() == 2, "not answers and their ranks");
      answers.emplace(id, answers_of(item[0], item[1], ranks));
    }
    return answers;
  });
}

std::vector<std::byte> encode_blobs(const ConnectionBlobs& blobs) {
  json list = json::array();
  for (const auto& [number, blob] : blobs) {
    list.push_back(json::array({number, json::binary(to_binary(blob))}));
  }
  return encode_document(list);
}

Result<ConnectionBlobs> decode_blobs(std::span<const std::byte> bytes) {
  return decode("connection blobs", [&] {
    const json list = decode_document(bytes);
    require(list.is_array() && list.size() <= kMaxBlobs, "not a list of blobs");
    ConnectionBlobs blobs;
    for (const json& item : list) {
      require(item.is_array() && item.size() == 2, "not a blob");
      blobs[number_of(item[0])] = binary_of(item[1], kMaxBlob);
    }
    return blobs;
  });
}

std::vector<std::byte> encode_buffer_offers(const BufferOffers& offers) {
  json list = json::array();
  for (const BufferOffer& offer : offers.offers) {
    list.push_back(json::array({offer.plugin, offer.allocation_id, offer.generation, offer.offset,
                                json::binary(to_binary(offer.blob))}));
  }
  return encode_document(
      json::array({offers.bytes, offers.refusal.substr(0, kMaxText), std::move(list)}));
}

Result<BufferOffers> decode_buffer_offers(std::span<const std::byte> bytes) {
  return decode("offers of buffers", [&] {
    const json document = decode_document(bytes);
    require(document.is_array() && document.size() == 3, "not offers of a buffer");
    require(document[2].is_array() && document[2].size() <= kMaxPlugins, "not a list of offers");
    BufferOffers offers{
        .bytes = number_of(document[0]), .refusal = text_of(document[1]), .offers = {}};
    for (const json& item : document[2]) {
      require(item.is_array() && item.size() == 5, "not an offer of a buffer");
      offers.offers.push_back({.plugin = text_of(item[0]),
                               .allocation_id = number_of(item[1]),
                               .generation = number_of(item[2]),
                               .offset = number_of(item[3]),
                               .blob = binary_of(item[4], kMaxPeerInfo)});
    }
    return offers;
  });
}

}  // namespace weft
