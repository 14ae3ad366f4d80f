// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/staged_memory.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace weft::checker {

StagedMemory::StagedMemory(Report& report, const Inboxes& inboxes, std::uint32_t ranks,
                           std::uint64_t bytes)
    : report_(report),
      inboxes_(inboxes),
      ranks_(ranks),
      words_(bytes / sizeof(Value)),
      memory_(bytes * ranks / sizeof(device::Line)),
      staged_(words_ * ranks, UINT64_MAX),
      owned_(words_ * ranks),
      touched_(words_) {
  auto* const begin = reinterpret_cast<std::byte*>(memory_.data());
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    each_.push_back(begin + rank * bytes);
  for (std::byte* own : each_) {
    views_.push_back(
        {.own = own, .all = nullptr, .each = each_.data(), .ranks = ranks, .bytes = bytes});
  }
}

bool StagedMemory::wrong(const Actor& actor, Rule rule, const char* what) {
  report_.add(rule, fmt::format("{}, part {}: {}", actor.name(), actor.part, what));
  return false;
}

bool StagedMemory::touch_range(const Actor& actor, std::uint64_t word, std::uint64_t exchanges) {
  Touched& last = touched_[word];
  if (last.exchanges == exchanges && last.rank != actor.rank) {
    return wrong(actor, Rule::kOverwritten, "touches what is of another rank's range");
  }
  last = {.exchanges = exchanges, .rank = actor.rank};
  return true;
}

bool StagedMemory::may_touch(const Actor& actor, const std::byte* at, std::uint64_t bytes,
                             bool writes) {
  const auto begin = static_cast<std::uint64_t>(at - first());
  const std::uint64_t of_rank = words_ * sizeof(Value);
  if (begin / of_rank != actor.rank || begin % of_rank + bytes > of_rank ||
      begin % sizeof(Value) != 0) {
    return wrong(actor, Rule::kOutside, "touches another rank's memory by its own address");
  }
  const auto exchanges = inboxes_.exchanges(actor);
  if (!exchanges) {
    return wrong(actor, writes ? Rule::kOverwritten : Rule::kReadTooEarly,
                 "touches its memory before it has met all");
  }
  for (std::uint64_t i = 0; i < bytes; i += sizeof(Value)) {
    const std::uint64_t word = (begin + i) / sizeof(Value);
    Owned& owner = owned_[word];
    if (owner.call == actor.call && owner.part != actor.part) {
      return wrong(actor, Rule::kOverwritten, "touches the place of another part of its rank");
    }
    owner = {.call = actor.call, .part = actor.part};
    if (*exchanges % 2 != 0) {
      if (!touch_range(actor, word % words_, *exchanges)) return false;
    } else if (writes) {
      staged_[word] = *exchanges;
    }
  }
  return true;
}

bool StagedMemory::may_touch_all(const Actor& actor, std::uint64_t at) {
  if (at % sizeof(Value) != 0 || at / sizeof(Value) >= words_) {
    return wrong(actor, Rule::kOutside, "touches what lies behind the memory of all ranks");
  }
  const auto exchanges = inboxes_.exchanges(actor);
  if (!exchanges || *exchanges % 2 == 0) {
    return wrong(actor, Rule::kReadTooEarly, "touches the memory of ranks that it has not met");
  }
  return touch_range(actor, at / sizeof(Value), *exchanges);
}

bool StagedMemory::staged_by(const Actor& actor, std::uint32_t rank, std::uint64_t at) const {
  const auto exchanges = inboxes_.exchanges(actor);
  return exchanges && staged_[rank * words_ + at / sizeof(Value)] + 1 == *exchanges;
}

StagedMemory::Staged StagedMemory::staged(const Actor& actor, std::uint64_t at) const {
  std::uint32_t by = 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank)
    by += staged_by(actor, rank, at) ? 1 : 0;
  return by == 0 ? Staged::kByNone : by == ranks_ ? Staged::kByAll : Staged::kBySome;
}

}  // namespace weft::checker
