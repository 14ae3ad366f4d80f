// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What algorithms and protocols ask of the machine they run on: a group of lanes that work on one
// item together, and the memory that they share with other groups. A kernel is a template over
// both, so that the host device, the lane model and a GPU run the same source.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "core/device/portability.h"
#include "core/model/direct_peers.h"
#include "core/model/pair_transfer.h"
#include "core/model/work_item.h"

namespace weft::device {

/// The lanes that run one work item. All of them make the same calls in the same order.
///  - rank(), size(): number of this lane, number of lanes.
///  - leader(): true on exactly one lane, the one that waits, checks and posts.
///  - sync(): what any lane wrote before is seen by every lane after.
///  - broadcast(value): the leader's value on every lane; orders memory as sync() does for what
///    the leader wrote or acquired before.
///  - any(flag): on every lane whether it is true on any; a barrier as sync().
template <class T>
concept lane_group = requires(T& group, std::uint64_t value, bool flag) {
  { group.rank() } -> std::convertible_to<std::uint32_t>;
  { group.size() } -> std::convertible_to<std::uint32_t>;
  { group.leader() } -> std::convertible_to<bool>;
  { group.broadcast(value) } -> std::same_as<std::uint64_t>;
  { group.any(flag) } -> std::same_as<bool>;
  group.sync();
};

/// A reduction that may ask for each rank's own input to be multiplied by a factor of that rank,
/// once, where it is first read: `premultiplies()` says whether it does. Memory that runs it has
///  - premultiply_copy(reduction, group, to, input, count);
///  - premultiply_reduce(reduction, group, first, second, other, input, count, input_first): as
///    reduce, of `other` with the multiplied input or, `input_first`, the other way round.
template <class R>
concept may_premultiply = requires(const R& reduction) {
  { reduction.premultiplies() } -> std::same_as<bool>;
};

/// One that does so for the payloads of lines, too.
template <class R>
concept may_premultiply_payloads =
    may_premultiply<R> && requires(const R& reduction, std::uint64_t payload) {
      { reduction.premultiply_payload(payload) } -> std::same_as<std::uint64_t>;
    };

/// Whether this one does.
template <class R>
WEFT_HD constexpr bool premultiplies(const R& reduction) {
  if constexpr (may_premultiply<R>) {
    return reduction.premultiplies();
  } else {
    static_cast<void>(reduction);
    return false;
  }
}

/// A reduction that may combine the elements of several ranks as float32 and round them once, where
/// a kernel has them all: `accumulates()` says whether it does. What lies in a slot between two
/// steps is rounded in each.
///  - accumulate_ranks<kRanks>(ranks, of): the elements, side by side, that `of(rank)` has of each
///    of `ranks` ranks, kRanks at most, combined in the order of rank numbers and finished.
template <class R>
concept may_accumulate = requires(const R& reduction) {
  { reduction.accumulates() } -> std::same_as<bool>;
};

/// Memory that does so for all inputs of a reduction that is looked up when it runs.
///  - accumulate(reduction, group, first, second, from, ranks, own, count): as reduce and finish,
///    of from[0] to from[ranks - 1] in that order, rounded once; what rank `own` has is multiplied
///    first if that is asked for.
template <class T, class G, class R>
concept accumulates_inputs =
    may_accumulate<R> &&
    requires(T& memory, const R& reduction, G& group, std::byte* to, const std::byte* const* from,
             std::uint32_t ranks, std::uint64_t count) {
      memory.accumulate(reduction, group, to, to, from, ranks, ranks, count);
    };

/// 16 bytes that are loaded or stored at once.
struct alignas(16) Line {
  std::uint64_t low;
  std::uint64_t high;
};

enum class WaitStatus : std::uint8_t {
  kReady = 0,
  kAborted = 1,    ///< The abort flag was raised.
  kPeerError = 2,  ///< The error word of the connection is not zero.
};

struct WaitResult {
  WaitStatus status;
  std::uint64_t value;  ///< kReady: the counter. kPeerError: the error word.
};

/// Memory that tells the host that whoever uses it waits for long, and in what.
///  - waits_in(transfer): all lanes; in what they wait from now on, if they do. It stays where it
///    is for as long, and is read once that is told.
template <class T>
concept tells_waits =
    requires(T& memory, const PairTransfer& transfer) { memory.waits_in(transfer); };

/// Memory shared with other groups, and every ordering decision about it.
///  - load_acquire, store_release: a counter alone, without waiting and waking.
///  - wait_at_least(counter, waiters, threshold, error): one lane for each counter; blocks until
///  the counter has
///    reached the threshold (acquire), the abort flag is raised or the error word is not zero.
///  - post(counter, waiters, value): one lane for each counter; publishes the value (release),
///  wakes
///    sleepers.
///  - give_up(word, reason): leader only; stores a reason (not 0) into the error word of another
///    rank; null is ignored, where the host tells it.
///  - load_word, store_word: a word that the host or another rank reads or writes meanwhile.
///  - pause(turn): between looks at counters or words, none of which moved; `turn` counts the
///    looks. An end other than kDone: the kernel must leave.
///  - load_line, store_line: 16 aligned bytes.
///  - copy(group, first, second, source, bytes), reduce(reduction, group, first, second, a, b,
///    count): all lanes; `second` may be null. A destination may be the very address of a source,
///    and must not overlap one otherwise. Pointers are aligned to the element, or to nothing for
///    copy.
///  - finish(reduction, group, first, second, count): all lanes; finishes what lies at `first` in
///    place, and copies it to `second` unless that is null.
template <class T, class G>
concept device_memory = lane_group<G> && requires(T& memory, G& group, std::uint64_t* counter,
                                                  std::uint32_t* word, std::uint64_t value,
                                                  std::byte* to, const std::byte* from, Line line) {
  { memory.load_acquire(counter) } -> std::same_as<std::uint64_t>;
  memory.store_release(counter, value);
  { memory.wait_at_least(counter, word, value, word) } -> std::same_as<WaitResult>;
  memory.post(counter, word, value);
  memory.give_up(word, std::uint32_t{});
  { memory.load_word(word) } -> std::same_as<std::uint32_t>;
  memory.store_word(word, std::uint32_t{});
  { memory.pause(std::uint32_t{}) } -> std::same_as<KernelOutcome>;
  { memory.load_line(from) } -> std::same_as<Line>;
  memory.store_line(to, line);
  memory.copy(group, to, to, from, value);
};

/// What a step posts. What is null is not stored, and `meta` only with `tail`.
struct StepPosts {
  std::uint64_t* tail = nullptr;
  std::uint64_t filled = 0;
  SlotMeta* slot = nullptr;
  SlotMeta meta;
  std::uint64_t* head = nullptr;
  std::uint64_t freed = 0;
};

/// Memory that posts while the lanes go on, where nobody sleeps on counters.
///  - publish(group, posts): all lanes; as sync(), then by one `meta` to `slot` and the tail behind
///    all that lanes wrote, and by one the head behind all that they read.
template <class T, class G>
concept posts_apart =
    requires(T& memory, G& group, const StepPosts& posts) { memory.publish(group, posts); };

/// Memory in which no store of a lane can come before what it read by then, once lanes have met.
///  - give_back(head, freed):
///    one lane for each counter; publishes `freed` behind all that lanes read before they met, and
///    behind nothing that they wrote.
template <class T>
concept gives_back = requires(T& memory, std::uint64_t* head, std::uint64_t freed) {
  memory.give_back(head, freed);
};

/// By one lane, once all have met: those slots may be filled again. Otherwise a post as any other.
template <class Memory>
WEFT_HD void give_back(Memory& memory, std::uint64_t* head, std::uint32_t* waiters,
                       std::uint64_t freed) {
  if constexpr (gives_back<Memory>) {
    memory.give_back(head, freed);
  } else {
    memory.post(head, waiters, freed);
  }
}

/// Memory that fetches lines before they are needed, to be read or to be written.
template <class T>
concept fetches_ahead = requires(const void* read, void* written) {
  T::fetch_to_read(read);
  T::fetch_to_write(written);
};

/// Memory that reads what lies in the process at the other end of a connection.
///  - read_peer(view, to, address, bytes): leader only; copies `bytes` from `address` there. What
///    is loaded afterwards is loaded after all of it. An end other than kDone: the kernel must
///    leave; why is known to the host.
template <class T>
concept reads_peers = requires(T& memory, const ConnectionView& view, std::byte* to,
                               std::uint64_t address, std::uint64_t bytes) {
  { memory.read_peer(view, to, address, bytes) } -> std::same_as<KernelOutcome>;
};

/// Memory whose words tell by themselves that they have come. Any lane calls any of it.
///  - load_words, store_words: 16 aligned bytes as two words of 8, each whole, in no order.
///  - fence(): what this lane stored before is seen by other ranks before what it stores after.
///  - keep_waiting(turn, peers): between looks at words that have not come; `turn` counts the looks
///    from 0. An end other than kDone: the lane must leave.
///  - why_leave(peers): that end, asked again.
///  - give_up: as above; what was stored before it is seen by whoever leaves for it.
template <class T>
concept flagged_memory =
    requires(T& memory, std::byte* to, const std::byte* from, Line line, std::uint32_t* word,
             std::uint32_t turn, const DirectPeers& peers) {
      { memory.load_words(from) } -> std::same_as<Line>;
      memory.store_words(to, line);
      memory.fence();
      { memory.keep_waiting(turn, peers) } -> std::same_as<KernelOutcome>;
      { memory.why_leave(peers) } -> std::same_as<KernelOutcome>;
      memory.give_up(word, turn);
    };

/// A group whose lanes go on in gangs that never part: gang_size() lanes with neighbouring numbers,
/// a multiple of 8 that divides size().
///  - any_of_gang(flag): on every lane of the gang whether it is true on any; all of it call it.
///  - gather_gang(): brings its lanes together where they may have come by different ways, so that
///    what they do next they do at once; all of it call it.
template <class T>
concept gang_group = lane_group<T> && requires(T& group, bool flag) {
  { group.gang_size() } -> std::convertible_to<std::uint32_t>;
  { group.any_of_gang(flag) } -> std::same_as<bool>;
  group.gather_gang();
};

/// Memory that stores a wide line's payload before its flag, whatever the path keeps together.
template <class T>
concept orders_wide_lines = requires { requires T::kOrdersWideLines; };

/// Flagged memory that keeps lines of 128 bytes together, which eight neighbouring lanes of a gang
/// store and load, 16 bytes each. All lanes of the gang make the same calls; null: this lane has no
/// share.
///  - store_wide(group, to, share, last): `last` lanes hold the flag, in `high`.
///  - load_wide(group, from, flag, last): where what `last` loads in `high` is `flag`, what the
///    other seven load at the same time is of the same store; otherwise it may be anything. Behind
///    gather_gang() and other loads alone.
template <class T, class G>
concept wide_line_memory = flagged_memory<T> && gang_group<G> &&
                           requires(T& memory, G& group, std::byte* to, const std::byte* from,
                                    Line line, std::uint64_t flag, bool last) {
                             memory.store_wide(group, to, line, last);
                             { memory.load_wide(group, from, flag, last) } -> std::same_as<Line>;
                           };

}  // namespace weft::device
