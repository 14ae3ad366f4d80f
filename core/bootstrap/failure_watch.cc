// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/failure_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <linux/tcp.h>
#include <mutex>
#include <netinet/in.h>
#include <new>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/base/fork_closed.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kUntilMemory(100);
constexpr std::chrono::milliseconds kBetweenTries(1);
constexpr std::chrono::nanoseconds kAtOnce(1);  // 0 would be never
// What others ask leaves so much room at a neighbour for news: a failure, a goodbye.
constexpr std::size_t kRoomForNews = 16UL * 1024;

// A cut link is found after about five seconds: keepalive probes while nothing is under way, the
// user timeout while something is. The kernel of a stopped process still answers both, but while it
// has no room the user timeout counts its answers for none: see has_room. Inside a host there is no
// link to be cut, but a machine that stands still for seconds would look like one.
void watch_link(const Wire& wire) {
  if (wire.stays_on_host()) return;
  const int fd = wire.fd();
  const auto set = [fd](int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 4500);
}

Error death_of(const PeerIdentity& who, int errno_value) {
  const std::string how =
      errno_value == 0 || errno_value == ECONNRESET || errno_value == EPIPE
          ? std::string("its connection was closed")
          : fmt::format("its connection broke ({})", std::generic_category().message(errno_value));
  Error error(WEFT_ERROR_PEER, fmt::format("{} died: {}", who.to_string(), how),
              "see that rank's own output and its host");
  error.with_native(ErrorSource::kPeer, who.rank);
  return error;
}

}  // namespace

// Everything below `mutex` is guarded by it. The mutex is never held while a callback of the user
// runs, nor while Reactor::remove is called from another thread than the reactor's.
struct FailureWatch::State {
  struct Side {
    PeerIdentity who;
    Wire wire;
    std::unique_ptr<ClosedInChildren> not_in_children{};
    Reactor::WatchId watch = 0;
    bool watched = false;
    int broken = 0;  // errno of what could not be sent: the socket tells it once, and then its end
    std::size_t most_room = 0;        // that was seen at the neighbour
    std::optional<Message> unread{};  // that came, and has not been dealt with
    std::optional<Departure> departure{};
  };

  State(Reactor& context_reactor, Logger& logger) : reactor(context_reactor), log(logger) {}

  Reactor& reactor;
  Logger& log;
  PeerIdentity self;
  int nranks = 1;
  UniqueFd failed;   // readable once there is a failure
  UniqueFd deliver;  // a timer that wakes the reactor's thread to call the callback
  Reactor::WatchId deliver_watch = 0;

  mutable std::mutex mutex;
  std::array<std::optional<Side>, 2> sides;  // towards the next rank, towards the previous rank
  std::optional<Error> failure;
  bool from_others = false;  // the failure is another rank's: the callback is due
  bool delivered = false;
  bool left = false;
  std::function<void(const Error&)> callback;
  std::function<void(const Question&)> question_callback;
  std::function<void(const RoundText&)> round_callback;
  std::vector<QuestionMessage> questions;  // to be answered once the mutex is free
  struct Round {
    std::size_t side;
    QuestionMessage message;
  };
  std::vector<Round> rounds;  // the same

  void wake(std::chrono::nanoseconds in) const;
  void on_side(std::size_t index);
  void look_at(std::size_t index);
  void read_side(std::size_t index);
  void message_from(std::size_t index, const Message& message);
  void send(std::size_t index, MessageType type, std::span<const std::byte> payload);
  /// The first failure wins. What comes later is a consequence of it as a rule.
  [[nodiscard]] bool takes_failures() const { return !failure && !left; }
  void set_failure(Error error, bool others);
  [[nodiscard]] static bool has_room(Side& side);
  void pass_question(std::size_t index, std::span<const std::byte> payload);
  void question_from(std::size_t index, const Message& message);
  void round_from(std::size_t index, const Message& message);
  void answer_rounds();
  bool hand_on(std::size_t index, int asker, std::span<const std::byte> text);
  void died(std::size_t index, Error error);
  void pass_on(std::size_t index, Error error, std::span<const std::byte> payload);
  void try_deliver();
  void answer_questions();
  [[nodiscard]] std::vector<Departure> departures() const;
};

// Once others have been told: that may lack memory, this does not.
void FailureWatch::State::set_failure(Error error, bool others) {
  failure = std::move(error);
  from_others = others;
  eventfd_write(failed.get(), 1);
  if (!others) return;
  try {
    log.info(Topic::kBootstrap, "rank {}: {}", self.rank, failure->to_string());
  } catch (const std::bad_alloc&) {
    return;  // The log alone misses it.
  }
}

