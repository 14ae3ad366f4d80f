// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory behind a connection: anonymous, passed as a descriptor, gone with its last user.
#pragma once

#include <cstdint>

#include "plugins/common/host.h"
#include "plugins/common/owned.h"

namespace weft::shm {

/// A descriptor of shared memory and where it is mapped here.
struct SharedMemory {
  plugins::OwnedFd descriptor;
  plugins::Mapping mapping;
};

/// Makes `size` zeroed bytes that nobody can resize and whose pages exist, so that running out of
/// memory shows here and not in the middle of an operation. `peer` is named in errors.
weft_result create_memory(const plugins::Host& host, std::uint64_t size, bool huge_pages,
                          std::uint32_t peer, SharedMemory* out);

/// Maps what `peer` passed, if it is memory of exactly `size` bytes that nobody can resize.
weft_result map_memory(const plugins::Host& host, const plugins::OwnedFd& descriptor,
                       std::uint64_t size, bool huge_pages, std::uint32_t peer,
                       plugins::Mapping* out);

}  // namespace weft::shm
