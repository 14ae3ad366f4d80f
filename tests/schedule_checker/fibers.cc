// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// ucontext, since the C library has it. Each of its switches makes two system calls, for masks of
// signals that nobody changes: two that have begun change places by setjmp and longjmp, which make
// none.
#include "tests/schedule_checker/fibers.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <malloc.h>
#include <memory>
#include <setjmp.h>
#include <stdexcept>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace weft::checker {
namespace {

std::size_t page_size() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

struct Stacks::Fiber {
  enum class State : std::uint8_t { kReady, kWaiting, kLooking, kEnded };

  alignas(64) jmp_buf registers{};
  // What is touched each time that it waits.
  alignas(64) const std::uint64_t* counter = nullptr;
  std::uint64_t threshold = 0;
  std::uint64_t seen_changes = 0;  // when its look began
  Fibers* owner = nullptr;
  std::byte* stack = nullptr;
  std::uint32_t number = 0;
  std::uint32_t next = 0;  // of those that wait for the same: its number + 1
  State state = State::kReady;
  bool begun = false;
  std::unique_ptr<ucontext_t> context;  // until it has begun

  Fiber() = default;
  explicit Fiber(std::size_t index);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  static void enter(unsigned high, unsigned low);
};

// Below the stack lies a page that ends who overruns it.
Stacks::Fiber::Fiber(std::size_t index) {
  void* const map = mmap(nullptr, size() + page_size(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED || mprotect(map, page_size(), PROT_NONE) != 0) {
    throw std::runtime_error("no memory for the stack of another fiber");
  }
  stack = static_cast<std::byte*>(map) + page_size();
  context = std::make_unique<ucontext_t>();
  if (getcontext(context.get()) != 0) throw std::runtime_error("getcontext failed");
  // Stacks that all begin at the same place of a page share a few sets of the processor's caches.
  constexpr std::size_t kColours = 32;
  constexpr std::size_t kColourBytes = 128;
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = size() - index % kColours * kColourBytes;
  context->uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(context.get(), reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
}

Stacks::Fiber::~Fiber() {
  if (stack != nullptr) munmap(stack - page_size(), size() + page_size());
}

// One body after the other, each of another execution.
void Stacks::Fiber::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
  for (;;) {
    (*self->owner->body_)(self->number);
    self->state = State::kEnded;
    --self->owner->left_;
    self->owner->pause();
  }
}

// The memory of an execution serves the next: of the kernel it would come page by page.
Stacks::Stacks() {
  constexpr int kMost = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, kMost);
}

Stacks::~Stacks() = default;

std::size_t Stacks::size() {
  return std::size_t{36} << 10;
}

Stacks::Fiber& Stacks::at(std::size_t index) {
  while (fibers_.size() <= index)
    fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
  return *fibers_[index];
}

void Fibers::Queue::reserve(std::size_t count) {
  ring_.resize(std::bit_ceil(count));
  mask_ = static_cast<std::uint32_t>(ring_.size() - 1);
}

std::uint32_t Fibers::Queue::pop_front() {
  const std::uint32_t fiber = at(0);
  ++first_;
  --size_;
  return fiber;
}

Fibers::Fibers(Stacks& stacks, Turns turns, std::uint64_t seed)
    : stacks_(stacks), turns_(turns), random_(seed), main_(std::make_unique<Fiber>()) {}

Fibers::~Fibers() = default;

std::uint32_t Fibers::current() const {
  return current_->number;
}

bool Fibers::is_own(const std::byte* at) const {
  const std::byte* const stack = current_->stack;
  return stack != nullptr && at >= stack && at < stack + Stacks::size();
}

void Fibers::switch_to(Fiber* next) {
  Fiber* before = current_;
  if (next == before) return;
  current_ = next;
  before->begun = true;
  if (_setjmp(before->registers) == 0) {
    if (next->begun) _longjmp(next->registers, 1);
    setcontext(next->context.get());
    std::abort();
  }
}

void Fibers::run(std::size_t count, const std::function<void(std::size_t)>& body,
                 const std::function<void(const std::vector<Wait>&)>& stuck) {
  body_ = &body;
  left_ = count;
  current_ = main_.get();
  for (Queue* queue : {&ready_, &late_, &stirred_})
    queue->reserve(std::max<std::size_t>(count, 1));
  fibers_.reserve(count);
  std::vector<std::uint32_t> order;
  for (std::uint32_t number = 0; number < count; ++number) {
    Fiber& fiber = stacks_.at(number);
    fiber.owner = this;
    fiber.number = number;
    fiber.next = 0;
    fiber.counter = nullptr;
    fiber.seen_changes = 0;
    fiber.state = Fiber::State::kReady;
    fibers_.push_back(&fiber);
    order.push_back(number);
  }
  if (turns_ == Turns::kShuffled) std::ranges::shuffle(order, random_);
  for (const std::uint32_t number : order)
    ready_.push(number);
  while (left_ != 0) {
    Fiber* first = next();
    if (first != main_.get()) {
      switch_to(first);
      continue;
    }
    std::vector<Wait> waits;
    for (const Fiber* fiber : fibers_) {
      if (fiber->state != Fiber::State::kEnded) {
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
  if (stopped_ && !all_woken_) wake_all();
  if (ready_.empty() && late_.empty()) {
    for (const std::uint32_t where : overlooked_) {
      outlooks_[where].overlooked = false;
      wake_looking(outlooks_[where], ready_);
    }
    overlooked_.clear();
    while (!stirred_.empty())
      make_ready(stirred_.pop_front(), false);
    if (ready_.empty()) return main_.get();
  }
  Queue& from = ready_.empty() ? late_ : ready_;
  if (turns_ == Turns::kInOrder) return &fiber(from.pop_front());
  if (turns_ == Turns::kShuffled) {
    std::swap(from.at(random_.below(from.size())), from.at(from.size() - 1));
  }
  return &fiber(from.pop_back());
}

void Fibers::make_ready(std::uint32_t number, bool late) {
  fiber(number).state = Fiber::State::kReady;
  (late ? late_ : ready_).push(number);
}

void Fibers::wake_all() {
  all_woken_ = true;
  overlooked_.clear();
  while (!stirred_.empty())
    make_ready(stirred_.pop_front(), false);
  for (const Fiber* fiber : fibers_) {
    if (fiber->state == Fiber::State::kWaiting || fiber->state == Fiber::State::kLooking) {
      make_ready(fiber->number, false);
    }
  }
}

// To whoever goes on next; back when it is this one's turn again.
void Fibers::pause() {
  switch_to(next());
}

void Fibers::append(std::uint32_t& first, Fiber& fiber) {
  fiber.next = 0;
  std::uint32_t* link = &first;
  while (*link != 0)
    link = &this->fiber(*link - 1).next;
  *link = fiber.number + 1;
}

bool Fibers::wait(const std::uint64_t* counter, std::uint64_t threshold, Waiters& waiters) {
  while (*counter < threshold) {
    if (stopped_) return false;
    Fiber& self = *current_;
    self.counter = counter;
    self.threshold = threshold;
    self.state = Fiber::State::kWaiting;
    append(waiters.first_, self);
    pause();
  }
  return !stopped_;
}

void Fibers::raised(const std::uint64_t* counter, bool filled, Waiters& waiters) {
  if (stopped_) return;  // all are woken
  const bool late =
      (turns_ == Turns::kLateReceivers && filled) || (turns_ == Turns::kEarlyReceivers && !filled);
  for (std::uint32_t* link = &waiters.first_; *link != 0;) {
    Fiber& waiting = fiber(*link - 1);
    if (*counter < waiting.threshold) {
      link = &waiting.next;
      continue;
    }
    *link = waiting.next;
    make_ready(waiting.number, late);
  }
}

Fibers::Outlook& Fibers::outlook(std::uint32_t where) {
  if (outlooks_.size() <= where) outlooks_.resize(where + 1);
  return outlooks_[where];
}

bool Fibers::look_again(std::uint32_t where) {
  if (stopped_) return false;
  Fiber& self = *current_;
  Outlook& here = outlook(where);
  self.counter = nullptr;
  self.state = Fiber::State::kLooking;
  if (self.seen_changes != here.changes) {
    self.state = Fiber::State::kReady;
    (turns_ == Turns::kShuffled ? ready_ : stirred_).push(self.number);
  } else {
    append(here.looking, self);
  }
  pause();
  self.seen_changes = outlook(where).changes;
  return !stopped_;
}

void Fibers::changed(std::uint32_t where) {
  if (where >= outlooks_.size()) return;  // nobody has looked there
  Outlook& there = outlooks_[where];
  ++there.changes;
  if (stopped_) return;
  if (there.looking == 0) return;
  constexpr std::uint64_t kOneOf = 4;
  if (turns_ != Turns::kShuffled) {
    wake_looking(there, stirred_);
  } else if (random_() % kOneOf == 0) {
    wake_looking(there, ready_);  // in time to see what others have not finished
  } else if (!there.overlooked) {
    there.overlooked = true;
    overlooked_.push_back(where);
  }
}

void Fibers::wake_looking(Outlook& there, Queue& queue) {
  while (there.looking != 0) {
    Fiber& looking = fiber(there.looking - 1);
    there.looking = looking.next;
    looking.state = Fiber::State::kReady;
    queue.push(looking.number);
  }
}

void Fibers::yield_sometimes() {
  constexpr std::uint64_t kOneOf = 4;
  if (stopped_ || random_() % kOneOf != 0) return;
  make_ready(current_->number, false);
  pause();
}

void Fibers::stop() {
  stopped_ = true;
}

}  // namespace weft::checker
