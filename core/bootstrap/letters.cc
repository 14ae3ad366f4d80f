// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/letters.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/base/deadline.h"
#include "core/bootstrap/caller.h"

namespace weft {
namespace {

// So that one addressee that is stopped does not keep the others waiting.
constexpr std::size_t kMostAtOnce = 2;
constexpr std::size_t kMostStrangers = 256;

// An addressee that has not acknowledged a letter in so long is tried again, after the others.
constexpr auto kTurn = std::chrono::seconds(3);
// How long who writes to this rank may be silent.
constexpr auto kSilence = std::chrono::seconds(10);
constexpr int kUntilMemoryMs = 10;

struct Outgoing {
  int to;
  Caller caller;
  std::deque<std::vector<std::byte>> texts{};
  std::optional<Deadline> turn{};
};

struct Incoming {
  int from;
  Wire wire;
  Deadline until;
  bool done = false;
};

struct Undelivered {
  int to;
  Error why;
};

enum class Progress { kGoesOn, kDone, kTurnOver };

}  // namespace

// What poll drives elsewhere is driven by the reactor here: an epoll descriptor of its own holds
// what is to be polled, and wakes the reactor, as does a timer.
struct Letters::State {
  State(int own_rank, std::vector<MemberMessage> all, const MessageKey& secret, Acceptor listening,
        const FailureWatch& failure_watch, Reactor& context_reactor, Logger& logger,
        LocalLetters* in_context)
      : rank(own_rank),
        members(std::move(all)),
        key(secret),
        watch(failure_watch),
        reactor(context_reactor),
        log(logger),
        local(in_context),
        acceptor(std::move(listening)) {
    acceptor->take_at_most(kMostStrangers);
  }

  const int rank;
  const std::vector<MemberMessage> members;
  const MessageKey key;
  const FailureWatch& watch;
  Reactor& reactor;
  Logger& log;
  LocalLetters* const local;
  UniqueFd timer;
  UniqueFd polled;
  Reactor::WatchId timer_watch = 0;
  Reactor::WatchId polled_watch = 0;

  // The reactor's thread alone, until that watches no more.
  std::optional<Acceptor> acceptor;
  std::deque<Outgoing> outgoing;  // the first kMostAtOnce are served
  std::vector<Incoming> incoming;
  std::vector<pollfd> entries;  // outgoing, incoming, acceptor's
  std::size_t served_outgoing = 0;
  std::vector<LetterMessage> arrived;
  std::vector<Undelivered> undelivered;
  bool is_over = false;  // for want of memory,
  bool is_told = false;  // of which the owner knows

  std::mutex mutex;  // guards what follows
  bool stopped = false;
  std::vector<std::pair<int, std::vector<std::byte>>> brought;  // by ranks of this context
  std::vector<std::pair<int, std::vector<std::byte>>> posted;
  std::function<void(int from, std::vector<std::byte> text)> letter_callback;
  std::function<void(int to, const Error& why)> undelivered_callback;

  [[nodiscard]] RingHelloMessage hello_to(int to) const {
    return {.channel = RingChannel::kLetters,
            .from = rank,
            .to = to,
            .nranks = static_cast<std::int32_t>(members.size())};
  }

  Status watch_descriptors();
  void listen_locally();
  void set_timer(int milliseconds) const;
  void step();
  void move();
  void tell_no_memory();
  void take_posted();
  void tell_exhausted();
  void serve();
  Progress serve(Outgoing& out, const pollfd& entry);
  void write_next(Outgoing& out) const;
  void serve(Incoming& in, const pollfd& entry);
  void take_hello(Wire wire, const Message& message);
  [[nodiscard]] Error departure_of(const Outgoing& out) const;
  void arm(bool listens);
  void disarm();
  void close_all();
};

Status Letters::State::watch_descriptors() {
  timer.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return fail(Error::from_errno(errno, "cannot make a timer"));
  polled.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!polled) return fail(Error::from_errno(errno, "cannot create an epoll descriptor"));
  WEFT_TRY_ASSIGN(timer_watch, reactor.add(timer.get(), EPOLLIN, [this](std::uint32_t) {
    std::uint64_t expirations = 0;
    static_cast<void>(read(timer.get(), &expirations, sizeof(expirations)));
    step();
  }));
  WEFT_TRY_ASSIGN(polled_watch,
                  reactor.add(polled.get(), EPOLLIN, [this](std::uint32_t) { step(); }));
  return {};
}

