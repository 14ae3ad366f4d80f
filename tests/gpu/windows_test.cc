// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Windows on CUDA devices: registered and given up, reached, and the calls that go through them.
// Every operation in all places is tried by the tests of operations with --windows.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/calls.h"
#include "tests/gpu/graphs.h"
#include "tests/gpu/job.h"

namespace weft::gpu_test {
namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;
const Settings kAlways{{"windows.copy_from", "1"}};

/// Memory of a member, and its window.
struct Registered {
  void* memory = nullptr;
  weft_window* window = nullptr;
};

class Windows : public testing::TestWithParam<ModeAndLayout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam().layout);
    team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout, kAlways);
    registered_.resize(GetParam().layout.ranks);
  }
  void TearDown() override { team_.reset(); }

  void allocate(std::size_t bytes = kBytes) {
    team_->each([&](Member& member) {
      check(weft_memory_allocate(context(), WEFT_DEVICE_CUDA, member.device, bytes,
                                 &registered_[member.rank].memory),
            "weft_memory_allocate");
    });
  }
  void enter(std::size_t bytes = kBytes) {
    team_->issue([&](Member& member) {
      Registered& own = registered_[member.rank];
      check(weft_window_register(member.comm, own.memory, bytes, &own.window),
            "weft_window_register");
    });
  }
  void leave() {
    team_->each([&](Member& member) {
      check(weft_window_deregister(registered_[member.rank].window), "weft_window_deregister");
    });
  }
  void give_back() {
    team_->each([&](Member& member) {
      check(weft_memory_free(context(), registered_[member.rank].memory), "weft_memory_free");
    });
  }
  void fill(std::uint8_t base) {
    team_->each([&](Member& member) {
      CUDA(cudaMemsetAsync(registered_[member.rank].memory, base + static_cast<int>(member.rank),
                           kBytes, member.cuda));
      CUDA(cudaStreamSynchronize(member.cuda));
    });
  }
  /// All-gathers into the first `bytes` of the window, each rank's block being of one value, and
  /// looks at it.
  void gather_and_check(std::uint8_t base, std::size_t bytes = kBytes) {
    const std::uint32_t ranks = GetParam().layout.ranks;
    const std::size_t block = bytes / ranks / 16 * 16;
    fill(base);
    team_->issue([&](Member& member) {
      auto* const memory = static_cast<std::byte*>(registered_[member.rank].memory);
      check(weft_all_gather(memory + member.rank * block, memory, block, WEFT_UINT8, member.comm,
                            member.stream),
            "weft_all_gather");
    });
    team_->synchronize();
    team_->each([&](Member& member) {
      std::vector<std::uint8_t> got(block * ranks);
      CUDA(cudaMemcpy(got.data(), registered_[member.rank].memory, got.size(), cudaMemcpyDefault));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto* begin = got.data() + rank * block;
        const auto wanted = static_cast<std::uint8_t>(base + rank);
        EXPECT_TRUE(std::all_of(begin, begin + block, [&](std::uint8_t b) { return b == wanted; }))
            << "block " << rank << " of rank " << member.rank;
      }
    });
  }

  std::unique_ptr<Team> team_;
  std::vector<Registered> registered_;
};

TEST_P(Windows, EachRankReachesAllOthers) {
  allocate();
  enter();
  fill(10);
  team_->each([&](Member& member) {
    for (std::uint32_t rank = 0; rank < GetParam().layout.ranks; ++rank) {
      void* seen = nullptr;
      check(weft_window_pointer(registered_[member.rank].window, rank, &seen),
            "weft_window_pointer");
      std::uint8_t last = 0;
      CUDA(cudaMemcpy(&last, static_cast<std::byte*>(seen) + kBytes - 1, 1, cudaMemcpyDefault));
      EXPECT_EQ(last, 10 + rank) << "as rank " << member.rank << " sees it";
    }
    void* seen = nullptr;
    EXPECT_EQ(weft_window_pointer(registered_[member.rank].window, GetParam().layout.ranks, &seen),
              WEFT_ERROR_INVALID_ARGUMENT);
  });
  leave();
  give_back();
}

// The call that was made without it needed no inboxes, in which calls through windows meet.
TEST_P(Windows, MayBeRegisteredAfterTheCallsThatGoThroughThem) {
  allocate();
  gather_and_check(50);
  enter();
  gather_and_check(60);
  leave();
  give_back();
}

