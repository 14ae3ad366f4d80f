// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/later_start.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/member.h"
#include "core/comm/start.h"
#include "core/comm/stream.h"

namespace weft {
namespace {

template <class T>
void add_once(std::vector<T*>& known, T* one) {
  if (std::ranges::find(known, one) == known.end()) known.push_back(one);
}

/// Owned by the thread that starts the calls, and by start_later() until that runs.
class LaterStart {
 public:
  explicit LaterStart(std::span<const Call> calls) : calls_(calls.begin(), calls.end()) {
    for (const Call& call : calls_) {
      add_once(members_, call.background);
      add_once(communicators_, call.communicator);
      add_once(streams_, call.stream);
    }
  }

  [[nodiscard]] Member& first() const { return *members_.front(); }

  void hold_all() {
    const std::shared_future<void> done = done_.get_future().share();
    for (Member* member : members_)
      member->hold(done);
    for (Stream* stream : streams_)
      stream->hold(done);
  }

  void run() {
    Status started;
    try {
      started = start_calls(calls_);
    } catch (const std::bad_alloc&) {
      started = fail(or_no_memory(
          [] { return Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory to go on in the background"); }));
    } catch (const std::exception& error) {
      started = fail(or_no_memory([&] { return Error(WEFT_ERROR_INTERNAL, error.what()); }));
    }
    if (!started) give_up(std::move(started.error()));
    release_all();
  }

  void give_up(Error why) {
    if (communicators_.size() != 1) why = of_group(why);
    for (Communicator* communicator : communicators_)
      communicator->give_up(why);
  }

  // Whoever sees a rank ready may use its streams; whoever sees a stream done, which done_ tells,
  // may use its ranks. Whoever sees one of them free may destroy it: that waits for done_.
  void release_all() {
    for (Stream* stream : streams_)
      stream->release();
    for (Member* member : members_)
      member->release();
    done_.set_value();
  }

 private:
  std::vector<Call> calls_;
  std::vector<Member*> members_;
  std::vector<Communicator*> communicators_;
  std::vector<Stream*> streams_;
  std::promise<void> done_;
};

}  // namespace

Result<weft_result> start_later(std::span<const Call> calls) {
  for (const Call& call : calls) {
    WEFT_TRY(call.communicator->check_call(*call.stream));
    WEFT_TRY(call.communicator->check_order(*call.stream));
  }
  const auto later = std::make_shared<LaterStart>(calls);
  std::function<void()> run = [later] { later->run(); };
  later->hold_all();  // from here on nothing is thrown: nobody else would release them
  if (Status started = later->first().start_calls(std::move(run)); !started) {
    later->release_all();
    return fail(std::move(started.error()));
  }
  return WEFT_IN_PROGRESS;
}

}  // namespace weft
