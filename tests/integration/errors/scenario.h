// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Scenarios: real programs to which something happens, and what they then say.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/bad_days/job.h"

namespace weft::test {

/// What a program said.
struct Said {
  std::string code;  ///< As "WEFT_ERROR_CONFIG", where the public API answered it, else empty.
  std::string text;
};

/// Something that happens, and the rows of the reference which it must provoke, word by word.
struct Scenario {
  std::string name;
  std::vector<std::string> messages;
  /// Adds all that was said. May skip the test, or fail it.
  std::function<void(std::vector<Said>& said)> play;
};

using Scenarios = std::vector<Scenario>;

void add_configuration(Scenarios& all);
void add_starting(Scenarios& all);
void add_plugins(Scenarios& all);
void add_transports(Scenarios& all);
void add_tables(Scenarios& all);
void add_calls(Scenarios& all);
void add_misuse(Scenarios& all);
void add_commands(Scenarios& all);
void add_versions(Scenarios& all);
void add_hosts(Scenarios& all);

/// What lies in an answer of a rank (tests/integration/bad_days): "join: error WEFT_ERROR_X TEXT".
[[nodiscard]] Said said_in(const std::string& answer);
/// What a program wrote to its standard error.
[[nodiscard]] Said printed_by(const Outcome& outcome);
/// Lets all ranks join one communicator, each of which may fail.
void join_all(Job& job, std::vector<Said>& said);
/// The same command to all ranks, and what they answer.
void ask_all(Job& job, const std::string& command, std::vector<Said>& said);

}  // namespace weft::test
