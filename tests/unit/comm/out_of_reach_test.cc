// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks whose devices no path joins, as GPUs of which the driver knows that they do not reach each
// other over PCIe.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/host/host_device.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class LonelyDevice : public device::HostDevice {
 public:
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] bool is_out_of_reach(std::string_view pci_address) const override {
    return pci_address == "0000:18:00.0";
  }
};

constexpr const char* kWhy = "its device 0000:18:00.0 does not reach 0000:18:00.0: says the driver";

TEST(OutOfReach, DevicesAreJoinedByTheNextTransport) {
  const test::Ranks ranks(2, "p2p,shm", {}, std::make_unique<LonelyDevice>());
  for (const auto& communicator : ranks.communicators)
    EXPECT_THAT(communicator->describe_pair(0, 1),
                AllOf(StartsWith("shm: "), HasSubstr("after p2p")));
}

TEST(OutOfReach, DevicesThatNothingElseMayJoinAreToldWhy) {
  try {
    const test::Ranks ranks(2, "p2p", {}, std::make_unique<LonelyDevice>());
    ADD_FAILURE() << "they joined by " << ranks.communicators[0]->describe_pair(0, 1);
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(kWhy));
  }
}

}  // namespace
}  // namespace weft
