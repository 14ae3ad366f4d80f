// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "plugins/p2p/device_end.h"

#include <algorithm>
#include <cstring>

namespace weft::p2p {
namespace {

/// Two lines that a device fetches together; counters of different writers share none.
constexpr std::uint64_t kGrain = 128;

std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kGrain - 1) / kGrain * kGrain;
}

// What one store of a device keeps together on NVLink and PCIe without further proof.
constexpr std::uint32_t kOrderBytes = 8;

}  // namespace

weft_result Arena::make(const plugins::Host& host, std::int32_t device, std::uint64_t bytes,
                        weft_memory_sharing sharing, std::shared_ptr<Arena>* out) {
  std::shared_ptr<Arena> arena(new Arena(host));
  const weft_host& services = host.services();
  weft_result result = WEFT_ERROR_UNSUPPORTED;
  for (const weft_memory_sharing way : {WEFT_SHARING_DESCRIPTOR, WEFT_SHARING_IPC}) {
    if ((sharing & way) == 0) continue;
    arena->memory_.struct_size = sizeof(arena->memory_);
    result = services.memory->allocate(services.instance, WEFT_MEMORY_CUDA, device, bytes, way,
                                       &arena->memory_);
    if (result == WEFT_ERROR_UNSUPPORTED) continue;
    if (result == WEFT_OK) result = arena->export_by(way);
    if (result == WEFT_OK) *out = std::move(arena);
    return result;
  }
  return result;
}

weft_result Arena::export_by(weft_memory_sharing way) {
  const weft_host& services = host_.services();
  ticket_.struct_size = sizeof(ticket_);
  const weft_result result =
      services.memory->export_memory(services.instance, &memory_, way, &ticket_);
  if (result == WEFT_OK && way == WEFT_SHARING_DESCRIPTOR) descriptor_.reset(ticket_.descriptor);
  return result;
}

bool Arena::cut(std::uint64_t bytes, std::uint64_t* offset) {
  if (bytes > memory_.size - used_) return false;
  *offset = used_;
  used_ += bytes;
  return true;
}

// What travels as bytes is in each blob.
weft_result Arena::promise(std::uint32_t peer) {
  if (!by_descriptor() || takers_.contains(peer)) return WEFT_OK;
  if (!descriptor_) {
    const weft_result result = export_by(WEFT_SHARING_DESCRIPTOR);
    if (result != WEFT_OK) return result;
  }
  awaited_.insert(peer);
  return WEFT_OK;
}

void Arena::taken_by(std::uint32_t peer) {
  awaited_.erase(peer);
  takers_.insert(peer);
  if (awaited_.empty()) descriptor_.reset();
}

Arena::~Arena() {
  const weft_host& services = host_.services();
  if (memory_.address != nullptr) services.memory->free(services.instance, &memory_);
}

Imports::~Imports() {
  const weft_host& services = host_.services();
  for (auto& [name, import] : imports_) {
    if (import.memory.address != nullptr) services.memory->free(services.instance, &import.memory);
  }
  for (const auto& [peer, lines] : lines_) {
    for (const auto& line : lines) {
      plugins::OwnedFd socket(line->release());
      plugins::Giver::end(socket);
    }
  }
}

// One socket of a peer tells that all of this rank's imports from there have gone. So the next ones
// need not stay; of those that were asked for before the first had come the peer ends all but one.
weft_result Imports::take(const plugins::Key& key, const DeviceBlob& blob, const PartPlace& place,
                          Import& import, plugins::OwnedFd* out) {
  std::vector<std::unique_ptr<plugins::ForkClosedFd>>& lines = lines_[blob.rank];
  if (!import.taker.started()) import.stays = lines.empty();
  const weft_result result = import.taker.step(
      host_, key, {.plugin = "p2p", .rank = blob.peer, .peer = blob.rank, .stays = import.stays},
      place.arena, out);
  if (result != WEFT_OK) return result;
  if (import.stays) {
    lines.push_back(std::make_unique<plugins::ForkClosedFd>());
    lines.back()->reset(import.taker.keep().release());
  }
  std::erase_if(lines, [](const auto& line) { return plugins::Giver::has_ended(line->get()); });
  import.taker.stop();
  return WEFT_OK;
}