void FailureWatch::State::wake(std::chrono::nanoseconds in) const {
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = in.count()}};
  // Fails for no timer that was made.
  static_cast<void>(timerfd_settime(deliver.get(), 0, &once, nullptr));
}

void FailureWatch::State::send(std::size_t index, MessageType type,
                               std::span<const std::byte> payload) {
  auto& side = sides[index];
  // Once left nothing goes out.
  if (left || !side || !side->watched) return;
  // What others ask comes here only where there is room for it (has_room), and the rest is a few
  // kilobytes in the life of a communicator: the socket takes them. A broken connection is found by
  // its own event.
  side->wire.queue(type, payload);
  if (const auto sent = side->wire.flush(); !sent && side->broken == 0) {
    side->broken = static_cast<int>(sent.error().native());
  }
}

void FailureWatch::State::died(std::size_t index, Error error) {
  const ErrorMessage message{.culprit = sides[index]->who.rank,
                             .code = error.code(),
                             .what = error.what(),
                             .hint = error.hint()};
  pass_on(index, std::move(error), message.encode());
}

// What side `index` told, or its death. First to the other one: without memory for that nothing has
// been told, and is not noted as if it had.
void FailureWatch::State::pass_on(std::size_t index, Error error,
                                  std::span<const std::byte> payload) {
  if (!takes_failures()) return;
  send(1 - index, MessageType::kFailure, payload);
  set_failure(std::move(error), true);
}

// Not to a neighbour that has stopped reading: questions come again, memory does not. Nor until its
// kernel takes no more: that would be taken for its death.
bool FailureWatch::State::has_room(Side& side) {
  if (side.wire.has_output()) return false;
  const auto room = side.wire.room();
  if (!room) return true;
  side.most_room = std::max(side.most_room, *room);
  return *room > std::min(kRoomForNews, side.most_room / 2);
}

void FailureWatch::State::pass_question(std::size_t index, std::span<const std::byte> payload) {
  if (sides[index] && has_room(*sides[index])) send(index, MessageType::kQuestion, payload);
}

void FailureWatch::State::question_from(std::size_t index, const Message& message) {
  auto question = QuestionMessage::decode(message.payload);
  if (!question || question->asker < 0 || question->asker >= nranks) {
    died(index, Error(WEFT_ERROR_PEER,
                      fmt::format("{} sent a malformed question", sides[index]->who.to_string())));
    return;
  }
  if (question->asker == self.rank) return;  // it has been everywhere
  questions.reserve(questions.size() + 1);
  pass_question(1 - index, message.payload);
  questions.push_back(std::move(*question));
}

void FailureWatch::State::round_from(std::size_t index, const Message& message) {
  auto text = QuestionMessage::decode(message.payload);
  if (!text || text->asker < 0 || text->asker >= nranks) {
    died(index, Error(WEFT_ERROR_PEER,
                      fmt::format("{} sent a malformed question", sides[index]->who.to_string())));
    return;
  }
  rounds.push_back({.side = index, .message = std::move(*text)});
}

// Those that are lost without memory their askers send again.
void FailureWatch::State::answer_rounds() {
  std::function<void(const RoundText&)> call;
  std::vector<Round> came;
  std::vector<Departure> departed;
  {
    const std::lock_guard lock(mutex);
    came = std::exchange(rounds, {});
    if (came.empty() || left || failure) return;
    call = round_callback;
    departed = departures();
  }
  if (!call) return;
  for (const Round& round : came) {
    const int asker = round.message.asker;
    call({.asker = asker,
          .side = round.side,
          .text = round.message.question,
          .departed = departed,
          .hand_on = [this, asker](std::size_t side, std::span<const std::byte> text) {
            return hand_on(side, asker, text);
          }});
  }
}

bool FailureWatch::State::hand_on(std::size_t index, int asker, std::span<const std::byte> text) {
  const QuestionMessage message{.asker = asker, .question = {text.begin(), text.end()}};
  const auto payload = message.encode();
  const std::lock_guard lock(mutex);
  if (left || failure) return true;
  auto& to = sides[index];
  if (!to || !to->watched || to->departure) return false;
  if (has_room(*to)) send(index, MessageType::kRound, payload);
  return true;
}

