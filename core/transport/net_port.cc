// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/net_port.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"
#include "core/base/wait.h"
#include "core/transport/line_messages.h"
#include "core/transport/line_steps.h"

namespace weft {
namespace {

constexpr std::size_t kLine = 128;
constexpr std::size_t kCompletionBatch = 32;
constexpr std::size_t kMostOftenIncoming = 256;
// Larger messages gain nothing by company.
constexpr std::uint64_t kMostKept = std::uint64_t{16} * 1024;

constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

// poll hands back 64 bits of ours: which connection, and which slot of it.
constexpr std::uint64_t user_value(std::uint32_t connection, std::uint32_t slot) {
  return (static_cast<std::uint64_t>(connection) << 32) | slot;
}

}  // namespace

// One block of device memory holds counters, slot descriptions and slots. `posted` counts steps
// handed to the net, `done` those that it has reported in order; both belong to the lock's holder.
struct NetPort::Connection {
  Connection(weft_net_connection* connection, weft_direction way, std::uint32_t other,
             std::uint32_t steps)
      : net(connection), direction(way), peer(other), slot_done(steps), slot_lands(steps) {
    view.steps = steps;
    view.peer = other;
    view.in_host_memory = true;
  }

  weft_net_connection* const net;
  weft_net_registration* registration = nullptr;
  const weft_direction direction;
  const std::uint32_t peer;
  std::uint32_t index = 0;
  void* block = nullptr;
  ConnectionView view;

  std::uint64_t target = 0;  // steps of all operations enqueued so far
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  std::vector<bool> slot_done;  // reported out of order

  std::unique_ptr<LineMessages> lines;    // of inboxes; else null
  std::unique_ptr<LineSteps> line_steps;  // where steps may go by lines; else null

  // Of a receiver whose payloads may land: operations that have steps to be posted, where those are
  // to come to, and which slots stand for a payload that lands.
  struct Landing {
    std::uint64_t end = 0;  // the first step behind the operation
    LandingWalk walk;
  };
  std::vector<Landing> landings;
  std::size_t landing = 0;
  std::optional<LandingWalk::Step> next_step;  // of `posted`, once it was asked for
  std::vector<bool> slot_lands;

  // Where the step that is posted next comes to.
  LandingWalk::Step step_to_post() {
    if (!next_step) {
      while (landing < landings.size() && landings[landing].end <= posted)
        ++landing;
      next_step = landing == landings.size() ? LandingWalk::Step{} : landings[landing].walk.next();
    }
    return *next_step;
  }
  // Not each time: what stays is moved.
  void forget_posted_landings() {
    if (2 * landing < landings.size()) return;
    landings.erase(landings.begin(), landings.begin() + static_cast<std::ptrdiff_t>(landing));
    landing = 0;
  }

