// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/job_environment.h"

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <optional>
#include <sodium.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/bootstrap/socket_address.h"
#include "core/model/ring_geometry.h"

namespace weft {
namespace {

struct Launcher {
  std::string_view name;
  std::string_view rank;
  std::string_view world_size;
  std::string_view local_rank;
};

// The first whose rank variable is set counts.
constexpr std::array kLaunchers{
    Launcher{"weft run", "WEFT_RANK", "WEFT_WORLD_SIZE", "WEFT_LOCAL_RANK"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
};

Result<std::string_view> variable(const EnvironmentMap& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("the environment variable {} is not set", name),
                "start the program by: weft run -n N -- PROGRAM");
  }
  return std::string_view(found->second);
}

Result<int> number(const EnvironmentMap& environment, std::string_view name, int low, int high) {
  WEFT_TRY_ASSIGN(const std::string_view text, variable(environment, name));
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("the environment variable {} is \"{}\", which is no "
                                               "number from {} to {}",
                                               name, text.substr(0, 64), low, high));
  }
  return value;
}

Status read_root(const EnvironmentMap& environment, JobEnvironment& job) {
  WEFT_TRY_ASSIGN(const std::string_view text, variable(environment, "WEFT_ROOT"));
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
  return {};
}

Status read_secret(const EnvironmentMap& environment, JobEnvironment& job) {
  WEFT_TRY_ASSIGN(const std::string_view text, variable(environment, "WEFT_SECRET"));
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
  const Launcher* launcher = kLaunchers.data();
  for (const Launcher& candidate : kLaunchers) {
    if (!environment.contains(candidate.rank)) continue;
    launcher = &candidate;
    break;
  }
  JobEnvironment job;
  job.launcher = launcher->name;
  constexpr auto kMost = static_cast<int>(kMaxRanks);
  WEFT_TRY_ASSIGN(job.rank, number(environment, launcher->rank, 0, kMost - 1));
  WEFT_TRY_ASSIGN(job.world_size, number(environment, launcher->world_size, 1, kMost));
  WEFT_TRY_ASSIGN(job.local_rank, number(environment, launcher->local_rank, 0, kMost - 1));
  if (job.rank >= job.world_size) {
    return fail(WEFT_ERROR_CONFIG,
                fmt::format("the environment variable {} is {}, but {} is {}", launcher->rank,
                            job.rank, launcher->world_size, job.world_size));
  }
  WEFT_TRY(read_root(environment, job));
  WEFT_TRY(read_secret(environment, job));
  return job;
}

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
    contents.roots.push_back(*address);
  }
  if (contents.roots.empty()) {
    return fail(WEFT_ERROR_NETWORK,
                fmt::format("cannot find the address of \"{}\" (WEFT_ROOT): {}", job.root_host,
                            error == 0 ? "it has none that can be used" : gai_strerror(error)),
                "write a numeric address into WEFT_ROOT");
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
