// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The bytes are JSON: nlohmann-json's text parser keeps its own stack, while its binary readers
// recurse once per level of nesting, which a peer chooses.
#include "core/topology/codec.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/topology/discover.h"
#include "core/topology/pci_tree.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kFormatVersion = 4;

Json to_json(const std::vector<CpuRange>& cpus) {
  Json json = Json::array();
  for (const CpuRange& range : cpus)
    json.push_back({range.first, range.last});
  return json;
}

// Nodes of a tree are many and travel to every rank: as lists, without names of their fields.
Json to_json(const NumaNode& node) {
  return Json::array({node.number, node.memory_bytes, to_json(node.cpus)});
}

Json to_json(const PciNode& node) {
  const Json place = node.kind != PciKind::kRoot ? Json(node.parent)
                     : node.numa_node            ? Json(*node.numa_node)
                                                 : Json();
  return Json::array({static_cast<std::uint32_t>(node.kind), node.address, place, node.bridges});
}

Json to_json(const NicInfo& nic) {
  Json json = {{"name", nic.name}, {"pci", nic.pci_path}, {"addresses", nic.addresses}};
  if (!nic.prefixes.empty()) json["prefixes"] = nic.prefixes;
  if (nic.up) json["up"] = *nic.up;
  if (nic.loopback) json["loopback"] = true;
  if (nic.is_virtual) json["virtual"] = true;
  if (nic.speed_mbps) json["speed_mbps"] = *nic.speed_mbps;
  if (nic.numa_node) json["numa_node"] = *nic.numa_node;
  return json;
}

Json to_json(const HostInfo& host) {
  Json nics = Json::array();
  for (const NicInfo& nic : host.nics)
    nics.push_back(to_json(nic));
  Json numa_nodes = Json::array();
  for (const NumaNode& node : host.numa_nodes)
    numa_nodes.push_back(to_json(node));
  Json pci = Json::array();
  for (const PciNode& node : host.pci)
    pci.push_back(to_json(node));
  return {{"host_id", host.host_id},
          {"host_name", host.host_name},
          {"boot_id", host.boot_id},
          {"packages", host.packages},
          {"numa_nodes", std::move(numa_nodes)},
          {"pci", std::move(pci)},
          {"cores", host.cores},
          {"hardware_threads", host.hardware_threads},
          {"memory_bytes", host.memory_bytes},
          {"l2_bytes", host.l2_bytes},
          {"l3_bytes", host.l3_bytes},
          {"nics", std::move(nics)}};
}

Json to_json(const RankInfo& rank) {
  Json json = {{"rank", rank.rank},
               {"host", rank.host},
               {"pid", rank.pid},
               {"process", rank.process},
               {"local_index", rank.local_index},
               {"device", rank.device},
               {"device_pci", rank.device_pci},
               {"memory_fabric", rank.memory_fabric},
               {"cores", rank.cores},
               {"cpus", to_json(rank.cpus)}};
  if (!rank.device_id.empty()) json["device_id"] = rank.device_id;
  if (rank.cpu_limit != 0) {
    json["cpu_limit"] = rank.cpu_limit;
    json["cpu_group"] = rank.cpu_group;
  }
  return json;
}

/// Reads one object field by field. After a first mistake it keeps that error and answers defaults,
/// so that callers read on without asking each time.
class Reader {
 public:
  Reader(const Json& json, std::string path, std::optional<std::string>& mistake)
      : json_(json), path_(std::move(path)), mistake_(mistake) {
    if (!json_.is_object()) refuse("", "is not an object");
  }

