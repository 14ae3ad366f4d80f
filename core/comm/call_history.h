// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What this rank called lately, so that a rank that waits can be told whether anyone will ever
// answer. Tags on slots show calls that differ where data meets; they show nothing where the
// difference is that no data comes: all ranks take themselves for receivers, a rank called with no
// elements, a rank has left. For those a waiting rank asks, once round the failure ring.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/model/operation.h"
#include "core/model/operation_tag.h"

namespace weft {

/// One call, as it is shown to other ranks.
struct CallNote {
  /// Its number within the communicator, from 1; 0 of a send or a receive.
  std::uint64_t sequence = 0;
  OperationTag tag = 0;
  std::uint64_t count = 0;         ///< kUnknownCount where a kernel told the call by its tag.
  std::uint32_t max_channels = 0;  ///< See WayOptions.

  static constexpr std::uint64_t kUnknownCount = UINT64_MAX;

  bool operator==(const CallNote&) const = default;
};

[[nodiscard]] CallNote make_call_note(const Task& task, std::uint64_t sequence);

/// The calls made last. Written by the thread that calls, read by any.
class CallHistory {
 public:
  /// How far back it goes: 24 bytes a call. A rank is ahead of another by what connections buffer,
  /// which is less, but for calls without elements and calls that only wait in a stream.
  static constexpr std::size_t kLength = 1024;

  /// Notes a call under the next number, and answers that.
  std::uint64_t add(const Task& task) { return add(task, make_operation_tag(task, 0)); }
  /// The same of one whose tag, as of call 0, is known.
  std::uint64_t add(const Task& task, OperationTag tag);
  /// The tag of the call that was noted last, past() included. By the thread that calls.
  [[nodiscard]] OperationTag tag() const { return add_past(tag_, past_); }
  /// A checksum of all calls before the one that was noted last, for its tag. By the thread that
  /// calls.
  [[nodiscard]] std::uint16_t past() const { return past_; }
  /// The number of the last call; 0 before the first.
  [[nodiscard]] std::uint64_t latest() const { return latest_.load(std::memory_order_acquire); }
  /// The call with that number, unless it is still to come or long gone.
  [[nodiscard]] std::optional<CallNote> find(std::uint64_t sequence) const;
  /// The latest call with that tag, or a block of that tag.
  [[nodiscard]] std::optional<CallNote> find_tag(OperationTag tag) const;

 private:
  struct Entry {
    std::atomic<OperationTag> tag{0};
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint32_t> max_channels{0};
  };
  std::array<Entry, kLength> entries_;
  std::atomic<std::uint64_t> latest_{0};
  OperationTag tag_ = 0;
  std::uint64_t digest_ = 0;
  std::uint16_t past_ = 0;
};

/// The messages sent last, of sends and of exchanges: what a tag that a partner found belongs to.
/// Written by the thread that calls, read by any.
class SentHistory {
 public:
  static constexpr std::size_t kLength = 256;

  /// `note.tag` is the one that travels with the message.
  void add(std::uint32_t partner, const CallNote& note);
  /// The latest one to `partner` with that tag.
  [[nodiscard]] std::optional<CallNote> find(std::uint32_t partner, OperationTag tag) const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> version{0};  // 0 while it is written
    std::atomic<std::uint64_t> partner{0};
    std::atomic<OperationTag> tag{0};
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Entry, kLength> entries_;
  std::uint64_t added_ = 0;
};

/// What a rank tells the others whose data has shown that calls differ. A tag has no room for the
/// calls themselves; who made the other one knows both then, and names them for all.
struct Complaint {
  std::uint32_t peer = 0;  ///< Who sent what does not belong here.
  OperationTag found = 0;  ///< Of that; 0 if only its size was wrong.
  CallNote waiting;        ///< The call that it came to, of a pair with the number of that pair.
  /// The collective calls up to that, the latest first: the first that differ need not be those
  /// whose data has met.
  std::vector<CallNote> calls{};
};
/// How many calls fit into a question.
inline constexpr std::size_t kMostComplaintCalls = 30;
[[nodiscard]] std::vector<std::byte> encode_complaint(const Complaint& complaint);
[[nodiscard]] std::optional<Complaint> decode_complaint(std::span<const std::byte> bytes);

/// What a note takes of such texts.
inline constexpr std::size_t kCallNoteBytes = 32;
/// The question of a waiting rank, and what a rank says as it leaves: the call that it waits in, or
/// made last. Nothing for bytes that are none.
[[nodiscard]] std::vector<std::byte> encode_call_note(const CallNote& note);
[[nodiscard]] std::optional<CallNote> decode_call_note(std::span<const std::byte> bytes);

/// "all_reduce of 8 float32 by sum as ring with ll"; the tag may be anything, `count` is text since
/// a tag alone does not tell it, nor to how many channels a call is limited: 0 where that is not
/// known.
[[nodiscard]] std::string describe_operation(OperationTag tag, std::string_view count,
                                             std::uint32_t max_channels = 0);
/// The count of the call that the tag `found` belongs to, beside one of the tag `expected` with
/// `same` elements.
[[nodiscard]] std::string_view count_beside(OperationTag found, OperationTag expected,
                                            std::string_view same);
[[nodiscard]] std::string describe_task(const Task& task);
/// The same with the call's number: "all_reduce of 8 float32 by sum (call 3)".
[[nodiscard]] std::string describe_call(const CallNote& note);

/// The error that names two calls that should have been the same.
[[nodiscard]] Error name_both(std::string_view called, std::uint32_t rank, std::string_view other,
                              std::uint32_t other_rank);

/// Whether the call that rank `asker` waits in is another than what `rank` called under that
/// number: the error that names both.
[[nodiscard]] std::optional<Error> find_mismatch(const CallNote& called, std::uint32_t rank,
                                                 const CallNote& waiting, std::uint32_t asker);

/// Whether `leaver` is the partner of the send or receive that `asker` waits in, and left.
[[nodiscard]] std::optional<Error> find_partner_that_left(std::uint32_t leaver,
                                                          const CallNote& waiting,
                                                          std::uint32_t asker);

/// Whether `leaver`, whose last call was `last`, left before the call that `asker` waits in.
[[nodiscard]] std::optional<Error> find_early_leaver(const CallNote& last, std::uint32_t leaver,
                                                     const CallNote& waiting, std::uint32_t asker);

}  // namespace weft
