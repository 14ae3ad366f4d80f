// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/units.h"

#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "core/config/problems.h"

namespace weft {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// Smallest first.
constexpr std::array<Unit, 4> kByteUnits = {{{"B", 1},
                                             {"KiB", std::int64_t{1} << 10},
                                             {"MiB", std::int64_t{1} << 20},
                                             {"GiB", std::int64_t{1} << 30}}};
constexpr std::array<Unit, 6> kTimeUnits = {{{"ns", 1},
                                             {"us", 1'000},
                                             {"ms", 1'000'000},
                                             {"s", 1'000'000'000},
                                             {"min", 60'000'000'000},
                                             {"h", 3'600'000'000'000}}};
/// ns, us, ms and s, of kTimeUnits.
constexpr std::size_t kUnitsToSeconds = 4;

std::unexpected<Error> bad_number(std::string what) {
  return fail(WEFT_ERROR_INVALID_ARGUMENT, std::move(what));
}

Result<std::int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units,
                                     std::string_view kind, std::string_view unit_names,
                                     bool unit_needed) {
  std::int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, code] = std::from_chars(begin, end, number);
  if (code == std::errc::result_out_of_range)
    return bad_number(fmt::format("{} is too large", in_quotes(text)));
  if (code != std::errc{} || number < 0 || text.front() == '-') {
    return bad_number(
        fmt::format("{} is no {}; write a whole number and {}", in_quotes(text), kind, unit_names));
  }
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (unit.empty()) {
    if (!unit_needed) return number;
    return bad_number(fmt::format("{} has no unit; use {}", in_quotes(text), unit_names));
  }
  while (unit.starts_with(' '))
    unit.remove_prefix(1);
  for (const Unit& known : units) {
    if (unit != known.name) continue;
    if (number > std::numeric_limits<std::int64_t>::max() / known.factor) {
      return bad_number(fmt::format("{} is too large", in_quotes(text)));
    }
    return number * known.factor;
  }
  return bad_number(fmt::format("{} has the unknown unit {}; use {}", in_quotes(text),
                                in_quotes(unit), unit_names));
}

std::string print_with_unit(std::int64_t value, std::span<const Unit> units) {
  for (std::size_t i = units.size(); i-- > 1;) {
    if (value % units[i].factor == 0) {
      return fmt::format("{}{}", value / units[i].factor, units[i].name);
    }
  }
  return fmt::format("{}{}", value, units.front().name);
}

}  // namespace

Result<std::int64_t> parse_bytes(std::string_view text) {
  return parse_with_unit(text, kByteUnits, "size", "B, KiB, MiB or GiB", false);
}

std::string print_bytes(std::int64_t bytes) {
  return bytes == 0 ? "0B" : print_with_unit(bytes, kByteUnits);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  WEFT_TRY_ASSIGN(const std::int64_t value,
                  parse_with_unit(text, kTimeUnits, "duration", "ns, us, ms, s, min or h", true));
  return std::chrono::nanoseconds(value);
}

std::string print_duration(std::chrono::nanoseconds duration) {
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  // People write 60s rather than 1min, and 60min rather than 1h.
  std::span<const Unit> units = kTimeUnits;
  while (units.size() > kUnitsToSeconds && count < 2 * units.back().factor) {
    units = units.first(units.size() - 1);
  }
  return print_with_unit(count, units);
}

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, code] = std::from_chars(begin, end, number);
  if (code == std::errc::result_out_of_range)
    return bad_number(fmt::format("{} is too large", in_quotes(text)));
  if (code != std::errc{} || rest != end) {
    return bad_number(fmt::format("{} is no whole number", in_quotes(text)));
  }
  return number;
}

}  // namespace weft
