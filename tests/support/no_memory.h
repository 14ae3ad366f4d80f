// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A thread that is out of memory. Whoever uses it links no_memory.cc, whose operator new all of the
// program has then; not under sanitizers, which have their own (kSanitized): who would use it there
// is skipped.
#pragma once

#include <cstdint>

namespace weft::test {

/// While it lives operator new throws in this thread, once it has been called `calls` times.
class NoMemory {
 public:
  explicit NoMemory(std::uint32_t calls = 0);
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory();

  [[nodiscard]] static bool has_thrown();  ///< Since the latest was made.
};

}  // namespace weft::test
