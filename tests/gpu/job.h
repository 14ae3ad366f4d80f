// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A process for each rank: this program starts itself as the ranks of a job, with the environment
// that a launcher sets. The tests RankOfJob are what such a rank does; without a job they are left
// out.
#pragma once

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/operations.h"
#include "tests/gpu/team.h"
#include "tests/gpu/trial.h"
#include "tests/support/process.h"

extern char** environ;

namespace weft::gpu_test {

using Environment = std::map<std::string, std::optional<std::string>>;

/// So that nobody takes the lines of a rank's GoogleTest for this one's.
inline std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

inline std::chrono::seconds patience_of_ranks() {
  return std::chrono::seconds(options().patience > 20 ? options().patience - 10 : 10);
}

/// Of this process what the library reads.
inline Environment environment_of_library() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::size_t equals = text.find('=');
    if (text.starts_with("WEFT_")) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

/// This program with its options, as a rank that runs the test RankOfJob.`name`.
inline std::vector<std::string> arguments_of_rank(const std::string& name, bool one_device) {
  const Options& own = options();
  std::vector<std::string> arguments{"/proc/self/exe", "--gtest_filter=RankOfJob." + name,
                                     "--seed=" + std::to_string(own.seed),
                                     "--largest=" + std::to_string(own.largest),
                                     "--patience=" + std::to_string(patience_of_ranks().count())};
  if (!own.algorithm.empty()) arguments.push_back("--algorithm=" + own.algorithm);
  if (!own.protocol.empty()) arguments.push_back("--protocol=" + own.protocol);
  for (const auto& [key, value] : own.settings)
    arguments.push_back("--set=" + key + "=" + value);
  if (own.small) arguments.emplace_back("--small");
  if (own.host) arguments.emplace_back("--host");
  if (own.operation) arguments.push_back("--operation=" + std::string(name_of(*own.operation)));
  if (!own.windows.empty()) arguments.push_back("--windows=" + own.windows);
  if (one_device) arguments.emplace_back("--one-device");
  return arguments;
}

/// What CUDA knows device `device` of this process by.
inline std::string visible_device(std::uint32_t device) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return std::to_string(device);
  std::istringstream names(visible);
  std::string name;
  for (std::uint32_t i = 0; i <= device; ++i)
    std::getline(names, name, ',');
  return name;
}

/// What a rank that made all-reduces ends with: how many, and a hash of their results.
inline constexpr const char* kBitsLine = "BITS ";
inline void say_bits(const OwnBits& bits) {
  if (bits.results != 0) std::cout << kBitsLine << bits.results << " " << bits.hash << std::endl;
}
inline std::string bits_line(const std::string& out) {
  const std::size_t begin = out.rfind(kBitsLine);
  return begin == std::string::npos ? "none" : out.substr(begin, out.find('\n', begin) - begin);
}

/// Where ranks are. Of several hosts each has as many, who take the others for ranks of other
/// machines.
struct Placement {
  std::uint32_t hosts = 1;
  bool sees_own_device_alone = false;  ///< As launchers have it that divide a host's devices.
};

/// The ranks of one job as processes that run the test RankOfJob.`name`.
class Job {
 public:
  Job(const Layout& layout, const std::string& name, const Environment& extra = {},
      const Placement& placement = {}) {
    Environment environment = environment_of_library();
    environment["WEFT_WORLD_SIZE"] = std::to_string(layout.ranks);
    environment["WEFT_ROOT"] = "127.0.0.1:" + std::to_string(reserve_port());
    environment["WEFT_SECRET"] = random_hex(64);
    for (const auto& [key, value] : extra)
      environment[key] = value;
    const std::vector<std::string> arguments =
        arguments_of_rank(name, layout.one_device || placement.sees_own_device_alone);
    for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
      environment["WEFT_RANK"] = environment["WEFT_LOCAL_RANK"] = std::to_string(rank);
      if (placement.hosts > 1)
        environment["WEFT_HOST_ID"] = std::to_string(rank * placement.hosts / layout.ranks);
      if (placement.sees_own_device_alone)
        environment["CUDA_VISIBLE_DEVICES"] = visible_device(rank);
      ranks_.push_back(std::make_unique<test::Process>(
          test::Command{.arguments = arguments, .environment = environment, .input = {}}));
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { close(port_); }

  test::Process& operator[](std::size_t rank) { return *ranks_[rank]; }

  /// Waits for all, and compares the bits of their all-reduces. A test that a rank skipped makes
  /// this test a skipped one.
  void expect_success() {
    const auto deadline =
        std::chrono::steady_clock::now() + patience_of_ranks() + std::chrono::seconds(5);
    std::string skipped;
    std::string failures;
    std::string bits;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto left = deadline - std::chrono::steady_clock::now();
      const test::Outcome outcome =
          ranks_[rank]->wait(std::chrono::duration_cast<std::chrono::milliseconds>(left));
      if (outcome.out.find("[  SKIPPED ]") != std::string::npos) skipped = outcome.out;
      if (outcome.exit_status != 0) {
        failures += "rank " + std::to_string(rank) + ": " + outcome.describe() + "\n";
        continue;
      }
      const std::string own = bits_line(outcome.out);
      if (rank == 0) bits = own;
      if (!bits.empty() && own != bits) {
        failures += "ranks 0 and " + std::to_string(rank) +
                    " got different bits of all-reduces: " + bits + " and " + own + "\n";
      }
    }
    if (!failures.empty()) {
      ADD_FAILURE() << indented(failures);
      return;
    }
    if (!skipped.empty()) GTEST_SKIP() << indented(skipped);
  }

 private:
  /// Bound, not listening, until the job is over: rank 0 listens there, and no other program.
  int reserve_port() {
    port_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(port_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(port_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    if (bind(port_, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        getsockname(port_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("no port of 127.0.0.1 can be had");
    }
    return ntohs(address.sin_port);
  }
  static std::string random_hex(std::size_t digits) {
    std::random_device random;
    std::string text;
    while (text.size() < digits)
      text += "0123456789abcdef"[random() % 16];
    return text;
  }

  int port_ = -1;
  std::vector<std::unique_ptr<test::Process>> ranks_;
};

/// In a process of its own.
inline Layout layout_of_job() {
  const char* ranks = std::getenv("WEFT_WORLD_SIZE");
  if (ranks == nullptr) throw std::runtime_error("this is no rank of a job");
  return {static_cast<std::uint32_t>(std::strtoul(ranks, nullptr, 10)), options().one_device};
}

}  // namespace weft::gpu_test
