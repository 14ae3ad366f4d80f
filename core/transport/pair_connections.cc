// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/pair_connections.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/wait.h"
#include "core/plugin/transport_plugin.h"
#include "core/transport/connection_edge.h"
#include "core/transport/offer_codec.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// How often connections that come up are looked at: less often where there are many, since ranks of
// one process share the thread that looks. Of few sooner at first: most come up after some looks,
// each of which takes as long as the other end takes to look.
constexpr milliseconds kLook(1);
constexpr std::int64_t kLooksAtOnce = 16;
constexpr milliseconds kLongestLook(16);
constexpr std::chrono::microseconds kFirstLook(100);
constexpr int kFirstLooks = 20;

// How long a letter may go unanswered before it is written again: so a partner is missed that left
// when it had taken the first. Longer each time, so that who is only late is not held up by them.
constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kMostPatience = std::chrono::seconds(8);

// After looks for so long an end does not come up any more if its partner has left. Looks, not
// time: who gets no processor does not look, either.
constexpr milliseconds kMostLooks(10'000);

// When the failure is told once more.
constexpr std::chrono::nanoseconds kAfterFailure = std::chrono::milliseconds(1100);

// A letter begins with one of these, then comes the channel, low byte first, then the blobs.
constexpr std::byte kAnswered{0};
constexpr std::byte kPleaseAnswer{1};
constexpr std::size_t kLetterHead = 3;
// With what encode_blobs() writes beside them.
static_assert(kLetterHead + 2 * (TransportPlugin::kMaxConnectionBlob + 64) <= kMostLetterText);

// The least that a transport may be asked for.
constexpr std::uint32_t kLeastStepBytes = 128;

/// Whether it is this process that lacks something, which it may have again.
bool passes(const Error& why_unreachable) {
  return why_unreachable.code() == WEFT_ERROR_OUT_OF_RESOURCES;
}

}  // namespace

struct PairConnector::Inbox {
  std::mutex mutex;
  std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> letters;
  std::vector<std::pair<std::uint32_t, Error>> undelivered;
  UniqueFd wake;
};

struct PairConnector::Pair {
  enum class State : std::uint8_t { kNew, kPrepared, kJoining, kReady };

  explicit Pair(const PairLink& which) : link(which) {}

  const PairLink link;
  State state = State::kNew;
  bool wanted = false;                   // by this rank's own calls
  std::optional<Error> unreachable;      // why letters do not get there
  std::vector<Connections::Edge> edges;  // to the peer, from the peer, or one of them
  std::vector<std::byte> blobs;          // this rank's, encoded
  std::optional<ConnectionBlobs> theirs;
  std::vector<std::vector<std::byte>> peer_blobs;  // of a transport, in the order of edges
  std::chrono::steady_clock::time_point posted;
  std::chrono::nanoseconds patience = kPatience;
  std::chrono::nanoseconds looked{};  // while joining
  bool joins = false;                 // counted in joining_

  [[nodiscard]] bool comes_up() const { return state == State::kJoining && looked < kMostLooks; }
  // Letters are needed no more once both have what the other wrote; of one that was not even sent
  // the other has nothing.
  [[nodiscard]] bool is_lost() const {
    return unreachable && state != State::kReady && (!comes_up() || passes(*unreachable));
  }
  void* cursors = nullptr;
  PairConnections ends;
};

PairConnector::PairConnector(Connections& connections, Bootstrap& bootstrap, Reactor& reactor,
                             std::function<LinkShape(const PairLink& link)> shape_of,
                             std::function<PairChoice(std::uint32_t peer)> choice_of,
                             std::function<void(const Error&)> failed)
    : connections_(connections),
      bootstrap_(bootstrap),
      reactor_(reactor),
      shape_of_(std::move(shape_of)),
      choice_of_(std::move(choice_of)),
      failed_(std::move(failed)),
      inbox_(std::make_shared<Inbox>()) {}

Result<std::unique_ptr<PairConnector>> PairConnector::start(
    Connections& connections, Bootstrap& bootstrap, Reactor& reactor,
    std::function<LinkShape(const PairLink& link)> shape_of,
    std::function<PairChoice(std::uint32_t peer)> choice_of,
    std::function<void(const Error&)> failed) {
  std::unique_ptr<PairConnector> connector(
      new PairConnector(connections, bootstrap, reactor, std::move(shape_of), std::move(choice_of),
                        std::move(failed)));
  WEFT_TRY(connector->listen());
  return connector;
}

