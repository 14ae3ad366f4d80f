// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/support/no_memory.h"

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>

namespace {

thread_local bool is_out = false;
thread_local std::uint64_t still_given = 0;
thread_local bool has_all = false;
std::atomic<bool> is_out_elsewhere{false};
std::atomic<std::uint64_t> refused{0};

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
#define WEFT_KEEPS_OPERATOR_NEW
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_KEEPS_OPERATOR_NEW
#endif
#endif

#ifndef WEFT_KEEPS_OPERATOR_NEW
namespace {

bool is_denied() {
  if (is_out_elsewhere.load(std::memory_order_relaxed) && !has_all) {
    refused.fetch_add(1);
    return true;
  }
  if (!is_out) return false;
  if (still_given == 0) {
    refused.fetch_add(1);
    return true;
  }
  --still_given;
  return false;
}

}  // namespace

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
std::uint64_t NoMemory::refusals() {
  return refused.load();
}

NoMemoryElsewhere::NoMemoryElsewhere() {
  has_all = true;
  is_out_elsewhere = true;
}
NoMemoryElsewhere::~NoMemoryElsewhere() {
  is_out_elsewhere = false;
  has_all = false;
}
void NoMemoryElsewhere::await_refusal() const {
  while (NoMemory::refusals() == refused_before_)
    std::this_thread::yield();
}

ReactorWithoutMemory::ReactorWithoutMemory(Reactor& reactor)
    : reactor_(reactor), turn_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  auto watch = reactor.add(turn_.get(), EPOLLIN, [this](std::uint32_t) {
    eventfd_t value = 0;
    static_cast<void>(eventfd_read(turn_.get(), &value));
    none_ ? none_.reset() : static_cast<void>(none_.emplace());
    is_out_ = none_.has_value();
  });
  if (!watch) throw std::runtime_error(watch.error().to_string());
  watch_ = *watch;
  refused_before_ = NoMemory::refusals();
  await_turn(true);
}

ReactorWithoutMemory::~ReactorWithoutMemory() {
  await_turn(false);
  reactor_.remove(watch_);
}

void ReactorWithoutMemory::await_turn(bool is_out) {
  static_cast<void>(eventfd_write(turn_.get(), 1));
  while (is_out_ != is_out)
    std::this_thread::yield();
}

void ReactorWithoutMemory::await_refusal() const {
  while (NoMemory::refusals() == refused_before_)
    std::this_thread::yield();
}

}  // namespace weft::test
