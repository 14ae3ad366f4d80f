// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What ends a kernel at a connection, in the words of its outcome. Nothing that a peer wrote bounds
// a loop or forms an address before it has passed here.
#pragma once

#include <cstdint>

#include "core/device/policies.h"
#include "core/device/portability.h"
#include "core/device/step_lines.h"
#include "core/model/connection_view.h"
#include "core/model/operation_tag.h"
#include "core/model/work_item.h"

namespace weft::device {

/// A slot may begin at a multiple of this many bytes.
inline constexpr std::uint32_t kSlotOffsetGrain = 16;

/// kDone if the slot holds `bytes` bytes of the call `tag`, all of them within the slot.
WEFT_HD inline KernelOutcome check_slot(const SlotMeta& meta, const ConnectionView& from,
                                        OperationTag tag, std::uint32_t bytes) {
  if (meta.tag != tag) {
    return {.end = KernelEnd::kTagMismatch, .peer = from.peer, .expected = tag, .found = meta.tag};
  }
  if (meta.size != bytes) {
    return {
        .end = KernelEnd::kSizeMismatch, .peer = from.peer, .expected = bytes, .found = meta.size};
  }
  if (meta.offset > from.step_bytes - bytes || meta.offset % kSlotOffsetGrain != 0) {
    return {.end = KernelEnd::kSizeMismatch,
            .peer = from.peer,
            .expected = bytes,
            .found = static_cast<std::uint64_t>(meta.offset) + meta.size};
  }
  return {};
}

/// The same of a slot that holds the address of `bytes` bytes, which lie at the sender.
WEFT_HD inline KernelOutcome check_lent_slot(const SlotMeta& meta, const ConnectionView& from,
                                             OperationTag tag, std::uint32_t bytes) {
  if (meta.tag != tag) {
    return {.end = KernelEnd::kTagMismatch, .peer = from.peer, .expected = tag, .found = meta.tag};
  }
  if (meta.size != bytes || meta.offset != kLent) {
    return {
        .end = KernelEnd::kSizeMismatch, .peer = from.peer, .expected = bytes, .found = meta.size};
  }
  return {};
}

/// The same of the header of a step of lines.
WEFT_HD inline KernelOutcome check_header(const StepHeader& header, std::uint32_t peer,
                                          OperationTag tag, std::uint32_t bytes) {
  if (header.tag != tag) {
    return {.end = KernelEnd::kTagMismatch, .peer = peer, .expected = tag, .found = header.tag};
  }
  if (header.bytes != bytes) {
    return {
        .end = KernelEnd::kSizeMismatch, .peer = peer, .expected = bytes, .found = header.bytes};
  }
  return {};
}

/// Of a wait that did not end well.
WEFT_HD inline KernelOutcome end_of_wait(const WaitResult& result, std::uint32_t peer) {
  if (result.status == WaitStatus::kPeerError) {
    return {.end = KernelEnd::kPeerError, .peer = peer, .expected = 0, .found = result.value};
  }
  return {.end = KernelEnd::kAborted, .peer = peer, .expected = 0, .found = 0};
}

/// Of a kernel some lane of which was told to leave, as another lane learns it: such words stay.
/// kDone where it was not the peer of `from` who told it.
template <class Memory>
WEFT_HD KernelOutcome told_by_peer(Memory& memory, const ConnectionView& from) {
  const std::uint32_t told = from.error == nullptr ? 0 : memory.load_word(from.error);
  if (told == 0) return {};
  return {.end = KernelEnd::kPeerError, .peer = from.peer, .expected = 0, .found = told};
}

/// What a kernel that ends so tells its neighbours: who is to blame, if it was told so itself.
WEFT_HD inline std::uint32_t reason_of(const KernelOutcome& outcome) {
  constexpr std::uint32_t kNobodyNamed = UINT32_MAX;
  return outcome.end == KernelEnd::kPeerError ? static_cast<std::uint32_t>(outcome.found)
                                              : kNobodyNamed;
}

}  // namespace weft::device
