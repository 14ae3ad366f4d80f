// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/calibrate.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "core/base/fd.h"
#include "core/config/core_parameters.h"
#include "tools/weft/write_all.h"

namespace weft::tool {
namespace {

using tuner::Cost;
using tuner::Sample;

/// How far a rule may be from what was measured.
constexpr double kTolerance = 0.1;

/// time = at_zero + bytes * per_byte, in nanoseconds; neither is negative.
struct CostLine {
  double at_zero = 0;
  double per_byte = 0;
};

/// The least squares of relative errors.
CostLine line_through(std::span<const Sample> samples) {
  double sum = 0;     // of 1 / y^2
  double sum_x = 0;   // of x / y^2
  double sum_xx = 0;  // of x^2 / y^2
  double sum_y = 0;   // of y / y^2
  double sum_xy = 0;  // of x y / y^2
  for (const Sample& sample : samples) {
    const auto x = static_cast<double>(sample.bytes);
    const auto y = static_cast<double>(sample.time_ns);
    sum += 1 / (y * y);
    sum_x += x / (y * y);
    sum_xx += x * x / (y * y);
    sum_y += 1 / y;
    sum_xy += x / y;
  }
  const double determinant = sum * sum_xx - sum_x * sum_x;
  if (determinant <= 0) return {.at_zero = sum_y / sum, .per_byte = 0};
  const double at_zero = (sum_xx * sum_y - sum_x * sum_xy) / determinant;
  const double per_byte = (sum * sum_xy - sum_x * sum_y) / determinant;
  if (at_zero < 0) return {.at_zero = 0, .per_byte = sum_xy / sum_xx};
  if (per_byte < 0) return {.at_zero = sum_y / sum, .per_byte = 0};
  return {.at_zero = at_zero, .per_byte = per_byte};
}

Cost cost_of(const CostLine& line) {
  constexpr double kMostBytesPerMs = 1e12;
  // A line through the longest times may begin a little above them.
  const auto at_zero = static_cast<std::uint64_t>(std::llround(line.at_zero));
  Cost cost{.latency_ns = std::min(at_zero, tuner::kLongestNs), .bytes_per_ms = 0};
  if (line.per_byte > 1e6 / kMostBytesPerMs) {
    cost.bytes_per_ms =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(1e6 / line.per_byte)));
  }
  return cost;
}

/// Of a sample that no line joins with the next one: the time stays, or it grows with the size,
/// whichever leads nearer to the next one.
CostLine line_from(const Sample& sample, const Sample* next) {
  const auto time = static_cast<double>(sample.time_ns);
  const CostLine grows{.at_zero = 0, .per_byte = time / static_cast<double>(sample.bytes)};
  if (next == nullptr) return grows;
  const double there = grows.per_byte * static_cast<double>(next->bytes);
  const auto seen = static_cast<double>(next->time_ns);
  return seen / time < there / seen ? CostLine{.at_zero = time, .per_byte = 0} : grows;
}

bool describes(const Cost& cost, std::span<const Sample> samples) {
  return std::ranges::all_of(samples, [&](const Sample& sample) {
    const auto said = static_cast<double>(cost.time_ns(sample.bytes));
    const auto seen = static_cast<double>(sample.time_ns);
    return std::abs(said - seen) <= kTolerance * seen;
  });
}

/// What a link leads to is replaced, not the link: others may name the file itself.
std::string behind_links(const std::string& file) {
  std::error_code code;
  if (!std::filesystem::is_symlink(file, code)) return file;
  const std::filesystem::path real = std::filesystem::canonical(file, code);
  return code ? file : real.string();
}

/// Each time at most that of every larger size, and at least 1.
std::vector<Sample> without_noise(std::vector<Sample> samples) {
  std::uint64_t least = UINT64_MAX;
  for (auto sample = samples.rbegin(); sample != samples.rend(); ++sample) {
    least = std::clamp<std::uint64_t>(sample->time_ns, 1, least);
    sample->time_ns = least;
  }
  return samples;
}

}  // namespace

std::vector<WayNames> ways_to_try(Operation operation) {
  std::vector<std::string> algorithms;
  std::vector<std::string> protocols;
  const std::string section = fmt::format("collectives.{}.", operation_name(operation));
  for (const Parameter& parameter : core_parameters()) {
    if (parameter.name() == section + "algorithm") algorithms = parameter.choices;
    if (parameter.name() == section + "protocol") protocols = parameter.choices;
  }
  std::vector<WayNames> ways;
  for (const std::string& algorithm : algorithms) {
    for (const std::string& protocol : protocols)
      ways.push_back({.algorithm = algorithm, .protocol = protocol});
  }
  return ways;
}

