// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What every part of the program uses: failures, texts, the clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cuda_runtime.h>

namespace weft::gpu_bench {

inline constexpr const char* kProgram = "gpu-collectives";

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

/// A step that went wrong, in words. Thrown within a rank, told to all ranks by Steps::together.
struct Failure {
  std::string what;
};

/// A library says that it does not have what was asked for; its communicator goes on.
struct Refusal : Failure {};

/// Another rank failed, and what was waited for cannot end.
struct GivenUp : Failure {};

/// Another process of the job is gone: whoever waits for it ends.
struct JobEnded {};

void check(cudaError_t error, const char* call);
#define CHECK(call) ::weft::gpu_bench::check(call, #call)

double median(std::vector<double> values);
/// "64 KiB".
std::string bytes_text(std::size_t bytes);
std::string json_string(std::string_view value);

/// To the error output, with the program's name.
void complain(const std::string& words);

}  // namespace weft::gpu_bench
