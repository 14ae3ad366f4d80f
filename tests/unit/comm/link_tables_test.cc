// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Connections in memory of the device: once for all plans, there before the first launch that needs
// them, in captures as well.
#include "core/comm/link_tables.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/memory_runtime.h"

namespace weft {
namespace {

/// Counts what it is told to write.
class StoringRuntime : public test::MemoryRuntime {
 public:
  weft_result store(DeviceStream* /*stream*/, void* to, std::span<const std::byte> bytes) override {
    if (fail) return WEFT_ERROR_DEVICE;
    ++stores;
    this->bytes = bytes.size();
    return MemoryRuntime::store(nullptr, to, bytes);
  }
  std::uint64_t capture_number(DeviceStream* /*stream*/) override { return capture; }

  int stores = 0;
  std::size_t bytes = 0;
  std::uint64_t capture = 0;
};

/// Of so many channels; those of other rings have another `first`.
std::vector<RingLinks> links_of(std::uint32_t channels, std::uint32_t first = 100) {
  std::vector<RingLinks> links(channels);
  for (std::uint32_t i = 0; i < channels; ++i) {
    links[i].from_previous.peer = first + i;
    links[i].to_next.peer = first + i + 1;
  }
  return links;
}

class LinkTablesTest : public testing::Test {
 protected:
  StoringRuntime runtime_;
  MemoryAccount account_{runtime_};
  LinkTables tables_{account_};
};

TEST_F(LinkTablesTest, AreSharedByPlansOfTheSameRings) {
  LinkTable* const some = tables_.find(links_of(9)).value();
  const std::size_t of_one = account_.bytes_held();
  EXPECT_EQ(of_one, kMostPackedItems * sizeof(RingLinks));
  EXPECT_EQ(tables_.find(links_of(64)).value(), some);
  EXPECT_EQ(tables_.find(links_of(20)).value(), some);
  EXPECT_EQ(account_.bytes_held(), of_one);
  LinkTable* const others = tables_.find(links_of(9, 200)).value();
  EXPECT_NE(others, some);
  EXPECT_NE(others->entries(), some->entries());
  EXPECT_EQ(tables_.find(links_of(30, 200)).value(), others);
  EXPECT_EQ(account_.bytes_held(), 2 * of_one);
}

TEST_F(LinkTablesTest, AreBroughtOnceAndWhenTheyGrow) {
  LinkTable& table = *tables_.find(links_of(9)).value();
  EXPECT_EQ(runtime_.stores, 0) << "no launch needs them";
  for (int launch = 0; launch < 3; ++launch)
    EXPECT_TRUE(table.bring(9, nullptr));
  EXPECT_EQ(runtime_.stores, 1);
  EXPECT_EQ(table.entries()[8].to_next.peer, 109U);
  EXPECT_TRUE(tables_.find(links_of(64)));
  EXPECT_TRUE(table.bring(9, nullptr));
  EXPECT_EQ(runtime_.stores, 1) << "those are there";
  EXPECT_TRUE(table.bring(64, nullptr));
  EXPECT_TRUE(table.bring(64, nullptr));
  EXPECT_EQ(runtime_.stores, 2);
  EXPECT_EQ(runtime_.bytes, 55 * sizeof(RingLinks)) << "those that were not there";
  EXPECT_EQ(table.entries()[0].from_previous.peer, 100U);
  EXPECT_EQ(table.entries()[63].to_next.peer, 164U);
}

// A graph may never be launched, or before another one is.
TEST_F(LinkTablesTest, EachCaptureBringsThemUntilALaunchOutsideOfOneHas) {
  LinkTable& table = *tables_.find(links_of(9)).value();
  for (const std::uint64_t capture : {7U, 7U, 8U, 7U}) {
    runtime_.capture = capture;
    EXPECT_TRUE(table.bring(9, nullptr));
  }
  EXPECT_EQ(runtime_.stores, 3) << "two launches of one capture need one";
  EXPECT_TRUE(tables_.find(links_of(10)));
  EXPECT_TRUE(table.bring(10, nullptr));
  EXPECT_EQ(runtime_.stores, 4) << "there are more than the capture has brought";
  runtime_.capture = 0;
  EXPECT_TRUE(table.bring(10, nullptr));
  EXPECT_EQ(runtime_.stores, 5);
  for (const std::uint64_t capture : {9U, 0U}) {
    runtime_.capture = capture;
    EXPECT_TRUE(table.bring(10, nullptr));
  }
  EXPECT_EQ(runtime_.stores, 5) << "they are there for good";
}

TEST_F(LinkTablesTest, ErrorsNameTheDevicesWords) {
  runtime_.fail = true;
  const auto none = tables_.find(links_of(9));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(
      none.error().what().ends_with("kernels read connections from: the driver has no more"));
  EXPECT_EQ(account_.bytes_held(), 0U);
  runtime_.fail = false;
  LinkTable& table = *tables_.find(links_of(9)).value();
  runtime_.fail = true;
  const Status refused = table.bring(9, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_DEVICE);
  runtime_.fail = false;
  EXPECT_TRUE(table.bring(9, nullptr));
  EXPECT_EQ(runtime_.stores, 1) << "what was refused is not there";
}

/// Views of sends: each has a place of its own, and is found there.
class PairViewsTest : public testing::Test {
 protected:
  PairViewsTest() { views_.expect(100); }

