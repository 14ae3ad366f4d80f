// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft bench OP`: times a collective over a range of sizes, checks what came out, and prints
// nccl-tests' columns. Runs as a rank of a job (`weft run -n N -- weft bench all_reduce`).
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <sys/utsname.h>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <weft/weft.h>

#include "core/config/units.h"
#include "core/device/half.h"
#include "core/model/operation.h"
#include "tools/weft/bench.h"
#include "tools/weft/bench_pattern.h"
#include "tools/weft/call_options.h"
#include "tools/weft/commands.h"
#include "tools/weft/plot.h"
#include "tools/weft/session.h"

namespace weft::tool {
namespace {

/// Right after the stream said so.
[[noreturn]] void cannot_write(const std::string& file) {
  throw CallFailed(Error::from_errno(errno, "cannot write " + file).to_string());
}

}  // namespace

weft_result Bench::start(const void* send, void* recv, std::uint64_t count) {
  const auto type = options_.type;
  const auto reduction = options_.reduction;
  const std::uint32_t root = options_.call.root;
  switch (options_.operation) {
    case Operation::kAllReduce:
      return weft_all_reduce(send, recv, count, type, reduction, comm_.get(), stream_.get());
    case Operation::kBroadcast:
      return weft_broadcast(send, recv, count, type, root, comm_.get(), stream_.get());
    case Operation::kAllGather:
      return weft_all_gather(send, recv, count, type, comm_.get(), stream_.get());
    case Operation::kReduceScatter:
      return weft_reduce_scatter(send, recv, count, type, reduction, comm_.get(), stream_.get());
    case Operation::kReduce:
      return weft_reduce(send, recv, count, type, reduction, root, comm_.get(), stream_.get());
    default:
      return WEFT_ERROR_INTERNAL;
  }
}

void Bench::call(const void* send, void* recv, std::uint64_t count) {
  check(context_.get(), start(send, recv, count),
        std::string(operation_name(options_.operation)).c_str());
  check(context_.get(), weft_stream_synchronize(stream_.get()), "synchronize");
}

double Bench::max_over_ranks(double value) {
  // Nanoseconds as an integer: int32 holds two seconds, longer times lose their last digits.
  const bool coarse = value > 2e6;
  auto scaled = static_cast<std::int32_t>(std::min(coarse ? value / 1e3 : value * 1e3, 2.1e9));
  // Whoever is coarse makes all coarse.
  std::int32_t any_coarse = coarse ? 1 : 0;
  const auto reduce_max = [&](std::int32_t& number) {
    check(context_.get(),
          weft_all_reduce(&number, &number, 1, WEFT_INT32, WEFT_MAX, comm_.get(), stream_.get()),
          "collecting times");
    check(context_.get(), weft_stream_synchronize(stream_.get()), "collecting times");
  };
  reduce_max(any_coarse);
  if (any_coarse != 0 && !coarse) scaled = static_cast<std::int32_t>(value / 1e3);
  reduce_max(scaled);
  return any_coarse != 0 ? scaled * 1e3 : scaled / 1e3;
}

std::uint64_t Bench::sum_over_ranks(std::uint64_t value) {
  auto clipped = static_cast<std::int32_t>(
      std::min<std::uint64_t>(value, std::numeric_limits<std::int32_t>::max() / ranks_));
  check(context_.get(),
        weft_all_reduce(&clipped, &clipped, 1, WEFT_INT32, WEFT_SUM, comm_.get(), stream_.get()),
        "collecting errors");
  check(context_.get(), weft_stream_synchronize(stream_.get()), "collecting errors");
  return static_cast<std::uint64_t>(clipped);
}

double Bench::bus_factor() const {
  // nccl-tests, doc/PERFORMANCE.md: what each link carries for a byte of the operation.
  if (options_.operation == Operation::kAllReduce) return 2.0 * (ranks_ - 1) / ranks_;
  if (has_blocks(options_.operation)) return 1.0 * (ranks_ - 1) / ranks_;
  return 1.0;
}

// In place the smaller buffer is this rank's block of the larger one.
Bench::Places Bench::places_of(std::uint64_t count, std::size_t width, bool in_place) {
  const Operation operation = options_.operation;
  const std::uint64_t own_block = rank_ * count * width;
  Places places{.send = input_.data(),
                .recv = output_.data(),
                .send_count = operation == Operation::kReduceScatter ? count * ranks_ : count,
                .recv_count = operation == Operation::kAllGather ? count * ranks_ : count};
  if (!in_place) return places;
  places.send = output_.data() + (operation == Operation::kAllGather ? own_block : 0);
  places.recv = output_.data() + (operation == Operation::kReduceScatter ? own_block : 0);
  return places;
}

template <typename T>
std::uint64_t Bench::verify(std::uint64_t count, bool in_place) {
  static constexpr std::uint32_t kRounds = 2;
  std::uint64_t wrong = 0;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const Places places = places_of(count, sizeof(T), in_place);
    const std::span<T> sent(reinterpret_cast<T*>(places.send), places.send_count);
    const std::span<T> found(reinterpret_cast<T*>(places.recv), places.recv_count);
    const Pattern<T> pattern(ranks_, round, options_.reduction);
    if (in_place) {
      std::memset(output_.data(), 0xA5, output_.size());
    } else {
      std::memset(places.recv, 0xA5, found.size_bytes());
    }
    pattern.fill(sent, rank_);
    call(places.send, places.recv, count);
    if (options_.operation == Operation::kReduce && rank_ != options_.call.root) continue;
    wrong += count_wrong(std::span<const T>(found), [&](std::uint64_t i) -> T {
      switch (options_.operation) {
        case Operation::kBroadcast:
          return pattern.contribution(options_.call.root, i);
        case Operation::kAllGather:
          return pattern.contribution(static_cast<std::uint32_t>(i / count), i % count);
        case Operation::kReduceScatter:
          return pattern.reduced(rank_ * count + i);
        default:
          return pattern.reduced(i);
      }
    });
  }
  return wrong;
}

