// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that lack memory for a moment: what they leave behind.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weft/weft.h>

#include "core/api/handles.h"
#include "core/device/host/host_device.h"
#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

/// Launches end at once, as of a GPU; it keeps what the latest was to do.
class ItemDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  weft_result launch(DeviceStream* /*stream*/, std::span<const Launch> launches) override {
    const std::span<const WorkItem> items = launches.back().items;
    items_ = {items.begin(), items.end()};
    return WEFT_OK;
  }
  [[nodiscard]] const std::vector<WorkItem>& items() const { return items_; }

 private:
  std::vector<WorkItem> items_;
};

TEST(WithoutMemory, ACallThatIsMadeAgainDoesNotGoAsTheOneBefore) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  auto made = std::make_unique<ItemDevice>();
  const ItemDevice& device = *made;
  const test::Ranks ranks(2, "p2p",
                          {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "ring"},
                           {"WEFT_COLLECTIVES_BROADCAST_ALGORITHM", "ring"}},
                          std::move(made));
  auto* const place = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  const auto call_of = [&](std::size_t rank, Operation operation, std::uint64_t count) {
    return Call{.communicator = ranks.communicators[rank].get(),
                .stream = ranks.streams[rank].get(),
                .task = {.operation = operation,
                         .type = WEFT_FLOAT32,
                         .reduction = WEFT_SUM,
                         .count = count},
                .send = place,
                .recv = place + (std::size_t{1} << 30)};
  };
  const auto by_both = [](const auto& action) {
    std::thread other([&] { action(1); });
    action(0);
    other.join();
  };
  by_both([&](std::size_t rank) {
    const Call call = call_of(rank, Operation::kBroadcast, 100);
    EXPECT_TRUE(start_calls({&call, 1}));
  });
  constexpr std::uint64_t kCount = std::uint64_t{1} << 24;
  by_both([&](std::size_t rank) {
    const Call call = call_of(rank, Operation::kAllReduce, kCount);
    const Call* const batch = &call;
    Communicator& communicator = *ranks.communicators[rank];
    EXPECT_TRUE(communicator.want_connections({&batch, 1}));
    EXPECT_TRUE(communicator.wait_for_connections({&batch, 1}, 0));
    EXPECT_TRUE(communicator.bind(call));
  });
  const Call call = call_of(0, Operation::kAllReduce, kCount);
  {
    const test::NoMemory none;
    EXPECT_THROW(static_cast<void>(start_calls({&call, 1})), std::bad_alloc);
  }
  EXPECT_TRUE(start_calls({&call, 1}));
  ASSERT_FALSE(device.items().empty());
  std::uint64_t count = 0;
  for (const WorkItem& item : device.items()) {
    EXPECT_EQ(item.operation, Operation::kAllReduce);
    count += item.count;
  }
  EXPECT_EQ(count, kCount);
}

/// A context as the C API has it.
class ApiWithoutMemory : public testing::Test {
 protected:
  ApiWithoutMemory() { owner_.context.reset(&ranks_.context()); }
  ~ApiWithoutMemory() override {
    static_cast<void>(owner_.context.release());  // it is ranks_'s
  }
  [[nodiscard]] bool is_in_group() { return owner_.context->open_group() != nullptr; }

  test::Ranks ranks_{1, "p2p"};
  weft_context owner_;
};

TEST_F(ApiWithoutMemory, AGroupEndsWithTheLackOfIt) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's memory cannot be denied";
  weft_comm* comm = nullptr;
  ASSERT_EQ(weft_comm_init_all(&owner_, nullptr, 1, &comm), WEFT_OK);
  weft_stream* stream = nullptr;
  ASSERT_EQ(weft_stream_create(&owner_, &stream), WEFT_OK);
  float value = 3;
  const auto call = [&] {
    return weft_all_reduce(&value, &value, 1, WEFT_FLOAT32, WEFT_SUM, comm, stream);
  };
  ASSERT_EQ(weft_group_start(&owner_), WEFT_OK);
  {
    const test::NoMemory none;
    weft_result noted = WEFT_OK;
    for (int i = 0; i < 1000 && noted == WEFT_OK; ++i)
      noted = call();
    EXPECT_EQ(noted, WEFT_ERROR_OUT_OF_MEMORY);
  }
  EXPECT_EQ(weft_group_end(&owner_), WEFT_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(is_in_group());
  EXPECT_EQ(weft_group_start(&owner_), WEFT_OK);
  EXPECT_EQ(call(), WEFT_OK);
  EXPECT_EQ(weft_group_end(&owner_), WEFT_OK);
  EXPECT_EQ(weft_stream_synchronize(stream), WEFT_OK);
  EXPECT_EQ(weft_stream_destroy(stream), WEFT_OK);
  EXPECT_EQ(weft_comm_destroy(comm), WEFT_OK);
}

}  // namespace
}  // namespace weft