  /// So many transfers, each on an end of its own that is added for it.
  std::vector<PairTransfer> transfers_of(std::size_t count) {
    std::vector<PairTransfer> transfers(count);
    for (PairTransfer& transfer : transfers) {
      transfer.view.cursor = &cursor_;
      transfer.view.peer = next_++;
      transfer.place = views_.add(transfer.view);
    }
    return transfers;
  }
  /// What a launch of these finds.
  const ConnectionView* bring(const std::vector<PairTransfer>& transfers) {
    const auto found = views_.bring(transfers, nullptr);
    EXPECT_TRUE(found);
    return found ? *found : nullptr;
  }
  static void expect_found(const ConnectionView* views,
                           const std::vector<PairTransfer>& transfers) {
    ASSERT_NE(views, nullptr);
    for (const PairTransfer& transfer : transfers) {
      if (transfer.view.cursor != nullptr) {
        EXPECT_EQ(views[transfer.place].peer, transfer.view.peer);
      }
    }
  }

  ConnectionCursor cursor_;
  std::uint32_t next_ = 1;
  StoringRuntime runtime_;
  MemoryAccount account_{runtime_};
  PairViews views_{account_};
};

TEST_F(PairViewsTest, AreBroughtForLaunchesThatArePacked) {
  const auto some = transfers_of(kMostWholePairs);
  EXPECT_EQ(bring(some), nullptr) << "they are carried as they are";
  EXPECT_EQ(account_.bytes_held(), 0U);
  auto more = transfers_of(kMostWholePairs + 1);
  const ConnectionView* const views = bring(more);
  expect_found(views, more);
  EXPECT_EQ(account_.bytes_held(), 100 * sizeof(ConnectionView));
  EXPECT_EQ(runtime_.bytes, (2 * kMostWholePairs + 1) * sizeof(ConnectionView));
  EXPECT_EQ(bring(more), views);
  EXPECT_EQ(runtime_.stores, 1) << "they are there";
  more.resize(kMostPackedPairs, more.front());
  EXPECT_EQ(bring(more), views);
  more.resize(kMostPackedPairs + 1, more.front());
  EXPECT_EQ(bring(more), nullptr);
}

TEST_F(PairViewsTest, AreBroughtAsTheyGrow) {
  const auto first = transfers_of(20);
  const ConnectionView* const views = bring(first);
  auto later = transfers_of(30);
  expect_found(bring(first), first);
  EXPECT_EQ(runtime_.stores, 1) << "that launch needs none of the new ones";
  later.emplace_back();  // a copy, which has no view
  expect_found(bring(later), later);
  EXPECT_EQ(runtime_.stores, 2);
  EXPECT_EQ(runtime_.bytes, 30 * sizeof(ConnectionView));
  expect_found(views, first);
  auto one_more = first;
  one_more.push_back(transfers_of(1).front());
  expect_found(bring(one_more), one_more);
  EXPECT_EQ(runtime_.stores, 3);
  EXPECT_EQ(runtime_.bytes, sizeof(ConnectionView));
  EXPECT_EQ(account_.bytes_held(), 100 * sizeof(ConnectionView));
}

TEST_F(PairViewsTest, CapturesBringAllThatNobodyHasForGood) {
  const auto first = transfers_of(20);
  bring(first);
  const auto later = transfers_of(20);
  for (const std::uint64_t capture : {7U, 7U, 8U}) {
    runtime_.capture = capture;
    expect_found(bring(later), later);
    EXPECT_EQ(runtime_.bytes, 20 * sizeof(ConnectionView));
  }
  EXPECT_EQ(runtime_.stores, 3) << "one outside, and one for each capture";
  bring(first);
  EXPECT_EQ(runtime_.stores, 3);
}

TEST_F(PairViewsTest, LaunchesGoWithoutWhereSomeHaveNoPlace) {
  const auto most = transfers_of(100);
  EXPECT_EQ(most.back().place, 99U);
  const auto none = transfers_of(1);
  EXPECT_EQ(none.front().place, kNoPlace);
  std::vector<PairTransfer> mixed(most.begin(), most.begin() + 30);
  mixed.push_back(none.front());
  EXPECT_EQ(bring(mixed), nullptr);
  mixed.back() = PairTransfer{};
  expect_found(bring(mixed), mixed);
  EXPECT_EQ(bring(std::vector<PairTransfer>(30)), nullptr) << "copies alone";
  PairViews many(account_);
  many.expect(1 << 20);
  for (std::size_t i = 0; i < PairViews::kMostViews; ++i)
    EXPECT_EQ(many.add({}), i);
  EXPECT_EQ(many.add({}), kNoPlace);
}

TEST_F(PairViewsTest, ErrorsNameTheDevicesWords) {
  const auto transfers = transfers_of(20);
  runtime_.fail = true;
  const auto none = views_.bring(transfers, nullptr);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(account_.bytes_held(), 0U);
  runtime_.fail = false;
  expect_found(bring(transfers), transfers);
  const auto others = transfers_of(20);
  runtime_.fail = true;
  const auto refused = views_.bring(others, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), WEFT_ERROR_DEVICE);
  runtime_.fail = false;
  expect_found(bring(others), others);
}

TEST(LinkTable, MemoryGoesWithTheTables) {
  test::MemoryRuntime runtime;
  MemoryAccount account(runtime);
  {
    LinkTables tables(account);
    EXPECT_TRUE(tables.find(links_of(9)));
    EXPECT_EQ(runtime.live, 1);
  }
  EXPECT_EQ(runtime.live, 0);
  EXPECT_EQ(account.bytes_held(), 0U);
}

}  // namespace
}  // namespace weft
