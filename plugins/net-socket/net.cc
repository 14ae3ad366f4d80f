// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The event side of an opened net.
#include "net.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <utility>

#include <fmt/format.h>

#include "connection.h"

namespace weft::net_socket {
namespace {

constexpr int kEventBatch = 64;

/// How often deadlines are looked at: a small part of the shortest of them.
std::chrono::nanoseconds tick_of(const Options& options) {
  std::chrono::nanoseconds shortest = std::chrono::seconds(8);
  for (const auto timeout : {options.connect_timeout, options.peer_timeout}) {
    if (timeout.count() > 0) shortest = std::min(shortest, timeout);
  }
  return std::max<std::chrono::nanoseconds>(shortest / 8, std::chrono::milliseconds(5));
}

}  // namespace

Result<std::unique_ptr<Net>> Net::open(const Host& host, const Options& options,
                                       std::span<const uint8_t> key) {
  if (sodium_init() < 0) {
    return std::unexpected(Failure{.code = WEFT_ERROR_SYSTEM,
                                   .what = "libsodium cannot start: no source of randomness",
                                   .hint = {}});
  }
  // Before any rank counts on it: each finds such a mistake itself.
  if (Status done = check_congestion(options); !done) return std::unexpected(done.error());
  std::unique_ptr<Net> net(new Net(host, options, key));
  net->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!net->epoll_)
    return std::unexpected(system_failure("cannot make an epoll descriptor", errno));
  net->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!net->wake_) return std::unexpected(system_failure("cannot make an eventfd", errno));
  net->timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!net->timer_) return std::unexpected(system_failure("cannot make a timerfd", errno));
  // The eventfd is never read: its one edge, at abort, is all that is wanted of it.
  if (Status done = net->watch(net->wake_.get(), &net->woken_, EPOLLIN | EPOLLET); !done) {
    return std::unexpected(done.error());
  }
  if (Status done = net->watch(net->timer_.get(), &net->timer_due_, EPOLLIN | EPOLLET); !done) {
    return std::unexpected(done.error());
  }
  net->counters_ = {
      .bytes_sent = host.counter("bytes_sent_total", "Payload handed to the kernel."),
      .bytes_received = host.counter("bytes_received_total", "Payload received."),
      .strangers = host.counter("strangers_total", "Connections that were turned away."),
  };
  return net;
}

Net::~Net() {
  sodium_memzero(key_.data(), key_.size());
}

Result<const std::vector<weft_net_device>*> Net::devices() {
  if (devices_.empty()) {
    auto all = list_interfaces();
    if (!all) return std::unexpected(all.error());
    auto chosen = select_interfaces(std::move(*all), options_.interfaces, options_.family);
    if (!chosen) return std::unexpected(chosen.error());
    interfaces_ = std::move(*chosen);
    devices_ = describe(interfaces_);
  }
  return &devices_;
}

Result<const Interface*> Net::interface(uint32_t device) {
  const auto all = devices();
  if (!all) return std::unexpected(all.error());
  if (device < interfaces_.size()) return &interfaces_[device];
  return std::unexpected(Failure{
      .code = WEFT_ERROR_INVALID_ARGUMENT,
      .what = fmt::format("there is no device {}: net-socket has {}", device, interfaces_.size()),
      .hint = {}});
}

Failure Net::abort_failure() {
  return {.code = WEFT_ERROR_ABORTED, .what = "the net was aborted", .hint = {}};
}

void Net::abort() {
  aborted_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  // Can only fail when the counter is full: then it is readable already.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Net::pump() {
  // Buffers are the host's again in every call that begins after abort.
  if (!aborted()) run_scheduled();
  if (!aborted() && without_events_ < kMostWithoutEvents && do_without_events()) {
    ++without_events_;
    return;
  }
  without_events_ = 0;
  std::array<epoll_event, kEventBatch> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventBatch, 0);
  for (int i = 0; i < count; ++i) {
    static_cast<EventSink*>(events[i].data.ptr)->on_events(events[i].events);
  }
  if (aborted() && !abort_done_) {
    abort_done_ = true;
    for (Member* member : members_)
      member->on_abort();
  }
  if (timer_due_.raised) run_ticks();
  run_scheduled();
}

int Net::arm() {
  without_events_ = kMostWithoutEvents;
  return epoll_.get();
}

