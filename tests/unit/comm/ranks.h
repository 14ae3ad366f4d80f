// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Several ranks in one process, for tests of communicators: a context with the plugins of the build
// tree, and a communicator and streams for each rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/start.h"
#include "core/comm/stream.h"

namespace weft::test {

/// The environment of a context that finds the build's plugins, and no configuration file.
inline Environment environment_with(std::map<std::string, std::string> variables) {
  const std::string root = WEFT_BUILD_ROOT "/plugins/";
  variables.try_emplace("WEFT_PLUGINS_PATH", root + "p2p," + root + "shm," + root + "net-socket");
  variables.try_emplace("WEFT_TUNER_PLUGIN", "none");
  return {.variables = std::move(variables), .raised_privileges = false, .system_folder = "/none"};
}

class Ranks {
 public:
  /// Joins `count` ranks, connected by `transport` alone; "shm direct" also makes every all-reduce
  /// go directly. What hangs is an error after 10 s.
  Ranks(std::uint32_t count, std::string transport,
        std::map<std::string, std::string> variables = {},
        std::unique_ptr<DeviceRuntime> host_device = nullptr) {
    constexpr std::string_view kDirect = " direct";
    if (transport.ends_with(kDirect)) {
      transport.resize(transport.size() - kDirect.size());
      variables.try_emplace("WEFT_BUFFERS_DIRECT", "64KiB");
      variables.try_emplace("WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "direct");
    }
    variables.try_emplace("WEFT_TRANSPORTS_ORDER", transport);
    variables.try_emplace("WEFT_TIMEOUTS_OPERATION", "10s");
    variables.try_emplace("WEFT_NET_SOCKET_INTERFACES", "=lo");
    context_ =
        value(Context::create("", environment_with(std::move(variables)), std::move(host_device)));
    join(communicators, count);
    for (std::uint32_t rank = 0; rank < count; ++rank)
      streams.push_back(value(Stream::create(*context_)));
  }

  /// One more communicator of all ranks.
  void join(std::vector<std::unique_ptr<Communicator>>& into, std::uint32_t count) {
    const UniqueId id = value(context_->serve_rendezvous(context_->config()));
    into.resize(count);
    std::vector<std::string> errors(count);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        auto joined =
            Communicator::join(*context_, context_->config(), id, rank, count, context_->runtime());
        if (joined) {
          into[rank] = std::move(*joined);
        } else {
          errors[rank] = joined.error().to_string();
        }
      });
    }
    for (auto& thread : threads)
      thread.join();
    for (const auto& error : errors)
      if (!error.empty()) throw std::runtime_error(error);
  }

  [[nodiscard]] Context& context() { return *context_; }

  /// An all-reduce of float32 by sum, in place, on the rank's stream.
  [[nodiscard]] Call all_reduce(std::uint32_t rank, std::span<float> place) const {
    return {.communicator = communicators[rank].get(),
            .stream = streams[rank].get(),
            .task = {.operation = Operation::kAllReduce,
                     .type = WEFT_FLOAT32,
                     .reduction = WEFT_SUM,
                     .count = place.size()},
            .send = place.data(),
            .recv = place.data()};
  }

  template <typename T>
  static T value(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().to_string());
    return std::move(*result);
  }

 private:
  std::unique_ptr<Context> context_;

 public:
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Communicator>> communicators;  ///< By rank; go before the streams.
};

/// The text of an error; empty for success.
inline std::string text_of(const Status& status) {
  return status ? "" : status.error().to_string();
}

}  // namespace weft::test
