// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/no_memory.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool is_out = false;
thread_local std::uint64_t still_given = 0;

bool is_denied() {
  if (!is_out) return false;
  if (still_given == 0) return true;
  --still_given;
  return false;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
#define WEFT_KEEPS_OPERATOR_NEW
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_KEEPS_OPERATOR_NEW
#endif
#endif

#ifndef WEFT_KEEPS_OPERATOR_NEW
void* operator new(std::size_t bytes) {
  void* const memory = is_denied() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
#endif

namespace weft::test {

NoMemory::NoMemory(std::uint64_t more) {
  is_out = true;
  still_given = more;
}
NoMemory::~NoMemory() {
  is_out = false;
}

}  // namespace weft::test
