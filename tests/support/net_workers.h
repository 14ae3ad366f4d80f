// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a kernel's worker does at one end of a net-backed connection, for tests of ports and the
// engine: it waits as kernels wait, drives its port meanwhile, and hands it over before it sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/wait.h"
#include "core/transport/net_port.h"
#include "core/transport/progress_engine.h"

namespace weft::test {

/// Byte `i` of what step `step` carries.
inline std::byte payload_byte(std::uint64_t step, std::uint64_t tag, std::uint32_t i) {
  return static_cast<std::byte>(step * 31 + tag * 17 + std::uint64_t{i} * 7 + 3);
}

inline void fill_slot(const ConnectionView& view, std::uint64_t step, std::uint32_t size,
                      std::uint64_t tag) {
  const std::uint64_t slot = step % view.steps;
  for (std::uint32_t i = 0; i < size; ++i)
    view.buffer[slot * view.step_bytes + i] = payload_byte(step, tag, i);
  view.slots[slot] = {.size = size, .offset = 0, .tag = tag};
}

/// Empty if the slot holds just that.
inline std::string check_slot(const ConnectionView& view, std::uint64_t step, std::uint32_t size,
                              std::uint64_t tag) {
  const std::uint64_t slot = step % view.steps;
  const SlotMeta& meta = view.slots[slot];
  const std::string where = "step " + std::to_string(step) + ": ";
  if (meta.tag != tag) {
    return where + "tag " + std::to_string(meta.tag) + " where " + std::to_string(tag) + " was due";
  }
  if (meta.size != size) {
    return where + std::to_string(meta.size) + " bytes where " + std::to_string(size) + " were due";
  }
  for (std::uint32_t i = 0; i < size; ++i) {
    if (view.buffer[slot * view.step_bytes + meta.offset + i] != payload_byte(step, tag, i)) {
      return where + "byte " + std::to_string(i) + " is another";
    }
  }
  return {};
}

/// One end. Both ends of a connection name the same operations in the same order. Threads: one.
class NetWorker {
 public:
  NetWorker(NetPort& port, ProgressEngine& engine, std::uint32_t connection = 0)
      : port_(port), engine_(engine), view_(port.view(connection)), connection_(connection) {}

  /// Fills `steps` slots as they become free, and leaves the last ones to the engine.
  void send(std::uint64_t tag, std::uint64_t steps) {
    enqueue(steps);
    for (std::uint64_t i = 0; i < steps; ++i, ++step_) {
      if (!wait(view_.head, view_.head_waiters,
                step_ < view_.steps ? 0 : step_ + 1 - view_.steps)) {
        return;
      }
      fill_slot(view_, step_, size_of(step_, tag), tag);
      post(view_.tail, view_.tail_waiters, step_ + 1);
    }
    leave();
  }

  /// Takes `steps` slots and compares them with what send fills.
  void receive(std::uint64_t tag, std::uint64_t steps) {
    enqueue(steps);
    for (std::uint64_t i = 0; i < steps; ++i, ++step_) {
      if (!wait(view_.tail, view_.tail_waiters, step_ + 1)) return;
      if (mistake_.empty()) mistake_ = check_slot(view_, step_, size_of(step_, tag), tag);
      post(view_.head, view_.head_waiters, step_ + 1);
    }
    leave();
  }

  /// Any thread: makes this end give up.
  void stop() { stop_.store(true, std::memory_order_release); }

  [[nodiscard]] std::uint64_t steps() const { return step_; }
  [[nodiscard]] const std::string& mistake() const { return mistake_; }
  /// Sleeps that nobody ended.
  [[nodiscard]] std::uint64_t stalls() const { return stalls_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kStall{49};

  [[nodiscard]] std::uint32_t size_of(std::uint64_t step, std::uint64_t tag) const {
    return static_cast<std::uint32_t>((step * 97 + tag * 13) % (view_.step_bytes + 1));
  }
  void enqueue(std::uint64_t steps) {
    const ProgressOp operation{.connection = connection_, .reserved = 0, .steps = steps};
    port_.enqueue({&operation, 1});
  }

  bool wait(std::uint64_t* counter, std::uint32_t* waiters, std::uint64_t threshold) {
    Clock::time_point asleep{};
    const auto look = [&] {
      if (asleep != Clock::time_point{} && Clock::now() - asleep >= kStall) ++stalls_;
      asleep = {};
    };
    const std::uint64_t seen = waiter_.wait(
        counter, waiters, threshold,
        [&] {
          look();
          return stop_.load(std::memory_order_acquire);
        },
        [&](bool about_to_sleep) {
          if (!port_.busy()) {
            if (about_to_sleep) asleep = Clock::now();
            return false;
          }
          const bool moved = about_to_sleep ? port_.progress() : port_.try_progress();
          if (moved || !about_to_sleep) return moved;
          if (port_.busy()) engine_.take_over(port_);
          asleep = Clock::now();
          return false;
        });
    look();
    return seen >= threshold;
  }
  void leave() {
    if (!port_.busy()) return;
    port_.progress();
    if (port_.busy()) engine_.take_over(port_);
  }

  NetPort& port_;
  ProgressEngine& engine_;
  const ConnectionView view_;
  const std::uint32_t connection_;
  std::uint64_t step_ = 0;
  std::uint64_t stalls_ = 0;
  std::string mistake_;
  Waiter waiter_;
  std::atomic<bool> stop_{false};
};

}  // namespace weft::test
