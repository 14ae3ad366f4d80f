// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft bench OP`: times a collective, or a group of sends and receives, over a range of sizes,
// checks what came out, and prints nccl-tests' columns. Runs as a rank of a job (`weft run -n N --
// weft bench all_reduce`).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <weft/weft.h>

#include "core/config/units.h"
#include "core/device/narrow_float.h"
#include "core/model/operation.h"
#include "tools/weft/bench.h"
#include "tools/weft/bench_pattern.h"
#include "tools/weft/call_options.h"
#include "tools/weft/commands.h"
#include "tools/weft/session.h"

namespace weft::tool {
weft_result Bench::start(const void* send, void* recv, std::uint64_t count) {
  return options_.timed.collective() ? start_collective(send, recv, count)
                                     : send_and_receive(send, recv, count);
}

weft_result Bench::start_collective(const void* send, void* recv, std::uint64_t count) {
  const auto type = options_.type;
  const auto reduction = options_.reduction;
  const std::uint32_t root = options_.call.root;
  switch (options_.timed.operation) {
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
    case Operation::kAllToAll:
      return weft_all_to_all(send, recv, count, type, comm_.get(), stream_.get());
    case Operation::kAllToAllV: {
      const UnevenBlocks& blocks = uneven_blocks(count);
      return weft_all_to_all_v(send, blocks.counts.data(), blocks.offsets.data(), recv,
                               blocks.counts.data(), blocks.offsets.data(), type, comm_.get(),
                               stream_.get());
    }
    case Operation::kAllGatherV: {
      const UnevenBlocks& blocks = uneven_blocks(count);
      return weft_all_gather_v(send, recv, blocks.counts.data(), blocks.offsets.data(), type,
                               comm_.get(), stream_.get());
    }
    case Operation::kReduceScatterV: {
      const UnevenBlocks& blocks = uneven_blocks(count);
      return weft_reduce_scatter_v(send, blocks.counts.data(), blocks.offsets.data(), recv, type,
                                   reduction, comm_.get(), stream_.get());
    }
    case Operation::kGather:
      return weft_gather(send, recv, count, type, root, comm_.get(), stream_.get());
    case Operation::kScatter:
      return weft_scatter(send, recv, count, type, root, comm_.get(), stream_.get());
    default:
      return WEFT_ERROR_INTERNAL;
  }
}

weft_result Bench::send_and_receive(const void* send, void* recv, std::uint64_t count) {
  const auto type = options_.type;
  if (const weft_result opened = weft_group_start(context_.get()); opened != WEFT_OK) return opened;
  weft_result result =
      weft_send(send, count, type, (rank_ + 1) % ranks_, comm_.get(), stream_.get());
  if (result == WEFT_OK) {
    result =
        weft_recv(recv, count, type, (rank_ + ranks_ - 1) % ranks_, comm_.get(), stream_.get());
  }
  const weft_result ended = weft_group_end(context_.get());
  return result != WEFT_OK ? result : ended;
}

void Bench::call(const void* send, void* recv, std::uint64_t count) {
  check(context_.get(), start(send, recv, count), options_.timed.name());
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

const UnevenBlocks& Bench::uneven_blocks(std::uint64_t count) {
  if (uneven_.counts.empty() || uneven_count_ != count) {
    const bool common = has_uneven_blocks(options_.timed.operation);
    uneven_ = UnevenBlocks(count, common ? 0 : rank_, ranks_);
    uneven_count_ = count;
  }
  return uneven_;
}

// In place the smaller buffer is this rank's block of the larger one.
Bench::Places Bench::places_of(std::uint64_t count, std::size_t width, bool in_place) {
  const BenchCall& timed = options_.timed;
  const bool differ = timed.has_uneven_blocks();
  const std::uint64_t own_block =
      (differ ? uneven_blocks(count).offsets[rank_] : rank_ * count) * width;
  Places places{.send = input_.data(),
                .recv = output_.data(),
                .send_count = timed.sends_blocks() ? count * ranks_ : count,
                .recv_count = timed.receives_blocks() ? count * ranks_ : count};
  if (differ) {
    const UnevenBlocks& blocks = uneven_blocks(count);
    places.send_count = timed.sends_blocks() ? blocks.total : blocks.counts[rank_];
    places.recv_count = timed.receives_blocks() ? blocks.total : blocks.counts[rank_];
  }
  if (!in_place) return places;
  places.send = output_.data() + (timed.receives_blocks() ? own_block : 0);
  places.recv = output_.data() + (timed.sends_blocks() ? own_block : 0);
  return places;
}

// Of each element that a rank receives: whose it is, and its place there.
std::vector<std::pair<std::uint32_t, std::uint64_t>> Bench::uneven_sources(std::uint64_t count) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> sources;
  if (!options_.timed.has_uneven_blocks()) return sources;
  const bool whole = options_.timed.operation == Operation::kAllGatherV;
  for (std::uint32_t from = 0; from < ranks_; ++from) {
    const UnevenBlocks theirs(count, whole ? 0 : from, ranks_);
    const std::size_t begin = whole ? 0 : theirs.offsets[rank_];
    for (std::size_t i = 0; i < theirs.counts[whole ? from : rank_]; ++i)
      sources.emplace_back(from, begin + i);
  }
  return sources;
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
    const auto sources = uneven_sources(count);
    if (in_place) {
      std::memset(output_.data(), 0xA5, output_.size());
    } else {
      std::memset(places.recv, 0xA5, found.size_bytes());
    }
    pattern.fill(sent, rank_);
    call(places.send, places.recv, count);
    if (options_.timed.only_root_gets() && rank_ != options_.call.root) continue;
    wrong += count_wrong(std::span<const T>(found), [&](std::uint64_t i) -> T {
      switch (options_.timed.operation) {
        case Operation::kSend:
          return pattern.contribution((rank_ + ranks_ - 1) % ranks_, i);
        case Operation::kAllToAll:
          return pattern.contribution(static_cast<std::uint32_t>(i / count),
                                      rank_ * count + i % count);
        case Operation::kAllGatherV:
        case Operation::kAllToAllV: {
          const auto& [from, place] = sources[i];
          return pattern.contribution(from, place);
        }
        case Operation::kBroadcast:
          return pattern.contribution(options_.call.root, i);
        case Operation::kScatter:
          return pattern.contribution(options_.call.root, rank_ * count + i);
        case Operation::kGather:
        case Operation::kAllGather:
          return pattern.contribution(static_cast<std::uint32_t>(i / count), i % count);
        case Operation::kReduceScatterV:
          return pattern.reduced(uneven_blocks(count).offsets[rank_] + i);
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
  wrong_ += measurement.wrong;

  // Zeros: an in-place sum of anything else would overflow after some iterations.
  const Places places = places_of(count, sizeof(T), in_place);
  std::memset(places.send, 0, places.send_count * sizeof(T));
  std::memset(places.recv, 0, places.recv_count * sizeof(T));
  for (std::uint32_t i = 0; i < repeats_.warmup; ++i)
    call(places.send, places.recv, count);
  static_cast<void>(sum_over_ranks(0));  // all ranks begin together
  using BenchClock = std::chrono::steady_clock;
  const auto begin = BenchClock::now();
  for (std::uint32_t i = 0; i < repeats_.iterations; ++i)
    call(places.send, places.recv, count);
  const std::chrono::duration<double, std::micro> span = BenchClock::now() - begin;
  measurement.us = max_over_ranks(span.count() / repeats_.iterations);
  const double bytes =
      static_cast<double>(std::max(places.send_count, places.recv_count)) * sizeof(T);
  measurement.algbw = measurement.us > 0 ? bytes / measurement.us / 1e3 : 0;
  measurement.busbw = measurement.algbw * options_.timed.bus_factor(ranks_);
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
    case WEFT_FLOAT8_E4M3:
      return measure<device::Float8E4M3>(count, in_place);
    case WEFT_FLOAT8_E5M2:
      return measure<device::Float8E5M2>(count, in_place);
    default:
      return measure<float>(count, in_place);
  }
}

/// Two of --max bytes, `least` at least.
void Bench::make_buffers(std::size_t least) {
  try {
    input_.resize(std::max<std::uint64_t>(options_.max, least));
    output_.resize(input_.size());
  } catch (const std::bad_alloc&) {
    throw CallFailed(
        fmt::format("no memory for two buffers of --max {}; try: a smaller --max, or fewer ranks "
                    "on this host",
                    options_.max_text));
  }
}

std::uint64_t Bench::run() {
  const std::size_t element = element_size(options_.type);
  make_buffers(element);
  const bool speaks = rank_ == 0;
  open_json();
  // Now, so that nobody waits for a picture that cannot be kept. What is there stays until then.
  if (speaks && !options_.plot_file.empty() &&
      !std::ofstream(options_.plot_file, std::ios::app).is_open()) {
    cannot_write(options_.plot_file);
  }
  if (speaks) print_header();

  std::vector<PlotPoint> out_of_place_points;
  std::vector<PlotPoint> in_place_points;
  double busbw_sum = 0;
  std::uint32_t halves = 0;
  for (std::uint64_t bytes = options_.min; bytes <= options_.max;
       bytes = bytes == 0 ? element : bytes * options_.factor) {
    const std::uint64_t count = options_.timed.count_for(bytes, options_.type, ranks_);
    const std::uint64_t whole = count * element * (options_.timed.has_blocks() ? ranks_ : 1);
    std::optional<Measurement> out_of_place;
    std::optional<Measurement> in_place;
    if (!options_.in_place_only) out_of_place = measure_as_type(count, false);
    if (options_.timed.can_be_in_place()) in_place = measure_as_type(count, true);
    const auto keep = [&](const std::optional<Measurement>& half, bool placed,
                          std::vector<PlotPoint>& points) {
      if (!half) return;
      busbw_sum += half->busbw;
      ++halves;
      if (speaks) points.push_back({.bytes = whole, .busbw = half->busbw, .us = half->us});
      if (json_.is_open()) write_json(whole, placed, *half);
    };
    keep(out_of_place, false, out_of_place_points);
    keep(in_place, true, in_place_points);
    if (speaks) {
      print_row(whole, count, out_of_place ? &*out_of_place : nullptr,
                in_place ? &*in_place : nullptr);
    }
  }
  print_wrong();
  if (speaks) {
    fmt::print("# Avg bus bandwidth    : {:.4f}\n", halves > 0 ? busbw_sum / halves : 0);
  }
  if (speaks && !options_.plot_file.empty()) write_plot(out_of_place_points, in_place_points);
  if (json_.is_open() && !json_.flush()) cannot_write(options_.json_file);
  return wrong_;
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
  CLI::App* command =
      app.add_subcommand("bench", "Time a collective, or sends and receives, and check what came");
  command->require_subcommand(1);
  for (const BenchCall& timed : kBenchCalls) {
    CLI::App* sub = command->add_subcommand(std::string(timed.name()));
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
    add_call_options(*sub, timed.operation, options->call);
    CLI::Option* in_place = nullptr;
    if (timed.can_be_in_place()) {
      in_place = sub->add_flag("--in-place", options->in_place_only, "Measure in place only");
    }
    sub->add_flag("--check", options->check, "Check every element of every rank");
    CLI::Option* json = sub->add_option("--json", options->json_file,
                                        "Append each row to this file as a JSON line");
    CLI::Option* plot = sub->add_option("--plot", options->plot_file,
                                        "Draw bandwidth and time over size into this file, as SVG");
    if (is_planned(timed.operation) && !has_uneven_blocks(timed.operation)) {
      CLI::Option* calibrate = sub->add_option(
          "--calibrate", options->table_file,
          "Time every algorithm and protocol that is possible, and write what a tuner "
          "needs to know into this file (tuner.table)");
      CLI::Option* ways = sub->add_flag(
          "--ways", options->ways,
          "Time what the planner chooses and every algorithm and protocol that is possible, in "
          "turn, each with as many calls as take 30 ms, --iters at most");
      sub->add_option("--rounds", options->rounds, "Times that --ways measures each")
          ->check(CLI::Range(1, 1000))
          ->needs(ways)
          ->capture_default_str();
      // What they would not do shall not be asked for.
      ways->excludes(in_place)->excludes(plot);
      calibrate->excludes(in_place)->excludes(plot)->excludes(json)->excludes(ways);
    }
    sub->callback([options, timed, &exit_status] {
      options->timed = timed;
      try {
        settle_options(*options);
        Bench bench(*options);
        const std::uint64_t wrong = !options->table_file.empty() ? bench.calibrate()
                                    : options->ways              ? bench.compare_ways()
                                                                 : bench.run();
        if (wrong != 0) exit_status = 1;
      } catch (const std::exception& error) {
        fmt::print(stderr, "weft bench: {}\n", error.what());
        exit_status = 1;
      }
    });
  }
}

}  // namespace weft::tool
