// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/errors/scenario.h"

#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

namespace weft::test {

Said said_in(const std::string& answer) {
  constexpr std::string_view kError = ": error ";
  const auto at = answer.find(kError);
  if (at == std::string::npos) return {.code = {}, .text = answer};
  const auto code = at + kError.size();
  const auto end = std::min(answer.find(' ', code), answer.size());
  Said said{.code = answer.substr(code, end - code), .text = answer.substr(end)};
  // The rank writes one line.
  std::ranges::replace(said.text, '|', '\n');
  return said;
}

Said printed_by(const Outcome& outcome) {
  return {.code = {}, .text = outcome.err};
}

void join_all(Job& job, std::vector<Said>& said) {
  const std::string id = job[0].ask("id");
  constexpr std::string_view kAnswer = "id: ok ";
  if (!id.starts_with(kAnswer)) {
    said.push_back(said_in(id));
    return;
  }
  for (int rank = 0; rank < job.size(); ++rank) {
    job[rank].tell("join " + id.substr(kAnswer.size()) + " " + std::to_string(job.size()) + " " +
                   std::to_string(rank));
  }
  for (int rank = 0; rank < job.size(); ++rank) {
    said.push_back(said_in(job[rank].answer()));
    // They are configured alike: each finds what is wrong, and says so as its own error.
    EXPECT_EQ(said.back().text.find(" failed (WEFT_ERROR_CONFIG)"), std::string::npos)
        << "rank " << rank << ": " << said.back().text;
  }
}

void ask_all(Job& job, const std::string& command, std::vector<Said>& said) {
  for (const std::string& answer : job.ask_all(command))
    said.push_back(said_in(answer));
}

}  // namespace weft::test
