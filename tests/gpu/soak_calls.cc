// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/gpu/operations.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kSmall = std::size_t{32} << 10;

/// Bytes of the larger buffer, or nearly so.
std::size_t bytes_of(const Call& call, std::uint32_t ranks) {
  return call.bytes() * (has_blocks(call.operation) ? ranks : 1);
}

void resize_messages(Call& call, std::size_t times, std::size_t most) {
  for (Message& message : call.messages)
    message.count = std::min(message.count * times, most / message.type.bytes);
}

bool passes_host_memory(Operation operation) {
  return reduces(operation) || operation == Operation::kBroadcast ||
         operation == Operation::kAllGather || operation == Operation::kAllGatherV;
}

}  // namespace

Call soak_call(Draws& draws, std::uint32_t ranks, Kind kind) {
  Call call = random_call(draws.number(), ranks);
  while (kind == Kind::kCapturable && !passes_host_memory(call.operation))
    call = random_call(draws.number(), ranks);
  const std::size_t most = kind == Kind::kSmall ? kSmall : options().largest;
  // One in sixteen has any size, one in sixteen up to an eighth of the largest.
  const std::uint64_t size = draws.next(16);
  const std::uint64_t count = draws.number();
  if (call.operation == Operation::kExchange) {
    resize_messages(call, size == 0 ? 64 : size == 1 ? 8 : 1, most / 8);
    return call;
  }
  const std::size_t largest = most / call.type.bytes / (has_blocks(call.operation) ? ranks : 1);
  if (size == 0) call.count = count % (largest + 1);
  if (size == 1) call.count = count % (largest / 8 + 1);
  if (bytes_of(call, ranks) > most) call.count = largest;
  if (!reduces(call.operation)) return call;
  // Bounds on roundings of 8 bits allow nearly anything.
  call.whole = call.type.bytes == 1 || draws.one_in(2);
  call.specials = call.operation == Operation::kAllReduce && call.premul == Premul::kNo &&
                  !call.whole && draws.one_in(4);
  return call;
}

SecondStreams::~SecondStreams() {
  for (const Opened& opened : streams_) {
    if (opened.stream.weft != nullptr) close_stream(opened.device, opened.stream);
  }
}

void SecondStreams::open(const Member& member) {
  Opened& own = streams_[member.rank];
  if (own.stream.weft == nullptr) own = {member.device, open_stream(member.device)};
}

void SecondStreams::synchronize(Team& team) const {
  team.each([&](Member& member) {
    gpu_test::check(weft_stream_synchronize(of(member)),
                    "rank " + std::to_string(member.rank) + ": weft_stream_synchronize");
  });
}

std::string SecondStreams::tell() const {
  std::string text;
  for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
    if (streams_[rank].stream.weft == nullptr) continue;
    text += "rank " + std::to_string(rank) + ": a second stream " +
            state_of(streams_[rank].stream) + '\n';
  }
  return text;
}

Batch::Batch(Team& team, SecondStreams& second, Draws& draws, std::size_t calls, Kind kind)
    : team_(team), second_(second) {
  for (std::size_t i = 0; i < calls; ++i) {
    trials_.push_back(std::make_unique<Trial>(team, soak_call(draws, team.layout().ranks, kind)));
  }
}

void Batch::prepare(Draws& draws) {
  for (const auto& trial : trials_)
    trial->prepare(draws.number() % 1000000);
}

void Batch::issue(Draws& draws) {
  const bool grouped = draws.one_in(3);
  const std::uint64_t turns = draws.number();
  const auto call = [&](Member& member, std::size_t i) {
    trials_[i]->issue(member, (turns >> i & 1) != 0 ? second_.of(member) : nullptr);
  };
  if (team_.mode() == Mode::kOneThread && !grouped) {
    for (std::size_t i = 0; i < trials_.size(); ++i)
      team_.issue([&](Member& member) { call(member, i); });
    return;
  }
  team_.issue([&](Member& member) {
    if (grouped) gpu_test::check(weft_group_start(context()), "weft_group_start");
    for (std::size_t i = 0; i < trials_.size(); ++i)
      call(member, i);
    if (grouped) gpu_test::check(weft_group_end(context()), "weft_group_end");
  });
}

void Batch::issue(Member& member) {
  for (const auto& trial : trials_)
    trial->issue(member);
}

void Batch::synchronize() {
  team_.synchronize();
  second_.synchronize(team_);
}

void Batch::check(Done& done) {
  for (const auto& trial : trials_)
    trial->check();
  done.calls += trials_.size();
  if (!options().windows.empty()) done.windows += trials_.size();
}

bool Batch::spoil() {
  for (const auto& trial : trials_) {
    const Member& member = team_.members().front();
    Zone* zone = trial->received(member);
    if (zone == nullptr || zone->size() == 0 || reduces(trial->call().operation)) continue;
    const std::byte other = zone->read(member.cuda).back() ^ std::byte{1};
    zone->overwrite(static_cast<std::ptrdiff_t>(zone->size()) - 1, {&other, 1}, member.cuda);
    return true;
  }
  return false;
}

WithOptions::WithOptions(Team& team, const weft_call_options& options) : team_(team) {
  for (const Member& member : team.members())
    check(weft_comm_set_call_options(member.comm, &options), "weft_comm_set_call_options");
}

WithOptions::~WithOptions() {
  for (const Member& member : team_.members())
    static_cast<void>(weft_comm_set_call_options(member.comm, nullptr));
}

weft_call_options random_options(Draws& draws) {
  weft_call_options options{};
  options.struct_size = sizeof(options);
  constexpr std::array kAlgorithms{WEFT_CALL_ALGORITHM_ANY, WEFT_CALL_ALGORITHM_RING,
                                   WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_ALGORITHM_DIRECT,
                                   WEFT_CALL_ALGORITHM_TWO_SHOT};
  options.algorithm = kAlgorithms[draws.next(kAlgorithms.size())];
  options.protocol = static_cast<weft_call_protocol>(draws.next(WEFT_CALL_PROTOCOL_LL128 + 1));
  options.max_channels = static_cast<std::uint32_t>(draws.next(4));
  return options;
}

}  // namespace weft::gpu_test
