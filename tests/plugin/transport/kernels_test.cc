// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Kernels over connections of p2p between ranks on devices, in both of its modes: each rank's
// kernel uses the addresses that its own end was told. The devices' memory is that of
// fake_devices.h, the kernels are those of the host device.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/model/chain_links.h"
#include "core/model/operation.h"
#include "core/model/pat_links.h"
#include "core/model/tree_links.h"
#include "core/model/work_item.h"
#include "tests/device/ring_runner.h"
#include "tests/plugin/transport/fake_devices.h"
#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

using device::testing::RingRunner;

constexpr std::uint32_t kRanks = 5;
constexpr Protocol kSlots = {WEFT_PROTOCOL_SIMPLE, 2, 512};
constexpr std::uint64_t kCount = 555;  // rounds over all slots, and a short chunk at the end

ConnectionView view_of(const weft_protocol_view& described, ConnectionCursor& cursor,
                       std::uint32_t peer) {
  return {.buffer = static_cast<std::byte*>(described.buffer),
          .head = described.head,
          .tail = described.tail,
          .slots = reinterpret_cast<SlotMeta*>(described.slots),
          .error = described.error,
          .peer_error = described.peer_error,
          .cursor = &cursor,
          .steps = described.steps,
          .step_bytes = described.step_bytes,
          .peer = peer};
}

/// Ranks on devices, and the connections between them that somebody asked for.
class World {
 public:
  explicit World(const std::string& mode) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(
          load_plugin(plugin_path()),
          Rank::Options{.rank = rank,
                        .ranks = kRanks,
                        .device = static_cast<std::int32_t>(rank),
                        .memory = &FakeDevices::table(),
                        .parameters = {{"mode", mode}, {"device_sharing", "auto"}}}));
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    for (const auto& [between, link] : links_) {
      ranks_[between.first]->close(link.send);
      ranks_[between.second]->close(link.recv);
    }
  }

  ConnectionView sender(std::uint32_t from, std::uint32_t to) {
    Link& link = join(from, to);
    return view_of(ranks_[from]->describe(link.send), link.sender, to);
  }
  ConnectionView receiver(std::uint32_t from, std::uint32_t to) {
    Link& link = join(from, to);
    return view_of(ranks_[to]->describe(link.recv), link.receiver, from);
  }

 private:
  struct Link {
    weft_connection* send = nullptr;
    weft_connection* recv = nullptr;
    ConnectionCursor sender;
    ConnectionCursor receiver;
  };

  Link& join(std::uint32_t from, std::uint32_t to) {
    const auto [known, is_new] = links_.try_emplace({from, to});
    Link& link = known->second;
    if (!is_new) return link;
    const std::uint64_t number = from * kRanks + to;
    link.send = ranks_[from]->prepare(WEFT_DIRECTION_SEND, to, number, {kSlots});
    link.recv = ranks_[to]->prepare(WEFT_DIRECTION_RECV, from, number, {kSlots});
    const Bytes from_send = ranks_[from]->blob(link.send);
    const Bytes from_recv = ranks_[to]->blob(link.recv);
    weft_result sends = WEFT_IN_PROGRESS;
    weft_result receives = WEFT_IN_PROGRESS;
    for (int round = 0; round < 100 && (sends > 0 || receives > 0); ++round) {
      if (sends > 0) sends = ranks_[from]->connect(link.send, from_recv);
      if (receives > 0) receives = ranks_[to]->connect(link.recv, from_send);
    }
    EXPECT_EQ(sends, WEFT_OK) << ranks_[from]->host().last_error().what;
    EXPECT_EQ(receives, WEFT_OK) << ranks_[to]->host().last_error().what;
    return link;
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> links_;
};

