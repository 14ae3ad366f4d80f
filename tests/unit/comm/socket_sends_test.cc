// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends between ranks that sockets join: the whole way through communicators, ports with threads of
// their own, and TCP.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/comm/start.h"
#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

constexpr std::uint32_t kTwo = 2;
constexpr std::byte kNobodys{0x5a};

std::byte payload_byte(std::uint32_t from, std::uint64_t at, std::uint64_t call) {
  return static_cast<std::byte>(from * 131 + at * 7 + call * 29);
}

/// Its kernels are those of CPUs, and it is polled for as for a GPU's.
class PolledDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
};

TEST(SendsOverSockets, GoByLinesAndByStepsByTurns) {
  test::Ranks ranks(kTwo, "net-socket", {}, std::make_unique<PolledDevice>());
  constexpr std::uint64_t kMost = 9000;
  std::vector<std::string> mistakes(kTwo);
  const auto run_rank = [&](std::uint32_t rank) {
    std::minstd_rand random(17);
    CallCutter cutter;
    std::vector<std::byte> input(kMost);
    std::vector<std::byte> output(kMost);
    for (std::uint64_t call = 0; call < 60; ++call) {
      const std::uint64_t sizes[] = {1 + random() % 64, 4096, 4097, 1 + random() % kMost};
      const std::uint64_t bytes[] = {sizes[random() % std::size(sizes)],
                                     sizes[random() % std::size(sizes)]};
      for (std::uint64_t at = 0; at < kMost; ++at)
        input[at] = payload_byte(rank, at, call);
      std::ranges::fill(output, kNobodys);
      std::vector<Call> calls(2);
      for (const bool sends : {true, false}) {
        Call& made = calls[sends ? 0 : 1];
        made.communicator = ranks.communicators[rank].get();
        made.stream = ranks.streams[rank].get();
        made.task = {.operation = sends ? Operation::kSend : Operation::kRecv,
                     .type = WEFT_INT8,
                     .root = 1 - rank,
                     .count = bytes[sends ? rank : 1 - rank]};
        made.send = sends ? input.data() : nullptr;
        made.recv = sends ? nullptr : output.data();
      }
      Status ended = start_calls(calls, cutter);
      if (ended) ended = ranks.streams[rank]->synchronize();
      if (!ended) mistakes[rank] = test::text_of(ended);
      const std::uint64_t received = bytes[1 - rank];
      for (std::uint64_t at = 0; at < kMost && mistakes[rank].empty(); ++at) {
        const std::byte wanted = at < received ? payload_byte(1 - rank, at, call) : kNobodys;
        if (output[at] == wanted) continue;
        mistakes[rank] = "call " + std::to_string(call) + ": byte " + std::to_string(at) + " of " +
                         std::to_string(received);
      }
      if (!mistakes[rank].empty()) return;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kTwo; ++rank)
    threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(mistakes, std::vector<std::string>(kTwo));
}

// Ranks 0 and 1 have messages for each other under way when the others ask to be connected with
// them: then the thread that connects uses nets of ports whose own threads use them, too.
TEST(SendsOverSockets, ConnectAnotherPartnerWhileMessagesAreUnderWay) {
  constexpr std::uint32_t kRanks = 4;
  constexpr std::uint64_t kBytes = std::uint64_t{256} << 10;
  constexpr std::uint64_t kCallsMeanwhile = 30;
  test::Ranks ranks(kRanks, "net-socket", {{"WEFT_TRANSPORTS_NET_PORTS", "4"}},
                    std::make_unique<PolledDevice>());
  std::vector<std::string> mistakes(kRanks);
  const auto run_rank = [&](std::uint32_t rank) {
    CallCutter cutter;
    std::vector<std::byte> input(kBytes);
    std::vector<std::byte> output(kBytes);
    for (std::uint64_t at = 0; at < kBytes; ++at)
      input[at] = payload_byte(rank, at, 0);
    const auto exchange = [&](std::uint32_t partner) -> Status {
      std::vector<Call> calls(2);
      for (Call& made : calls) {
        made.communicator = ranks.communicators[rank].get();
        made.stream = ranks.streams[rank].get();
        made.task = {
            .operation = Operation::kRecv, .type = WEFT_INT8, .root = partner, .count = kBytes};
      }
      calls[0].task.operation = Operation::kSend;
      calls[0].send = input.data();
      calls[1].recv = output.data();
      WEFT_TRY(start_calls(calls, cutter));
      return ranks.streams[rank]->synchronize();
    };
    Status ended;
    for (std::uint64_t call = 0; rank < kTwo && call < kCallsMeanwhile && ended; ++call)
      ended = exchange(1 - rank);
    const std::uint32_t other = (rank + kTwo) % kRanks;
    if (ended) ended = exchange(other);
    if (!ended) mistakes[rank] = test::text_of(ended);
    for (std::uint64_t at = 0; at < kBytes && mistakes[rank].empty(); ++at) {
      if (output[at] != payload_byte(other, at, 0)) mistakes[rank] = "byte " + std::to_string(at);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(mistakes, std::vector<std::string>(kRanks));
}

}  // namespace
}  // namespace weft
