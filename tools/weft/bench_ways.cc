// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft bench OP --ways`: what the planner chooses, in turn with every way on a communicator that
// allows no other.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/api/handles.h"
#include "tools/weft/bench.h"

namespace weft::tool {
namespace {

/// What one measurement takes, about: long enough for a mean, short enough to come round to every
/// way before the machine has changed.
constexpr double kMeasurementUs = 30e3;
/// A way that took this many times the fastest is not asked again.
constexpr double kHopeless = 4;
/// Two ranks that begin together run on one processor until the system has moved one.
constexpr double kWarmUpUs = 400e3;

double median_of(std::vector<double> times) {
  std::ranges::sort(times);
  const std::size_t half = times.size() / 2;
  return times.size() % 2 != 0 ? times[half] : (times[half - 1] + times[half]) / 2;
}

}  // namespace

void Bench::warm_up(std::uint64_t count) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  repeats_ = {.warmup = 0, .iterations = 100};
  std::chrono::duration<double, std::micro> span{};
  do {
    measure_as_type(count, false);
    span = Clock::now() - begin;
  } while (max_over_ranks(span.count()) < kWarmUpUs);
}

/// A way, or the planner's choice, and what is known of it at one size.
struct Bench::Contender {
  bool forced = false;
  WayNames way;  ///< Of the choice: what was chosen.
  CommHandle comm;
  std::uint32_t calls = 0;  ///< In one measurement; 0: not possible.
  std::size_t channels = 0;
  double predicted_us = 0;
  std::vector<double> times_us{};
};

/// Asks the planner, and finds out how many calls to time: none where its way cannot do this call.
/// All ranks come to the same.
void Bench::prepare(Contender& contender, std::uint64_t count) {
  contender.times_us.clear();
  contender.calls = 0;
  const Task task{.operation = options_.timed.operation,
                  .type = options_.type,
                  .reduction = options_.reduction,
                  .root = options_.call.root,
                  .count = count};
  const auto plan = contender.comm->member->joined()->plan(task);
  if (!plan) {
    if (plan.error().code() == WEFT_ERROR_CONFIG && contender.forced) return;
    throw CallFailed(plan.error().to_string());
  }
  if (!contender.forced) {
    contender.way = {.algorithm = std::string(algorithm_name((*plan)->algorithm)),
                     .protocol = std::string(protocol_name((*plan)->protocol))};
  }
  contender.channels = (*plan)->channels.size();
  contender.predicted_us = (*plan)->predicted_us;
  std::swap(comm_, contender.comm);
  repeats_ = {.warmup = 1, .iterations = 3};
  const double us = std::max(0.1, measure_as_type(count, false).us);
  std::swap(comm_, contender.comm);
  contender.calls = static_cast<std::uint32_t>(std::clamp(
      kMeasurementUs / us, 2.0, std::max(2.0, static_cast<double>(options_.iterations))));
}

void Bench::time_in_turn(std::vector<Contender>& contenders, std::uint64_t count) {
  double fastest = std::numeric_limits<double>::infinity();
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    for (Contender& contender : contenders) {
      if (contender.calls == 0) continue;
      if (round != 0 && contender.times_us.front() > kHopeless * fastest) continue;
      repeats_ = {.warmup = std::min(options_.warmup, contender.calls),
                  .iterations = contender.calls};
      std::swap(comm_, contender.comm);
      contender.times_us.push_back(measure_as_type(count, false).us);
      std::swap(comm_, contender.comm);
      fastest = std::min(fastest, contender.times_us.back());
    }
  }
}

void Bench::write_contender(std::uint64_t bytes, const Contender& contender) {
  const double us = median_of(contender.times_us);
  fmt::print("  {:>11} {:>10} {:>10} {:>8} {:>12.2f} {:>12.2f}{}\n", bytes, contender.way.algorithm,
             contender.way.protocol, contender.channels, us, contender.predicted_us,
             contender.forced ? "" : "  chosen");
  static_cast<void>(std::fflush(stdout));
  if (!json_.is_open()) return;
  const nlohmann::json line = {{"kind", contender.forced ? "way" : "choice"},
                               {"operation", options_.timed.name()},
                               {"ranks", ranks_},
                               {"bytes", bytes},
                               {"algorithm", contender.way.algorithm},
                               {"protocol", contender.way.protocol},
                               {"channels", contender.channels},
                               {"predicted_us", contender.predicted_us},
                               {"calls", contender.calls},
                               {"times_us", contender.times_us}};
  json_ << line.dump() << '\n';
}

std::uint64_t Bench::compare_ways() {
  const std::size_t element = element_size(options_.type);
  // At least one element for each block.
  const std::size_t least = element * (options_.timed.has_blocks() ? ranks_ : 1);
  make_buffers(least);
  open_json();
  std::vector<Contender> contenders(1);
  contenders.front().comm = join_job(context_.get());
  const std::string section = fmt::format("collectives.{}.", options_.timed.name());
  for (const WayNames& way : ways_to_try(options_.timed.operation)) {
    contenders.push_back(
        {.forced = true,
         .way = way,
         .comm = join_job(context_.get(), {{section + "algorithm", way.algorithm},
                                           {section + "protocol", way.protocol}})});
  }
  if (rank_ == 0) {
    fmt::print(
        "# weft {} {}, {} ranks, the median of {} rounds in turn\n"
        "# {:>11} {:>10} {:>10} {:>8} {:>12} {:>12}\n",
        weft_version(), options_.timed.name(), ranks_, options_.rounds, "size (B)", "algorithm",
        "protocol", "channels", "time (us)", "model (us)");
  }
  for (std::uint64_t bytes = options_.min; bytes <= options_.max;
       bytes = bytes == 0 ? element : bytes * options_.factor) {
    const std::uint64_t count =
        std::max<std::uint64_t>(1, options_.timed.count_for(bytes, options_.type, ranks_));
    for (Contender& contender : contenders)
      prepare(contender, count);
    if (bytes == options_.min) warm_up(count);
    time_in_turn(contenders, count);
    if (rank_ != 0) continue;
    for (const Contender& contender : contenders) {
      const std::uint64_t whole = count * element * (options_.timed.has_blocks() ? ranks_ : 1);
      if (contender.calls != 0) write_contender(whole, contender);
    }
  }
  print_wrong();
  if (json_.is_open() && !json_.flush()) cannot_write(options_.json_file);
  return wrong_;
}

}  // namespace weft::tool
