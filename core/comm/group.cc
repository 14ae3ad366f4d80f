// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/group.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "core/base/thread_name.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"

namespace weft {

void Group::add_blocking(const Communicator* of, std::function<Status()> run,
                         std::function<void()> deliver, std::function<void()> undo) {
  blocking_.push_back(
      {.of = of, .run = std::move(run), .deliver = std::move(deliver), .undo = std::move(undo)});
}

void Group::note_error(const Error& error) {
  if (error_ == nullptr) error_ = std::make_unique<Error>(error);
}

bool Group::holds(const Communicator* communicator) const {
  if (communicator == nullptr) return false;
  return std::ranges::find(calls_, communicator, &Call::communicator) != calls_.end() ||
         std::ranges::find(blocking_, communicator, &Blocking::of) != blocking_.end();
}

// Of a rank that has not joined nothing was noted, and joins that were are of no communicator yet.
void Group::leave_out(const Communicator* communicator) {
  if (communicator == nullptr) return;
  const std::size_t left_out =
      std::erase_if(calls_, [&](const Call& each) { return each.communicator == communicator; }) +
      std::erase_if(blocking_, [&](const Blocking& each) { return each.of == communicator; });
  if (left_out == 0) return;
  try {
    note_error(Error(WEFT_ERROR_INVALID_USAGE,
                     "a communicator was destroyed in the group that had noted calls of it",
                     "destroy it after weft_group_end"));
  } catch (const std::bad_alloc&) {
    note_lack_of_memory();
  }
}

Result<weft_result> Group::end() {
  if (depth_ == 0) {
    return fail(WEFT_ERROR_INVALID_USAGE, "weft_group_end without weft_group_start on this thread",
                "call both on one thread, as often as each other");
  }
  if (--depth_ > 0) return WEFT_OK;
  const auto blocking = std::exchange(blocking_, {});
  std::swap(started_, calls_);
  calls_.clear();
  const auto error = std::exchange(error_, nullptr);
  const bool lacked_memory = std::exchange(lacked_memory_, false);
  if (error != nullptr) return fail(Error(*error).with_context("nothing of the group was started"));
  if (lacked_memory) {
    return fail(Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory to note a call")
                    .with_context("nothing of the group was started"));
  }
  WEFT_TRY(run_blocking(blocking));
  if (started_.empty()) return WEFT_OK;
  auto started = begin_calls(started_, cutter_);
  started_.clear();
  std::swap(started_, calls_);  // the next group has its calls where this one had them
  return started;
}

Status Group::run_blocking(const std::vector<Blocking>& calls) {
  if (calls.empty()) return {};
  // What is of one communicator, in order.
  std::vector<std::vector<const Blocking*>> lanes;
  for (const Blocking& call : calls) {
    const auto lane = std::ranges::find_if(lanes, [&](const auto& known) {
      return call.of != nullptr && known.front()->of == call.of;
    });
    if (lane == lanes.end()) {
      lanes.push_back({&call});
    } else {
      lane->push_back(&call);
    }
  }
  // They block until all ranks have come, and several of them may be ranks of one communicator:
  // none begins before each has its thread.
  enum class Order : std::uint8_t { kWait, kBegin, kLeave };
  std::atomic<Order> order{Order::kWait};
  std::vector<Status> done(lanes.size());
  std::vector<std::size_t> succeeded(lanes.size());
  const auto run = [&](std::size_t lane) {
    for (const Blocking* call : lanes[lane]) {
      try {
        done[lane] = call->run();
      } catch (const std::bad_alloc&) {
        // Nothing may leave a thread, nor this one while there are others.
        done[lane] = fail(or_no_memory(
            [] { return Error(WEFT_ERROR_OUT_OF_MEMORY, "no memory for a rank of the group"); }));
      }
      if (!done[lane]) return;
      ++succeeded[lane];
    }
  };
  const auto undo = [&] {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (const Blocking* call : std::span(lanes[lane]).first(succeeded[lane]))
        call->undo();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(lanes.size());
  int refused = 0;  // errno; told once no thread runs any more, since words take memory
  for (std::size_t i = 1; i < lanes.size() && refused == 0; ++i) {
    try {
      threads.emplace_back([&, i] {
        name_this_thread("weft-group");
        order.wait(Order::kWait);
        if (order == Order::kBegin) run(i);
      });
    } catch (const std::system_error& error) {
      refused = error.code().value();
    } catch (const std::bad_alloc&) {
      refused = ENOMEM;
    }
  }
  order = refused != 0 ? Order::kLeave : Order::kBegin;
  order.notify_all();
  if (refused == 0) run(0);
  for (auto& thread : threads)
    thread.join();
  if (refused != 0) {
    return fail(
        Error::from_errno(refused, "cannot start a thread for a rank of the group",
                          "raise the limits of processes and memory (ulimit -u, ulimit -v)"));
  }
  for (Status& status : done) {
    if (status) continue;
    undo();
    return fail(std::move(status.error()));
  }
  try {
    for (const Blocking& call : calls)
      call.deliver();
  } catch (...) {
    undo();
    throw;
  }
  return {};
}

// No other thread stores or clears the name of this one.
Groups::Place* Groups::place_of(std::thread::id thread) {
  const auto found = std::ranges::find_if(places_, [thread](const Place& place) {
    return place.thread.load(std::memory_order_relaxed) == thread;
  });
  return found == places_.end() ? nullptr : &*found;
}

Group* Groups::find_open() {
  const std::thread::id thread = std::this_thread::get_id();
  if (Place* const place = place_of(thread)) return &place->group;
  const std::scoped_lock lock(mutex_);
  const auto known = others_.find(thread);
  return known == others_.end() ? nullptr : known->second.get();
}

Group& Groups::start() {
  Group* group = open_one();
  if (group == nullptr) {
    const std::thread::id thread = std::this_thread::get_id();
    for (Place& place : places_) {
      std::thread::id nobody;
      if (place.thread.compare_exchange_strong(nobody, thread, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
        group = &place.group;
        break;
      }
    }
    if (group == nullptr) {
      const std::scoped_lock lock(mutex_);
      group = others_.emplace(thread, std::make_unique<Group>()).first->second.get();
    }
    open_.fetch_add(1, std::memory_order_relaxed);
  }
  group->start();
  return *group;
}

void Groups::closed() {
  open_.fetch_sub(1, std::memory_order_relaxed);
  const std::thread::id thread = std::this_thread::get_id();
  if (Place* const place = place_of(thread)) {
    place->thread.store({}, std::memory_order_release);
    return;
  }
  const std::scoped_lock lock(mutex_);
  others_.erase(thread);
}

}  // namespace weft