Status PairConnector::listen() {
  inbox_->wake.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!inbox_->wake) return fail(Error::from_errno(errno, "cannot make an event descriptor"));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) return fail(Error::from_errno(errno, "cannot make a timer"));
  WEFT_TRY_ASSIGN(wake_watch_, reactor_.add(inbox_->wake.get(), EPOLLIN, [this](std::uint32_t) {
    eventfd_t value = 0;
    static_cast<void>(eventfd_read(inbox_->wake.get(), &value));
    work(false);
  }));
  WEFT_TRY_ASSIGN(timer_watch_, reactor_.add(timer_.get(), EPOLLIN, [this](std::uint32_t) {
    std::uint64_t expirations = 0;
    static_cast<void>(read(timer_.get(), &expirations, sizeof(expirations)));
    work(true);
  }));
  bootstrap_.on_letter(
      LetterSubject::kPairs, [inbox = inbox_](int from, std::vector<std::byte> text) {
        const std::scoped_lock lock(inbox->mutex);
        inbox->letters.emplace_back(static_cast<std::uint32_t>(from), std::move(text));
        eventfd_write(inbox->wake.get(), 1);
      });
  bootstrap_.on_undelivered([inbox = inbox_](int to, const Error& why) {
    const std::scoped_lock lock(inbox->mutex);
    inbox->undelivered.emplace_back(static_cast<std::uint32_t>(to), why);
    eventfd_write(inbox->wake.get(), 1);
  });
  return {};
}

PairConnector::~PairConnector() {
  if (wake_watch_ != 0) reactor_.remove(wake_watch_);
  if (timer_watch_ != 0) reactor_.remove(timer_watch_);
  for (auto& [link, pair] : pairs_) {
    for (Connections::Edge& edge : pair->edges) {
      if (edge.net == nullptr) continue;
      const auto lock = edge.via->port->lock();
      edge.release();
    }
    connections_.memory_.release(pair->cursors);
  }
}

const PairConnections* PairConnector::find(const PairLink& link) {
  const std::scoped_lock lock(mutex_);
  const auto found = ready_.find(link);
  return found == ready_.end() ? nullptr : found->second;
}

bool PairConnector::are_connected(std::span<const PairLink> links) {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(links, [this](const PairLink& link) { return ready_.contains(link); });
}

Status PairConnector::read_memory(std::uint32_t peer, std::span<std::byte> destination,
                                  std::uint64_t address) {
  const PairConnections* const pair = find({.peer = peer});
  if (pair == nullptr || pair->from.peer_memory.plugin == nullptr) {
    return fail(WEFT_ERROR_INTERNAL,
                fmt::format("nothing reads the memory of rank {} from here", peer));
  }
  const PeerMemory& memory = pair->from.peer_memory;
  return memory.plugin->read_peer(memory.connection, destination, address);
}

// Each group asks for its partners; the reactor has work only where one is not connected yet.
void PairConnector::want(std::span<const PairLink> links) {
  bool any = false;
  {
    const std::scoped_lock lock(mutex_);
    for (const PairLink& link : links) {
      if (ready_.contains(link)) continue;
      wanted_.insert(link);
      any = true;
    }
  }
  if (any) eventfd_write(inbox_->wake.get(), 1);
}

Status PairConnector::wait(std::span<const PairLink> links, const Deadline& deadline,
                           const std::function<bool()>& stopped) {
  constexpr milliseconds kBetweenLooks(20);
  std::unique_lock lock(mutex_);
  while (true) {
    const auto missing =
        std::ranges::find_if(links, [&](const PairLink& link) { return !ready_.contains(link); });
    if (missing == links.end()) return {};
    if (failure_) return fail(Error(*failure_));
    lock.unlock();
    const bool stop = stopped();
    lock.lock();
    if (stop) return fail(WEFT_ERROR_PEER, "the communicator failed meanwhile");
    if (deadline.passed()) {
      return fail(WEFT_ERROR_TIMEOUT,
                  fmt::format("rank {} is not connected with rank {} at the deadline",
                              connections_.context_.rank, missing->peer),
                  "check that the peer is alive and reachable; timeouts.bootstrap sets the "
                  "deadline");
    }
    changed_.wait_for(lock, kBetweenLooks);
  }
}

