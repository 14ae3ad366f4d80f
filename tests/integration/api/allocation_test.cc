// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A call that was made before allocates nothing, and gives the reactor nothing to do. This
// program's allocator, which the library and its plugins use as well, counts what all threads ask
// for.
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/api/handles.h"

namespace {

std::atomic<std::uint64_t> allocations{0};
std::atomic<bool> counting{false};
std::atomic<std::uint64_t> timers_set{0};

void count_one() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
}

}  // namespace

// The names by which glibc offers its allocator to those who stand before it.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t align, std::size_t size);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(std::size_t size) {
  count_one();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  count_one();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  count_one();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t align, std::size_t size) {
  count_one();
  return __libc_memalign(align, size);
}
[[gnu::visibility("default")]] int timerfd_settime(int fd, int flags, const itimerspec* time,
                                                   itimerspec* old) noexcept {
  timers_set.fetch_add(1);
  return static_cast<int>(syscall(SYS_timerfd_settime, fd, flags, time, old));
}
int posix_memalign(void** out, std::size_t align, std::size_t size) {
  count_one();
  *out = __libc_memalign(align, size);
  return *out == nullptr ? ENOMEM : 0;
}
}

namespace weft::test {
namespace {

/// While it lives, the thread and those that it starts share one of its processors.
class OneProcessor {
 public:
  OneProcessor() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    int first = 0;
    while (!CPU_ISSET(first, &before_))
      ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OneProcessor() { sched_setaffinity(0, sizeof(before_), &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

/// Transport, elements of a call.
using Case = std::tuple<std::string, std::size_t>;

class Allocation : public testing::TestWithParam<Case> {
 protected:
  // Often enough that every buffer and free list has found its size. Of large calls a third: each
  // goes through as many slots as many small ones.
  static bool is_small() { return std::get<1>(GetParam()) < 100'000; }
  static int warm_rounds() { return is_small() ? 300 : 100; }
  static int counted_rounds() { return is_small() ? 100 : 33; }

  void SetUp() override {
    streams_ = make_streams(context_.get(), 2);
    comms_ = init_all(context_.get(), CommSettings(only_transport(std::get<0>(GetParam()))), 2);
    for (auto& buffer : buffers_)
      buffer.assign(std::get<1>(GetParam()), 1);
  }

  // A rank that waits for half a second asks the others what they do, which allocates.
  static constexpr std::chrono::milliseconds kHeldUp{400};

  /// How many allocations all threads make while `round` is done counted_rounds() times, after
  /// `warm` times. Where a busy machine holds a round up, all of them are counted again.
  template <typename Round>
  std::uint64_t count(Round round, int warm = warm_rounds()) {
    for (int i = 0; i < warm; ++i)
      round();
    std::uint64_t counted = 0;
    bool held_up = true;
    for (int attempt = 0; held_up && attempt < 20; ++attempt) {
      held_up = false;
      const std::uint64_t before = allocations.load();
      counting = true;
      for (int i = 0; i < counted_rounds(); ++i) {
        const auto begun = std::chrono::steady_clock::now();
        round();
        held_up = held_up || std::chrono::steady_clock::now() - begun > kHeldUp;
      }
      counting = false;
      counted = allocations.load() - before;
      if (counted == 0) break;
    }
    return counted;
  }
  void synchronize() {
    for (const StreamHandle& stream : streams_)
      must(context_.get(), weft_stream_synchronize(stream.get()));
  }

  // Ranks with a processor each look for each other for a millisecond, which is nearly all that
  // this program would do on a machine that others use as well. The large calls over p2p are made
  // so.
  const std::optional<OneProcessor> together_ = is_small() || std::get<0>(GetParam()) != "p2p"
                                                    ? std::optional<OneProcessor>(std::in_place)
                                                    : std::nullopt;
  ContextHandle context_ = make_context();
  std::vector<StreamHandle> streams_;
  std::vector<CommHandle> comms_;
  std::array<std::vector<std::int32_t>, 2> buffers_;
};

TEST_P(Allocation, OfRepeatedCollectives) {
  const auto round = [&] {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::int32_t* buffer = buffers_[rank].data();
      must(context_.get(), weft_all_reduce(buffer, buffer, buffers_[rank].size(), WEFT_INT32,
                                           WEFT_MAX, comms_[rank].get(), streams_[rank].get()));
      must(context_.get(), weft_broadcast(buffer, buffer, buffers_[rank].size(), WEFT_INT32, 1,
                                          comms_[rank].get(), streams_[rank].get()));
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

TEST_P(Allocation, OfRepeatedCollectivesOfBlocks) {
  const std::size_t block = buffers_[0].size();
  for (auto& buffer : buffers_)
    buffer.resize(2 * block);
  const auto round = [&] {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::int32_t* buffer = buffers_[rank].data();
      weft_comm* comm = comms_[rank].get();
      weft_stream* stream = streams_[rank].get();
      must(context_.get(),
           weft_all_gather(buffer + rank * block, buffer, block, WEFT_INT32, comm, stream));
      must(context_.get(), weft_reduce_scatter(buffer, buffer + rank * block, block, WEFT_INT32,
                                               WEFT_MAX, comm, stream));
      must(context_.get(),
           weft_reduce(buffer, buffer, block, WEFT_INT32, WEFT_MAX, 1, comm, stream));
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

// Two tables in turn, with the same longest block, so that both are called by one plan.
TEST_P(Allocation, OfRepeatedCallsWhoseBlocksDiffer) {
  const std::size_t block = buffers_[0].size();
  using Counts = std::array<std::size_t, 2>;
  const std::array<Counts, 2> counts{{{block, 0}, {block, (block + 1) / 2}}};
  const Counts offsets{0, block};
  std::array<std::vector<std::int32_t>, 2> results;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    buffers_[rank].resize(2 * block);
    results[rank].resize(2 * block);
  }
  // Calls of the rank that goes first wait for the other's, so that each rank has had all of its
  // calls under way at once before they are counted.
  std::size_t first = 0;
  const auto round = [&] {
    first = 1 - first;
    for (const std::size_t rank : {first, 1 - first}) {
      for (const Counts& common : counts) {
        const std::int32_t* from = buffers_[rank].data();
        std::int32_t* to = results[rank].data();
        weft_comm* comm = comms_[rank].get();
        weft_stream* stream = streams_[rank].get();
        must(context_.get(),
             weft_all_gather_v(from, to, common.data(), offsets.data(), WEFT_INT32, comm, stream));
        must(context_.get(), weft_reduce_scatter_v(from, common.data(), offsets.data(), to,
                                                   WEFT_INT32, WEFT_MAX, comm, stream));
        // Each sends the first count to rank 0 and the second to rank 1.
        const Counts received{common[rank], common[rank]};
        must(context_.get(),
             weft_all_to_all_v(from, common.data(), offsets.data(), to, received.data(),
                               offsets.data(), WEFT_INT32, comm, stream));
      }
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

TEST_P(Allocation, OfRepeatedPremultipliedSums) {
  const std::int32_t factor = -1;
  std::array<weft_reduction, 2> sums{};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    weft_premul_sum_options options{};
    options.struct_size = sizeof(options);
    options.type = WEFT_INT32;
    options.residence = rank == 0 ? WEFT_SCALAR_NOW : WEFT_SCALAR_AT_CALL;
    options.scalar = &factor;
    must(context_.get(),
         weft_reduction_create_premul_sum(comms_[rank].get(), &options, &sums[rank]));
  }
  const auto round = [&] {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::int32_t* buffer = buffers_[rank].data();
      must(context_.get(), weft_all_reduce(buffer, buffer, buffers_[rank].size(), WEFT_INT32,
                                           sums[rank], comms_[rank].get(), streams_[rank].get()));
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

// A net has none: there the calls go round the ring.
TEST_P(Allocation, OfRepeatedTwoShots) {
  const auto& [transport, elements] = GetParam();
  std::vector<std::string> settings = only_transport(transport);
  settings.insert(settings.end(), {"collectives.all_reduce.algorithm",
                                   transport == "net-socket" ? "ring" : "two-shot"});
  const std::vector<CommHandle> comms = init_all(context_.get(), CommSettings(settings), 2);
  const auto round = [&] {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::int32_t* buffer = buffers_[rank].data();
      must(context_.get(), weft_all_reduce(buffer, buffer, buffers_[rank].size(), WEFT_INT32,
                                           WEFT_SUM, comms[rank].get(), streams_[rank].get()));
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

// Set anew for each call.
TEST_P(Allocation, OfRepeatedCallsWithOptions) {
  const auto round = [&] {
    for (const weft_call_algorithm algorithm :
         {WEFT_CALL_ALGORITHM_RING, WEFT_CALL_ALGORITHM_TREE}) {
      for (std::size_t rank = 0; rank < 2; ++rank) {
        const weft_call_options options{.struct_size = sizeof(options),
                                        .algorithm = algorithm,
                                        .protocol = WEFT_CALL_PROTOCOL_SIMPLE,
                                        .max_channels = 1};
        must(context_.get(), weft_comm_set_call_options(comms_[rank].get(), &options));
        std::int32_t* buffer = buffers_[rank].data();
        must(context_.get(), weft_all_reduce(buffer, buffer, buffers_[rank].size(), WEFT_INT32,
                                             WEFT_MAX, comms_[rank].get(), streams_[rank].get()));
        must(context_.get(), weft_comm_set_call_options(comms_[rank].get(), nullptr));
      }
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

// Each rank goes from one stream to the other, which then waits for the first.
TEST_P(Allocation, OfRepeatedCallsOnTwoStreams) {
  const std::vector<StreamHandle> others = make_streams(context_.get(), 2);
  const auto round = [&] {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::int32_t* buffer = buffers_[rank].data();
      for (weft_stream* stream : {streams_[rank].get(), others[rank].get(), streams_[rank].get()}) {
        must(context_.get(), weft_all_reduce(buffer, buffer, buffers_[rank].size(), WEFT_INT32,
                                             WEFT_MAX, comms_[rank].get(), stream));
      }
    }
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

TEST_P(Allocation, OfRepeatedSends) {
  const auto round = [&] {
    must(context_.get(), weft_send(buffers_[0].data(), buffers_[0].size(), WEFT_INT32, 1,
                                   comms_[0].get(), streams_[0].get()));
    must(context_.get(), weft_recv(buffers_[1].data(), buffers_[1].size(), WEFT_INT32, 0,
                                   comms_[1].get(), streams_[1].get()));
    synchronize();
  };
  EXPECT_EQ(count(round), 0U);
}

// Two kinds in turn, of several communicators, each time put in order.
TEST_P(Allocation, OfRepeatedGroups) {
  const auto others =
      init_all(context_.get(), CommSettings(only_transport(std::get<0>(GetParam()))), 2);
  const std::vector<StreamHandle> more = make_streams(context_.get(), 2);
  const std::size_t half = (buffers_[0].size() + 1) / 2;
  for (auto& buffer : buffers_)
    buffer.resize(4 * half);
  const auto send_and_receive = [&](std::uint32_t rank, std::uint32_t other, std::size_t to,
                                    weft_stream* stream) {
    std::int32_t* buffer = buffers_[rank].data();
    weft_comm* comm = comms_[rank].get();
    must(context_.get(), weft_send(buffer, half, WEFT_INT32, other, comm, stream));
    must(context_.get(), weft_recv(buffer + to * half, half, WEFT_INT32, other, comm, stream));
  };
  const auto collectives = [&](std::uint32_t rank, weft_stream* stream) {
    std::int32_t* buffer = buffers_[rank].data();
    must(context_.get(), weft_all_reduce(buffer + 3 * half, buffer + 3 * half, half, WEFT_INT32,
                                         WEFT_SUM, others[rank].get(), stream));
    must(context_.get(), weft_broadcast(buffer + 3 * half, buffer + 3 * half, half, WEFT_INT32, 1,
                                        comms_[rank].get(), stream));
    must(context_.get(), weft_all_reduce(buffer + 3 * half, buffer + 3 * half, half, WEFT_INT32,
                                         WEFT_MAX, comms_[rank].get(), stream));
  };
  const auto round = [&] {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      send_and_receive(rank, 1 - rank, 1, streams_[rank].get());
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      collectives(rank, streams_[rank].get());
      send_and_receive(rank, 1 - rank, 1, streams_[rank].get());
      send_and_receive(rank, rank, 2, more[rank].get());
    }
    must(context_.get(), weft_group_end(context_.get()));
    synchronize();
    for (const StreamHandle& stream : more)
      must(context_.get(), weft_stream_synchronize(stream.get()));
  };
  EXPECT_EQ(count(round), 0U);
}

TEST_P(Allocation, OfRepeatedGroupsOfOneRankAThread) {
  // Both are open at once in every round, else a busy machine makes the second one while counting.
  std::atomic<int> opened = 0;
  const auto round = [&](std::uint32_t rank, int turn) {
    std::int32_t* buffer = buffers_[rank].data();
    const std::size_t count = buffers_[rank].size();
    weft_stream* stream = streams_[rank].get();
    must(context_.get(), weft_group_start(context_.get()));
    ++opened;
    opened.notify_all();
    for (int seen = opened.load(); seen < 2 * turn; seen = opened.load())
      opened.wait(seen);
    for (int call = 0; call < 3; ++call) {
      must(context_.get(), weft_all_reduce(buffer, buffer, count, WEFT_INT32, WEFT_MAX,
                                           comms_[rank].get(), stream));
    }
    must(context_.get(), weft_group_end(context_.get()));
    must(context_.get(), weft_stream_synchronize(stream));
  };
  // The other thread begins and ends a round when this one does.
  std::atomic<int> asked = 0;
  std::atomic<int> done = 0;
  std::thread other([&] {
    for (int turn = 1;; ++turn) {
      asked.wait(turn - 1);
      if (asked.load() < 0) return;
      round(1, turn);
      done = turn;
      done.notify_all();
    }
  });
  const auto both = [&] {
    const int turn = ++asked;
    asked.notify_all();
    round(0, turn);
    for (int seen = done.load(); seen < turn; seen = done.load())
      done.wait(seen);
  };
  EXPECT_EQ(count(both), 0U);
  asked = -1;
  asked.notify_all();
  other.join();
}

// Groups as well, whose calls are put in order each time they are made; to oneself and of several
// communicators.
TEST_P(Allocation, OfRepeatedLaunches) {
  const auto others =
      init_all(context_.get(), CommSettings(only_transport(std::get<0>(GetParam()))), 2);
  const std::size_t half = (buffers_[0].size() + 1) / 2;
  std::array<GraphHandle, 2> graphs;
  for (auto& buffer : buffers_)
    buffer.resize(4 * half);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    std::int32_t* buffer = buffers_[rank].data();
    weft_comm* comm = comms_[rank].get();
    weft_stream* stream = streams_[rank].get();
    graphs[rank] = capture(context_.get(), stream, [&] {
      must(context_.get(),
           weft_all_reduce(buffer, buffer, half, WEFT_INT32, WEFT_MAX, comm, stream));
      must(context_.get(), weft_group_start(context_.get()));
      must(context_.get(), weft_broadcast(buffer, buffer, half, WEFT_INT32, 1, comm, stream));
      must(context_.get(), weft_send(buffer, half, WEFT_INT32, 1 - rank, comm, stream));
      must(context_.get(), weft_send(buffer, half, WEFT_INT32, rank, comm, stream));
      must(context_.get(), weft_recv(buffer + half, half, WEFT_INT32, 1 - rank, comm, stream));
      must(context_.get(), weft_recv(buffer + 2 * half, half, WEFT_INT32, rank, comm, stream));
      must(context_.get(), weft_all_reduce(buffer + 3 * half, buffer + 3 * half, half, WEFT_INT32,
                                           WEFT_SUM, others[rank].get(), stream));
      must(context_.get(), weft_group_end(context_.get()));
    });
  }
  const auto round = [&] {
    for (std::size_t rank = 0; rank < 2; ++rank)
      must(context_.get(), weft_graph_launch(graphs[rank].get(), streams_[rank].get()));
    synchronize();
  };
  // The lists that a net keeps of its messages find their size later.
  const bool is_net = std::get<0>(GetParam()).starts_with("net-");
  EXPECT_EQ(count(round, is_net ? warm_rounds() : 1), 0U);
}

// Whoever connects ranks sets a timer each time it is woken.
TEST_P(Allocation, NothingIsLeftToConnectInARepeatedGroup) {
  if (std::get<0>(GetParam()) == "net-socket") GTEST_SKIP() << "it has a timer of its own";
  const auto round = [&] {
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const std::size_t half = (buffers_[rank].size() + 1) / 2;
      must(context_.get(), weft_send(buffers_[rank].data(), half, WEFT_INT32, 1 - rank,
                                     comms_[rank].get(), streams_[rank].get()));
      must(context_.get(), weft_recv(buffers_[rank].data() + half, half, WEFT_INT32, 1 - rank,
                                     comms_[rank].get(), streams_[rank].get()));
    }
    must(context_.get(), weft_group_end(context_.get()));
    synchronize();
  };
  for (auto& buffer : buffers_)
    buffer.resize(buffer.size() + 1);
  round();
  EXPECT_GT(timers_set.load(), 0U);
  // What connected them may have a last look at it, and on a busy machine late; who has to connect
  // something is woken in each round.
  std::uint64_t set = UINT64_MAX;
  for (int attempt = 0; attempt < 5 && set != 0; ++attempt) {
    const std::uint64_t before = timers_set.load();
    for (int i = 0; i < counted_rounds(); ++i)
      round();
    set = timers_set.load() - before;
  }
  EXPECT_EQ(set, 0U);
}

TEST(AllocationCount, SeesTheLibrarysAllocations) {
  const ContextHandle context = make_context();
  const std::uint64_t before = allocations.load();
  counting = true;
  const StreamHandle stream = make_stream(context.get());
  counting = false;
  EXPECT_GT(allocations.load(), before);
}

INSTANTIATE_TEST_SUITE_P(Wires, Allocation,
                         testing::Combine(testing::Values("p2p", "shm", "net-socket"),
                                          testing::Values(std::size_t{1}, std::size_t{100'000})),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "Of" +
                                              std::to_string(std::get<1>(info.param)) + "Elements";
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft::test
