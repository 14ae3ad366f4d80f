// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the reader of tables of costs. Whatever they are, the answer is a table
// or an error with a place, and what was accepted comes back from its own text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "plugins/tuner/table.h"

namespace {

void read(const std::string& text) {
  try {
    const weft::tuner::Table table = weft::tuner::parse_table(text, "fuzz.yaml");
    const auto back = weft::tuner::parse_table(weft::tuner::to_yaml(table.rules), "back.yaml");
    if (back.rules != table.rules) __builtin_trap();
    for (const auto& rule : table.rules) {
      if (rule.cost && rule.cost->time_ns(rule.bytes.to) == 0) __builtin_trap();
    }
  } catch (const weft::tuner::BadTable& bad) {
    if (std::string(bad.what()).find(".yaml:") == std::string::npos) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  // Most inputs would fail for want of the first lines alone.
  read("version: 1\nrules:\n  - {operation: all_reduce, " + text + "}\n");
  return 0;
}
