// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/shared_buffer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/transport/connection_edge.h"
#include "core/transport/connections.h"
#include "core/transport/offer_codec.h"

namespace weft {
SharedBuffer::~SharedBuffer() {
  for (const auto& release : std::views::reverse(releases_))
    release();
}

namespace {

// What a rank found, for the others; empty where all is well.
std::string text_in(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostText = 4096;
  std::string text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMostText));
  std::ranges::replace_if(
      text, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');
  return text;
}

}  // namespace

struct Connections::SharedEnd {
  OpenedTransport* transport = nullptr;
  weft_shared_buffer* mine = nullptr;
  weft_shared_buffer* theirs = nullptr;
  weft_buffer_export from{};
  bool reached = false;
};

// One export for each transport that joins this rank to others.
BufferOffers Connections::export_buffer(
    void* memory, std::uint64_t bytes,
    const std::function<PairChoice(std::uint32_t peer)>& choice_of, SharedBuffer& shared,
    std::map<std::string, weft_shared_buffer*>& exported) {
  BufferOffers offers{.bytes = bytes, .refusal = {}, .offers = {}};
  for (std::uint32_t peer = 0; peer < context_.ranks && offers.refusal.empty(); ++peer) {
    if (peer == context_.rank) continue;
    const PairChoice choice = choice_of(peer);
    if (exported.contains(choice.plugin)) continue;
    const auto found = transports_.find(choice.plugin);
    if (found == transports_.end()) {
      offers.refusal = fmt::format("{} joins ranks {} and {}, and a net reaches no buffers",
                                   choice.plugin, context_.rank, peer);
      break;
    }
    OpenedTransport& opened = *found->second;
    const std::scoped_lock lock(opened.calls);
    const auto made = opened.plugin.export_buffer(opened.transport, memory, bytes);
    if (!made) {
      offers.refusal = fmt::format("rank {}: {}", context_.rank, made.error().to_string());
      break;
    }
    shared.releases_.emplace_back([&opened, buffer = made->buffer] {
      const std::scoped_lock releasing(opened.calls);
      opened.plugin.release_buffer(opened.transport, buffer);
    });
    exported.emplace(choice.plugin, made->buffer);
    offers.offers.push_back({.plugin = choice.plugin,
                             .allocation_id = made->described.allocation_id,
                             .generation = made->described.generation,
                             .offset = made->described.offset,
                             .blob = {made->blob.begin(), made->blob.end()}});
  }
  if (!offers.refusal.empty()) offers.offers.clear();
  return offers;
}

// Answers what keeps this rank from reaching some peer; empty where it reaches all.
Result<std::string> Connections::import_buffers(std::span<SharedEnd> ends, SharedBuffer& shared,
                                                const Bootstrap& bootstrap, Deadline deadline) {
  using std::chrono::microseconds;
  microseconds nap(1);
  std::string refusal;
  while (true) {
    bool all = true;
    for (std::uint32_t peer = 0; peer < context_.ranks; ++peer) {
      SharedEnd& end = ends[peer];
      if (peer == context_.rank || end.reached) continue;
      void* address = nullptr;
      const std::scoped_lock lock(end.transport->calls);
      const auto reached = end.transport->plugin.import_buffer(
          end.transport->transport, peer, end.mine, end.from, &address, &end.theirs);
      if (!reached && refusal.empty()) {
        refusal = fmt::format("rank {}: {}", context_.rank, reached.error().to_string());
      }
      end.reached = !reached || *reached;
      all = all && end.reached;
      if (reached) shared.addresses_[peer] = static_cast<std::byte*>(address);
    }
    if (all) return refusal;
    if (auto failure = bootstrap.failure()) return fail(std::move(*failure));
    if (deadline.passed()) {
      return fail(WEFT_ERROR_TIMEOUT, "buffers of other ranks are not reached at the deadline",
                  "check that the peers are alive; timeouts.bootstrap sets the deadline");
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, microseconds(500));
  }
}

Result<std::unique_ptr<SharedBuffer>> Connections::share(
    void* memory, std::uint64_t bytes,
    const std::function<PairChoice(std::uint32_t peer)>& choice_of, Bootstrap& bootstrap,
    Deadline deadline) {
  auto shared = std::make_unique<SharedBuffer>();
  std::map<std::string, weft_shared_buffer*> exported;
  const BufferOffers mine = export_buffer(memory, bytes, choice_of, *shared, exported);
  WEFT_TRY_ASSIGN(const auto gathered,
                  bootstrap.all_gather(encode_buffer_offers(mine), "buffers of a window"));
  std::vector<BufferOffers> offers;
  for (const auto& told : gathered) {
    WEFT_TRY_ASSIGN(auto decoded, decode_buffer_offers(told));
    offers.push_back(std::move(decoded));
  }
  for (std::uint32_t rank = 0; rank < context_.ranks; ++rank) {
    if (offers[rank].bytes != offers[0].bytes) {
      return fail(WEFT_ERROR_MISMATCH,
                  fmt::format("rank 0 registers a window of {} bytes, rank {} one of {}",
                              offers[0].bytes, rank, offers[rank].bytes),
                  "register buffers of one size on all ranks");
    }
    if (shared->refusal_.empty()) shared->refusal_ = offers[rank].refusal;
  }
  if (!shared->refusal_.empty()) return shared;
  std::vector<SharedEnd> ends(context_.ranks);
  for (std::uint32_t peer = 0; peer < context_.ranks; ++peer) {
    if (peer == context_.rank) continue;
    const PairChoice choice = choice_of(peer);
    const auto offer = std::ranges::find(offers[peer].offers, choice.plugin, &BufferOffer::plugin);
    if (offer == offers[peer].offers.end()) {
      return fail(WEFT_ERROR_PEER, fmt::format("rank {} said nothing about its buffer to those "
                                               "that {} joins it with",
                                               peer, choice.plugin));
    }
    SharedEnd& end = ends[peer];
    end.transport = transports_.find(choice.plugin)->second.get();
    end.mine = exported.at(choice.plugin);
    end.from.struct_size = sizeof(end.from);
    end.from.allocation_id = offer->allocation_id;
    end.from.generation = offer->generation;
    end.from.offset = offer->offset;
    end.from.size = offers[peer].bytes;
    end.from.blob = {.data = offer->blob.data(), .size = offer->blob.size()};
  }
  shared->addresses_.resize(context_.ranks);
  shared->addresses_[context_.rank] = static_cast<std::byte*>(memory);
  auto imported = import_buffers(ends, *shared, bootstrap, deadline);
  for (const SharedEnd& end : ends) {
    if (end.theirs == nullptr) continue;
    shared->releases_.emplace_back([transport = end.transport, buffer = end.theirs] {
      const std::scoped_lock lock(transport->calls);
      transport->plugin.release_buffer(transport->transport, buffer);
    });
  }
  if (!imported) return fail(std::move(imported.error()));
  WEFT_TRY_ASSIGN(const auto found,
                  bootstrap.all_gather(std::as_bytes(std::span(*imported)), "reach of a window"));
  for (const auto& text : found) {
    if (shared->refusal_.empty()) shared->refusal_ = text_in(text);
  }
  if (!shared->refusal_.empty()) shared->addresses_.clear();
  return shared;
}

}  // namespace weft
