// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which protocols of lines ranks plan by, by what their connections keep together.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/host/host_device.h"
#include "core/schedule/plan.h"
#include "tests/unit/comm/ranks.h"

namespace weft {
namespace {

using test::Ranks;
using testing::HasSubstr;

/// As GPUs, whose lanes store a line together, and whose memory is out of each other's reach.
class SharingDevice : public device::HostDevice {
 public:
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::uint32_t line_bytes() const override { return 128; }
};

Task sum_by(std::optional<Protocol> protocol) {
  return {.operation = Operation::kAllReduce,
          .type = WEFT_FLOAT32,
          .reduction = WEFT_SUM,
          .root = 0,
          .count = 1000,
          .place = 0,
          .options = {.algorithm = Algorithm::kRing, .protocol = protocol}};
}

// A line by line of host memory keeps 8 bytes together, whatever a GPU knows of NVLink.
TEST(LineOrder, LanesThatShareLinesTakeAnotherProtocolWhereTheyWouldComeApart) {
  Ranks ranks(2, "shm", {{"WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL", "ll128,ll"}},
              std::make_unique<SharingDevice>());
  for (auto& communicator : ranks.communicators) {
    const auto refused = communicator->plan(sum_by(Protocol::kLL128));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().to_string(),
                HasSubstr("not all of these GPUs reach each other's memory, and elsewhere lines of "
                          "128 bytes may come apart"));
    const auto planned = communicator->plan(sum_by({}));
    ASSERT_TRUE(planned) << planned.error().to_string();
    EXPECT_EQ((*planned)->protocol, Protocol::kLL);
    EXPECT_THAT(to_text(**planned), HasSubstr("lines of 128 bytes may come apart"));
  }
}

// A lane that has a line of its own stores its payload before its flag.
TEST(LineOrder, ALaneAloneNeedsWholeWordsAlone) {
  Ranks ranks(2, "shm", {{"WEFT_COLLECTIVES_ALL_REDUCE_PROTOCOL", "ll128"}});
  const auto planned = ranks.communicators[0]->plan(sum_by(Protocol::kLL128));
  ASSERT_TRUE(planned) << planned.error().to_string();
  EXPECT_EQ((*planned)->protocol, Protocol::kLL128);
}

}  // namespace
}  // namespace weft
