// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/root.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/fork_closed.h"
#include "core/base/thread_name.h"
#include "core/bootstrap/interfaces.h"
#include "core/bootstrap/job_environment.h"
#include "core/bootstrap/wire.h"
#include "core/model/ring_geometry.h"

namespace weft {
namespace {

constexpr std::size_t kMaxListed = 16;
constexpr auto kRankHeadStart = std::chrono::seconds(2);
constexpr auto kRetrySpan = std::chrono::milliseconds(20);
constexpr int kRootsPauseMs = 10;
// An earlier root of the same id, which is over, goes within this.
constexpr auto kClaimSpan = std::chrono::seconds(1);

// "rank 2", "ranks 0, 1, 3", cut after a few.
std::string list_ranks(const std::vector<int>& ranks) {
  const std::size_t shown = std::min(ranks.size(), kMaxListed);
  std::string text = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                                 fmt::join(std::span(ranks).first(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

// Roots share their port, and a rank that knocks gets to any of them: of one id there must be but
// one on a host. A name in the abstract space, which belongs to the same network namespace as the
// port and goes with its process, sees to that: forked children do not keep it. Nothing when
// somebody holds it; nobody else can know it.
Result<UniqueFd> claim(const Secret& secret) {
  WEFT_TRY_ASSIGN(const Secret name, derive_secret(secret, "rendezvous", 0));
  const std::string text = "weft-root-" + secret_to_hex(name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(text, address.sun_path + 1);  // A leading zero: no file.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail(Error::from_errno(errno, "cannot create a socket"));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
  if (errno == EADDRINUSE) return UniqueFd();
  return fail(Error::from_errno(errno, "cannot bind an abstract Unix socket"));
}

// Listens at every address of an id. One is enough: a name may stand for an IPv6 address on a host
// without IPv6. A taken port is an error all the same.
Status listen_at_roots(const std::vector<SocketAddress>& roots, Acceptor& acceptor) {
  std::optional<Error> refused;
  for (SocketAddress address : roots) {
    // A host name may stand for another address on its own host than elsewhere: listen on all.
    if (!address.is_this_host()) address.bytes = {};
    if (std::ranges::find(acceptor.endpoints(), address) != acceptor.endpoints().end()) continue;
    Status listening = acceptor.listen(address, true);
    if (listening) continue;
    if (listening.error().native() == EADDRINUSE) return listening;
    refused = listening.error();
  }
  if (acceptor.endpoints().empty()) return fail(*refused);
  return {};
}

}  // namespace

// Owned by the root's thread once it runs, but for `finished` and `stop`.
struct BootstrapRoot::State {
  struct Member {
    Wire wire;
    HelloMessage hello;
    bool ready = false;
  };

  State(BootstrapOptions bootstrap_options, Logger& logger)
      : options(std::move(bootstrap_options)), log(logger) {}

  UniqueId id;
  BootstrapOptions options;
  Logger& log;
  std::optional<ForkClosedFd> claim;
  std::optional<Acceptor> acceptor;
  std::map<int, Member> members;
  std::int32_t nranks = 0;  // of the first that came
  std::set<int> told;       // the ranks that know of the failure
  bool complete = false;    // all ranks were let go
  bool welcomed = false;
  std::optional<Error> failure;
  // Made before it is needed.
  Error lack{WEFT_ERROR_OUT_OF_MEMORY, "the rendezvous has no memory",
             "raise the limit of address space (ulimit -v), or of the container"};
  Deadline deadline = Deadline::never();
  Deadline report = Deadline::never();
  UniqueFd stop;
  std::atomic<bool> finished{false};
  std::thread thread;

  void run();
  void loop();
  bool outlasts_lack();
  void serve_members(const std::vector<pollfd>& entries, std::size_t first);
  void hello_from(Wire wire, const Message& message);
  std::optional<Error> refusal_of(const HelloMessage& hello) const;
  void welcome_all();
  void go();
  void fail_all(Error error);
  void set_failure(Error error);
  void tell_members();
  void tell(Wire& wire, int rank);
  Error missing_error() const;
  std::string missing_text() const;
};

namespace {

void send_now(Wire& wire, MessageType type, std::span<const std::byte> payload) {
  // A fresh socket takes a message this small; whoever is gone is found by its closed connection.
  wire.queue(type, payload);
  (void)wire.flush();
}

}  // namespace

void BootstrapRoot::State::tell(Wire& wire, int rank) {
  const ErrorMessage message{
      .culprit = -1, .code = failure->code(), .what = failure->what(), .hint = failure->hint()};
  send_now(wire, MessageType::kRejected, message.encode());
  if (rank >= 0 && rank < nranks) told.insert(rank);
}

void BootstrapRoot::State::fail_all(Error error) {
  if (failure) return;
  log.info(Topic::kBootstrap, "rendezvous failed: {}", error.to_string());
  set_failure(std::move(error));
  tell_members();
}

void BootstrapRoot::State::set_failure(Error error) {
  failure = std::move(error);
  report = Deadline::never();
  deadline = Deadline::never();
  if (options.timeout.count() > 0) deadline = Deadline::after(options.timeout);
}

// Those for whose words there is no memory stay, to be told when there is.
void BootstrapRoot::State::tell_members() {
  while (!members.empty()) {
    const auto first = members.begin();
    tell(first->second.wire, first->first);
    members.erase(first);
  }
}

std::optional<Error> BootstrapRoot::State::refusal_of(const HelloMessage& hello) const {
  const PeerIdentity& who = hello.who;
  const std::string hint = "start every rank once, with numbers from 0 and the same count";
  if (hello.protocol != kBootstrapProtocol) {
    return Error(WEFT_ERROR_UNSUPPORTED,
                 fmt::format("{} speaks bootstrap protocol {}, the rendezvous speaks {}",
                             who.to_string(), hello.protocol, kBootstrapProtocol),
                 "use the same version of weft on every host");
  }
  if (!members.empty() && hello.nranks != nranks) {
    const PeerIdentity& first = members.begin()->second.hello.who;
    return Error(WEFT_ERROR_MISMATCH,
                 fmt::format("ranks disagree on their number: {} says {}, {} says {}",
                             first.to_string(), nranks, who.to_string(), hello.nranks),
                 hint);
  }
  if (hello.nranks < 1 || hello.nranks > static_cast<std::int32_t>(kMaxRanks) || who.rank < 0 ||
      who.rank >= hello.nranks) {
    return Error(
        WEFT_ERROR_INVALID_ARGUMENT,
        fmt::format("{} is out of range: there are {} ranks", who.to_string(), hello.nranks), hint);
  }
  if (const auto found = members.find(who.rank); found != members.end()) {
    const PeerIdentity& other = found->second.hello.who;
    return Error(WEFT_ERROR_MISMATCH,
                 fmt::format("two processes claim rank {} of {}: pid {} on {} and pid {} on {}",
                             who.rank, nranks, other.pid, other.host, who.pid, who.host),
                 hint);
  }
  return std::nullopt;
}

void BootstrapRoot::State::hello_from(Wire wire, const Message& message) {
  auto hello =
      message.type == MessageType::kHello ? HelloMessage::decode(message.payload) : std::nullopt;
  if (!hello) {
    log.info(Topic::kBootstrap, "rendezvous: dropped a connection of {}: no hello", wire.remote());
    return;
  }
  if (failure) {
    tell(wire, hello->who.rank);
    return;
  }
  if (auto refusal = refusal_of(*hello)) {
    fail_all(std::move(*refusal));
    tell(wire, hello->who.rank);
    return;
  }
  if (members.empty()) {
    nranks = hello->nranks;
    if (options.timeout.count() > 0) deadline = Deadline::after(options.timeout);
    if (options.report_after) report = Deadline::after(*options.report_after);
  }
  // Before it is told: who is lost for want of memory comes again.
  const int rank = hello->who.rank;
  const auto taken =
      members.emplace(rank, Member{.wire = std::move(wire), .hello = std::move(*hello)}).first;
  send_now(taken->second.wire, MessageType::kHelloTaken, {});
  log.debug(Topic::kBootstrap, "rendezvous: {} came", taken->second.hello.who.to_string());
  // Who listens nowhere has come to say why.
  const bool all_listen = std::ranges::none_of(
      members, [](const auto& entry) { return entry.second.hello.endpoints.empty(); });
  if (all_listen && std::cmp_equal(members.size(), nranks)) welcome_all();
}

void BootstrapRoot::State::welcome_all() {
  welcomed = true;
  // The ranks, which know more, are first to complain about one another.
  if (options.timeout.count() > 0) deadline = Deadline::after(options.timeout + kRankHeadStart);
  for (auto& [rank, member] : members) {
    const Member& next = members.at((rank + 1) % nranks);
    const Member& previous = members.at((rank + nranks - 1) % nranks);
    const WelcomeMessage message{.next = next.hello.who,
                                 .next_endpoints = next.hello.endpoints,
                                 .previous = previous.hello.who};
    send_now(member.wire, MessageType::kWelcome, message.encode());
  }
}

void BootstrapRoot::State::go() {
  for (auto& [rank, member] : members) {
    send_now(member.wire, MessageType::kGo, {});
  }
}

std::string BootstrapRoot::State::missing_text() const {
  std::vector<int> here;
  std::vector<int> missing;
  for (int rank = 0; rank < nranks; ++rank) {
    const auto found = members.find(rank);
    const bool is_here = found != members.end() && (!welcomed || found->second.ready);
    (is_here ? here : missing).push_back(rank);
  }
  const std::string_view did = welcomed ? "did not connect with their neighbours" : "did not come";
  const auto span =
      deadline.passed() ? options.timeout : options.report_after.value_or(options.timeout);
  std::string text = fmt::format("{} of {} {} within {}", list_ranks(missing), nranks, did,
                                 format_span(span.count()));
  if (here.empty()) return text;
  return fmt::format("{} ({} {} here)", text, list_ranks(here), here.size() == 1 ? "is" : "are");
}

Error BootstrapRoot::State::missing_error() const {
  return {WEFT_ERROR_TIMEOUT, missing_text(),
          "see whether those ranks were started and can reach the root; raise timeouts.bootstrap"};
}

void BootstrapRoot::State::serve_members(const std::vector<pollfd>& entries, std::size_t first) {
  std::size_t index = first;
  std::optional<Error> error;
  bool all_ready = welcomed;
  for (auto& [rank, member] : members) {
    const bool is_ready = entries[index++].revents != 0;
    if (is_ready && !error) {
      const auto input = member.wire.fill();
      while (true) {
        const auto message = member.wire.next();
        if (!message) {
          error.emplace(WEFT_ERROR_NETWORK,
                        fmt::format("{} sent the rendezvous {}", member.hello.who.to_string(),
                                    message.error().what()));
          break;
        }
        if (!*message) break;
        if ((*message)->type == MessageType::kReady) member.ready = true;
        if ((*message)->type == MessageType::kRejected) {
          const auto report_of = ErrorMessage::decode((*message)->payload);
          if (report_of) {
            // Who gave up is a peer that failed, to the others.
            const bool gave_up = report_of->code == WEFT_ERROR_ABORTED;
            error.emplace(gave_up ? WEFT_ERROR_PEER : report_of->code, report_of->what,
                          report_of->hint);
          }
        }
      }
      if (!error && (!input || *input == Wire::Input::kClosed)) {
        error.emplace(WEFT_ERROR_PEER,
                      fmt::format("{} died while the ranks were coming together: its connection "
                                  "was closed",
                                  member.hello.who.to_string()),
                      "see that rank's own output");
        error->with_native(ErrorSource::kPeer, rank);
      }
    }
    all_ready = all_ready && member.ready;
  }
  if (error) {
    fail_all(std::move(*error));
  } else if (all_ready) {
    go();
    complete = true;
  }
}

void BootstrapRoot::State::loop() {
  std::vector<pollfd> entries;
  while (!complete) {
    if (failure) tell_members();
    entries.clear();
    entries.push_back({.fd = stop.get(), .events = POLLIN, .revents = 0});
    const std::size_t members_first = entries.size();
    for (const auto& [rank, member] : members) {
      entries.push_back({.fd = member.wire.fd(), .events = POLLIN, .revents = 0});
    }
    const std::size_t acceptor_first = entries.size();
    acceptor->add_poll(entries);
    const int timeout = earlier_ms(earlier_ms(deadline.poll_timeout_ms(), report.poll_timeout_ms()),
                                   acceptor->timeout_ms());
    if (::poll(entries.data(), entries.size(), timeout) < 0) {
      if (errno == EINTR) continue;
      fail_all(Error::from_errno(errno, "the rendezvous cannot wait for sockets"));
      return;
    }
    serve_members(entries, members_first);
    if (complete) return;
    // After the members: the rank of this process may have told why it ends.
    if (entries[0].revents != 0) {
      if (members.empty()) return;
      fail_all(Error(WEFT_ERROR_ABORTED, "the rendezvous was given up before every rank came",
                     "see the output of the rank that made the unique id"));
      return;
    }
    acceptor->serve(entries, acceptor_first, [this](Wire wire, const Message& message) {
      hello_from(std::move(wire), message);
    });
    if (const auto exhausted = acceptor->exhausted(); exhausted && !welcomed && !failure) {
      fail_all(Error::from_errno(static_cast<int>(exhausted->native()),
                                 "the rendezvous " + exhausted->what()));
    }
    if (report.passed()) {
      report = Deadline::never();
      log.warn(Topic::kBootstrap, "rendezvous still waits: {}", missing_text());
    }
    if (failure) {
      // Everyone that can be expected knows, or nobody came for a whole span.
      if (deadline.passed() || (nranks > 0 && std::cmp_greater_equal(told.size(), nranks))) return;
    } else if (deadline.passed()) {
      fail_all(missing_error());
    }
  }
}

// Nothing may leave the thread. What was under way may be lost, so the join is over; to tell that
// takes memory, too. False once there is no more to be waited for.
bool BootstrapRoot::State::outlasts_lack() {
  if (!failure) set_failure(std::move(lack));
  pollfd entry{.fd = stop.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, kRootsPauseMs) <= 0 && !deadline.passed();
}

void BootstrapRoot::State::run() {
  for (bool again = true; again;) {
    try {
      loop();
      again = false;
    } catch (const std::bad_alloc&) {
      again = outlasts_lack();
    }
  }
  members.clear();
  acceptor.reset();
  claim.reset();
  finished = true;
}

BootstrapRoot::BootstrapRoot(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<BootstrapRoot>> BootstrapRoot::launch(std::unique_ptr<State> state) {
  state->stop.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->stop) return fail(Error::from_errno(errno, "cannot create an event descriptor"));
  std::unique_ptr<BootstrapRoot> root(new BootstrapRoot(std::move(state)));
  try {
    root->state_->thread = std::thread([s = root->state_.get()] {
      name_this_thread("weft-root");
      s->run();
    });
  } catch (const std::system_error& error) {
    return fail(
        Error::from_errno(error.code().value(), "cannot start the thread of the rendezvous"));
  }
  return root;
}

Result<std::unique_ptr<BootstrapRoot>> BootstrapRoot::start(const BootstrapOptions& options,
                                                            Logger& log) {
  UniqueIdContents contents;
  WEFT_TRY_ASSIGN(contents.secret, random_secret());
  WEFT_TRY_ASSIGN(const auto all, list_interfaces());
  WEFT_TRY_ASSIGN(const auto selected, select_interfaces(all, options.interfaces));
  auto state = std::make_unique<State>(options, log);
  state->acceptor.emplace(contents.secret, log, "rendezvous");
  std::vector<SocketAddress> addresses;
  for (const InterfaceAddress& entry : selected) {
    addresses.push_back(entry.address);
  }
  WEFT_TRY(state->acceptor->listen_at_some(addresses, kMaxRootAddresses));
  contents.roots = state->acceptor->endpoints();
  state->id = make_unique_id(contents);
  return launch(std::move(state));
}

namespace {

// Before the next attempt; ABORTED if whoever asked gives up meanwhile.
Status pause_between_attempts(const BootstrapOptions& options) {
  pollfd entry{.fd = options.cancel_fd, .events = POLLIN, .revents = 0};
  WEFT_TRY(poll_until({&entry, 1}, Deadline::after(kRetrySpan)));
  if (entry.revents == 0) return {};
  return fail(WEFT_ERROR_ABORTED, "the wait for the port of the rendezvous was given up");
}

}  // namespace

Result<std::unique_ptr<BootstrapRoot>> BootstrapRoot::start_at(const UniqueId& id,
                                                               const BootstrapOptions& options,
                                                               Logger& log) {
  WEFT_TRY_ASSIGN(const UniqueIdContents contents, read_unique_id(id));
  auto state = std::make_unique<State>(options, log);
  state->id = id;
  const Deadline claim_deadline = Deadline::after(kClaimSpan);
  while (true) {
    WEFT_TRY_ASSIGN(UniqueFd claimed, claim(contents.secret));
    if (claimed) {
      state->claim.emplace(std::move(claimed));
      break;
    }
    if (claim_deadline.passed()) return nullptr;
    WEFT_TRY(pause_between_attempts(options));
  }
  const Deadline deadline =
      options.timeout.count() > 0 ? Deadline::after(options.timeout) : Deadline::never();
  while (true) {
    state->acceptor.emplace(contents.secret, log, "rendezvous");
    const Status listening = listen_at_roots(contents.roots, *state->acceptor);
    if (listening) return launch(std::move(state));
    if (listening.error().native() != EADDRINUSE || deadline.passed()) {
      return fail(listening.error());
    }
    WEFT_TRY(pause_between_attempts(options));
  }
}

BootstrapRoot::~BootstrapRoot() {
  if (!state_->thread.joinable()) return;
  eventfd_write(state_->stop.get(), 1);
  state_->thread.join();
}

const UniqueId& BootstrapRoot::id() const {
  return state_->id;
}

bool BootstrapRoot::finished() const {
  return state_->finished;
}

}  // namespace weft