std::vector<tuner::Rule> fit(const tuner::Rule& frame, const std::vector<Sample>& samples) {
  const std::vector<Sample> clean = without_noise(samples);
  std::vector<tuner::Rule> rules;
  for (std::size_t first = 0; first < clean.size();) {
    const Sample* following = first + 1 < clean.size() ? &clean[first + 1] : nullptr;
    std::size_t count = 1;
    Cost cost = cost_of(line_from(clean[first], following));
    for (std::size_t more = 2; first + more <= clean.size() && more <= tuner::kMostSamples;
         ++more) {
      const auto range = std::span(clean).subspan(first, more);
      const Cost wider = cost_of(line_through(range));
      if (!describes(wider, range)) continue;
      count = more;
      cost = wider;
    }
    tuner::Rule rule = frame;
    rule.cost = cost;
    rule.bytes.from = first == 0 ? 0 : clean[first].bytes;
    const std::size_t next = first + count;
    rule.bytes.to = std::max(rule.bytes.from, next < clean.size() ? clean[next].bytes - 1
                                                                  : 2 * clean[next - 1].bytes - 1);
    const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(first);
    rule.measured.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    rules.push_back(std::move(rule));
    first = next;
  }
  return rules;
}

std::vector<tuner::Rule> merge_rules(std::vector<tuner::Rule> old,
                                     const std::vector<tuner::Rule>& fresh) {
  std::erase_if(old, [&](const tuner::Rule& rule) {
    return !rule.measured.empty() && std::ranges::any_of(fresh, [&](const tuner::Rule& other) {
      return rule.operation == other.operation && rule.device == other.device &&
             rule.ranks == other.ranks && rule.hosts == other.hosts;
    });
  });
  old.insert(old.end(), fresh.begin(), fresh.end());
  return old;
}

Result<std::vector<tuner::Rule>> read_rules(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    if (errno == ENOENT) return std::vector<tuner::Rule>();
    return fail(Error::from_errno(errno, fmt::format("cannot read {}", file)));
  }
  std::string text(tuner::kMostTableBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return fail(Error::from_errno(errno, fmt::format("cannot read {}", file)));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.empty()) return std::vector<tuner::Rule>();
  try {
    return tuner::parse_table(text, file).rules;
  } catch (const tuner::BadTable& bad) {
    return fail(WEFT_ERROR_CONFIG, bad.what(), "correct it, or calibrate into another file");
  }
}

Status check_writable(const std::string& file) {
  const std::string real = behind_links(file);
  std::string scratch = real + ".XXXXXX";
  const UniqueFd fd(::mkostemp(scratch.data(), O_CLOEXEC));
  if (fd.get() < 0) {
    return fail(Error::from_errno(errno, fmt::format("cannot make a file beside {}", real)));
  }
  ::unlink(scratch.c_str());
  return {};
}

Status write_rules(const std::string& file, const std::vector<tuner::Rule>& rules) {
  if (rules.size() > tuner::kMostRules) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{} would have {} rules, {} are allowed", file,
                                               rules.size(), tuner::kMostRules));
  }
  const std::string text = tuner::to_yaml(rules);
  if (text.size() > tuner::kMostTableBytes) {
    return fail(WEFT_ERROR_CONFIG, fmt::format("{} would have {} bytes, {} are allowed", file,
                                               text.size(), tuner::kMostTableBytes));
  }
  const std::string real = behind_links(file);
  std::string scratch = real + ".XXXXXX";
  const UniqueFd fd(::mkostemp(scratch.data(), O_CLOEXEC));
  if (fd.get() < 0) {
    return fail(Error::from_errno(errno, fmt::format("cannot make a file beside {}", real)));
  }
  // mkostemp lets nobody else read it, which the other ranks' users may have to.
  struct stat before{};
  const mode_t mode = ::stat(file.c_str(), &before) == 0 ? before.st_mode & 07777U : 0644U;
  int why = write_all(fd.get(), text);
  if (why == 0) {
    const bool written = ::fchmod(fd.get(), mode) == 0 && ::fsync(fd.get()) == 0 &&
                         ::rename(scratch.c_str(), real.c_str()) == 0;
    if (written) return {};
    why = errno;
  }
  ::unlink(scratch.c_str());
  return fail(Error::from_errno(why, fmt::format("cannot write {}", real)));
}

}  // namespace weft::tool
