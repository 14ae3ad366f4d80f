// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/join.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/bootstrap/caller.h"
#include "core/bootstrap/interfaces.h"

namespace weft {
namespace {

// The root's deadline begins with the first rank: its better-informed answer may come this much
// after a rank's own.
constexpr auto kRootGrace = std::chrono::seconds(3);

// Of a rank that cannot come: to tell the root so, if that is there.
constexpr auto kTellSpan = std::chrono::seconds(4);

Deadline deadline_of(const BootstrapOptions& options, std::chrono::nanoseconds more = {}) {
  if (options.timeout.count() <= 0) return Deadline::never();
  return Deadline::after(options.timeout + more);
}

std::string errno_text(int value) {
  return std::generic_category().message(value);
}

class Joiner {
 public:
  Joiner(const UniqueIdContents& contents, int rank, int nranks, const BootstrapOptions& options,
         Logger& log)
      : contents_(contents),
        options_(options),
        log_(log),
        nranks_(nranks),
        acceptor_(contents.secret, log, fmt::format("rank {}", rank)) {
    self_ = {.rank = rank, .pid = getpid(), .host = options.host_label, .address = {}};
    if (options.report_after) report_ = Deadline::after(*options.report_after);
  }

  Result<RingWires> run() {
    WEFT_TRY(reach_root());
    WEFT_TRY_ASSIGN(const WelcomeMessage welcome, await_welcome());
    const Status connected = connect_ring(welcome);
    if (!connected) {
      // The root tells the others; when it is the root that said so, this is not read any more.
      tell_root(connected.error(), {});
      return fail(connected.error());
    }
    return RingWires{.self = self_,
                     .next = welcome.next,
                     .previous = welcome.previous,
                     .data_to_next = std::move(outgoing_[0].wire()),
                     .data_from_previous = std::move(*incoming_[0]),
                     .control_to_next = std::move(outgoing_[1].wire()),
                     .control_to_previous = std::move(*incoming_[1]),
                     .acceptor = std::move(acceptor_),
                     .key = contents_.secret};
  }

 private:
  Status wait(std::vector<pollfd>& entries, const Deadline& deadline, int timeout_ms) {
    entries.push_back({.fd = options_.cancel_fd, .events = POLLIN, .revents = 0});
    int timeout = earlier_ms(deadline.poll_timeout_ms(), timeout_ms);
    timeout = earlier_ms(timeout, report_.poll_timeout_ms());
    if (::poll(entries.data(), entries.size(), timeout) < 0) {
      if (errno != EINTR) return fail(Error::from_errno(errno, "cannot wait for sockets"));
      for (pollfd& entry : entries) {
        entry.revents = 0;
      }
    }
    if (entries.back().revents != 0) {
      return fail(WEFT_ERROR_ABORTED,
                  fmt::format("the join of rank {} of {} was given up", self_.rank, nranks_));
    }
    return {};
  }
  void report(std::string_view waits_for) {
    if (!report_.passed()) return;
    report_ = Deadline::never();
    log_.warn(Topic::kBootstrap, "rank {} of {} waits longer than {} for {}", self_.rank, nranks_,
              format_span(options_.report_after->count()), waits_for);
  }

  [[nodiscard]] Status check_descriptors(const Connector& connector) const {
    if (!connector.out_of_descriptors()) return {};
    return fail(
        Error::from_errno(connector.last_errno(), self_.to_string() + " cannot create a socket"));
  }
  void tell_root(const Error& error, const std::string& who) {
    std::string what = who + error.what();
    if (error.source() == ErrorSource::kErrno) {
      what += ": " + errno_text(static_cast<int>(error.native()));
    }
    const ErrorMessage message{
        .culprit = self_.rank, .code = error.code(), .what = std::move(what), .hint = error.hint()};
    root_->queue(MessageType::kRejected, message.encode());
    (void)root_->flush();
  }

  [[nodiscard]] Status check_interfaces() const;
  Status reach_root();
  Status listen_for_ring();
  Result<std::optional<Message>> read_root();
  Result<WelcomeMessage> await_welcome();
  Status connect_ring(const WelcomeMessage& welcome);
  void ring_hello(Wire wire, const Message& message, const PeerIdentity& previous);
  [[nodiscard]] bool ring_complete() const {
    return outgoing_[0].answered() && outgoing_[1].answered() && incoming_[0] && incoming_[1];
  }
  Error ring_timeout(const WelcomeMessage& welcome) const;
  [[nodiscard]] RingHelloMessage ring_hello_to(RingChannel channel, int to) const {
    return {.channel = channel, .from = self_.rank, .to = to, .nranks = nranks_};
  }

