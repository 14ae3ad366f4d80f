// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the configuration: as a file, as a variable and as a peer's agreed text.
// Whatever they are, the answer is a value or an error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/config/core_parameters.h"
#include "core/config/resolve.h"

namespace {

void read_as_file(const std::string& text) {
  const auto source = weft::ConfigSource::parse(text, "fuzz.yaml", weft::Environment{});
  if (!source) return;
  const auto config = weft::resolve(*source, {});
  if (!config) return;
  // What was accepted can be printed, and its text accepted again.
  for (const weft::ConfigEntry& entry : config->entries()) {
    const auto back = weft::parse_value(entry.parameter, entry.text());
    if (!back || !(*back == entry.value())) __builtin_trap();
  }
  (void)config->agreed_text();
}

void read_as_variables(const std::string& text) {
  for (const weft::Parameter& parameter : weft::core_parameters()) {
    const auto value = weft::parse_value(parameter, text);
    if (value) (void)weft::print_value(parameter, *value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_as_file(text);
  // Most inputs would fail for want of the first line alone.
  read_as_file("version: 1\n" + text);
  read_as_variables(text);
  (void)weft::describe_difference("a=1\nb=2\n", text);
  return 0;
}
