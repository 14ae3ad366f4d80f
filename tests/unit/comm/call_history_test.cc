// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/call_history.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

Task sum_of_ints(std::uint64_t count) {
  return {.operation = Operation::kAllReduce,
          .type = WEFT_INT32,
          .reduction = WEFT_SUM,
          .root = 0,
          .count = count};
}

CallNote note_of(std::uint64_t count, std::uint64_t sequence) {
  return {.sequence = sequence,
          .tag = make_operation_tag(sum_of_ints(count), sequence),
          .count = count};
}

TEST(CallHistory, FindsTheCallsMadeLast) {
  CallHistory history;
  EXPECT_EQ(history.latest(), 0U);
  EXPECT_EQ(history.find(0), std::nullopt);
  EXPECT_EQ(history.find(1), std::nullopt);
  EXPECT_EQ(history.add(sum_of_ints(5)), 1U);
  EXPECT_EQ(history.find(1), note_of(5, 1));
  EXPECT_EQ(history.find(0), std::nullopt);
  EXPECT_EQ(history.find(2), std::nullopt);
}

TEST(CallHistory, ForgetsWhatIsLongGone) {
  CallHistory history;
  const std::uint64_t calls = 3 * CallHistory::kLength + 7;
  for (std::uint64_t call = 1; call <= calls; ++call)
    ASSERT_EQ(history.add(sum_of_ints(call)), call);
  EXPECT_EQ(history.latest(), calls);
  for (std::uint64_t call = 0; call <= calls + 2; ++call) {
    const bool remembered = call <= calls && call + CallHistory::kLength > calls;
    EXPECT_EQ(history.find(call), remembered ? std::optional(note_of(call, call)) : std::nullopt)
        << call;
  }
}

