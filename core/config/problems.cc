// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/config/problems.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft {
namespace {

constexpr std::size_t kQuotedBytes = 64;
constexpr std::size_t kLongestComparedName = 128;

/// Optimal string alignment distance: insert, delete, replace, swap neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kQuotedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
  if (text.size() > kQuotedBytes) out += "...";
  out += '"';
  return out;
}

std::string either_of(std::span<const std::string> names) {
  if (names.empty()) return {};
  if (names.size() == 1) return names.front();
  return fmt::format("{} or {}", fmt::join(names.first(names.size() - 1), ", "), names.back());
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  if (name.size() > kLongestComparedName) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    // A name that shares nothing with the candidate is no misspelling, however short both are.
    if (distance < best_distance && distance < candidate.size()) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

void Problems::add(const Origin& where, std::string_view message) {
  if (full()) {
    ++dropped_;
    return;
  }
  lines_.push_back(fmt::format("{}: {}", where.to_string(), message));
}

void Problems::add(std::string line) {
  if (full()) {
    ++dropped_;
    return;
  }
  lines_.push_back(std::move(line));
}

Status Problems::status() const {
  if (lines_.empty()) return {};
  std::string text = fmt::format("{}", fmt::join(lines_, "\n"));
  if (dropped_ > 0) text += fmt::format("\nand {} more", dropped_);
  return fail(WEFT_ERROR_CONFIG, std::move(text));
}

}  // namespace weft
