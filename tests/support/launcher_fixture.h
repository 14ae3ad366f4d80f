// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Recorded environments of launchers: tests/fixtures/launchers/NAME.env holds NAME=VALUE lines,
// first those that all ranks share, then those of each after a line [rank N]. Lines that begin with
// # say where it comes from.
#pragma once

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::test {

/// The variables of each rank, by rank.
using LauncherFixture = std::vector<std::map<std::string, std::string, std::less<>>>;

/// Reads FOLDER/NAME.env; throws if it is not there, or not of that form.
inline LauncherFixture launcher_fixture(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".env";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::map<std::string, std::string, std::less<>> shared;
  LauncherFixture ranks;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (line == "[rank " + std::to_string(ranks.size()) + "]") {
      ranks.push_back(shared);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) throw std::runtime_error(path + ": what is " + line);
    auto& into = ranks.empty() ? shared : ranks.back();
    into[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (ranks.empty()) throw std::runtime_error(path + ": has no ranks");
  return ranks;
}

}  // namespace weft::test
