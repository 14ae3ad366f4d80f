// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lanes as fibers of one thread, each a thread of its own to a thread sanitizer: switches order
// nothing, so it reports what lanes do to each other's memory as it does between threads, while
// none of them waits for a processor or the kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define WEFT_LANES_ARE_WATCHED
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define WEFT_LANES_ARE_WATCHED
#endif
#ifdef WEFT_LANES_ARE_WATCHED
#include <sanitizer/tsan_interface.h>
#endif

/// What all lanes touch to take turns, which is no program's memory: seen by a sanitizer it would
/// be reported. Plain data alone: what a library's templates do there would be seen.
#ifdef __clang__
#define WEFT_UNSEEN __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#define WEFT_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#endif

namespace weft::device::testing {

/// What a lane looks at that has not come.
struct LaneWait {
  const char* what;
  std::uint64_t* counter = nullptr;  ///< Which is below `threshold`; null: none.
  std::uint64_t threshold = 0;
};

/// Where a fiber is that does not run.
class SavedRegisters {
 public:
#ifdef __x86_64__
  /// As swapcontext, which asks the kernel for masks of signals each time: a tenth of the tests'
  /// time. What a call must preserve lies on the stack.
  WEFT_UNSEEN void swap(const SavedRegisters& next) { exchange(&place_, next.place_); }
  void begin_on(std::byte* stack, std::size_t bytes, void (*enter)()) {
    // Seven words that exchange() takes from it, and where `enter` would go back to: an address
    // that is aligned as behind a call.
    void** const top = reinterpret_cast<void**>(stack + bytes) - 1;
    top[0] = nullptr;
    top[-1] = reinterpret_cast<void*>(enter);
    place_ = top - kPreserved - 1;
  }

 private:
  static constexpr int kPreserved = 6;
  [[gnu::naked]] WEFT_UNSEEN static void exchange(void** /*before*/, void* /*next*/) {
    asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
  }
  void* place_ = nullptr;
#else
  WEFT_UNSEEN void swap(const SavedRegisters& next) { swapcontext(&context_, &next.context_); }
  void begin_on(std::byte* stack, std::size_t bytes, void (*enter)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    makecontext(&context_, enter, 0);
  }

 private:
  ucontext_t context_{};
#endif
};

class LaneFibers {
 private:
  struct Fiber;

 public:
  /// Those that wait at one barrier.
  class Waiting {
    friend class LaneFibers;
    Fiber* first_ = nullptr;
  };

  /// `seed`: of the order in which lanes take turns.
  explicit LaneFibers(std::uint64_t seed) : seed_(seed), random_(seed) {}
  LaneFibers(const LaneFibers&) = delete;
  LaneFibers& operator=(const LaneFibers&) = delete;

  /// Before run().
  void add(std::string name, std::function<void()> body) {
    fibers_.push_back(std::make_unique<Fiber>(std::move(name), std::move(body)));
  }

  /// Until all have ended. Throws, and says who waits for what, where none gets on.
  void run() {
    std::vector<Fiber*> ready;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      begin(*fibers_[i], i);
      ready.push_back(fibers_[i].get());
    }
    ready_ = ready.data();
    ready_count_ = left_ = ready.size();
    most_vain_turns_ = kVainTurns * ready.size();
    main_.watched = watched_now();
    running_ = this;
    std::string stuck;
    while (left_ != 0) {
      if (gets_on()) {
        switch_to(*pick(), kOrdersNothing);
      } else {
        stuck = who_waits();
        end_waits();
      }
    }
    running_ = nullptr;
    for (const auto& fiber : fibers_)
      end(*fiber);
    if (stuck_) throw std::runtime_error(stuck);
  }

  // By lanes.

  /// Another look at what has not come, when others had their turn.
  static void look_again(const LaneWait& wait) {
    if (!of_running().wait_in(nullptr, wait)) throw Stuck();
  }
  /// Until woken.
  static void wait(Waiting& waiting) {
    if (!of_running().wait_in(&waiting, {.what = "the other lanes at a barrier"})) throw Stuck();
  }
  /// All of them, before whom the caller goes on or not.
  WEFT_UNSEEN static void wake(Waiting& waiting) {
    if (running_ == nullptr || running_->stuck_) return;
    for (Fiber* fiber = waiting.first_; fiber != nullptr; fiber = fiber->next)
      running_->make_ready(*fiber);
    waiting.first_ = nullptr;
    running_->let_others_go_on();
  }
  /// Something is about to be stored that others may wait for: they may get their turn before.
  WEFT_UNSEEN static void storing() {
    if (running_ == nullptr) return;
    running_->vain_turns_ = 0;
    if (running_->random() % kOneStoreOf == 0) running_->let_others_go_on();
  }

 private:
  /// So many looks of each lane, by and by, while nobody stores anything: nobody will.
  static constexpr std::uint64_t kVainTurns = 2000;
  static constexpr std::uint64_t kOneStoreOf = 4;
  static constexpr std::uint64_t kTurnsToLag = 64;
  static constexpr std::size_t kStackBytes = std::size_t{256} << 10U;
#ifdef WEFT_LANES_ARE_WATCHED
  static constexpr unsigned kOrdersNothing = __tsan_switch_to_fiber_no_sync;
#else
  static constexpr unsigned kOrdersNothing = 1;
#endif
  static constexpr unsigned kOrders = 0;

  /// Ends a lane that waits for what does not come.
  struct Stuck {};

  struct Fiber {
    Fiber() = default;
    Fiber(std::string called, std::function<void()> does)
        : name(std::move(called)), body(std::move(does)) {}
    std::string name;
    std::function<void()> body;
    SavedRegisters registers;
    void* watched = nullptr;  // as the sanitizer knows it
    Fiber* next = nullptr;    // of those that wait at a barrier
    LaneWait wait{.what = "its turn"};
    bool ended = false;
  };