struct Call {
  Algorithm algorithm;
  Operation operation;
  weft_reduction reduction = WEFT_SUM;
};
class P2pKernels : public testing::TestWithParam<std::tuple<std::string, Call>> {
 protected:
  P2pKernels() : world(std::get<0>(GetParam())), call(std::get<1>(GetParam())) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      join(rank);
  }

  /// All that the algorithm needs of this rank's neighbours; rank 0 is the root.
  void join(std::uint32_t rank) {
    const std::uint32_t next = (rank + 1) % kRanks;
    const std::uint32_t previous = (rank + kRanks - 1) % kRanks;
    to_next[rank] = world.sender(rank, next);
    from_previous[rank] = world.receiver(previous, rank);
    // Of two children each: the partial sum of the second lies in the slot of the first.
    TreeLinks& tree = trees[rank];
    tree.root = rank == 0;
    if (rank != 0) {
      tree.to_parent = world.sender(rank, (rank - 1) / 2);
      tree.from_parent = world.receiver((rank - 1) / 2, rank);
    }
    for (std::uint32_t child = 2 * rank + 1; child < 2 * rank + 3 && child < kRanks; ++child) {
      tree.from_child[tree.children] = world.receiver(child, rank);
      tree.to_child[tree.children++] = world.sender(rank, child);
    }
    for (std::uint32_t distance = 1; distance < kRanks; distance *= 2) {
      const std::uint32_t ahead = (rank + distance) % kRanks;
      const std::uint32_t behind = (rank + kRanks - distance) % kRanks;
      PatLinks& pat = pats[rank];
      pat.gather.to[pat.levels] = world.sender(rank, ahead);
      pat.gather.from[pat.levels] = world.receiver(behind, rank);
      pat.scatter.to[pat.levels] = world.sender(rank, behind);
      pat.scatter.from[pat.levels++] = world.receiver(ahead, rank);
    }
    ChainLinks& chain = chains[rank];
    chain.rank = rank;
    if (rank + 1 != kRanks) {
      chain.to_above = world.sender(rank, rank + 1);
      chain.from_above = world.receiver(rank + 1, rank);
    }
    if (rank != 0) {
      chain.to_below = world.sender(rank, rank - 1);
      chain.from_below = world.receiver(rank - 1, rank);
    }
  }

  std::vector<WorkItem> items(std::uint32_t rank, OperationTag tag) {
    WorkItem item;
    item.operation = call.operation;
    item.algorithm = call.algorithm;
    item.type = WEFT_INT32;
    item.reduction = call.reduction;
    item.send = reinterpret_cast<const std::byte*>(inputs[rank].data());
    item.recv = reinterpret_cast<std::byte*>(outputs[rank].data());
    item.count = kCount;
    item.chunk = kSlots.step_bytes / sizeof(std::int32_t);
    item.stride = kCount;
    item.ring = order.data();
    item.ranks = kRanks;
    item.ring_position = rank;
    item.tag = tag;
    item.from_previous = from_previous[rank];
    item.to_next = to_next[rank];
    item.tree = &trees[rank];
    item.pat = &pats[rank];
    item.chain = &chains[rank];
    return {item};
  }

  void fill() {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      inputs[rank].resize(call.operation == Operation::kReduceScatter ? kCount * kRanks : kCount);
      outputs[rank].assign(call.operation == Operation::kAllGather ? kCount * kRanks : kCount, -1);
      for (std::size_t i = 0; i < inputs[rank].size(); ++i)
        inputs[rank][i] = value(rank, i);
    }
  }
  [[nodiscard]] std::int32_t due(std::uint32_t rank, std::uint64_t i) const {
    if (call.operation == Operation::kBroadcast) return value(0, i);
    if (call.operation == Operation::kAllGather) {
      return value(static_cast<std::uint32_t>(i / kCount), i % kCount);
    }
    const std::uint64_t first = call.operation == Operation::kReduceScatter ? rank * kCount : 0;
    std::int32_t sum = 0;
    for (std::uint32_t other = 0; other < kRanks; ++other)
      sum += value(other, first + i);
    return call.reduction == WEFT_AVG ? sum / static_cast<std::int32_t>(kRanks) : sum;
  }

  static std::int32_t value(std::uint32_t rank, std::uint64_t index) {
    return static_cast<std::int32_t>(1000 * rank + 7 * index + 1);
  }

  World world;
  const Call call;
  const std::vector<std::uint32_t> order = [] {
    std::vector<std::uint32_t> numbers(kRanks);
    std::iota(numbers.begin(), numbers.end(), 0U);
    return numbers;
  }();
  std::vector<ConnectionView> to_next = std::vector<ConnectionView>(kRanks);
  std::vector<ConnectionView> from_previous = std::vector<ConnectionView>(kRanks);
  std::vector<TreeLinks> trees = std::vector<TreeLinks>(kRanks);
  std::vector<PatLinks> pats = std::vector<PatLinks>(kRanks);
  std::vector<ChainLinks> chains = std::vector<ChainLinks>(kRanks);
  std::vector<std::vector<std::int32_t>> inputs = std::vector<std::vector<std::int32_t>>(kRanks);
  std::vector<std::vector<std::int32_t>> outputs = std::vector<std::vector<std::int32_t>>(kRanks);
};

TEST_P(P2pKernels, GiveTheirResultsCallAfterCall) {
  RingRunner runner(kRanks);
  for (OperationTag tag = 1; tag <= 2; ++tag) {
    fill();
    const auto results = runner.run([&](std::uint32_t rank) { return items(rank, tag); });
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(results[rank], WEFT_OK) << "rank " << rank;
      if (call.operation == Operation::kReduce && rank != 0) continue;
      for (std::uint64_t i = 0; i < outputs[rank].size(); ++i)
        ASSERT_EQ(outputs[rank][i], due(rank, i)) << "rank " << rank << ", element " << i;
    }
  }
}

std::string name_of(const testing::TestParamInfo<P2pKernels::ParamType>& info) {
  const auto& [mode, call] = info.param;
  std::string name = mode + '_' + std::string(algorithm_name(call.algorithm)) + '_' +
                     std::string(operation_name(call.operation));
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Modes, P2pKernels,
    testing::Combine(testing::Values("write", "read"),
                     testing::Values(Call{Algorithm::kRing, Operation::kAllReduce, WEFT_AVG},
                                     Call{Algorithm::kRing, Operation::kBroadcast},
                                     Call{Algorithm::kRing, Operation::kReduce},
                                     Call{Algorithm::kRing, Operation::kAllGather},
                                     Call{Algorithm::kRing, Operation::kReduceScatter},
                                     Call{Algorithm::kTree, Operation::kAllReduce, WEFT_AVG},
                                     Call{Algorithm::kTree, Operation::kBroadcast},
                                     Call{Algorithm::kPat, Operation::kAllReduce},
                                     Call{Algorithm::kPat, Operation::kAllGather},
                                     Call{Algorithm::kPat, Operation::kReduceScatter, WEFT_AVG},
                                     Call{Algorithm::kChain, Operation::kAllReduce},
                                     // Finished where it came to, before it goes down.
                                     Call{Algorithm::kChain, Operation::kReduce, WEFT_AVG})),
    name_of);

}  // namespace
}  // namespace weft::test
