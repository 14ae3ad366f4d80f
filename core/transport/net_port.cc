// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/net_port.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"

namespace weft {
namespace {

constexpr std::size_t kMostOftenIncoming = 256;
// Larger messages gain nothing by company.
constexpr std::uint64_t kMostKept = std::uint64_t{16} * 1024;

constexpr weft_net_completion kNoCompletion = [] {
  weft_net_completion none{};
  none.struct_size = sizeof(none);
  return none;
}();

// poll hands back 64 bits of ours: which connection, and which slot of it.
constexpr std::uint64_t user_value(std::uint32_t connection, std::uint32_t slot) {
  return (static_cast<std::uint64_t>(connection) << 32) | slot;
}

}  // namespace

NetPort::NetPort(const NetPlugin& plugin, weft_net* net, DeviceRuntime& runtime,
                 MemoryAccount& memory, std::function<void(Error)> failed, bool unregistered)
    : plugin_(plugin),
      net_(net),
      runtime_(runtime),
      memory_(memory),
      failed_(std::move(failed)),
      borrows_(unregistered && runtime.reports_ends()) {
  // Repeated calls allocate nothing, however late they are taken in.
  incoming_.reserve(kMostOftenIncoming);
  completions_.fill(kNoCompletion);
}

NetPort::~NetPort() {
  for (const auto& connection : connections_) {
    plugin_.close_connection(connection->net);
    if (connection->registration != nullptr) plugin_.deregister_memory(connection->registration);
    memory_.release_shared(connection->block);
  }
}

Result<std::uint32_t> NetPort::add(weft_net_connection* connection, weft_direction direction,
                                   std::uint32_t peer, const SlotGeometry& geometry) {
  auto added = std::make_unique<NetConnection>(connection, direction, peer, geometry.steps);
  WEFT_TRY_ASSIGN(std::byte* const block, allocate(*added, NetConnection::block_bytes(geometry),
                                                   "make buffers.step smaller"));
  const NetConnection::Messages messages = added->lay_out(block, geometry);
  if (borrows_) added->let_borrow();
  return take_over(std::move(added), messages);
}

Result<std::uint32_t> NetPort::add_lines(weft_net_connection* connection, weft_direction direction,
                                         std::uint32_t peer, const InboxHalves& halves) {
  auto added = std::make_unique<NetConnection>(connection, direction, peer, kDirectHalves);
  WEFT_TRY_ASSIGN(
      std::byte* const block,
      allocate(*added, LineMessages::bytes_for(halves.half_bytes), "make buffers.direct smaller"));
  const NetConnection::Messages messages = added->lay_out_lines(block, halves);
  return take_over(std::move(added), messages);
}

// What a kernel at one end and the net at the other reach. Closes the connection if there is none.
// Without the lock: to pin memory of a GPU takes milliseconds, in which messages of other calls
// move.
Result<std::byte*> NetPort::allocate(NetConnection& connection, std::size_t bytes,
                                     const char* advice) {
  if (memory_.allocate_shared(bytes, &connection.block) == WEFT_OK) {
    return static_cast<std::byte*>(connection.block);
  }
  Error error = device_error(
      runtime_, WEFT_ERROR_OUT_OF_MEMORY,
      fmt::format("cannot allocate {} bytes to stage messages of rank {}", bytes, connection.peer),
      advice);
  const std::scoped_lock lock(mutex_);
  plugin_.close_connection(connection.net);
  return fail(std::move(error));
}

Result<std::uint32_t> NetPort::take_over(std::unique_ptr<NetConnection> connection,
                                         const NetConnection::Messages& messages) {
  weft_net_register_info info{};
  info.struct_size = sizeof(info);
  info.kind = WEFT_MEMORY_HOST;
  info.address = messages.begin;
  info.size = messages.bytes;
  info.dmabuf = -1;
  const std::scoped_lock lock(mutex_);
  auto registration = plugin_.register_memory(connection->net, info);
  if (!registration) {
    plugin_.close_connection(connection->net);
    memory_.release_shared(connection->block);
    return fail(std::move(registration.error())
                    .with_context(fmt::format("registering {} bytes to stage messages of rank {}",
                                              messages.bytes, connection->peer)));
  }
  connection->registration = *registration;
  const auto index = static_cast<std::uint32_t>(connections_.size());
  connection->index = index;
  connections_.push_back(std::move(connection));
  for (auto& some : with_more_)
    some.reserve(connections_.size());
  return index;
}

ConnectionView NetPort::view(std::uint32_t connection) {
  const std::scoped_lock lock(mutex_);
  return connections_[connection]->view();
}

ConnectionView NetPort::line_view(std::uint32_t connection) {
  const std::scoped_lock lock(mutex_);
  return connections_[connection]->line_view();
}

void NetPort::enqueue(std::span<const ProgressOp> operations) {
  if (broken_.load(std::memory_order_relaxed)) return;
  {
    const std::scoped_lock lock(incoming_mutex_);
    // Before they are counted: there may be no memory for them.
    incoming_.insert(incoming_.end(), operations.begin(), operations.end());
    // Under the lock: who takes them in may be done with them before this returns.
    std::uint64_t steps = 0;
    for (const ProgressOp& operation : operations)
      steps += operation.steps;
    outstanding_.fetch_add(steps, std::memory_order_seq_cst);
    has_incoming_.store(true, std::memory_order_release);
  }
  // Its engine polls: it has the port's memory at hand, and the caller a kernel to launch.
  if (must_be_polled()) return;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && !broken_.load(std::memory_order_relaxed)) {
      try {
        take_in_locked();
        // Receives are posted now, so that a fast sender finds room.
        bool moved = false;
        advance(WEFT_DIRECTION_RECV, moved);
      } catch (const std::bad_alloc&) {
        return;  // The operations are noted, which is all that is asked: others take them in.
      }
    }
  }
  report_failure();
}

