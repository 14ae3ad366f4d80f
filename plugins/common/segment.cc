// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Layout of a connection's memory, and what both transports do with it.
#include "plugins/common/segment.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <linux/futex.h>
#include <string>
#include <sys/random.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace weft::plugins {
namespace {

constexpr std::uint64_t kMagic = UINT64_C(0x47455354'46455731);  // "1WEFTSEG" in memory
constexpr std::uint64_t kMaxSegmentBytes = UINT64_C(1) << 40;

struct alignas(kLineBytes) Header {
  std::uint64_t magic;
  std::uint64_t size;
  Nonce nonce;
  alignas(kLineBytes) std::uint32_t error_for_sender;
  std::uint32_t error_for_receiver;
};

struct alignas(kLineBytes) Counter {
  std::uint64_t value;
  std::uint32_t waiters;
};

struct Control {
  Counter tail;
  Counter head;
};

static_assert(sizeof(weft_slot_meta) == 16);
static_assert(std::endian::native == std::endian::little, "futexes look at a counter's low half");
static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

void wake_all(std::uint64_t* counter) {
  ::syscall(SYS_futex, counter, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

weft_result read_spec(const Host& host, const weft_protocol_request* request, ProtocolSpec* out) {
  if (!WEFT_HAS(request, weft_protocol_request, step_bytes)) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT, "a protocol request is too short");
  }
  if (request->protocol < WEFT_PROTOCOL_SIMPLE || request->protocol > WEFT_PROTOCOL_LL128) {
    return host.fail(WEFT_ERROR_UNSUPPORTED,
                     "unknown protocol " + std::to_string(request->protocol));
  }
  if (!std::has_single_bit(request->steps)) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                     "steps must be a power of two, not " + std::to_string(request->steps));
  }
  if (request->step_bytes == 0 || request->step_bytes % kLineBytes != 0) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT, "step_bytes must be a multiple of 128, not " +
                                                      std::to_string(request->step_bytes));
  }
  *out = {request->protocol, request->steps, request->step_bytes};
  return WEFT_OK;
}

}  // namespace

std::array<ProtocolSpec, kMaxProtocols> SegmentLayout::specs() const {
  std::array<ProtocolSpec, kMaxProtocols> out{};
  std::transform(protocols.begin(), protocols.end(), out.begin(),
                 [](const Protocol& protocol) { return protocol.spec; });
  return out;
}

weft_result make_layout(const Host& host, const weft_connection_request* wanted,
                        std::uint32_t ranks, SegmentLayout* out) {
  if (!WEFT_HAS(wanted, weft_connection_request, protocol_stride)) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT, "a connection request is too short");
  }
  const weft_connection_request& request = *wanted;
  if (request.direction != WEFT_DIRECTION_SEND && request.direction != WEFT_DIRECTION_RECV) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                     "unknown direction " + std::to_string(request.direction));
  }
  if (request.peer >= ranks) {
    return host.fail(
        WEFT_ERROR_INVALID_ARGUMENT,
        "a connection to rank " + std::to_string(request.peer) + " of " + std::to_string(ranks));
  }
  if (request.protocol_count == 0 || request.protocol_count > kMaxProtocols ||
      request.protocols == nullptr) {
    return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                     "a connection with " + std::to_string(request.protocol_count) + " protocols");
  }

  SegmentLayout layout;
  std::uint64_t end = sizeof(Header);
  for (std::uint32_t i = 0; i < request.protocol_count; ++i) {
    SegmentLayout::Protocol protocol;
    const weft_result result =
        read_spec(host, element(request.protocols, request.protocol_stride, i), &protocol.spec);
    if (result != WEFT_OK) return result;
    if (std::ranges::any_of(layout.protocols, [&](const SegmentLayout::Protocol& other) {
          return other.spec.protocol == protocol.spec.protocol;
        })) {
      return host.fail(WEFT_ERROR_INVALID_ARGUMENT,
                       "protocol " + std::to_string(protocol.spec.protocol) + " asked for twice");
    }
    protocol.control = end;
    end += sizeof(Control) +
           round_up(std::uint64_t{protocol.spec.steps} * sizeof(weft_slot_meta), kLineBytes);
    layout.protocols.push_back(protocol);
  }
  for (SegmentLayout::Protocol& protocol : layout.protocols) {
    protocol.buffer = round_up(end, kPageBytes);
    end = protocol.buffer + std::uint64_t{protocol.spec.steps} * protocol.spec.step_bytes;
    if (end > kMaxSegmentBytes) {
      return host.fail(WEFT_ERROR_INVALID_ARGUMENT, "a connection of more than 1 TiB");
    }
  }
  layout.size = round_up(end, kPageBytes);
  *out = std::move(layout);
  return WEFT_OK;
}

void Segment::initialise(const Nonce& nonce) const {
  auto* header = reinterpret_cast<Header*>(base_);
  header->magic = kMagic;
  header->size = layout_->size;
  header->nonce = nonce;
}

bool Segment::matches(const Nonce& nonce) const {
  const auto* header = reinterpret_cast<const Header*>(base_);
  return header->magic == kMagic && header->size == layout_->size && header->nonce == nonce;
}

bool Segment::describe(weft_protocol protocol, weft_direction direction,
                       weft_protocol_view* out) const {
  const auto found = std::ranges::find_if(
      layout_->protocols,
      [&](const SegmentLayout::Protocol& one) { return one.spec.protocol == protocol; });
  if (found == layout_->protocols.end()) return false;
  auto* header = reinterpret_cast<Header*>(base_);
  auto* control = reinterpret_cast<Control*>(base_ + found->control);
  weft_protocol_view view{};
  view.struct_size = sizeof(view);
  view.protocol = protocol;
  view.memory = WEFT_MEMORY_HOST;
  view.device = -1;
  view.buffer = base_ + found->buffer;
  view.steps = found->spec.steps;
  view.step_bytes = found->spec.step_bytes;
  // What one aligned store of any program keeps together. Whoever orders the stores of a line
  // itself, data before flag, may promise itself more.
  view.order_bytes = 8;
  view.head = &control->head.value;
  view.tail = &control->tail.value;
  view.head_waiters = &control->head.waiters;
  view.tail_waiters = &control->tail.waiters;
  view.slots = reinterpret_cast<weft_slot_meta*>(base_ + found->control + sizeof(Control));
  view.error =
      direction == WEFT_DIRECTION_SEND ? &header->error_for_sender : &header->error_for_receiver;
  view.head_writer = WEFT_AGENT_CPU;
  view.tail_writer = WEFT_AGENT_CPU;
  view.head_memory = WEFT_MEMORY_HOST;
  view.tail_memory = WEFT_MEMORY_HOST;
  write_out(view, out);
  return true;
}

void Segment::give_up(weft_direction direction, std::uint32_t reason) const {
  auto* header = reinterpret_cast<Header*>(base_);
  std::uint32_t& word =
      direction == WEFT_DIRECTION_SEND ? header->error_for_receiver : header->error_for_sender;
  std::atomic_ref(word).store(reason);
  for (const SegmentLayout::Protocol& protocol : layout_->protocols) {
    auto* control = reinterpret_cast<Control*>(base_ + protocol.control);
    wake_all(&control->tail.value);
    wake_all(&control->head.value);
  }
}

Nonce random_nonce() {
  Nonce nonce{};
  ssize_t got = 0;
  do {
    got = ::getrandom(nonce.data(), nonce.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(nonce.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return nonce;
}

}  // namespace weft::plugins
