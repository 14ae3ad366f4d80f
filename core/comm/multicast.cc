// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/multicast.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/base/foreign_fd.h"
#include "core/base/fork_closed.h"
#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/device_failure.h"
#include "core/model/direct_peers.h"
#include "core/transport/offer_codec.h"
#include "core/transport/shared_buffer.h"

namespace weft {
namespace {

/// The first rank makes the team, which the others join.
constexpr std::uint32_t kMaker = 0;

/// All ranks tell of a step, as of buffers: their reason for refusing, if any; of the first step
/// that makes something its maker tells the ticket, whose descriptor stands as the offset.
class Step {
 public:
  Step(std::uint32_t rank, Bootstrap& bootstrap) : rank_(rank), bootstrap_(bootstrap) {}

  void refuse(std::string_view why) { mine_.refusal = fmt::format("rank {}: {}", rank_, why); }
  void offer(const MemoryTicket& ticket) {
    mine_.offers.push_back({.plugin = {},
                            .offset = static_cast<std::uint64_t>(ticket.descriptor),
                            .blob = {ticket.bytes.begin(), ticket.bytes.end()}});
  }
  /// The first reason of all ranks, alike on all; empty where none refuses. Ends the step.
  Result<std::string> agree(std::string_view what) {
    WEFT_TRY_ASSIGN(all_, exchange_offers(std::exchange(mine_, {}), what, bootstrap_));
    const auto refused = std::ranges::find_if(
        all_, [](const BufferOffers& offers) { return !offers.refusal.empty(); });
    return refused == all_.end() ? std::string() : refused->refusal;
  }
  /// What the maker offered in the step that ended last.
  [[nodiscard]] Result<MemoryTicket> ticket() const {
    MemoryTicket ticket;
    const auto& offers = all_.at(kMaker).offers;
    if (offers.size() != 1 || offers[0].blob.size() != ticket.bytes.size() ||
        offers[0].offset > INT32_MAX) {
      return fail(WEFT_ERROR_PEER,
                  fmt::format("rank {} sent no ticket for its multicast memory", kMaker),
                  "run the same version of weft on every rank");
    }
    std::ranges::copy(offers[0].blob, ticket.bytes.begin());
    ticket.descriptor = static_cast<int>(offers[0].offset);
    return ticket;
  }

 private:
  const std::uint32_t rank_;
  Bootstrap& bootstrap_;
  BufferOffers mine_;
  std::vector<BufferOffers> all_;
};

}  // namespace

std::string no_multicast_between(const Topology& topology) {
  const std::uint32_t ranks = topology.rank_count();
  if (ranks > kMostDirectRanks) {
    return fmt::format("more than {} ranks have no multicast", kMostDirectRanks);
  }
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      if (!topology.same_host(a, b)) {
        return fmt::format("ranks {} and {} are on two hosts, and multicast is within one", a, b);
      }
      const std::string& device = topology.ranks[a].device_pci;
      if (device.empty() || device != topology.ranks[b].device_pci) continue;
      return fmt::format("ranks {} and {} share a GPU, which has one place in multicast", a, b);
    }
  }
  return {};
}

Result<Multicast::Made> Multicast::create(DeviceRuntime& runtime, const Topology& topology,
                                          std::uint32_t rank, std::uint64_t bytes,
                                          Bootstrap& bootstrap) {
  std::unique_ptr<Multicast> memory(new Multicast(runtime));
  Step step(rank, bootstrap);
  if (!runtime.has_multicast()) step.refuse("its device has no multicast");
  WEFT_TRY_ASSIGN(std::string refusal, step.agree("who has multicast"));
  if (!refusal.empty()) return Made{.memory = nullptr, .refusal = std::move(refusal)};

  std::optional<ForkClosedFd> made;  // open until all have it
  if (rank == kMaker) {
    MemoryTicket ticket;
    if (runtime.begin_multicast(topology.rank_count(), bytes, &memory->team_, &ticket) == WEFT_OK) {
      made.emplace(UniqueFd(ticket.descriptor));
      step.offer(ticket);
    } else {
      step.refuse(device_failure_text(runtime));
    }
  }
  WEFT_TRY_ASSIGN(refusal, step.agree("a multicast team"));
  if (!refusal.empty()) return Made{.memory = nullptr, .refusal = std::move(refusal)};

  if (rank != kMaker) {
    WEFT_TRY_ASSIGN(MemoryTicket ticket, step.ticket());
    UniqueFd copy;
    if (!topology.same_process(kMaker, rank)) {
      auto copied = copy_foreign_fd(topology.ranks[kMaker].pid, ticket.descriptor);
      if (copied) copy = std::move(*copied);
      if (!copied) step.refuse(copied.error().to_string());
      ticket.descriptor = copy.get();
    }
    if (ticket.descriptor >= 0 && runtime.join_multicast(ticket, &memory->team_) != WEFT_OK) {
      step.refuse(device_failure_text(runtime));
    }
  }
  WEFT_TRY_ASSIGN(refusal, step.agree("who joined the multicast team"));
  if (!refusal.empty()) return Made{.memory = nullptr, .refusal = std::move(refusal)};

  // Blocks until every device is in the team: now each is.
  if (runtime.map_multicast(memory->team_, &memory->view_) != WEFT_OK) {
    step.refuse(device_failure_text(runtime));
  }
  WEFT_TRY_ASSIGN(refusal, step.agree("memory for multicast"));
  if (!refusal.empty()) return Made{.memory = nullptr, .refusal = std::move(refusal)};
  return Made{.memory = std::move(memory), .refusal = {}};
}

Multicast::~Multicast() {
  if (team_ != nullptr) runtime_.end_multicast(team_, may_be_used_);
}

// Computed from what all ranks have in common.
std::string Communicator::no_multicast() const {
  if (config_.bytes("buffers.multicast") == 0) return "buffers.multicast is 0";
  if (std::string why = no_multicast_between(topology_); !why.empty()) return why;
  if (has_inboxes_in_memory()) return {};
  return "these ranks have no inboxes to meet in: no memory joins them, or buffers.direct is 0";
}

// That there is none is no error: calls go other ways, and all ranks know why.
Status Communicator::prepare_multicast() {
  if (ranks_ == 1 || !limits_.no_multicast.empty()) return {};
  WEFT_TRY_ASSIGN(auto made, Multicast::create(runtime_, topology_, rank_,
                                               config_.bytes("buffers.multicast"), *bootstrap_));
  if (made.memory == nullptr) {
    limits_.no_multicast = std::move(made.refusal);
    context_.logger().warn(Topic::kComm, "rank {} goes without multicast: {}", rank_,
                           limits_.no_multicast);
    return {};
  }
  multicast_ = std::move(made.memory);
  limits_.multicast_range = multicast_range_bytes(multicast_->view().bytes, ranks_,
                                                  connections_->direct()->plain_headers);
  if (limits_.multicast_range == 0) limits_.no_multicast = "buffers.multicast is too small";
  connections_->set_multicast(&multicast_->view());
  return {};
}

}  // namespace weft
