// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/base/reactor.h"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "core/base/fd.h"
#include "core/base/thread_name.h"

namespace weft {

// Ownership: `watches` and `running` are guarded by `mutex`. The reactor thread copies a callback
// out under the lock, marks its id as running, calls it unlocked, and clears the mark; remove()
// waits for the mark to clear, so a removed callback's captures may be destroyed at once.
struct Reactor::State {
  UniqueFd epoll;
  UniqueFd wake;
  std::mutex mutex;
  std::condition_variable idle;
  std::unordered_map<WatchId, std::pair<int, std::shared_ptr<Callback>>> watches;
  WatchId next_id = 1;
  WatchId running = 0;
  bool stop = false;
  std::thread thread;

  void loop();
  void dispatch(WatchId id, std::uint32_t events);
};

void Reactor::State::dispatch(WatchId id, std::uint32_t events) {
  std::shared_ptr<Callback> callback;
  {
    const std::lock_guard lock(mutex);
    const auto found = watches.find(id);
    if (found == watches.end()) return;
    callback = found->second.second;
    running = id;
  }
  (*callback)(events);
  // Before the mark is cleared: if it was removed meanwhile, its captures are gone when remove()
  // returns. Unlocked: a destructor among the captures may call remove().
  callback.reset();
  {
    const std::lock_guard lock(mutex);
    running = 0;
  }
  idle.notify_all();
}

void Reactor::State::loop() {
  std::array<epoll_event, 32> events{};
  while (true) {
    const int ready = epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), -1);
    {
      const std::lock_guard lock(mutex);
      if (stop) return;
    }
    for (int i = 0; i < ready; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 != 0) dispatch(event.data.u64, event.events);
    }
  }
}

Reactor::Reactor() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Reactor>> Reactor::create() {
  std::unique_ptr<Reactor> reactor(new Reactor());
  State& state = *reactor->state_;
  state.epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!state.epoll) return fail(Error::from_errno(errno, "cannot create an epoll descriptor"));
  state.wake.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state.wake) return fail(Error::from_errno(errno, "cannot create an event descriptor"));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (epoll_ctl(state.epoll.get(), EPOLL_CTL_ADD, state.wake.get(), &event) != 0) {
    return fail(Error::from_errno(errno, "cannot watch an event descriptor"));
  }
  try {
    state.thread = std::thread([&state] {
      name_this_thread("weft-reactor");
      state.loop();
    });
  } catch (const std::system_error& error) {
    return fail(Error::from_errno(error.code().value(), "cannot start the reactor's thread"));
  }
  return reactor;
}

Reactor::~Reactor() {
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  eventfd_write(state_->wake.get(), 1);
  state_->thread.join();
}

Result<Reactor::WatchId> Reactor::add(int fd, std::uint32_t events, Callback callback) {
  const std::lock_guard lock(state_->mutex);
  const WatchId id = state_->next_id++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(state_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail(Error::from_errno(errno, "cannot watch descriptor " + std::to_string(fd)));
  }
  state_->watches.emplace(id, std::pair(fd, std::make_shared<Callback>(std::move(callback))));
  return id;
}

void Reactor::remove(WatchId id) {
  if (id == 0) return;                // No watch has it: it says that none is running.
  std::shared_ptr<Callback> removed;  // Declared first: destroyed after the lock is released.
  std::unique_lock lock(state_->mutex);
  const auto found = state_->watches.find(id);
  if (found != state_->watches.end()) {
    epoll_ctl(state_->epoll.get(), EPOLL_CTL_DEL, found->second.first, nullptr);
    removed = std::move(found->second.second);
    state_->watches.erase(found);
  }
  if (on_reactor_thread()) return;
  state_->idle.wait(lock, [&] { return state_->running != id; });
}

bool Reactor::on_reactor_thread() const {
  return std::this_thread::get_id() == state_->thread.get_id();
}

}  // namespace weft
