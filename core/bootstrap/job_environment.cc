// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/job_environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <optional>
#include <sodium.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/bootstrap/node_list.h"
#include "core/bootstrap/socket_address.h"
#include "core/model/ring_geometry.h"

namespace weft {
namespace {

// Above the ports that Linux gives to outgoing connections by default.
constexpr std::uint32_t kFirstDerivedPort = 61000;
constexpr std::uint32_t kDerivedPorts = 65536 - kFirstDerivedPort;
constexpr auto kMostRanks = static_cast<int>(kMaxRanks);

// An empty value counts as unset. An empty name is that of nothing.
std::optional<std::string_view> value_of(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return std::string_view(found->second);
}

std::unexpected<Error> not_set(const Launcher& launcher, std::string_view name,
                               std::string_view hint) {
  std::string what = fmt::format("the environment variable {} is not set", name);
  if (launcher.rank != "WEFT_RANK") {
    what += fmt::format(" (the rank comes from {}, by {})", launcher.name, launcher.rank);
  }
  return fail(WEFT_ERROR_CONFIG, std::move(what), std::string(hint));
}

Result<int> number(const Launcher& launcher, const EnvironmentMap& environment,
                   std::string_view name, int low, int high) {
  const auto text = value_of(environment, name);
  if (!text) return not_set(launcher, name, launcher.start_hint);
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < low || value > high) {
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("the environment variable {} is \"{}\", which is no "
                            "number from {} to {}",
                            name, text->substr(0, 64), low, high),
                std::string(launcher.start_hint));
  }
  return value;
}

Status read_root(std::string_view text, JobEnvironment& job) {
  const auto reject = [text] {
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("the environment variable WEFT_ROOT is \"{}\", which is no HOST:PORT",
                            text.substr(0, 256)),
                "write 10.0.0.1:29500, node1:29500 or [fd00::1]:29500");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return reject();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return reject();
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), job.root_port);
  if (error != std::errc{} || end != port.data() + port.size() || job.root_port == 0 ||
      host.empty()) {
    return reject();
  }
  job.root_host = host;
  job.root_source = "WEFT_ROOT";
  return {};
}

// All ranks of a job answer alike: if every rank is on this host, the others see that, too.
Result<bool> on_one_host(const Launcher& launcher, const EnvironmentMap& environment,
                         const JobEnvironment& job) {
  if (job.world_size == 1) return true;
  if (value_of(environment, launcher.local_size)) {
    WEFT_TRY_ASSIGN(const int here,
                    number(launcher, environment, launcher.local_size, 1, kMostRanks));
    return here == job.world_size;
  }
  if (value_of(environment, launcher.host_count)) {
    WEFT_TRY_ASSIGN(const int hosts,
                    number(launcher, environment, launcher.host_count, 1, kMostRanks));
    return hosts == 1;
  }
  return false;
}

// Where the launcher says that ranks can meet, but for the port.
Status find_root(const Launcher& launcher, const EnvironmentMap& environment, JobEnvironment& job) {
  WEFT_TRY_ASSIGN(const bool one_host, on_one_host(launcher, environment, job));
  if (one_host) {
    job.root_host = "127.0.0.1";
    job.root_source = launcher.name;
    return {};
  }
  const auto text = value_of(environment, launcher.root_host);
  if (!text) return not_set(launcher, "WEFT_ROOT", launcher.root_hint);
  if (!launcher.first_of_list) {
    // getaddrinfo takes no longer name.
    if (text->size() > 253) {
      return fail(WEFT_ERROR_CONFIG,
                  fmt::format("the environment variable {} is \"{}...\", which is no host",
                              launcher.root_host, text->substr(0, 64)),
                  std::string(launcher.root_hint));
    }
    job.root_host = *text;
  } else {
    // Then rank 0 may be on any node of the list.
    constexpr std::string_view kDistribution = "SLURM_DISTRIBUTION";
    if (value_of(environment, kDistribution).value_or("").starts_with("arbitrary")) {
      return fail(WEFT_ERROR_CONFIG,
                  fmt::format("the environment variable WEFT_ROOT is not set, and as {} is "
                              "\"arbitrary\", nothing tells the host of rank 0",
                              kDistribution),
                  std::string(launcher.root_hint));
    }
    const auto first = first_node(*text);
    if (!first) {
      return fail(WEFT_ERROR_CONFIG,
                  fmt::format("the environment variable {} is \"{}\", which is no list of nodes",
                              launcher.root_host, text->substr(0, 256)),
                  std::string(launcher.root_hint));
    }
    job.root_host = *first;
  }
  job.root_source = launcher.root_host;
  return {};
}

Status read_secret(std::string_view text, JobEnvironment& job) {
  std::size_t size = 0;
  const char* end = nullptr;
  if (sodium_hex2bin(reinterpret_cast<unsigned char*>(job.secret.data()), job.secret.size(),
                     text.data(), text.size(), nullptr, &size, &end) != 0 ||
      size != job.secret.size() || end != text.data() + text.size()) {
    // The value is not shown: it is a secret.
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("the environment variable WEFT_SECRET is not made of {} hexadecimal "
                            "digits",
                            2 * job.secret.size()),
                "openssl rand -hex 32, once for the whole job");
  }
  return {};
}

