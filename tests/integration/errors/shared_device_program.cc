// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// More ranks on a device than it can run at once, each with a group of its kernels; writes what
// the first of them was answered, as misuse_program.cc does. GPUs run hundreds of groups, so this
// device is one of memory alone.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "tests/support/memory_runtime.h"

namespace {

class OneGroupAtOnce final : public weft::test::MemoryRuntime {
 public:
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::uint32_t groups_at_once() const override { return 1; }
};

}  // namespace

int main() {
  OneGroupAtOnce runtime;
  const auto context = weft::Context::create("", weft::capture_environment());
  if (!context) return 2;
  const weft::Config& config = (*context)->config();
  const auto id = (*context)->serve_rendezvous(config);
  if (!id) return 2;
  std::jthread other(
      [&] { static_cast<void>(weft::Communicator::join(**context, config, *id, 1, 2, runtime)); });
  const auto joined = weft::Communicator::join(**context, config, *id, 0, 2, runtime);
  if (joined) return 2;
  const std::string code(weft::result_name(joined.error().code()));
  std::printf("join: error %s %s\n", code.c_str(), joined.error().to_string().c_str());
  return 0;
}
