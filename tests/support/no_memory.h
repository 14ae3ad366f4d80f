// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A thread that is out of memory. Whoever uses it links no_memory.cc, whose operator new all of the
// program has then; not under sanitizers, which have their own (kSanitized): who would use it there
// is skipped.
#pragma once

#include <cstdint>

namespace weft::test {

/// While it lives operator new throws in this thread, once it has given `more`.
class NoMemory {
 public:
  explicit NoMemory(std::uint64_t more = 0);
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory();
};

}  // namespace weft::test
