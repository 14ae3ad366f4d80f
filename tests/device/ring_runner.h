// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Runs one operation on every rank of a RingWorld and checks what came out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/host_device.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {

/// One device, one stream a rank.
class RingRunner {
 public:
  enum class Threads { kOne, kOnePerRank };

  explicit RingRunner(std::uint32_t ranks, Threads threads = Threads::kOne)
      : threads_(threads), streams_(ranks), abort_(0), outcomes_(ranks) {
    for (DeviceStream*& stream : streams_)
      EXPECT_EQ(device_.create_stream(&stream), WEFT_OK);
  }
  RingRunner(const RingRunner&) = delete;
  RingRunner& operator=(const RingRunner&) = delete;
  ~RingRunner() {
    for (DeviceStream* stream : streams_)
      device_.destroy_stream(stream);
  }

  HostDevice& device() { return device_; }
  DeviceStream* stream(std::uint32_t rank) { return streams_[rank]; }
  std::atomic<std::uint32_t>& abort() { return abort_; }
  /// Of the last launch that ended on this rank.
  [[nodiscard]] const KernelOutcome& outcome(std::uint32_t rank) const {
    return outcomes_[rank].outcome;
  }
  /// How often a launch of this rank has ended.
  [[nodiscard]] std::uint32_t endings(std::uint32_t rank) const { return outcomes_[rank].endings; }

  /// By one thread at a time for a rank.
  weft_result launch(std::uint32_t rank, std::span<const WorkItem> items) {
    Launch launch;
    launch.items = outcomes_[rank].items.emplace_back(items.begin(), items.end());
    launch.abort = &abort_;
    launch.finished = [](void* context, const KernelOutcome& outcome) -> weft_result {
      auto& record = *static_cast<Record*>(context);
      record.outcome = outcome;
      ++record.endings;
      return outcome.end == KernelEnd::kDone ? WEFT_OK : WEFT_ERROR_PEER;
    };
    launch.finished_context = &outcomes_[rank];
    return device_.launch(streams_[rank], {&launch, 1});
  }

  /// Launches what `items_of(rank)` answers on all ranks and waits for them.
  template <class ItemsOf>
  std::vector<weft_result> run(ItemsOf items_of) {
    std::vector<weft_result> results(streams_.size());
    const auto ranks = static_cast<std::uint32_t>(streams_.size());
    if (threads_ == Threads::kOne) {
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(launch(rank, items_of(rank)), WEFT_OK);
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        results[rank] = device_.synchronize(streams_[rank]);
      }
      return results;
    }
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([this, rank, &results, items = items_of(rank)] {
        EXPECT_EQ(launch(rank, items), WEFT_OK);
        results[rank] = device_.synchronize(streams_[rank]);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    return results;
  }

 private:
  struct Record {
    KernelOutcome outcome;
    std::uint32_t endings = 0;
    std::deque<std::vector<WorkItem>> items{};  // of all launches
  };

  Threads threads_;
  HostDevice device_;
  std::vector<DeviceStream*> streams_;
  std::atomic<std::uint32_t> abort_;
  std::vector<Record> outcomes_;
};

/// How the callers' buffers lie.
struct Buffers {
  bool in_place = false;
  std::uint32_t shift = 0;  ///< Elements between a 64-byte boundary and the buffer.
  std::uint64_t sequence = 0;
};

/// One rank's input and output with guards around the output. In place the smaller one lies in the
/// larger one, at the rank's own block.
template <class T>
class RankBuffers {
 public:
  RankBuffers(const Task& task, std::uint32_t rank, std::uint32_t ranks, const Buffers& how)
      : send_count_(task.operation == Operation::kReduceScatter ? task.count * ranks : task.count),
        recv_count_(task.operation == Operation::kAllGather ? task.count * ranks : task.count),
        shift_(how.shift),
        in_place_(how.in_place),
        block_(has_blocks(task.operation) ? rank * task.count : 0),
        input_(send_count_ + how.shift + kGuard, kGuardValue),
        output_(
            (how.in_place ? std::max(send_count_, recv_count_) : recv_count_) + how.shift + kGuard,
            kGuardValue) {}

  [[nodiscard]] std::uint64_t send_count() const { return send_count_; }
  [[nodiscard]] std::uint64_t recv_count() const { return recv_count_; }
  T* send() {
    if (!in_place_) return input_.data() + shift_;
    return output_.data() + shift_ + (send_count_ < recv_count_ ? block_ : 0);
  }
  T* recv() {
    return output_.data() + shift_ + (in_place_ && recv_count_ < send_count_ ? block_ : 0);
  }
  void check_guards() const {
    for (std::uint64_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(output_[output_.size() - kGuard + i], kGuardValue) << "written behind the end";
    }
    for (std::uint64_t i = 0; i < shift_; ++i) {
      ASSERT_EQ(output_[i], kGuardValue) << "written before the beginning";
    }
  }

