// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/failure_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/base/fork_closed.h"

namespace weft {
namespace {

// A cut link is found after about five seconds: keepalive probes while nothing is under way, the
// user timeout while something is. The kernel of a stopped process still answers both. Inside a
// host there is no link to be cut, but a machine that stands still for seconds would look like one.
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
    std::optional<Departure> departure{};
  };

  State(Reactor& context_reactor, Logger& logger) : reactor(context_reactor), log(logger) {}

  Reactor& reactor;
  Logger& log;
  PeerIdentity self;
  int nranks = 1;
  UniqueFd failed;   // readable once there is a failure
  UniqueFd deliver;  // wakes the reactor's thread to call the callback
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

  void on_side(std::size_t index);
  void read_side(std::size_t index);
  void message_from(std::size_t index, const Message& message);
  void send(std::size_t index, MessageType type, std::span<const std::byte> payload);
  bool set_failure(const Error& error, bool others);
  void pass_question(std::size_t index, std::span<const std::byte> payload);
  void question_from(std::size_t index, const Message& message);
  void round_from(std::size_t index, const Message& message);
  void answer_rounds();
  bool hand_on(std::size_t index, int asker, std::span<const std::byte> text);
  void died(std::size_t index, const Error& error);
  void try_deliver();
  void answer_questions();
  [[nodiscard]] std::vector<Departure> departures() const;
};

// The first failure wins. What comes later is a consequence of it as a rule.
bool FailureWatch::State::set_failure(const Error& error, bool others) {
  if (failure || left) return false;
  failure = error;
  from_others = others;
  eventfd_write(failed.get(), 1);
  if (others) log.info(Topic::kBootstrap, "rank {}: {}", self.rank, error.to_string());
  return true;
}

void FailureWatch::State::send(std::size_t index, MessageType type,
                               std::span<const std::byte> payload) {
  auto& side = sides[index];
  // Once left nothing goes out.
  if (left || !side || !side->watched) return;
  // At most a few kilobytes pass here in the life of a communicator: an idle socket takes them. A
  // broken connection is found by its own event.
  side->wire.queue(type, payload);
  if (const auto sent = side->wire.flush(); !sent && side->broken == 0) {
    side->broken = static_cast<int>(sent.error().native());
  }
}

void FailureWatch::State::died(std::size_t index, const Error& error) {
  const ErrorMessage message{.culprit = sides[index]->who.rank,
                             .code = error.code(),
                             .what = error.what(),
                             .hint = error.hint()};
  // First: without memory for it nothing has been told, and is not noted as if it had.
  const auto payload = message.encode();
  if (set_failure(error, true)) send(1 - index, MessageType::kFailure, payload);
}

void FailureWatch::State::pass_question(std::size_t index, std::span<const std::byte> payload) {
  // Not to a neighbour that has stopped reading: questions come again, memory does not.
  if (sides[index] && !sides[index]->wire.has_output()) {
    send(index, MessageType::kQuestion, payload);
  }
}

void FailureWatch::State::question_from(std::size_t index, const Message& message) {
  auto question = QuestionMessage::decode(message.payload);
  if (!question || question->asker < 0 || question->asker >= nranks) {
    died(index, Error(WEFT_ERROR_PEER,
                      fmt::format("{} sent a malformed question", sides[index]->who.to_string())));
    return;
  }
  if (question->asker == self.rank) return;  // it has been everywhere
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
  const auto& to = sides[index];
  if (!to || !to->watched || to->departure) return false;
  if (!to->wire.has_output()) send(index, MessageType::kRound, payload);
  return true;
}

void FailureWatch::State::message_from(std::size_t index, const Message& message) {
  Side& side = *sides[index];
  if (message.type == MessageType::kGoodbye && message.payload.size() <= kMaxQuestionBytes) {
    side.departure = {.rank = side.who.rank, .last_words = message.payload};
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
  if (set_failure(error, true)) send(1 - index, MessageType::kFailure, message.payload);
}

void FailureWatch::State::read_side(std::size_t index) {
  Side& side = *sides[index];
  const auto input = side.wire.fill();
  while (true) {
    const auto message = side.wire.next();
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
    message_from(index, **message);
  }
  side.watched = false;
  reactor.remove(side.watch);
}

void FailureWatch::State::on_side(std::size_t index) {
  {
    const std::lock_guard lock(mutex);
    if (sides[index] && sides[index]->watched) read_side(index);
  }
  answer_questions();
  answer_rounds();
  try_deliver();
}

void FailureWatch::State::answer_questions() {
  std::function<void(const Question&)> call;
  std::vector<QuestionMessage> asked;
  std::vector<Departure> departed;
  {
    const std::lock_guard lock(mutex);
    asked = std::exchange(questions, {});
    if (asked.empty() || left || failure) return;
    call = question_callback;
    departed = departures();
  }
  if (!call) return;
  for (const QuestionMessage& question : asked)
    call({.asker = question.asker, .text = question.question, .departed = departed});
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
    delivered = true;
    call = callback;
    error = failure;
  }
  call(*error);
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
  for (UniqueFd* fd : {&state.failed, &state.deliver}) {
    fd->reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!*fd) return fail(Error::from_errno(errno, "cannot create an event descriptor"));
  }
  WEFT_TRY_ASSIGN(state.deliver_watch,
                  state.reactor.add(state.deliver.get(), EPOLLIN, [&state](std::uint32_t) {
                    eventfd_t value = 0;
                    (void)eventfd_read(state.deliver.get(), &value);
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
  eventfd_write(state.deliver.get(), 1);
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
  eventfd_write(state_->deliver.get(), 1);
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
  // First, as above: who has memory again tells it.
  const auto payload = message.encode();
  if (!state_->set_failure(error, false)) return;
  for (std::size_t i = 0; i < state_->sides.size(); ++i) {
    state_->send(i, MessageType::kFailure, payload);
  }
}

void FailureWatch::interrupt(const Error& error) {
  const std::lock_guard lock(state_->mutex);
  state_->set_failure(error, false);
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