// Ranks meet in inboxes before and after, which are made for calls of next to nothing here.
TEST_P(Windows, AreGoneThroughWithTheSmallestInboxes) {
  team_.reset();
  Settings smallest = kAlways;
  smallest.emplace_back("buffers.direct", "8");
  team_ = std::make_unique<Team>(GetParam().mode, GetParam().layout, smallest);
  allocate();
  enter();
  gather_and_check(40);
  leave();
  give_back();
}

TEST_P(Windows, AreRegisteredAgainAndAgain) {
  std::size_t free_before = 0, total = 0;
  for (int turn = 0; turn < 20; ++turn) {
    allocate(std::size_t{64} << 20);
    enter();
    gather_and_check(static_cast<std::uint8_t>(turn * 8));
    leave();
    give_back();
    if (turn > 0) continue;
    team_->each([&](Member&) { CUDA(cudaDeviceSynchronize()); });
    use_device(0);
    CUDA(cudaMemGetInfo(&free_before, &total));
  }
  std::size_t free_after = 0;
  use_device(0);
  CUDA(cudaMemGetInfo(&free_after, &total));
  EXPECT_LE(free_before, free_after + (std::size_t{64} << 20)) << "memory of windows is kept";
}

// Several at once, one within the other: calls whose output lies in both, in one alone, and in what
// is left when the inner one is gone.
TEST_P(Windows, MayOverlap) {
  allocate();
  enter();
  std::vector<Registered> inner(registered_.size());
  team_->issue([&](Member& member) {
    check(weft_window_register(member.comm, registered_[member.rank].memory, kBytes / 2,
                               &inner[member.rank].window),
          "weft_window_register");
  });
  gather_and_check(3, kBytes / 2);
  gather_and_check(19);
  team_->each([&](Member& member) {
    check(weft_window_deregister(inner[member.rank].window), "weft_window_deregister");
  });
  gather_and_check(77, kBytes / 2);
  gather_and_check(99);
  leave();
  give_back();
}

TEST_P(Windows, OtherSizesAreAMismatchForAll) {
  if (GetParam().layout.ranks == 1) GTEST_SKIP() << "needs two ranks";
  allocate();
  const auto differ = [&](Member& member) {
    Registered& own = registered_[member.rank];
    return weft_window_register(member.comm, own.memory, member.rank == 0 ? kBytes : kBytes / 2,
                                &own.window);
  };
  if (GetParam().mode == Mode::kOneThread) {
    check(weft_group_start(context()), "weft_group_start");
    team_->each([&](Member& member) { check(differ(member), "weft_window_register"); });
    EXPECT_EQ(weft_group_end(context()), WEFT_ERROR_MISMATCH);
  } else {
    team_->each([&](Member& member) {
      EXPECT_EQ(differ(member), WEFT_ERROR_MISMATCH);
      EXPECT_NE(last_error().find("rank 0 registers a window of 4194304 bytes, rank 1 one of "
                                  "2097152"),
                std::string::npos)
          << last_error();
    });
  }
  enter();
  gather_and_check(5);
  leave();
  give_back();
}

// Replays come after deregistered windows of others, and between eager calls.
TEST_P(Windows, AreCaptured) {
  allocate();
  enter();
  const std::size_t count = kBytes / GetParam().layout.ranks / 64;
  Graphs graphs(*team_, [&](Member& member) {
    auto* const memory = static_cast<float*>(registered_[member.rank].memory);
    check(weft_all_gather(memory + member.rank * count, memory, count, WEFT_FLOAT32, member.comm,
                          member.stream),
          "weft_all_gather");
  });
  for (int turn = 0; turn < 30; ++turn) {
    fill(static_cast<std::uint8_t>(turn));
    team_->each([&](Member& member) { graphs.launch(member); });
    team_->synchronize();
    team_->each([&](Member& member) {
      std::vector<std::uint8_t> got(count * 4 * GetParam().layout.ranks);
      CUDA(cudaMemcpy(got.data(), registered_[member.rank].memory, got.size(),
                      cudaMemcpyDeviceToHost));
      for (std::uint32_t rank = 0; rank < GetParam().layout.ranks; ++rank)
        EXPECT_EQ(got[rank * count * 4 + 1], static_cast<std::uint8_t>(turn + rank));
    });
    if (turn % 10 == 9) gather_and_check(static_cast<std::uint8_t>(100 + turn));
  }
  leave();
  give_back();
}

