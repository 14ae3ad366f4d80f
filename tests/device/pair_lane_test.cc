// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The kernel of sends and receives with several lanes a rank; any exchange, and what ends it.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/work_item_kernel.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

/// One message between two ranks, or within one.
struct Message {
  std::uint32_t from;
  std::uint32_t to;
  std::vector<std::byte> sent;
  std::vector<std::byte> received;
  std::vector<std::byte> kept{};  ///< What was sent, once that is the sender's again.
};

/// The transfers of all ranks, over a connection for each ordered pair.
class PairWorld {
 public:
  explicit PairWorld(std::uint32_t ranks) : transfers_(ranks) {}

  void add(std::uint32_t from, std::uint32_t to, std::uint64_t bytes,
           PairPayload payload = PairPayload::kSteps) {
    Message& message = messages_.emplace_back(Message{from, to, std::vector<std::byte>(bytes), {}});
    message.sent.reserve(1);  // a header's place is no null, either
    message.received.assign(bytes + 1, std::byte{0x5A});
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 256); ++i)
      message.sent[i] = static_cast<std::byte>(i * 7 + messages_.size() * 13);
    // As the bytes before them: copied at once, since a sanitizer looks at each that is computed.
    for (std::size_t i = 256; i < bytes; i *= 2) {
      std::byte* const sent = message.sent.data();
      std::memcpy(sent + i, sent, std::min<std::size_t>(i, bytes - i));
    }
    if (from == to) {
      PairTransfer copy;
      copy.from = message.sent.data();
      copy.to = message.received.data();
      copy.bytes = bytes;
      transfers_[from].push_back(copy);
      return;
    }
    const bool lines = payload == PairPayload::kLines || payload == PairPayload::kHeader;
    const bool wide = payload == PairPayload::kWideLines;
    const std::uint32_t slot_bytes = lines ? kLineSlotBytes : wide ? kWideSlotBytes : 128;
    auto& links = lines ? line_links_ : wide ? wide_links_ : links_;
    // Slots of lines are given back by halves.
    Link& link = links.try_emplace({from, to}, wide ? 4 : 3, slot_bytes, false).first->second;
    const OperationTag tag = ++counts_[{from, to}];
    add_end(from, link.sender(to), message.sent.data(), nullptr, bytes, tag);
    transfers_[from].back().payload = payload;
    add_end(to, link.receiver(from), nullptr, message.received.data(), bytes, tag);
    transfers_[to].back().payload = payload;
  }

  /// Another order in which this rank names its partners.
  void shuffle(std::uint32_t rank, std::mt19937_64& random) {
    auto& own = transfers_[rank];
    std::vector<std::size_t> place(own.size());
    for (std::size_t i = 0; i < place.size(); ++i)
      place[i] = i;
    std::ranges::shuffle(place, random);
    std::vector<PairTransfer> shuffled(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      shuffled[place[i]] = own[i];
      if (own[i].after != kNoTransfer) {
        shuffled[place[i]].after = static_cast<std::uint32_t>(place[own[i].after]);
      }
    }
    own = std::move(shuffled);
  }

  /// The rank's call is over: what it sent is its own again, and what it received is kept.
  void take_back(std::uint32_t rank) {
    for (Message& message : messages_) {
      if (message.from != rank) continue;
      message.kept = message.sent;
      std::memset(message.sent.data(), 0xEE, message.sent.size());
    }
  }

  WorkItem item(std::uint32_t rank) {
    WorkItem item;
    item.operation = Operation::kSend;
    item.algorithm = Algorithm::kPair;
    item.transfers = transfers_[rank].data();
    item.transfer_count = static_cast<std::uint32_t>(transfers_[rank].size());
    return item;
  }
  std::vector<PairTransfer>& transfers(std::uint32_t rank) { return transfers_[rank]; }
  Link& link(std::uint32_t from, std::uint32_t to) { return links_.find({from, to})->second; }
  Link& line_link(std::uint32_t from, std::uint32_t to) {
    return line_links_.find({from, to})->second;
  }
  Link& wide_link(std::uint32_t from, std::uint32_t to) {
    return wide_links_.find({from, to})->second;
  }

  void check() const {
    for (const Message& message : messages_) {
      const auto& sent = message.kept.empty() ? message.sent : message.kept;
      ASSERT_EQ(std::memcmp(message.received.data(), sent.data(), sent.size()), 0)
          << message.from << " to " << message.to;
      ASSERT_EQ(message.received.back(), std::byte{0x5A});
    }
  }

 private:
  void add_end(std::uint32_t rank, const ConnectionView& view, const std::byte* from, std::byte* to,
               std::uint64_t bytes, OperationTag tag) {
    PairTransfer end;
    end.from = from;
    end.to = to;
    end.bytes = bytes;
    end.tag = tag;
    end.view = view;
    const auto number = static_cast<std::uint32_t>(transfers_[rank].size());
    const auto [before, first] = latest_.try_emplace(view.cursor, number);
    if (!first) end.after = std::exchange(before->second, number);
    transfers_[rank].push_back(end);
  }

  std::deque<Message> messages_;
  static constexpr std::uint32_t kLineSlotBytes = 4096;
  static constexpr std::uint32_t kWideSlotBytes = 384;  // 320 bytes of payload
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> line_links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> wide_links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, OperationTag> counts_;
  std::map<const ConnectionCursor*, std::uint32_t> latest_;
  std::vector<std::vector<PairTransfer>> transfers_;
};