  // Of a sender: steps that the kernel has filled and the net may have. Of lines nobody counts
  // them.
  [[nodiscard]] std::uint64_t ready() const {
    if (lines != nullptr || line_steps != nullptr) return std::min(target, done + view.steps);
    return std::min({target, done + view.steps, load_counter(view.tail)});
  }
  // Of a receiver: steps that the kernel has done with. Of inboxes a message is no longer needed
  // once its lines are stored.
  [[nodiscard]] std::uint64_t freed() const {
    return lines != nullptr ? done : load_counter(view.head);
  }
  [[nodiscard]] std::uint32_t slot_of(std::uint64_t step) const {
    return static_cast<std::uint32_t>(step % view.steps);
  }
  // Of those under way.
  [[nodiscard]] std::uint64_t step_of(std::uint32_t slot) const {
    return done + (slot + view.steps - slot_of(done)) % view.steps;
  }
  // Whether that step goes by lines; of those enqueued and not done.
  [[nodiscard]] bool goes_by_lines(std::uint64_t step) const {
    return line_steps != nullptr && line_steps->goes_by_lines(step);
  }
  // Of a sender: whether the kernel has begun with a step, or has filled it where it is none of
  // lines.
  [[nodiscard]] bool has_begun(std::uint64_t step) const {
    return goes_by_lines(step) ? line_steps->has_begun(step) : load_counter(view.tail) > step;
  }
  [[nodiscard]] std::uint64_t slot_bytes() const {
    return lines != nullptr ? lines->message_bytes() : view.step_bytes;
  }
  [[nodiscard]] std::byte* slot_data(std::uint64_t step) const {
    if (lines != nullptr) return lines->message_of(step);
    return view.buffer + static_cast<std::size_t>(slot_of(step)) * view.step_bytes;
  }
};

NetPort::NetPort(const NetPlugin& plugin, weft_net* net, DeviceRuntime& runtime,
                 MemoryAccount& memory, std::function<void(const Error&)> failed, bool unregistered)
    : plugin_(plugin),
      net_(net),
      runtime_(runtime),
      memory_(memory),
      failed_(std::move(failed)),
      borrows_(unregistered && runtime.reports_ends()) {
  // Repeated calls allocate nothing, however late they are taken in.
  incoming_.reserve(kMostOftenIncoming);
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
  auto added = std::make_unique<Connection>(connection, direction, peer, geometry.steps);
  added->landings.reserve(kMostOftenIncoming);
  const std::scoped_lock lock(mutex_);

  const std::size_t counters = 2 * kLine;
  const std::size_t metas = round_up(geometry.steps * sizeof(SlotMeta), kLine);
  const std::size_t data = static_cast<std::size_t>(geometry.steps) * geometry.step_bytes;
  const std::uint32_t line_slot =
      geometry.line_payload == 0 ? 0 : LineSteps::slot_bytes(geometry.line_payload);
  const std::size_t lines = std::size_t{geometry.steps} * line_slot;
  const std::size_t before = round_up(counters + metas + data, kLine);
  WEFT_TRY_ASSIGN(std::byte* const base,
                  allocate(*added, before + lines, "make buffers.step smaller"));
  ConnectionView& view = added->view;
  view.head = reinterpret_cast<std::uint64_t*>(base);
  view.head_waiters = reinterpret_cast<std::uint32_t*>(base + 64);
  view.tail = reinterpret_cast<std::uint64_t*>(base + kLine);
  view.tail_waiters = reinterpret_cast<std::uint32_t*>(base + kLine + 64);
  view.slots = reinterpret_cast<SlotMeta*>(base + counters);
  view.buffer = base + counters + metas;
  view.step_bytes = geometry.step_bytes;
  view.borrows = borrows_ && direction == WEFT_DIRECTION_SEND;
  view.lands = borrows_ && direction == WEFT_DIRECTION_RECV;
  if (lines != 0) {
    std::memset(base + before, 0, lines);
    added->line_steps = std::make_unique<LineSteps>(base + before, geometry.steps, line_slot);
  }
  return take_over(std::move(added), view.buffer, data);
}

Result<std::uint32_t> NetPort::add_lines(weft_net_connection* connection, weft_direction direction,
                                         std::uint32_t peer, std::uint32_t half_bytes,
                                         std::uint32_t period) {
  auto added = std::make_unique<Connection>(connection, direction, peer, kDirectHalves);
  const std::scoped_lock lock(mutex_);
  const std::size_t bytes = LineMessages::bytes_for(half_bytes);
  WEFT_TRY_ASSIGN(std::byte* const base, allocate(*added, bytes, "make buffers.direct smaller"));
  std::memset(base, 0, bytes);
  added->lines = std::make_unique<LineMessages>(base, half_bytes, period);
  added->view.buffer = added->lines->halves();
  added->view.step_bytes = half_bytes;
  std::byte* const messages = added->lines->messages();
  const std::size_t message_bytes = kDirectHalves * added->lines->message_bytes();
  return take_over(std::move(added), messages, message_bytes);
}

// What a kernel at one end and the net at the other reach. Closes the connection if there is none.
Result<std::byte*> NetPort::allocate(Connection& connection, std::size_t bytes,
                                     const char* advice) {
  if (memory_.allocate_shared(bytes, &connection.block) == WEFT_OK) {
    return static_cast<std::byte*>(connection.block);
  }
  Error error = device_error(
      runtime_, WEFT_ERROR_OUT_OF_MEMORY,
      fmt::format("cannot allocate {} bytes to stage messages of rank {}", bytes, connection.peer),
      advice);
  plugin_.close_connection(connection.net);
  return fail(std::move(error));
}

// `data` is where the net reads or writes messages.
Result<std::uint32_t> NetPort::take_over(std::unique_ptr<Connection> connection, std::byte* data,
                                         std::size_t bytes) {
  weft_net_register_info info{};
  info.struct_size = sizeof(info);
  info.kind = WEFT_MEMORY_HOST;
  info.address = data;
  info.size = bytes;
  info.dmabuf = -1;
  auto registration = plugin_.register_memory(connection->net, info);
  if (!registration) {
    plugin_.close_connection(connection->net);
    memory_.release_shared(connection->block);
    return fail(std::move(registration.error())
                    .with_context(fmt::format("registering {} bytes to stage messages of rank {}",
                                              bytes, connection->peer)));
  }
  connection->registration = *registration;
  const auto index = static_cast<std::uint32_t>(connections_.size());
  connection->index = index;
  connections_.push_back(std::move(connection));
  return index;
}

ConnectionView NetPort::view(std::uint32_t connection) {
  const std::scoped_lock lock(mutex_);
  return connections_[connection]->view;
}

ConnectionView NetPort::line_view(std::uint32_t connection) {
  const std::scoped_lock lock(mutex_);
  const Connection& found = *connections_[connection];
  if (found.line_steps == nullptr) return {};
  ConnectionView view = found.view;
  view.buffer = found.line_steps->memory();
  view.step_bytes = found.line_steps->bytes_of_slot();
  view.order_bytes = least_order_bytes(Protocol::kLL);
  return view;
}

void NetPort::enqueue(std::span<const ProgressOp> operations) {
  if (broken_.load(std::memory_order_relaxed)) return;
  {
    const std::scoped_lock lock(incoming_mutex_);
    // Counted first: who takes them in may be done with them before this returns.
    std::uint64_t steps = 0;
    for (const ProgressOp& operation : operations)
      steps += operation.steps;
    outstanding_.fetch_add(steps, std::memory_order_seq_cst);
    incoming_.insert(incoming_.end(), operations.begin(), operations.end());
    has_incoming_.store(true, std::memory_order_release);
  }
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && !broken_.load(std::memory_order_relaxed)) {
      take_in_locked();
      // Receives are posted now, so that a fast sender finds room.
      bool moved = false;
      for (const auto& connection : connections_) {
        if (connection->direction == WEFT_DIRECTION_RECV) advance_receiver(*connection, moved);
      }
    }
  }
  report_failure();
}