void FailureWatch::State::message_from(std::size_t index, const Message& message) {
  Side& side = *sides[index];
  if (message.type == MessageType::kGoodbye && message.payload.size() <= kMaxQuestionBytes) {
    side.departure = {.rank = side.who.rank,
                      .last_words = message.payload,
                      .since = std::chrono::steady_clock::now()};
    questions.push_back({.asker = side.who.rank, .question = message.payload});
    return;
  }
  if (message.type == MessageType::kQuestion) return question_from(index, message);
  if (message.type == MessageType::kRound) return round_from(index, message);
  const auto report =
      message.type == MessageType::kFailure ? ErrorMessage::decode(message.payload) : std::nullopt;
  if (!report) {
    died(index, Error(WEFT_ERROR_PEER, fmt::format("{} sent a message that has no place here",
                                                   side.who.to_string())));
    return;
  }
  Error error(report->code, report->what, report->hint);
  error.with_native(ErrorSource::kPeer, report->culprit);
  // Everyone passes on the first news alone, so it ends where it meets its other half.
  pass_on(index, std::move(error), message.payload);
}

void FailureWatch::State::read_side(std::size_t index) {
  Side& side = *sides[index];
  const auto input = side.wire.fill();
  while (true) {
    if (side.unread) {
      message_from(index, *side.unread);
      side.unread.reset();
    }
    auto message = side.wire.next();
    if (!message) {
      died(index, Error(WEFT_ERROR_PEER,
                        fmt::format("{} sent {}", side.who.to_string(), message.error().what())));
      break;
    }
    if (!*message) {
      if (input && *input == Wire::Input::kOpen) return;
      if (!side.departure) {
        died(index,
             death_of(side.who, input ? side.broken : static_cast<int>(input.error().native())));
      }
      break;
    }
    side.unread = std::move(*message);
  }
  side.watched = false;
  reactor.remove(side.watch);
}

// Nothing may leave the reactor's thread. What lacks memory stays to be done: the timer comes
// again.
void FailureWatch::State::on_side(std::size_t index) {
  try {
    look_at(index);
  } catch (const std::bad_alloc&) {
    wake(kUntilMemory);
    std::this_thread::sleep_for(kBetweenTries);  // what was not read brings it back at once
  }
}

void FailureWatch::State::look_at(std::size_t index) {
  {
    const std::lock_guard lock(mutex);
    if (sides[index] && sides[index]->watched) read_side(index);
  }
  answer_questions();
  answer_rounds();
  try_deliver();
}

// Only this thread adds some. One that there is no memory for is answered again: last words come
// but once.
void FailureWatch::State::answer_questions() {
  std::function<void(const Question&)> call;
  std::vector<QuestionMessage> asked;
  std::vector<Departure> departed;
  {
    const std::lock_guard lock(mutex);
    if (left || failure || !question_callback) questions.clear();
    if (questions.empty()) return;
    call = question_callback;
    departed = departures();
    asked = std::exchange(questions, {});
  }
  try {
    for (const QuestionMessage& question : asked)
      call({.asker = question.asker, .text = question.question, .departed = departed});
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex);
    questions = std::move(asked);
    throw;
  }
}

std::vector<Departure> FailureWatch::State::departures() const {
  std::vector<Departure> departures;
  for (const auto& side : sides) {
    if (side && side->departure) departures.push_back(*side->departure);
  }
  return departures;
}

void FailureWatch::State::try_deliver() {
  std::function<void(const Error&)> call;
  std::optional<Error> error;
  {
    const std::lock_guard lock(mutex);
    if (!failure || !from_others || delivered || left || !callback) return;
    call = callback;
    error = failure;
  }
  call(*error);
  const std::lock_guard lock(mutex);
  delivered = true;
}

FailureWatch::FailureWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<FailureWatch>> FailureWatch::start_alone(Reactor& reactor, Logger& log) {
  return launch(std::make_unique<State>(reactor, log));
}

Result<std::unique_ptr<FailureWatch>> FailureWatch::start(const PeerIdentity& self, int nranks,
                                                          const PeerIdentity& next, Wire to_next,
                                                          const PeerIdentity& previous,
                                                          Wire to_previous, Reactor& reactor,
                                                          Logger& log) {
  auto state = std::make_unique<State>(reactor, log);
  state->self = self;
  state->nranks = nranks;
  watch_link(to_next);
  watch_link(to_previous);
  state->sides[0].emplace(State::Side{.who = next, .wire = std::move(to_next)});
  state->sides[1].emplace(State::Side{.who = previous, .wire = std::move(to_previous)});
  for (auto& side : state->sides)
    side->not_in_children = std::make_unique<ClosedInChildren>(side->wire.fd());
  return launch(std::move(state));
}

