// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Kernels that write to each other directly over a net: those of GPUs, each with several lanes and
// parts, and the ports that move their lines as messages.
#include "core/comm/inbox_ports.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/memory_account.h"
#include "core/comm/bound_plan.h"
#include "core/device/any_reduction.h"
#include "core/device/one_shot_blocks.h"
#include "core/device/work_item_kernel.h"
#include "core/transport/net_port.h"
#include "tests/device/direct_world.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"
#include "tests/device/typed_dispatch.h"
#include "tests/support/loopback_net.h"

namespace weft {
namespace {

using device::testing::DirectWorld;
using device::testing::LaneFibers;
using device::testing::LaneGroup;
using device::testing::LaneMemory;
using device::testing::LaneTeams;
using test::LoopbackNet;

constexpr std::uint64_t kMostBytes = 20000;
constexpr std::uint32_t kLanes = 8;
using Numbers = std::vector<std::int32_t>;

struct Shape {
  std::uint32_t ranks;
  std::uint32_t parts;
  std::uint32_t stripes = 1;
  std::uint32_t period = kFlagPeriod;
};

/// Ranks with a port for each stripe, and as many connections each way between any two.
class World {
 public:
  explicit World(const Shape& shape)
      : shape_(shape), net_({.seed = 7, .again_percent = 30, .shuffle = true}) {
    const auto half = static_cast<std::uint32_t>(direct_half_bytes(kMostBytes));
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      for (std::uint32_t stripe = 0; stripe < shape.stripes; ++stripe) {
        nets_.push_back(net_.open());
        memory_.push_back(std::make_unique<MemoryAccount>(net_.runtime()));
        ports_.push_back(std::make_unique<NetPort>(net_.plugin(), nets_.back(), net_.runtime(),
                                                   *memory_.back(),
                                                   [this](const Error& error) { note(error); }));
      }
      pairs_.emplace_back(std::size_t{shape.ranks} * shape.stripes);
      peers_.push_back(direct_.peers(rank));
    }
    for (std::uint32_t from = 0; from < shape.ranks; ++from) {
      for (std::uint32_t to = 0; to < shape.ranks; ++to) {
        if (from == to) continue;
        const auto add_halves = [&] {
          auto& lines = halves_.emplace_back(std::size_t{kDirectHalves} * half, std::byte{0});
          return InboxHalves{.begin = lines.data(), .half_bytes = half, .period = shape.period};
        };
        const InboxHalves stored = add_halves();
        const InboxHalves looked_for = add_halves();
        peers_[from].outbox[to] = stored.begin;
        peers_[to].inbox[from] = looked_for.begin;
        peers_[from].peer_error[to] = peers_[from].error[to];
        for (std::uint32_t stripe = 0; stripe < shape.stripes; ++stripe) {
          const auto number = [&](std::uint32_t rank) { return rank * shape.stripes + stripe; };
          const LoopbackNet::Pair pair = net_.connect(nets_[number(from)], nets_[number(to)]);
          const auto add = [&](std::uint32_t rank, std::uint32_t peer, ConnectionEnd& end,
                               weft_net_connection* connection, weft_direction direction,
                               const InboxHalves& halves) {
            end.port = ports_[number(rank)].get();
            end.port_connection = end.port->add_lines(connection, direction, peer, halves).value();
          };
          add(from, to, pairs_[from][number(to)].to, pair.sender, WEFT_DIRECTION_SEND, stored);
          add(to, from, pairs_[to][number(from)].from, pair.receiver, WEFT_DIRECTION_RECV,
              looked_for);
        }
      }
    }
    const std::vector<std::uint32_t> stripes(shape.ranks, shape.stripes);
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      inboxes_.push_back(std::make_unique<InboxPorts>(
          shape.ranks, rank, inbox_links(stripes, rank),
          [&, rank](const PairLink& link) -> const PairConnections& {
            return pairs_[rank][link.peer * shape.stripes + inbox_stripe(link.channel)];
          },
          shape.period));
    }
  }
  ~World() {
    ports_.clear();
    for (weft_net* net : nets_)
      net_.plugin().close(net);
    EXPECT_EQ(net_.open_objects(), 0);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  WorkItem item(std::uint32_t rank, const Task& task, std::uint64_t call, const Numbers& input,
                Numbers& output) const {
    WorkItem made = direct_.item(rank, task, call, input.data(), output.data());
    made.direct = &peers_[rank];
    made.stride = task.count;
    made.ring_position =
        (rank + shape_.ranks - (has_root(task.operation) ? task.root : 0)) % shape_.ranks;
    return made;
  }

  /// A call of each rank; answers the leaders' outcomes, of each rank's parts.
  std::vector<std::vector<KernelOutcome>> run(const std::vector<WorkItem>& items) {
    std::vector<std::vector<KernelOutcome>> outcomes(shape_.ranks,
                                                     std::vector<KernelOutcome>(shape_.parts));
    std::uint32_t left = shape_.ranks * shape_.parts;
    bool failed = false;
    LaneTeams teams;
    for (std::uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      for (std::uint32_t part = 0; part < shape_.parts; ++part) {
        const auto run_lane = [&, rank, part](LaneGroup& group) {
          LaneMemory memory(abort_);
          const KernelOutcome outcome = run_part(group, memory, items[rank], part);
          if (!group.leader()) return;
          outcomes[rank][part] = outcome;
          failed = failed || outcome.end != KernelEnd::kDone;
          --left;
        };
        teams.add("rank " + std::to_string(rank), kLanes, run_lane);
      }
      inboxes_[rank]->enqueue(items[rank], shape_.parts);
    }
    // What is still under way when the kernels have ended goes, too; of calls that differ one may
    // wait for stripes that the other does not have.
    teams.add("ports", 1, [&](LaneGroup& /*group*/) {
      const auto are_busy = [&] {
        return std::ranges::any_of(ports_, [](const auto& port) { return port->busy(); });
      };
      while (left != 0 || (!failed && are_busy())) {
        for (const auto& port : ports_)
          port->progress();
        LaneFibers::look_again({.what = "messages"});
      }
    });
    teams.run();
    return outcomes;
  }

  [[nodiscard]] std::vector<std::string> failures() {
    const std::scoped_lock lock(mutex_);
    return failures_;
  }

 private:
  KernelOutcome run_part(LaneGroup& group, LaneMemory& memory, const WorkItem& item,
                         std::uint32_t part) const {
    using device::Sum;
    using device::testing::Reductions;
    using device::testing::with_reduction;
    if (!reduces(item.operation)) {
      return device::run_blocks_item<kMostDirectRanks, false>(
          group, memory, device::moved_as_bytes(item), *item.direct, device::MovedBytes{}, part,
          shape_.parts);
    }
    return with_reduction(Reductions<Sum<std::int32_t>>{}, item,
                          [&](const auto& reduction) -> KernelOutcome {
                            if (item.operation == Operation::kAllReduce) {
                              return device::run_direct_item<kMostDirectRanks>(
                                  group, memory, item, *item.direct, reduction, part, shape_.parts);
                            }
                            return device::run_blocks_item<kMostDirectRanks, true>(
                                group, memory, item, *item.direct, reduction, part, shape_.parts);
                          });
  }
  void note(const Error& error) {
    const std::scoped_lock lock(mutex_);
    failures_.push_back(error.to_string());
  }

  const Shape shape_;
  std::mutex mutex_;
  std::vector<std::string> failures_;
  LoopbackNet net_;
  DirectWorld direct_{shape_.ranks, kMostBytes, shape_.period};
  std::vector<weft_net*> nets_;
  std::vector<std::unique_ptr<MemoryAccount>> memory_;
  std::vector<std::unique_ptr<NetPort>> ports_;
  std::vector<std::vector<PairConnections>> pairs_;  // of each rank, by the other one and stripe
  std::deque<std::vector<std::byte>> halves_;
  std::vector<DirectPeers> peers_;
  std::vector<std::unique_ptr<InboxPorts>> inboxes_;
  std::atomic<std::uint32_t> abort_{0};
};

constexpr std::int32_t kUntouched = 77;

std::int32_t element(std::uint32_t from, std::uint64_t i, std::uint64_t call) {
  return static_cast<std::int32_t>(from * 1'000'003 + i * 101 + call);
}

/// What a rank must have at `i` of its output.
std::int32_t expected(const Task& task, std::uint32_t ranks, std::uint32_t rank, std::uint64_t i,
                      std::uint64_t call) {
  const auto block = static_cast<std::uint32_t>(i / task.count);
  const std::uint64_t at = i % task.count;
  const auto sum_at = [&](std::uint64_t of_input) {
    std::int32_t all = 0;
    for (std::uint32_t from = 0; from < ranks; ++from)
      all += element(from, of_input, call);
    return all;
  };
  const bool is_first = block == 0;
  switch (task.operation) {
    case Operation::kAllGather:
      return element(block, at, call);
    case Operation::kAllToAll:
      return element(block, rank * task.count + at, call);
    case Operation::kGather:
      return rank == task.root ? element(block, at, call) : kUntouched;
    case Operation::kScatter:
      return is_first ? element(task.root, rank * task.count + at, call) : kUntouched;
    case Operation::kBroadcast:
      return is_first ? element(task.root, at, call) : kUntouched;
    case Operation::kReduce:
      return is_first && rank == task.root ? sum_at(at) : kUntouched;
    case Operation::kReduceScatter:
      return is_first ? sum_at(rank * task.count + at) : kUntouched;
    default:
      return is_first ? sum_at(at) : kUntouched;
  }
}

void check_call(World& world, std::uint32_t ranks, const Task& task, std::uint64_t call) {
  const std::uint64_t all = task.count * ranks;
  std::vector<Numbers> input(ranks, Numbers(all));
  std::vector<Numbers> output(ranks, Numbers(all + 1, kUntouched));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t i = 0; i < all; ++i)
      input[rank][i] = element(rank, i, call);
    items.push_back(world.item(rank, task, call, input[rank], output[rank]));
  }
  for (const auto& parts : world.run(items)) {
    for (const KernelOutcome& outcome : parts)
      ASSERT_EQ(outcome.end, KernelEnd::kDone);
  }
  ASSERT_EQ(world.failures(), std::vector<std::string>{});
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t i = 0; i < all; ++i) {
      ASSERT_EQ(output[rank][i], expected(task, ranks, rank, i, call))
          << operation_name(task.operation) << ": rank " << rank << " element " << i;
    }
    ASSERT_EQ(output[rank].back(), kUntouched);
  }
}

