// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends between ranks that sockets join: the whole way through communicators, ports with threads of
// their own, and TCP.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
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

/// What `rank` sends to its partner and receives from it, in one group that it waits for.
struct Exchange {
  std::uint32_t partner = 0;
  std::span<const std::byte> sent{};
  std::span<std::byte> received{};
};
Status run_exchange(const test::Ranks& ranks, std::uint32_t rank, const Exchange& exchange) {
  CallCutter cutter;
  std::vector<Call> calls(2);
  for (Call& made : calls) {
    made.communicator = ranks.communicators[rank].get();
    made.stream = ranks.streams[rank].get();
    made.task = {.operation = Operation::kSend,
                 .type = WEFT_INT8,
                 .root = exchange.partner,
                 .count = exchange.sent.size()};
  }
  calls[0].send = exchange.sent.data();
  calls[1].task.operation = Operation::kRecv;
  calls[1].task.count = exchange.received.size();
  calls[1].recv = exchange.received.data();
  WEFT_TRY(start_calls(calls, cutter));
  return ranks.streams[rank]->synchronize();
}

/// What each of so many ranks, a thread each, found wrong.
std::vector<std::string> mistakes_of(std::uint32_t count,
                                     const std::function<std::string(std::uint32_t)>& run_rank) {
  std::vector<std::string> mistakes(count);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] { mistakes[rank] = run_rank(rank); });
  for (std::thread& thread : threads)
    thread.join();
  return mistakes;
}

TEST(SendsOverSockets, GoByLinesAndByStepsByTurns) {
  const test::Ranks ranks(kTwo, "net-socket", {}, std::make_unique<PolledDevice>());
  constexpr std::uint64_t kMost = 9000;
  const auto run_rank = [&](std::uint32_t rank) -> std::string {
    std::minstd_rand random(17);
    std::vector<std::byte> input(kMost);
    std::vector<std::byte> output(kMost);
    for (std::uint64_t call = 0; call < 60; ++call) {
      const std::uint64_t sizes[] = {1 + random() % 64, 4096, 4097, 1 + random() % kMost};
      const std::uint64_t bytes[] = {sizes[random() % std::size(sizes)],
                                     sizes[random() % std::size(sizes)]};
      const std::uint64_t received = bytes[1 - rank];
      for (std::uint64_t at = 0; at < kMost; ++at)
        input[at] = payload_byte(rank, at, call);
      std::ranges::fill(output, kNobodys);
      const Status ended = run_exchange(ranks, rank,
                                        {.partner = 1 - rank,
                                         .sent = std::span(input).first(bytes[rank]),
                                         .received = std::span(output).first(received)});
      if (!ended) return test::text_of(ended);
      for (std::uint64_t at = 0; at < kMost; ++at) {
        const std::byte wanted = at < received ? payload_byte(1 - rank, at, call) : kNobodys;
        if (output[at] == wanted) continue;
        return "call " + std::to_string(call) + ": byte " + std::to_string(at) + " of " +
               std::to_string(received);
      }
    }
    return "";
  };
  EXPECT_EQ(mistakes_of(kTwo, run_rank), std::vector<std::string>(kTwo));
}

// A port puts the payload of lines together in a slot, which may be shorter than lines go.
TEST(SendsOverSockets, GoByLinesNoLongerThanASlot) {
  const test::Ranks ranks(kTwo, "net-socket", {{"WEFT_BUFFERS_STEP", "4KiB"}},
                          std::make_unique<PolledDevice>());
  constexpr std::uint64_t kMost = 20'000;
  const auto run_rank = [&](std::uint32_t rank) -> std::string {
    std::vector<std::byte> input(kMost);
    std::vector<std::byte> output(kMost);
    for (std::uint64_t bytes = 1000; bytes <= kMost; bytes += 1000) {
      for (std::uint64_t at = 0; at < kMost; ++at)
        input[at] = payload_byte(rank, at, bytes);
      const Status ended = run_exchange(ranks, rank,
                                        {.partner = 1 - rank,
                                         .sent = std::span(input).first(bytes),
                                         .received = std::span(output).first(bytes)});
      if (!ended) return std::to_string(bytes) + " bytes: " + test::text_of(ended);
      for (std::uint64_t at = 0; at < bytes; ++at) {
        if (output[at] == payload_byte(1 - rank, at, bytes)) continue;
        return "byte " + std::to_string(at) + " of " + std::to_string(bytes);
      }
    }
    return "";
  };
  EXPECT_EQ(mistakes_of(kTwo, run_rank), std::vector<std::string>(kTwo));
}

// Ranks 0 and 1 have messages for each other under way when the others ask, one after the other, to
// be connected with them: then the thread that connects uses nets of ports whose own threads use
// them, too.
TEST(SendsOverSockets, ConnectOtherPartnersWhileMessagesAreUnderWay) {
  constexpr std::uint32_t kRanks = 8;
  constexpr std::uint64_t kBytes = std::uint64_t{256} << 10;
  constexpr std::uint32_t kCallsBetween = 10;
  const test::Ranks ranks(kRanks, "net-socket", {{"WEFT_TRANSPORTS_NET_PORTS", "4"}},
                          std::make_unique<PolledDevice>());
  std::array<std::atomic<std::uint32_t>, kTwo> calls{};
  const auto run_rank = [&](std::uint32_t rank) -> std::string {
    std::vector<std::byte> input(kBytes);
    std::vector<std::byte> output(kBytes);
    for (std::uint64_t at = 0; at < kBytes; ++at)
      input[at] = payload_byte(rank, at, 0);
    const auto exchange = [&](std::uint32_t partner) -> std::string {
      std::ranges::fill(output, kNobodys);
      const Status ended =
          run_exchange(ranks, rank, {.partner = partner, .sent = input, .received = output});
      if (!ended) return test::text_of(ended);
      for (std::uint64_t at = 0; at < kBytes; ++at) {
        if (output[at] == payload_byte(partner, at, 0)) continue;
        return "byte " + std::to_string(at) + " of rank " + std::to_string(partner);
      }
      return "";
    };
    std::string mistake;
    if (rank >= kTwo) {
      std::atomic<std::uint32_t>& made = calls.at(rank % kTwo);
      while (made.load() < rank / kTwo * kCallsBetween)
        std::this_thread::yield();
      return exchange(rank % kTwo);
    }
    for (std::uint32_t call = 0; call < kRanks / kTwo * kCallsBetween; ++call) {
      if (mistake.empty()) mistake = exchange(1 - rank);
      ++calls.at(rank);  // also after a mistake: others wait for it
    }
    for (std::uint32_t other = rank + kTwo; other < kRanks && mistake.empty(); other += kTwo)
      mistake = exchange(other);
    return mistake;
  };
  EXPECT_EQ(mistakes_of(kRanks, run_rank), std::vector<std::string>(kRanks));
}

}  // namespace
}  // namespace weft
