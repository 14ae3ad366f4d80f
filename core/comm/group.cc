// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/group.h"

#include <cerrno>
#include <map>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/context.h"

namespace weft {

void Group::add_join(std::function<Result<std::unique_ptr<Communicator>>()> join,
                     std::function<void(std::unique_ptr<Communicator>)> deliver) {
  joins_.push_back({.join = std::move(join), .deliver = std::move(deliver)});
}

void Group::note_error(const Error& error) {
  if (error_ == nullptr) error_ = std::make_unique<Error>(error);
}

Status Group::end() {
  if (depth_ == 0) {
    return fail(WEFT_ERROR_INVALID_USAGE, "weft_group_end without weft_group_start on this thread",
                "call both on one thread, as often as each other");
  }
  if (--depth_ > 0) return {};
  const auto joins = std::exchange(joins_, {});
  const auto calls = std::exchange(calls_, {});
  const auto error = std::exchange(error_, nullptr);
  if (error != nullptr) return fail(Error(*error).with_context("nothing of the group was started"));
  WEFT_TRY(run_joins(joins));
  return start_calls(calls);
}

Status Group::run_joins(std::vector<Join> joins) {
  if (joins.empty()) return {};
  // Joins block until all ranks have come, and several of them may be ranks of one communicator:
  // none begins before each has its thread.
  enum class Order : std::uint8_t { kWait, kJoin, kLeave };
  std::atomic<Order> order{Order::kWait};
  std::vector<std::optional<Result<std::unique_ptr<Communicator>>>> joined(joins.size());
  std::vector<std::thread> threads;
  threads.reserve(joins.size());
  std::optional<Error> no_thread;
  const auto refused = [](int error) {
    return Error::from_errno(error, "cannot start a thread to join a rank",
                             "raise the limits of processes and memory (ulimit -u, ulimit -v)");
  };
  for (std::size_t i = 1; i < joins.size() && !no_thread; ++i) {
    try {
      threads.emplace_back([&, i] {
        order.wait(Order::kWait);
        if (order == Order::kJoin) joined[i].emplace(joins[i].join());
      });
    } catch (const std::system_error& error) {
      no_thread = refused(error.code().value());
    } catch (const std::bad_alloc&) {
      no_thread = refused(ENOMEM);
    }
  }
  order = no_thread ? Order::kLeave : Order::kJoin;
  order.notify_all();
  if (!no_thread) joined[0].emplace(joins[0].join());
  for (auto& thread : threads)
    thread.join();
  if (no_thread) return fail(std::move(*no_thread));
  for (auto& result : joined) {
    if (!*result) return fail(std::move(result->error()));
  }
  for (std::size_t i = 0; i < joins.size(); ++i)
    joins[i].deliver(std::move(**joined[i]));
  return {};
}

Group& Groups::of_this_thread() {
  const std::scoped_lock lock(mutex_);
  auto& group = groups_[std::this_thread::get_id()];
  if (group == nullptr) group = std::make_unique<Group>();
  return *group;
}

void Groups::forget_this_thread() {
  const std::scoped_lock lock(mutex_);
  groups_.erase(std::this_thread::get_id());
}

}  // namespace weft
