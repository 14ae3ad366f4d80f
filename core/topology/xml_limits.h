// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What is demanded of an XML file before hwloc's parser sees it.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/base/error.h"

namespace weft {

/// A machine with thousands of processors takes a few MiB.
inline constexpr std::size_t kMaxXmlBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxXmlElements = std::size_t{1} << 18;
/// hwloc's parser calls itself for each level.
inline constexpr std::size_t kMaxXmlDepth = 64;

/// The subset of XML that hwloc writes, within these limits: no entities and declarations of its
/// own, no comments, values in double quotes, elements that are closed in order. The error says
/// what is wrong in which line.
[[nodiscard]] Status check_xml(std::string_view text);

}  // namespace weft