  template <typename Integer>
  Integer number(const char* key, std::uint64_t most = std::numeric_limits<Integer>::max()) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > most) {
      refuse(key, fmt::format("is not a number from 0 to {}", most));
      return 0;
    }
    return static_cast<Integer>(value->get<std::uint64_t>());
  }

  [[nodiscard]] bool has(const char* key) const { return json_.is_object() && json_.contains(key); }

  std::optional<std::uint32_t> optional_number(const char* key) {
    if (!has(key)) return std::nullopt;
    return number<std::uint32_t>(key);
  }

  std::optional<bool> optional_boolean(const char* key) {
    if (!has(key)) return std::nullopt;
    return boolean(key);
  }

  bool boolean(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) {
      refuse(key, "is neither true nor false");
      return false;
    }
    return value->get<bool>();
  }

  std::string text(const char* key) {
    const Json* value = find(key);
    return value == nullptr ? std::string() : checked_text(key, *value);
  }

  std::string checked_text(const char* key, const Json& value) {
    if (!value.is_string()) {
      refuse(key, "is not text");
      return {};
    }
    const auto& text = value.get_ref<const std::string&>();
    // Names end up in logs and on terminals.
    const bool printable =
        std::ranges::all_of(text, [](unsigned char byte) { return byte >= 0x20 && byte != 0x7f; });
    if (text.size() > kMaxTextLength || !printable) {
      refuse(key, fmt::format("is longer than {} bytes or not printable", kMaxTextLength));
      return {};
    }
    return text;
  }

  /// An empty list after a mistake.
  const Json& list(const char* key, std::size_t most) {
    const Json* value = find(key);
    if (value == nullptr) return empty_;
    if (!value->is_array() || value->size() > most) {
      refuse(key, fmt::format("is not a list of at most {}", most));
      return empty_;
    }
    return *value;
  }

  Reader object(const char* key) {
    const Json* value = find(key);
    return {value == nullptr ? empty_ : *value, path_ + key + ".", mistake_};
  }
  Reader element(const char* key, const Json& value) {
    return {value, path_ + key + "[].", mistake_};
  }

  void refuse(std::string_view key, std::string_view why) {
    if (!mistake_) mistake_ = fmt::format("\"{}{}\" {}", path_, key, why);
  }

 private:
  const Json* find(const char* key) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    if (found == json_.end()) {
      refuse(key, "is missing");
      return nullptr;
    }
    return &*found;
  }

  const Json& json_;
  std::string path_;
  std::optional<std::string>& mistake_;
  const Json empty_ = Json::array();
};

bool is_number(const Json& json, std::uint64_t most) {
  return json.is_number_unsigned() && json.get<std::uint64_t>() <= most;
}

std::vector<std::uint8_t> read_prefixes(Reader& reader, std::size_t addresses) {
  constexpr const char* kKey = "prefixes";
  std::vector<std::uint8_t> prefixes;
  if (!reader.has(kKey)) return prefixes;
  for (const Json& prefix : reader.list(kKey, kMaxAddresses)) {
    if (!is_number(prefix, 128)) {
      reader.refuse(kKey, "holds something else than lengths from 0 to 128");
      return {};
    }
    prefixes.push_back(prefix.get<std::uint8_t>());
  }
  if (!prefixes.empty() && prefixes.size() != addresses) {
    reader.refuse(kKey, "is not one for each address");
    return {};
  }
  return prefixes;
}

NicInfo read_nic(Reader reader) {
  NicInfo nic;
  nic.name = reader.text("name");
  nic.speed_mbps = reader.optional_number("speed_mbps");
  nic.numa_node = reader.optional_number("numa_node");
  nic.pci_path = reader.text("pci");
  for (const Json& address : reader.list("addresses", kMaxAddresses)) {
    nic.addresses.push_back(reader.checked_text("addresses", address));
  }
  nic.prefixes = read_prefixes(reader, nic.addresses.size());
  nic.up = reader.optional_boolean("up");
  nic.loopback = reader.optional_boolean("loopback").value_or(false);
  nic.is_virtual = reader.optional_boolean("virtual").value_or(false);
  return nic;
}

std::vector<CpuRange> read_cpus(Reader& reader, const char* key, const Json& list) {
  std::vector<CpuRange> cpus;
  if (!list.is_array() || list.size() > kMaxCpuRanges) {
    reader.refuse(key, "holds no list of CPUs");
    return cpus;
  }
  for (const Json& range : list) {
    if (!range.is_array() || range.size() != 2 || !is_number(range[1], kMaxCpus - 1) ||
        !is_number(range[0], range[1].get<std::uint64_t>())) {
      reader.refuse(key, "holds something else than pairs of ascending CPU numbers");
      break;
    }
    const CpuRange next{.first = range[0].get<std::uint32_t>(),
                        .last = range[1].get<std::uint32_t>()};
    if (!cpus.empty() && next.first <= cpus.back().last) {
      reader.refuse(key, "is not ascending");
      break;
    }
    cpus.push_back(next);
  }
  return cpus;
}