  const UniqueIdContents& contents_;
  const BootstrapOptions& options_;
  Logger& log_;
  int nranks_;
  PeerIdentity self_;
  Acceptor acceptor_;
  std::string root_name_;
  std::optional<Wire> root_;
  Deadline report_ = Deadline::never();
  std::vector<Caller> outgoing_;  // to the next rank: data, control
  std::array<std::optional<Wire>, 2> incoming_;
};

Status Joiner::listen_for_ring() {
  if (!acceptor_.endpoints().empty()) return {};
  WEFT_TRY_ASSIGN(const auto all, list_interfaces());
  std::vector<SocketAddress> wanted;
  const bool one_host = std::ranges::all_of(
      contents_.roots, [](const SocketAddress& root) { return root.is_this_host(); });
  if (one_host && options_.interfaces.empty()) {
    wanted.push_back(contents_.roots.front());
  } else {
    WEFT_TRY_ASSIGN(const auto selected, select_interfaces(all, options_.interfaces));
    for (const InterfaceAddress& entry : selected) {
      wanted.push_back(entry.address);
    }
    // The address that reaches the root is likeliest to be reached by the others.
    if (auto own = local_address(root_->fd())) {
      own->port = 0;
      std::ranges::stable_partition(wanted,
                                    [&](const SocketAddress& address) { return address == *own; });
    }
  }
  WEFT_TRY(acceptor_.listen_at_some(wanted, kMaxRootAddresses));
  self_.address = acceptor_.endpoints().front().to_string();
  return {};
}

Status Joiner::check_interfaces() const {
  if (options_.interfaces.empty()) return {};
  WEFT_TRY_ASSIGN(const auto all, list_interfaces());
  WEFT_TRY(select_interfaces(all, options_.interfaces));
  return {};
}

// Ends with an acknowledged hello. Whoever closes before acknowledging is not our root: another
// program on its port, or the root of another communicator of this job that shares it.
Status Joiner::reach_root() {
  // A rank that cannot come tells the others, if the root is there, and does not wait for one.
  const Status can_come = check_interfaces();
  const Deadline deadline =
      can_come
          ? deadline_of(options_)
          : Deadline::after(options_.timeout.count() > 0
                                ? std::min<std::chrono::nanoseconds>(options_.timeout, kTellSpan)
                                : kTellSpan);
  Connector connector(contents_.roots);
  std::vector<pollfd> entries;
  const auto names = list_addresses(contents_.roots);
  bool connected_once = false;
  while (true) {
    report(fmt::format("the rendezvous at {}", names));
    entries.clear();
    if (root_) {
      const short output = root_->has_output() ? POLLOUT : 0;
      entries.push_back(
          {.fd = root_->fd(), .events = static_cast<short>(POLLIN | output), .revents = 0});
      WEFT_TRY(wait(entries, deadline, -1));
      bool lost = !root_->flush();
      const auto input = root_->fill();
      const auto message = root_->next();
      if (message && *message) {
        if ((*message)->type == MessageType::kHelloTaken) return {};
        if ((*message)->type == MessageType::kRejected) {
          const auto error = ErrorMessage::decode((*message)->payload);
          if (error) return fail(error->code, error->what, error->hint);
        }
        lost = true;
      }
      lost = lost || !message || !input || *input == Wire::Input::kClosed;
      if (lost) {
        root_.reset();
        connector.reset();
      }
    } else {
      connector.add_poll(entries);
      WEFT_TRY(check_descriptors(connector));
      WEFT_TRY(wait(entries, deadline, connector.timeout_ms()));
      if (auto fd = connector.serve(entries[0])) {
        connected_once = true;
        root_.emplace(std::move(*fd), contents_.secret);
        root_name_ = root_->remote();
        const Status listening = listen_for_ring();
        const HelloMessage hello{
            .nranks = nranks_, .who = self_, .endpoints = acceptor_.endpoints()};
        root_->queue(MessageType::kHello, hello.encode());
        if (!listening) {
          // The others need not wait for a rank that cannot come.
          tell_root(listening.error(), self_.to_string() + ": ");
          return listening;
        }
      }
    }
    if (deadline.passed()) {
      WEFT_TRY(can_come);
      const std::string what =
          connected_once
              ? fmt::format("rank {} of {}: the rendezvous at {} did not answer within {}",
                            self_.rank, nranks_, names, format_span(options_.timeout.count()))
              : fmt::format("rank {} of {} cannot reach the rendezvous at {} within {}", self_.rank,
                            nranks_, names, format_span(options_.timeout.count()));
      Error error(WEFT_ERROR_TIMEOUT, what,
                  "see that rank 0 is running, that its address can be reached from this host and "
                  "that no firewall stands between");
      if (connector.last_errno() != 0) {
        error.with_native(ErrorSource::kErrno, connector.last_errno());
      }
      return fail(std::move(error));
    }
  }
}

// A message of the root, nothing when there is none yet; its refusal or end as an error.
Result<std::optional<Message>> Joiner::read_root() {
  const auto input = root_->fill();
  auto message = root_->next();
  if (!message) {
    return fail(WEFT_ERROR_NETWORK,
                fmt::format("the rendezvous at {} sent {}", root_name_, message.error().what()));
  }
  if (*message) {
    if ((*message)->type != MessageType::kRejected) return message;
    const auto error = ErrorMessage::decode((*message)->payload);
    if (error) return fail(error->code, error->what, error->hint);
    return fail(WEFT_ERROR_NETWORK,
                fmt::format("the rendezvous at {} sent a malformed refusal", root_name_));
  }
  if (!input || *input == Wire::Input::kClosed) {
    Error error(WEFT_ERROR_PEER,
                fmt::format("the rendezvous at {} died: its connection was closed", root_name_),
                "see the output of the rank that made the unique id (rank 0 as a rule)");
    if (!input) error.with_native(ErrorSource::kErrno, input.error().native());
    return fail(std::move(error));
  }
  return std::nullopt;
}

Result<WelcomeMessage> Joiner::await_welcome() {
  const Deadline deadline = deadline_of(options_, kRootGrace);
  std::vector<pollfd> entries;
  while (true) {
    const auto message = read_root();
    if (!message) return fail(message.error());
    if (*message) {
      auto welcome = (*message)->type == MessageType::kWelcome
                         ? WelcomeMessage::decode((*message)->payload)
                         : std::nullopt;
      // Whoever keeps ranks by these numbers counts on them.
      const bool names_neighbours = welcome && welcome->next.rank == (self_.rank + 1) % nranks_ &&
                                    welcome->previous.rank == (self_.rank + nranks_ - 1) % nranks_;
      if (names_neighbours && !welcome->next_endpoints.empty()) return std::move(*welcome);
      return fail(WEFT_ERROR_NETWORK,
                  fmt::format("the rendezvous at {} sent a malformed answer", root_name_));
    }
    if (deadline.passed()) {
      return fail(
          WEFT_ERROR_TIMEOUT,
          fmt::format("rank {} of {}: the rendezvous at {} did not answer within {}", self_.rank,
                      nranks_, root_name_, format_span(options_.timeout.count())),
          "see the output of rank 0");
    }
    entries.assign(1, {.fd = root_->fd(), .events = POLLIN, .revents = 0});
    WEFT_TRY(wait(entries, deadline, -1));
    report("the other ranks to come");
  }
}

void Joiner::ring_hello(Wire wire, const Message& message, const PeerIdentity& previous) {
  const auto hello = message.type == MessageType::kRingHello
                         ? RingHelloMessage::decode(message.payload)
                         : std::nullopt;
  if (!hello || hello->channel == RingChannel::kLetters || hello->from != previous.rank ||
      hello->to != self_.rank || hello->nranks != nranks_) {
    log_.info(Topic::kBootstrap, "rank {}: dropped a connection of {}: not its neighbour",
              self_.rank, wire.remote());
    return;
  }
  wire.queue(MessageType::kRingHello, ring_hello_to(hello->channel, previous.rank).encode());
  if (!wire.flush()) return;
  // A later one replaces an earlier one: the neighbour gave that up.
  incoming_[static_cast<std::size_t>(hello->channel)] = std::move(wire);
}

Error Joiner::ring_timeout(const WelcomeMessage& welcome) const {
  const std::string span = format_span(options_.timeout.count());
  for (const Caller& out : outgoing_) {
    if (out.answered()) continue;
    Error error(
        WEFT_ERROR_TIMEOUT,
        fmt::format("{} cannot reach {} at {} within {}", self_.to_string(),
                    welcome.next.to_string(), list_addresses(out.connector().addresses()), span),
        "select an interface by which the hosts reach one another; open the firewall");
    if (const int last = out.connector().last_errno(); last != 0) {
      return {WEFT_ERROR_TIMEOUT, fmt::format("{}: {}", error.what(), errno_text(last)),
              error.hint()};
    }
    return error;
  }
  return {WEFT_ERROR_TIMEOUT,
          fmt::format("{} was not reached by {} within {}", self_.to_string(),
                      welcome.previous.to_string(), span),
          "select an interface by which the hosts reach one another; open the firewall"};
}

Status Joiner::connect_ring(const WelcomeMessage& welcome) {
  const Deadline deadline = deadline_of(options_);
  // Those who fail to connect know more than those who are not reached, and are heard first.
  const Deadline passive_deadline = deadline_of(options_, std::chrono::seconds(1));
  const Deadline root_deadline = deadline_of(options_, kRootGrace);
  for (const RingChannel channel : {RingChannel::kData, RingChannel::kControl}) {
    outgoing_.emplace_back(welcome.next_endpoints, contents_.secret,
                           ring_hello_to(channel, (self_.rank + 1) % nranks_));
  }
  bool ready_sent = false;
  std::vector<pollfd> entries;
  while (true) {
    while (true) {
      const auto message = read_root();
      if (!message) return fail(message.error());
      if (!*message) break;
      if ((*message)->type == MessageType::kGo && ring_complete()) return {};
    }
    if (ring_complete() && !ready_sent) {
      ready_sent = true;
      root_->queue(MessageType::kReady, {});
      WEFT_TRY(root_->flush());
    }
    entries.clear();
    entries.push_back({.fd = root_->fd(), .events = POLLIN, .revents = 0});
    int timeout = acceptor_.timeout_ms();
    for (Caller& out : outgoing_) {
      if (out.answered()) {
        entries.push_back({.fd = -1, .events = 0, .revents = 0});
      } else {
        out.add_poll(entries);
        WEFT_TRY(check_descriptors(out.connector()));
        timeout = earlier_ms(timeout, out.timeout_ms());
      }
    }
    const std::size_t acceptor_first = entries.size();
    acceptor_.add_poll(entries);
    const bool connecting = !outgoing_[0].answered() || !outgoing_[1].answered();
    const Deadline& limit = ready_sent ? root_deadline : connecting ? deadline : passive_deadline;
    WEFT_TRY(wait(entries, limit, timeout));
    report(fmt::format("its neighbours {} and {}", welcome.previous.to_string(),
                       welcome.next.to_string()));
    for (std::size_t i = 0; i < outgoing_.size(); ++i) {
      outgoing_[i].serve(entries[1 + i]);
    }
    acceptor_.serve(entries, acceptor_first, [&](Wire wire, const Message& message) {
      ring_hello(std::move(wire), message, welcome.previous);
    });
    if (const auto exhausted = acceptor_.exhausted(); exhausted && !ring_complete()) {
      return fail(Error::from_errno(static_cast<int>(exhausted->native()),
                                    self_.to_string() + " " + exhausted->what()));
    }
    if (!limit.passed()) continue;
    if (!ready_sent && !ring_complete()) return fail(ring_timeout(welcome));
    if (ready_sent) {
      return fail(
          WEFT_ERROR_TIMEOUT,
          fmt::format("rank {} of {}: the rendezvous at {} did not let the ranks go within "
                      "{}",
                      self_.rank, nranks_, root_name_, format_span(options_.timeout.count())),
          "see the output of rank 0");
    }
  }
}

}  // namespace

Result<RingWires> join_ring(const UniqueId& id, int rank, int nranks,
                            const BootstrapOptions& options, Logger& log) {
  WEFT_TRY_ASSIGN(const UniqueIdContents contents, read_unique_id(id));
  return Joiner(contents, rank, nranks, options, log).run();
}

}  // namespace weft
