// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/errors/reference.h"

#include <regex>
#include <sstream>
#include <stdexcept>

#include "tests/support/process.h"

namespace weft::test {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// The cells of a line "| a | b |"; none for any other line. A bar within a cell is written \|.
std::vector<std::string> cells_of(const std::string& line) {
  if (!line.starts_with('|') || !line.ends_with('|')) return {};
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|') {
      cells.push_back(trimmed(cell));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}

/// What lies between backquotes, in turn.
std::vector<std::string> code_spans(const std::string& cell) {
  std::vector<std::string> spans;
  for (auto at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
    const auto end = cell.find('`', at + 1);
    if (end == std::string::npos) break;
    spans.push_back(cell.substr(at + 1, end - at - 1));
    at = end;
  }
  return spans;
}

}  // namespace

std::vector<ReferenceRow> read_reference(const std::string& file) {
  const std::vector<std::string> header = {"message", "code", "cause", "what to try"};
  std::vector<ReferenceRow> rows;
  std::string section;
  bool inside = false;
  std::istringstream lines(read_text(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with('#')) section = trimmed(line.substr(line.find_first_not_of('#')));
    const auto cells = cells_of(line);
    if (cells.empty() || !inside) {
      inside = cells == header;
      continue;
    }
    if (cells[0].starts_with("---")) continue;
    const std::string where = file + ":" + std::to_string(number);
    const auto message =
        cells.size() == header.size() ? code_spans(cells[0]) : std::vector<std::string>{};
    if (message.size() != 1 || message[0].size() + 2 != cells[0].size()) {
      throw std::runtime_error(where + ": not a row of message, code, cause, what to try");
    }
    if (cells[2].empty() || cells[3].empty()) {
      throw std::runtime_error(where + ": a row lacks its cause or what to try");
    }
    ReferenceRow row{.where = where, .section = section, .message = message[0], .codes = {}};
    for (const std::string& code : code_spans(cells[1]))
      row.codes.push_back("WEFT_ERROR_" + code);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::size_t find_message(const std::string& text, const std::string& message) {
  std::string pattern;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto end = message[i] == '<' ? message.find('>', i) : std::string::npos;
    if (end != std::string::npos) {
      pattern += "[^\\n]+?";
      i = end;
    } else if (message.compare(i, 3, "...") == 0) {
      pattern += "[\\s\\S]*?";
      i += 2;
    } else {
      if (std::string("^$\\.*+?()[]{}|").find(message[i]) != std::string::npos) pattern += '\\';
      pattern += message[i];
    }
  }
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) return std::string::npos;
  return static_cast<std::size_t>(found.position() + found.length());
}

}  // namespace weft::test