void Letters::State::listen_locally() {
  if (local == nullptr) return;
  local->listen(key, rank, [this](int from, std::vector<std::byte>& text) {
    const std::lock_guard lock(mutex);
    if (stopped || watch.failure()) return false;
    brought.emplace_back(from, std::move(text));
    if (brought.size() == 1) set_timer(0);
    return true;
  });
}

// 0 is at once, -1 never.
void Letters::State::set_timer(int milliseconds) const {
  itimerspec times{};
  if (milliseconds >= 0) {
    times.it_value = {.tv_sec = milliseconds / 1000,
                      .tv_nsec = std::max(1L, milliseconds % 1000 * 1'000'000L)};
  }
  // Fails for no timer that was made.
  static_cast<void>(timerfd_settime(timer.get(), 0, &times, nullptr));
}

// Nothing may leave the reactor's thread. What was under way may be lost where there is no memory:
// no letter comes or goes any more. To say so takes some, too.
void Letters::State::step() {
  try {
    is_over ? tell_no_memory() : move();
  } catch (const std::bad_alloc&) {
    is_over = true;
    set_timer(kUntilMemoryMs);
  }
}

void Letters::State::tell_no_memory() {
  disarm();
  close_all();
  if (is_told) return;
  std::function<void(int to, const Error& why)> miss;
  {
    const std::lock_guard lock(mutex);
    miss = undelivered_callback;
  }
  if (!miss) return;
  const Error why(WEFT_ERROR_OUT_OF_MEMORY,
                  fmt::format("rank {} has no memory for letters to other ranks", rank),
                  "raise the limit of address space (ulimit -v), or of the container");
  for (std::int32_t other = 0; other < static_cast<std::int32_t>(members.size()); ++other)
    miss(other, why);
  is_told = true;
}

void Letters::State::move() {
  disarm();
  if (watch.failure()) return close_all();
  serve();
  tell_exhausted();
  take_posted();
  std::function<void(int from, std::vector<std::byte> text)> take;
  std::function<void(int to, const Error& why)> miss;
  std::vector<std::pair<int, std::vector<std::byte>>> locally;
  {
    const std::lock_guard lock(mutex);
    take = letter_callback;
    miss = undelivered_callback;
    if (take) locally = std::exchange(brought, {});
  }
  for (auto& [from, text] : locally)
    take(from, std::move(text));
  for (LetterMessage& letter : std::exchange(arrived, {}))
    take(letter.from, std::move(letter.text));
  for (const Undelivered& missed : std::exchange(undelivered, {})) {
    if (miss) miss(missed.to, missed.why);
  }
  arm(take != nullptr);
}

void Letters::State::take_posted() {
  std::vector<std::pair<int, std::vector<std::byte>>> taken;
  {
    const std::lock_guard lock(mutex);
    taken = std::exchange(posted, {});
  }
  for (auto& [to, text] : taken) {
    auto out = std::ranges::find(outgoing, to, &Outgoing::to);
    if (out == outgoing.end()) {
      const auto& addresses = members[static_cast<std::size_t>(to)].endpoints;
      outgoing.push_back({.to = to, .caller = Caller(addresses, key, hello_to(to))});
      out = std::prev(outgoing.end());
    }
    if (out->texts.empty() || out->texts.back() != text) out->texts.push_back(std::move(text));
  }
}

// Others wait for an answer that never comes, and would name this rank, but not the reason.
void Letters::State::tell_exhausted() {
  const auto exhausted = acceptor->exhausted();
  if (!exhausted) return;
  undelivered.push_back(
      {.to = rank,
       .why = Error::from_errno(static_cast<int>(exhausted->native()),
                                fmt::format("rank {} {}", rank, exhausted->what()))});
}

void Letters::State::serve() {
  // Level-triggered, so what becomes ready after this wakes the reactor again.
  if (::poll(entries.data(), entries.size(), 0) < 0) {
    for (pollfd& entry : entries)
      entry.revents = 0;
  }
  std::deque<Outgoing> first;
  for (std::size_t i = 0; i < served_outgoing; ++i) {
    Outgoing out = std::move(outgoing.front());
    outgoing.pop_front();
    const Progress progress = serve(out, entries[i]);
    if (progress == Progress::kDone) continue;
    (progress == Progress::kGoesOn ? first : outgoing).push_back(std::move(out));
  }
  outgoing.insert(outgoing.begin(), std::move_iterator(first.begin()),
                  std::move_iterator(first.end()));

  const std::size_t acceptor_first = served_outgoing + incoming.size();
  for (std::size_t i = 0; i < incoming.size() && served_outgoing + i < entries.size(); ++i)
    serve(incoming[i], entries[served_outgoing + i]);
  std::erase_if(incoming, [](const Incoming& in) { return in.done; });
  if (acceptor_first < entries.size()) {
    acceptor->serve(entries, acceptor_first, [this](Wire wire, const Message& message) {
      take_hello(std::move(wire), message);
    });
  }
}