Result<std::unique_ptr<FailureWatch>> FailureWatch::launch(std::unique_ptr<State> owned) {
  State& state = *owned;
  std::unique_ptr<FailureWatch> watch(new FailureWatch(std::move(owned)));
  state.failed.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state.failed) return fail(Error::from_errno(errno, "cannot create an event descriptor"));
  state.deliver.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!state.deliver) return fail(Error::from_errno(errno, "cannot make a timer"));
  WEFT_TRY_ASSIGN(state.deliver_watch,
                  state.reactor.add(state.deliver.get(), EPOLLIN, [&state](std::uint32_t) {
                    std::uint64_t expirations = 0;
                    static_cast<void>(read(state.deliver.get(), &expirations, sizeof(expirations)));
                    // What came together with the handshake is in memory, where epoll does not
                    // see it: the first wake looks there.
                    state.on_side(0);
                    state.on_side(1);
                  }));
  const std::lock_guard lock(state.mutex);
  for (std::size_t i = 0; i < state.sides.size(); ++i) {
    auto& side = state.sides[i];
    if (!side) continue;
    WEFT_TRY_ASSIGN(side->watch,
                    state.reactor.add(side->wire.fd(), EPOLLIN | EPOLLRDHUP,
                                      [&state, i](std::uint32_t) { state.on_side(i); }));
    side->watched = true;
  }
  state.wake(kAtOnce);
  return watch;
}

FailureWatch::~FailureWatch() {
  std::array<Reactor::WatchId, 3> ids{state_->deliver_watch, 0, 0};
  {
    const std::lock_guard lock(state_->mutex);
    state_->left = true;
    for (std::size_t i = 0; i < state_->sides.size(); ++i) {
      if (state_->sides[i]) ids[i + 1] = state_->sides[i]->watch;
    }
  }
  for (const Reactor::WatchId id : ids) {
    if (id != 0) state_->reactor.remove(id);
  }
  for (auto& side : state_->sides) {
    // Bytes left unread would turn the orderly end into a reset, which may overtake a goodbye.
    if (side) (void)side->wire.fill();
  }
}

void FailureWatch::on_failure(std::function<void(const Error&)> callback) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->callback = std::move(callback);
  }
  state_->wake(kAtOnce);
}

void FailureWatch::on_question(std::function<void(const Question&)> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->question_callback = std::move(callback);
}

void FailureWatch::ask(std::span<const std::byte> question) {
  const QuestionMessage message{.asker = state_->self.rank,
                                .question = {question.begin(), question.end()}};
  const auto payload = message.encode();
  const std::lock_guard lock(state_->mutex);
  if (state_->left || state_->failure) return;
  for (std::size_t i = 0; i < state_->sides.size(); ++i)
    state_->pass_question(i, payload);
}

void FailureWatch::on_round(std::function<void(const RoundText&)> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->round_callback = std::move(callback);
}

bool FailureWatch::hand_on(std::size_t side, int asker, std::span<const std::byte> text) {
  return state_->hand_on(side, asker, text);
}

void FailureWatch::announce(const Error& error) {
  const std::lock_guard lock(state_->mutex);
  // A mismatch is everybody's error; anything else is, to the others, the failure of a peer: of the
  // one that the error blames, if it blames one.
  const bool blames_other = error.source() == ErrorSource::kPeer && error.native() >= 0 &&
                            error.native() < state_->nranks;
  const ErrorMessage message{
      .culprit = blames_other ? static_cast<std::int32_t>(error.native()) : state_->self.rank,
      .code = error.code() == WEFT_ERROR_MISMATCH ? WEFT_ERROR_MISMATCH : WEFT_ERROR_PEER,
      .what = fmt::format("{} failed ({}): {}", state_->self.to_string(), result_name(error.code()),
                          error.to_string()),
      .hint = {}};
  if (!state_->takes_failures()) return;
  Error known = error;
  // First, as above: who has memory again tells it.
  const auto payload = message.encode();
  for (std::size_t i = 0; i < state_->sides.size(); ++i) {
    state_->send(i, MessageType::kFailure, payload);
  }
  state_->set_failure(std::move(known), false);
}

void FailureWatch::interrupt(const Error& error) {
  const std::lock_guard lock(state_->mutex);
  if (state_->takes_failures()) state_->set_failure(error, false);
}

void FailureWatch::leave(std::span<const std::byte> last_words) {
  const std::lock_guard lock(state_->mutex);
  if (state_->left) return;
  for (std::size_t i = 0; i < state_->sides.size(); ++i) {
    state_->send(i, MessageType::kGoodbye,
                 last_words.first(std::min(last_words.size(), kMaxQuestionBytes)));
    if (state_->sides[i]) shutdown(state_->sides[i]->wire.fd(), SHUT_WR);
  }
  state_->left = true;
}

std::optional<Error> FailureWatch::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

std::vector<Departure> FailureWatch::departed_neighbours() const {
  const std::lock_guard lock(state_->mutex);
  return state_->departures();
}

int FailureWatch::failure_fd() const {
  return state_->failed.get();
}

}  // namespace weft
