// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The options of a subcommand that name a call: its element type, its reduction, its root.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model/operation.h"

namespace CLI {  // NOLINT(readability-identifier-naming): that library's own
class App;
}

namespace weft::tool {

/// The operations that `weft bench` and `weft explain` know.
inline constexpr std::array kKnownOperations = {Operation::kAllReduce, Operation::kBroadcast,
                                                Operation::kAllGather, Operation::kReduceScatter,
                                                Operation::kReduce};
/// Those that `weft explain` knows besides: exchanges, what has one way alone, and, as kSend, a
/// send of each rank to the next one.
inline constexpr std::array kMoreExplained = {
    Operation::kAllToAll,   Operation::kAllToAllV,      Operation::kGather, Operation::kScatter,
    Operation::kAllGatherV, Operation::kReduceScatterV, Operation::kSend};

struct CallOptions {
  std::string type_text = "float32";
  std::string reduction_text = "sum";
  std::uint32_t root = 0;

  [[nodiscard]] weft_data_type type() const;
  [[nodiscard]] weft_reduction reduction() const;
};

/// The options by which a program narrows the ways of a call; empty or 0: as without them.
struct WayWords {
  std::string algorithm;
  std::string protocol;
  std::uint32_t max_channels = 0;

  [[nodiscard]] WayOptions options() const;
};

/// Adds them; `words` outlives the parsing.
void add_way_options(CLI::App& command, WayWords& words);
/// The limit of channels alone, of calls that go one way.
void add_limit_option(CLI::App& command, WayWords& words);

/// The same as words of a command line.
[[nodiscard]] std::vector<std::string> words_of(const WayWords& words);

/// Adds those that `operation` has; `options` outlives the parsing.
void add_call_options(CLI::App& command, Operation operation, CallOptions& options);

/// The same as words of a command line.
[[nodiscard]] std::vector<std::string> words_of(Operation operation, const CallOptions& options);

/// Elements of a call that is said to have `bytes` bytes: of its larger buffer, as nccl-tests
/// counts.
[[nodiscard]] std::uint64_t count_for(Operation operation, std::uint64_t bytes, weft_data_type type,
                                      std::uint32_t ranks);

}  // namespace weft::tool
