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
  EXPECT_NE(others->links(), some->links());
  EXPECT_EQ(tables_.find(links_of(30, 200)).value(), others);
  EXPECT_EQ(account_.bytes_held(), 2 * of_one);
}

TEST_F(LinkTablesTest, AreBroughtOnceAndWhenTheyGrow) {
  LinkTable& table = *tables_.find(links_of(9)).value();
  EXPECT_EQ(runtime_.stores, 0) << "no launch needs them";
  for (int launch = 0; launch < 3; ++launch)
    EXPECT_TRUE(table.bring(9, nullptr));
  EXPECT_EQ(runtime_.stores, 1);
  EXPECT_EQ(table.links()[8].to_next.peer, 109U);
  EXPECT_TRUE(tables_.find(links_of(64)));
  EXPECT_TRUE(table.bring(9, nullptr));
  EXPECT_EQ(runtime_.stores, 1) << "those are there";
  EXPECT_TRUE(table.bring(64, nullptr));
  EXPECT_TRUE(table.bring(64, nullptr));
  EXPECT_EQ(runtime_.stores, 2);
  EXPECT_EQ(runtime_.bytes, 64 * sizeof(RingLinks));
  EXPECT_EQ(table.links()[0].from_previous.peer, 100U);
  EXPECT_EQ(table.links()[63].to_next.peer, 164U);
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
