// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The lane model: policies that run the kernels' templates with many lanes, each a fiber that a
// thread sanitizer takes for a thread, so that it sees the roles, barriers and flags that a GPU's
// lanes would share. It proves nothing of how a GPU or its links order memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/device/lane_loops.h"
#include "core/device/policies.h"
#include "core/device/reductions.h"
#include "core/model/direct_peers.h"
#include "core/model/multicast.h"
#include "tests/device/lane_fibers.h"

namespace weft::device::testing {

/// As std::barrier, but that only its own words order lanes.
class LaneBarrier {
 public:
  explicit LaneBarrier(std::uint32_t lanes) : lanes_(lanes) {}
  /// Not `orders`: lanes meet, and nothing of what they wrote is promised to be seen.
  void arrive_and_wait(bool orders = true) {
    const auto acquire = orders ? std::memory_order_acquire : std::memory_order_relaxed;
    const auto release = orders ? std::memory_order_release : std::memory_order_relaxed;
    const std::uint32_t phase = phase_.load(acquire);
    const std::uint32_t before =
        arrived_.fetch_add(1, orders ? std::memory_order_acq_rel : std::memory_order_relaxed);
    if (before + 1 == lanes_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, release);
      LaneFibers::wake(waiting_);
      return;
    }
    while (phase_.load(acquire) == phase)
      LaneFibers::wait(waiting_);
  }

 private:
  const std::uint32_t lanes_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> phase_{0};
  LaneFibers::Waiting waiting_;
};

inline constexpr std::uint32_t kMostLanes = 32;

// The defects that the model must find, planted at compile time. Data still arrives on x86; the
// order is not promised.
#ifdef WEFT_LANE_MODEL_PLANTED_BUG
inline constexpr bool kPlantedRelaxedFlag = true;
#else
inline constexpr bool kPlantedRelaxedFlag = false;
#endif
#ifdef WEFT_LANE_MODEL_PLANTED_MISSING_BARRIER
inline constexpr bool kPlantedMissingBarrier = true;
#else
inline constexpr bool kPlantedMissingBarrier = false;
#endif

/// What the lanes of one group share. `planted`: they have the defect, if one is planted.
struct LaneTeam {
  explicit LaneTeam(std::uint32_t lanes, bool planted = true)
      : size(lanes), lacks_barriers(kPlantedMissingBarrier && planted), barrier(lanes) {}
  const std::uint32_t size;
  const bool lacks_barriers;
  LaneBarrier barrier;
  std::uint64_t told[2] = {0, 0};
  bool come[2][kMostLanes / kWideLineLanes] = {};
  std::atomic<bool> raised[3] = {};
  std::uint32_t votes[kMostLanes] = {};  ///< Each lane's.
};

/// One lane's handle; lane 0 leads.
class LaneGroup {
 public:
  LaneGroup(LaneTeam& team, std::uint32_t rank) : team_(team), rank_(rank) {}

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return team_.size; }
  [[nodiscard]] bool leader() const { return rank_ == 0; }
  void sync() {
    if (!team_.lacks_barriers) wait_for_all();
  }
  std::uint64_t broadcast(std::uint64_t value) {
    // Two places in turn: the next broadcast must not overwrite what a slow lane still reads, and
    // its barrier shows that all have read before the one after it.
    std::uint64_t& place = team_.told[turn_];
    turn_ = 1 - turn_;
    if (leader()) place = value;
    wait_for_all();
    return place;
  }
  bool any(bool flag) {
    // Without a barrier it is a vote still: lanes that went different ways would wait for ever.
    const bool orders = !team_.lacks_barriers;
    // Three places in turn, so that one barrier does, as on a GPU: whoever has passed it knows that
    // all have read the place of the vote before, which is next but one.
    const std::uint32_t vote = team_.votes[rank_]++ % 3;
    if (flag) team_.raised[vote].store(true, std::memory_order_relaxed);
    team_.barrier.arrive_and_wait(orders);
    if (leader()) team_.raised[(vote + 2) % 3].store(false, std::memory_order_relaxed);
    return team_.raised[vote].load(std::memory_order_relaxed);
  }
  // All lanes are one gang.
  [[nodiscard]] std::uint32_t gang_size() const { return team_.size; }
  bool any_of_gang(bool flag) { return any(flag); }
  static void gather_gang() {}  // looks gather lanes by themselves
  /// Of eight lanes that share a line: what the last of them says. All lanes call it.
  bool told_by_last(bool come) {
    // Two places in turn, as of broadcast().
    bool& place = team_.come[turn_][rank_ / kWideLineLanes];
    turn_ = 1 - turn_;
    if (rank_ % kWideLineLanes + 1 == kWideLineLanes) place = come;
    wait_for_all();
    return place;
  }

 private:
  void wait_for_all() { team_.barrier.arrive_and_wait(); }

  LaneTeam& team_;
  const std::uint32_t rank_;
  std::uint32_t turn_ = 0;
};