std::vector<NumaNode> read_numa_nodes(Reader& reader) {
  constexpr const char* kKey = "numa_nodes";
  std::vector<NumaNode> nodes;
  for (const Json& item : reader.list(kKey, kMaxNumaNodes)) {
    if (!item.is_array() || item.size() != 3 || !is_number(item[0], kMaxCpus - 1) ||
        !item[1].is_number_unsigned()) {
      reader.refuse(kKey, "holds something else than number, memory and CPUs of a node");
      break;
    }
    NumaNode node{.number = item[0].get<std::uint32_t>(),
                  .memory_bytes = item[1].get<std::uint64_t>(),
                  .cpus = read_cpus(reader, kKey, item[2])};
    if (!nodes.empty() && node.number <= nodes.back().number) {
      reader.refuse(kKey, "is not ascending");
      break;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<PciNode> read_pci(Reader& reader) {
  constexpr const char* kKey = "pci";
  std::vector<PciNode> nodes;
  for (const Json& item : reader.list(kKey, kMaxPciNodes)) {
    if (!item.is_array() || item.size() != 4 ||
        !is_number(item[0], static_cast<std::uint32_t>(PciKind::kGpu)) ||
        !(item[2].is_null() || is_number(item[2], kMaxCpus - 1)) ||
        !is_number(item[3], kMaxBridges)) {
      reader.refuse(kKey, "holds something else than kind, address, place and bridges of a node");
      return {};
    }
    PciNode node{.kind = static_cast<PciKind>(item[0].get<std::uint32_t>()),
                 .address = reader.checked_text(kKey, item[1]),
                 .bridges = item[3].get<std::uint32_t>()};
    node.parent = static_cast<std::uint32_t>(nodes.size());
    if (node.kind != PciKind::kRoot) {
      node.parent = item[2].is_null() ? node.parent : item[2].get<std::uint32_t>();
    } else if (!item[2].is_null()) {
      node.numa_node = item[2].get<std::uint32_t>();
    }
    nodes.push_back(std::move(node));
  }
  if (is_forest(nodes)) return nodes;
  // Who asks for paths walks up the tree.
  reader.refuse(kKey, "is no forest with parents first");
  return {};
}

HostInfo read_host(Reader reader) {
  HostInfo host;
  host.host_id = reader.text("host_id");
  if (!check_host_id(host.host_id)) reader.refuse("host_id", "is no host id");
  host.host_name = reader.text("host_name");
  host.boot_id = reader.text("boot_id");
  host.packages = reader.number<std::uint32_t>("packages", kMaxCpus);
  host.numa_nodes = read_numa_nodes(reader);
  host.pci = read_pci(reader);
  host.cores = reader.number<std::uint32_t>("cores", kMaxCpus);
  host.hardware_threads = reader.number<std::uint32_t>("hardware_threads", kMaxCpus);
  host.memory_bytes = reader.number<std::uint64_t>("memory_bytes");
  host.l2_bytes = reader.number<std::uint64_t>("l2_bytes");
  host.l3_bytes = reader.number<std::uint64_t>("l3_bytes");
  for (const Json& nic : reader.list("nics", kMaxNics)) {
    host.nics.push_back(read_nic(reader.element("nics", nic)));
  }
  return host;
}

RankInfo read_rank(Reader reader) {
  RankInfo rank;
  rank.rank = reader.number<std::uint32_t>("rank", kMaxRanks - 1);
  rank.host = reader.number<std::uint32_t>("host", kMaxRanks - 1);
  rank.pid = reader.number<std::uint64_t>("pid");
  rank.process = reader.text("process");
  if (rank.process.empty()) reader.refuse("process", "is empty");
  rank.local_index = reader.number<std::uint32_t>("local_index");
  rank.device = reader.text("device");
  rank.device_pci = reader.text("device_pci");
  if (reader.has("device_id")) rank.device_id = reader.text("device_id");
  rank.memory_fabric = reader.text("memory_fabric");
  if (!rank.memory_fabric.empty() && !check_fabric_id(rank.memory_fabric)) {
    reader.refuse("memory_fabric", "is no fabric id");
  }
  rank.cores = reader.number<std::uint32_t>("cores", kMaxCpus);
  rank.cpus = read_cpus(reader, "cpus", reader.list("cpus", kMaxCpuRanges));
  if (reader.has("cpu_limit")) {
    rank.cpu_limit = reader.number<std::uint32_t>("cpu_limit", kMaxCpus);
    rank.cpu_group = reader.text("cpu_group");
    if (rank.cpu_limit == 0 || rank.cpu_group.empty()) {
      reader.refuse("cpu_limit", "is none of a control group");
    }
  }
  return rank;
}

template <typename T>
Result<T> checked(T value, const std::optional<std::string>& mistake) {
  if (mistake) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT, "not a description of ranks and hosts: " + *mistake);
  }
  return value;
}

Result<Json> parse(std::span<const std::byte> bytes, std::size_t most) {
  if (bytes.size() > most) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("a description of ranks and hosts of {} bytes, {} are allowed",
                            bytes.size(), most));
  }
  const auto* first = reinterpret_cast<const char*>(bytes.data());
  Json json = Json::parse(first, first + bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                "not a description of ranks and hosts: it cannot be parsed",
                "check that all ranks run the same version of Weft");
  }
  return json;
}

