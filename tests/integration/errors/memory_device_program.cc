// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks on devices of memory alone, which lack what GPUs lack seldom or never; writes what the
// first rank was answered, as misuse_program.cc does. Its argument says what is lacking:
//   kernel  the device has no kernel for a call, as GPUs have none for some
//   groups  more ranks are on the device than it runs groups of kernels at once; GPUs run hundreds

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

void say(const char* call, const weft::Error& error) {
  const std::string code(weft::result_name(error.code()));
  std::printf("%s: error %s %s\n", call, code.c_str(), error.to_string().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view lacking = argc == 2 ? argv[1] : "";
  weft::test::MemoryRuntime without_kernels;
  OneGroupAtOnce with_one_group;
  const auto context = weft::Context::create("", weft::capture_environment());
  if (!context) return 2;
  const weft::Config& config = (*context)->config();
  const auto id = (*context)->serve_rendezvous(config);
  if (!id) return 2;
  if (lacking == "kernel") {
    const auto joined = weft::Communicator::join(**context, config, *id, 0, 1, without_kernels);
    if (!joined) return 2;
    const weft::Status checked =
        (*joined)->check_task({.operation = weft::Operation::kAllReduce, .count = 8});
    if (checked) return 2;
    say("call", checked.error());
    return 0;
  }
  if (lacking != "groups") return 2;
  std::jthread other([&] {
    static_cast<void>(weft::Communicator::join(**context, config, *id, 1, 2, with_one_group));
  });
  const auto joined = weft::Communicator::join(**context, config, *id, 0, 2, with_one_group);
  if (joined) return 2;
  say("join", joined.error());
  return 0;
}