template <typename T>
Measurement Bench::measure(std::uint64_t count, bool in_place) {
  Measurement measurement;
  if (options_.check) measurement.wrong = sum_over_ranks(verify<T>(count, in_place));

  // Zeros: an in-place sum of anything else would overflow after some iterations.
  const Places places = places_of(count, sizeof(T), in_place);
  std::memset(places.send, 0, places.send_count * sizeof(T));
  std::memset(places.recv, 0, places.recv_count * sizeof(T));
  for (std::uint32_t i = 0; i < options_.warmup; ++i)
    call(places.send, places.recv, count);
  static_cast<void>(sum_over_ranks(0));  // all ranks begin together
  using BenchClock = std::chrono::steady_clock;
  const auto begin = BenchClock::now();
  for (std::uint32_t i = 0; i < options_.iterations; ++i)
    call(places.send, places.recv, count);
  const std::chrono::duration<double, std::micro> span = BenchClock::now() - begin;
  measurement.us = max_over_ranks(span.count() / options_.iterations);
  const double bytes =
      static_cast<double>(std::max(places.send_count, places.recv_count)) * sizeof(T);
  measurement.algbw = measurement.us > 0 ? bytes / measurement.us / 1e3 : 0;
  measurement.busbw = measurement.algbw * bus_factor();
  return measurement;
}

Measurement Bench::measure_as_type(std::uint64_t count, bool in_place) {
  switch (options_.type) {
    case WEFT_INT8:
      return measure<std::int8_t>(count, in_place);
    case WEFT_UINT8:
      return measure<std::uint8_t>(count, in_place);
    case WEFT_INT32:
      return measure<std::int32_t>(count, in_place);
    case WEFT_UINT32:
      return measure<std::uint32_t>(count, in_place);
    case WEFT_INT64:
      return measure<std::int64_t>(count, in_place);
    case WEFT_UINT64:
      return measure<std::uint64_t>(count, in_place);
    case WEFT_FLOAT16:
      return measure<device::Float16>(count, in_place);
    case WEFT_FLOAT64:
      return measure<double>(count, in_place);
    case WEFT_BFLOAT16:
      return measure<device::Bfloat16>(count, in_place);
    default:
      return measure<float>(count, in_place);
  }
}

void Bench::print_header() const {
  fmt::print("# weft {} {}, {} ranks, {} iterations after {} of warm-up, slowest rank's time\n",
             weft_version(), operation_name(options_.operation), ranks_, options_.iterations,
             options_.warmup);
  for (std::uint32_t a = 0; a < ranks_; ++a) {
    for (std::uint32_t b = a + 1; b < ranks_; ++b) {
      fmt::print("# ranks {} and {}: {}\n", a, b, describe_pair(comm_.get(), a, b));
    }
  }
  weft_comm_properties held{};
  held.struct_size = sizeof(held);
  if (weft_comm_get_properties(comm_.get(), &held) == WEFT_OK) {
    fmt::print("# memory: rank {} holds {:.1f} MiB for its connections\n", held.rank,
               static_cast<double>(held.bytes_held) / (1 << 20));
  }
  fmt::print("#\n# {:>58} {:>39}\n", "out-of-place", "in-place");
  fmt::print("# {:>11} {:>12} {:>8} {:>6} {:>5} {:>9} {:>7} {:>7} {:>6} {:>9} {:>7} {:>7} {:>6}\n",
             "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
             "algbw", "busbw", "#wrong");
  fmt::print("# {:>11} {:>12} {:>8} {:>6} {:>5} {:>9} {:>7} {:>7} {:>6} {:>9} {:>7} {:>7} {:>6}\n",
             "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
             "(GB/s)", "");
  static_cast<void>(std::fflush(stdout));
}