PairConnector::Pair& PairConnector::pair_of(const PairLink& link) {
  auto& pair = pairs_[link];
  if (pair == nullptr) {
    pair = std::make_unique<Pair>(link);
    coming_.insert(pair.get());
  }
  moved_.push_back(pair.get());
  return *pair;
}

// A rank may have as many pairs as there are ranks: only those are looked at for which something
// came, and, on time, those that are not connected yet.
Status PairConnector::move(bool on_time) {
  std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> letters;
  std::vector<std::pair<std::uint32_t, Error>> undelivered;
  std::set<PairLink> wanted;
  {
    const std::scoped_lock lock(inbox_->mutex);
    letters = std::exchange(inbox_->letters, {});
    undelivered = std::exchange(inbox_->undelivered, {});
  }
  {
    const std::scoped_lock lock(mutex_);
    wanted = std::exchange(wanted_, {});
  }
  for (const auto& [from, letter] : letters)
    WEFT_TRY(take_letter(from, letter));
  // Those after this rank first, so that not all write to the same one.
  const auto first = wanted.lower_bound({.peer = connections_.context_.rank});
  for (auto link = first; link != wanted.end(); ++link)
    note_wanted(pair_of(*link));
  for (auto link = wanted.begin(); link != first; ++link)
    note_wanted(pair_of(*link));
  for (const auto& [to, why] : undelivered) {
    for (auto& [link, pair] : pairs_) {
      // To this rank itself none come: pairs wait for them that have none yet.
      const bool is_meant = to == connections_.context_.rank ? !pair->theirs : link.peer == to;
      if (!is_meant) continue;
      // What passes fails no pair that nobody here waits for and that will be written of again.
      const bool is_written_again = pair->state != Pair::State::kJoining;
      if (passes(why) && !pair->wanted && is_written_again) continue;
      pair->unreachable = why;
      moved_.push_back(pair.get());
    }
  }
  if (on_time) moved_.assign(coming_.begin(), coming_.end());
  for (Pair* const pair : std::exchange(moved_, {})) {
    if (auto moved = advance(*pair); !moved) {
      set_coming_up(*pair, false);
      return fail(std::move(moved.error())
                      .with_context(fmt::format("connecting with rank {}", pair->link.peer)));
    }
  }
  return {};
}

void PairConnector::work(bool on_time) {
  if (failure_) {  // which this thread alone writes
    if (on_time && tell(*failure_)) set_timer({});
    return;
  }
  if (!untold_) {
    Status moved;
    try {
      moved = move(on_time);
    } catch (const std::bad_alloc&) {
      moved = fail(or_no_memory([] {
        return Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory to connect ranks with each other",
                     "raise the limit of address space (ulimit -v), or use fewer channels");
      }));
    }
    if (!moved) untold_ = std::move(moved.error());
  }
  if (untold_) return give_up();
  changed_.notify_all();
  const bool waiting =
      std::ranges::any_of(coming_, [](const Pair* pair) { return !pair->is_lost(); });
  std::chrono::nanoseconds period(0);
  if (on_time && looks_ < kFirstLooks) ++looks_;
  if (joining_ != 0 && joining_ < kLooksAtOnce && looks_ < kFirstLooks) {
    period = kFirstLook;
  } else if (joining_ != 0) {
    period =
        std::min<std::chrono::nanoseconds>(kLook * (1 + joining_ / kLooksAtOnce), kLongestLook);
  } else if (waiting) {
    period = kPatience;
  }
  // What comes between must not put the next look off.
  const bool sooner = period_.count() == 0 || (period.count() != 0 && period < period_);
  if (period != period_ && (on_time || sooner)) set_timer(period);
}

// First whoever is told: who waits must not take for established what is only suspected.
void PairConnector::give_up() {
  set_timer(kAfterFailure);
  if (!tell(*untold_)) return;
  {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(untold_);
  }
  untold_.reset();
  changed_.notify_all();
}

