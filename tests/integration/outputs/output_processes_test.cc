// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Outputs mapped between real processes: the ranks are output_process.
#include <memory>
#include <sodium.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/foreign_fd.h"
#include "core/bootstrap/root.h"
#include "tests/support/process.h"

namespace weft {
namespace {

TEST(OutputProcesses, MapEachOthersOutputs) {
  const auto own = ProcessWitness::create();
  ASSERT_TRUE(own);
  for (const int ranks : {2, 3}) {
    Logger log;
    auto root = BootstrapRoot::start({}, log);
    ASSERT_TRUE(root) << root.error().to_string();
    const UniqueId id = (*root)->id();
    std::string hex(2 * id.bytes.size() + 1, '\0');
    sodium_bin2hex(hex.data(), hex.size(), reinterpret_cast<const unsigned char*>(id.bytes.data()),
                   id.bytes.size());
    hex.pop_back();
    std::vector<std::unique_ptr<test::Process>> processes;
    for (int rank = 0; rank < ranks; ++rank) {
      processes.push_back(std::make_unique<test::Process>(test::Command{
          .arguments = {WEFT_OUTPUT_PROCESS, hex, std::to_string(rank), std::to_string(ranks)},
          .environment = {},
          .input = {}}));
    }
    for (const auto& process : processes) {
      const test::Outcome outcome = process->wait();
      EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    }
  }
}

}  // namespace
}  // namespace weft
