// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A path that breaks between two ranks while all wait for each other: whoever sees it tells.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <netinet/in.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/comm/failure.h"
#include "core/comm/start.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Descriptors of connected sockets of this process that have an address.
std::set<int> connected_sockets() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sin_family == AF_INET) {
      found.insert(fd);
    }
  }
  return found;
}

// The two ranks at its ends go on to calls of another communicator, in which they wait for the
// third, which waits for them: nobody asks the first one how it is.
TEST(Suspicion, IsToldThoughNobodyAsks) {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kCount = 100'000;
  using Communicators = std::vector<std::unique_ptr<Communicator>>;
  test::Ranks ranks(
      kRanks, "net-socket",
      {{"WEFT_TIMEOUTS_OPERATION", "off"}, {"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"}});
  Communicators others;
  ranks.join(others, kRanks);
  std::vector<std::vector<float>> data(2 * kRanks, std::vector<float>(kCount, 1));
  const auto sum = [&](const Communicators& communicators, std::size_t rank, float* buffer) {
    const Call call{.communicator = communicators[rank].get(),
                    .stream = ranks.streams[rank].get(),
                    .task = {.operation = Operation::kAllReduce,
                             .type = WEFT_FLOAT32,
                             .reduction = WEFT_SUM,
                             .count = kCount},
                    .send = buffer,
                    .recv = buffer};
    return start_calls({&call, 1});
  };
  using Said = std::array<std::future<Status>, kRanks>;
  const auto each = [&](const auto& calls) {
    Said said;
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      said[rank] = std::async(std::launch::async, [&ranks, calls, rank] {
        calls(rank);
        return ranks.streams[rank]->synchronize();
      });
    return said;
  };
  const auto call_first = [&](std::size_t rank) {
    static_cast<void>(sum(ranks.communicators, rank, data[rank].data()));
  };
  const auto call_second = [&](std::size_t rank) {
    static_cast<void>(sum(others, rank, data[kRanks + rank].data()));
  };
  for (auto& said : each(call_second))
    ASSERT_TRUE(said.get());
  const std::set<int> before = connected_sockets();
  for (auto& said : each(call_first))
    ASSERT_TRUE(said.get());
  int broken = -1;
  for (const int fd : connected_sockets()) {
    if (!before.contains(fd)) broken = fd;
  }
  ASSERT_GE(broken, 0);
  ASSERT_EQ(shutdown(broken, SHUT_RDWR), 0);
  Said said = each([&](std::size_t rank) {
    call_first(rank);
    call_second(rank);
  });
  for (auto& one : said) {
    if (one.wait_for(20s) == std::future_status::ready) continue;
    ADD_FAILURE() << "a rank still waits";
    for (const auto& communicator : ranks.communicators)
      communicator->abort();
  }
  for (auto& one : said) {
    const Status end = one.get();
    ASSERT_FALSE(end);
    EXPECT_THAT(end.error().to_string(), HasSubstr("moving messages"));
  }
}

// Of the second one nobody has heard yet, while its connections may still have the caller's
// buffers.
TEST(Suspicion, IsSettledForEachCommunicatorOfAStream) {
  test::Ranks ranks(1, "shm");
  const auto first = std::make_shared<Failure>();
  const auto second = std::make_shared<Failure>();
  std::atomic<bool> stopped{false};
  second->set_hook([&](const Error&, bool) {
    std::this_thread::sleep_for(20ms);
    stopped = true;
  });
  first->establish(Error(WEFT_ERROR_PEER, "the first one's"), false);
  second->suspect(Error(WEFT_ERROR_NETWORK, "the second one's"));
  Stream& stream = *ranks.streams[0];
  for (const auto& failure : {first, first, second})
    stream.note_failure(failure);
  const Status end = stream.synchronize();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().what(), "the first one's");
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(stream.synchronize()) << "told once";
}

}  // namespace
}  // namespace weft
