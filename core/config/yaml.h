// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One YAML document as plain nodes that know their place. Everything a configuration has no use for
// (anchors, aliases, tags, several documents, deep nesting, large files) is refused here, before
// any memory is spent on it, and the parser's exceptions end here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/config/origin.h"

namespace weft {

/// Files larger than this are refused unread.
inline constexpr std::size_t kMaximumYamlBytes = std::size_t{1} << 20;
/// Sequences and maps within each other beyond this depth are refused.
inline constexpr int kMaximumYamlDepth = 16;

enum class YamlKind : std::uint8_t { kNull, kScalar, kSequence, kMap };

/// A node of the document. Keys of a map are unique scalars.
struct YamlNode {
  struct Entry;

  YamlKind kind = YamlKind::kNull;
  bool quoted = false;  ///< kScalar: written in quotes or as a block, hence text and no number.
  int line = 1;         ///< From 1.
  int column = 1;       ///< From 1.
  std::string text;     ///< kScalar.
  std::vector<YamlNode> items;  ///< kSequence.
  std::vector<Entry> entries;   ///< kMap, in the order of the file.
};

struct YamlNode::Entry {
  YamlNode key;
  YamlNode value;
};

/// `base` with the node's place where `base` is a file, else `base` itself.
[[nodiscard]] Origin origin_of(const YamlNode& node, const Origin& base);

/// Parses one document (an empty one is a null node). `base` names it in errors, which are
/// WEFT_ERROR_CONFIG and start with the place: `FILE:LINE:COL: duplicate key "order"; ...`.
[[nodiscard]] Result<YamlNode> parse_yaml(std::string_view text, const Origin& base);

}  // namespace weft
