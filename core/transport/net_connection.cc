// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/net_connection.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/base/wait.h"

namespace weft {
namespace {

constexpr std::size_t kLineOfProcessor = 128;
constexpr std::size_t kLandingsOftenAhead = 256;

constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

// How a block of slots lies.
struct BlockOfSlots {
  explicit BlockOfSlots(const SlotGeometry& geometry)
      : slots(2 * kLineOfProcessor),
        buffer(slots + round_up(geometry.steps * sizeof(SlotMeta), kLineOfProcessor)),
        buffer_bytes(std::size_t{geometry.steps} * geometry.step_bytes),
        lines(round_up(buffer + buffer_bytes, kLineOfProcessor)),
        line_slot(geometry.line_payload == 0 ? 0 : LineSteps::slot_bytes(geometry.line_payload)),
        bytes(lines + std::size_t{geometry.steps} * line_slot) {}

  std::size_t slots;
  std::size_t buffer;
  std::size_t buffer_bytes;
  std::size_t lines;
  std::uint32_t line_slot;
  std::size_t bytes;
};

}  // namespace

NetConnection::NetConnection(weft_net_connection* connection, weft_direction way,
                             std::uint32_t other, std::uint32_t steps)
    : net(connection), direction(way), peer(other), slot_done_(steps), slot_lands_(steps) {
  view_.steps = steps;
  view_.peer = other;
  view_.in_host_memory = true;
}

std::size_t NetConnection::block_bytes(const SlotGeometry& geometry) {
  return BlockOfSlots(geometry).bytes;
}

NetConnection::Messages NetConnection::lay_out(std::byte* block, const SlotGeometry& geometry) {
  const BlockOfSlots at(geometry);
  view_.head = reinterpret_cast<std::uint64_t*>(block);
  view_.head_waiters = reinterpret_cast<std::uint32_t*>(block + 64);
  view_.tail = reinterpret_cast<std::uint64_t*>(block + kLineOfProcessor);
  view_.tail_waiters = reinterpret_cast<std::uint32_t*>(block + kLineOfProcessor + 64);
  view_.slots = reinterpret_cast<SlotMeta*>(block + at.slots);
  view_.buffer = block + at.buffer;
  view_.step_bytes = geometry.step_bytes;
  if (at.line_slot != 0) {
    std::memset(block + at.lines, 0, at.bytes - at.lines);
    line_steps_ = std::make_unique<LineSteps>(block + at.lines, geometry.steps, at.line_slot);
  }
  return {.begin = view_.buffer, .bytes = at.buffer_bytes};
}

NetConnection::Messages NetConnection::lay_out_lines(std::byte* block, const InboxHalves& halves) {
  lines_ = std::make_unique<LineMessages>(halves, block);
  view_.buffer = halves.begin;
  view_.step_bytes = halves.half_bytes;
  return {.begin = lines_->messages(), .bytes = kDirectHalves * lines_->message_bytes()};
}

void NetConnection::let_borrow() {
  view_.borrows = direction == WEFT_DIRECTION_SEND;
  view_.lands = direction == WEFT_DIRECTION_RECV;
  if (view_.lands) landings_.reserve(kLandingsOftenAhead);
}

ConnectionView NetConnection::line_view() const {
  if (line_steps_ == nullptr) return {};
  ConnectionView view = view_;
  view.buffer = line_steps_->memory();
  view.step_bytes = line_steps_->bytes_of_slot();
  view.order_bytes = least_order_bytes(Protocol::kLL);
  return view;
}

bool NetConnection::add(const ProgressOp& operation) {
  if (operation.steps == 0) return true;
  if (lines_ != nullptr &&
      !lines_->add(
          {.number = operation.call, .tag = operation.tag, .message = operation.message})) {
    return false;
  }
  // There may be no memory for some of it: the last makes it all count.
  const std::uint64_t target = target_ + operation.steps;
  if (line_steps_ != nullptr) line_steps_->add(target, operation.by_lines);
  if (view_.lands) {
    forget_posted_landings();
    landings_.push_back({.end = target, .walk = operation.landing});
  }
  target_ = target;
  return true;
}

// Steps that the kernel has filled and the net may have. Of lines nobody counts them.
std::uint64_t NetConnection::ready() const {
  const std::uint64_t room = std::min(target_, done_ + view_.steps);
  if (lines_ != nullptr || line_steps_ != nullptr) return room;
  return std::min(room, load_counter(view_.tail));
}

// Of a receiver: steps that the kernel has done with. Of inboxes a message is no longer needed once
// its lines are stored.
std::uint64_t NetConnection::freed() const {
  return lines_ != nullptr ? done_ : load_counter(view_.head);
}

std::uint32_t NetConnection::slot_of(std::uint64_t step) const {
  return static_cast<std::uint32_t>(step % view_.steps);
}

// Of those under way.
std::uint64_t NetConnection::step_of(std::uint32_t slot) const {
  return done_ + (slot + view_.steps - slot_of(done_)) % view_.steps;
}

// Of those enqueued and not done.
bool NetConnection::goes_by_lines(std::uint64_t step) const {
  return line_steps_ != nullptr && line_steps_->goes_by_lines(step);
}

// Of a sender: whether the kernel has begun with a step, or has filled it where it is none of
// lines.
bool NetConnection::has_begun(std::uint64_t step) const {
  return goes_by_lines(step) ? line_steps_->has_begun(step) : load_counter(view_.tail) > step;
}

std::byte* NetConnection::slot_data(std::uint64_t step) const {
  if (lines_ != nullptr) return lines_->place_of(step);
  return view_.buffer + std::size_t{slot_of(step)} * view_.step_bytes;
}

std::optional<std::uint64_t> NetConnection::kept_bytes() const {
  std::uint64_t bytes = 0;
  const std::uint64_t filled = ready();
  for (std::uint64_t step = posted_; step < filled; ++step) {
    const SlotMeta& meta = view_.slots[slot_of(step)];
    if (view_.borrows && meta.offset == kLent) return std::nullopt;
    bytes += meta.size;
  }
  return bytes;
}

Result<std::optional<weft_net_send>> NetConnection::next_send() {
  const std::uint64_t step = posted_;
  const std::uint64_t filled = ready();
  if (step >= filled) return std::nullopt;
  weft_net_send message{};
  message.struct_size = sizeof(message);
  message.data = slot_data(step);
  message.registration = registration;
  if (lines_ != nullptr) {
    const auto tag = lines_->collect(step);
    if (!tag) return std::nullopt;
    message.size = lines_->payload_bytes(step);
    message.value = *tag;
    return message;
  }
  // A message more may be on its way: both are sent together then.
  const bool more = step + 1 < filled && (line_steps_ == nullptr || has_begun(step + 1));
  message.flags = more ? WEFT_NET_SEND_MORE : 0;
  if (goes_by_lines(step)) {
    const auto header = line_steps_->collect(step, slot_data(step));
    if (!header) return std::nullopt;
    if (header->bytes > line_steps_->room()) {
      return fail(WEFT_ERROR_INTERNAL, "a step of lines has no room in its slot");
    }
    message.size = header->bytes;
    message.value = header->tag;
    return message;
  }
  if (line_steps_ != nullptr) {
    if (!has_begun(step)) return std::nullopt;
    line_steps_->pass(step);
  }
  const SlotMeta& meta = view_.slots[slot_of(step)];
  if (view_.borrows && meta.offset == kLent) {
    std::memcpy(static_cast<void*>(&message.data), slot_data(step), sizeof(message.data));
    message.registration = nullptr;
  } else {
    message.data = slot_data(step) + meta.offset;
  }
  message.size = meta.size;
  message.value = meta.tag;
  return message;
}

std::optional<weft_net_recv> NetConnection::next_receive() {
  if (!has_more() || posted_ - freed() >= view_.steps) return std::nullopt;
  weft_net_recv buffer{};
  buffer.struct_size = sizeof(buffer);
  const LandingWalk::Step step = step_to_post();
  if (step.target != nullptr) {
    buffer.data = step.target;
    buffer.size = step.bytes;
  } else {
    buffer.data = slot_data(posted_);
    buffer.size = lines_ != nullptr ? lines_->message_bytes() : view_.step_bytes;
    buffer.registration = registration;
  }
  return buffer;
}

void NetConnection::pass_on() {
  if (direction == WEFT_DIRECTION_RECV) {
    slot_lands_[slot_of(posted_)] = step_to_post().target != nullptr;
    next_step_.reset();
  }
  ++posted_;
}

// Where the step that is posted next comes to.
LandingWalk::Step NetConnection::step_to_post() {
  if (!next_step_) {
    while (landing_ < landings_.size() && landings_[landing_].end <= posted_)
      ++landing_;
    next_step_ =
        landing_ == landings_.size() ? LandingWalk::Step{} : landings_[landing_].walk.next();
  }
  return *next_step_;
}

// Not each time: what stays is moved.
void NetConnection::forget_posted_landings() {
  if (2 * landing_ < landings_.size()) return;
  landings_.erase(landings_.begin(), landings_.begin() + static_cast<std::ptrdiff_t>(landing_));
  landing_ = 0;
}

bool NetConnection::is_under_way(std::uint32_t slot) const {
  return slot < view_.steps && step_of(slot) < posted_ && !slot_done_[slot];
}

bool NetConnection::take(std::uint32_t slot, const weft_net_completion& completion) {
  const std::uint64_t step = step_of(slot);
  if (lines_ != nullptr) return lines_->deliver(step, completion.value, completion.size);
  if (goes_by_lines(step)) {
    line_steps_->deliver(step, {.tag = completion.value, .bytes = completion.size},
                         slot_data(step));
    return true;
  }
  if (line_steps_ != nullptr) line_steps_->pass(step);
  view_.slots[slot] = {.size = static_cast<std::uint32_t>(
                           std::min<std::uint64_t>(completion.size, view_.step_bytes)),
                       .offset = slot_lands_[slot] ? kLent : 0,
                       .tag = completion.value};
  return true;
}

std::uint64_t NetConnection::complete(std::uint32_t slot) {
  slot_done_[slot] = true;
  const std::uint64_t before = done_;
  while (done_ < posted_ && slot_done_[slot_of(done_)]) {
    slot_done_[slot_of(done_)] = false;
    ++done_;
  }
  if (done_ == before) return 0;
  if (line_steps_ != nullptr) line_steps_->forget_before(done_);
  if (lines_ != nullptr) {
    lines_->forget_before(done_);
  } else if (direction == WEFT_DIRECTION_SEND) {
    post(view_.head, view_.head_waiters, done_);
  } else {
    post(view_.tail, view_.tail_waiters, done_);
  }
  return done_ - before;
}

std::string NetConnection::describe() const {
  return fmt::format("{} of {} messages done, {} under way", done_, target_, posted_ - done_);
}

}  // namespace weft