/// What ends each rank's kernels.
using AbortFlags = std::array<std::atomic<std::uint32_t>, 3>;

/// Each lane's outcome, by rank. What a rank sent is written over as soon as its leader is done.
template <class Memory = LaneMemory>
std::vector<std::vector<KernelOutcome>> run(PairWorld& world, std::uint32_t ranks,
                                            std::uint32_t lanes, const AbortFlags& abort,
                                            LaneTeams&& teams = {}) {
  std::vector<std::vector<KernelOutcome>> outcomes(ranks, std::vector<KernelOutcome>(lanes));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    teams.add(rank_name(rank), lanes, [&, rank](LaneGroup& group) {
      const WorkItem item = world.item(rank);
      Memory memory(abort[rank]);
      outcomes[rank][group.rank()] = run_work_item(group, memory, item, Sum<float>{});
      group.sync();
      if (group.leader() && outcomes[rank][0].end == KernelEnd::kDone) world.take_back(rank);
    });
  }
  teams.run();
  return outcomes;
}

void expect_all_end(const std::vector<KernelOutcome>& lanes, KernelEnd end) {
  for (const KernelOutcome& outcome : lanes)
    EXPECT_EQ(outcome.end, end);
}

class PairLanes : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  /// Each rank has its transfers in an order of its own.
  void expect_all_moved(PairWorld& world, std::uint32_t ranks, std::mt19937_64& random) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      world.shuffle(rank, random);
    for (const auto& lanes : run(world, ranks, GetParam(), abort_))
      expect_all_end(lanes, KernelEnd::kDone);
    world.check();
  }

  AbortFlags abort_{};
};

TEST_P(PairLanes, AnyExchange) {
  constexpr std::uint32_t kRanks = 3;
  std::mt19937_64 random(20261121);
  for (int round = 0; round < 12; ++round) {
    PairWorld world(kRanks);
    for (int i = 0; i < 8; ++i) {
      world.add(static_cast<std::uint32_t>(random() % kRanks),
                static_cast<std::uint32_t>(random() % kRanks), 1 + random() % 1500);
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_moved(world, kRanks, random));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (const PairTransfer& transfer : world.transfers(rank)) {
        EXPECT_EQ(transfer.complete, 1U);
        EXPECT_EQ(transfer.moved, transfer.bytes);
      }
    }
  }
}

// What is short goes by lines, what is long has a header there; some steps of Simple between them.
TEST_P(PairLanes, AnyExchangeByLines) {
  constexpr std::uint32_t kRanks = 3;
  std::mt19937_64 random(20261123);
  for (int round = 0; round < 12; ++round) {
    PairWorld world(kRanks);
    for (int i = 0; i < 12; ++i) {
      const auto from = static_cast<std::uint32_t>(random() % kRanks);
      const auto to = static_cast<std::uint32_t>(random() % kRanks);
      const auto kind = static_cast<PairPayload>(from == to ? 0 : random() % 3);
      const std::uint64_t bytes = 1 + random() % 1500;
      world.add(from, to, kind == PairPayload::kHeader ? 0 : bytes, kind);
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_moved(world, kRanks, random));
  }
}

