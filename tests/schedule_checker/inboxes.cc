// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/inboxes.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace weft::checker {

Inboxes::Inboxes(Report& report, std::uint32_t ranks, const Geometry& geometry)
    : report_(report),
      ranks_(ranks),
      geometry_(geometry),
      half_bytes_(geometry.half_bytes),
      box_bytes_(half_bytes_ * kDirectHalves),
      memory_(box_bytes_ * ranks * ranks / sizeof(Block)),
      peers_(ranks),
      positions_(ranks),
      bytes_(ranks),
      ended_(ranks),
      posted_(std::size_t{ranks} * ranks * kMostDirectParts),
      seen_(posted_.size()),
      filled_(geometry.headers == 0 ? 0 : memory_.size() * sizeof(Block) / sizeof(Value)),
      untaken_(geometry.lines_are_taken ? memory_.size() * sizeof(Block) / sizeof(Value) : 0) {
  auto* const begin = reinterpret_cast<std::byte*>(memory_.data());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    DirectPeers& own = peers_[rank];
    own.ranks = ranks;
    own.rank = rank;
    own.half_bytes = static_cast<std::uint32_t>(half_bytes_);
    own.period = geometry.period;
    // Also read as numbers of 64 bits.
    positions_[rank].resize(kMostDirectParts);
    own.positions = reinterpret_cast<std::uint32_t*>(positions_[rank].data());
    own.plain_positions = positions_[rank].data();
    own.wide_positions = positions_[rank].data();
    own.wide_half_bytes = own.half_bytes;
    own.plain_half_bytes = own.half_bytes;
    own.plain_headers = geometry.headers;
    for (std::uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      own.inbox[peer] = begin + box_bytes_ * (std::uint64_t{rank} * ranks + peer);
      own.outbox[peer] = begin + box_bytes_ * (std::uint64_t{peer} * ranks + rank);
    }
  }
}

bool Inboxes::within_half(const std::byte* at, std::uint64_t bytes) const {
  const auto offset = static_cast<std::uint64_t>(at - first());
  return offset % sizeof(std::uint64_t) == 0 && offset % half_bytes_ + bytes <= half_bytes_;
}

bool Inboxes::may_read(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  if (owner(at) == actor.rank && within_half(at, bytes)) return true;
  report_.add(Rule::kOutside, fmt::format("{}: reads {} bytes of the inbox of rank {}",
                                          actor.name(), bytes, owner(at)));
  return false;
}

void Inboxes::posted(const Actor& actor, const std::uint64_t* header, std::uint64_t exchange) {
  const auto* at = reinterpret_cast<const std::byte*>(header);
  if (leaves(actor, at)) posted_[progress_at(actor.rank, owner(at), actor.part)] = exchange;
}

void Inboxes::seen(const Actor& actor, const std::uint64_t* header, std::uint64_t exchange) {
  const auto* at = reinterpret_cast<const std::byte*>(header);
  if (!leaves(actor, at)) seen_[progress_at(actor.rank, writer(at), actor.part)] = exchange;
}

std::optional<std::uint64_t> Inboxes::exchanges(const Actor& actor) const {
  std::optional<std::uint64_t> all;
  for (std::uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer == actor.rank) continue;
    const std::size_t progress = progress_at(actor.rank, peer, actor.part);
    if (posted_[progress] != seen_[progress]) return std::nullopt;
    if (all && *all != posted_[progress]) return std::nullopt;
    all = posted_[progress];
  }
  return all;
}

// The half was last filled two exchanges ago. That its owner has taken all of that is known to the
// same part from a header of the exchange in between, to no other part, within a call.
bool Inboxes::is_free(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const std::size_t progress = progress_at(actor.rank, owner(at), actor.part);
  if (seen_[progress] < posted_[progress]) {
    report_.add(Rule::kOverwritten,
                fmt::format("{}: writes to rank {} for exchange {}, has seen it in {}",
                            actor.name(), owner(at), posted_[progress] + 1, seen_[progress]));
    return false;
  }
  const auto begin = static_cast<std::size_t>(at - first()) / sizeof(Value);
  for (std::size_t word = begin; word < begin + bytes / sizeof(Value); ++word) {
    Filled& last = filled_[word];
    if (last.call == actor.call && last.part != actor.part) {
      report_.add(Rule::kOverwritten, fmt::format("{}: part {} writes where part {} may still read",
                                                  actor.name(), actor.part, last.part));
      return false;
    }
    last = {.call = actor.call, .part = actor.part};
  }
  return true;
}

void Inboxes::taken(const std::byte* at, std::uint64_t bytes) {
  const auto begin = static_cast<std::size_t>(at - first()) / sizeof(Value);
  for (std::size_t word = begin; word < begin + bytes / sizeof(Value); ++word)
    untaken_[word] = false;
}

bool Inboxes::was_taken(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const auto begin = static_cast<std::size_t>(at - first()) / sizeof(Value);
  for (std::size_t word = begin; word < begin + bytes / sizeof(Value); ++word) {
    if (untaken_[word]) {
      report_.add(Rule::kOverwritten, fmt::format("{}: writes to rank {}, which has not taken what "
                                                  "lies there",
                                                  actor.name(), owner(at)));
      return false;
    }
    untaken_[word] = true;
  }
  return true;
}

bool Inboxes::may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const std::uint32_t owner = this->owner(at);
  const bool own = owner == actor.rank;
  if ((!own && writer(at) != actor.rank) || !within_half(at, bytes)) {
    report_.add(Rule::kOutside,
                fmt::format("{}: writes {} bytes from rank {} in the inbox of rank {}",
                            actor.name(), bytes, writer(at), owner));
    return false;
  }
  if (geometry_.headers != 0) return own || is_free(actor, at, bytes);
  if (geometry_.lines_are_taken) return own || was_taken(actor, at, bytes);
  // This half was last filled for the call before the last.
  if (!own && ended_[owner] + 1 < actor.call) {
    report_.add(Rule::kOverwritten,
                fmt::format("{}: writes to rank {}, which has ended {} calls and may still read "
                            "that half",
                            actor.name(), owner, ended_[owner]));
    return false;
  }
  return true;
}

}  // namespace weft::checker
