// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What is sent to, or received from, one other rank. All sends and receives of a group are one item
// of work, whose kernel moves whichever can be moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/model/connection_view.h"
#include "core/model/operation_tag.h"

namespace weft {

/// What a transfer puts into slots.
enum class PairPayload : std::uint32_t {
  kSteps = 0,   ///< Steps of Simple.
  kLines = 1,   ///< All in one step of lines of LL.
  kHeader = 2,  ///< Nothing but such a step's header, which others' tags are compared with.
  /// Steps of up to kLentStepBytes whose slots hold but the address of the payload, at the sender,
  /// where the receiver reads it. A send is complete when all of them have been given back.
  kLent = 3,
  kWideLines = 4,  ///< Steps of lines of LL128.
};

/// A receiver looks for an abort between two steps: of a few hundred microseconds each.
inline constexpr std::uint32_t kLentStepBytes = 1U << 20U;

/// Of a send `to`, and of a receive `from`, is null; a copy within the rank has both, and no view.
struct PairTransfer {
  const std::byte* from = nullptr;  ///< The caller's buffer.
  std::byte* to = nullptr;          ///< The caller's buffer.
  std::uint64_t bytes = 0;          ///< More than 0; 0 of a header.
  OperationTag tag = 0;             ///< The same at both ends.
  ConnectionView view;
  /// The transfer before it on the same connection, which must be complete first: its number within
  /// the item, or kNoTransfer.
  std::uint32_t after = UINT32_MAX;
  /// Written by the kernel, read by who reports: 1 when it is complete.
  std::uint32_t complete = 0;
  PairPayload payload = PairPayload::kSteps;
  std::uint16_t taken = 0;  ///< The kernel's own: 1 when the receiver has given all steps back.
  /// Where the view lies in Launch::pair_views, or kNoPlace.
  std::uint16_t place = UINT16_MAX;
  std::uint64_t moved = 0;  ///< The kernel's own: bytes done.
  std::uint64_t step = 0;   ///< The kernel's own: next step of the connection; once it has begun.
};
inline constexpr std::uint32_t kNoTransfer = UINT32_MAX;

/// The tag of the call that this rank made.
[[nodiscard]] constexpr OperationTag called_tag(const PairTransfer& transfer) {
  return transfer.from != nullptr ? transfer.tag : tag_of_receive(transfer.tag, transfer.view.peer);
}
inline constexpr std::uint16_t kNoPlace = UINT16_MAX;

/// All copies within the rank at once would take memory's bandwidth from what goes over links: so
/// few groups copy, of what a link passes meanwhile, that they are done a little before the rest. A
/// link carries as much as seven of them.
inline constexpr std::uint32_t kCopyingGroupsOfLink = 10;

/// Launches of up to so many transfers carry them as they are.
inline constexpr std::uint32_t kMostWholePairs = 16;
/// Those of up to so many may be packed; of more they are as they are, in memory of the device.
inline constexpr std::uint32_t kMostPackedPairs = 208;

}  // namespace weft
