// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A call of a team on buffers of its own: made, and all that it may have written looked at.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <weft/weft.h>

#include "tests/gpu/team.h"
#include "tests/gpu/values.h"

namespace weft::gpu_test {

/// The same again and again, with new inputs. Outlives neither the team nor calls under way.
class Trial {
 public:
  Trial(Team& team, const Call& call);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] const Call& call() const { return call_; }

  /// New inputs for all ranks, buffers filled and poisoned.
  void prepare(std::uint64_t seed);
  /// The call itself, on the member's stream unless another is named.
  void issue(Member& member, weft_stream* stream = nullptr);
  /// Judges what all members have got. After synchronize.
  void check();

  /// All of the above.
  void run(std::uint64_t seed);

  /// What a member receives into, for those who want to spoil it; null where there is nothing.
  [[nodiscard]] Zone* received(const Member& member) { return ranks_[member.rank].recv.get(); }

 private:
  struct Rank {
    Buffers buffers;
    std::unique_ptr<Zone> send;  // null in place; both where another process holds the rank
    std::unique_ptr<Zone> recv;
    std::unique_ptr<Zone> factor;  // that is read by each call
    weft_reduction reduction = WEFT_SUM;
    std::deque<weft_window*> windows{};  // that its buffers lie in
    Bytes send_before, recv_before;
  };

  void make_reduction(const Member& member);
  void register_windows();
  void register_window(Member& member, std::byte* buffer, std::size_t bytes);
  void fill(const Member& member, int poison);
  [[nodiscard]] std::string wrong_with(const Rank& own, std::span<const std::byte> got) const;
  void check(Member& member);
  void check_bits() const;
  void note_bits() const;

  Team& team_;
  const Call call_;
  std::vector<Rank> ranks_;
  Reduced reduced_;
  std::vector<std::span<const std::byte>> got_;  // by rank
};

/// The bits that this process' ranks had of all all-reduces so far, of teams by processes: how many
/// there were, and a hash. All ranks of a job have the same.
struct OwnBits {
  std::uint64_t results = 0;
  std::uint64_t hash = 0;
};
[[nodiscard]] OwnBits own_bits();

}  // namespace weft::gpu_test
