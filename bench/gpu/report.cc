// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench/gpu/basics.h"
#include "bench/gpu/host_cost.h"

namespace weft::gpu_bench {

namespace {

constexpr double kMiB = 1 << 20;

}  // namespace

void Report::joined(const Contestant& contestant, const Joined& joined) const {
  std::printf("%s %s, %s mode: joined in %.3f s, %.0f MiB of memory of a GPU\n",
              contestant.name.c_str(), contestant.version.c_str(), mode_.c_str(), joined.seconds,
              joined.memory_bytes / kMiB);
  append_json(options_,
              text("{\"kind\": \"join\", \"peer\": %s, \"version\": %s, \"operation\": \"%s\", "
                   "\"mode\": %s, \"ranks\": %u, \"seconds\": %.4f, \"memory_bytes\": %.0f}",
                   json_string(contestant.name).c_str(), json_string(contestant.version).c_str(),
                   options_.operation().name, json_string(mode_).c_str(), seat_.ranks,
                   joined.seconds, joined.memory_bytes));
}

void Report::communicator(const Contestant& contestant, uint32_t number, const Joined& joined,
                          std::optional<double> called_bytes) const {
  const double setup = number == 1 ? contestant.api->setup_seconds() : 0;
  const std::string calls =
      called_bytes ? text(", %.0f MiB after calls", *called_bytes / kMiB) : "";
  std::printf(
      "%s %s, %s mode, communicator %u: joined in %.4f s, after %.4f s of setup; %.0f MiB "
      "of a GPU%s\n",
      contestant.name.c_str(), contestant.version.c_str(), mode_.c_str(), number, joined.seconds,
      setup, joined.memory_bytes / kMiB, calls.c_str());
  std::fflush(stdout);
  append_json(
      options_,
      text("{\"kind\": \"communicator\", \"peer\": %s, \"version\": %s, \"mode\": %s, \"ranks\": "
           "%u, "
           "\"number\": %u, \"setup_seconds\": %.4f, \"seconds\": %.4f, \"joined_bytes\": %.0f%s}",
           json_string(contestant.name).c_str(), json_string(contestant.version).c_str(),
           json_string(mode_).c_str(), seat_.ranks, number, setup, joined.seconds,
           joined.memory_bytes,
           called_bytes ? text(", \"called_bytes\": %.0f", *called_bytes).c_str() : ""));
}

void Report::launches(size_t argument_bytes, const std::vector<double>& rounds,
                      double least_us) const {
  std::printf("%10s  %-11s  %-7s  %-6s  %-5s  %11.3f  %11.3f\n", bytes_text(argument_bytes).c_str(),
              "bare launch", mode_.c_str(), "eager", "", median(rounds), least_us);
  std::fflush(stdout);
  append_json(
      options_,
      text("{\"kind\": \"host_cost\", \"peer\": \"launch\", \"operation\": \"%s\", "
           "\"ranks\": %u, \"argument_bytes\": %zu, \"mode\": %s, \"host_us\": %.4f, "
           "\"host_us_min\": %.4f, \"rounds\": %zu, \"calls_in_round\": %zu}",
           options_.operation().name, seat_.ranks, argument_bytes, json_string(mode_).c_str(),
           median(rounds), least_us, rounds.size(), kHostCalls));
}

void Report::heading() const {
  if (options_.measure == Measure::kHostCost) {
    std::printf("\n%s, for the thread that calls\n%10s  %-11s  %-7s  %-6s  %-5s  %11s  %11s  %9s\n",
                options_.operation().name, "size", "library", "mode", "launch", "place",
                "median us", "least us", "/NCCL");
    std::fflush(stdout);
    return;
  }
  std::printf("\n%s\n%10s  %-11s  %-7s  %-6s  %-5s  %11s  %11s  %11s  %9s\n",
              options_.operation().name, "size", "library", "mode", "launch", "place", "time us",
              "algbw GB/s", "busbw GB/s", "/NCCL");
  std::fflush(stdout);
}

void Report::results(const Case& which, const std::vector<Contestant>& contestants,
                     size_t sets) const {
  double best_nccl = 0;
  for (const Contestant& contestant : contestants) {
    if (!contestant.runs() || !contestant.is_nccl()) continue;
    const double time = median(contestant.rounds);
    if (best_nccl == 0 || time < best_nccl) best_nccl = time;
  }
  for (const Contestant& contestant : contestants) {
    if (contestant.runs() && options_.measure == Measure::kHostCost) {
      host_row(which, contestant, best_nccl);
    } else if (contestant.runs()) {
      time_row(which, contestant, sets, best_nccl);
    } else if (contestant.problem.kind != nullptr) {
      problem_row(which, contestant);
    }
  }
  std::fflush(stdout);
}

void Report::left_out(const std::string& what) const {
  std::printf("left out: %s: %s\n", options_.operation().name, what.c_str());
  std::fflush(stdout);
}

std::string Report::subject(const Case& which, const Contestant& contestant) const {
  const Operation& operation = which.operation;
  std::string words = options_.measure == Measure::kHostCost ? "\"kind\": \"host_cost\", " : "";
  words += text("\"peer\": %s, \"version\": %s, \"operation\": \"%s\", \"call\": %s, ",
                json_string(contestant.name).c_str(), json_string(contestant.version).c_str(),
                operation.name, json_string(contestant.api->call_name(operation)).c_str());
  if (operation.reduces) words += "\"reduction\": \"sum\", ";
  if (operation.rooted) words += text("\"root\": %u, ", kRoot);
  words += text(
      "\"ranks\": %u, \"bytes\": %zu, \"type\": %s, \"in_place\": %s, \"mode\": %s, "
      "\"launch\": \"%s\"",
      seat_.ranks, which.shape.bytes, json_string(options_.type.name).c_str(),
      which.in_place ? "true" : "false", json_string(mode_).c_str(), which.launch_name());
  return words;
}

void Report::time_row(const Case& which, const Contestant& contestant, size_t sets,
                      double best_nccl) const {
  const double time = median(contestant.rounds);
  const auto [least, most] =
      std::minmax_element(contestant.rounds.begin(), contestant.rounds.end());
  const double algbw = static_cast<double>(which.shape.bytes) / time / 1e3;
  const double busbw = algbw * bus_factor(which.operation, seat_.ranks);
  const std::string ratio = best_nccl == 0 ? "-" : text("%.3f", time / best_nccl);
  std::printf("%10s  %-11s  %-7s  %-6s  %-5s  %11.2f  %11.3f  %11.3f  %9s\n",
              bytes_text(which.shape.bytes).c_str(), contestant.name.c_str(), mode_.c_str(),
              which.launch_name(), which.place_name(), time, algbw, busbw, ratio.c_str());
  append_json(
      options_,
      text("{%s, \"time_us\": %.4f, \"time_us_min\": %.4f, \"time_us_max\": %.4f, "
           "\"rounds\": %zu, \"calls_in_round\": %zu, \"buffers\": %zu, \"algbw_gbs\": "
           "%.4f, \"busbw_gbs\": %.4f, \"ratio_to_best_nccl\": %s, \"sm_mhz\": %u, "
           "\"memory_mhz\": %u, \"stolen_ms\": %.0f}",
           subject(which, contestant).c_str(), time, *least, *most, contestant.rounds.size(),
           contestant.passes * sets, sets, algbw, busbw, best_nccl == 0 ? "null" : ratio.c_str(),
           megahertz(NvmlApi::Clock::kMultiprocessors), megahertz(NvmlApi::Clock::kMemory),
           contestant.stolen_ms));
}

void Report::host_row(const Case& which, const Contestant& contestant, double best_nccl) const {
  const double us = median(contestant.rounds);
  const std::string ratio = best_nccl == 0 ? "-" : text("%.3f", us / best_nccl);
  std::printf("%10s  %-11s  %-7s  %-6s  %-5s  %11.3f  %11.3f  %9s\n",
              bytes_text(which.shape.bytes).c_str(), contestant.name.c_str(), mode_.c_str(),
              which.launch_name(), which.place_name(), us, contestant.least_us, ratio.c_str());
  append_json(options_, text("{%s, \"host_us\": %.4f, \"host_us_min\": %.4f, \"rounds\": %zu, "
                             "\"calls_in_round\": %zu, \"stolen_ms\": %.0f}",
                             subject(which, contestant).c_str(), us, contestant.least_us,
                             contestant.rounds.size(), kHostCalls, contestant.stolen_ms));
}

void Report::problem_row(const Case& which, const Contestant& contestant) const {
  const Problem& problem = contestant.problem;
  std::printf("%10s  %-11s  %-7s  %-6s  %-5s  %s: %s\n", bytes_text(which.shape.bytes).c_str(),
              contestant.name.c_str(), mode_.c_str(), which.launch_name(), which.place_name(),
              problem.kind, problem.words.c_str());
  append_json(options_, text("{%s, \"%s\": %s}", subject(which, contestant).c_str(), problem.kind,
                             json_string(problem.words).c_str()));
}

unsigned Report::megahertz(NvmlApi::Clock clock) const {
  return nvml_.find() == nullptr ? 0 : nvml_.get().megahertz(seat_.device, clock);
}

namespace {

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::array<char, 32> words{};
  std::strftime(words.data(), words.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return words.data();
}

/// The environment that changes what is measured.
std::string environment_json() {
  std::string list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view words = *entry;
    const bool counts = words.starts_with("NCCL_") || words.starts_with("CUDA_") ||
                        (words.starts_with("WEFT_") && !words.starts_with("WEFT_SECRET"));
    if (!counts) continue;
    if (!list.empty()) list += ", ";
    list += json_string(words);
  }
  return "[" + list + "]";
}

}  // namespace

