// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/trial.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/gpu/make_call.h"
#include "tests/gpu/reference.h"

namespace weft::gpu_test {
namespace {

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// Whether the rank's factor is read by each call.
bool reads_at_call(const Call& call, std::uint32_t rank) {
  return call.premul == Premul::kAtCall || (call.premul == Premul::kMixed && rank % 2 != 0);
}

/// A zone for one side, unless the call may name NULL for it.
std::unique_ptr<Zone> zone_of(const Call& call, const Side& side, const Member& member,
                              std::uint32_t offset) {
  const bool nothing =
      !side.counts || (side.extent == 0 && (has_tables(call.operation) || side.blocks.empty()));
  if (nothing && call.omit_unused) return nullptr;
  return std::make_unique<Zone>(member.device, side.extent, offset * call.type.bytes);
}

std::byte* data_of(const std::unique_ptr<Zone>& zone) {
  return zone == nullptr ? nullptr : zone->data();
}

/// Puts the blocks of `input` where they lie in a buffer.
void place(const Side& side, const Bytes& input, std::byte* buffer) {
  std::size_t from = 0;
  for (const Block& block : side.blocks) {
    if (block.bytes != 0) std::memcpy(buffer + block.at, input.data() + from, block.bytes);
    from += block.bytes;
  }
}

/// Where the receive buffer begins in a zone that both buffers share; the same of the send buffer.
std::size_t recv_base(const Buffers& buffers) {
  return buffers.in_place && buffers.recv.extent < buffers.send.extent ? buffers.inner : 0;
}
std::size_t send_base(const Buffers& buffers) {
  return buffers.in_place && buffers.send.extent < buffers.recv.extent ? buffers.inner : 0;
}

OwnBits g_bits;  // of the thread that runs tests, which of a process is the rank's

Call with_order(Call call, const Team& team) {
  call.by_rank = call.by_rank || (team.by_rank() && reduces(call.operation));
  return call;
}

}  // namespace

Trial::Trial(Team& team, const Call& call)
    : team_(team),
      call_(with_order(call, team)),
      ranks_(team.layout().ranks),
      got_(team.layout().ranks) {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].buffers = buffers_of(call, team.layout().ranks, rank);
    if (call.premul == Premul::kNo) continue;
    reduced_.factors.push_back(random_factor(call, call.count + rank));
  }
  team.each([&](Member& member) {
    Rank& own = ranks_[member.rank];
    own.reduction = call.reduction;
    if (own.buffers.in_place) {
      const std::size_t bytes = std::max(own.buffers.send.extent, own.buffers.recv.extent);
      own.recv = std::make_unique<Zone>(member.device, bytes, call.recv_offset * call.type.bytes);
    } else {
      own.send = zone_of(call, own.buffers.send, member, call.send_offset);
      own.recv = zone_of(call, own.buffers.recv, member, call.recv_offset);
    }
    if (call.premul != Premul::kNo) make_reduction(member);
  });
  if (!options().windows.empty() && call.count != 0) register_windows();
}

// Of operations that go through windows, and as large on all ranks.
void Trial::register_windows() {
  const Operation operation = call_.operation;
  const bool copies = operation == Operation::kAllGather || operation == Operation::kAllToAll ||
                      operation == Operation::kScatter || operation == Operation::kBroadcast;
  const bool all = operation == Operation::kAllReduce;
  const bool reads =
      all || operation == Operation::kReduce || operation == Operation::kReduceScatter;
  if (reads) {
    team_.issue([&](Member& member) {
      Rank& own = ranks_[member.rank];
      const Zone& zone = own.buffers.in_place ? *own.recv : *own.send;
      register_window(member, zone.data() + send_base(own.buffers), own.buffers.send.extent);
    });
  }
  if (copies || (all && !call_.in_place)) {
    team_.issue([&](Member& member) {
      Rank& own = ranks_[member.rank];
      register_window(member, own.recv->data() + recv_base(own.buffers), own.buffers.recv.extent);
    });
  }
  // One that nobody ends would take calls of other buffers that come to lie there.
  for (const Member& member : team_.members()) {
    const auto& windows = ranks_[member.rank].windows;
    if (std::ranges::count(windows, nullptr) == 0) continue;
    throw Problem(WEFT_ERROR_INTERNAL, "a window was registered, but not delivered");
  }
}

