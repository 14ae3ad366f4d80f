// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/shared_buffer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <ranges>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/transport/connection_edge.h"
#include "core/transport/connections.h"
#include "core/transport/offer_codec.h"

namespace weft {
namespace {

/// How long a rank waits for others to take, or to hand out, before all tell each other how far
/// they are: one that cannot go on does neither.
constexpr std::chrono::milliseconds kRound(100);

}  // namespace

Result<std::vector<BufferOffers>> exchange_offers(const BufferOffers& mine, std::string_view what,
                                                  Bootstrap& bootstrap) {
  WEFT_TRY_ASSIGN(const auto gathered, bootstrap.all_gather(encode_buffer_offers(mine), what));
  std::vector<BufferOffers> offers;
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    auto decoded = decode_buffer_offers(gathered[rank]);
    if (!decoded) {
      return fail(std::move(decoded.error().with_context(fmt::format("of rank {}", rank))));
    }
    offers.push_back(std::move(*decoded));
  }
  return offers;
}

SharedBuffer::~SharedBuffer() {
  give_back();
}

void SharedBuffer::give_back() {
  for (const auto& release : std::views::reverse(releases_))
    release();
  releases_.clear();
  addresses_.clear();
}

bool SharedBuffer::is_refused(std::span<const BufferOffers> offers) {
  for (const BufferOffers& offer : offers) {
    if (refusal_.empty()) refusal_ = offer.refusal;
  }
  if (refusal_.empty()) return false;
  give_back();
  return true;
}

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

// Looks after them until this rank reaches all others, finds that it cannot reach one, or for a
// while. Answers what it has to tell of that: its bytes once it reaches all.
Result<BufferOffers> Connections::import_buffers(std::span<SharedEnd> ends, std::uint64_t bytes,
                                                 SharedBuffer& shared, const Bootstrap& bootstrap,
                                                 Deadline deadline) {
  using std::chrono::microseconds;
  microseconds nap(1);
  const Deadline round = Deadline::after(kRound);
  BufferOffers found;
  while (true) {
    bool all = true;
    for (std::uint32_t peer = 0; peer < context_.ranks; ++peer) {
      SharedEnd& end = ends[peer];
      if (peer == context_.rank || end.reached) continue;
      const bool is_new = end.theirs == nullptr;
      void* address = nullptr;
      const std::scoped_lock lock(end.transport->calls);
      const auto reached = end.transport->plugin.import_buffer(
          end.transport->transport, peer, end.mine, end.from, &address, &end.theirs);
      if (is_new && end.theirs != nullptr) {
        shared.releases_.emplace_back([transport = end.transport, buffer = end.theirs] {
          const std::scoped_lock releasing(transport->calls);
          transport->plugin.release_buffer(transport->transport, buffer);
        });
      }
      if (!reached) {
        found.refusal = fmt::format("rank {}: {}", context_.rank, reached.error().to_string());
        return found;
      }
      end.reached = *reached;
      all = all && end.reached;
      shared.addresses_[peer] = static_cast<std::byte*>(address);
    }
    if (all) found.bytes = bytes;
    if (all || round.passed()) return found;
    if (auto failure = bootstrap.failure()) return fail(std::move(*failure));
    if (deadline.passed()) {
      return fail(WEFT_ERROR_TIMEOUT, "buffers of other ranks are not reached at the deadline",
                  "check that the peers are alive; timeouts.bootstrap sets the deadline");
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, microseconds(500));
  }
}

// What each peer offered to those with which a transport joins it.
Result<std::vector<Connections::SharedEnd>> Connections::ends_of(
    const std::vector<BufferOffers>& offers,
    const std::map<std::string, weft_shared_buffer*>& exported,
    const std::function<PairChoice(std::uint32_t peer)>& choice_of) {
  std::vector<SharedEnd> ends(context_.ranks);
  for (std::uint32_t peer = 0; peer < context_.ranks; ++peer) {
    if (peer == context_.rank) continue;
    const PairChoice choice = choice_of(peer);
    const auto offer = std::ranges::find(offers[peer].offers, choice.plugin, &BufferOffer::plugin);
    if (offer == offers[peer].offers.end()) {
      return fail(
          WEFT_ERROR_PEER,
          fmt::format("rank {} said nothing about its buffer to those that {} joins it with", peer,
                      choice.plugin),
          "run the same version of weft on every rank");
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
  return ends;
}

Result<std::unique_ptr<SharedBuffer>> Connections::share(
    void* memory, std::uint64_t bytes,
    const std::function<PairChoice(std::uint32_t peer)>& choice_of, Bootstrap& bootstrap,
    Deadline deadline) {
  auto shared = std::make_unique<SharedBuffer>();
  std::map<std::string, weft_shared_buffer*> exported;
  const BufferOffers mine = export_buffer(memory, bytes, choice_of, *shared, exported);
  WEFT_TRY_ASSIGN(const auto offers, exchange_offers(mine, "buffers of a window", bootstrap));
  const auto other = std::ranges::find_if(
      offers, [&](const BufferOffers& offer) { return offer.bytes != offers[0].bytes; });
  if (other != offers.end()) {
    return fail(WEFT_ERROR_MISMATCH,
                fmt::format("rank 0 registers a window of {} bytes, rank {} one of {}",
                            offers[0].bytes, other - offers.begin(), other->bytes),
                "register buffers of one size on all ranks");
  }
  if (shared->is_refused(offers)) return shared;
  WEFT_TRY_ASSIGN(auto ends, ends_of(offers, exported, choice_of));
  shared->addresses_.resize(context_.ranks);
  shared->addresses_[context_.rank] = static_cast<std::byte*>(memory);
  while (true) {
    WEFT_TRY_ASSIGN(const BufferOffers found,
                    import_buffers(ends, bytes, *shared, bootstrap, deadline));
    WEFT_TRY_ASSIGN(const auto reached, exchange_offers(found, "reach of a window", bootstrap));
    const bool all = std::ranges::all_of(
        reached, [bytes](const BufferOffers& offer) { return offer.bytes == bytes; });
    if (shared->is_refused(reached) || all) return shared;
  }
}

}  // namespace weft
