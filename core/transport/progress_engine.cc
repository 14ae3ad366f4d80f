// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/progress_engine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/fd.h"
#include "core/base/thread_name.h"
#include "core/transport/net_port.h"

namespace weft {

// `mutex` guards the list of ports and is held by the thread during a round over them, so remove()
// returns only between rounds. A round never blocks: NetPort::progress does not, and the sleep in
// epoll happens without the lock. take_over sets the port's duty flag, then kNews in `attention`. A
// round begins by clearing that, so it reads every flag whose news it cleared. Before it sleeps the
// thread sets kSleeps there, and goes round again if there is news; who brings news to kSleeps
// alone writes the wake-up. So who brings it to a thread that is awake makes no system call.
// look_in does alike with a flag of its own, since a thread that sleeps for a port on duty would
// not look at a clock.
//
// Models: tests/models/engine_duty.pml; of remove() tests/models/abort.pml
struct ProgressEngine::State {
  explicit State(Logger& log) : logger(log) {}

  Logger& logger;
  UniqueFd epoll;
  UniqueFd wake;
  mutable std::mutex mutex;
  std::vector<NetPort*> ports;                // guarded by mutex
  std::unordered_map<NetPort*, int> watched;  // descriptor in epoll or -1, guarded by mutex
  std::atomic<bool> stop{false};
  std::atomic<unsigned> attention{0};  // kNews and kSleeps
  std::thread thread;

  // What a round over the ports on duty found.
  struct Found {
    bool moved = false;
    bool on_duty = false;               // one is still
    bool polled = false;                // one was that must be polled
    std::optional<NetPort::Time> look;  // when the first of those looked after must not keep more
  };

  void tell();
  void loop();
  Found round();
  void look_after(NetPort& port, NetPort::Time now, Found& found);
  std::optional<std::chrono::nanoseconds> prepare_sleep();
  void sleep(std::optional<std::chrono::nanoseconds> at_most);
  void watch(NetPort& port, int descriptor);
  void unwatch(NetPort& port);
};

namespace {

// A port was put on duty, or is to be looked after, since the last round began.
constexpr unsigned kNews = 1;
// The thread sleeps, or is about to.
constexpr unsigned kSleeps = 2;
constexpr int kIdleRounds = 50;  // rounds without movement before the thread sleeps
// Between looks at nets that cannot wake a sleeper.
constexpr std::chrono::milliseconds kCannotSleepNap(1);
// A kernel that fills or frees a slot does not touch the descriptor, and its worker moves the port
// itself; the bound is for the moment between its last look and its sleep.
constexpr std::chrono::milliseconds kLongestSleep(50);
// A program that waits for a GPU's call and then makes the next one finds the thread awake.
constexpr std::chrono::microseconds kLinger(100);

}  // namespace

void ProgressEngine::State::tell() {
  if (attention.fetch_or(kNews, std::memory_order_seq_cst) == kSleeps) eventfd_write(wake.get(), 1);
}

ProgressEngine::State::Found ProgressEngine::State::round() {
  // Most rounds find nothing new, and need not take the line from whoever brings news.
  if (attention.load(std::memory_order_relaxed) != 0) {
    attention.exchange(0, std::memory_order_seq_cst);
  }
  const std::scoped_lock lock(mutex);
  Found found;
  std::optional<NetPort::Time> now;
  for (NetPort* port : ports) {
    if (port->looked_after_.load(std::memory_order_acquire)) {
      if (!now) now = std::chrono::steady_clock::now();
      look_after(*port, *now, found);
    }
    if (!port->on_duty_.load(std::memory_order_acquire)) continue;
    found.polled |= port->must_be_polled();
    found.moved |= port->progress();
    if (port->busy()) {
      found.on_duty = true;
      continue;
    }
    // Off duty, unless an operation came meanwhile: its worker may have called take_over just
    // before the flag was cleared. Both sides are sequentially consistent, so one sees the other.
    port->on_duty_.store(false, std::memory_order_seq_cst);
    if (port->busy()) {
      port->on_duty_.store(true, std::memory_order_seq_cst);
      found.on_duty = true;
      continue;
    }
    unwatch(*port);
  }
  return found;
}

void ProgressEngine::State::look_after(NetPort& port, NetPort::Time now, Found& found) {
  const NetPort::Time until = port.keeps_until();
  if (until > now) {
    found.look = std::min(until, found.look.value_or(until));
    return;
  }
  // Whoever keeps messages from here on calls look_in again; what was kept before is moved now.
  port.looked_after_.store(false, std::memory_order_seq_cst);
  if (!port.busy()) return;
  found.moved |= port.progress();
  if (port.busy()) port.on_duty_.store(true, std::memory_order_seq_cst);
}

void ProgressEngine::State::watch(NetPort& port, int descriptor) {
  epoll_event event{};
  // One shot: while a worker drives the port, its traffic must not wake this thread in vain.
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = 1;
  int& known = watched.at(&port);
  if (known >= 0 && known != descriptor) unwatch(port);
  if (epoll_ctl(epoll.get(), known >= 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, &event) == 0) {
    known = descriptor;
  }
}

// The entry stays, so that a port that comes on duty again allocates nothing.
void ProgressEngine::State::unwatch(NetPort& port) {
  const auto found = watched.find(&port);
  if (found == watched.end() || found->second < 0) return;
  epoll_ctl(epoll.get(), EPOLL_CTL_DEL, found->second, nullptr);
  found->second = -1;
}

// How long to sleep at most for the ports on duty: not at all when some port has work right now.
std::optional<std::chrono::nanoseconds> ProgressEngine::State::prepare_sleep() {
  const std::scoped_lock lock(mutex);
  std::optional<std::chrono::nanoseconds> at_most;
  for (NetPort* port : ports) {
    if (!port->on_duty_.load(std::memory_order_acquire)) continue;
    int descriptor = -1;
    const weft_result result = port->arm(&descriptor);
    if (result == WEFT_AGAIN) return std::chrono::nanoseconds(0);
    const bool woken = result == WEFT_OK && descriptor >= 0;
    if (woken) watch(*port, descriptor);
    const std::chrono::nanoseconds bound = woken ? kLongestSleep : kCannotSleepNap;
    at_most = std::min(bound, at_most.value_or(bound));
  }
  return at_most;
}

void ProgressEngine::State::sleep(std::optional<std::chrono::nanoseconds> at_most) {
  timespec limit{};
  if (at_most) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*at_most);
    limit.tv_sec = seconds.count();
    limit.tv_nsec = (*at_most - seconds).count();
  }
  // epoll_wait counts in milliseconds.
  pollfd ready{.fd = epoll.get(), .events = POLLIN, .revents = 0};
  if (ppoll(&ready, 1, at_most ? &limit : nullptr, nullptr) <= 0) return;
  std::array<epoll_event, 8> events{};
  const int count = epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<std::size_t>(i)].data.u64 == 0) {
      eventfd_t value = 0;
      eventfd_read(wake.get(), &value);
    }
  }
}