Progress Letters::State::serve(Outgoing& out, const pollfd& entry) {
  const Connector& connector = out.caller.connector();
  if (!out.caller.answered()) {
    out.caller.serve(entry);
    if (out.caller.answered()) write_next(out);
  } else if (entry.revents != 0) {
    Wire& wire = out.caller.wire();
    const bool lost = !wire.flush();
    const auto input = wire.fill();
    const auto message = wire.next();
    if (message && *message && (*message)->type == MessageType::kLetterTaken) {
      out.texts.pop_front();
      if (out.texts.empty()) return Progress::kDone;
      out.turn = Deadline::after(kTurn);
      write_next(out);
    } else if (lost || !message || *message || !input || *input == Wire::Input::kClosed) {
      out.caller.reset();
    }
  }
  if (connector.nobody_listens()) {
    undelivered.push_back({.to = out.to, .why = departure_of(out)});
    return Progress::kDone;
  }
  if (connector.out_of_descriptors()) {
    undelivered.push_back(
        {.to = out.to,
         .why = Error::from_errno(connector.last_errno(),
                                  fmt::format("rank {} cannot create a socket", rank))});
    return Progress::kDone;
  }
  if (!out.turn->passed()) return Progress::kGoesOn;
  out.caller.reset();
  out.turn.reset();
  return Progress::kTurnOver;
}

void Letters::State::write_next(Outgoing& out) const {
  Wire& wire = out.caller.wire();
  wire.queue(MessageType::kLetter,
             LetterMessage{.from = rank, .to = out.to, .text = out.texts.front()}.encode());
  if (!wire.flush()) out.caller.reset();
}

Error Letters::State::departure_of(const Outgoing& out) const {
  const PeerIdentity& who = members[static_cast<std::size_t>(out.to)].who;
  return Error(WEFT_ERROR_PEER,
               fmt::format("rank {} has left the communicator: process {} on {} listens no more "
                           "at {}",
                           out.to, who.pid, who.host,
                           list_addresses(out.caller.connector().addresses())),
               "let no rank end before its partners have got what it owes them; if it has not "
               "ended, open the firewall between the hosts")
      .with_native(ErrorSource::kPeer, out.to);
}

void Letters::State::serve(Incoming& in, const pollfd& entry) {
  in.done = in.until.passed();
  if (in.done || entry.revents == 0) return;
  const auto input = in.wire.fill();
  while (!in.done) {
    const auto message = in.wire.next();
    if (message && !*message) break;
    auto letter = message && (*message)->type == MessageType::kLetter
                      ? LetterMessage::decode((*message)->payload)
                      : std::nullopt;
    if (!letter || letter->from != in.from || letter->to != rank) {
      log.info(Topic::kBootstrap, "rank {}: dropped a connection of rank {}: it sent no letter",
               rank, in.from);
      in.done = true;
      break;
    }
    arrived.push_back(std::move(*letter));
    in.wire.queue(MessageType::kLetterTaken, {});
    in.until = Deadline::after(kSilence);
  }
  const bool lost = !in.wire.flush();
  in.done = in.done || lost || !input || *input == Wire::Input::kClosed;
}

void Letters::State::take_hello(Wire wire, const Message& message) {
  const auto hello = message.type == MessageType::kRingHello
                         ? RingHelloMessage::decode(message.payload)
                         : std::nullopt;
  const auto ranks = static_cast<std::int32_t>(members.size());
  if (!hello || hello->channel != RingChannel::kLetters || hello->from < 0 ||
      hello->from >= ranks || hello->from == rank || hello->to != rank || hello->nranks != ranks) {
    log.info(Topic::kBootstrap, "rank {}: dropped a connection of {}: it has no letter for it",
             rank, wire.remote());
    return;
  }
  wire.queue(MessageType::kRingHello, hello_to(hello->from).encode());
  if (!wire.flush()) return;
  wire.allow_data();
  // Of two connections the writer has given up the older.
  std::erase_if(incoming, [&](const Incoming& in) { return in.from == hello->from; });
  incoming.push_back(
      {.from = hello->from, .wire = std::move(wire), .until = Deadline::after(kSilence)});
}