void NetPort::take_in_locked() {
  if (!has_incoming_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(incoming_mutex_);
  has_incoming_.store(false, std::memory_order_relaxed);
  std::size_t taken = 0;
  try {
    for (; taken < incoming_.size(); ++taken) {
      const ProgressOp& operation = incoming_[taken];
      NetConnection& connection = *connections_[operation.connection];
      // Before it has more: what is not among these is not looked at.
      auto& some = with_more(connection.direction);
      if (!connection.has_more() && std::ranges::find(some, &connection) == some.end())
        some.push_back(&connection);
      if (!connection.add(operation)) {
        return fail_locked(connection,
                           Error(WEFT_ERROR_INTERNAL, "a call has no room in an inbox"));
      }
    }
  } catch (...) {
    // What there is no memory for is taken in the next time, and nothing twice.
    incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(taken));
    has_incoming_.store(true, std::memory_order_release);
    throw;
  }
  incoming_.clear();
}

bool NetPort::progress() {
  bool moved = false;
  {
    const std::scoped_lock lock(mutex_);
    moved = progress_locked(true);
  }
  report_failure();
  return moved;
}

bool NetPort::try_progress() {
  bool moved = false;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    moved = progress_locked(false);
  }
  report_failure();
  return moved;
}

bool NetPort::keep(Time until) {
  if (must_be_polled()) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  take_in_locked();
  bool any = false;
  std::uint64_t bytes = 0;
  for (const auto& connection : connections_) {
    if (connection->direction != WEFT_DIRECTION_SEND) continue;
    if (connection->is_full()) return false;
    const std::optional<std::uint64_t> kept = connection->kept_bytes();
    if (!kept) return false;
    bytes += *kept;
    any = any || connection->has_ready();
  }
  if (!any || bytes > kMostKept) return false;
  keeps_until_.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  return true;
}

bool NetPort::progress_locked(bool sends_first) {
  if (broken_.load(std::memory_order_relaxed) || !busy()) return false;
  take_in_locked();
  bool moved = false;
  if (!sends_first && keeps_until_.load(std::memory_order_relaxed) != 0) {
    advance(WEFT_DIRECTION_RECV, moved);
    bool came = false;
    poll(came);
    if (came) return true;
  }
  keeps_until_.store(0, std::memory_order_relaxed);
  advance(WEFT_DIRECTION_SEND, moved);
  advance(WEFT_DIRECTION_RECV, moved);
  poll(moved);
  return moved;
}

void NetPort::advance(weft_direction direction, bool& moved) {
  auto& some = with_more(direction);
  for (NetConnection* const connection : some) {
    if (broken_.load(std::memory_order_relaxed)) return;
    if (direction == WEFT_DIRECTION_SEND) {
      advance_sender(*connection, moved);
    } else {
      advance_receiver(*connection, moved);
    }
  }
  std::erase_if(some, [](const NetConnection* connection) { return !connection->has_more(); });
}

void NetPort::poll(bool& moved) {
  if (broken_.load(std::memory_order_relaxed)) {
    moved = true;
    return;
  }
  std::uint64_t count = 0;
  const weft_result result = plugin_.table().poll(
      net_, completions_.data(), sizeof(weft_net_completion), completions_.size(), &count);
  if (result < 0) {
    fail_call_locked(nullptr, result, "poll");
    moved = true;
    return;
  }
  count = std::min<std::uint64_t>(count, completions_.size());
  for (std::uint64_t i = 0; i < count && !broken_.load(std::memory_order_relaxed); ++i) {
    complete(std::exchange(completions_[i], kNoCompletion));
    moved = true;
  }
}