void describe_machine(const Options& options, const std::vector<std::string>& arguments) {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int runtime = 0;
  CHECK(cudaRuntimeGetVersion(&runtime));
  const Loaded<NvmlApi> nvml;
  const std::string driver = nvml.find() != nullptr ? nvml.get().driver_version() : "unknown";
  utsname system{};
  uname(&system);
  std::string command;
  for (const std::string& word : arguments)
    command += (command.empty() ? "" : " ") + word;

  std::printf("%u x %s, driver %s, CUDA %d.%d, %s, %s\n", options.gpus, properties.name,
              driver.c_str(), runtime / 1000, runtime % 1000 / 10, options.type.name,
              date().c_str());
  append_json(
      options,
      text("{\"kind\": \"machine\", \"device\": %s, \"devices\": %u, "
           "\"multiprocessors\": %d, \"l2_bytes\": %d, \"driver\": %s, \"cuda\": "
           "\"%d.%d\", \"kernel\": %s, \"commit\": %s, \"date\": \"%s\", \"command\": %s, "
           "\"environment\": %s}",
           json_string(properties.name).c_str(), options.gpus, properties.multiProcessorCount,
           properties.l2CacheSize, json_string(driver).c_str(), runtime / 1000, runtime % 1000 / 10,
           json_string(system.release).c_str(), json_string(options.commit).c_str(), date().c_str(),
           json_string(command).c_str(), environment_json().c_str()));
}

}  // namespace weft::gpu_bench