TEST_P(PairLanes, AnotherTagByLinesEndsAllLanes) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLines);
  world.transfers(0)[0].tag = 77;
  const auto outcomes = run(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[1], KernelEnd::kTagMismatch);
}

TEST_P(PairLanes, AHeaderInThePlaceOfALineMessageEndsAllLanes) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLines);
  world.transfers(0)[0].bytes = 0;
  world.transfers(0)[0].payload = PairPayload::kHeader;
  const auto outcomes = run(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[1], KernelEnd::kSizeMismatch);
}

TEST_P(PairLanes, AnErrorWordEndsThoseThatWaitForLines) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLines);
  world.transfers(0).clear();
  world.line_link(0, 1).receiver_error() = 9;
  EXPECT_EQ(run(world, 2, GetParam(), abort_)[1][0].end, KernelEnd::kPeerError);
}

/// Lanes that share lines.
using WidePairLanes = PairLanes;

// Steps of several lengths, more than there are slots, the same slots in several calls, and others
// among them.
TEST_P(WidePairLanes, AnyExchange) {
  constexpr std::uint32_t kRanks = 3;
  constexpr PairPayload kKinds[] = {PairPayload::kSteps, PairPayload::kLines, PairPayload::kHeader,
                                    PairPayload::kWideLines, PairPayload::kWideLines};
  std::mt19937_64 random(20261127);
  for (int round = 0; round < 12; ++round) {
    PairWorld world(kRanks);
    for (int i = 0; i < 10; ++i) {
      const auto from = static_cast<std::uint32_t>(random() % kRanks);
      const auto to = static_cast<std::uint32_t>(random() % kRanks);
      const PairPayload kind = from == to ? PairPayload::kSteps : kKinds[random() % 5];
      const std::uint64_t most = kind == PairPayload::kWideLines ? 6000 : 1500;
      world.add(from, to, kind == PairPayload::kHeader ? 0 : 1 + random() % most, kind);
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_moved(world, kRanks, random));
  }
}

TEST_P(WidePairLanes, ASendGoesOnWhenSlotsAreGivenBack) {
  PairWorld world(2);
  world.add(0, 1, 20000, PairPayload::kWideLines);
  run(world, 2, GetParam(), abort_);
  world.check();
  Link& link = world.wide_link(0, 1);
  EXPECT_EQ(link.head(), 62U) << "of 63 steps whole halves";
  EXPECT_EQ(link.tail(), 0U);
}

// Nothing that a peer says is trusted: it may have given back slots that were never filled.
TEST_P(WidePairLanes, AHeadFarAheadIsNoMoreThanAllSlots) {
  PairWorld world(2);
  world.add(0, 1, 5000, PairPayload::kWideLines);
  world.transfers(1).clear();
  world.wide_link(0, 1).head() = std::uint64_t{3} << 32;
  const auto outcomes = run(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[0], KernelEnd::kDone);
  EXPECT_EQ(world.transfers(0)[0].moved, 5000U);
}

TEST_P(WidePairLanes, AnotherTagEndsAllLanesBeforeTheyWrite) {
  PairWorld world(2);
  world.add(0, 1, 1000, PairPayload::kWideLines);
  world.transfers(0)[0].tag = 77;
  const auto outcomes = run(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[1], KernelEnd::kTagMismatch);
  EXPECT_EQ(outcomes[1][0].found, 77U);
  EXPECT_EQ(world.transfers(1)[0].to[0], std::byte{0x5A});
}

TEST_P(WidePairLanes, AnotherLengthEndsAllLanes) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kWideLines);
  world.transfers(0)[0].bytes = 99;
  const auto outcomes = run(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[1], KernelEnd::kSizeMismatch);
}

// Full steps have 320 bytes, and two are taken at a time: the third is the first of its half, the
// second is not.
TEST_P(WidePairLanes, AnotherLengthOfALaterStepEndsAllLanes) {
  struct Lengths {
    std::uint64_t sent, expected;
  };
  for (const auto& [sent, expected] :
       {Lengths{700, 1000}, Lengths{1000, 700}, Lengths{400, 1000}, Lengths{1000, 400}}) {
    SCOPED_TRACE(sent);
    PairWorld world(2);
    world.add(0, 1, 1000, PairPayload::kWideLines);
    world.transfers(0)[0].bytes = sent;
    world.transfers(1)[0].bytes = expected;
    const auto outcomes = run(world, 2, GetParam(), abort_);
    expect_all_end(outcomes[1], KernelEnd::kSizeMismatch);
    const std::uint64_t last = std::min(sent, expected) % 320;
    EXPECT_EQ(outcomes[1][0].found, sent < expected ? last : 320U);
    EXPECT_EQ(outcomes[1][0].expected, sent < expected ? 320U : last);
  }
}

