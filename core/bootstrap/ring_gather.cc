// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/ring_gather.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace weft {
namespace {

// How long the news of a death may take to come by the control ring after the data ring broke.
constexpr auto kCauseSpan = std::chrono::seconds(2);

}  // namespace

struct RingGather::Step {
  std::string_view what;
  const PeerIdentity* previous = nullptr;
  const PeerIdentity* next = nullptr;
  const PeerIdentity* origin = nullptr;  // whose block is to come
  GatherBeginMessage begin;
  std::span<const std::byte> outgoing;
  bool begin_sent = false;
  std::size_t sent = 0;
  bool begin_received = false;
  std::size_t expected = 0;
  std::size_t bound = 0;
  std::vector<std::byte> received;

  [[nodiscard]] bool queued_all() const { return begin_sent && sent == outgoing.size(); }
  [[nodiscard]] bool received_all() const { return begin_received && received.size() == expected; }
};

Status RingGather::send_some(Step& step) {
  while (true) {
    WEFT_TRY(to_next_.flush());
    if (to_next_.has_output() || step.queued_all()) return {};
    if (!step.begin_sent) {
      to_next_.queue(MessageType::kGatherBegin, step.begin.encode());
      step.begin_sent = true;
    } else {
      const auto piece = step.outgoing.subspan(
          step.sent, std::min(kMaxDataPayload, step.outgoing.size() - step.sent));
      to_next_.queue(MessageType::kGatherData, piece);
      step.sent += piece.size();
    }
  }
}

// The connection to `who` is gone. The control ring knows who was first; it says so soon, if it was
// no goodbye.
Error RingGather::lost(const Step& step, const PeerIdentity& who) {
  const auto has_left = [&] {
    const auto departures = watch_.departed_neighbours();
    return std::ranges::find(departures, who.rank, &Departure::rank) != departures.end();
  };
  const Deadline deadline = Deadline::after(kCauseSpan);
  while (!deadline.passed() && !has_left()) {
    if (auto failure = watch_.failure()) return *failure;
    std::array<pollfd, 1> entry{pollfd{.fd = watch_.failure_fd(), .events = POLLIN, .revents = 0}};
    // A goodbye does not wake this, hence the short turns.
    (void)poll_until(entry, Deadline::after(std::chrono::milliseconds(10)));
  }
  Error error(WEFT_ERROR_PEER,
              fmt::format("all-gather of {}: {} {}", step.what, who.to_string(),
                          has_left() ? "has left the communicator" : "closed its data connection"),
              "every rank must make the same calls before it leaves");
  error.with_native(ErrorSource::kPeer, who.rank);
  return error;
}

Status RingGather::receive_some(Step& step) {
  bool open = true;
  while (!step.received_all()) {
    const auto message = from_previous_.next();
    if (!message) return fail(message.error());
    if (*message) {
      WEFT_TRY(take(step, **message));
      continue;
    }
    if (!open) return fail(lost(step, *step.previous));
    const std::size_t before = from_previous_.buffered();
    const auto input = from_previous_.fill();
    open = input && *input == Wire::Input::kOpen;
    if (open && from_previous_.buffered() == before) return {};
  }
  return {};
}

Status RingGather::take(Step& step, const Message& message) {
  const auto reject = [&step](std::string why) {
    return fail(WEFT_ERROR_MISMATCH,
                fmt::format("all-gather of {}: {} {}", step.what, step.previous->to_string(), why),
                "every rank must make the same calls in the same order");
  };
  if (message.type == MessageType::kGatherData) {
    if (!step.begin_received || message.payload.size() > step.expected - step.received.size()) {
      return reject("sent more than it announced");
    }
    step.received.insert(step.received.end(), message.payload.begin(), message.payload.end());
    return {};
  }
  const auto begin = message.type == MessageType::kGatherBegin
                         ? GatherBeginMessage::decode(message.payload)
                         : std::nullopt;
  if (!begin || step.begin_received) return reject("sent a message that has no place here");
  if (begin->what != step.what.substr(0, kMaxPurposeBytes) ||
      begin->sequence != step.begin.sequence) {
    return reject(fmt::format("gathers {} (call {}), this rank {} (call {})", begin->what,
                              begin->sequence, step.what, step.begin.sequence));
  }
  if (begin->origin != step.origin->rank) {
    return reject(fmt::format("sent the part of rank {} instead of rank {}", begin->origin,
                              step.origin->rank));
  }
  if (begin->bytes > step.bound) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("all-gather of {}: the part of {} has {} bytes; all together may have "
                            "{}",
                            step.what, step.origin->to_string(), begin->bytes, kMaxGatherBytes));
  }
  step.begin_received = true;
  step.expected = begin->bytes;
  return {};
}

