// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/no_memory.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::uint32_t kUnlimited = std::numeric_limits<std::uint32_t>::max();
thread_local std::uint32_t calls_left = kUnlimited;
thread_local bool thrown = false;

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
  if (calls_left == 0) {
    thrown = true;
    throw std::bad_alloc();
  }
  if (calls_left != kUnlimited) --calls_left;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
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

NoMemory::NoMemory(std::uint32_t calls) {
  thrown = false;
  calls_left = calls;
}
NoMemory::~NoMemory() {
  calls_left = kUnlimited;
}
bool NoMemory::has_thrown() {
  return thrown;
}

}  // namespace weft::test
