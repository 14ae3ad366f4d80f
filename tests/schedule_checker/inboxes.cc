// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/schedule_checker/inboxes.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace weft::checker {

Inboxes::Inboxes(Report& report, std::uint32_t ranks, std::uint64_t payload, std::uint32_t period)
    : report_(report),
      ranks_(ranks),
      half_bytes_(direct_half_bytes(payload)),
      box_bytes_(half_bytes_ * kDirectHalves),
      memory_(box_bytes_ * ranks * ranks / sizeof(Block)),
      peers_(ranks),
      positions_(ranks),
      bytes_(ranks),
      ended_(ranks) {
  auto* const begin = reinterpret_cast<std::byte*>(memory_.data());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    DirectPeers& own = peers_[rank];
    own.ranks = ranks;
    own.rank = rank;
    own.half_bytes = static_cast<std::uint32_t>(half_bytes_);
    own.period = period;
    // Also read as numbers of 64 bits.
    positions_[rank].resize(kMostDirectParts / 2);
    own.positions = reinterpret_cast<std::uint32_t*>(positions_[rank].data());
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

bool Inboxes::may_write(const Actor& actor, const std::byte* at, std::uint64_t bytes) {
  const std::uint32_t owner = this->owner(at);
  const bool own = owner == actor.rank;
  if ((!own && writer(at) != actor.rank) || !within_half(at, bytes)) {
    report_.add(Rule::kOutside,
                fmt::format("{}: writes {} bytes from rank {} in the inbox of rank {}",
                            actor.name(), bytes, writer(at), owner));
    return false;
  }
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
