// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Short ways to start the weft command of this build.
#pragma once

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace weft::test {

using Variables = std::map<std::string, std::optional<std::string>>;

/// What starts `weft WORDS...`.
inline Command weft_command(std::vector<std::string> words, Variables environment = {}) {
  words.insert(words.begin(), WEFT_COMMAND);
  return {.arguments = std::move(words), .environment = std::move(environment), .input = {}};
}

/// Runs it to its end.
inline Outcome weft(std::vector<std::string> words, Variables environment = {}) {
  return run(weft_command(std::move(words), std::move(environment)));
}

/// What starts `weft run -n RANKS -- sh -c SCRIPT`.
inline Command job_of(int ranks, const std::string& script, Variables environment = {}) {
  return weft_command({"run", "-n", std::to_string(ranks), "--", "sh", "-c", script},
                      std::move(environment));
}

/// `weft run -n RANKS -- weft WORDS...`, to its end.
inline Outcome weft_in_job(int ranks, std::vector<std::string> words, Variables environment = {}) {
  const std::vector<std::string> launcher = {"run",         "-n", std::to_string(ranks),
                                             "--no-prefix", "--", WEFT_COMMAND};
  words.insert(words.begin(), launcher.begin(), launcher.end());
  return weft(std::move(words), std::move(environment));
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

/// The lines that begin so.
inline std::vector<std::string> lines_with(const std::string& text, const std::string& beginning) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(beginning)) found.push_back(line);
  }
  return found;
}

}  // namespace weft::test