void NetPort::advance_sender(NetConnection& connection, bool& moved) {
  while (true) {
    auto message = connection.next_send();
    if (!message) return fail_locked(connection, std::move(message.error()));
    if (!*message) return;
    (*message)->user = user_value(connection.index, connection.next_slot());
    weft_net_request* request = nullptr;
    const weft_result result = plugin_.table().isend(connection.net, &**message, &request);
    if (result == WEFT_AGAIN) return;
    if (result < 0) return fail_call_locked(&connection, result, "isend");
    connection.pass_on();
    moved = true;
  }
}

void NetPort::advance_receiver(NetConnection& connection, bool& moved) {
  while (auto buffer = connection.next_receive()) {
    buffer->user = user_value(connection.index, connection.next_slot());
    weft_net_request* request = nullptr;
    const weft_result result =
        plugin_.table().irecv(connection.net, &*buffer, sizeof(*buffer), 1, &request);
    if (result == WEFT_AGAIN) return;
    if (result < 0) return fail_call_locked(&connection, result, "irecv");
    connection.pass_on();
    moved = true;
  }
}

void NetPort::complete(const weft_net_completion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.user >> 32);
  const auto slot = static_cast<std::uint32_t>(completion.user);
  const auto not_given = [this] {
    return Error(
        WEFT_ERROR_PLUGIN,
        fmt::format("plugin {} ended a message that it was not given, or twice", plugin_.id()),
        "use another version of it");
  };
  if (index >= connections_.size() || slot >= connections_[index]->view().steps) {
    return fail_moving_locked(nullptr, or_no_memory(not_given));
  }
  NetConnection& connection = *connections_[index];
  if (completion.status < 0) return fail_locked(connection, completion.status);
  if (!connection.is_under_way(slot)) return fail_locked(connection, or_no_memory(not_given));
  if (connection.direction == WEFT_DIRECTION_RECV && !connection.take(slot, completion)) {
    return fail_locked(connection,
                       Error(WEFT_ERROR_PEER,
                             fmt::format("rank {} sent {} bytes for a call that has others of it",
                                         connection.peer, completion.size),
                             "all ranks must use the same version and configuration"));
  }
  outstanding_.fetch_sub(connection.complete(slot), std::memory_order_release);
}

void NetPort::fail_locked(NetConnection& connection, weft_result code) {
  if (broken_.load()) return;
  fail_moving_locked(&connection,
                     or_no_memory([&] { return plugin_.request_error(connection.net, code); }));
}

void NetPort::fail_locked(NetConnection& connection, Error error) {
  fail_moving_locked(&connection, std::move(error));
}

// Of the port as a whole there is no connection.
void NetPort::fail_call_locked(const NetConnection* connection, weft_result code,
                               std::string_view function) {
  if (broken_.load()) return;
  fail_moving_locked(connection, or_no_memory([&] {
                       return plugin_.call_error(connection == nullptr ? nullptr : connection->net,
                                                 code, function);
                     }));
}

// Whoever waits for the net has to be told, also where there is no memory for the words.
void NetPort::fail_moving_locked(const NetConnection* connection, Error error) {
  if (broken_.load()) return;
  try {
    error.with_context(
        connection == nullptr
            ? std::string("moving messages")
            : fmt::format("moving messages {} rank {}",
                          connection->direction == WEFT_DIRECTION_SEND ? "to" : "from",
                          connection->peer));
  } catch (const std::bad_alloc&) {
    error = no_memory();
  }
  if (broken_.exchange(true)) return;
  failure_ = std::move(error);
  // Nothing more will move: the engine may rest, workers leave by the abort flag.
  outstanding_.store(0, std::memory_order_release);
  failure_pending_.store(true, std::memory_order_release);
}

void NetPort::report_failure() {
  if (!failure_pending_.load(std::memory_order_acquire)) return;
  if (!failure_pending_.exchange(false)) return;
  Error error = [&] {
    const std::scoped_lock lock(mutex_);
    return std::move(*failure_);
  }();
  failed_(std::move(error));
}

weft_result NetPort::arm(int* descriptor) {
  if (must_be_polled()) return WEFT_AGAIN;
  const std::scoped_lock lock(mutex_);
  std::int32_t fd = -1;
  const weft_result result = plugin_.table().arm(net_, &fd);
  *descriptor = fd;
  return result;
}

void NetPort::abort() {
  // Steps that never reached the net are reported by nobody: without this the engine would look
  // after them for ever. What the requests report from now on is no news.
  broken_.store(true);
  plugin_.abort(net_);
  // Whoever is inside leaves first: what was lent is its owner's again.
  const std::scoped_lock lock(mutex_);
}

std::string NetPort::describe_waiting() {
  const std::scoped_lock lock(mutex_);
  take_in_locked();
  std::string text;
  for (const auto& connection : connections_) {
    if (!connection->is_waiting()) continue;
    text += fmt::format("\n  {} {} rank {}: {}", plugin_.id(),
                        connection->direction == WEFT_DIRECTION_SEND ? "to" : "from",
                        connection->peer, connection->describe());
  }
  return text;
}

}  // namespace weft