// Of the host's own memory: calls go as without it.
TEST_P(Windows, OfMemoryThatCannotBeSharedAreNotMapped) {
  if (GetParam().layout.ranks == 1) GTEST_SKIP() << "needs two ranks";
  std::vector<void*> hosts(registered_.size());
  team_->each([&](Member& member) {
    CUDA(cudaMallocHost(&hosts[member.rank], kBytes));
    registered_[member.rank].memory = hosts[member.rank];
  });
  enter();
  team_->each([&](Member& member) {
    void* seen = nullptr;
    const std::uint32_t other = (member.rank + 1) % GetParam().layout.ranks;
    EXPECT_EQ(weft_window_pointer(registered_[member.rank].window, other, &seen),
              WEFT_ERROR_UNSUPPORTED);
    EXPECT_NE(last_error().find("is not mapped: rank 0: "), std::string::npos) << last_error();
  });
  gather_and_check(30);
  leave();
  team_->each([&](Member& member) { CUDA(cudaFreeHost(hosts[member.rank])); });
}

INSTANTIATE_TEST_SUITE_P(Gpu, Windows, testing::ValuesIn(modes_and_layouts()),
                         mode_and_layout_name);

// ---- told by ranks that are processes ----

/// Elements of int32 from each rank.
struct GatheredCounts {
  std::size_t before = 10'001, within = 10'002, after = 10'003;
};
constexpr GatheredCounts kGathered;

TEST(RankOfJob, CallsBesideAWindow) {
  const Layout layout = layout_of_job();
  Team team(Mode::kProcess, layout, kAlways);
  Member& member = team.members()[0];
  void* memory = nullptr;
  check(weft_memory_allocate(context(), WEFT_DEVICE_CUDA, member.device, kBytes, &memory),
        "weft_memory_allocate");
  const auto gather = [&](std::size_t count) {
    auto* const blocks = static_cast<std::int32_t*>(memory);
    const std::vector<std::int32_t> sent(count, static_cast<std::int32_t>(count + member.rank));
    CUDA(cudaMemcpyAsync(blocks + member.rank * count, sent.data(), count * 4, cudaMemcpyDefault,
                         member.cuda));
    check(weft_all_gather(blocks + member.rank * count, blocks, count, WEFT_INT32, member.comm,
                          member.stream),
          "weft_all_gather");
    team.synchronize();
    std::vector<std::int32_t> got(count * layout.ranks);
    CUDA(cudaMemcpy(got.data(), memory, got.size() * 4, cudaMemcpyDefault));
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], static_cast<std::int32_t>(count + i / count)) << "element " << i;
  };
  gather(kGathered.before);
  weft_window* window = nullptr;
  check(weft_window_register(member.comm, memory, kBytes, &window), "weft_window_register");
  gather(kGathered.within);
  check(weft_window_deregister(window), "weft_window_deregister");
  gather(kGathered.after);
  check(weft_memory_free(context(), memory), "weft_memory_free");
}

class ToldWindows : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam());
  }
};

/// Results are right either way: what goes through a window has no plan, as the log shows.
void expect_told(const Layout& layout, Environment environment) {
  environment["WEFT_LOG_TOPICS_SCHEDULE"] = "debug";
  Job job(layout, "CallsBesideAWindow", environment);
  job.expect_success();
  for (std::uint32_t rank = 0; rank < layout.ranks; ++rank) {
    const std::string log = job[rank].err();
    const auto plans = [&](std::size_t count) {
      return log.find("rank " + std::to_string(rank) + " plans all_gather of " +
                      std::to_string(count) + " ") != std::string::npos;
    };
    EXPECT_TRUE(plans(kGathered.before)) << indented(log);
    EXPECT_FALSE(plans(kGathered.within)) << indented(log);
    EXPECT_TRUE(plans(kGathered.after)) << indented(log);
  }
}
TEST_P(ToldWindows, TakeCallsWhileTheyAreThere) {
  expect_told(GetParam(), {});
}
TEST_P(ToldWindows, TakeCallsWithTheSmallestInboxes) {
  expect_told(GetParam(), {{"WEFT_BUFFERS_DIRECT", "8"}});
}
INSTANTIATE_TEST_SUITE_P(Gpu, ToldWindows, testing::ValuesIn(kPairs), layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
