// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// From what another rank offers of its output to where this one writes it.
//
// Model: tests/models/output_mappings.pml
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/portability.h"
#include "core/model/output_table.h"

namespace weft::device {

/// Where `bytes` of output of rank `peer` begin that offers `offer`, as this process sees them.
/// Null for what that rank never shared, or no longer: it is at fault, and nobody writes there.
/// Only for a rank that this one writes to in the call, which is what keeps the entry as it is.
template <class Memory>
WEFT_HD std::byte* shared_place(Memory& memory, OutputMap& map, std::uint32_t peer,
                                std::uint64_t offer, std::uint64_t bytes) {
  const OutputPlace place = place_of(offer);
  if (peer >= kMostDirectRanks || place.mapping >= kMostMappings) return nullptr;
  OutputMap::Entry& entry = map.entries[peer][place.mapping];
  const std::uint64_t generation = memory.load_acquire(&entry.generation);
  if (place.generation == 0 || generation != place.generation) return nullptr;
  if (place.offset > entry.bytes || bytes > entry.bytes - place.offset) return nullptr;
  return reinterpret_cast<std::byte*>(entry.base) + place.offset;
}

}  // namespace weft::device