class LaneMemory {
 public:
  static constexpr bool kCombinesRanks = true;
  static constexpr std::uint32_t kLineBytesAtOnce = 0;
  static constexpr bool kOrdersWideLines = true;

  /// `planted`: as of LaneTeam.
  explicit LaneMemory(const std::atomic<std::uint32_t>& abort, bool planted = true)
      : abort_(abort),
        release_(kPlantedRelaxedFlag && planted ? std::memory_order_relaxed
                                                : std::memory_order_release) {}

  static std::uint64_t load_acquire(std::uint64_t* counter) {
    return std::atomic_ref<std::uint64_t>(*counter).load(std::memory_order_acquire);
  }
  void store_release(std::uint64_t* counter, std::uint64_t value) const {
    LaneFibers::storing();
    std::atomic_ref<std::uint64_t>(*counter).store(value, release_);
  }
  void post(std::uint64_t* counter, std::uint32_t*, std::uint64_t value) const {
    store_release(counter, value);
  }
  static void give_up(std::uint32_t* word, std::uint32_t reason) {
    LaneFibers::storing();
    if (word != nullptr) std::atomic_ref<std::uint32_t>(*word).store(reason);
  }
  WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t*, std::uint64_t threshold,
                           std::uint32_t* error) {
    for (;;) {
      if (abort_.load(std::memory_order_acquire) != 0) {
        return {.status = WaitStatus::kAborted, .value = 0};
      }
      const std::uint64_t seen = load_acquire(counter);
      if (seen >= threshold) return {.status = WaitStatus::kReady, .value = seen};
      const std::uint32_t word =
          std::atomic_ref<std::uint32_t>(*error).load(std::memory_order_acquire);
      if (word != 0) return {.status = WaitStatus::kPeerError, .value = word};
      LaneFibers::look_again({.what = "a counter", .counter = counter, .threshold = threshold});
    }
  }

  static std::uint32_t load_word(std::uint32_t* word) {
    return std::atomic_ref<std::uint32_t>(*word).load(std::memory_order_acquire);
  }
  static void store_word(std::uint32_t* word, std::uint32_t value) {
    LaneFibers::storing();
    std::atomic_ref<std::uint32_t>(*word).store(value, std::memory_order_release);
  }
  [[nodiscard]] KernelOutcome pause(std::uint32_t /*turn*/) const {
    if (abort_.load(std::memory_order_acquire) != 0) {
      return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
    }
    LaneFibers::look_again({.what = "any of several counters or words"});
    return {};
  }

  // All ranks' memory is this process'.
  [[nodiscard]] static KernelOutcome read_peer(const ConnectionView& /*view*/, std::byte* to,
                                               std::uint64_t address, std::uint64_t bytes) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as another process would name it.
    std::memcpy(to, reinterpret_cast<const std::byte*>(address), bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    return {};
  }

  static Line load_line(const std::byte* from) {
    Line line;
    std::memcpy(&line, from, sizeof(line));
    return line;
  }
  static void store_line(std::byte* to, Line line) { std::memcpy(to, &line, sizeof(line)); }
  static Line load_words(const std::byte* from) {
    auto* words = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
    return {.low = std::atomic_ref(words[0]).load(std::memory_order_relaxed),
            .high = std::atomic_ref(words[1]).load(std::memory_order_relaxed)};
  }
  static void store_words(std::byte* to, Line line) {
    LaneFibers::storing();
    auto* words = reinterpret_cast<std::uint64_t*>(to);
    std::atomic_ref(words[0]).store(line.low, std::memory_order_relaxed);
    std::atomic_ref(words[1]).store(line.high, std::memory_order_relaxed);
  }
  static bool look_again(std::uint32_t turn) {
    LaneFibers::look_again({.what = "a line of a slot"});
    return turn < 8;
  }
  // Lanes do not store together: the flag follows the payload of the other lanes, and payload is
  // looked at behind its flag alone, so that a sanitizer sees what nothing orders.
  void store_wide(LaneGroup& group, std::byte* to, Line share, bool last) const {
    auto* words = reinterpret_cast<std::uint64_t*>(to);
    if (to != nullptr) words[0] = share.low;
    if (to != nullptr && !last) words[1] = share.high;
    group.sync();
    if (to != nullptr && last) store_release(&words[1], share.high);
  }
  static Line load_wide(LaneGroup& group, const std::byte* from, std::uint64_t flag, bool last) {
    auto* words = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from));
    Line share{};
    if (from != nullptr && last) share.high = load_acquire(&words[1]);
    if (!group.told_by_last(share.high == flag) || from == nullptr) return share;
    share.low = words[0];
    if (!last) share.high = words[1];
    return share;
  }
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  [[nodiscard]] KernelOutcome why_leave(const DirectPeers& peers) const {
    if (abort_.load(std::memory_order_acquire) != 0) {
      return {.end = KernelEnd::kAborted, .peer = 0, .expected = 0, .found = 0};
    }
    for (std::uint32_t rank = 0; rank < peers.ranks; ++rank) {
      if (peers.error[rank] == nullptr) continue;
      const auto word = std::atomic_ref<std::uint32_t>(*peers.error[rank]).load();
      if (word != 0) {
        return {.end = KernelEnd::kPeerError, .peer = rank, .expected = 0, .found = word};
      }
    }
    return {};
  }
  [[nodiscard]] KernelOutcome keep_waiting(std::uint32_t /*turn*/, const DirectPeers& peers) const {
    LaneFibers::look_again({.what = "words of an inbox"});
    return why_leave(peers);
  }
  // What a switch gives is rounded before it is divided.
  template <class T, class Op, bool kAverages>
  static Line reduce_load(const TypedReduction<T, Op, kAverages>& reduction,
                          const MulticastView& view, std::uint64_t at) {
    using Unfinished = TypedReduction<T, Op>;
    const auto of = [&view, at](std::uint32_t rank) { return load_line(view.each[rank] + at); };
    Line sum = of(0);
    if constexpr (may_accumulate<Unfinished>) {
      sum = Unfinished{}.template accumulate_ranks<kMostDirectRanks>(view.ranks, of);
    } else {
      for (std::uint32_t rank = 1; rank < view.ranks; ++rank)
        sum = combine_lines<Unfinished>(sum, of(rank));
    }
    return finish_line(reduction, sum);
  }
  static void store_all(const MulticastView& view, std::uint64_t at, Line line) {
    for (std::uint32_t rank = 0; rank < view.ranks; ++rank)
      store_line(view.each[rank] + at, line);
  }
  static void join_addresses() {}
  void copy(LaneGroup& group, std::byte* first, std::byte* second, const std::byte* source,
            std::uint64_t bytes) {
    lane_copy(group, *this, first, second, source, bytes);
  }
  template <class R>
  void reduce(const R& reduction, LaneGroup& group, std::byte* first, std::byte* second,
              const std::byte* a, const std::byte* b, std::uint64_t count) {
    lane_reduce(reduction, group, *this, first, second, a, b, count);
  }
  template <class R>
  static void finish(const R& reduction, LaneGroup& group, std::byte* first, std::byte* second,
                     std::uint64_t count) {
    lane_finish(reduction, group, first, second, count);
  }

 private:
  const std::atomic<std::uint32_t>& abort_;
  const std::memory_order release_;
};

/// Memory that is given counters to post, as that of GPUs.
class PostingLaneMemory : public LaneMemory {
 public:
  using LaneMemory::LaneMemory;

  void publish(LaneGroup& group, const StepPosts& posts) const {
    group.sync();
    if (!group.leader()) return;
    if (posts.slot != nullptr) *posts.slot = posts.meta;
    if (posts.tail != nullptr) store_release(posts.tail, posts.filled);
    if (posts.head != nullptr) store_release(posts.head, posts.freed);
  }
};
static_assert(posts_apart<PostingLaneMemory, LaneGroup> && !posts_apart<LaneMemory, LaneGroup>);

/// A peer that has failed, and whose tail comes only when a lane has been told of that.
class TailAfterError : public LaneMemory {
 public:
  using LaneMemory::LaneMemory;
  WaitResult wait_at_least(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t threshold,
                           std::uint32_t* error) {
    const WaitResult result = LaneMemory::wait_at_least(counter, waiters, threshold, error);
    if (result.status != WaitStatus::kReady) store_release(counter, threshold);
    return result;
  }
};

}  // namespace weft::device::testing
