// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the reader of plugin files. Whatever they are, the answer is a value or
// an error. Start it with built plugins as corpus: headers are hard to guess.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/plugin/inspect.h"
#include "core/plugin/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto info = weft::inspect_plugin_bytes(std::as_bytes(std::span(data, size)), "weft-x.so");
  if (!info) return 0;
  (void)weft::check_versions(*info);
  (void)weft::check_file_name(*info);
  (void)weft::check_interfaces(*info);
  (void)weft::parameters_of(*info);
  return 0;
}