// Nothing may leave the reactor's thread: where there is no memory for it the timer comes again.
bool PairConnector::tell(const Error& failure) const {
  try {
    failed_(failure);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Zero stops it.
void PairConnector::set_timer(std::chrono::nanoseconds period) {
  period_ = period;
  const timespec span{.tv_sec = period.count() / 1'000'000'000,
                      .tv_nsec = period.count() % 1'000'000'000};
  const itimerspec times{.it_interval = span, .it_value = span};
  // Fails for no timer that was made.
  static_cast<void>(timerfd_settime(timer_.get(), 0, &times, nullptr));
}

Status PairConnector::take_letter(std::uint32_t from, std::span<const std::byte> letter) {
  if (letter.size() < kLetterHead) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("rank {} wrote a letter of {} bytes", from, letter.size()));
  }
  const std::uint32_t channel =
      std::to_integer<std::uint32_t>(letter[1]) | std::to_integer<std::uint32_t>(letter[2]) << 8U;
  const PairLink link{.peer = from, .channel = channel};
  const bool may_be = is_channel(channel);
  if (const LinkShape shape = may_be ? shape_of_(link) : LinkShape{}; !may_be || !shape.exists()) {
    return fail(WEFT_ERROR_PEER,
                fmt::format("rank {} wrote of channel {}, which there is not", from, channel));
  }
  Pair& pair = pair_of(link);
  const bool asked = letter.front() == kPleaseAnswer;
  const bool first = !pair.theirs;
  if (first) {
    auto blobs = decode_blobs(letter.subspan(kLetterHead));
    if (!blobs) {
      return fail(std::move(blobs.error()).with_context(fmt::format("a letter of rank {}", from)));
    }
    pair.theirs = std::move(*blobs);
  }
  // Of two that cross each is an answer. Where it asks again it did not get what was written.
  if (asked && !first && pair.state != Pair::State::kNew) {
    forget_what_passes(pair);
    post(pair);
  }
  return {};
}

// Of what kept an answer from the other rank: another one may get there now.
bool PairConnector::forget_what_passes(Pair& pair) {
  if (!pair.unreachable || !passes(*pair.unreachable)) return false;
  pair.unreachable.reset();
  set_joining(pair, pair.state == Pair::State::kJoining);
  return true;
}

// What was lost while nobody here waited for it need not be so any more.
void PairConnector::note_wanted(Pair& pair) {
  if (pair.wanted) return;
  pair.wanted = true;
  if (pair.state != Pair::State::kReady && forget_what_passes(pair)) post(pair);
}

Status PairConnector::advance(Pair& pair) {
  if (pair.is_lost()) {
    set_joining(pair, false);
    if (pair.wanted) return fail(Error(*pair.unreachable));
    return {};
  }
  if (pair.state == Pair::State::kNew) {
    WEFT_TRY(prepare(pair));
    pair.state = Pair::State::kPrepared;
    post(pair);
  }
  if (pair.state == Pair::State::kPrepared) {
    if (!pair.theirs) {
      if (std::chrono::steady_clock::now() - pair.posted < pair.patience) return {};
      pair.patience = std::min(2 * pair.patience, kMostPatience);
      post(pair);
      return {};
    }
    WEFT_TRY(begin(pair));
    pair.state = Pair::State::kJoining;
    set_joining(pair, true);
  }
  if (pair.state == Pair::State::kJoining) {
    WEFT_TRY_ASSIGN(const bool joined, look_at(pair));
    if (!joined) return {};
    WEFT_TRY(finish(pair));
    pair.state = Pair::State::kReady;
    {
      const std::scoped_lock lock(mutex_);
      ready_[pair.link] = &pair.ends;
    }
    set_joining(pair, false);
    coming_.erase(&pair);
  }
  return {};
}

// Of inboxes there are lines alone. Else head and tail are those of Simple, of which a slot need
// hold nothing where lines have slots. A buffer for lines begins with none that looks new.
void PairConnector::request(const PairLink& link, const SlotGeometry& slots,
                            Connections::Edge& edge) const {
  weft_protocol_request& protocol = edge.protocols[0];
  protocol.struct_size = sizeof(protocol);
  protocol.protocol = is_of_inboxes(link.channel) ? WEFT_PROTOCOL_LL : WEFT_PROTOCOL_SIMPLE;
  protocol.steps = slots.steps;
  protocol.step_bytes = slots.step_bytes;
  edge.line_payload = slots.line_payload;
  if (!is_of_lines(link.channel)) return;
  edge.protocols[1] = protocol;
  edge.protocols[1].protocol = WEFT_PROTOCOL_LL;
  protocol.step_bytes = kLeastStepBytes;
}

Status PairConnector::prepare(Pair& pair) {
  const LinkShape shape = shape_of_(pair.link);
  for (const weft_direction direction : {WEFT_DIRECTION_SEND, WEFT_DIRECTION_RECV}) {
    if (!(direction == WEFT_DIRECTION_SEND ? shape.to : shape.from)) continue;
    pair.edges.push_back(
        connections_.edge_to(pair.link.peer, pair.link.channel, direction, choice_of_));
    request(pair.link, shape.slots, pair.edges.back());
  }
  WEFT_TRY_ASSIGN(const ConnectionBlobs mine, connections_.prepare(pair.edges));
  pair.blobs = encode_blobs(mine);
  return {};
}

void PairConnector::post(Pair& pair) {
  std::vector<std::byte> letter = {pair.theirs ? kAnswered : kPleaseAnswer,
                                   static_cast<std::byte>(pair.link.channel & 0xFFU),
                                   static_cast<std::byte>(pair.link.channel >> 8U)};
  letter.insert(letter.end(), pair.blobs.begin(), pair.blobs.end());
  pair.posted = std::chrono::steady_clock::now();
  bootstrap_.post(static_cast<int>(pair.link.peer), LetterSubject::kPairs, std::move(letter));
}

Status PairConnector::begin(Pair& pair) {
  for (Connections::Edge& edge : pair.edges) {
    const auto blob = pair.theirs->find(edge.number);
    const bool needed = edge.transport != nullptr || edge.sends();
    if (blob == pair.theirs->end()) {
      if (!needed) continue;
      return fail(WEFT_ERROR_PEER, "it wrote nothing about its end of the connection");
    }
    if (edge.transport != nullptr) {
      pair.peer_blobs.push_back(blob->second);
    } else {
      const auto lock = edge.via->port->lock();
      WEFT_TRY(connections_.begin_net(edge, blob->second));
    }
  }
  return {};
}

Result<bool> PairConnector::look_at(Pair& pair) {
  WEFT_TRY_ASSIGN(const bool joined, join(pair));
  if (joined && !may_leave_unheard(pair)) return true;
  pair.looked += std::clamp<std::chrono::nanoseconds>(period_, kLook, kLongestLook);
  if (pair.looked >= kMostLooks) set_coming_up(pair, false);
  return false;
}

// Who only sends may have sent all and leave before the peer has its letter, without which that
// cannot take what came. Where data comes back the peer had the letter.
bool PairConnector::may_leave_unheard(const Pair& pair) const {
  const bool sends_alone = pair.edges.size() == 1 && pair.edges.front().sends();
  return sends_alone && bootstrap_.brings_letters(static_cast<int>(pair.link.peer));
}

void PairConnector::set_joining(Pair& pair, bool joins) {
  set_coming_up(pair, joins);
  if (pair.joins == joins) return;
  pair.joins = joins;
  if (joins) {
    ++joining_;
    looks_ = 0;
  } else {
    --joining_;
  }
}

void PairConnector::set_coming_up(const Pair& pair, bool comes) {
  const std::scoped_lock lock(mutex_);
  if (comes) {
    coming_up_.insert(pair.link);
  } else {
    coming_up_.erase(pair.link);
  }
}

bool PairConnector::comes_up(const PairLink& link) {
  const std::scoped_lock lock(mutex_);
  return coming_up_.contains(link);
}

Result<bool> PairConnector::join(Pair& pair) {
  if (pair.edges.front().transport != nullptr) {
    Connections::OpenedTransport& opened = *pair.edges.front().transport;
    std::vector<weft_connection*> ends;
    std::vector<weft_blob> blobs;
    for (std::size_t i = 0; i < pair.edges.size(); ++i) {
      ends.push_back(pair.edges[i].connection);
      blobs.push_back({.data = pair.peer_blobs[i].data(), .size = pair.peer_blobs[i].size()});
    }
    const std::scoped_lock lock(opened.calls);
    return opened.plugin.connect(opened.transport, ends, blobs);
  }
  bool all = true;
  for (Connections::Edge& edge : pair.edges) {
    if (edge.joined) continue;
    NetPort& port = *edge.via->port;
    {
      const auto lock = port.lock();
      WEFT_TRY_ASSIGN(edge.joined, connections_.join_net(edge));
    }
    all = all && edge.joined;
    // The net may have heard of messages by the way. Who sleeps on its descriptor is woken by what
    // it has not heard of yet.
    if (port.busy() && !port.must_be_polled()) port.progress();
  }
  return all;
}

Status PairConnector::finish(Pair& pair) {
  if (is_of_inboxes(pair.link.channel)) return finish_inboxes(pair);
  WEFT_TRY(connections_.allocate_positions(2 * sizeof(ConnectionCursor), &pair.cursors));
  auto* cursor = static_cast<ConnectionCursor*>(pair.cursors);
  for (Connections::Edge& edge : pair.edges) {
    ConnectionEnd& end = edge.sends() ? pair.ends.to : pair.ends.from;
    WEFT_TRY_ASSIGN(end.view, edge.net != nullptr ? connections_.view_of_net(edge, end)
                                                  : connections_.view_of(edge));
    end.view.cursor = cursor++;
    if (end.line_view.connected()) end.line_view.cursor = end.view.cursor;
    if (edge.choice.single_copy) {
      end.peer_memory = {.plugin = &edge.transport->plugin, .connection = edge.connection};
    }
    if (edge.net != nullptr) close_listener(edge);
  }
  return {};
}

void PairConnector::close_listener(Connections::Edge& edge) {
  const auto lock = edge.via->port->lock();
  if (edge.listener == nullptr) return;
  edge.net->plugin.close_listener(std::exchange(edge.listener, nullptr));
}

Status PairConnector::finish_inboxes(Pair& pair) {
  for (Connections::Edge& edge : pair.edges) {
    ConnectionEnd& end = edge.sends() ? pair.ends.to : pair.ends.from;
    WEFT_TRY_ASSIGN(end.view, edge.net != nullptr ? connections_.lines_of_net(edge, end)
                                                  : connections_.view_of(edge));
    connections_.describe_direct(edge, end.view);
    if (edge.net != nullptr) close_listener(edge);
  }
  return {};
}

// By channel, both neighbours in one line. With mutex_.
std::string PairConnector::describe_rings() const {
  struct Ends {
    const ConnectionView* from = nullptr;
    const ConnectionView* to = nullptr;
  };
  std::map<std::uint32_t, Ends> rings;
  for (const auto& [link, ends] : ready_) {
    if (!is_of_rings(link.channel)) continue;
    if (ends->from.view.connected()) rings[link.channel].from = &ends->from.view;
    if (ends->to.view.connected()) rings[link.channel].to = &ends->to.view;
  }
  std::string text;
  for (const auto& [channel, ends] : rings) {
    if (ends.from == nullptr || ends.to == nullptr) continue;  // the call waits for that one
    text += fmt::format(
        "\n  channel {}: rank {} has sent {} steps, {} of them are taken; of {} steps sent to rank "
        "{} it has taken {}",
        channel, ends.from->peer, load_counter(ends.from->tail), load_counter(ends.from->head),
        load_counter(ends.to->tail), ends.to->peer, load_counter(ends.to->head));
  }
  return text;
}

std::string PairConnector::describe_waiting() {
  // Where a call waits for an inbox, those of the rings would point at neighbours.
  std::string text = connections_.describe_waiting_inboxes();
  const bool by_inboxes = !text.empty();
  const bool readable = connections_.in_host_memory_;  // what a GPU counts is out of a CPU's reach
  const std::scoped_lock lock(mutex_);
  if (!by_inboxes && readable) text += describe_rings();
  if (!by_inboxes) text += connections_.describe_waiting_ports();
  for (const auto& [link, ends] : ready_) {
    if (!readable || is_of_rings(link.channel) || is_of_inboxes(link.channel)) continue;
    const ConnectionView& to = ends->to.view;
    const ConnectionView& from = ends->from.view;
    const std::uint64_t sent = load_counter(to.tail);
    const std::uint64_t taken = load_counter(to.head);
    if (ends->to.port != nullptr) continue;  // its port tells
    text += fmt::format(
        "\n  with rank {}{}: {} of {} steps sent to it are taken, {} of {} steps from it",
        link.peer, channel_text(link.channel), taken, sent, load_counter(from.head),
        load_counter(from.tail));
  }
  return text;
}

}  // namespace weft