// Before the first step, and in the middle of a message.
TEST_P(WidePairLanes, AnErrorWordEndsThoseThatWait) {
  for (const std::uint64_t come : {0U, 640U}) {
    SCOPED_TRACE(come);
    PairWorld world(2);
    world.add(0, 1, 1000, PairPayload::kWideLines);
    if (come == 0) {
      world.transfers(0).clear();
    } else {
      world.transfers(0)[0].bytes = come;
    }
    world.wide_link(0, 1).receiver_error() = 9;
    const auto outcomes = run(world, 2, GetParam(), abort_);
    expect_all_end(outcomes[1], KernelEnd::kPeerError);
    EXPECT_EQ(outcomes[1][0].found, 9U);
  }
}

TEST_P(WidePairLanes, AnAbortEndsThoseThatWaitForLinesAndForSlots) {
  for (const std::uint32_t who : {0U, 1U}) {
    SCOPED_TRACE(who);
    PairWorld world(2);
    world.add(0, 1, 5000, PairPayload::kWideLines);
    world.transfers(1 - who).clear();
    abort_[who].store(1);
    const auto outcomes = run(world, 2, GetParam(), abort_);
    expect_all_end(outcomes[who], KernelEnd::kAborted);
  }
}

TEST(PairLanesAlone, DoNotShareLines) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kWideLines);
  const AbortFlags abort{};
  EXPECT_EQ(run(world, 2, 1, abort)[0][0].end, KernelEnd::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Lanes, WidePairLanes, ::testing::Values(8U, 32U));

// A send that is lent must not end before its receiver has read all of it: what it sent is written
// over then. Several steps, more than there are slots, and others among them.
TEST_P(PairLanes, AnyExchangeThatIsLent) {
  constexpr std::uint32_t kRanks = 3;
  std::mt19937_64 random(20261124);
  for (int round = 0; round < 6; ++round) {
    PairWorld world(kRanks);
    for (int i = 0; i < 8; ++i) {
      const auto from = static_cast<std::uint32_t>(random() % kRanks);
      const auto to = static_cast<std::uint32_t>(random() % kRanks);
      const bool lent = from != to && random() % 3 != 0;
      const std::uint64_t most = lent && random() % 4 == 0 ? 5 * kLentStepBytes : 1500;
      world.add(from, to, 1 + random() % most, lent ? PairPayload::kLent : PairPayload::kSteps);
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_moved(world, kRanks, random));
  }
}

TEST_P(PairLanes, StepsInThePlaceOfWhatIsLentEndAllLanes) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLent);
  world.transfers(0)[0].payload = PairPayload::kSteps;
  const auto outcomes = run(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[1], KernelEnd::kSizeMismatch);
}

TEST_P(PairLanes, WhatIsLentInThePlaceOfStepsEndsAllLanes) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLent);
  world.transfers(1)[0].payload = PairPayload::kSteps;
  // Rank 0 waits for rank 1 to take it.
  LaneTeams teams;
  teams.add_abort(abort_[0], [&] { return std::atomic_ref(world.link(0, 1).tail()).load() != 0; });
  const auto outcomes = run(world, 2, GetParam(), abort_, std::move(teams));
  expect_all_end(outcomes[1], KernelEnd::kSizeMismatch);
  expect_all_end(outcomes[0], KernelEnd::kAborted);
}

/// As a process that may not be read from any more.
struct Unreadable : LaneMemory {
  using LaneMemory::LaneMemory;
  [[nodiscard]] static KernelOutcome read_peer(const ConnectionView& view, std::byte* /*to*/,
                                               std::uint64_t /*address*/, std::uint64_t /*bytes*/) {
    return {.end = KernelEnd::kAborted, .peer = view.peer, .expected = 0, .found = 0};
  }
};