void NetPort::take_in_locked() {
  if (!has_incoming_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(incoming_mutex_);
  has_incoming_.store(false, std::memory_order_relaxed);
  for (const ProgressOp& operation : incoming_) {
    Connection& connection = *connections_[operation.connection];
    if (operation.steps == 0) continue;
    if (connection.lines != nullptr &&
        !connection.lines->add({.tag = operation.tag, .message = operation.message})) {
      return fail_locked(connection, Error(WEFT_ERROR_INTERNAL, "a call has no room in an inbox"));
    }
    connection.target += operation.steps;
    if (connection.line_steps != nullptr) {
      connection.line_steps->add(connection.target, operation.by_lines);
    }
    if (connection.view.lands) {
      connection.forget_posted_landings();
      connection.landings.push_back({.end = connection.target, .walk = operation.landing});
    }
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
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || must_be_polled()) return false;
  take_in_locked();
  bool any = false;
  std::uint64_t bytes = 0;
  for (const auto& connection : connections_) {
    if (connection->direction != WEFT_DIRECTION_SEND) continue;
    const std::uint64_t ready = connection->ready();
    // The next call would have to wait for a slot.
    if (ready == connection->done + connection->view.steps) return false;
    for (std::uint64_t step = connection->posted; step < ready; ++step) {
      const SlotMeta& meta = connection->view.slots[connection->slot_of(step)];
      if (connection->view.borrows && meta.offset == kLent) return false;
      bytes += meta.size;
      any = true;
    }
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
  for (const auto& connection : connections_) {
    if (connection->direction != direction || connection->posted >= connection->target) continue;
    if (broken_.load(std::memory_order_relaxed)) return;
    if (direction == WEFT_DIRECTION_SEND) {
      advance_sender(*connection, moved);
    } else {
      advance_receiver(*connection, moved);
    }
  }
}

void NetPort::poll(bool& moved) {
  if (broken_.load(std::memory_order_relaxed)) {
    moved = true;
    return;
  }
  std::array<weft_net_completion, kCompletionBatch> completions{};
  for (auto& completion : completions)
    completion.struct_size = sizeof(weft_net_completion);
  std::uint64_t count = 0;
  const weft_result result = plugin_.table().poll(
      net_, completions.data(), sizeof(weft_net_completion), completions.size(), &count);
  if (result < 0) {
    fail_locked(*connections_.front(), result);
    moved = true;
    return;
  }
  count = std::min<std::uint64_t>(count, completions.size());
  for (std::uint64_t i = 0; i < count && !broken_.load(std::memory_order_relaxed); ++i) {
    complete(completions[i]);
    moved = true;
  }
}

void NetPort::advance_sender(Connection& connection, bool& moved) {
  const std::uint64_t ready = connection.ready();
  while (connection.posted < ready) {
    weft_net_send message{};
    message.struct_size = sizeof(message);
    if (!next_message(connection, ready, message)) return;
    weft_net_request* request = nullptr;
    const weft_result result = plugin_.table().isend(connection.net, &message, &request);
    if (result == WEFT_AGAIN) return;
    if (result < 0) return fail_locked(connection, result);
    ++connection.posted;
    moved = true;
  }
}

// False where the kernel has not stored all of it yet.
bool NetPort::next_message(Connection& connection, std::uint64_t ready, weft_net_send& message) {
  const ConnectionView& view = connection.view;
  const std::uint64_t step = connection.posted;
  message.data = connection.slot_data(step);
  message.registration = connection.registration;
  message.user = user_value(connection.index, connection.slot_of(step));
  if (connection.lines != nullptr) {
    const auto tag = connection.lines->collect(step);
    if (!tag) return false;
    message.size = connection.lines->payload_bytes(step);
    message.value = *tag;
    return true;
  }
  if (connection.line_steps != nullptr) {
    // A message more may be on its way: both are sent together then.
    const bool more = step + 1 < ready && connection.has_begun(step + 1);
    message.flags = more ? WEFT_NET_SEND_MORE : 0;
    if (connection.goes_by_lines(step)) return next_line_step(connection, step, message);
    if (!connection.has_begun(step)) return false;
    connection.line_steps->pass(step);
  } else {
    message.flags = step + 1 < ready ? WEFT_NET_SEND_MORE : 0;
  }
  const SlotMeta& meta = view.slots[connection.slot_of(step)];
  if (view.borrows && meta.offset == kLent) {
    std::memcpy(static_cast<void*>(&message.data), connection.slot_data(step),
                sizeof(message.data));
    message.registration = nullptr;
  } else {
    message.data = connection.slot_data(step) + meta.offset;
  }
  message.size = meta.size;
  message.value = meta.tag;
  return true;
}

bool NetPort::next_line_step(Connection& connection, std::uint64_t step, weft_net_send& message) {
  const auto header = connection.line_steps->collect(step, connection.slot_data(step));
  if (!header) return false;
  if (header->bytes > connection.line_steps->room()) {
    fail_locked(connection, Error(WEFT_ERROR_INTERNAL, "a step of lines has no room in its slot"));
    return false;
  }
  message.size = header->bytes;
  message.value = header->tag;
  return true;
}

void NetPort::advance_receiver(Connection& connection, bool& moved) {
  const ConnectionView& view = connection.view;
  while (connection.posted < connection.target &&
         connection.posted - connection.freed() < view.steps) {
    weft_net_recv buffer{};
    buffer.struct_size = sizeof(buffer);
    const LandingWalk::Step step = connection.step_to_post();
    if (step.target != nullptr) {
      buffer.data = step.target;
      buffer.size = step.bytes;
    } else {
      buffer.data = connection.slot_data(connection.posted);
      buffer.size = connection.slot_bytes();
      buffer.registration = connection.registration;
    }
    buffer.user = user_value(connection.index, connection.slot_of(connection.posted));
    weft_net_request* request = nullptr;
    const weft_result result =
        plugin_.table().irecv(connection.net, &buffer, sizeof(buffer), 1, &request);
    if (result == WEFT_AGAIN) return;
    if (result < 0) return fail_locked(connection, result);
    connection.slot_lands[connection.slot_of(connection.posted)] = step.target != nullptr;
    connection.next_step.reset();
    ++connection.posted;
    moved = true;
  }
}

void NetPort::complete(const weft_net_completion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.user >> 32);
  const auto slot = static_cast<std::uint32_t>(completion.user);
  if (index >= connections_.size() || slot >= connections_[index]->view.steps) {
    return fail_locked(*connections_.front(), WEFT_ERROR_PLUGIN);
  }
  Connection& connection = *connections_[index];
  if (completion.status < 0) return fail_locked(connection, completion.status);
  if (connection.step_of(slot) >= connection.posted || connection.slot_done[slot]) {
    return fail_locked(
        connection, Error(WEFT_ERROR_PLUGIN,
                          fmt::format("plugin {} ended a message that it was not given, or twice",
                                      plugin_.id()),
                          "use another version of it"));
  }
  if (connection.direction == WEFT_DIRECTION_RECV && !take_message(connection, slot, completion)) {
    return fail_locked(connection,
                       Error(WEFT_ERROR_PEER,
                             fmt::format("rank {} sent {} bytes for a call that has others of it",
                                         connection.peer, completion.size),
                             "all ranks must use the same version and configuration"));
  }
  connection.slot_done[slot] = true;
  const std::uint64_t before = connection.done;
  while (connection.done < connection.posted &&
         connection.slot_done[connection.slot_of(connection.done)]) {
    connection.slot_done[connection.slot_of(connection.done)] = false;
    ++connection.done;
  }
  if (connection.done == before) return;
  const ConnectionView& view = connection.view;
  if (connection.line_steps != nullptr) connection.line_steps->forget_before(connection.done);
  if (connection.lines != nullptr) {
    connection.lines->forget_before(connection.done);
  } else if (connection.direction == WEFT_DIRECTION_SEND) {
    post(view.head, view.head_waiters, connection.done);
  } else {
    post(view.tail, view.tail_waiters, connection.done);
  }
  outstanding_.fetch_sub(connection.done - before, std::memory_order_release);
}

// False where it cannot be what its sender says that it is.
bool NetPort::take_message(Connection& connection, std::uint32_t slot,
                           const weft_net_completion& completion) {
  if (connection.lines != nullptr) {
    return connection.lines->deliver(connection.step_of(slot), completion.value, completion.size);
  }
  if (connection.line_steps != nullptr) {
    const std::uint64_t step = connection.step_of(slot);
    if (connection.goes_by_lines(step)) {
      connection.line_steps->deliver(step, {.tag = completion.value, .bytes = completion.size},
                                     connection.slot_data(step));
      return true;
    }
    connection.line_steps->pass(step);
  }
  const ConnectionView& view = connection.view;
  view.slots[slot] = {
      .size = static_cast<std::uint32_t>(std::min<std::uint64_t>(completion.size, view.step_bytes)),
      .offset = connection.slot_lands[slot] ? kLent : 0,
      .tag = completion.value};
  return true;
}

void NetPort::fail_locked(Connection& connection, weft_result code) {
  if (!broken_.load()) fail_locked(connection, plugin_.request_error(connection.net, code));
}

void NetPort::fail_locked(Connection& connection, Error error) {
  if (broken_.exchange(true)) return;
  error.with_context(fmt::format("moving messages {} rank {}",
                                 connection.direction == WEFT_DIRECTION_SEND ? "to" : "from",
                                 connection.peer));
  failure_ = std::make_unique<Error>(std::move(error));
  // Nothing more will move: the engine may rest, workers leave by the abort flag.
  outstanding_.store(0, std::memory_order_release);
  failure_pending_.store(true, std::memory_order_release);
}

void NetPort::report_failure() {
  if (!failure_pending_.load(std::memory_order_acquire)) return;
  if (!failure_pending_.exchange(false)) return;
  Error error = [&] {
    const std::scoped_lock lock(mutex_);
    return *failure_;
  }();
  failed_(error);
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
    if (connection->done >= connection->target) continue;
    text +=
        fmt::format("\n  {} {} rank {}: {} of {} messages done, {} under way", plugin_.id(),
                    connection->direction == WEFT_DIRECTION_SEND ? "to" : "from", connection->peer,
                    connection->done, connection->target, connection->posted - connection->done);
  }
  return text;
}

}  // namespace weft