std::string Bench::half_row(const Measurement* half) const {
  if (half == nullptr) return fmt::format("{:>9} {:>7} {:>7} {:>6}", "-", "-", "-", "-");
  return fmt::format("{:>9.2f} {:>7.2f} {:>7.2f} {:>6}", half->us, half->algbw, half->busbw,
                     options_.check ? std::to_string(half->wrong) : "N/A");
}

void Bench::print_row(std::uint64_t bytes, std::uint64_t count, const Measurement* out_of_place,
                      const Measurement& in_place) const {
  fmt::print("  {:>11} {:>12} {:>8} {:>6} {:>5} {} {}\n", bytes, count,
             data_type_name(options_.type),
             reduces(options_.operation) ? reduction_name(options_.reduction) : "none",
             has_root(options_.operation) ? static_cast<int>(options_.call.root) : -1,
             half_row(out_of_place), half_row(&in_place));
  static_cast<void>(std::fflush(stdout));
}

void Bench::write_json(std::uint64_t bytes, bool in_place, const Measurement& half) {
  utsname machine{};
  uname(&machine);
  nlohmann::json line = {
      {"peer", "weft"},
      {"version", weft_version()},
      {"operation", operation_name(options_.operation)},
      {"ranks", ranks_},
      {"bytes", bytes},
      {"type", data_type_name(options_.type)},
      {"in_place", in_place},
      {"time_us", half.us},
      {"algbw_gbs", half.algbw},
      {"busbw_gbs", half.busbw},
      {"transport", ranks_ > 1 ? describe_pair(comm_.get(), 0, 1) : std::string("none")},
      {"kernel", machine.release},
      {"processors", sysconf(_SC_NPROCESSORS_ONLN)},
  };
  if (reduces(options_.operation)) line["reduction"] = reduction_name(options_.reduction);
  if (has_root(options_.operation)) line["root"] = options_.call.root;
  if (options_.check) line["wrong"] = half.wrong;
  json_ << line.dump() << '\n';
}

/// Those that join any two ranks: "shm, net-socket".
std::string Bench::transports() const {
  std::set<std::string> names;
  for (std::uint32_t a = 0; a < ranks_; ++a) {
    for (std::uint32_t b = a + 1; b < ranks_; ++b) {
      const std::string text = describe_pair(comm_.get(), a, b);
      names.insert(text.substr(0, text.find(':')));
    }
  }
  return names.empty() ? "no transport" : fmt::format("{}", fmt::join(names, ", "));
}

void Bench::write_plot(const std::vector<PlotPoint>& out_of_place,
                       const std::vector<PlotPoint>& in_place) const {
  Plot plot{.title = fmt::format("{}, {} rank{}, {}", operation_name(options_.operation), ranks_,
                                 ranks_ == 1 ? "" : "s", transports()),
            .subtitle = fmt::format("{}, {}, slowest rank's time, {} iterations after {} of "
                                    "warm-up, weft {}",
                                    data_type_name(options_.type),
                                    options_.operation == Operation::kAllReduce
                                        ? std::string(reduction_name(options_.reduction))
                                        : fmt::format("root {}", options_.call.root),
                                    options_.iterations, options_.warmup, weft_version()),
            .series = {}};
  if (!options_.in_place_only) {
    plot.series.push_back({.name = "out of place", .points = out_of_place});
  }
  plot.series.push_back({.name = "in place", .points = in_place});
  std::ofstream file(options_.plot_file);
  file << to_svg(plot);
  if (!file.flush()) cannot_write(options_.plot_file);
}

