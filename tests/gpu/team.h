// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The ranks of one communicator on CUDA devices, as many of them as this process holds, driven by a
// thread each or by one thread for all; and the same on the host device, to compare with.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include <weft/weft.h>

#include "tests/gpu/values.h"

namespace weft::gpu_test {

struct Options {
  std::uint64_t seed = 0;
  std::string algorithm, protocol;              ///< Of all-reduce on devices; empty: the default.
  bool small = false;                           ///< Few and small calls, for slow checkers.
  std::size_t largest = std::size_t{64} << 20;  ///< Bytes of a call.
  int patience = 60;                            ///< Seconds for a test, then it is broken off.
  bool one_device = false;                      ///< Of a rank's process: all ranks on device 0.
};
/// Set by main.
Options& options();

/// A call that went wrong.
class Problem : public std::runtime_error {
 public:
  Problem(weft_result code, const std::string& text) : std::runtime_error(text), code(code) {}
  weft_result code;
};
/// This build or path has no such kernel.
class Unsupported : public Problem {
  using Problem::Problem;
};

void check(cudaError_t error, const char* what);
#define CUDA(call) check(call, #call)

/// The context of this process, made at the first use.
weft_context* context();
/// The text of this thread's last failure.
std::string last_error();
void check(weft_result result, const std::string& what);

/// 0 where there is no driver.
int device_count();

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

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Every function throws Problem where a call fails.
class Team {
 public:
  Team(Mode mode, const Layout& layout, const Settings& settings = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
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

 private:
  void join(const Settings& settings);

  const Mode mode_;
  const Layout layout_;
  std::vector<Member> members_;
};

/// Device memory, zones of poison on both sides of what a call may touch.
class Zone {
 public:
  Zone(int device, std::size_t bytes, std::size_t offset);
  ~Zone();
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

  [[nodiscard]] std::byte* data() const { return memory_ + kGuard + offset_; }
  /// Poisons everything, then puts `content` in, if it is not empty.
  void write(const Bytes& content, int poison, cudaStream_t stream);
  /// Reads everything back; answers the content. Throws if a guard was touched.
  std::span<const std::byte> read(cudaStream_t stream);

 private:
  static constexpr std::size_t kGuard = 4096;

  const int device_;
  const std::size_t bytes_;
  const std::size_t offset_;
  std::size_t capacity_ = 0;
  std::byte* memory_ = nullptr;
  int poison_ = 0;
  Bytes image_;
};

/// What the host device makes of a call on these inputs.
Bytes expected_by_host(const Call& call, const std::vector<Bytes>& inputs);
/// Before main ends.
void forget_context();

/// One call of a team on buffers of its own, again and again with new inputs.
class Trial {
 public:
  Trial(Team& team, const Call& call);

  /// New inputs for all ranks, buffers filled and poisoned.
  void prepare(std::uint64_t seed);
  /// The call itself.
  void issue(Member& member);
  /// Judges what all members have got. After synchronize.
  void check();

  /// All of the above.
  void run(std::uint64_t seed);

 private:
  struct Buffers {
    std::unique_ptr<Zone> send;
    std::unique_ptr<Zone> recv;
  };
  Buffers& buffers(const Member& member) { return buffers_[member.rank]; }

  Team& team_;
  const Call call_;
  std::vector<Buffers> buffers_;  // by rank; empty where another process holds it
  std::vector<Bytes> inputs_;
  Bytes expected_;
};

}  // namespace weft::gpu_test
