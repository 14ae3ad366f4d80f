// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks on devices of memory alone, or whose kernels do nothing, which lack what GPUs lack seldom
// or never; writes what the first rank was answered, as misuse_program.cc does. Its argument says
// what is lacking:
//   kernel  the device has no kernel for a call, as GPUs have none for some
//   groups  more ranks are on the device than it runs groups of kernels at once; GPUs run hundreds
//   order   the stream of the call before is captured, as GPUs' streams are
//   group   one of the streams of a group of transfers is captured
//   wait    the stream that is waited for is captured
//   null    the null stream cannot be used, since one is captured that waits for it

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/context.h"
#include "core/comm/start.h"
#include "core/comm/stream.h"
#include "core/device/host/host_device.h"
#include "tests/support/memory_runtime.h"

namespace {

class OneGroupAtOnce final : public weft::test::MemoryRuntime {
 public:
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  [[nodiscard]] std::uint32_t groups_at_once() const override { return 1; }
};

class CapturedDevice final : public weft::device::HostDevice {
 public:
  [[nodiscard]] std::string_view pci_address() const override { return "0000:18:00.0"; }
  [[nodiscard]] bool reports_ends() const override { return false; }
  weft_result launch(weft::DeviceStream* /*stream*/,
                     std::span<const weft::Launch> /*launches*/) override {
    return WEFT_OK;
  }
  std::uint64_t capture_number(weft::DeviceStream* stream) override {
    return stream == captured ? 1 : 0;
  }
  [[nodiscard]] bool is_lasting(const weft::DeviceStream* stream) const override {
    return stream == null_stream;
  }

  const weft::DeviceStream* captured = nullptr;
  const weft::DeviceStream* null_stream = nullptr;
};

void say(const char* call, const weft::Error& error) {
  const std::string code(weft::result_name(error.code()));
  std::printf("%s: error %s %s\n", call, code.c_str(), error.to_string().c_str());
}

using Calls = std::array<weft::Call, 2>;

// A call on one stream, and one on another while the program captures the first.
weft::Status call_beside_a_capture(CapturedDevice& device, const Calls& calls) {
  const weft::Status called = weft::start_calls(std::span(calls).first(1));
  if (!called) return called;
  device.captured = calls[0].stream->device_stream();
  return weft::start_calls(std::span(calls).last(1));
}

// A call on the null stream, of whose captures the device tells as if it were captured itself.
weft::Status call_on_the_null_stream(CapturedDevice& device, const Calls& calls) {
  device.captured = device.null_stream = calls[0].stream->device_stream();
  weft::Status called = weft::start_calls(std::span(calls).first(1));
  device.captured = nullptr;
  return called;
}

// Both at once.
weft::Status call_in_a_group(CapturedDevice& device, Calls& calls) {
  device.captured = calls[0].stream->device_stream();
  calls[0].task.operation = weft::Operation::kSend;
  calls[1].task.operation = weft::Operation::kRecv;
  return weft::start_calls(calls);
}

// And then waits there, while the program captures the stream.
weft::Status wait_within_a_capture(CapturedDevice& device, const Calls& calls) {
  const weft::Status called = weft::start_calls(std::span(calls).first(1));
  if (!called) return called;
  device.captured = calls[0].stream->device_stream();
  weft::Status waited = calls[0].stream->synchronize();
  device.captured = nullptr;
  return waited;
}

int call_with_a_capture(std::string_view lacking) {
  auto made = std::make_unique<CapturedDevice>();
  CapturedDevice& device = *made;
  const auto context = weft::Context::create("", weft::capture_environment(), std::move(made));
  if (!context) return 2;
  const auto id = (*context)->serve_rendezvous((*context)->config());
  if (!id) return 2;
  const auto first = weft::Stream::create(**context);
  const auto second = weft::Stream::create(**context);
  if (!first || !second) return 2;
  const auto joined = weft::Communicator::join(**context, (*context)->config(), *id, 0, 1, device);
  if (!joined) return 2;
  std::byte element{};
  Calls calls;
  for (weft::Call& call : calls) {
    call = {.task = {.operation = weft::Operation::kAllReduce, .count = 1},
            .send = &element,
            .recv = &element};
    call.communicator = joined->get();
  }
  calls[0].stream = first->get();
  calls[1].stream = second->get();
  const weft::Status refused = lacking == "group"  ? call_in_a_group(device, calls)
                               : lacking == "wait" ? wait_within_a_capture(device, calls)
                               : lacking == "null" ? call_on_the_null_stream(device, calls)
                                                   : call_beside_a_capture(device, calls);
  if (refused) return 2;
  say("call", refused.error());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view lacking = argc == 2 ? argv[1] : "";
  if (lacking == "order" || lacking == "group" || lacking == "wait" || lacking == "null") {
    return call_with_a_capture(lacking);
  }
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
