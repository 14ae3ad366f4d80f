// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft bench OP --calibrate FILE`: times each way on a communicator that allows no other.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "core/bootstrap/job_environment.h"
#include "core/topology/discover.h"
#include "tools/weft/bench.h"

namespace weft::tool {
namespace {

/// Why a way could not be taken, out of the planner's text on all of them; empty for one that does
/// not exist.
std::string why_not(const std::string& text, const WayNames& way) {
  const std::string beginning = fmt::format(" {} with {}: ", way.algorithm, way.protocol);
  const std::size_t at = text.find(beginning);
  if (at == std::string::npos) return {};
  const std::size_t from = at + beginning.size();
  return text.substr(from, text.find(';', from) - from);
}

}  // namespace

std::vector<tuner::Sample> Bench::samples_of(const WayNames& way) {
  static constexpr int kRepetitions = 3;
  const std::string section = fmt::format("collectives.{}.", options_.timed.name());
  Settings settings = untuned();
  settings.emplace_back(section + "algorithm", way.algorithm);
  settings.emplace_back(section + "protocol", way.protocol);
  comm_ = join_job(context_.get(), settings);
  const std::size_t element = element_size(options_.type);
  std::vector<tuner::Sample> samples;
  for (std::uint64_t bytes = options_.min; bytes <= options_.max;
       bytes = bytes == 0 ? element : bytes * options_.factor) {
    const std::uint64_t count = options_.timed.count_for(bytes, options_.type, ranks_);
    if (count == 0 || (!samples.empty() && samples.back().bytes == count * element)) continue;
    const Places places = places_of(count, element, false);
    const weft_result result = start(places.send, places.recv, count);
    // Its only way is none of this call's: every rank finds so, since all plan alike.
    if (result == WEFT_ERROR_CONFIG) {
      const std::string why = why_not(last_error(context_.get()), way);
      if (rank_ == 0 && !why.empty()) {
        fmt::print("# {}, {}: not possible with {} bytes: {}\n", way.algorithm, way.protocol,
                   count * element, why);
      }
      break;
    }
    check(context_.get(), result, "calibrating");
    check(context_.get(), weft_stream_synchronize(stream_.get()), "calibrating");
    double us = measure_as_type(count, false).us;
    for (int i = 1; i < kRepetitions; ++i)
      us = std::min(us, measure_as_type(count, false).us);
    samples.push_back(
        {.bytes = count * element,
         .time_ns = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(us * 1e3))});
    if (rank_ == 0) {
      fmt::print("  {:>12} {:>10} {:>10} {:>12.2f}\n", samples.back().bytes, way.algorithm,
                 way.protocol, us);
      static_cast<void>(std::fflush(stdout));
    }
  }
  return samples;
}

std::uint64_t Bench::hosts() {
  const EnvironmentMap environment = current_environment();
  const auto host_id = environment.find("WEFT_HOST_ID");
  const auto host = discover_host(host_id != environment.end() ? host_id->second : std::string());
  if (!host) throw CallFailed(host.error().to_string());
  const std::uint64_t mine = std::hash<std::string>()(host->host_id);
  std::vector<std::uint64_t> all(ranks_);
  check(context_.get(),
        weft_all_gather(&mine, all.data(), 1, WEFT_UINT64, comm_.get(), stream_.get()),
        "counting hosts");
  check(context_.get(), weft_stream_synchronize(stream_.get()), "counting hosts");
  return std::set<std::uint64_t>(all.begin(), all.end()).size();
}

std::uint64_t Bench::calibrate() {
  make_buffers(element_size(options_.type));
  std::vector<tuner::Rule> rules;
  // Now, so that nobody waits for a table that cannot be kept.
  if (rank_ == 0) {
    auto old = read_rules(options_.table_file);
    if (!old) throw CallFailed(old.error().to_string());
    if (const Status can = check_writable(options_.table_file); !can) {
      throw CallFailed(can.error().to_string());
    }
    rules = std::move(*old);
  }
  tuner::Rule frame;
  frame.operation = tuner::operation_of(options_.timed.name()).value();
  frame.device = "host";
  frame.ranks = {.from = ranks_, .to = ranks_};
  const std::uint64_t host_count = hosts();
  frame.hosts = {.from = host_count, .to = host_count};
  if (rank_ == 0) {
    fmt::print(
        "# weft {} {}, {} ranks, hosts: {}, the least of 3 times {} iterations after {} of "
        "warm-up\n# {:>12} {:>10} {:>10} {:>12}\n",
        weft_version(), options_.timed.name(), ranks_, host_count, options_.iterations,
        options_.warmup, "bytes/rank", "algorithm", "protocol", "time (us)");
  }
  std::vector<tuner::Rule> fresh;
  for (const WayNames& way : ways_to_try(options_.timed.operation)) {
    frame.algorithm = tuner::algorithm_of(way.algorithm);
    frame.protocol = tuner::protocol_of(way.protocol);
    // A table has no name for it: every rank passes it over.
    if (!frame.algorithm || !frame.protocol) continue;
    const auto fitted = fit(frame, samples_of(way));
    fresh.insert(fresh.end(), fitted.begin(), fitted.end());
  }
  print_wrong();
  if (rank_ != 0) return wrong_;
  rules = merge_rules(std::move(rules), fresh);
  if (const Status written = write_rules(options_.table_file, rules); !written) {
    throw CallFailed(written.error().to_string());
  }
  fmt::print("# {}: {} rules, {} of them new\n", options_.table_file, rules.size(), fresh.size());
  return wrong_;
}

}  // namespace weft::tool
