// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Bytes of a file as XML: what is let through to hwloc's parser is no deeper than promised.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/topology/xml_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!weft::check_xml(text)) return 0;
  // Told another way: a parser that goes one down at each opening element, and one up at each
  // closing one, with no eye for quotes, which hold no "<".
  std::ptrdiff_t depth = 0;
  std::ptrdiff_t deepest = 0;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (next == '?' || next == '!') continue;
    depth += next == '/' ? -1 : 1;
    deepest = std::max(deepest, depth);
    if (next == '/') continue;
    bool quoted = false;
    std::size_t end = at;
    for (; quoted || text[end] != '>'; ++end)
      quoted = quoted != (text[end] == '"');
    if (text[end - 1] == '/') --depth;
  }
  if (depth != 0 || deepest > static_cast<std::ptrdiff_t>(weft::kMaxXmlDepth) + 1) std::abort();
  return 0;
}