void Letters::State::arm(bool listens) {
  entries.clear();
  int timeout = -1;
  served_outgoing = std::min(outgoing.size(), kMostAtOnce);
  for (std::size_t i = 0; i < served_outgoing; ++i) {
    Outgoing& out = outgoing[i];
    if (!out.turn) out.turn = Deadline::after(kTurn);
    out.caller.add_poll(entries);
    timeout = earlier_ms(timeout, out.caller.timeout_ms());
    timeout = earlier_ms(timeout, out.turn->poll_timeout_ms());
  }
  if (listens) {
    for (const Incoming& in : incoming) {
      const short output = in.wire.has_output() ? POLLOUT : 0;
      entries.push_back(
          {.fd = in.wire.fd(), .events = static_cast<short>(POLLIN | output), .revents = 0});
      timeout = earlier_ms(timeout, in.until.poll_timeout_ms());
    }
    acceptor->add_poll(entries);
    timeout = earlier_ms(timeout, acceptor->timeout_ms());
  }
  for (const pollfd& entry : entries) {
    if (entry.fd < 0) continue;
    epoll_event event{};
    event.events = (entry.events & POLLOUT) != 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.fd = entry.fd;
    // Fails for want of memory alone: then the timer has to do.
    if (epoll_ctl(polled.get(), EPOLL_CTL_ADD, entry.fd, &event) != 0) {
      timeout = earlier_ms(timeout, 100);
    }
  }
  const std::lock_guard lock(mutex);
  set_timer(posted.empty() && (brought.empty() || !listens) ? timeout : 0);
}

// Before anything is closed: where a forked child holds a copy, the epoll descriptor would go on to
// report what is closed here.
void Letters::State::disarm() {
  for (const pollfd& entry : entries) {
    if (entry.fd >= 0) epoll_ctl(polled.get(), EPOLL_CTL_DEL, entry.fd, nullptr);
  }
}

void Letters::State::close_all() {
  if (local != nullptr) local->stop(key, rank);
  entries.clear();
  served_outgoing = 0;
  outgoing.clear();
  incoming.clear();
  acceptor.reset();
}

Letters::Letters(std::unique_ptr<State> state) : state_(std::move(state)) {}

Letters::~Letters() {
  stop();
}

Result<std::unique_ptr<Letters>> Letters::start(int rank, std::vector<MemberMessage> members,
                                                const MessageKey& key, Acceptor acceptor,
                                                const FailureWatch& watch, Reactor& reactor,
                                                Logger& log, LocalLetters* local) {
  std::unique_ptr<Letters> letters(new Letters(std::make_unique<State>(
      rank, std::move(members), key, std::move(acceptor), watch, reactor, log, local)));
  WEFT_TRY(letters->state_->watch_descriptors());
  letters->state_->listen_locally();
  return letters;
}

void Letters::on_letter(std::function<void(int from, std::vector<std::byte> text)> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->letter_callback = std::move(callback);
  state_->set_timer(0);
}

void Letters::on_undelivered(std::function<void(int to, const Error& why)> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->undelivered_callback = std::move(callback);
}

void Letters::post(int to, std::vector<std::byte> text) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopped) return;
  }
  // Without the lock: who writes to each other at once must not wait for each other's.
  LocalLetters* const local = state_->local;
  if (local != nullptr && !state_->watch.failure() &&
      local->bring(state_->key, state_->rank, to, text)) {
    return;
  }
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return;
  state_->posted.emplace_back(to, std::move(text));
  state_->set_timer(0);
}

// Under the lock until all is looked at: who stops this takes `outgoing` once that is told.
bool Letters::brings(int to) const {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return false;
  if (std::ranges::find(state_->outgoing, to, &Outgoing::to) != state_->outgoing.end()) return true;
  return std::ranges::any_of(state_->posted,
                             [to](const auto& letter) { return letter.first == to; });
}

void Letters::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopped) return;
    state_->stopped = true;
    state_->posted.clear();
  }
  state_->reactor.remove(state_->timer_watch);
  state_->reactor.remove(state_->polled_watch);
  state_->close_all();
}

}  // namespace weft
