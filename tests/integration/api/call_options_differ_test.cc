// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks whose options differ for one call, or would, had they not been captured.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/call_options.h"

namespace weft::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(CallOptions, AGraphKeepsThoseOfItsCapture) {
  join(only_transport("shm"));
  set_all(options_of(WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL));
  Round round;
  std::vector<GraphHandle> graphs;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    round.trials.push_back(std::make_unique<Trial>(kSum, rank, kRanks, 0));
    graphs.push_back(capture(context_.get(), streams_[rank].get(), [&] {
      must(context_.get(), round.trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
    }));
  }
  // From the second time on rank 3 calls instead.
  for (int launch = 0; launch < 3; ++launch) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank < 3) clear_all();
      round.trials[rank]->renew(static_cast<std::uint32_t>(launch));
      if (rank < 3 || launch == 0) {
        must(context_.get(), weft_graph_launch(graphs[rank].get(), streams_[rank].get()));
        continue;
      }
      set(rank, options_of(WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL));
      must(context_.get(), round.trials[rank]->start(comms_[rank].get(), streams_[rank].get()));
    }
    synchronize();
    EXPECT_EQ(round.wrong(), "") << launch;
  }
  clear_all();
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    must(context_.get(), weft_graph_launch(graphs[rank].get(), streams_[rank].get()));
  must(context_.get(), round.trials[3]->start(comms_[3].get(), streams_[3].get()));
  EXPECT_EQ(weft_stream_synchronize(streams_[0].get()), WEFT_ERROR_MISMATCH);
  EXPECT_THAT(
      last_error(context_.get()),
      AllOf(HasSubstr("rank 3 called all_reduce of 1000 float32 by sum (call 4)"),
            HasSubstr("called all_reduce of 1000 float32 by sum as tree with ll (call 4)")));
  // Until then they read the buffers.
  for (std::uint32_t rank = 1; rank < kRanks; ++rank)
    EXPECT_EQ(weft_stream_synchronize(streams_[rank].get()), WEFT_ERROR_MISMATCH);
}

// Their data does not meet: they wait for each other on different connections.
TEST_F(CallOptions, RanksThatNameOtherWaysAreBothNamed) {
  join(only_transport("shm"));
  set_all(options_of(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_SIMPLE));
  set(2, options_of(WEFT_CALL_ALGORITHM_DIRECT));
  EXPECT_THAT(mismatch(),
              AllOf(HasSubstr("called all_reduce of 1000 float32 by sum as ring with simple (call "
                              "1)"),
                    HasSubstr("rank 2 called all_reduce of 1000 float32 by sum as direct (call "
                              "1)")));
}

TEST_F(CallOptions, ExchangesOnOtherNumbersOfChannelsAreBothNamed) {
  join(only_transport("shm"));
  set_all(options_of(WEFT_CALL_ALGORITHM_ANY, WEFT_CALL_PROTOCOL_ANY, 3));
  set(2, options_of(WEFT_CALL_ALGORITHM_ANY, WEFT_CALL_PROTOCOL_ANY, 5));
  EXPECT_THAT(mismatch({.kind = Kind::kAllToAll, .count = 100}),
              AllOf(HasSubstr("called all_to_all of 100 float32 on at most 3 channels (call 1)"),
                    HasSubstr("rank 2 called all_to_all of 100 float32 on at most 5 channels (call "
                              "1)")));
}

TEST_F(CallOptions, RanksOfWhichOneNamesNoneAreBothNamed) {
  join(only_transport("shm"));
  set(1, options_of(WEFT_CALL_ALGORITHM_ANY, WEFT_CALL_PROTOCOL_LL128));
  EXPECT_THAT(mismatch(),
              AllOf(HasSubstr("called all_reduce of 1000 float32 by sum (call 1)"),
                    HasSubstr("rank 1 called all_reduce of 1000 float32 by sum with ll128 (call "
                              "1)")));
}

// One channel is enough for so few elements, so both plans are the same.
TEST_F(CallOptions, LimitsOfChannelsThatDifferAreBothNamed) {
  join({"transports.order", "shm", "channels.max", "4"});
  set_all(options_of(WEFT_CALL_ALGORITHM_RING, 0, 2));
  set(3, options_of(WEFT_CALL_ALGORITHM_RING, 0, 3));
  EXPECT_THAT(
      mismatch(),
      AllOf(HasSubstr("called all_reduce of 1000 float32 by sum as ring on at most 2 channels "
                      "(call 1)"),
            HasSubstr("rank 3 called all_reduce of 1000 float32 by sum as ring on at most 3 "
                      "channels (call 1)")));
}

TEST_F(CallOptions, CallsWithoutElementsAreCalls) {
  join(only_transport("shm"));
  const Shape nothing{.kind = Kind::kAllReduce, .count = 0};
  set_all(options_of(WEFT_CALL_ALGORITHM_CHAIN));
  EXPECT_EQ(run(nothing), "");
  clear_all();
  EXPECT_EQ(run(kSum), "");
  set(1, options_of(WEFT_CALL_ALGORITHM_RING));
  EXPECT_EQ(run(nothing), "");
  clear_all();
  EXPECT_THAT(mismatch(), AllOf(HasSubstr("all_reduce of 0 float32 by sum (call 3)"),
                                HasSubstr("all_reduce of 0 float32 by sum as ring (call 3)")));
}

}  // namespace
}  // namespace weft::test
