// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/roll_call.h"

#include <utility>

#include <fmt/format.h>

#include "core/bootstrap/message.h"
#include "core/comm/note_bytes.h"
#include "core/config/units.h"

namespace weft {
namespace {

// Where a complaint has a rank, which is a number of 32 bits.
constexpr std::uint64_t kMark = std::uint64_t{1} << 32;
constexpr std::size_t kHeadBytes = 8 + kCallNoteBytes + 24;
constexpr std::size_t kAnswerBytes = 24;
static_assert(kHeadBytes + RollCall::kMostNamed * kAnswerBytes <= kMaxQuestionBytes);

std::optional<RankAnswer> read_answer(std::span<const std::byte> bytes, std::uint32_t ranks) {
  const std::uint64_t rank = read_u64(bytes);
  const std::uint64_t where = read_u64(bytes.subspan(8));
  if (rank >= ranks || where >= kWhereaboutsCount) return std::nullopt;
  return RankAnswer{.rank = static_cast<std::uint32_t>(rank),
                    .where = static_cast<Whereabouts>(where),
                    .number = read_u64(bytes.subspan(16))};
}

std::string describe_answer(const RankAnswer& answer, std::uint64_t asked) {
  const auto [rank, where, number] = answer;
  switch (where) {
    case Whereabouts::kNotThere:
      return number == 0
                 ? fmt::format("rank {} has made no call yet", rank)
                 : fmt::format("rank {} has not made it, its latest is call {}", rank, number);
    case Whereabouts::kWaits:
      break;
    case Whereabouts::kElsewhere:
      if (number == 0) return fmt::format("rank {} waits in a send, a receive or a replay", rank);
      return fmt::format("rank {} {} call {}", rank,
                         number < asked ? "is still in" : "has gone on to", number);
    case Whereabouts::kQuiet:
      return fmt::format(
          "rank {} has made it, and nothing of it waits there: its device has not come to it, or "
          "is through with it",
          rank);
    case Whereabouts::kQuietOnSharedDevice:
      return fmt::format(
          "rank {} has made it, and nothing of it waits there: its device has not come to it, "
          "where other ranks are, too, whose streams may hold up its own "
          "(CUDA_DEVICE_MAX_CONNECTIONS), or is through with it",
          rank);
    case Whereabouts::kThrough:
      return fmt::format("rank {} is through with it", rank);
  }
  return fmt::format("rank {} waits in it", rank);
}

std::string describe_waiting(std::uint32_t waiting, bool are_all) {
  if (are_all) return "all others wait in it, too";
  return fmt::format("{} other{} in it, too", waiting, waiting == 1 ? " waits" : "s wait");
}

}  // namespace

void RollCall::add(const RankAnswer& answer) {
  if (answer.where == Whereabouts::kWaits) {
    ++waiting;
  } else if (others.size() < kMostNamed) {
    others.push_back(answer);
  } else {
    ++more;
  }
}

std::vector<std::byte> encode_roll_call(const RollCall& roll) {
  std::vector<std::byte> bytes;
  bytes.reserve(kHeadBytes + roll.others.size() * kAnswerBytes);
  append_u64(bytes, kMark);
  const std::vector<std::byte> note = encode_call_note(roll.call);
  bytes.insert(bytes.end(), note.begin(), note.end());
  append_u64(bytes, roll.has_turned ? 1 : 0);
  append_u64(bytes, roll.waiting);
  append_u64(bytes, roll.more);
  for (const RankAnswer& answer : roll.others) {
    append_u64(bytes, answer.rank);
    append_u64(bytes, static_cast<std::uint64_t>(answer.where));
    append_u64(bytes, answer.number);
  }
  return bytes;
}

std::optional<RollCall> decode_roll_call(std::span<const std::byte> bytes, std::uint32_t ranks) {
  const bool is_whole = bytes.size() >= kHeadBytes &&
                        (bytes.size() - kHeadBytes) % kAnswerBytes == 0 &&
                        (bytes.size() - kHeadBytes) / kAnswerBytes <= RollCall::kMostNamed;
  if (!is_whole || read_u64(bytes) != kMark) return std::nullopt;
  const auto note = decode_call_note(bytes.subspan(8, kCallNoteBytes));
  const auto numbers = bytes.subspan(8 + kCallNoteBytes);
  const std::uint64_t waiting = read_u64(numbers.subspan(8));
  const std::uint64_t more = read_u64(numbers.subspan(16));
  if (!note || note->sequence == 0 || waiting >= ranks || more >= ranks) return std::nullopt;
  RollCall roll{.call = *note,
                .has_turned = read_u64(numbers) != 0,
                .waiting = static_cast<std::uint32_t>(waiting),
                .more = static_cast<std::uint32_t>(more)};
  for (auto rest = bytes.subspan(kHeadBytes); !rest.empty(); rest = rest.subspan(kAnswerBytes)) {
    const auto answer = read_answer(rest, ranks);
    if (!answer) return std::nullopt;
    roll.others.push_back(*answer);
  }
  return roll;
}

std::string describe_roll_call(const RollCall& roll) {
  std::string text;
  for (const RankAnswer& answer : roll.others)
    text += describe_answer(answer, roll.call.sequence) + "; ";
  if (roll.more != 0) text += fmt::format("{} more are not in it; ", roll.more);
  const bool are_all = roll.others.empty() && roll.more == 0 && !roll.has_turned;
  if (roll.waiting != 0 || are_all) text += describe_waiting(roll.waiting, are_all) + "; ";
  if (roll.has_turned) text += "not all were asked, since one has left; ";
  text.resize(text.size() - 2);  // something was said
  return text;
}

void LatestRoll::ask(std::uint64_t call, bool is_first, Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  if (!is_first && call_ == call) return;
  call_ = call;
  since_ = now;
  answer_.reset();
}

void LatestRoll::answer(RollCall roll, Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  if (call_ != roll.call.sequence) return;
  since_ = now;
  answer_ = std::move(roll);
}

std::string LatestRoll::describe(std::uint64_t call, Clock::time_point now) const {
  // Even of many ranks, whose hosts are busy, an answer is back by then.
  constexpr std::chrono::seconds kUntilAllAnswer{1};
  const std::scoped_lock lock(mutex_);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - since_);
  if (call == 0 || call_ != call || (!answer_ && since < kUntilAllAnswer)) return {};
  return fmt::format("asked {} ago: {}", print_duration(since),
                     answer_ ? describe_roll_call(*answer_)
                             : "no answer came back: a process is stopped, or its host is not "
                               "reached");
}

}  // namespace weft
