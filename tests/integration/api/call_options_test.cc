// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The options of single calls: which way they go, and what is refused.
#include "tests/integration/api/call_options.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/standard_error.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

/// A constant, and its name in the configuration; empty for any.
struct Named {
  std::int32_t value;
  std::string name;
};
const std::vector<Named> kAlgorithms = {
    {.value = WEFT_CALL_ALGORITHM_ANY, .name = ""},
    {.value = WEFT_CALL_ALGORITHM_RING, .name = "ring"},
    {.value = WEFT_CALL_ALGORITHM_TREE, .name = "tree"},
    {.value = WEFT_CALL_ALGORITHM_PAT, .name = "pat"},
    {.value = WEFT_CALL_ALGORITHM_DIRECT, .name = "direct"},
    {.value = WEFT_CALL_ALGORITHM_TWO_SHOT, .name = "two-shot"},
    {.value = WEFT_CALL_ALGORITHM_CHAIN, .name = "chain"},
    {.value = WEFT_CALL_ALGORITHM_MULTICAST, .name = "multicast"},
};
const std::vector<Named> kProtocols = {
    {.value = WEFT_CALL_PROTOCOL_ANY, .name = ""},
    {.value = WEFT_CALL_PROTOCOL_SIMPLE, .name = "simple"},
    {.value = WEFT_CALL_PROTOCOL_LL, .name = "ll"},
    {.value = WEFT_CALL_PROTOCOL_LL128, .name = "ll128"},
};
const std::vector<std::pair<Kind, std::string>> kKinds = {
    {Kind::kAllReduce, "all_reduce"},
    {Kind::kBroadcast, "broadcast"},
    {Kind::kReduce, "reduce"},
    {Kind::kAllGather, "all_gather"},
    {Kind::kReduceScatter, "reduce_scatter"},
};

/// By transport.
class CallOptionsOver : public CallOptions, public testing::WithParamInterface<std::string> {
 protected:
  /// Whether the operation has that way, and the ranks are joined for it.
  [[nodiscard]] bool exists(Kind kind, const std::string& algorithm,
                            const std::string& protocol) const {
    const bool memory = GetParam() != "net-socket";
    const bool simple = protocol == "simple";
    const bool of_blocks = kind == Kind::kAllGather || kind == Kind::kReduceScatter;
    if (algorithm == "ring") return simple || memory;
    if (algorithm == "tree") return !of_blocks && (simple || memory);
    if (algorithm == "pat") return (of_blocks || kind == Kind::kAllReduce) && simple;
    if (algorithm == "direct") {
      return memory && protocol == "ll" && kind != Kind::kBroadcast && kind != Kind::kReduce;
    }
    if (algorithm == "two-shot") return memory && simple && kind == Kind::kAllReduce;
    return false;  // a chain is for deterministic sums, multicast for GPUs
  }
  [[nodiscard]] bool exists_any(Kind kind, const std::string& algorithm,
                                const std::string& protocol) const {
    return std::ranges::any_of(kAlgorithms, [&](const Named& one) {
      return !one.name.empty() && (algorithm.empty() || algorithm == one.name) &&
             std::ranges::any_of(kProtocols, [&](const Named& other) {
               return !other.name.empty() && (protocol.empty() || protocol == other.name) &&
                      exists(kind, one.name, other.name);
             });
    });
  }
};