Result<std::vector<std::vector<std::byte>>> RingGather::run(std::span<const std::byte> mine,
                                                            std::string_view what,
                                                            std::span<const PeerIdentity> peers,
                                                            const BootstrapOptions& options) {
  if (auto failure = watch_.failure()) return fail(*failure);
  auto result = steps(mine, what, peers, options);
  if (!result) {
    // A ring that stopped in the middle cannot go on: the others need not wait for it. When this
    // is not the first failure, the first is the answer.
    watch_.announce(result.error());
    if (auto failure = watch_.failure()) return fail(*failure);
  }
  return result;
}

Result<std::vector<std::vector<std::byte>>> RingGather::steps(std::span<const std::byte> mine,
                                                              std::string_view what,
                                                              std::span<const PeerIdentity> peers,
                                                              const BootstrapOptions& options) {
  const std::uint64_t sequence = sequence_++;
  if (mine.size() > kMaxGatherBytes) {
    return fail(WEFT_ERROR_INVALID_ARGUMENT,
                fmt::format("all-gather of {}: the part of {} has {} bytes; all together may have "
                            "{}",
                            what, peers[static_cast<std::size_t>(rank_)].to_string(), mine.size(),
                            kMaxGatherBytes));
  }
  const Deadline deadline =
      options.timeout.count() > 0 ? Deadline::after(options.timeout) : Deadline::never();
  Deadline report =
      options.report_after ? Deadline::after(*options.report_after) : Deadline::never();
  std::vector<std::vector<std::byte>> blocks(static_cast<std::size_t>(nranks_));
  blocks[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
  std::size_t total = mine.size();
  for (int number = 0; number < nranks_ - 1; ++number) {
    const int sending = (rank_ + nranks_ - number) % nranks_;
    const int receiving = (rank_ + nranks_ - number - 1) % nranks_;
    Step step;
    step.what = what;
    step.previous = &peers[static_cast<std::size_t>((rank_ + nranks_ - 1) % nranks_)];
    step.next = &peers[static_cast<std::size_t>((rank_ + 1) % nranks_)];
    step.origin = &peers[static_cast<std::size_t>(receiving)];
    step.outgoing = blocks[static_cast<std::size_t>(sending)];
    step.bound = kMaxGatherBytes - total;
    step.begin = {.sequence = sequence,
                  .origin = sending,
                  .bytes = step.outgoing.size(),
                  .what = std::string(what)};
    while (true) {
      const Status sending_status = send_some(step);
      WEFT_TRY(receive_some(step));
      if (!sending_status) return fail(lost(step, *step.next));
      const bool sent_all = step.queued_all() && !to_next_.has_output();
      if (sent_all && step.received_all()) break;
      std::array<pollfd, 4> entries{
          pollfd{.fd = watch_.failure_fd(), .events = POLLIN, .revents = 0},
          pollfd{.fd = sent_all ? -1 : to_next_.fd(), .events = POLLOUT, .revents = 0},
          pollfd{
              .fd = step.received_all() ? -1 : from_previous_.fd(), .events = POLLIN, .revents = 0},
          pollfd{.fd = options.cancel_fd, .events = POLLIN, .revents = 0}};
      const Deadline& until = earlier_ms(report.poll_timeout_ms(), deadline.poll_timeout_ms()) ==
                                      report.poll_timeout_ms()
                                  ? report
                                  : deadline;
      WEFT_TRY(poll_until(entries, until));
      if (entries[0].revents != 0) {
        if (auto failure = watch_.failure()) return fail(*failure);
      }
      if (entries[3].revents != 0) {
        return fail(WEFT_ERROR_ABORTED, fmt::format("rank {} of {} gave up", rank_, nranks_));
      }
      const auto waits_for = [&] {
        if (step.received_all()) {
          return fmt::format("{} to take what it is sent", step.next->to_string());
        }
        if (step.origin == step.previous) return step.origin->to_string();
        return fmt::format("{}, whose part comes by {}", step.origin->to_string(),
                           step.previous->to_string());
      };
      if (deadline.passed()) {
        return fail(WEFT_ERROR_TIMEOUT,
                    fmt::format("all-gather of {} did not end within {}: {} waits for {}", what,
                                format_span(options.timeout.count()),
                                peers[static_cast<std::size_t>(rank_)].to_string(), waits_for()),
                    "see what that rank is doing; raise timeouts.bootstrap");
      }
      if (report.passed()) {
        report = Deadline::never();
        log_.warn(Topic::kBootstrap, "rank {}: all-gather of {} waits longer than {} for {}", rank_,
                  what, format_span(options.report_after->count()), waits_for());
      }
    }
    total += step.received.size();
    blocks[static_cast<std::size_t>(receiving)] = std::move(step.received);
  }
  return blocks;
}

}  // namespace weft
