// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What `weft bench` shows: nccl-tests' columns, JSON lines, a plot.
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <sys/utsname.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <weft/weft.h>

#include "core/model/operation.h"
#include "tools/weft/bench.h"
#include "tools/weft/plot.h"
#include "tools/weft/session.h"

namespace weft::tool {

void cannot_write(const std::string& file) {
  throw CallFailed(Error::from_errno(errno, "cannot write " + file).to_string());
}

void Bench::open_json() {
  if (rank_ != 0 || options_.json_file.empty()) return;
  json_.open(options_.json_file, std::ios::app);
  if (!json_) cannot_write(options_.json_file);
}

void Bench::print_header() const {
  fmt::print("# weft {} {}, {} ranks, {} iterations after {} of warm-up, slowest rank's time\n",
             weft_version(), options_.timed.name(), ranks_, options_.iterations, options_.warmup);
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
                      const Measurement* in_place) const {
  fmt::print("  {:>11} {:>12} {:>8} {:>6} {:>5} {} {}\n", bytes, count,
             data_type_name(options_.type),
             reduces(options_.timed.operation) ? reduction_name(options_.reduction) : "none",
             has_root(options_.timed.operation) ? static_cast<int>(options_.call.root) : -1,
             half_row(out_of_place), half_row(in_place));
  static_cast<void>(std::fflush(stdout));
}

void Bench::print_wrong() const {
  if (!options_.check || rank_ != 0) return;
  fmt::print("# Out of bounds values : {} {}\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
}

void Bench::write_json(std::uint64_t bytes, bool in_place, const Measurement& half) {
  utsname machine{};
  uname(&machine);
  nlohmann::json line = {
      {"peer", "weft"},
      {"version", weft_version()},
      {"operation", options_.timed.name()},
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
  if (reduces(options_.timed.operation)) line["reduction"] = reduction_name(options_.reduction);
  if (has_root(options_.timed.operation)) line["root"] = options_.call.root;
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
  std::string call(data_type_name(options_.type));
  if (reduces(options_.timed.operation)) {
    call += fmt::format(", {}", reduction_name(options_.reduction));
  }
  if (has_root(options_.timed.operation)) call += fmt::format(", root {}", options_.call.root);
  Plot plot{.title = fmt::format("{}, {} rank{}, {}", options_.timed.name(), ranks_,
                                 ranks_ == 1 ? "" : "s", transports()),
            .subtitle = fmt::format("{}, slowest rank's time, {} iterations after {} of warm-up, "
                                    "weft {}",
                                    call, options_.iterations, options_.warmup, weft_version()),
            .series = {}};
  if (!out_of_place.empty())
    plot.series.push_back({.name = "out of place", .points = out_of_place});
  if (!in_place.empty()) plot.series.push_back({.name = "in place", .points = in_place});
  std::ofstream file(options_.plot_file);
  file << to_svg(plot);
  if (!file.flush()) cannot_write(options_.plot_file);
}

}  // namespace weft::tool
