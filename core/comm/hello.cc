// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/hello.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/config/config.h"
#include "core/transport/document.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxText = std::size_t{64} * 1024;
constexpr const char* kSameVersion = "run the same version of weft on every rank";

std::optional<std::uint32_t> number(const json& document, std::size_t place) {
  const json& value = document.at(place);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > UINT32_MAX) return std::nullopt;
  return value.get<std::uint32_t>();
}

std::optional<std::vector<std::string>> read_line_peers(const json& list) {
  if (!list.is_array() || list.size() > kMostLinePeers) return std::nullopt;
  std::vector<std::string> peers;
  for (const json& peer : list) {
    if (!peer.is_string()) return std::nullopt;
    peers.push_back(peer.get<std::string>());
    if (peers.back().empty() || peers.back().size() > kMostLinePeerBytes) return std::nullopt;
  }
  return peers;
}

}  // namespace

std::vector<std::byte> encode_hello(const Hello& hello) {
  std::vector<std::uint8_t> report(hello.report.size());
  if (!report.empty()) std::memcpy(report.data(), hello.report.data(), report.size());
  return encode_document(json::array(
      {hello.version, hello.agreed_settings, json::binary(std::move(report)), hello.device_groups,
       hello.line_bytes, hello.other_communicators, hello.line_peers}));
}

Result<Hello> decode_hello(std::span<const std::byte> bytes) {
  try {
    const json document = decode_document(bytes);
    Hello hello{.version = document.at(0).get<std::string>(),
                .agreed_settings = document.at(1).get<std::string>(),
                .report = {},
                .device_groups = 0,
                .line_bytes = 8,
                .other_communicators = 0};
    const auto groups = number(document, 3);
    const auto line_bytes = number(document, 4);
    const auto communicators = number(document, 5);
    if (!groups || !line_bytes || !communicators) {
      return fail(WEFT_ERROR_PEER,
                  "a peer sent a greeting with a wrong number of groups, bytes or communicators",
                  kSameVersion);
    }
    hello.device_groups = *groups;
    hello.line_bytes = *line_bytes;
    hello.other_communicators = *communicators;
    auto line_peers = read_line_peers(document.at(6));
    if (!line_peers) {
      return fail(WEFT_ERROR_PEER, "a peer sent a greeting with a wrong list of devices",
                  kSameVersion);
    }
    hello.line_peers = std::move(*line_peers);
    const auto& report = document.at(2).get_binary();
    if (hello.version.size() > kMaxText || hello.agreed_settings.size() > kMaxText) {
      return fail(WEFT_ERROR_PEER, "a peer sent a greeting that is too long", kSameVersion);
    }
    hello.report.resize(report.size());
    if (!report.empty()) std::memcpy(hello.report.data(), report.data(), report.size());
    return hello;
  } catch (const std::exception& error) {
    return fail(WEFT_ERROR_PEER, fmt::format("a peer sent a malformed greeting: {}", error.what()),
                kSameVersion);
  }
}

Status check_agreement(std::span<const Hello> hellos) {
  for (std::size_t rank = 1; rank < hellos.size(); ++rank) {
    if (hellos[rank].version != hellos[0].version) {
      return fail(WEFT_ERROR_MISMATCH,
                  fmt::format("rank 0 runs weft {}, rank {} runs weft {}", hellos[0].version, rank,
                              hellos[rank].version),
                  "install one version of weft on every host");
    }
    if (hellos[rank].agreed_settings != hellos[0].agreed_settings) {
      return fail(
          WEFT_ERROR_CONFIG,
          fmt::format("ranks are configured differently, with rank 0 as here and rank {} "
                      "as there: {}",
                      rank,
                      describe_difference(hellos[0].agreed_settings, hellos[rank].agreed_settings)),
          "give every rank the same configuration file and WEFT_ variables");
    }
  }
  return {};
}

}  // namespace weft
