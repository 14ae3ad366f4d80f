// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Helpers for configuration messages: quoting of text that nobody has vetted, lists of names, the
// nearest known name, and a collector that turns several findings into one Error.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/config/origin.h"

namespace weft {

/// `text` in double quotes, control characters and quotes escaped, cut after 64 bytes.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// `a, b or c`.
[[nodiscard]] std::string either_of(std::span<const std::string> names);

/// The candidate that `name` was most likely meant to be, if any is near enough: at most a third of
/// its letters (and at least one) missing, surplus, exchanged or swapped with a neighbour.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name,
                                                      std::span<const std::string> candidates);

/// Gathers what is wrong with a configuration, so that one run of a checker shows it all.
class Problems {
 public:
  /// Findings beyond this many are counted and not kept.
  static constexpr std::size_t kMaximum = 10;

  void add(const Origin& where, std::string_view message);
  void add(std::string line);

  /// Whether a further finding would only be counted: its message need not be made.
  [[nodiscard]] bool full() const { return lines_.size() >= kMaximum; }
  [[nodiscard]] bool empty() const { return lines_.empty(); }

  /// WEFT_ERROR_CONFIG with one finding a line, or success where there is none.
  [[nodiscard]] Status status() const;

 private:
  std::vector<std::string> lines_;
  std::size_t dropped_ = 0;
};

}  // namespace weft