 private:
  static constexpr std::uint64_t kGuard = 32;
  static constexpr T kGuardValue{77};
  std::uint64_t send_count_;
  std::uint64_t recv_count_;
  std::uint64_t shift_;
  bool in_place_;
  std::uint64_t block_;
  std::vector<T> input_;
  std::vector<T> output_;
};

/// Whether `rank` gets a result.
inline bool gets_result(const Task& task, std::uint32_t rank) {
  return task.operation != Operation::kReduce || rank == task.root;
}

/// What must stand at element `i` of `rank`'s output.
template <class T>
T expected_element(const Task& task, std::uint32_t rank, std::uint32_t ranks, std::uint64_t i) {
  switch (task.operation) {
    case Operation::kBroadcast:
      return sample<T>(task.root, i, task.reduction);
    case Operation::kAllGather:
      return sample<T>(static_cast<std::uint32_t>(i / task.count), i % task.count, task.reduction);
    case Operation::kReduceScatter:
      return expected_sample<T>(ranks, rank * task.count + i, task.reduction);
    default:
      return expected_sample<T>(ranks, i, task.reduction);
  }
}

/// Runs `task` on all ranks and checks every element. `T` is task.type's, or one of its size where
/// the operation only copies.
template <class T>
void check_operation(RingWorld& world, RingRunner& runner, const Task& task, const Buffers& how) {
  const std::uint32_t ranks = world.shape().ranks;
  std::vector<RankBuffers<T>> buffers;
  std::vector<std::vector<T>> inputs(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankBuffers<T>& own = buffers.emplace_back(task, rank, ranks, how);
    for (std::uint64_t i = 0; i < own.send_count(); ++i)
      own.send()[i] = sample<T>(rank, i, task.reduction);
    inputs[rank].assign(own.send(), own.send() + own.send_count());
  }
  const auto results = runner.run([&](std::uint32_t rank) {
    return world.items(rank, task, how.sequence, buffers[rank].send(), buffers[rank].recv());
  });
  std::vector<T> due;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankBuffers<T>& own = buffers[rank];
    ASSERT_EQ(results[rank], WEFT_OK) << "rank " << rank;
    // But for its own block each rank gets the same.
    if (rank == 0 || task.operation == Operation::kReduceScatter) {
      due.clear();
      for (std::uint64_t i = 0; i < own.recv_count(); ++i)
        due.push_back(expected_element<T>(task, rank, ranks, i));
    }
    const bool is_due =
        !gets_result(task, rank) || same_bits(own.recv(), due.data(), own.recv_count());
    for (std::uint64_t i = 0; !is_due && i < own.recv_count(); ++i) {
      ASSERT_EQ(own.recv()[i], due[i])
          << operation_name(task.operation) << " of type " << task.type << " by " << task.reduction
          << ", rank " << rank << " element " << i << " of " << own.recv_count();
    }
    // In place the blocks of others stay as they were, too.
    const std::vector<T>& input = inputs[rank];
    if (!how.in_place) {
      ASSERT_TRUE(same_bits(own.send(), input.data(), input.size())) << "input was written";
    } else if (task.operation == Operation::kReduceScatter) {
      const std::uint64_t begin = rank * task.count;
      const std::uint64_t end = begin + task.count;
      ASSERT_TRUE(same_bits(own.send(), input.data(), begin) &&
                  same_bits(own.send() + end, input.data() + end, input.size() - end))
          << "input was written";
    }
    own.check_guards();
  }
}

template <class T>
void check_all_reduce(RingWorld& world, RingRunner& runner, std::uint64_t count,
                      weft_reduction reduction, const Buffers& how) {
  check_operation<T>(world, runner, {.type = kTypeOf<T>, .reduction = reduction, .count = count},
                     how);
}

/// `T` stands for the element's size alone.
template <class T>
void check_broadcast(RingWorld& world, RingRunner& runner, std::uint64_t count, weft_data_type type,
                     std::uint32_t root, const Buffers& how) {
  check_operation<T>(
      world, runner,
      {.operation = Operation::kBroadcast, .type = type, .root = root, .count = count}, how);
}

}  // namespace weft::device::testing