// It begins before the buffer, and ends behind it. One thread's groups deliver it when they end.
void Trial::register_window(Member& member, std::byte* buffer, std::size_t bytes) {
  constexpr std::size_t kMargin = 512;
  static_assert(kMargin <= Zone::kGuard);
  weft_window*& window = ranks_[member.rank].windows.emplace_back(nullptr);
  gpu_test::check(weft_window_register(member.comm, buffer - kMargin, bytes + 2 * kMargin, &window),
                  "weft_window_register");
}

Trial::~Trial() {
  for (const Member& member : team_.members()) {
    if (member.comm == nullptr) continue;
    for (weft_window* const window : ranks_[member.rank].windows)
      static_cast<void>(weft_window_deregister(window));
  }
  if (call_.premul == Premul::kNo) return;
  for (const Member& member : team_.members()) {
    if (member.comm == nullptr) continue;
    static_cast<void>(weft_reduction_destroy(member.comm, ranks_[member.rank].reduction));
  }
}

void Trial::make_reduction(const Member& member) {
  Rank& own = ranks_[member.rank];
  const bool later = reads_at_call(call_, member.rank);
  if (later) own.factor = std::make_unique<Zone>(member.device, call_.type.bytes, 0);
  const weft_premul_sum_options options{
      .struct_size = sizeof(options),
      .type = call_.type.weft,
      .residence = later ? WEFT_SCALAR_AT_CALL : WEFT_SCALAR_NOW,
      .reserved = 0,
      .scalar = later ? own.factor->data() : reduced_.factors[member.rank].data()};
  gpu_test::check(weft_reduction_create_premul_sum(member.comm, &options, &own.reduction),
                  "weft_reduction_create_premul_sum");
}

void Trial::prepare(std::uint64_t seed) {
  reduced_.inputs.resize(ranks_.size());
  on_threads(ranks_.size(), [&](std::size_t rank) {
    reduced_.inputs[rank] =
        random_input(call_, ranks_[rank].buffers.input_bytes(), seed * 1000003 + rank);
  });
  for (std::uint32_t rank = 0; rank < reduced_.factors.size(); ++rank) {
    if (reads_at_call(call_, rank)) reduced_.factors[rank] = random_factor(call_, seed + rank);
  }
  if (reduces(call_.operation)) {
    reduced_.result = reduced_by_host(call_, reduced_.inputs, reduced_.factors);
  }
  // Never the same poison twice in a row.
  team_.each([&](Member& member) { fill(member, static_cast<int>((seed * 2 + 1) & 0xFF)); });
}

void Trial::fill(const Member& member, int poison) {
  Rank& own = ranks_[member.rank];
  const Bytes& input = reduced_.inputs[member.rank];
  const auto write = [&](const std::unique_ptr<Zone>& zone, Bytes& before, bool sends) {
    if (zone == nullptr) return;
    before.assign(zone->size(), static_cast<std::byte>(poison));
    if (sends && own.buffers.send.counts) {
      place(own.buffers.send, input, before.data() + send_base(own.buffers));
    }
    zone->write(before, poison, member.cuda);
  };
  write(own.send, own.send_before, true);
  write(own.recv, own.recv_before, own.buffers.in_place);
  if (own.factor != nullptr) {
    own.factor->write(reduced_.factors[member.rank], poison, member.cuda);
  }
}

void Trial::issue(Member& member, weft_stream* stream) {
  const Rank& own = ranks_[member.rank];
  std::byte* recv = data_of(own.recv);
  const std::byte* send = data_of(own.send);
  if (own.buffers.in_place) {
    send = recv + send_base(own.buffers);
    recv += recv_base(own.buffers);
  }
  make_call(call_, own.buffers, {.send = send, .recv = recv, .reduction = own.reduction}, member,
            stream);
}

