// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How a GPU's launch divides sends and receives among its groups: host code, though of the device.
#include "core/device/cuda/pair_groups.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "core/device/cuda/early_launch.h"

namespace weft::device::cuda {
namespace {

TEST(EarlyLaunch, LeavesAnotherCommunicatorRoom) {
  constexpr std::uint32_t kLarge = 64;
  EXPECT_TRUE(may_come_early({.items = {}, .own_processors = true}, kLarge));
  EXPECT_TRUE(may_come_early({.items = {}, .shares_device = true}, kLarge))
      << "each has half of it for both";
  EXPECT_FALSE(may_come_early({}, kLarge));
  EXPECT_FALSE(may_come_early({}, kCtasThatMayComeEarly + 1));
  EXPECT_TRUE(may_come_early({}, 1)) << "small calls";
}

PairGroups grouped(std::span<const PairTransfer> transfers, std::uint32_t most_groups) {
  PairGroups groups;
  group_transfers(transfers, most_groups, groups);
  return groups;
}

/// `ends` connections; each transfer is on one of them, or a copy.
std::vector<PairTransfer> random_transfers(std::mt19937_64& random,
                                           std::vector<ConnectionCursor>& ends,
                                           std::uint32_t count) {
  std::vector<PairTransfer> transfers(count);
  std::map<const ConnectionCursor*, std::uint32_t> latest;
  for (std::uint32_t i = 0; i < count; ++i) {
    transfers[i].tag = i + 1;
    const std::size_t end = random() % (ends.size() + 1);
    if (end == ends.size()) continue;
    transfers[i].view.cursor = &ends[end];
    const auto [before, first] = latest.try_emplace(&ends[end], i);
    if (first) continue;
    transfers[i].after = before->second;
    before->second = i;
  }
  return transfers;
}

TEST(PairGroups, KeepEachEndTogetherAndInOrder) {
  std::mt19937_64 random(20261122);
  PairGroups groups;  // what it held before does not count
  for (int round = 0; round < 300; ++round) {
    std::vector<ConnectionCursor> ends(1 + random() % 40);
    const auto count = static_cast<std::uint32_t>(1 + random() % 120);
    const std::vector<PairTransfer> transfers = random_transfers(random, ends, count);
    const auto most = static_cast<std::uint32_t>(1 + random() % 64);
    group_transfers(transfers, most, groups);
    ASSERT_GE(groups.count(), 1U);
    ASSERT_LE(groups.count(), most);
    ASSERT_EQ(groups.begin.front(), 0U);
    ASSERT_EQ(groups.begin.back(), count);
    std::map<const ConnectionCursor*, std::uint32_t> group_of;
    std::vector<bool> seen(count);
    for (std::uint32_t group = 0; group < groups.count(); ++group) {
      const std::uint32_t begin = groups.begin[group];
      ASSERT_LT(begin, groups.begin[group + 1]) << "an empty group";
      for (std::uint32_t i = begin; i < groups.begin[group + 1]; ++i) {
        const PairTransfer& transfer = groups.transfers[i];
        const PairTransfer& original = transfers[transfer.tag - 1];
        ASSERT_FALSE(seen[transfer.tag - 1]);
        seen[transfer.tag - 1] = true;
        ASSERT_EQ(transfer.view.cursor, original.view.cursor);
        if (transfer.view.cursor != nullptr) {
          ASSERT_EQ(group_of.try_emplace(transfer.view.cursor, group).first->second, group);
        }
        ASSERT_EQ(transfer.after == kNoTransfer, original.after == kNoTransfer);
        if (transfer.after == kNoTransfer) continue;
        ASSERT_LT(begin + transfer.after, i) << "what comes before is before it";
        ASSERT_EQ(groups.transfers[begin + transfer.after].tag, original.after + 1);
      }
    }
  }
}

TEST(PairGroups, SpreadEndsOverAllGroups) {
  std::vector<ConnectionCursor> ends(32);
  std::vector<PairTransfer> transfers(32);
  for (std::size_t i = 0; i < transfers.size(); ++i)
    transfers[i].view.cursor = &ends[i];
  EXPECT_EQ(grouped(transfers, 64).count(), 32U);
  const PairGroups eight = grouped(transfers, 8);
  for (std::uint32_t group = 0; group < 8; ++group)
    EXPECT_EQ(eight.begin[group + 1] - eight.begin[group], 4U);
}

TEST(PairGroups, SendsAndReceivesTakeTurns) {
  std::vector<ConnectionCursor> ends(6);
  std::byte byte{};
  std::vector<PairTransfer> transfers(7);  // three sends, three receives, a copy
  for (std::size_t i = 0; i < ends.size(); ++i) {
    transfers[i].view.cursor = &ends[i];
    if (i < 3) transfers[i].from = &byte;
    if (i >= 3) transfers[i].to = &byte;
  }
  transfers[6].from = transfers[6].to = &byte;
  const PairGroups groups = grouped(transfers, 64);
  ASSERT_EQ(groups.count(), 7U);
  for (std::uint32_t group = 0; group < 6; ++group)
    EXPECT_EQ(groups.transfers[group].from != nullptr, group % 2 == 0) << group;
  EXPECT_EQ(groups.transfers[6].view.cursor, nullptr) << "copies come last";
}

TEST(PairGroups, WantTheDeviceWhereThereAreManyMoreThanCtas) {
  EXPECT_FALSE(want_the_device(64, 64));
  EXPECT_FALSE(want_the_device(66, 64)) << "of which two are headers";
  EXPECT_FALSE(want_the_device(80, 64));
  EXPECT_TRUE(want_the_device(81, 64));

  WorkItem item;
  item.algorithm = Algorithm::kPair;
  item.most_parts = 64;
  item.transfer_count = 132;
  const ConnectionView views[1];
  Launch launch{.items = {&item, 1}, .pair_views = views, .own_processors = true};
  EXPECT_TRUE(wants_the_device(launch));
  launch.own_processors = false;
  EXPECT_FALSE(wants_the_device(launch)) << "others have the device as well";
  launch.own_processors = launch.is_bounded = true;
  EXPECT_FALSE(wants_the_device(launch)) << "the program bounds what calls take";
  launch.is_bounded = false;
  launch.pair_views = nullptr;
  EXPECT_FALSE(wants_the_device(launch)) << "no argument holds them";
  item.most_parts = 8;
  item.transfer_count = kMostWholePairs;
  EXPECT_TRUE(wants_the_device(launch)) << "they are carried as they are";
  launch.pair_views = views;
  item.most_parts = 64;
  item.transfer_count = 132;
  item.algorithm = Algorithm::kRing;
  EXPECT_FALSE(wants_the_device(launch));
  launch.items = {};
  EXPECT_FALSE(wants_the_device(launch));
}

// What most calls are is divided by a shorter way; a copy, which comes last, takes the general one.
TEST(PairGroups, EndsOnTheirOwnAreDividedAsAmongOthers) {
  std::mt19937_64 random(20261126);
  std::byte byte{};
  PairGroups alone;
  for (int round = 0; round < 100; ++round) {
    std::vector<ConnectionCursor> ends(1 + random() % 63);
    std::vector<PairTransfer> transfers(ends.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      transfers[i].tag = i;
      transfers[i].view.cursor = &ends[i];
      if (random() % 2 == 0) transfers[i].from = &byte;
      if (transfers[i].from == nullptr) transfers[i].to = &byte;
      transfers[i].bytes = random() % 4;
    }
    group_transfers(transfers, 64, alone);
    transfers.emplace_back().from = &byte;
    const PairGroups among_others = grouped(transfers, 64);
    ASSERT_EQ(alone.count(), ends.size());
    for (std::uint32_t group = 0; group < alone.count(); ++group) {
      ASSERT_EQ(alone.begin[group], group);
      ASSERT_EQ(among_others.begin[group], group);
      ASSERT_EQ(alone.transfers[group].tag, among_others.transfers[group].tag) << group;
    }
  }
}

// Of what was divided last the division is kept; nothing that it hangs on may be overlooked.
TEST(PairGroups, OfCallsAlikeAreThoseOfTheLatest) {
  std::mt19937_64 random(20261127);
  std::byte byte{};
  PairGroups kept;
  std::vector<ConnectionCursor> ends(50);
  std::vector<PairTransfer> transfers;
  std::uint32_t most = 64;
  for (int round = 0; round < 2000; ++round) {
    if (transfers.size() < 2 || random() % 50 == 0) {
      transfers = random_transfers(random, ends, static_cast<std::uint32_t>(2 + random() % 80));
      for (PairTransfer& transfer : transfers)
        (random() % 2 == 0 ? transfer.bytes = random() % 4 : 0);
    }
    PairTransfer& one = transfers[random() % transfers.size()];
    switch (random() % 6) {
      case 0:
        one.bytes = random() % 4;
        break;
      case 1:
        one.from = one.from == nullptr ? &byte : nullptr;
        break;
      case 2:
        most = static_cast<std::uint32_t>(1 + random() % 128);
        break;
      case 3:
        if (one.after == kNoTransfer && one.view.cursor != nullptr) one.view.cursor = nullptr;
        break;
      case 4:
        if (transfers.back().after == kNoTransfer) transfers.back().after = 0;
        break;
      default:
        one.tag = random();  // nothing that counts
    }
    group_transfers(transfers, most, kept);
    const PairGroups anew = grouped(transfers, most);
    ASSERT_EQ(kept.begin, anew.begin) << round;
    ASSERT_EQ(kept.order, anew.order) << round;
    ASSERT_EQ(kept.after, anew.after) << round;
    for (std::size_t i = 0; i < transfers.size(); ++i)
      ASSERT_EQ(kept.transfers[i].tag, anew.transfers[i].tag) << round;
  }
}

// One end more in each direction than there are groups for, of which two have next to nothing to
// move, wherever they lie.
TEST(PairGroups, EndsThatShareAGroupAreSmall) {
  constexpr std::size_t kEnds = 66;
  std::byte byte{};
  for (const std::size_t small : {std::size_t{0}, std::size_t{17}, kEnds / 2 - 1}) {
    std::vector<ConnectionCursor> ends(kEnds);
    std::vector<PairTransfer> transfers(kEnds);
    for (std::size_t i = 0; i < kEnds; ++i) {
      transfers[i].view.cursor = &ends[i];
      if (i < kEnds / 2) transfers[i].from = &byte;
      if (i >= kEnds / 2) transfers[i].to = &byte;
      transfers[i].bytes = i % (kEnds / 2) == small ? 0 : 4096;
    }
    const PairGroups groups = grouped(transfers, 64);
    ASSERT_EQ(groups.count(), 64U);
    for (std::uint32_t group = 0; group < groups.count(); ++group) {
      std::uint64_t bytes = 0;
      for (std::uint32_t i = groups.begin[group]; i < groups.begin[group + 1]; ++i)
        bytes += groups.transfers[i].bytes;
      EXPECT_EQ(bytes, 4096U) << group;
    }
  }
}

TEST(PairGroups, CopiesTakeNoCtasBesideThoseThatAProgramBounds) {
  constexpr std::uint64_t kLarge = std::uint64_t{128} << 20;
  Launch launch;
  EXPECT_TRUE(copies_go_beside(launch, kLarge));
  EXPECT_FALSE(copies_go_beside(launch, kLarge - 1));
  launch.shares_device = true;
  EXPECT_FALSE(copies_go_beside(launch, kLarge));
  launch = {};
  launch.is_bounded = true;
  EXPECT_FALSE(copies_go_beside(launch, kLarge));
}

}  // namespace
}  // namespace weft::device::cuda
