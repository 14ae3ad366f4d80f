// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/bootstrap/node_list.h"

#include <cstddef>

namespace weft {
namespace {

// The longest name that DNS knows.
constexpr std::size_t kMaxName = 253;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_of_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_';
}

}  // namespace

std::optional<std::string> first_node(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    if (list.front() == '[') {
      // Of a bracket's ranges the first number counts, with its zeros in front.
      const std::size_t close = list.find(']');
      if (close == std::string_view::npos) return std::nullopt;
      const std::string_view ranges = list.substr(1, close - 1);
      std::size_t digits = 0;
      while (digits < ranges.size() && is_digit(ranges[digits])) {
        ++digits;
      }
      const bool ends = digits == ranges.size() || ranges[digits] == '-' || ranges[digits] == ',';
      if (digits == 0 || !ends) return std::nullopt;
      name += ranges.substr(0, digits);
      list.remove_prefix(close + 1);
    } else {
      if (!is_of_name(list.front())) return std::nullopt;
      name += list.front();
      list.remove_prefix(1);
    }
    if (name.size() > kMaxName) return std::nullopt;
  }
  // A name that begins so would be taken for an option, or is none.
  if (name.empty() || name.front() == '-' || name.front() == '.') return std::nullopt;
  return name;
}

}  // namespace weft
