// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The order of a reduction in windows, piece by piece, for whoever carries it out. Three queues, a
// piece further each: one reads the range of this rank from the inputs of all others into staging
// memory, one sums up, one writes the result into the outputs of others. They wait for each other
// by the places in staging memory that pieces have in turn:
//   read -> its sum;   sum -> its writes;   sum -> the read that has the same place next.
// All ranks meet before, when inputs are complete and outputs free, and afterwards; between, nobody
// else touches a rank's range.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <weft/types.h>

#include "core/model/operation.h"
#include "core/model/window_reduction.h"

namespace weft::device {

/// Where what one piece has of a rank's range is staged.
struct StagedPiece {
  std::uint64_t at = 0;  ///< Bytes from the beginning of the range.
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0;
  std::byte* staged[kMostDirectRanks]{};  ///< By rank; null for this one.
};

inline StagedPiece staged_piece(const WindowReduction& call, std::uint64_t index,
                                std::uint64_t piece_bytes) {
  const std::uint64_t all = call.count * element_size(call.type);
  StagedPiece piece{.at = index * piece_bytes,
                    .bytes = std::min(piece_bytes, all - index * piece_bytes),
                    .slot = static_cast<std::uint32_t>(index % kWindowSlots)};
  std::uint64_t place = std::uint64_t{piece.slot} * (call.ranks - 1);
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank) {
    if (rank != call.rank) piece.staged[rank] = call.staging + place++ * piece_bytes;
  }
  return piece;
}

inline SourcesToReduce sources_of(const WindowReduction& call, const StagedPiece& piece) {
  SourcesToReduce sources{.to = call.output + piece.at,
                          .between = piece.staged[call.rank == 0 ? 1 : 0],
                          .count = piece.bytes / element_size(call.type),
                          .ranks = call.ranks,
                          .type = call.type,
                          .reduction = call.reduction,
                          .rounds_each = call.rounds_each};
  for (std::uint32_t rank = 0; rank < call.ranks; ++rank)
    sources.from[rank] = rank == call.rank ? call.sources[rank] + piece.at : piece.staged[rank];
  return sources;
}

/// `queues` answers with codes; the first that is not OK ends it.
///  - read(to, from, bytes), sum(sources), write(to, from, bytes): behind what the queue has.
///  - sum_after_reads(slot), write_after_sum(slot), read_after_sum(slot): what the one queue gets
///    from now on comes after what the other has; of the last, after the latest sum of that place.
template <class Queues>
weft_result reduce_by_pieces(const WindowReduction& call, Queues& queues) {
  const std::uint64_t bytes = call.count * element_size(call.type);
  const std::uint64_t piece_bytes = window_piece_bytes(bytes, call.staging_bytes, call.ranks);
  // First from the rank after this one, so that no rank is everybody's first.
  const auto for_each_other = [&](const auto& visit) -> weft_result {
    for (std::uint32_t step = 1; step < call.ranks; ++step) {
      const weft_result done = visit((call.rank + step) % call.ranks);
      if (done != WEFT_OK) return done;
    }
    return WEFT_OK;
  };
  for (std::uint64_t index = 0; index * piece_bytes < bytes; ++index) {
    const StagedPiece piece = staged_piece(call, index, piece_bytes);
    weft_result done =
        index < kWindowSlots ? weft_result{WEFT_OK} : queues.read_after_sum(piece.slot);
    if (done != WEFT_OK) return done;
    done = for_each_other([&](std::uint32_t rank) {
      return queues.read(piece.staged[rank], call.sources[rank] + piece.at, piece.bytes);
    });
    if (done != WEFT_OK) return done;
    done = queues.sum_after_reads(piece.slot);
    if (done != WEFT_OK) return done;
    done = queues.sum(sources_of(call, piece));
    if (done != WEFT_OK) return done;
    done = queues.write_after_sum(piece.slot);
    if (done != WEFT_OK) return done;
    done = for_each_other([&](std::uint32_t rank) -> weft_result {
      if (call.targets[rank] == nullptr) return WEFT_OK;
      return queues.write(call.targets[rank] + piece.at, call.output + piece.at, piece.bytes);
    });
    if (done != WEFT_OK) return done;
  }
  return WEFT_OK;
}

}  // namespace weft::device
