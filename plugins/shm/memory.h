// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The memory behind a connection: anonymous, passed as a descriptor, gone with its last user.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plugins/common/host.h"
#include "plugins/common/owned.h"

namespace weft::shm {

/// Whether memory is to be made of huge pages; the parameter `huge_pages`.
enum class HugePages : std::uint8_t {
  kOff,
  kTry,      ///< Of the host's pool if it has enough, else ordinary ones with a hint to the kernel.
  kRequire,  ///< Of the pool or not at all.
};
/// Reads "off", "try" or "require"; nothing else.
std::optional<HugePages> parse_huge_pages(std::string_view text);

/// A descriptor of shared memory and where it is mapped here.
struct SharedMemory {
  plugins::OwnedFd descriptor;
  plugins::Mapping mapping;
  /// Why huge pages were tried in vain, an errno; 0: they were not, or these are.
  int no_huge_pages = 0;
};

/// Makes at least `size` zeroed bytes that nobody can resize and whose pages exist, so that running
/// out of memory shows here and not in the middle of an operation. `peer` is named in errors.
weft_result create_memory(const plugins::Host& host, std::uint64_t size, HugePages huge_pages,
                          std::uint32_t peer, SharedMemory* out);

/// Maps what `peer` passed, if it is memory of `size` bytes, up to the end of a huge page where it
/// is made of those, that nobody can resize. `hint`: ask the kernel to make huge pages of it.
weft_result map_memory(const plugins::Host& host, const plugins::OwnedFd& descriptor,
                       std::uint64_t size, bool hint, std::uint32_t peer, plugins::Mapping* out);

}  // namespace weft::shm
