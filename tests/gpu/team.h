// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The ranks of one communicator on CUDA devices, as many of them as this process holds, driven by a
// thread each or by one thread for all.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "tests/gpu/device.h"

namespace weft::gpu_test {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Options {
  std::uint64_t seed = 0;
  std::string algorithm, protocol;              ///< Of all-reduce on devices; empty: the default.
  Settings settings;                            ///< Of all communicators of devices.
  bool small = false;                           ///< Few and small calls, for slow checkers.
  std::size_t largest = std::size_t{64} << 20;  ///< Bytes of a call.
  int patience = 60;                            ///< Seconds for a test, then it is broken off.
  bool one_device = false;                      ///< Of a rank's process: all ranks on device 0.
  bool host = false;                            ///< The host device stands in for CUDA's.
  std::optional<Operation> operation;           ///< Where tests try all of them: this one.
  std::string
      windows;  ///< Outputs lie in windows, of memory of "weft" or of "cuda"; empty: in none.
};
/// Set by main.
Options& options();

enum class Mode : std::uint8_t {
  kThreads,    ///< A thread for each rank.
  kOneThread,  ///< One for all, with groups.
  kProcess,    ///< This process is one rank, as its environment says.
};

struct Layout {
  std::uint32_t ranks = 1;
  bool one_device = false;  ///< All on device 0; else rank i on device i.

  [[nodiscard]] bool possible() const {
    return device_count() >= static_cast<int>(one_device ? 1 : ranks);
  }
  [[nodiscard]] std::string name() const {
    return std::to_string(ranks) + (one_device ? "OnOneDevice" : "");
  }
};
std::ostream& operator<<(std::ostream& out, const Layout& layout);

/// A rank of this process.
struct Member {
  std::uint32_t rank = 0;
  int device = 0;
  cudaStream_t cuda = nullptr;
  weft_comm* comm = nullptr;
  weft_stream* stream = nullptr;
};

struct CommConfig {
  explicit CommConfig(Settings given) : settings(std::move(given)) {
    for (const auto& [name, value] : settings) {
      pointers.push_back(name.c_str());
      pointers.push_back(value.c_str());
    }
    config.struct_size = sizeof(config);
    config.setting_count = static_cast<std::uint32_t>(settings.size());
    config.settings = pointers.data();
  }
  CommConfig(const CommConfig&) = delete;
  CommConfig& operator=(const CommConfig&) = delete;

  const Settings settings;
  std::vector<const char*> pointers;
  weft_comm_config config{};
};

/// Every function throws Problem where a call fails.
class Team {
 public:
  Team(Mode mode, const Layout& layout, const Settings& settings = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// Whether what its calls add up goes by rank numbers: collectives.deterministic.
  [[nodiscard]] bool by_rank() const { return by_rank_; }
  [[nodiscard]] std::vector<Member>& members() { return members_; }

  using Action = std::function<void(Member&)>;
  /// Does it for each member, on its device: at once, or in turn where one thread has all.
  void each(const Action& action);
  /// The same for calls: where one thread has all, within a group.
  void issue(const Action& action);
  /// weft_stream_synchronize of all.
  void synchronize();
  /// Destroys the communicators.
  void leave();
  /// weft_comm_abort on all communicators of all teams of this process.
  static void abort_all();
  /// Of all teams of this process: whose streams have work. For when something hangs.
  static std::string tell_streams();

 private:
  void join(const Settings& settings);

  const Mode mode_;
  const Layout layout_;
  bool by_rank_ = false;
  std::vector<Member> members_;
};

}  // namespace weft::gpu_test