// Jobs that share a WEFT_SECRET still have secrets and ports of their own, as far as the launcher
// tells them apart.
Status mix_in_job(const Launcher& launcher, const EnvironmentMap& environment,
                  JobEnvironment& job) {
  std::string name = "job";
  for (const std::string_view variable : launcher.job) {
    if (const auto value = value_of(environment, variable)) {
      name += fmt::format(" {}={}", variable, *value);
    }
  }
  if (name == "job") return {};
  WEFT_TRY_ASSIGN(job.secret, derive_secret(job.secret, name, 0));
  return {};
}

Status derive_port(JobEnvironment& job) {
  WEFT_TRY_ASSIGN(const Secret bits, derive_secret(job.secret, "port", 0));
  const auto value = std::to_integer<std::uint32_t>(bits[0]) << 16U |
                     std::to_integer<std::uint32_t>(bits[1]) << 8U |
                     std::to_integer<std::uint32_t>(bits[2]);
  job.root_port = static_cast<std::uint16_t>(kFirstDerivedPort + value % kDerivedPorts);
  job.derived_port = true;
  return {};
}

}  // namespace

EnvironmentMap current_environment() {
  EnvironmentMap result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

Result<JobEnvironment> read_job_environment(const EnvironmentMap& environment) {
  const Launcher& launcher = find_launcher(environment);
  JobEnvironment job;
  job.launcher = launcher.name;
  WEFT_TRY_ASSIGN(job.rank, number(launcher, environment, launcher.rank, 0, kMostRanks - 1));
  WEFT_TRY_ASSIGN(job.world_size,
                  number(launcher, environment, launcher.world_size, 1, kMostRanks));
  if (job.rank >= job.world_size) {
    return fail(
        WEFT_ERROR_CONFIG,
        fmt::format("the environment variable {} is {}, but {} is {}", launcher.rank, job.rank,
                    launcher.world_size, job.world_size),
        fmt::format("ranks count from 0 to {}; {}", job.world_size - 1, launcher.start_hint));
  }
  if (value_of(environment, launcher.local_rank)) {
    WEFT_TRY_ASSIGN(job.local_rank,
                    number(launcher, environment, launcher.local_rank, 0, kMostRanks - 1));
  }
  const auto root = value_of(environment, "WEFT_ROOT");
  if (root) {
    WEFT_TRY(read_root(*root, job));
  } else {
    WEFT_TRY(find_root(launcher, environment, job));
  }
  if (const auto secret = value_of(environment, "WEFT_SECRET")) {
    WEFT_TRY(read_secret(*secret, job));
    WEFT_TRY(mix_in_job(launcher, environment, job));
  } else if (job.world_size == 1) {
    WEFT_TRY_ASSIGN(job.secret, random_secret());
  } else {
    return not_set(launcher, "WEFT_SECRET", launcher.secret_hint);
  }
  if (!root) WEFT_TRY(derive_port(job));
  return job;
}

namespace {

// Systems let a host's own name stand for 127.0.0.1 or ::1 in its /etc/hosts, where the other hosts
// know it by another address. As one that is not this host alone it is listened for on all.
SocketAddress at_home(const SocketAddress& address, std::string_view name) {
  constexpr std::array<std::string_view, 4> kAlwaysThisHost = {"localhost", "localhost.localdomain",
                                                               "ip6-localhost", "ip6-loopback"};
  const bool means_this_host = std::ranges::find(kAlwaysThisHost, name) != kAlwaysThisHost.end();
  if (means_this_host || !address.is_this_host()) return address;
  return SocketAddress::parse("127.0.1.1", address.port).value_or(address);
}

}  // namespace

Result<UniqueId> unique_id_of(const JobEnvironment& job, std::uint64_t instance) {
  UniqueIdContents contents;
  WEFT_TRY_ASSIGN(contents.secret, derive_secret(job.secret, "communicator", instance));
  if (const auto literal = SocketAddress::parse(job.root_host, job.root_port)) {
    contents.roots.push_back(*literal);
    return make_unique_id(contents);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int error = getaddrinfo(job.root_host.c_str(), nullptr, &hints, &raw);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(raw, &freeaddrinfo);
  for (const addrinfo* entry = error == 0 ? raw : nullptr; entry != nullptr;
       entry = entry->ai_next) {
    auto address = SocketAddress::from_native(entry->ai_addr);
    if (!address || contents.roots.size() == kMaxRootAddresses) continue;
    if (address->family == SocketAddress::Family::kV6 && address->is_link_local()) continue;
    address->port = job.root_port;
    const SocketAddress root = at_home(*address, job.root_host);
    if (std::ranges::find(contents.roots, root) != contents.roots.end()) continue;
    contents.roots.push_back(root);
  }
  if (contents.roots.empty()) {
    return fail(
        WEFT_ERROR_NETWORK,
        fmt::format("cannot find the address of \"{}\" ({}): {}", job.root_host, job.root_source,
                    error == 0 ? "it has none that can be used" : gai_strerror(error)),
        "write a numeric address into WEFT_ROOT: 10.0.0.1:29500");
  }
  return make_unique_id(contents);
}

std::string secret_to_hex(const Secret& secret) {
  std::array<char, 2 * sizeof(Secret) + 1> text{};
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(secret.data()),
                 secret.size());
  return text.data();
}

}  // namespace weft