constexpr Operation kOperations[] = {
    Operation::kAllReduce, Operation::kAllGather, Operation::kReduceScatter, Operation::kBroadcast,
    Operation::kReduce,    Operation::kAllToAll,  Operation::kGather,        Operation::kScatter};

Task task_of(Operation operation, std::uint32_t root, std::uint64_t count) {
  return {.operation = operation,
          .type = WEFT_INT32,
          .reduction = WEFT_SUM,
          .root = has_root(operation) ? root : 0,
          .count = count};
}

class InboxesOverANet : public testing::TestWithParam<Shape> {};

TEST_P(InboxesOverANet, CarryAllOperationsByTurns) {
  World world(GetParam());
  std::uint64_t call = 0;
  for (const std::uint64_t count : {1U, 2U, 67U, 300U, 3200U, 4999U}) {
    for (const Operation operation : kOperations) {
      const auto root = static_cast<std::uint32_t>(call % GetParam().ranks);
      check_call(world, GetParam().ranks, task_of(operation, root, count), call);
      if (HasFatalFailure()) return;
      ++call;
    }
  }
}

// Long calls first, so that lines of theirs lie where a later period's would; and one of those that
// wipe is long, of which stripes would lose lines.
TEST_P(InboxesOverANet, GoOnWhereFlagsBeginAgain) {
  Shape shape = GetParam();
  shape.period = 6;
  World world(shape);
  for (std::uint64_t call = 0; call < 3 * std::uint64_t{shape.period}; ++call) {
    const Operation operation = kOperations[call % std::size(kOperations)];
    const bool is_long = call % shape.period < 2 || call % shape.period == 4;
    check_call(world, shape.ranks, task_of(operation, 0, is_long ? 4000 : 1), call);
    if (HasFatalFailure()) return;
  }
}

