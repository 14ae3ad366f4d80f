// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The messages that the documentation lists: rows of tables with the columns message, code, cause,
// what to try.
#pragma once

#include <string>
#include <vector>

namespace weft::test {

/// One row. In `message`, <word> stands for something on one line, and ... for anything.
struct ReferenceRow {
  std::string where;  ///< FILE:LINE
  std::string section;
  std::string message;
  std::vector<std::string> codes;  ///< "WEFT_ERROR_CONFIG"; empty: it is printed without a code.
};

/// The rows of a page's tables of messages. Throws std::runtime_error, with the line, where such a
/// table is not well formed.
std::vector<ReferenceRow> read_reference(const std::string& file);

/// Where in `text` the message ends, or std::string::npos if `text` does not hold it.
std::size_t find_message(const std::string& text, const std::string& message);

}  // namespace weft::test
