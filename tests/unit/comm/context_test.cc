// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a context reads, remembers and refuses.
#include "core/comm/context.h"

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using test::environment_with;
using test::Ranks;

std::string error_of(const std::string& file, std::map<std::string, std::string> variables) {
  const auto context = Context::create(file, environment_with(std::move(variables)));
  return context ? "" : context.error().to_string();
}

TEST(Context, ReadsItsEnvironmentAndNotTheProcesss) {
  ASSERT_EQ(setenv("WEFT_CHANNELS_MAX", "5", 1), 0);
  const auto context =
      Ranks::value(Context::create("", environment_with({{"WEFT_BUFFERS_STEP", "8KiB"}})));
  unsetenv("WEFT_CHANNELS_MAX");
  EXPECT_EQ(context->config().bytes("buffers.step"), 8192U);
  EXPECT_EQ(context->config().integer("channels.max"), 0);
  EXPECT_TRUE(context->check_process());
  EXPECT_FALSE(context->host().host_id.empty());
}

// Of the process's table, as the system tells it.
int room_for_descriptors() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("FDSize:")) return std::stoi(line.substr(line.find(':') + 1));
  }
  return 0;
}

TEST(Context, MakesRoomForDescriptorsBeforeAnyoneWaits) {
  const auto context = Ranks::value(Context::create("", environment_with({})));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_GE(static_cast<rlim_t>(room_for_descriptors()), std::min<rlim_t>(limit.rlim_cur, 1024));
}

TEST(Context, SaysWhatIsWrongWithItsConfiguration) {
  EXPECT_NE(error_of("/nowhere/weft.yaml", {}).find("/nowhere/weft.yaml"), std::string::npos);
  EXPECT_NE(error_of("", {{"WEFT_CHANNELS_MAX", "many"}}).find("WEFT_CHANNELS_MAX"),
            std::string::npos);
  EXPECT_NE(error_of("", {{"WEFT_CHANNELS_MUX", "1"}}).find("WEFT_CHANNELS_MAX"),
            std::string::npos);
}

class HoldingDevice : public device::HostDevice {
 public:
  [[nodiscard]] std::int32_t index() const override { return 3; }
  [[nodiscard]] HeldMemory held_memory() override {
    return {.in_use = 1, .kept = 2, .host_in_use = 3, .host_kept = 4};
  }
};

TEST(Context, TellsWhatAnOpenDeviceHolds) {
  const auto context =
      Ranks::value(Context::create("", environment_with({}), std::make_unique<HoldingDevice>()));
  EXPECT_EQ(context->held_memory(3).kept, 2U);
  EXPECT_EQ(context->held_memory(3).host_kept, 4U);
  EXPECT_EQ(context->held_memory(0).in_use, 0U);
}

TEST(Context, RemembersTheErrorOfEachThread) {
  const auto context = Ranks::value(Context::create("", environment_with({})));
  EXPECT_EQ(context->last_error(), "");
  EXPECT_EQ(context->remember(Error(WEFT_ERROR_TIMEOUT, "mine")), WEFT_ERROR_TIMEOUT);
  std::thread([&] {
    EXPECT_EQ(context->last_error(), "");
    context->remember(Error(WEFT_ERROR_PEER, "another's"));
    EXPECT_EQ(context->last_error(), "another's");
  }).join();
  EXPECT_EQ(context->last_error(), "mine");
  const auto second = Ranks::value(Context::create("", environment_with({})));
  EXPECT_EQ(second->last_error(), "");
}

TEST(Context, NoticesAChild) {
  const auto context = Ranks::value(Context::create("", environment_with({})));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(context->check_process() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(context->check_process());
}

TEST(Context, KeepsAGroupForEachThread) {
  const auto context = Ranks::value(Context::create("", environment_with({})));
  EXPECT_EQ(context->open_group(), nullptr);
  Group& group = context->groups().start();
  EXPECT_EQ(context->open_group(), &group);
  std::thread([&] { EXPECT_EQ(context->open_group(), nullptr); }).join();
  EXPECT_EQ(&context->groups().start(), &group);
  EXPECT_TRUE(group.end());
  EXPECT_EQ(context->open_group(), &group);
  group.note_error(Error(WEFT_ERROR_INVALID_ARGUMENT, "the first"));
  group.note_error(Error(WEFT_ERROR_TIMEOUT, "the second"));
  const auto ended = group.end();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().to_string(), "nothing of the group was started: the first");
  EXPECT_EQ(group.end().error().code(), WEFT_ERROR_INVALID_USAGE);
  context->groups().closed();
  EXPECT_EQ(context->open_group(), nullptr);
}

// More than have a place; each finds its own, again and again.
TEST(Context, KeepsGroupsOfManyThreads) {
  const auto context = Ranks::value(Context::create("", environment_with({})));
  constexpr std::size_t kThreads = 40;
  std::barrier<> all(kThreads);
  std::mutex mutex;
  std::set<const Group*> groups;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        Group& group = context->groups().start();
        {
          const std::scoped_lock lock(mutex);
          groups.insert(&group);
        }
        all.arrive_and_wait();
        EXPECT_EQ(context->open_group(), &group);
        EXPECT_EQ(groups.size(), kThreads);
        EXPECT_TRUE(group.end());
        all.arrive_and_wait();
        context->groups().closed();
        EXPECT_EQ(context->open_group(), nullptr);
        {
          const std::scoped_lock lock(mutex);
          groups.clear();
        }
        all.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace
}  // namespace weft