bool Net::do_without_events() {
  // What was written at once, or read ahead, is news enough.
  if (first_completion_ != nullptr) return true;
  if (awaiting_event_ > 0) return false;
  if (awaiting_message_.empty() || awaiting_message_.size() > kMostTried) return false;
  // A copy: each says anew what it awaits.
  std::array<Member*, kMostTried> tried{};
  std::ranges::copy(awaiting_message_, tried.begin());
  for (Member* member : tried) {
    if (member != nullptr) member->try_message();
  }
  return true;
}

void Net::run_scheduled() {
  running_.swap(scheduled_);
  size_t next = 0;
  try {
    while (next < running_.size()) {
      Member* member = running_[next++];
      member->scheduled_ = false;
      member->progress();
    }
  } catch (...) {
    // There was no memory for one: the others come the next time. There is room for all of them.
    scheduled_.insert(scheduled_.end(), running_.begin() + static_cast<std::ptrdiff_t>(next),
                      running_.end());
    running_.clear();
    throw;
  }
  running_.clear();
}

void Net::run_ticks() {
  timer_due_.raised = false;
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t read = ::read(timer_.get(), &expirations, sizeof expirations);
  const Clock::time_point now = Clock::now();
  for (Member* member : members_) {
    if (member->ticking_) member->on_tick(now);
  }
}

uint64_t Net::report(weft_net_completion* out, uint64_t stride, uint64_t capacity) {
  uint64_t count = 0;
  auto* at = reinterpret_cast<unsigned char*>(out);
  while (count < capacity && first_completion_ != nullptr) {
    Request* request = first_completion_;
    first_completion_ = request->next;
    if (first_completion_ == nullptr) last_completion_ = nullptr;
    auto* completion = reinterpret_cast<weft_net_completion*>(at);
    completion->status = request->status;
    completion->user = request->user;
    completion->size = request->moved;
    completion->value = request->value;
    completion->connection = reinterpret_cast<weft_net_connection*>(request->connection);
    request->connection->reported(request);
    at += stride;
    ++count;
  }
  return count;
}

bool Net::busy() const {
  return first_completion_ != nullptr || !scheduled_.empty() || (aborted() && !abort_done_);
}

bool Net::drained() {
  pump();
  return std::ranges::all_of(members_, [](Member* member) { return member->drained(); });
}

void Net::add(Member* member) {
  // They change places, and each may have to hold all members at once, however rarely that happens.
  // First: a member for which there is no memory is none.
  const size_t all = members_.size() + 1;
  scheduled_.reserve(all);
  running_.reserve(all);
  awaiting_message_.reserve(all);
  members_.push_back(member);
  ++awaiting_event_;
}

void Net::remove(Member* member) {
  want_ticks(member, false);
  set_awaits(member, Awaits::kNothing);
  std::erase(members_, member);
  std::erase(scheduled_, member);
}

void Net::schedule(Member* member) {
  if (member->scheduled_) return;
  member->scheduled_ = true;
  scheduled_.push_back(member);
}

void Net::set_awaits(Member* member, Awaits awaits) {
  const Awaits before = std::exchange(member->awaits_, awaits);
  if (before == awaits) return;
  if (before == Awaits::kEvent) --awaiting_event_;
  if (before == Awaits::kMessage) std::erase(awaiting_message_, member);
  if (awaits == Awaits::kEvent) ++awaiting_event_;
  if (awaits == Awaits::kMessage) awaiting_message_.push_back(member);
}

void Net::want_ticks(Member* member, bool wanted) {
  if (member->ticking_ == wanted) return;
  member->ticking_ = wanted;
  ticking_ += wanted ? 1 : -1;
  if (ticking_ == (wanted ? 1 : 0)) set_timer(wanted);
}

void Net::set_timer(bool on) {
  itimerspec when{};
  if (on) {
    const auto tick = tick_of(options_).count();
    when.it_interval = {.tv_sec = tick / 1'000'000'000, .tv_nsec = tick % 1'000'000'000};
    when.it_value = when.it_interval;
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

Status Net::watch(int fd, EventSink* sink, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = sink;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return std::unexpected(system_failure("cannot watch a socket", errno));
}

void Net::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Net::close_watched(Fd& fd) {
  if (fd) unwatch(fd.get());
  fd.reset();
}

void Net::complete(Request* request) {
  request->next = nullptr;
  (last_completion_ == nullptr ? first_completion_ : last_completion_->next) = request;
  last_completion_ = request;
}

void Net::forget(const Connection* connection) {
  Request** link = &first_completion_;
  last_completion_ = nullptr;
  while (*link != nullptr) {
    if ((*link)->connection == connection) {
      *link = (*link)->next;
    } else {
      last_completion_ = *link;
      link = &(*link)->next;
    }
  }
}

}  // namespace weft::net_socket