TEST_P(PairLanes, AReadThatFailsEndsAllLanesAndTellsTheSender) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLent);
  world.transfers(1)[0].view.peer_error = world.transfers(0)[0].view.error;
  const auto outcomes = run<Unreadable>(world, 2, GetParam(), abort_);
  expect_all_end(outcomes[1], KernelEnd::kAborted);
  expect_all_end(outcomes[0], KernelEnd::kPeerError);
}

/// As if the sender's call failed while it is read from, and its memory were used again.
struct TakenBack : LaneMemory {
  using LaneMemory::LaneMemory;
  [[nodiscard]] static KernelOutcome read_peer(const ConnectionView& view, std::byte* to,
                                               std::uint64_t address, std::uint64_t bytes) {
    store_word(view.error, 9);
    return LaneMemory::read_peer(view, to, address, bytes);
  }
};

TEST_P(PairLanes, WhatWasReadFromASenderThatGaveUpIsNotTaken) {
  PairWorld world(2);
  world.add(0, 1, 100, PairPayload::kLent);
  LaneTeams teams;
  teams.add_abort(abort_[0],
                  [&] { return std::atomic_ref(world.link(0, 1).receiver_error()).load() != 0; });
  const auto outcomes = run<TakenBack>(world, 2, GetParam(), abort_, std::move(teams));
  EXPECT_EQ(outcomes[1][0].found, 9U);
  expect_all_end(outcomes[1], KernelEnd::kPeerError);
  EXPECT_EQ(world.link(0, 1).head(), 0U);
}

// Each would wait for the other, did it not do both at once: more than the slots hold.
TEST_P(PairLanes, BothSendMoreThanSlotsHold) {
  PairWorld world(2);
  world.add(0, 1, 5000);
  world.add(1, 0, 5000);
  run(world, 2, GetParam(), abort_);
  world.check();
}

TEST_P(PairLanes, AnotherTagEndsAllLanes) {
  PairWorld world(2);
  world.add(0, 1, 100);
  world.add(1, 0, 100);
  world.transfers(0)[0].tag = 77;  // what rank 0 sends
  // Rank 0 may wait for what rank 1 sends no more.
  LaneTeams teams;
  teams.add_abort(abort_[0], [&] { return std::atomic_ref(world.link(0, 1).tail()).load() != 0; });
  const auto outcomes = run(world, 2, GetParam(), abort_, std::move(teams));
  EXPECT_EQ(outcomes[1][0].end, KernelEnd::kTagMismatch);
  EXPECT_EQ(outcomes[1][0].peer, 0U);
  EXPECT_EQ(outcomes[1][0].expected, 1U);
  EXPECT_EQ(outcomes[1][0].found, 77U);
  expect_all_end(outcomes[1], KernelEnd::kTagMismatch);
}

TEST_P(PairLanes, ASlotThatSaysMoreThanItHoldsIsRefused) {
  PairWorld world(2);
  world.add(0, 1, 100);
  Link& link = world.link(0, 1);
  link.slot(0) = {.size = 100, .offset = 64, .tag = 1};  // 164 of 128 bytes
  link.tail() = 1;
  world.transfers(0).clear();
  const auto outcomes = run(world, 2, GetParam(), abort_);
  EXPECT_EQ(outcomes[1][0].end, KernelEnd::kSizeMismatch);
}

TEST_P(PairLanes, AnErrorWordEndsThoseThatLookAtSeveral) {
  PairWorld world(3);
  world.add(1, 0, 10);
  world.add(2, 0, 10);
  world.transfers(1).clear();
  world.transfers(2).clear();
  world.link(2, 0).receiver_error() = 9;
  const auto outcomes = run(world, 3, GetParam(), abort_);
  EXPECT_EQ(outcomes[0][0].end, KernelEnd::kPeerError);
  EXPECT_EQ(outcomes[0][0].peer, 2U);
  EXPECT_EQ(outcomes[0][0].found, 9U);
}

TEST_P(PairLanes, AnAbortEndsThem) {
  PairWorld world(3);
  world.add(1, 0, 10);
  world.add(2, 0, 10);
  world.transfers(1).clear();
  world.transfers(2).clear();
  abort_[0].store(1);
  const auto outcomes = run(world, 3, GetParam(), abort_);
  expect_all_end(outcomes[0], KernelEnd::kAborted);
}

INSTANTIATE_TEST_SUITE_P(Lanes, PairLanes, ::testing::Values(1U, 8U, 32U));

}  // namespace
}  // namespace weft::device::testing
