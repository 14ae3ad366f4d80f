// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What the programs of this folder share to read their command lines.
#pragma once

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>

namespace weft::gpu_test {

/// Ends the program with status 2.
[[noreturn]] inline void usage_error(std::string_view what) {
  std::cerr << program_invocation_short_name << ": " << what << "; see "
            << program_invocation_short_name << " --help\n";
  std::exit(2);
}

template <class Number>
Number number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    usage_error("\"" + std::string(text) + "\" is no number");
  }
  return number;
}

}  // namespace weft::gpu_test
