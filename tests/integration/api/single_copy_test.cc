// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Sends and exchanges that receivers read straight from the sender's memory, beside those that go
// through slots: around the limit, at any address, many at once, and in graphs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/api/exchange.h"
#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"
#include "tests/support/process_memory.h"

namespace weft::test {
namespace {

std::vector<std::string> settings_with(const std::string& limit) {
  return {"transports.order", "shm", "transports.single_copy", limit};
}

/// Bytes that tell place and message, with a few around them that nobody may touch.
class Bytes {
 public:
  static constexpr std::size_t kAround = 16;

  Bytes(std::size_t size, std::size_t shift) : shift_(shift), all_(size + 2 * kAround, 0x5A) {}
  [[nodiscard]] std::uint8_t* data() { return all_.data() + shift_; }
  [[nodiscard]] std::size_t size() const { return all_.size() - 2 * kAround; }
  void fill(std::uint32_t seed) {
    // Of a length that no step has; then by copies, since a sanitizer looks at each other access.
    constexpr std::size_t kPeriod = 50'021;
    for (std::size_t i = 0; i < std::min(size(), kPeriod); ++i)
      data()[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + seed);
    for (std::size_t done = kPeriod; done < size(); done += kPeriod)
      std::memcpy(data() + done, data(), std::min(kPeriod, size() - done));
  }
  [[nodiscard]] std::string difference(Bytes& sent) {
    if (std::memcmp(data(), sent.data(), size()) != 0) {
      const auto* const first = std::mismatch(data(), data() + size(), sent.data()).first;
      return "byte " + std::to_string(first - data()) + " is wrong";
    }
    const auto untouched = [](std::uint8_t byte) { return byte == 0x5A; };
    const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(shift_);
    const auto end = begin + static_cast<std::ptrdiff_t>(size());
    if (std::all_of(all_.begin(), begin, untouched) && std::all_of(end, all_.end(), untouched)) {
      return "";
    }
    return "a byte beside them was written";
  }

 private:
  std::size_t shift_;
  std::vector<std::uint8_t> all_;
};

/// The limit; "0" is none.
class SingleCopy : public testing::TestWithParam<std::string> {
 protected:
  const ContextHandle context_ = make_context();
  const CommSettings settings_{settings_with(GetParam())};
  const LocalComms local_{context_.get(), settings_.get(), 3};
};

// The ranks are of one process, whose own memory only a filter of system calls keeps from it.
TEST_P(SingleCopy, IsPossibleWhereTheKernelAllowsIt) {
  const char byte = 0;
  const std::string rule = rule_against_reading(getpid(), reinterpret_cast<std::uintptr_t>(&byte));
  EXPECT_THAT(describe_pair(local_.comm(0), 0, 1),
              testing::HasSubstr(rule.empty() ? "same host, single copy possible;"
                                              : "same host, no single copy: "));
  if (!rule.empty()) GTEST_SKIP() << rule << "; all goes through slots";
}

TEST_P(SingleCopy, AnySizeAtAnyAddress) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  std::uint32_t seed = 1;
  for (const std::size_t size : {std::size_t{1}, std::size_t{65535}, std::size_t{65536},
                                 std::size_t{65537}, kMiB - 1, kMiB, kMiB + 1, 9 * kMiB + 333}) {
    for (const std::size_t shift : {0U, 1U, 13U}) {
      std::vector<Bytes> sent(2, Bytes(size, shift));
      std::vector<Bytes> received(2, Bytes(size, (shift * 5) % Bytes::kAround));
      for (Bytes& bytes : sent)
        bytes.fill(seed++);
      must(context_.get(), weft_group_start(context_.get()));
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        must(context_.get(), weft_send(sent[rank].data(), size, WEFT_UINT8, 1 - rank,
                                       local_.comm(rank), local_.stream(rank)));
        must(context_.get(), weft_recv(received[rank].data(), size, WEFT_UINT8, 1 - rank,
                                       local_.comm(rank), local_.stream(rank)));
      }
      must(context_.get(), weft_group_end(context_.get()));
      local_.synchronize();
      EXPECT_EQ(received[0].difference(sent[1]), "") << size << " at " << shift;
      EXPECT_EQ(received[1].difference(sent[0]), "") << size << " at " << shift;
    }
  }
}

// Short ones among them, several between the same two ranks, and copies within a rank.
TEST_P(SingleCopy, GroupsOfMany) {
  constexpr std::size_t kMostBytes = std::size_t{3} << 20;
  for (std::uint64_t round = 0; round < 8; ++round) {
    std::vector<std::unique_ptr<Exchange>> exchanges;
    must(context_.get(), weft_group_start(context_.get()));
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      exchanges.push_back(std::make_unique<Exchange>(40 + round, rank, 3, kMostBytes));
      must(context_.get(),
           exchanges.back()->start(nullptr, local_.comm(rank), local_.stream(rank)));
    }
    must(context_.get(), weft_group_end(context_.get()));
    local_.synchronize();
    for (const auto& exchange : exchanges)
      EXPECT_EQ(exchange->wrong(), "");
  }
}

// What is sent is the caller's again when the stream says so: each launch sends something else.
TEST_P(SingleCopy, ReplayedGraphs) {
  constexpr std::size_t kSize = (std::size_t{5} << 20) + 3;
  Bytes sent(kSize, 3);
  Bytes received(kSize, 5);
  std::vector<GraphHandle> graphs;
  graphs.push_back(capture(context_.get(), local_.stream(0), [&] {
    must(context_.get(),
         weft_send(sent.data(), kSize, WEFT_UINT8, 1, local_.comm(0), local_.stream(0)));
  }));
  graphs.push_back(capture(context_.get(), local_.stream(1), [&] {
    must(context_.get(),
         weft_recv(received.data(), kSize, WEFT_UINT8, 0, local_.comm(1), local_.stream(1)));
  }));
  for (std::uint32_t launch = 1; launch < 5; ++launch) {
    sent.fill(launch);
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      must(context_.get(), weft_graph_launch(graphs[rank].get(), local_.stream(rank)));
    local_.synchronize();
    EXPECT_EQ(received.difference(sent), "") << launch;
  }
}

TEST_P(SingleCopy, Exchanges) {
  constexpr std::uint64_t kMost = 700'001;
  for (const std::uint64_t count : {std::uint64_t{16384}, std::uint64_t{16385}, kMost}) {
    for (const Kind kind : {Kind::kAllToAll, Kind::kGather, Kind::kScatter}) {
      std::vector<std::unique_ptr<Trial>> trials;
      must(context_.get(), weft_group_start(context_.get()));
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        trials.push_back(std::make_unique<Trial>(
            Shape{.kind = kind, .count = count, .type = WEFT_INT32}, rank, 3, 7));
        must(context_.get(), trials.back()->start(local_.comm(rank), local_.stream(rank)));
      }
      must(context_.get(), weft_group_end(context_.get()));
      local_.synchronize();
      for (const auto& trial : trials)
        EXPECT_EQ(trial->wrong(), "") << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, SingleCopy, testing::Values("64KiB", "1", "0"),
                         [](const auto& info) { return "From" + info.param; });

}  // namespace
}  // namespace weft::test