TEST_P(CallOptionsOver, EachWayInTurnOnOneCommunicator) {
  join(only_transport(GetParam()));
  for (const auto& [kind, operation] : kKinds) {
    const Shape shape{.kind = kind, .count = kCount};
    const std::string call = operation + " of " + std::to_string(kCount) + " float32";
    for (const Named& algorithm : kAlgorithms) {
      for (const Named& protocol : kProtocols) {
        const std::string as = algorithm.name.empty() ? "" : " as " + algorithm.name;
        const std::string with = protocol.name.empty() ? "" : " with " + protocol.name;
        SCOPED_TRACE(call + as + with);
        set_all(options_of(algorithm.value, protocol.value));
        if (!exists_any(kind, algorithm.name, protocol.name)) {
          EXPECT_EQ(refused(shape), WEFT_ERROR_UNSUPPORTED);
          EXPECT_THAT(last_error(context_.get()), HasSubstr("the call's options want " + operation +
                                                            as + with + ", which leaves no way: "));
          continue;
        }
        const StandardError written;
        ASSERT_EQ(run(shape), "");
        const bool whole = !algorithm.name.empty() && !protocol.name.empty();
        for (std::uint32_t rank = 0; whole && rank < kRanks; ++rank) {
          const std::string beginning = "rank " + std::to_string(rank) + " plans " + operation;
          const std::string end =
              as + with + ": " + algorithm.name + with + ", the only way of those allowed";
          EXPECT_EQ(written.count(beginning), 1U);
          EXPECT_EQ(written.count(end), kRanks);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, CallOptionsOver, testing::Values("p2p", "shm", "net-socket"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(CallOptions, StayUntilTheyAreSetAnew) {
  join(only_transport("shm"));
  const StandardError written;
  EXPECT_EQ(run(kSum), "");
  set_all(options_of(WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL));
  for (const std::size_t count : {1001, 1002})
    EXPECT_EQ(run({.kind = Kind::kAllReduce, .count = count}), "");
  clear_all();
  EXPECT_EQ(run({.kind = Kind::kAllReduce, .count = 1003}), "");
  EXPECT_EQ(written.count(" as tree with ll: tree with ll, "), 2 * kRanks);
  EXPECT_EQ(written.count("plans all_reduce of 1000 float32 by sum: "), kRanks);
  EXPECT_EQ(written.count("plans all_reduce of 1003 float32 by sum: "), kRanks);
}

TEST_F(CallOptions, ChannelsAreLimited) {
  join({"transports.order", "shm", "channels.max", "4"});
  const Shape large{.kind = Kind::kAllReduce, .count = 300'000};
  const StandardError written;
  for (const std::uint32_t most : {1U, 3U, 0U, 9U}) {
    set_all(options_of(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_SIMPLE, most));
    EXPECT_EQ(run(large), "");
  }
  EXPECT_EQ(written.count("on at most 1 channel: ring with simple"), kRanks);
  EXPECT_EQ(written.count("the call's options allow 1 channel"), kRanks);
  EXPECT_EQ(written.count("all 3 channels: "), kRanks);
  EXPECT_EQ(written.count("all 4 channels: "), 2 * kRanks);
}

TEST_F(CallOptions, EachCallOfAGroupKeepsThoseItWasMadeWith) {
  join(only_transport("shm"));
  const Shape gathered{.kind = Kind::kAllGather, .count = 500};
  const StandardError written;
  Round round;
  must(context_.get(), weft_group_start(context_.get()));
  set_all(options_of(WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_SIMPLE));
  note(kSum, round);
  set_all(options_of(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_LL128));
  note(kSum, round);
  note(gathered, round);
  set_all(options_of(WEFT_CALL_ALGORITHM_PAT));
  note(gathered, round);
  clear_all();
  note(kSum, round);
  must(context_.get(), weft_group_end(context_.get()));
  synchronize();
  EXPECT_EQ(round.wrong(), "");
  EXPECT_EQ(written.count("sum as tree with simple: tree with simple"), kRanks);
  EXPECT_EQ(written.count("sum as ring with ll128: ring with ll128"), kRanks);
  EXPECT_EQ(written.count("float32 as ring with ll128: ring with ll128"), kRanks);
  EXPECT_EQ(written.count("as pat: pat with simple"), kRanks);
  EXPECT_EQ(written.count("by sum: "), kRanks);
}

TEST_F(CallOptions, ARefusedCallTakesItsGroupWithIt) {
  join(only_transport("shm"));
  must(context_.get(), weft_group_start(context_.get()));
  Round round;
  note(kSum, round);
  set_all(options_of(WEFT_CALL_ALGORITHM_CHAIN));
  note(kSum, round);
  EXPECT_EQ(weft_group_end(context_.get()), WEFT_ERROR_UNSUPPORTED);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("the call's options want all_reduce as chain"));
  // Nothing was started, and the handles are as good as before.
  clear_all();
  EXPECT_EQ(run(kSum), "");
}

TEST_F(CallOptions, WhatIsNoneIsRefusedAndChangesNothing) {
  join(only_transport("shm"));
  set_all(options_of(WEFT_CALL_ALGORITHM_TREE));
  const auto answer = [&](const weft_call_options& options) {
    return weft_comm_set_call_options(comms_[0].get(), &options);
  };
  EXPECT_EQ(answer(options_of(8)), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("weft_call_options.algorithm 8 is none"));
  EXPECT_EQ(answer(options_of(-1)), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(answer(options_of(WEFT_CALL_ALGORITHM_RING, 4)), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("weft_call_options.protocol 4 is none"));
  weft_call_options small = options_of(WEFT_CALL_ALGORITHM_RING);
  small.struct_size = 12;
  EXPECT_EQ(answer(small), WEFT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("weft_call_options.struct_size is 12, less than the 16"));
  EXPECT_EQ(weft_comm_set_call_options(nullptr, &small), WEFT_ERROR_INVALID_ARGUMENT);
  // A later version's, of which only the beginning is known.
  struct {
    weft_call_options known = options_of(WEFT_CALL_ALGORITHM_TREE);
    std::uint64_t unknown = ~std::uint64_t{0};
  } later;
  later.known.struct_size = sizeof(later);
  const StandardError written;
  must(context_.get(), weft_comm_set_call_options(comms_[3].get(), &later.known));
  EXPECT_EQ(run(kSum), "");
  EXPECT_EQ(written.count(" as tree: tree with "), kRanks);
}

TEST_F(CallOptions, TheConfigurationStandsAboveThem) {
  join({"transports.order", "shm", "collectives.all_reduce.algorithm", "ring"});
  set_all(options_of(WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_SIMPLE));
  EXPECT_EQ(refused(kSum), WEFT_ERROR_UNSUPPORTED);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("tree with simple: collectives.all_reduce.algorithm leaves it out"));
  // That of another operation is its own.
  EXPECT_EQ(run({.kind = Kind::kBroadcast, .count = kCount}), "");
}

TEST_F(CallOptions, TheOrderOfSumsStandsAboveThem) {
  join({"transports.order", "shm", "collectives.deterministic", "true"});
  set_all(options_of(WEFT_CALL_ALGORITHM_RING));
  EXPECT_EQ(refused(kSum), WEFT_ERROR_UNSUPPORTED);
  EXPECT_THAT(last_error(context_.get()),
              HasSubstr("ring with simple: deterministic: it does not add up by rank numbers"));
  EXPECT_EQ(run({.kind = Kind::kAllReduce, .count = kCount, .type = WEFT_INT32}), "");
  set_all(options_of(WEFT_CALL_ALGORITHM_CHAIN));
  const StandardError written;
  EXPECT_EQ(run(kSum), "");
  EXPECT_EQ(written.count(" as chain: chain with simple, "), kRanks);
}

// Those that have one way alone have no other, and a limit at most.
TEST_F(CallOptions, ExchangesAndSendsGoTheirOnlyWay) {
  join(only_transport("shm"));
  const auto set_ways = [this](auto limit_of) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      set(rank, options_of(rank % 2 == 0 ? WEFT_CALL_ALGORITHM_PAT : WEFT_CALL_ALGORITHM_TREE,
                           WEFT_CALL_PROTOCOL_LL128, limit_of(rank)));
  };
  set_ways([](std::uint32_t /*rank*/) { return 3U; });
  for (const Kind kind : {Kind::kAllToAll, Kind::kAllToAllV, Kind::kGather, Kind::kScatter})
    EXPECT_EQ(run({.kind = kind, .count = 100}), "");
  // Each end may have its own.
  set_ways([](std::uint32_t rank) { return rank; });
  std::int32_t sent = 4711;
  std::int32_t received = 0;
  must(context_.get(), weft_send(&sent, 1, WEFT_INT32, 1, comms_[0].get(), streams_[0].get()));
  must(context_.get(), weft_recv(&received, 1, WEFT_INT32, 0, comms_[1].get(), streams_[1].get()));
  synchronize();
  EXPECT_EQ(received, sent);
}

TEST_F(CallOptions, BlocksThatDifferGoTheirWays) {
  join(only_transport("shm"));
  for (const Kind kind : {Kind::kAllGatherV, Kind::kReduceScatterV}) {
    const Shape shape{.kind = kind, .count = 100};
    set_all(options_of(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_SIMPLE));
    EXPECT_EQ(run(shape), "");
    set_all(options_of(WEFT_CALL_ALGORITHM_RING, WEFT_CALL_PROTOCOL_LL));
    EXPECT_EQ(refused(shape), WEFT_ERROR_UNSUPPORTED);
    EXPECT_THAT(last_error(context_.get()), HasSubstr("_v as ring with ll, which leaves no way"));
  }
}

// Ways that connect when they are first gone, on handles that never block.
TEST_F(CallOptions, AHandleThatNeverBlocksTakesThem) {
  const CommSettings named({"transports.order", "shm", "timeouts.operation", "60s"});
  weft_comm_config config = *named.get();
  config.nonblocking = 1;
  std::vector<weft_comm*> raw(kRanks);
  ASSERT_EQ(weft_comm_init_all(context_.get(), &config, kRanks, raw.data()), WEFT_IN_PROGRESS);
  comms_ = std::vector<CommHandle>(raw.begin(), raw.end());
  streams_ = make_streams(context_.get(), kRanks);
  const auto settle = [&] {
    for (const CommHandle& comm : comms_) {
      weft_result state = WEFT_IN_PROGRESS;
      while (state == WEFT_IN_PROGRESS) {
        must(context_.get(), weft_comm_get_async_error(comm.get(), &state));
        look_later();
      }
      EXPECT_EQ(state, WEFT_OK) << last_error(context_.get());
    }
  };
  settle();
  const StandardError written;
  set_all(options_of(WEFT_CALL_ALGORITHM_CHAIN));
  ASSERT_EQ(refused(kSum), WEFT_ERROR_UNSUPPORTED);
  set_all(options_of(WEFT_CALL_ALGORITHM_TREE, WEFT_CALL_PROTOCOL_LL));
  Round round;
  must(context_.get(), weft_group_start(context_.get()));
  note(kSum, round);
  const weft_result begun = weft_group_end(context_.get());
  EXPECT_EQ(begun, WEFT_IN_PROGRESS) << last_error(context_.get());
  settle();
  synchronize();
  EXPECT_EQ(round.wrong(), "");
  EXPECT_EQ(written.count(" as tree with ll: tree with ll, "), kRanks);
}

TEST_F(CallOptions, AHandleThatStillJoinsTakesNone) {
  weft_unique_id id{};
  must(context_.get(), weft_get_unique_id(context_.get(), &id));
  weft_comm_config config{};
  config.struct_size = sizeof(config);
  config.nonblocking = 1;
  weft_comm* raw = nullptr;
  // The other rank never comes.
  ASSERT_EQ(weft_comm_init_rank(context_.get(), &config, 2, &id, 0, &raw), WEFT_IN_PROGRESS);
  const CommHandle comm(raw);
  const weft_call_options options = options_of(WEFT_CALL_ALGORITHM_RING);
  EXPECT_EQ(weft_comm_set_call_options(raw, &options), WEFT_ERROR_INVALID_USAGE);
  EXPECT_THAT(last_error(context_.get()), HasSubstr("is still joining its communicator"));
}

}  // namespace
}  // namespace weft::test