// What was received right is taken over into what was there before: all else must be the same.
std::string Trial::wrong_with(const Rank& own, std::span<const std::byte> got) const {
  Bytes want = own.recv_before;
  const std::size_t base = recv_base(own.buffers);
  const Side& side = own.buffers.recv;
  for (std::size_t i = 0; i < own.buffers.due.size() && side.counts; ++i) {
    const Block& block = side.blocks[i];
    const Due& due = own.buffers.due[i];
    if (block.bytes == 0) continue;
    const std::span<const std::byte> result = got.subspan(base + block.at, block.bytes);
    const std::string where =
        side.blocks.size() > 1 ? "block " + std::to_string(i) + ": " : std::string();
    if (due.from) {
      const std::byte* source = reduced_.inputs[*due.from].data() + due.at;
      if (std::memcmp(source, result.data(), result.size()) != 0) {
        const auto place = std::mismatch(result.begin(), result.end(), source).first;
        return where + "byte " + std::to_string(place - result.begin()) + " of " +
               std::to_string(result.size()) + " is not what rank " + std::to_string(*due.from) +
               " sent";
      }
    } else {
      const std::string wrong = judge(call_, reduced_, due.at / call_.type.bytes, result);
      if (!wrong.empty()) return where + wrong;
    }
    std::ranges::copy(result, want.begin() + static_cast<std::ptrdiff_t>(base + block.at));
  }
  if (same(want, got)) return {};
  const auto place = std::ranges::mismatch(want, got).in1;
  return "byte " + std::to_string(place - want.begin()) + " of " + std::to_string(want.size()) +
         " is no result, and was changed";
}

void Trial::check(Member& member) {
  const Rank& own = ranks_[member.rank];
  const auto fail = [&](const std::string& what) {
    throw Problem(WEFT_ERROR_INTERNAL,
                  "rank " + std::to_string(member.rank) + ": " + text_of(call_) + ": " + what);
  };
  const auto read = [&](const std::unique_ptr<Zone>& zone, const char* name) {
    std::span<const std::byte> content;
    try {
      if (zone != nullptr) content = zone->read(member.cuda);
    } catch (const Problem& problem) {
      fail(std::string(name) + " " + problem.what());
    }
    return content;
  };
  got_[member.rank] = read(own.recv, "recv");
  if (own.recv != nullptr) {
    const std::string wrong = wrong_with(own, got_[member.rank]);
    if (!wrong.empty()) fail(wrong);
  }
  if (!same(read(own.send, "send"), own.send_before)) fail("the send buffer was changed");
  read(own.factor, "factor");
}

// Whatever the order of the additions: all ranks have the same bits.
void Trial::check_bits() const {
  const std::uint32_t first = team_.members().front().rank;
  for (const Member& member : team_.members()) {
    if (same(got_[member.rank], got_[first])) continue;
    throw Problem(WEFT_ERROR_INTERNAL, "ranks " + std::to_string(first) + " and " +
                                           std::to_string(member.rank) +
                                           " got different bits: " + text_of(call_));
  }
}

// FNV-1a, by words.
void Trial::note_bits() const {
  const std::span<const std::byte> bytes = got_[team_.members().front().rank];
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    g_bits.hash = (g_bits.hash ^ word) * 0x100000001b3U;
    g_bits.hash ^= g_bits.hash >> 32;
  }
  ++g_bits.results;
}

OwnBits own_bits() {
  return g_bits;
}

void Trial::check() {
  team_.each([&](Member& member) { check(member); });
  if (call_.operation != Operation::kAllReduce) return;
  if (team_.mode() == Mode::kProcess) return note_bits();
  check_bits();
}

void Trial::run(std::uint64_t seed) {
  prepare(seed);
  team_.issue([&](Member& member) { issue(member); });
  team_.synchronize();
  check();
}

}  // namespace weft::gpu_test