// Each finds by itself that the other calls something else, and its lanes do not wait for the rest.
TEST_P(InboxesOverANet, EndCallsThatDiffer) {
  World world(GetParam());
  const std::uint32_t ranks = GetParam().ranks;
  const std::uint64_t least = GetParam().stripes == 1 ? 40 : 1500;
  std::vector<Numbers> buffers(std::size_t{2} * ranks, Numbers(3 * least * ranks));
  std::vector<WorkItem> items;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    items.push_back(world.item(rank,
                               task_of(Operation::kAllGather, 0, least + 2 * least * (rank % 2)), 0,
                               buffers[2 * rank], buffers[2 * rank + 1]));
  }
  for (const auto& parts : world.run(items)) {
    for (const KernelOutcome& outcome : parts)
      EXPECT_EQ(outcome.end, KernelEnd::kTagMismatch);
  }
  EXPECT_EQ(world.failures(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(All, InboxesOverANet,
                         testing::Values(Shape{2, 1}, Shape{2, 3}, Shape{3, 2}, Shape{8, 1},
                                         Shape{2, 2, 4}, Shape{3, 1, 2}),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(info.param.ranks) + "Parts" +
                                  std::to_string(info.param.parts) + "Stripes" +
                                  std::to_string(info.param.stripes);
                         });

}  // namespace
}  // namespace weft
