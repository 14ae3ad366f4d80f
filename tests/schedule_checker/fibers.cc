// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// ucontext, since the C library has it. Each of its switches makes two system calls, for masks of
// signals that nobody changes: two that have begun change places by setjmp and longjmp, which make
// none.
#include "tests/schedule_checker/fibers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <stdexcept>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace weft::checker {
namespace {

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Stacks::Stacks() = default;

Stacks::~Stacks() {
  for (std::byte* map : maps_)
    munmap(map, size() + page_size());
}

std::size_t Stacks::size() {
  return std::size_t{32} << 10;
}

std::byte* Stacks::at(std::size_t index) {
  while (maps_.size() <= index) {
    void* map = mmap(nullptr, size() + page_size(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, page_size(), PROT_NONE) != 0) {
      throw std::runtime_error("no memory for the stack of another fiber");
    }
    maps_.push_back(static_cast<std::byte*>(map));
  }
  return maps_[index] + page_size();
}

struct Fibers::Fiber {
  ucontext_t context{};
  jmp_buf registers{};
  bool begun = false;
  std::function<void()> body;
  Fibers* owner = nullptr;
  std::size_t number = 0;
  std::byte* stack = nullptr;
  std::uint64_t seen_changes = 0;  // when its look at several began
  const std::uint64_t* counter = nullptr;
  std::uint64_t threshold = 0;
  bool ended = false;
};

Fibers::Fibers(Stacks& stacks, Turns turns, std::uint64_t seed)
    : stacks_(stacks), turns_(turns), random_(seed), main_(std::make_unique<Fiber>()) {}

Fibers::~Fibers() = default;

bool Fibers::is_own(const std::byte* at) const {
  const std::byte* const stack = current_->stack;
  return stack != nullptr && at >= stack && at < stack + Stacks::size();
}

void Fibers::add(std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->owner = this;
  fiber->number = fibers_.size();
  fiber->body = std::move(body);
  fiber->stack = stacks_.at(fiber->number);
  if (getcontext(&fiber->context) != 0) throw std::runtime_error("getcontext failed");
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = Stacks::size();
  fiber->context.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(fiber.get());
  makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Fibers::enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  ready_.push_back(fiber->number);
  fibers_.push_back(std::move(fiber));
}

void Fibers::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
  Fibers& fibers = *self->owner;
  self->body();
  self->ended = true;
  --fibers.left_;
  fibers.changed();
  fibers.pause();
}

void Fibers::switch_to(Fiber* next) {
  Fiber* before = current_;
  if (next == before) return;
  current_ = next;
  before->begun = true;
  if (_setjmp(before->registers) == 0) {
    if (next->begun) _longjmp(next->registers, 1);
    setcontext(&next->context);
    std::abort();
  }
}

void Fibers::run(const std::function<void(const std::vector<Wait>&)>& stuck) {
  left_ = fibers_.size();
  current_ = main_.get();
  if (turns_ == Turns::kShuffled) std::ranges::shuffle(ready_, random_);
  while (left_ != 0) {
    Fiber* first = next();
    if (first != main_.get()) {
      switch_to(first);
      continue;
    }
    std::vector<Wait> waits;
    for (const auto& fiber : fibers_) {
      if (!fiber->ended) {
        waits.push_back(
            {.fiber = fiber->number, .counter = fiber->counter, .threshold = fiber->threshold});
      }
    }
    // Who goes on though all waits have ended waits for something else than this.
    if (stopped_) throw std::logic_error("fibers wait though they were stopped");
    stuck(waits);
    stop();
  }
}

Fibers::Fiber* Fibers::next() {
  if (stopped_) wake_all();
  if (ready_.empty() && late_.empty() && !wake_looking()) return main_.get();
  std::deque<std::size_t>& from = ready_.empty() ? late_ : ready_;
  if (turns_ == Turns::kShuffled) std::swap(from[random_() % from.size()], from.back());
  const bool oldest = turns_ == Turns::kInOrder;
  const std::size_t number = oldest ? from.front() : from.back();
  if (oldest) {
    from.pop_front();
  } else {
    from.pop_back();
  }
  return fibers_[number].get();
}

void Fibers::make_ready(std::size_t fiber, bool late) {
  (late ? late_ : ready_).push_back(fiber);
}

bool Fibers::wake_looking() {
  std::erase_if(looking_, [&](std::size_t number) {
    if (fibers_[number]->seen_changes == changes_) return false;
    make_ready(number, false);
    return true;
  });
  return !ready_.empty();
}

void Fibers::wake_all() {
  for (auto& [counter, waiters] : waiting_) {
    for (const std::size_t number : waiters)
      make_ready(number, false);
    waiters.clear();
  }
  for (const std::size_t number : looking_)
    make_ready(number, false);
  looking_.clear();
}

// To whoever goes on next; back when it is this one's turn again.
void Fibers::pause() {
  switch_to(next());
}

bool Fibers::wait(const std::uint64_t* counter, std::uint64_t threshold) {
  while (*counter < threshold) {
    if (stopped_) return false;
    current_->counter = counter;
    current_->threshold = threshold;
    waiting_[counter].push_back(current_->number);
    pause();
  }
  return !stopped_;
}

bool Fibers::look_again() {
  if (stopped_) return false;
  Fiber& self = *current_;
  self.counter = nullptr;
  looking_.push_back(self.number);
  pause();
  self.seen_changes = changes_;
  return !stopped_;
}

void Fibers::raised(const std::uint64_t* counter, bool filled) {
  ++changes_;
  const auto found = waiting_.find(counter);
  if (found == waiting_.end()) return;
  const bool late =
      (turns_ == Turns::kLateReceivers && filled) || (turns_ == Turns::kEarlyReceivers && !filled);
  std::erase_if(found->second, [&](std::size_t number) {
    if (*counter < fibers_[number]->threshold) return false;
    make_ready(number, late);
    return true;
  });
}

void Fibers::perhaps_yield() {
  constexpr std::uint64_t kOneOf = 4;
  if (turns_ != Turns::kShuffled || stopped_ || random_() % kOneOf != 0) return;
  make_ready(current_->number, false);
  pause();
}

void Fibers::stop() {
  stopped_ = true;
}

}  // namespace weft::checker