TEST(CallHistory, FindsACallByItsTag) {
  CallHistory history;
  EXPECT_EQ(history.find_tag(note_of(1, 1).tag), std::nullopt);
  for (std::uint64_t call = 1; call <= 70'000; ++call)
    history.add(sum_of_ints(call));
  EXPECT_EQ(history.find_tag(note_of(70'000, 70'000).tag), note_of(70'000, 70'000));
  EXPECT_EQ(history.find_tag(note_of(69'500, 69'500).tag), note_of(69'500, 69'500));
  EXPECT_EQ(history.find_tag(note_of(60'000, 60'000).tag), std::nullopt);  // long gone
  EXPECT_EQ(history.find_tag(note_of(5, 70'000).tag), std::nullopt);       // another call
  EXPECT_EQ(history.find_tag(note_of(70'001, 70'001).tag), std::nullopt);  // still to come
}

// Which tags of later calls carry: they differ once calls have differed.
TEST(CallHistory, KeepsAChecksumOfWhatCameBefore) {
  CallHistory one;
  CallHistory other;
  one.add(sum_of_ints(5));
  EXPECT_EQ(one.past(), 0U);
  other.add(sum_of_ints(5));
  one.add(sum_of_ints(6));
  other.add(sum_of_ints(7));
  EXPECT_EQ(one.past(), other.past());
  EXPECT_NE(one.past(), 0U);
  for (int call = 0; call < 3; ++call) {
    one.add(sum_of_ints(1));
    other.add(sum_of_ints(1));
    EXPECT_NE(one.past(), other.past()) << call;
    EXPECT_EQ(one.tag(), make_operation_tag(sum_of_ints(1), one.latest(), one.past()));
    EXPECT_NE(make_operation_tag(sum_of_ints(1), 3, one.past()),
              make_operation_tag(sum_of_ints(1), 3, other.past()));
  }
}

TEST(CallHistory, TellsNumbersByTheirLastBits) {
  const auto tag = [](std::uint64_t sequence) {
    return make_operation_tag(sum_of_ints(1), sequence);
  };
  for (const std::uint64_t mine : {1ULL, 40'000ULL, 65'535ULL, 65'536ULL, 70'000ULL, 1ULL << 40}) {
    for (const std::int64_t ahead : {0, 1, 30'000, -1, -30'000}) {
      const std::uint64_t theirs = mine + static_cast<std::uint64_t>(ahead);
      if (theirs > mine + 30'000) continue;  // before the first call
      EXPECT_EQ(sequence_near(mine, tag(theirs)), theirs) << mine;
    }
  }
  EXPECT_EQ(sequence_near(1, tag(65'000)), 65'000U) << "no number is below 0";
}

TEST(SentHistory, FindsTheLatestMessageWithATag) {
  SentHistory history;
  EXPECT_EQ(history.find(0, 0), std::nullopt) << "an empty place";
  for (std::uint64_t i = 1; i <= SentHistory::kLength + 5; ++i)
    history.add(static_cast<std::uint32_t>(i % 3), {.sequence = i, .tag = i % 100, .count = 2 * i});
  EXPECT_EQ(history.find(0, 61), (CallNote{.sequence = 261, .tag = 61, .count = 522}));
  EXPECT_EQ(history.find(1, 61), (CallNote{.sequence = 61, .tag = 61, .count = 122}));
  EXPECT_EQ(history.find(1, 100), std::nullopt);
}

TEST(Complaints, TravelAsBytes) {
  Complaint complaint{.peer = 7, .found = ~1ULL, .waiting = note_of(8, 1ULL << 40)};
  for (std::uint64_t call = 1; call <= 2 * kMostComplaintCalls; ++call) {
    const auto bytes = encode_complaint(complaint);
    const auto back = decode_complaint(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->peer, 7U);
    EXPECT_EQ(back->found, ~1ULL);
    EXPECT_EQ(back->waiting, complaint.waiting);
    ASSERT_EQ(back->calls.size(), std::min(complaint.calls.size(), kMostComplaintCalls));
    EXPECT_TRUE(
        std::ranges::equal(back->calls, std::span(complaint.calls).first(back->calls.size())));
    EXPECT_EQ(decode_call_note(bytes), std::nullopt);
    EXPECT_EQ(decode_complaint(std::span(bytes).first(bytes.size() - 1)), std::nullopt);
    complaint.calls.push_back(note_of(call, call));
  }
  EXPECT_EQ(decode_complaint({}), std::nullopt);
  EXPECT_EQ(decode_complaint(encode_call_note(note_of(8, 3))), std::nullopt);
  auto no_rank = encode_complaint(complaint);
  no_rank[4] = std::byte{1};
  EXPECT_EQ(decode_complaint(no_rank), std::nullopt);
}

TEST(CallNotes, TravelAsBytes) {
  const CallNote note{.sequence = 1ULL << 40, .tag = ~0ULL, .count = 77, .max_channels = 5};
  const auto bytes = encode_call_note(note);
  EXPECT_EQ(decode_call_note(bytes), note);
  EXPECT_EQ(decode_call_note(std::span(bytes).first(bytes.size() - 1)), std::nullopt);
  EXPECT_EQ(decode_call_note({}), std::nullopt);
  auto longer = bytes;
  longer.push_back({});
  EXPECT_EQ(decode_call_note(longer), std::nullopt);
}

TEST(CallNotes, AreDescribedWhateverTheyHold) {
  EXPECT_EQ(describe_call(note_of(8, 3)), "all_reduce of 8 int32 by sum (call 3)");
  EXPECT_EQ(describe_call({.sequence = 2, .tag = ~0ULL, .count = 1}),
            "an operation that this version does not know (call 2)");
}

TEST(FindMismatch, NamesBothCallsAndOnlyWhereTheyDiffer) {
  EXPECT_EQ(find_mismatch(note_of(8, 3), 0, note_of(8, 3), 1), std::nullopt);
  EXPECT_EQ(find_mismatch(note_of(9, 2), 0, note_of(8, 3), 1), std::nullopt);
  CallNote same_hash = note_of(8, 3);
  same_hash.count = 80'000;
  EXPECT_NE(find_mismatch(same_hash, 0, note_of(8, 3), 1), std::nullopt);
  const auto error = find_mismatch(note_of(9, 3), 0, note_of(8, 3), 1);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), WEFT_ERROR_MISMATCH);
  EXPECT_EQ(error->what(),
            "rank 0 called all_reduce of 9 int32 by sum (call 3), but rank 1 called "
            "all_reduce of 8 int32 by sum (call 3)");
}

TEST(FindMismatch, NamesOptionsThatDiffer) {
  const auto with = [](WayOptions options) {
    Task task = sum_of_ints(8);
    task.options = options;
    return make_call_note(task, 3);
  };
  const std::vector<CallNote> notes = {
      with({}),
      with({.algorithm = Algorithm::kRing}),
      with({.algorithm = Algorithm::kTree}),
      with({.algorithm = Algorithm::kTree, .protocol = Protocol::kLL}),
      with({.protocol = Protocol::kLL}),
      with({.protocol = Protocol::kLL128}),
      with({.max_channels = 1}),
      with({.max_channels = 2}),
      with({.algorithm = Algorithm::kChain, .protocol = Protocol::kSimple, .max_channels = 3})};
  for (const CallNote& one : notes) {
    for (const CallNote& other : notes)
      EXPECT_EQ(find_mismatch(one, 0, other, 1).has_value(), &one != &other);
  }
  EXPECT_EQ(find_mismatch(notes[3], 0, notes[8], 1)->what(),
            "rank 0 called all_reduce of 8 int32 by sum as tree with ll (call 3), but rank 1 "
            "called all_reduce of 8 int32 by sum as chain with simple on at most 3 channels (call "
            "3)");
  EXPECT_EQ(describe_call(notes[5]), "all_reduce of 8 int32 by sum with ll128 (call 3)");
  EXPECT_EQ(describe_call(notes[6]), "all_reduce of 8 int32 by sum on at most 1 channel (call 3)");
  EXPECT_EQ(describe_operation(notes[6].tag, "8"),
            "all_reduce of 8 int32 by sum on a limited number of channels");
}

// The fingerprint of a tag is of both.
TEST(CallHistory, KeepsTheOptionsOfCalls) {
  CallHistory history;
  Task task = sum_of_ints(5);
  task.options = {.algorithm = Algorithm::kRing, .max_channels = 7};
  history.add(task);
  EXPECT_EQ(history.find(1), make_call_note(task, 1));
  EXPECT_EQ(history.find(1)->max_channels, 7U);
}

TEST(FindMismatch, HasNothingToCompareWithASendOrReceive) {
  // What a rank says that leaves before any call, to one that waits in a send.
  CallNote waiting = note_of(8, 0);
  waiting.tag = make_operation_tag(
      {.operation = Operation::kSend, .type = WEFT_INT32, .root = 1, .count = 8}, 0);
  EXPECT_EQ(find_mismatch({}, 2, waiting, 0), std::nullopt);
}

TEST(FindEarlyLeaver, NamesWhoLeftBeforeTheCall) {
  EXPECT_EQ(find_early_leaver(note_of(8, 3), 2, note_of(8, 3), 1), std::nullopt);
  EXPECT_EQ(find_early_leaver(note_of(8, 4), 2, note_of(8, 3), 1), std::nullopt);
  const auto error = find_early_leaver(note_of(9, 2), 2, note_of(8, 3), 1);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), WEFT_ERROR_PEER);
  EXPECT_EQ(error->source(), ErrorSource::kPeer);
  EXPECT_EQ(error->native(), 2);
  EXPECT_EQ(error->what(),
            "rank 2 left the communicator after all_reduce of 9 int32 by sum (call 2), but rank 1 "
            "called all_reduce of 8 int32 by sum (call 3)");
  EXPECT_NE(find_early_leaver({}, 2, note_of(8, 3), 1)->what().find("before any call"),
            std::string::npos);
}

TEST(CallNotes, NameWhatSetsACallApart) {
  const auto named = [](Operation operation, std::uint32_t root) {
    const Task task{
        .operation = operation, .type = WEFT_INT64, .reduction = WEFT_MIN, .root = root};
    return describe_operation(make_operation_tag(task, 1), "5");
  };
  EXPECT_EQ(named(Operation::kAllReduce, 0), "all_reduce of 5 int64 by min");
  EXPECT_EQ(named(Operation::kReduceScatter, 0), "reduce_scatter of 5 int64 by min");
  EXPECT_EQ(named(Operation::kReduce, 2), "reduce of 5 int64 by min to rank 2");
  EXPECT_EQ(named(Operation::kBroadcast, 2), "broadcast of 5 int64 from rank 2");
  EXPECT_EQ(named(Operation::kAllGather, 0), "all_gather of 5 int64");
  EXPECT_EQ(named(Operation::kAllToAll, 0), "all_to_all of 5 int64");
  EXPECT_EQ(named(Operation::kGather, 2), "gather of 5 int64 to rank 2");
  EXPECT_EQ(named(Operation::kScatter, 2), "scatter of 5 int64 from rank 2");
  EXPECT_EQ(named(Operation::kAllToAllV, 0), "all_to_all_v of 5 int64") << "one block of it";
  EXPECT_EQ(named(Operation::kAllGatherV, 77), "all_gather_v of 5 int64 by counts of checksum 77");
  EXPECT_EQ(describe_call({.sequence = 3,
                           .tag = make_operation_tag(
                               {.operation = Operation::kAllToAllV, .type = WEFT_INT64}, 3),
                           .count = 0}),
            "all_to_all_v of int64 (call 3)");
  EXPECT_EQ(named(Operation::kSend, 3), "send of 5 int64 to rank 3");
  EXPECT_EQ(named(Operation::kRecv, 3), "recv of 5 int64 from rank 3");
}

}  // namespace
}  // namespace weft