  /// Stacks, kept from one run to the next.
  static std::byte* stack(std::size_t index) {
    static std::vector<std::byte*> stacks;
    while (stacks.size() <= index) {
      // Below lie pages that end who overruns it.
      constexpr std::size_t kGuard = std::size_t{64} << 10U;
      void* const map = mmap(nullptr, kStackBytes + kGuard, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (map == MAP_FAILED || mprotect(map, kGuard, PROT_NONE) != 0) {
        throw std::runtime_error("no memory for the stack of another lane");
      }
      stacks.push_back(static_cast<std::byte*>(map) + kGuard);
    }
    return stacks[index];
  }

  static void begin(Fiber& fiber, std::size_t index) {
    fiber.registers.begin_on(stack(index), kStackBytes, &enter);
#ifdef WEFT_LANES_ARE_WATCHED
    fiber.watched = __tsan_create_fiber(0);
    __tsan_set_fiber_name(fiber.watched, fiber.name.c_str());
#endif
  }
  static void end(Fiber& fiber) {
#ifdef WEFT_LANES_ARE_WATCHED
    __tsan_destroy_fiber(fiber.watched);
#endif
    fiber.watched = nullptr;
  }
  static void* watched_now() {
#ifdef WEFT_LANES_ARE_WATCHED
    return __tsan_get_current_fiber();
#else
    return nullptr;
#endif
  }

  static void run_body(const Fiber& fiber) {
    try {
      fiber.body();
    } catch (const Stuck&) {  // run() says why
    }
  }
  /// Whoever runs the lanes sees all of what a lane did once it has ended.
  WEFT_UNSEEN static void enter() {
    LaneFibers& all = *running_;
    Fiber& fiber = *all.current_;
    run_body(fiber);
    fiber.ended = true;
    --all.left_;
    all.vain_turns_ = 0;
    all.switch_to(all.main_, kOrders);
  }

  static LaneFibers& of_running() {
    if (running() == nullptr) throw std::logic_error("a lane waits where there are no others");
    return *running();
  }
  WEFT_UNSEEN static LaneFibers* running() { return running_; }

  /// Whether to look again. `waiting`: only when woken.
  WEFT_UNSEEN bool wait_in(Waiting* waiting, const LaneWait& wait) {
    if (stuck_) return false;
    current_->wait = wait;
    if (waiting == nullptr) {
      make_ready(*current_);
    } else {
      current_->next = waiting->first_;
      waiting->first_ = current_;
    }
    ++vain_turns_;
    go_on();
    return !stuck_;
  }
  WEFT_UNSEEN void let_others_go_on() {
    if (stuck_) return;
    make_ready(*current_);
    go_on();
  }
  /// Whoever is next.
  WEFT_UNSEEN void go_on() { switch_to(gets_on() ? *pick() : main_, kOrdersNothing); }
  [[nodiscard]] WEFT_UNSEEN bool gets_on() const {
    return ready_count_ != 0 && vain_turns_ < most_vain_turns_;
  }
  WEFT_UNSEEN void make_ready(Fiber& fiber) { ready_[ready_count_++] = &fiber; }
  /// Any of those that can go on, but for one that lags behind them for a while: by chance alone
  /// none would be far behind the others.
  WEFT_UNSEEN Fiber* pick() {
    const std::uint64_t drawn = random();
    std::size_t at = drawn % ready_count_;
    if ((drawn >> 32U) % kTurnsToLag == 0) laggard_ = ready_[at];
    if (ready_[at] == laggard_) at = at == 0 ? ready_count_ - 1 : at - 1;
    Fiber* const picked = ready_[at];
    ready_[at] = ready_[--ready_count_];
    return picked;
  }
  WEFT_UNSEEN void switch_to(Fiber& next, unsigned order) {
    Fiber& before = *current_;
    if (&next == &before) return;
    current_ = &next;
#ifdef WEFT_LANES_ARE_WATCHED
    __tsan_switch_to_fiber(next.watched, order);
#else
    static_cast<void>(order);
#endif
    before.registers.swap(next.registers);
  }
  /// SplitMix64.
  WEFT_UNSEEN std::uint64_t random() {
    random_ += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = (random_ ^ random_ >> 30U) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ mixed >> 27U) * 0x94D049BB133111EBU;
    return mixed ^ mixed >> 31U;
  }

  [[nodiscard]] std::string who_waits() const {
    std::string text = "no lane gets on, in an order by seed " + std::to_string(seed_) + ":";
    for (const auto& fiber : fibers_) {
      if (fiber->ended) continue;
      const LaneWait& wait = fiber->wait;
      text += "\n  " + fiber->name + " waits for " + wait.what;
      if (wait.counter == nullptr) continue;
      text += " to be " + std::to_string(wait.threshold) + ", which is " +
              std::to_string(std::atomic_ref(*wait.counter).load(std::memory_order_relaxed));
    }
    return text;
  }
  /// All of them throw, as does each from now on.
  void end_waits() {
    stuck_ = true;
    vain_turns_ = 0;
    ready_count_ = 0;
    for (const auto& fiber : fibers_) {
      if (!fiber->ended) make_ready(*fiber);
    }
  }

  static inline LaneFibers* running_ = nullptr;

  const std::uint64_t seed_;
  std::uint64_t random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber main_;
  Fiber* current_ = &main_;
  Fiber** ready_ = nullptr;
  std::size_t ready_count_ = 0;
  Fiber* laggard_ = nullptr;
  std::size_t left_ = 0;  // that have not ended
  std::uint64_t vain_turns_ = 0;
  std::uint64_t most_vain_turns_ = 0;
  bool stuck_ = false;
};

}  // namespace weft::device::testing
