// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/failure.h"

#include <new>
#include <utility>

namespace weft {

void Failure::raise() {
  abort_.store(1, std::memory_order_release);
  if (mirror_ != nullptr) mirror_->store(1, std::memory_order_release);
}

void Failure::set_mirror(std::atomic<std::uint32_t>* mirror) {
  const std::scoped_lock lock(mutex_);
  mirror_ = mirror;
  if (mirror_ != nullptr && stopped()) raise();
}

void Failure::suspect(Error evidence) {
  const std::unique_lock lock(mutex_);
  raise();
  if (cause_ || suspicion_) return;
  suspicion_ = std::move(evidence);
  suspected_at_ = std::chrono::steady_clock::now();
  if (alarm_) alarm_(kPatience);
}

void Failure::establish(Error cause, bool tell_others) {
  std::unique_lock lock(mutex_);
  raise();
  if (!cause_) {
    cause_ = std::move(cause);
    tell_others_ = tell_others;
    hook_due_ = true;
    changed_.notify_all();
  }
  run_hook(lock);
}

void Failure::note(Error cause, bool tell_others) noexcept {
  try {
    establish(std::move(cause), tell_others);
  } catch (const std::bad_alloc&) {
    return;  // It is established; the hook is due.
  }
}

void Failure::run_hook(std::unique_lock<std::mutex>& lock) {
  if (!hook_due_ || !hook_) return;
  hook_due_ = false;
  hook_running_ = true;
  const auto end = [&](bool done) {
    if (!lock.owns_lock()) lock.lock();
    hook_running_ = false;
    hook_due_ = !done;
    changed_.notify_all();
  };
  try {
    const Hook hook = hook_;
    const Error cause = *cause_;
    const bool tell_others = tell_others_;
    lock.unlock();
    hook(cause, tell_others);
  } catch (...) {
    end(false);  // by whoever asks next: others may wait for it, and nobody here ask
    if (alarm_) alarm_(kUntilMemory);
    throw;
  }
  end(true);
}

void Failure::promote_if_ripe(std::unique_lock<std::mutex>& lock) {
  if (cause_ || !suspicion_) return;
  if (std::chrono::steady_clock::now() < suspected_at_ + kPatience) return;
  cause_ = *suspicion_;
  tell_others_ = true;
  hook_due_ = true;
  changed_.notify_all();
  run_hook(lock);
}

weft_result Failure::code() {
  const auto found = known();
  return found ? found->code() : WEFT_OK;
}

std::optional<Error> Failure::known() {
  if (!stopped()) return std::nullopt;
  std::unique_lock lock(mutex_);
  promote_if_ripe(lock);
  run_hook(lock);
  return cause_ ? cause_ : suspicion_;
}

std::optional<Error> Failure::settle() {
  std::unique_lock lock(mutex_);
  if (!cause_ && suspicion_) {
    changed_.wait_until(lock, suspected_at_ + kPatience, [&] { return cause_.has_value(); });
    promote_if_ripe(lock);
  }
  run_hook(lock);
  // Who has the cause takes its buffers back. Until the hook has stopped the connections, they may
  // still read what was lent to them.
  changed_.wait(lock, [&] { return !hook_running_; });
  return cause_;
}

void Failure::set_alarm(Alarm alarm) {
  const std::scoped_lock lock(mutex_);
  alarm_ = std::move(alarm);
  if (!alarm_) return;
  if (hook_due_) alarm_(kUntilMemory);
  if (suspicion_ && !cause_) alarm_(kPatience);
}

void Failure::set_hook(Hook hook) {
  std::unique_lock lock(mutex_);
  hook_ = std::move(hook);
  run_hook(lock);
}

void Failure::clear_hook() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !hook_running_; });
  hook_ = nullptr;
}

}  // namespace weft