void ProgressEngine::State::loop() {
  using Clock = std::chrono::steady_clock;
  int idle_rounds = 0;
  Clock::time_point last_polled{};
  while (!stop.load(std::memory_order_acquire)) {
    Found found;
    try {
      found = round();
    } catch (const std::bad_alloc&) {
      // Nothing may leave the thread: it looks again, and there may be memory by then.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (found.polled && !found.on_duty) last_polled = Clock::now();
    if (found.moved) {
      idle_rounds = 0;
      continue;
    }
    if (found.on_duty && ++idle_rounds < kIdleRounds) {
      std::this_thread::yield();
      continue;
    }
    idle_rounds = 0;
    if (!found.on_duty && last_polled != Clock::time_point{}) {
      if (Clock::now() - last_polled < kLinger) {
        std::this_thread::yield();
        continue;
      }
      last_polled = {};
    }
    auto at_most = found.on_duty ? prepare_sleep() : std::nullopt;
    if (found.look) {
      const std::chrono::nanoseconds left = *found.look - Clock::now();
      at_most = std::min(left, at_most.value_or(left));
    }
    if (at_most && at_most->count() <= 0) continue;
    if ((attention.fetch_or(kSleeps, std::memory_order_seq_cst) & kNews) != 0) continue;
    sleep(at_most);
  }
}

ProgressEngine::ProgressEngine() = default;

Result<std::unique_ptr<ProgressEngine>> ProgressEngine::create(Logger& logger) {
  std::unique_ptr<ProgressEngine> engine(new ProgressEngine());
  engine->state_ = std::make_unique<State>(logger);
  State& state = *engine->state_;
  state.epoll.reset(epoll_create1(EPOLL_CLOEXEC));
  state.wake.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state.epoll || !state.wake) {
    return fail(Error::from_errno(errno, "cannot create the progress engine's descriptors"));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (epoll_ctl(state.epoll.get(), EPOLL_CTL_ADD, state.wake.get(), &event) != 0) {
    return fail(Error::from_errno(errno, "cannot watch the progress engine's wake-up"));
  }
  try {
    state.thread = std::thread([&state] {
      name_this_thread("weft-port");
      state.loop();
    });
  } catch (const std::system_error& error) {
    return fail(Error::from_errno(error.code().value(), "cannot start the progress engine's thread",
                                  "raise the limits of processes and memory (ulimit -u, "
                                  "ulimit -v)"));
  }
  return engine;
}

ProgressEngine::~ProgressEngine() {
  if (state_ == nullptr || !state_->thread.joinable()) return;
  state_->stop.store(true, std::memory_order_release);
  eventfd_write(state_->wake.get(), 1);
  state_->thread.join();
}

Status ProgressEngine::add(NetPort& port) {
  const std::scoped_lock lock(state_->mutex);
  // First: there may be no memory for either, and a port that is only there is never looked at.
  state_->watched[&port] = -1;
  try {
    state_->ports.push_back(&port);
  } catch (...) {
    state_->watched.erase(&port);
    throw;
  }
  return {};
}

void ProgressEngine::remove(NetPort& port) {
  const std::scoped_lock lock(state_->mutex);
  std::erase(state_->ports, &port);
  port.on_duty_.store(false, std::memory_order_release);
  port.looked_after_.store(false, std::memory_order_release);
  state_->unwatch(port);
  state_->watched.erase(&port);
}

void ProgressEngine::take_over(NetPort& port) {
  if (port.on_duty_.load(std::memory_order_seq_cst)) return;
  if (port.on_duty_.exchange(true, std::memory_order_seq_cst)) return;
  state_->tell();
}

void ProgressEngine::look_in(NetPort& port) {
  if (port.looked_after_.exchange(true, std::memory_order_seq_cst)) return;
  state_->tell();
}

std::size_t ProgressEngine::ports_on_duty() const {
  const std::scoped_lock lock(state_->mutex);
  return static_cast<std::size_t>(std::ranges::count_if(state_->ports, [](const NetPort* port) {
    return port->on_duty_.load(std::memory_order_acquire);
  }));
}

}  // namespace weft