std::uint64_t Bench::run() {
  const std::size_t element = element_size(options_.type);
  input_.resize(std::max<std::uint64_t>(options_.max, element));
  output_.resize(input_.size());
  const bool speaks = rank_ == 0;
  if (speaks && !options_.json_file.empty()) {
    json_.open(options_.json_file, std::ios::app);
    if (!json_) cannot_write(options_.json_file);
  }
  // Now, so that nobody waits for a picture that cannot be kept. What is there stays until then.
  if (speaks && !options_.plot_file.empty() &&
      !std::ofstream(options_.plot_file, std::ios::app).is_open()) {
    cannot_write(options_.plot_file);
  }
  if (speaks) print_header();

  std::vector<PlotPoint> out_of_place_points;
  std::vector<PlotPoint> in_place_points;
  std::uint64_t wrong = 0;
  double busbw_sum = 0;
  std::uint32_t rows = 0;
  for (std::uint64_t bytes = options_.min; bytes <= options_.max;
       bytes = bytes == 0 ? element : bytes * options_.factor) {
    const std::uint64_t count = count_for(options_.operation, bytes, options_.type, ranks_);
    const std::uint64_t whole = count * element * (has_blocks(options_.operation) ? ranks_ : 1);
    Measurement out_of_place;
    if (!options_.in_place_only) out_of_place = measure_as_type(count, false);
    const Measurement in_place = measure_as_type(count, true);
    wrong += out_of_place.wrong + in_place.wrong;
    busbw_sum +=
        options_.in_place_only ? in_place.busbw : (in_place.busbw + out_of_place.busbw) / 2;
    ++rows;
    if (!speaks) continue;
    out_of_place_points.push_back(
        {.bytes = whole, .busbw = out_of_place.busbw, .us = out_of_place.us});
    in_place_points.push_back({.bytes = whole, .busbw = in_place.busbw, .us = in_place.us});
    print_row(whole, count, options_.in_place_only ? nullptr : &out_of_place, in_place);
    if (json_.is_open()) {
      if (!options_.in_place_only) write_json(whole, false, out_of_place);
      write_json(whole, true, in_place);
    }
  }
  if (speaks) {
    if (options_.check) {
      fmt::print("# Out of bounds values : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED");
    }
    fmt::print("# Avg bus bandwidth    : {:.4f}\n", rows > 0 ? busbw_sum / rows : 0);
  }
  if (speaks && !options_.plot_file.empty()) write_plot(out_of_place_points, in_place_points);
  if (json_.is_open() && !json_.flush()) cannot_write(options_.json_file);
  return wrong;
}

namespace {

std::uint64_t bytes_option(const std::string& name, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (!bytes) throw CallFailed(fmt::format("{} {}: {}", name, text, bytes.error().what()));
  return static_cast<std::uint64_t>(*bytes);
}

void settle_options(BenchOptions& options) {
  options.min = bytes_option("--min", options.min_text);
  options.max = bytes_option("--max", options.max_text);
  if (options.min > options.max) {
    throw CallFailed(
        fmt::format("--min {} is more than --max {}", options.min_text, options.max_text));
  }
  options.type = options.call.type();
  options.reduction = options.call.reduction();
  if (!in_job()) {
    throw CallFailed(
        "this process is no rank of a job; try: weft run -n 2 -- weft bench all_reduce");
  }
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Time a collective and check its results");
  command->require_subcommand(1);
  for (const Operation operation : kKnownOperations) {
    CLI::App* sub = command->add_subcommand(std::string(operation_name(operation)));
    sub->add_option("--min", options->min_text, "Smallest size, bytes (8, 4KiB)")
        ->capture_default_str();
    sub->add_option("--max", options->max_text, "Largest size, bytes")->capture_default_str();
    sub->add_option("--factor", options->factor, "Each size is this many times the last")
        ->check(CLI::Range(2, 1024))
        ->capture_default_str();
    sub->add_option("--iters", options->iterations, "Timed calls of each size")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    sub->add_option("--warmup", options->warmup, "Calls before them")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    add_call_options(*sub, operation, options->call);
    sub->add_flag("--in-place", options->in_place_only, "Measure in place only");
    sub->add_flag("--check", options->check, "Check every element of every rank");
    sub->add_option("--json", options->json_file, "Append each row to this file as a JSON line");
    sub->add_option("--plot", options->plot_file,
                    "Draw bandwidth and time over size into this file, as SVG");
    sub->add_option("--calibrate", options->table_file,
                    "Time every algorithm and protocol that is possible, and write what a tuner "
                    "needs to know into this file (tuner.table)");
    sub->callback([options, operation, &exit_status] {
      options->operation = operation;
      try {
        settle_options(*options);
        if (!options->table_file.empty()) {
          Bench(*options).calibrate();
        } else if (Bench(*options).run() != 0) {
          exit_status = 1;
        }
      } catch (const std::exception& error) {
        fmt::print(stderr, "weft bench: {}\n", error.what());
        exit_status = 1;
      }
    });
  }
}

}  // namespace weft::tool
