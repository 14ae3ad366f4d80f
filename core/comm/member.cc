// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/member.h"

#include <cerrno>
#include <exception>
#include <new>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/base/thread_name.h"

namespace weft {

Member::Member(std::unique_ptr<Communicator> joined)
    : communicator_(std::move(joined)), state_(State::kReady) {}

Member::Member(std::unique_ptr<Communicator> joining, UniqueFd cancel)
    : cancel_(std::move(cancel)), communicator_(std::move(joining)), state_(State::kNotJoined) {}

Result<std::unique_ptr<Member>> Member::start(std::unique_ptr<Communicator> joining, UniqueId id,
                                              std::function<Status(int cancel_fd)> before) {
  UniqueFd cancel(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!cancel) return fail(Error::from_errno(errno, "cannot make an event descriptor"));
  std::unique_ptr<Member> member(new Member(std::move(joining), std::move(cancel)));
  const auto join = [self = member.get(), id, before = std::move(before)]() -> Status {
    const int cancel_fd = self->cancel_.get();
    if (before) WEFT_TRY(before(cancel_fd));
    return self->communicator_->join(id, cancel_fd);
  };
  WEFT_TRY(member->start_phase(join, State::kJoining, State::kReady, State::kNotJoined));
  return member;
}

Member::~Member() {
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::kJoining) abort();
  if (state == State::kEnding) communicator_->stop_comparing();
  if (worker_.joinable()) worker_.join();
  if (held_.valid()) held_.wait();
}

Status Member::start_thread(std::function<void()> work) {
  if (worker_.joinable()) worker_.join();  // the earlier one has ended
  int refused = 0;
  try {
    worker_ = std::thread([work = std::move(work)] {
      name_this_thread("weft-background");
      work();
    });
    return {};
  } catch (const std::system_error& error) {
    refused = error.code().value();
  } catch (const std::bad_alloc&) {
    refused = ENOMEM;
  }
  return fail(or_no_memory([&] {
    return Error::from_errno(refused, "cannot start a thread to work in the background",
                             "raise the limits of processes and memory (ulimit -u, ulimit -v)");
  }));
}

Status Member::start_phase(std::function<Status()> work, State now, State after, State failed) {
  std::function<void()> phase = [this, work = std::move(work), after, failed] {
    Status done;
    try {
      done = work();
    } catch (const std::bad_alloc&) {
      done = fail(or_no_memory(
          [] { return Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory to go on in the background"); }));
    } catch (const std::exception& error) {
      done = fail(or_no_memory([&] { return Error(WEFT_ERROR_INTERNAL, error.what()); }));
    }
    if (!done) error_ = std::move(done.error());
    state_.store(error_ ? failed : after, std::memory_order_release);
  };
  const State before = state_.exchange(now, std::memory_order_acq_rel);
  Status started = start_thread(std::move(phase));
  // Finalize may be asked for once more; a join that never began is not to be given up.
  if (!started) state_.store(before, std::memory_order_release);
  return started;
}

void Member::hold(std::shared_future<void> done) {
  held_ = std::move(done);
  state_.store(State::kStarting, std::memory_order_release);
}

Result<Communicator*> Member::why_unusable() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kReady:
      return communicator_.get();
    case State::kNotJoined:
      return fail(Error(*error_));
    case State::kJoining:
      return fail(WEFT_ERROR_INVALID_USAGE,
                  fmt::format("rank {} of {} is still joining its communicator", rank(), ranks()),
                  "ask weft_comm_get_async_error until it no longer tells WEFT_IN_PROGRESS");
    case State::kStarting:
      return fail(
          WEFT_ERROR_INVALID_USAGE,
          fmt::format("rank {} of {} is still connecting for an earlier call", rank(), ranks()),
          "ask weft_comm_get_async_error until it no longer tells WEFT_IN_PROGRESS");
    case State::kEnding:
    case State::kEnded:
      break;
  }
  return fail(WEFT_ERROR_INVALID_USAGE,
              fmt::format("rank {} of {} has finalized its communicator", rank(), ranks()),
              "only weft_comm_destroy may follow");
}

Communicator* Member::joined() const {
  const State state = state_.load(std::memory_order_acquire);
  return state == State::kJoining || state == State::kNotJoined ? nullptr : communicator_.get();
}

Result<weft_result> Member::query() {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kJoining:
    case State::kStarting:
    case State::kEnding:
      return WEFT_IN_PROGRESS;
    case State::kNotJoined:
    case State::kEnded:
      if (error_) return fail(Error(*error_));
      break;
    case State::kReady:
      break;
  }
  if (auto failure = communicator_->known_failure()) return fail(std::move(*failure));
  return WEFT_OK;
}

Result<weft_result> Member::finalize() {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kReady:
      break;
    case State::kEnding:
    case State::kEnded:
      return query();
    default:
      WEFT_TRY(why_unusable());
  }
  if (cancel_) {
    // The program may be using the stream meanwhile.
    const auto finish = [this] { return finish_all(false); };
    WEFT_TRY(start_phase(finish, State::kEnding, State::kEnded, State::kEnded));
    communicator_->end_calls();
    return WEFT_IN_PROGRESS;
  }
  const Status finished = finish_all(true);
  state_.store(State::kEnded, std::memory_order_release);
  communicator_->end_calls();
  WEFT_TRY(finished);
  return WEFT_OK;
}

Status Member::finish_all(bool may_work) {
  WEFT_TRY(communicator_->finish(may_work));
  return communicator_->compare_last_calls();
}

void Member::abort() {
  communicator_->abort();
  if (cancel_) static_cast<void>(eventfd_write(cancel_.get(), 1));
}

}  // namespace weft
