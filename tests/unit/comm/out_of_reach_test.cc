// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks whose devices no path joins, as GPUs of which the driver knows that they do not reach each
// other over PCIe.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

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

/// One of the instances into which MIG divides a GPU: they have its address together.
class InstanceOfAGpu : public device::HostDevice {
 public:
  explicit InstanceOfAGpu(std::string id) : id_(std::move(id)) {}
  [[nodiscard]] std::int32_t index() const override { return 0; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  [[nodiscard]] std::string_view device_id() const override { return id_; }

 private:
  const std::string id_;
};

/// How two ranks on such instances are joined, as the first of them says.
std::string joined(const std::string& first, const std::string& second) {
  auto context = Context::create("", test::environment_with({{"WEFT_TRANSPORTS_ORDER", "p2p,shm"},
                                                             {"WEFT_TIMEOUTS_OPERATION", "10s"}}));
  if (!context) return context.error().to_string();
  InstanceOfAGpu devices[] = {InstanceOfAGpu(first), InstanceOfAGpu(second)};
  const auto id = (*context)->serve_rendezvous((*context)->config());
  if (!id) return id.error().to_string();
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator =
          Communicator::join(**context, (*context)->config(), *id, rank, 2, devices[rank]);
      said[rank] =
          communicator ? (*communicator)->describe_pair(0, 1) : communicator.error().to_string();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(said[0], said[1]);
  return said[0];
}

TEST(OutOfReach, InstancesOfOneGpuAre) {
  EXPECT_THAT(joined("aa", "bb"), StartsWith("shm: "));
  EXPECT_THAT(joined("aa", "aa"), StartsWith("p2p: "));
  EXPECT_THAT(joined("", "bb"), StartsWith("p2p: ")) << "where nobody knows";
}

}  // namespace
}  // namespace weft
