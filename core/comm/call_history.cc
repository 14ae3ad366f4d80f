// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/call_history.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/bootstrap/message.h"
#include "core/comm/note_bytes.h"
#include "core/schedule/call_text.h"

namespace weft {
namespace {

// The bits of a tag that hold the fingerprint.
constexpr OperationTag kFingerprintBits = OperationTag{0xFFFF} << 32;

constexpr std::size_t kComplaintBytes = 16 + kCallNoteBytes;
static_assert(kComplaintBytes + kMostComplaintCalls * kCallNoteBytes <= kMaxQuestionBytes);

void append_note(std::vector<std::byte>& out, const CallNote& note) {
  append_u64(out, note.sequence);
  append_u64(out, note.tag);
  append_u64(out, note.count);
  append_u64(out, note.max_channels);
}

CallNote read_note(std::span<const std::byte> bytes) {
  return {.sequence = read_u64(bytes),
          .tag = read_u64(bytes.subspan(8)),
          .count = read_u64(bytes.subspan(16)),
          .max_channels = static_cast<std::uint32_t>(read_u64(bytes.subspan(24)))};
}

// What was asked for beside the operation; the values may be anything.
std::string describe_options(const OperationTagParts& parts, std::uint32_t max_channels) {
  WayOptions way;
  if (parts.algorithm != 0 && parts.algorithm <= kAlgorithmCount) {
    way.algorithm = static_cast<Algorithm>(parts.algorithm - 1);
  }
  if (parts.protocol != 0) way.protocol = static_cast<Protocol>(parts.protocol - 1);
  std::string text = way_text(way);
  if (!parts.limits_channels) return text;
  if (max_channels == 0) return text + " on a limited number of channels";
  return text + fmt::format(" on at most {} channel{}", max_channels, max_channels == 1 ? "" : "s");
}

}  // namespace

CallNote make_call_note(const Task& task, std::uint64_t sequence) {
  return {.sequence = sequence,
          .tag = make_operation_tag(task, sequence),
          .count = task.count,
          .max_channels = task.options.max_channels};
}

std::uint64_t CallHistory::add(const Task& task, OperationTag tag) {
  const std::uint64_t sequence = latest_.load(std::memory_order_relaxed) + 1;
  tag = add_sequence(tag, sequence);
  tag_ = tag;
  Entry& entry = entries_[sequence % kLength];
  entry.count.store(task.count, std::memory_order_relaxed);
  entry.max_channels.store(task.options.max_channels, std::memory_order_relaxed);
  entry.tag.store(tag, std::memory_order_relaxed);
  latest_.store(sequence, std::memory_order_release);
  // Both factors are odd, so nothing of what was there before is lost but by the cut at the end.
  past_ = static_cast<std::uint16_t>(digest_ >> 48);
  digest_ = ((digest_ ^ tag) * 0x9E3779B97F4A7C15ULL ^ task.count) * 0xD6E8FEB86659FD93ULL;
  return sequence;
}

// Each field is stored with release, so none is seen before the version that says it changes; each
// is loaded with acquire, so none is loaded after the version that says it did not.
void SentHistory::add(std::uint32_t partner, const CallNote& note) {
  Entry& entry = entries_[added_++ % kLength];
  entry.version.store(0, std::memory_order_relaxed);
  entry.partner.store(partner, std::memory_order_release);
  entry.tag.store(note.tag, std::memory_order_release);
  entry.sequence.store(note.sequence, std::memory_order_release);
  entry.count.store(note.count, std::memory_order_release);
  entry.version.store(added_, std::memory_order_release);
}

std::optional<CallNote> SentHistory::find(std::uint32_t partner, OperationTag tag) const {
  std::optional<CallNote> found;
  std::uint64_t newest = 0;
  for (const Entry& entry : entries_) {
    const std::uint64_t version = entry.version.load(std::memory_order_acquire);
    if (version <= newest) continue;
    const bool is_it = entry.partner.load(std::memory_order_acquire) == partner &&
                       entry.tag.load(std::memory_order_acquire) == tag;
    const CallNote note{.sequence = entry.sequence.load(std::memory_order_acquire),
                        .tag = tag,
                        .count = entry.count.load(std::memory_order_acquire)};
    if (!is_it || entry.version.load(std::memory_order_relaxed) != version) continue;
    newest = version;
    found = note;
  }
  return found;
}

std::optional<CallNote> CallHistory::find(std::uint64_t sequence) const {
  const std::uint64_t newest = latest();
  if (sequence == 0 || sequence > newest || newest - sequence >= kLength) return std::nullopt;
  const Entry& entry = entries_[sequence % kLength];
  CallNote note{.sequence = sequence,
                .tag = entry.tag.load(std::memory_order_relaxed),
                .count = entry.count.load(std::memory_order_relaxed),
                .max_channels = entry.max_channels.load(std::memory_order_relaxed)};
  // Written over meanwhile: the number in the tag is that of a later call.
  const OperationTagParts parts = split_operation_tag(note.tag);
  if (parts.sequence != (sequence & 0xFFFF)) return std::nullopt;
  // That of a call through a window is of its place, too, which nobody keeps.
  const bool fits =
      parts.in_window || parts.fingerprint == size_fingerprint(note.count, 0, note.max_channels);
  if (!fits) return std::nullopt;
  return note;
}

std::optional<CallNote> CallHistory::find_tag(OperationTag tag) const {
  const std::uint64_t newest = latest();
  const std::uint64_t back = (newest - split_operation_tag(tag).sequence) & 0xFFFF;
  if (back >= newest) return std::nullopt;
  const auto found = find(newest - back);
  if (!found) return std::nullopt;
  // Each block of such a call has a count, and so a fingerprint, of its own.
  const bool counts_differ =
      static_cast<Operation>(tag & kTagOperationBits) == Operation::kAllToAllV;
  const OperationTag of_call = counts_differ ? ~kFingerprintBits : ~OperationTag{0};
  return ((found->tag ^ tag) & of_call) == 0 ? found : std::nullopt;
}

std::vector<std::byte> encode_call_note(const CallNote& note) {
  std::vector<std::byte> bytes;
  bytes.reserve(kCallNoteBytes);
  append_note(bytes, note);
  return bytes;
}

std::optional<CallNote> decode_call_note(std::span<const std::byte> bytes) {
  if (bytes.size() != kCallNoteBytes) return std::nullopt;
  return read_note(bytes);
}

std::vector<std::byte> encode_complaint(const Complaint& complaint) {
  std::vector<std::byte> bytes;
  const std::size_t calls = std::min(complaint.calls.size(), kMostComplaintCalls);
  bytes.reserve(kComplaintBytes + calls * kCallNoteBytes);
  append_u64(bytes, complaint.peer);
  append_u64(bytes, complaint.found);
  append_note(bytes, complaint.waiting);
  for (std::size_t i = 0; i < calls; ++i)
    append_note(bytes, complaint.calls[i]);
  return bytes;
}

std::optional<Complaint> decode_complaint(std::span<const std::byte> bytes) {
  if (bytes.size() < kComplaintBytes || (bytes.size() - kComplaintBytes) % kCallNoteBytes != 0) {
    return std::nullopt;
  }
  const std::uint64_t peer = read_u64(bytes);
  if (peer > UINT32_MAX) return std::nullopt;
  Complaint complaint{.peer = static_cast<std::uint32_t>(peer),
                      .found = read_u64(bytes.subspan(8)),
                      .waiting = read_note(bytes.subspan(16))};
  for (auto rest = bytes.subspan(kComplaintBytes); !rest.empty();
       rest = rest.subspan(kCallNoteBytes))
    complaint.calls.push_back(read_note(rest));
  return complaint;
}

std::string describe_operation(OperationTag tag, std::string_view count,
                               std::uint32_t max_channels) {
  const OperationTagParts parts = split_operation_tag(tag);
  if (parts.operation >= kOperationCount) return "an operation that this version does not know";
  const auto operation = static_cast<Operation>(parts.operation);
  // As a whole it has no count that all ranks would agree on; each of its blocks has one.
  const bool counts = operation != Operation::kAllToAllV || count != "0";
  std::string text = fmt::format("{} of {}{}{}", operation_name(operation), counts ? count : "",
                                 counts ? " " : "", data_type_name(parts.type));
  if (reduces(operation)) text += fmt::format(" by {}", reduction_name(parts.reduction));
  // The counts of all blocks are more than fits.
  if (has_uneven_blocks(operation)) text += fmt::format(" by counts of checksum {}", parts.root);
  if (operation == Operation::kBroadcast || operation == Operation::kRecv ||
      operation == Operation::kScatter) {
    text += fmt::format(" from rank {}", parts.root);
  }
  if (operation == Operation::kReduce || operation == Operation::kSend ||
      operation == Operation::kGather) {
    text += fmt::format(" to rank {}", parts.root);
  }
  if (parts.in_window) text += " through a window";
  return text + describe_options(parts, max_channels);
}

std::string_view count_beside(OperationTag found, OperationTag expected, std::string_view same) {
  const OperationTagParts one = split_operation_tag(found);
  const OperationTagParts other = split_operation_tag(expected);
  if (one.fingerprint == other.fingerprint) return same;
  // It is of the limit of channels, too.
  const bool tells = !one.limits_channels && !other.limits_channels;
  return tells ? "another number of" : "perhaps another number of";
}

std::string describe_task(const Task& task) {
  return describe_operation(make_operation_tag(task, 0), std::to_string(task.count),
                            task.options.max_channels);
}

std::string describe_call(const CallNote& note) {
  return fmt::format("{} (call {})",
                     describe_operation(note.tag, std::to_string(note.count), note.max_channels),
                     note.sequence);
}

Error name_both(std::string_view called, std::uint32_t rank, std::string_view other,
                std::uint32_t other_rank) {
  return {WEFT_ERROR_MISMATCH,
          fmt::format("rank {} called {}, but rank {} called {}", rank, called, other_rank, other),
          "make every rank call the same operations in the same order"};
}

std::optional<Error> find_mismatch(const CallNote& called, std::uint32_t rank,
                                   const CallNote& waiting, std::uint32_t asker) {
  // Sends and receives have no number; nor has what a rank says that leaves before any call.
  if (waiting.sequence == 0) return std::nullopt;
  if (called.sequence != waiting.sequence) return std::nullopt;
  // Counts that differ may have one fingerprint, and so may limits of channels.
  if (called == waiting) return std::nullopt;
  return name_both(describe_call(called), rank, describe_call(waiting), asker);
}

std::optional<Error> find_partner_that_left(std::uint32_t leaver, const CallNote& waiting,
                                            std::uint32_t asker) {
  const OperationTagParts parts = split_operation_tag(waiting.tag);
  if (waiting.sequence != 0 || parts.operation >= kOperationCount) return std::nullopt;
  if (!joins_pair(static_cast<Operation>(parts.operation))) return std::nullopt;
  // The tag holds 12 bits of the partner's number.
  if (parts.root != (leaver & 0xFFFU)) return std::nullopt;
  const std::string count = waiting.count == CallNote::kUnknownCount
                                ? std::string("an unknown number of")
                                : std::to_string(waiting.count);
  return Error(WEFT_ERROR_PEER,
               fmt::format("rank {} waits in {}, but rank {} has left the communicator", asker,
                           describe_operation(waiting.tag, count), leaver),
               "let no rank end before its partners have got what it owes them")
      .with_native(ErrorSource::kPeer, leaver);
}

std::optional<Error> find_early_leaver(const CallNote& last, std::uint32_t leaver,
                                       const CallNote& waiting, std::uint32_t asker) {
  if (last.sequence >= waiting.sequence) return std::nullopt;
  const std::string when = last.sequence == 0 ? std::string("before any call")
                                              : fmt::format("after {}", describe_call(last));
  return Error(WEFT_ERROR_PEER,
               fmt::format("rank {} left the communicator {}, but rank {} called {}", leaver, when,
                           asker, describe_call(waiting)),
               "make every rank call the same operations before it destroys its communicator")
      .with_native(ErrorSource::kPeer, leaver);
}

}  // namespace weft
