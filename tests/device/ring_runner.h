// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Runs one operation on every rank of a RingWorld and checks what came out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
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

  weft_result launch(std::uint32_t rank, std::span<const WorkItem> items) {
    Launch launch;
    launch.items = items;
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

/// One rank's input and output with guards behind the output.
template <class T>
class RankBuffers {
 public:
  RankBuffers(std::uint64_t count, const Buffers& how)
      : count_(count),
        shift_(how.shift),
        in_place_(how.in_place),
        input_(count + how.shift + kGuard, T{77}),
        output_(count + how.shift + kGuard, T{77}) {}

  T* send() { return (in_place_ ? output_ : input_).data() + shift_; }
  T* recv() { return output_.data() + shift_; }
  void check_guards() const {
    for (std::uint64_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(output_[shift_ + count_ + i], T{77}) << "written behind the end";
    }
    for (std::uint64_t i = 0; i < shift_; ++i) {
      ASSERT_EQ(output_[i], T{77}) << "written before the beginning";
    }
  }

 private:
  static constexpr std::uint64_t kGuard = 32;
  std::uint64_t count_;
  std::uint64_t shift_;
  bool in_place_;
  std::vector<T> input_;
  std::vector<T> output_;
};

template <class T>
void check_all_reduce(RingWorld& world, RingRunner& runner, std::uint64_t count,
                      weft_reduction reduction, const Buffers& how) {
  const std::uint32_t ranks = world.shape().ranks;
  const Task task{.operation = Operation::kAllReduce,
                  .type = kTypeOf<T>,
                  .reduction = reduction,
                  .root = 0,
                  .count = count};
  std::vector<RankBuffers<T>> buffers(ranks, RankBuffers<T>(count, how));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t i = 0; i < count; ++i)
      buffers[rank].send()[i] = sample<T>(rank, i);
  }
  const auto results = runner.run([&](std::uint32_t rank) {
    return world.items(rank, task, how.sequence, buffers[rank].send(), buffers[rank].recv());
  });
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(results[rank], WEFT_OK) << "rank " << rank;
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(buffers[rank].recv()[i], expected_sample<T>(ranks, i, reduction))
          << "rank " << rank << " element " << i << " of " << count;
    }
    if (!how.in_place) {
      for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(buffers[rank].send()[i], sample<T>(rank, i)) << "input was written";
      }
    }
    buffers[rank].check_guards();
  }
}

/// `T` stands for the element's size alone.
template <class T>
void check_broadcast(RingWorld& world, RingRunner& runner, std::uint64_t count, weft_data_type type,
                     std::uint32_t root, const Buffers& how) {
  const std::uint32_t ranks = world.shape().ranks;
  const Task task{.operation = Operation::kBroadcast,
                  .type = type,
                  .reduction = WEFT_SUM,
                  .root = root,
                  .count = count};
  std::vector<RankBuffers<T>> buffers(ranks, RankBuffers<T>(count, how));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t i = 0; i < count; ++i)
      buffers[rank].send()[i] = sample<T>(rank, i);
  }
  const auto results = runner.run([&](std::uint32_t rank) {
    return world.items(rank, task, how.sequence, buffers[rank].send(), buffers[rank].recv());
  });
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(results[rank], WEFT_OK) << "rank " << rank;
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(buffers[rank].recv()[i], sample<T>(root, i))
          << "rank " << rank << " element " << i << " of " << count;
    }
    buffers[rank].check_guards();
  }
}

}  // namespace weft::device::testing
