// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Times all-reduces between two threads of one process over hand-made connections: the kernels and
// the host device alone, without transports, plans or processes. Prints one line a size.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "core/base/wait.h"
#include "core/device/host/host_device.h"
#include "core/device/host/host_memory.h"
#include "tests/device/ring_world.h"

namespace weft::device::testing {
namespace {

using Time = std::chrono::steady_clock;

constexpr int kRounds = 100;

struct Setting {
  std::uint64_t bytes;
  std::uint32_t iterations;
};

RingShape shape_for(std::uint32_t step_bytes, std::uint32_t chunk_steps) {
  return {.ranks = 2,
          .channels = 1,
          .steps = 8,
          .step_bytes = step_bytes,
          .chunk_steps = chunk_steps,
          .sleepers = true};
}

/// Microseconds an operation, the best of many short rounds: on a busy machine, those that nothing
/// interrupted.
template <class Operation>
double best_of_rounds(std::uint32_t iterations, Operation operation) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Time::now();
    for (std::uint32_t i = 0; i < iterations; ++i)
      operation();
    const std::chrono::duration<double, std::micro> span = Time::now() - begin;
    best = std::min(best, span.count() / iterations);
  }
  return best;
}

template <class Rank>
double on_two_threads(Rank rank) {
  double time = 0;
  std::thread other([&] { rank(1U); });
  time = rank(0U);
  other.join();
  return time;
}

double kernel_alone(const Setting& setting, const RingShape& shape) {
  RingWorld world(shape);
  return on_two_threads([&](std::uint32_t rank) {
    std::vector<float> input(setting.bytes / 4, 1.0F);
    std::vector<float> output(setting.bytes / 4);
    const std::atomic<std::uint32_t> abort{0};
    const std::atomic<std::uint32_t> failed{0};
    Launch launch;
    launch.abort = &abort;
    Waiter waiter;
    const auto item =
        world.items(rank, {.count = setting.bytes / 4}, 0, input.data(), output.data())[0];
    return best_of_rounds(setting.iterations, [&] {
      HostMemory memory(best_element_loops(), waiter, launch, failed);
      if (run_on_host(item, memory).end != KernelEnd::kDone) std::abort();
    });
  });
}

double through_streams(const Setting& setting, const RingShape& shape) {
  RingWorld world(shape);
  return on_two_threads([&](std::uint32_t rank) {
    HostDevice device;
    DeviceStream* stream = nullptr;
    device.create_stream(&stream);
    std::vector<float> input(setting.bytes / 4, 1.0F);
    std::vector<float> output(setting.bytes / 4);
    const auto items =
        world.items(rank, {.count = setting.bytes / 4}, 0, input.data(), output.data());
    Launch launch;
    launch.items = items;
    const double time = best_of_rounds(setting.iterations, [&] {
      device.launch(stream, {&launch, 1});
      if (device.synchronize(stream) != WEFT_OK) std::abort();
    });
    device.destroy_stream(stream);
    return time;
  });
}

}  // namespace
}  // namespace weft::device::testing

int main() {
  using namespace weft::device::testing;
  std::printf("loops: %s\n", weft::device::best_element_loops().name);
  std::printf("%10s %10s %6s %12s %12s\n", "bytes", "step", "chunk", "kernel us", "stream us");
  for (const Setting& setting :
       {Setting{8, 300}, Setting{4096, 200}, Setting{262144, 10}, Setting{16777216, 1}}) {
    for (const std::uint32_t step : {16384U, 65536U, 262144U, 524288U}) {
      if (setting.bytes <= 4096 && step != 65536U) continue;
      for (const std::uint32_t chunk : {1U, 4U}) {
        if (setting.bytes <= 4096 && chunk != 4) continue;
        const auto shape = shape_for(step, chunk);
        std::printf("%10llu %10u %6u %12.2f %12.2f\n",
                    static_cast<unsigned long long>(setting.bytes), step, chunk,
                    kernel_alone(setting, shape), through_streams(setting, shape));
      }
    }
  }
}
