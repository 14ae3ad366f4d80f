// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/bootstrap.h"

#include <array>
#include <atomic>
#include <optional>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/bootstrap/failure_watch.h"
#include "core/bootstrap/join.h"
#include "core/bootstrap/letters.h"
#include "core/bootstrap/ring_gather.h"

namespace weft {

struct Bootstrap::State {
  explicit State(BootstrapOptions bootstrap_options) : options(std::move(bootstrap_options)) {}

  BootstrapOptions options;
  std::vector<PeerIdentity> peers;
  int rank = 0;
  std::atomic<bool> left{false};
  std::unique_ptr<FailureWatch> watch;
  std::optional<RingGather> ring;    // none for an only rank
  std::unique_ptr<Letters> letters;  // likewise
  // Each is set before letters come to it, and stays.
  std::array<std::function<void(int from, std::vector<std::byte> text)>, kLetterSubjects> readers;
};

Bootstrap::Bootstrap(std::unique_ptr<State> state) : state_(std::move(state)) {}
Bootstrap::~Bootstrap() = default;

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(const UniqueId& id, int rank, int nranks,
                                                   const BootstrapOptions& options,
                                                   Reactor& reactor, Logger& log) {
  auto state = std::make_unique<State>(options);
  state->rank = rank;
  if (nranks == 1 && rank == 0) {
    state->peers.push_back({.rank = 0, .pid = getpid(), .host = options.host_label, .address = {}});
    WEFT_TRY_ASSIGN(state->watch, FailureWatch::start_alone(reactor, log));
    return std::unique_ptr<Bootstrap>(new Bootstrap(std::move(state)));
  }
  WEFT_TRY_ASSIGN(RingWires ring, join_ring(id, rank, nranks, options, log));
  // Until everyone's identity is here, errors name ranks by number alone, but for the neighbours.
  for (int i = 0; i < nranks; ++i) {
    state->peers.push_back({.rank = i, .pid = 0, .host = "a host not known yet", .address = {}});
  }
  for (const PeerIdentity* known : {&ring.self, &ring.next, &ring.previous}) {
    state->peers[static_cast<std::size_t>(known->rank)] = *known;
  }
  WEFT_TRY_ASSIGN(
      state->watch,
      FailureWatch::start(ring.self, nranks, ring.next, std::move(ring.control_to_next),
                          ring.previous, std::move(ring.control_to_previous), reactor, log));
  state->ring.emplace(rank, nranks, std::move(ring.data_to_next),
                      std::move(ring.data_from_previous), *state->watch, log);
  const MemberMessage self{.who = ring.self, .endpoints = ring.acceptor.endpoints()};
  WEFT_TRY_ASSIGN(const auto blocks,
                  state->ring->run(self.encode(), "identities", state->peers, options));
  std::vector<MemberMessage> members;
  for (int i = 0; i < nranks; ++i) {
    auto member = MemberMessage::decode(blocks[static_cast<std::size_t>(i)]);
    if (!member || member->who.rank != i || member->endpoints.empty()) {
      Error error(WEFT_ERROR_NETWORK, fmt::format("rank {} sent a malformed identity", i),
                  "run the same version of weft on every rank");
      state->watch->announce(error);
      return fail(std::move(error));
    }
    state->peers[static_cast<std::size_t>(i)] = member->who;
    members.push_back(std::move(*member));
  }
  auto letters = Letters::start(rank, std::move(members), ring.key, std::move(ring.acceptor),
                                *state->watch, reactor, log, options.local_letters);
  if (!letters) {
    state->watch->announce(letters.error());
    return fail(std::move(letters.error()));
  }
  state->letters = std::move(*letters);
  return std::unique_ptr<Bootstrap>(new Bootstrap(std::move(state)));
}

Result<std::vector<std::vector<std::byte>>> Bootstrap::all_gather(std::span<const std::byte> mine,
                                                                  std::string_view what) {
  if (state_->left) {
    return fail(
        WEFT_ERROR_INVALID_USAGE,
        fmt::format("all-gather of {}: rank {} has left the communicator", what, state_->rank));
  }
  if (state_->ring) return state_->ring->run(mine, what, state_->peers, state_->options);
  if (auto failed = state_->watch->failure()) return fail(*failed);
  return std::vector<std::vector<std::byte>>{{mine.begin(), mine.end()}};
}

Status Bootstrap::barrier(std::string_view what) {
  WEFT_TRY(all_gather({}, what));
  return {};
}

void Bootstrap::on_failure(std::function<void(const Error&)> callback) {
  state_->watch->on_failure(std::move(callback));
}
void Bootstrap::on_question(std::function<void(const Question&)> callback) {
  state_->watch->on_question(std::move(callback));
}
void Bootstrap::ask(std::span<const std::byte> question) {
  state_->watch->ask(question);
}
void Bootstrap::on_round(std::function<void(const RoundText&)> callback) {
  state_->watch->on_round(std::move(callback));
}
bool Bootstrap::hand_on(std::size_t side, int asker, std::span<const std::byte> text) {
  return state_->watch->hand_on(side, asker, text);
}
// The last byte of a letter tells its subject.
void Bootstrap::on_letter(LetterSubject subject,
                          std::function<void(int from, std::vector<std::byte> text)> callback) {
  state_->readers.at(static_cast<std::size_t>(subject)) = std::move(callback);
  if (subject != LetterSubject::kPairs || !state_->letters) return;
  state_->letters->on_letter([readers = state_->readers](int from, std::vector<std::byte> text) {
    if (text.empty()) return;
    const auto about = std::to_integer<std::size_t>(text.back());
    text.pop_back();
    if (about < readers.size() && readers[about]) readers[about](from, std::move(text));
  });
}
void Bootstrap::on_undelivered(std::function<void(int to, const Error& why)> callback) {
  if (state_->letters) state_->letters->on_undelivered(std::move(callback));
}
void Bootstrap::post(int to, LetterSubject subject, std::vector<std::byte> text) {
  text.push_back(static_cast<std::byte>(subject));
  if (state_->letters) state_->letters->post(to, std::move(text));
}
bool Bootstrap::brings_letters(int to) const {
  return state_->letters && state_->letters->brings(to);
}
std::vector<Departure> Bootstrap::departed_neighbours() const {
  return state_->watch->departed_neighbours();
}
void Bootstrap::announce_failure(const Error& error) {
  state_->watch->announce(error);
}
void Bootstrap::interrupt(const Error& error) {
  state_->watch->interrupt(error);
}
void Bootstrap::leave(std::span<const std::byte> last_words) {
  state_->left = true;
  state_->watch->leave(last_words);
  // After the goodbye: who is refused then finds neighbours that know how this rank left.
  if (state_->letters) state_->letters->stop();
}
std::optional<Error> Bootstrap::failure() const {
  return state_->watch->failure();
}
int Bootstrap::rank() const {
  return state_->rank;
}
int Bootstrap::nranks() const {
  return static_cast<int>(state_->peers.size());
}
const PeerIdentity& Bootstrap::peer(int rank) const {
  return state_->peers[static_cast<std::size_t>(rank)];
}

}  // namespace weft