std::vector<std::byte> to_bytes(const Json& json) {
  // Names from the system need not be UTF-8.
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

void check_version(Reader& reader) {
  if (reader.number<std::uint32_t>("version") != kFormatVersion) {
    reader.refuse("version", fmt::format("is not {}", kFormatVersion));
  }
}

}  // namespace

Result<std::vector<std::byte>> encode_report(const RankReport& report) {
  std::vector<std::byte> bytes = to_bytes({{"version", kFormatVersion},
                                           {"rank", to_json(report.rank)},
                                           {"host", to_json(report.host)}});
  WEFT_TRY(decode_report(bytes));
  return bytes;
}

Result<RankReport> decode_report(std::span<const std::byte> bytes) {
  WEFT_TRY_ASSIGN(const Json json, parse(bytes, kMaxReportBytes));
  std::optional<std::string> mistake;
  Reader reader(json, "", mistake);
  check_version(reader);
  RankReport report;
  report.rank = read_rank(reader.object("rank"));
  report.host = read_host(reader.object("host"));
  return checked(std::move(report), mistake);
}

Result<std::vector<std::byte>> encode(const Topology& topology) {
  Json hosts = Json::array();
  for (const HostInfo& host : topology.hosts)
    hosts.push_back(to_json(host));
  Json ranks = Json::array();
  for (const RankInfo& rank : topology.ranks)
    ranks.push_back(to_json(rank));
  std::vector<std::byte> bytes = to_bytes(
      {{"version", kFormatVersion}, {"hosts", std::move(hosts)}, {"ranks", std::move(ranks)}});
  WEFT_TRY(decode(bytes));
  return bytes;
}

Result<Topology> decode(std::span<const std::byte> bytes) {
  WEFT_TRY_ASSIGN(const Json json, parse(bytes, kMaxTopologyBytes));
  std::optional<std::string> mistake;
  Reader reader(json, "", mistake);
  check_version(reader);
  Topology topology;
  for (const Json& host : reader.list("hosts", kMaxRanks)) {
    topology.hosts.push_back(read_host(reader.element("hosts", host)));
    if (mistake) break;
  }
  for (const Json& rank : reader.list("ranks", kMaxRanks)) {
    topology.ranks.push_back(read_rank(reader.element("ranks", rank)));
    if (topology.ranks.back().rank + 1 != topology.ranks.size()) {
      reader.refuse("ranks", "are not numbered from 0");
    }
    if (topology.ranks.back().host >= topology.hosts.size()) {
      reader.refuse("ranks", "name a host that does not exist");
    }
    if (mistake) break;
  }
  return checked(std::move(topology), mistake);
}

}  // namespace weft