weft_result Imports::open(const plugins::Key& key, const DeviceBlob& blob, const PartPlace& place,
                          weft_memory* out) {
  Import& import = imports_[place.arena.memory];
  if (import.memory.address == nullptr) {
    weft_memory_export form{};
    form.struct_size = sizeof(form);
    form.sharing = blob.sharing;
    form.descriptor = -1;
    if (blob.sharing == WEFT_SHARING_DESCRIPTOR) {
      plugins::OwnedFd descriptor;
      const weft_result got = take(key, blob, place, import, &descriptor);
      if (got != WEFT_OK) return got;
      form.descriptor = descriptor.release();
    }
    form.bytes_used = sizeof(form.bytes);
    std::memcpy(form.bytes, place.ticket.data(), place.ticket.size());
    weft_memory memory{};
    memory.struct_size = sizeof(memory);
    const weft_host& services = host_.services();
    const weft_result result =
        services.memory->import_memory(services.instance, &form, device_, nullptr, &memory);
    if (result != WEFT_OK) return result;
    import.memory = memory;
  }
  *out = import.memory;
  return WEFT_OK;
}

EndLayout lay_out(weft_direction direction, Mode mode,
                  const std::vector<plugins::ProtocolSpec>& specs) {
  EndLayout layout;
  layout.word_bytes = kGrain;  // the error word
  for (const plugins::ProtocolSpec& spec : specs) {
    EndLayout::Protocol protocol{.spec = spec, .counter = layout.word_bytes};
    layout.word_bytes += kGrain;
    if (direction == WEFT_DIRECTION_RECV) {
      protocol.slots = layout.word_bytes;
      layout.word_bytes += round_up(spec.steps * sizeof(weft_slot_meta));
    }
    if (holds_buffer(direction, spec.protocol, mode)) {
      protocol.buffer = layout.buffer_bytes;
      layout.buffer_bytes += round_up(static_cast<std::uint64_t>(spec.steps) * spec.step_bytes);
    }
    layout.protocols.push_back(protocol);
  }
  return layout;
}

bool DeviceEnd::describe(weft_protocol protocol, weft_direction direction, std::int32_t device,
                         weft_protocol_view* out) const {
  const auto has = [&](const EndLayout::Protocol& one) { return one.spec.protocol == protocol; };
  const auto own = std::ranges::find_if(mine.protocols, has);
  const auto other = std::ranges::find_if(theirs.protocols, has);
  if (own == mine.protocols.end() || other == theirs.protocols.end()) return false;
  const bool sends = direction == WEFT_DIRECTION_SEND;
  std::byte* receiver = sends ? peer_words : words.address();
  std::byte* sender = sends ? words.address() : peer_words;
  const EndLayout::Protocol& at_receiver = sends ? *other : *own;
  const EndLayout::Protocol& at_sender = sends ? *own : *other;

  weft_protocol_view view{};
  view.struct_size = sizeof(view);
  view.protocol = protocol;
  view.memory = WEFT_MEMORY_CUDA;
  view.device = device;
  view.buffer = holds_buffer(direction, protocol, blob.mode) ? buffers.address() + own->buffer
                                                             : peer_buffers + other->buffer;
  view.steps = own->spec.steps;
  view.step_bytes = own->spec.step_bytes;
  view.order_bytes = kOrderBytes;
  view.head = reinterpret_cast<std::uint64_t*>(sender + at_sender.counter);
  view.tail = reinterpret_cast<std::uint64_t*>(receiver + at_receiver.counter);
  view.slots = reinterpret_cast<weft_slot_meta*>(receiver + at_receiver.slots);
  view.error = reinterpret_cast<std::uint32_t*>(words.address());
  view.peer_error = reinterpret_cast<std::uint32_t*>(peer_words);
  view.head_writer = WEFT_AGENT_GPU;
  view.tail_writer = WEFT_AGENT_GPU;
  view.head_memory = WEFT_MEMORY_CUDA;
  view.tail_memory = WEFT_MEMORY_CUDA;
  plugins::write_out(view, out);
  return true;
}

}  // namespace weft::p2p
