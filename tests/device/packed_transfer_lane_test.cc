// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Transfers that a kernel's argument has packed are, once many lanes have unpacked them, those that
// the launch divided into groups: each lane sees all of them whole.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/cuda/pair_argument.h"
#include "core/device/packed_transfer.h"
#include "tests/device/lane_model.h"
#include "tests/device/lane_teams.h"

namespace weft::device::testing {
namespace {

using Argument = cuda::PackedPairArgument<kMostPackedPairs>;

/// Connections and what transfers may read and write.
struct Ends {
  explicit Ends(std::size_t count) : cursors(count), views(count) {
    for (std::size_t i = 0; i < count; ++i) {
      views[i].buffer = buffer.data() + i;
      views[i].cursor = &cursors[i];
      views[i].steps = static_cast<std::uint32_t>(i + 1);
      views[i].peer = static_cast<std::uint32_t>(1000 + i);
    }
  }
  std::vector<std::byte> buffer{std::vector<std::byte>(1 << 12)};
  std::vector<ConnectionCursor> cursors;
  std::vector<ConnectionView> views;
};

/// Some of them on one end, in order; some copies.
std::vector<PairTransfer> random_transfers(std::mt19937_64& random, Ends& ends, std::size_t count) {
  constexpr PairPayload kPayloads[] = {PairPayload::kSteps, PairPayload::kLines,
                                       PairPayload::kHeader, PairPayload::kWideLines};
  std::map<std::size_t, std::uint32_t> latest;
  std::vector<PairTransfer> transfers(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    PairTransfer& transfer = transfers[i];
    transfer.bytes = random();
    std::byte* const buffer = ends.buffer.data() + random() % ends.buffer.size();
    const std::size_t place = random() % (ends.views.size() + ends.views.size() / 8 + 1);
    if (place >= ends.views.size()) {
      transfer.from = buffer;
      transfer.to = ends.buffer.data() + random() % ends.buffer.size();
      continue;
    }
    // An end sends or receives, always the same.
    (place % 2 == 0 ? transfer.from = buffer : transfer.to = buffer);
    transfer.tag = random();
    transfer.view = ends.views[place];
    transfer.place = static_cast<std::uint16_t>(place);
    transfer.payload = kPayloads[random() % 3];
    if (transfer.payload == PairPayload::kHeader) transfer.bytes = 0;
    const auto [before, first] = latest.try_emplace(place, i);
    if (first) continue;
    transfer.after = before->second;
    before->second = i;
  }
  return transfers;
}

void expect_alike(const PairTransfer& unpacked, const PairTransfer& whole) {
  EXPECT_EQ(unpacked.from, whole.from);
  EXPECT_EQ(unpacked.to, whole.to);
  EXPECT_EQ(unpacked.bytes, whole.bytes);
  EXPECT_EQ(unpacked.tag, whole.tag);
  EXPECT_EQ(std::memcmp(&unpacked.view, &whole.view, sizeof(ConnectionView)), 0);
  EXPECT_EQ(unpacked.after, whole.after);
  EXPECT_EQ(unpacked.complete, 0U);
  EXPECT_EQ(unpacked.payload, whole.payload);
  EXPECT_EQ(unpacked.taken, 0U);
  EXPECT_EQ(unpacked.moved, 0U);
  EXPECT_EQ(unpacked.step, 0U);
}

class PackedTransferLanes : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  /// Each group's, by lanes, are those that group_transfers() has for it.
  void expect_whole(const std::vector<PairTransfer>& transfers, const Ends& ends,
                    std::uint32_t most_groups) const {
    cuda::PairGroups groups;
    cuda::divide_transfers(transfers, most_groups, groups);
    Argument argument;
    std::memset(static_cast<void*>(&argument), 0xEE, sizeof(argument));
    Launch launch;
    launch.pair_views = ends.views.data();
    fill(launch, transfers, groups, argument);
    cuda::group_transfers(transfers, most_groups, groups);
    for (std::uint32_t number = 0; number < groups.count(); ++number) {
      const std::uint32_t begin = argument.begin[number];
      const std::uint32_t count = argument.begin[number + 1] - begin;
      ASSERT_EQ(begin, groups.begin[number]);
      ASSERT_EQ(begin + count, groups.begin[number + 1]);
      // Where another call's were.
      std::vector<PairTransfer> own(count);
      std::memset(static_cast<void*>(own.data()), 0xEE, count * sizeof(PairTransfer));
      LaneTeams teams;
      teams.add("lanes", GetParam(), [&](LaneGroup& group) {
        unpack_transfers(group, argument.transfers + begin, argument.views, count, own.data());
        for (std::uint32_t i = 0; i < count; ++i)
          expect_alike(own[i], groups.transfers[begin + i]);
      });
      teams.run();
      if (HasFailure()) return;
    }
  }
};

TEST_P(PackedTransferLanes, SeeWhatTheLaunchHas) {
  std::mt19937_64 random(20261127);
  for (int round = 0; round < 12; ++round) {
    Ends ends(1 + random() % 150);
    const std::size_t count = 1 + random() % kMostPackedPairs;
    const auto transfers = random_transfers(random, ends, count);
    const auto most = static_cast<std::uint32_t>(1 + random() % cuda::kMostPairGroups);
    ASSERT_NO_FATAL_FAILURE(expect_whole(transfers, ends, most)) << round;
    if (HasFailure()) return;
  }
}

// All on one end: the longest chain that there is.
TEST_P(PackedTransferLanes, SeeTheirOrder) {
  std::mt19937_64 random(7);
  Ends ends(1);
  std::vector<PairTransfer> transfers(kMostPackedPairs);
  for (std::uint32_t i = 0; i < transfers.size(); ++i) {
    transfers[i].from = ends.buffer.data();
    transfers[i].view = ends.views[0];
    transfers[i].place = 0;
    transfers[i].after = i == 0 ? kNoTransfer : i - 1;
  }
  expect_whole(transfers, ends, 64);
}

INSTANTIATE_TEST_SUITE_P(All, PackedTransferLanes, ::testing::Values(1, 8, 32),
                         [](const auto& info) { return std::to_string(info.param) + "Lanes"; });

}  // namespace
}  // namespace weft::device::testing
