// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Every message of the reference (docs/errors.md and the plugins' pages) is said by a program to
// which just that happens, with the code that the reference gives, and says what to try. A row
// without a scenario fails, and so does a scenario without a row.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/errors/reference.h"
#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

std::vector<ReferenceRow> all_rows() {
  std::vector<ReferenceRow> rows;
  for (const char* page :
       {"docs/errors.md", "plugins/net-socket/README.md", "plugins/p2p/README.md",
        "plugins/shm/README.md", "plugins/tuner/README.md"}) {
    auto more = read_reference(std::string(SOURCE_ROOT) + "/" + page);
    std::ranges::move(more, std::back_inserter(rows));
  }
  return rows;
}

/// Scenarios by the name of their suite.
std::map<std::string, Scenarios> all_scenarios() {
  std::map<std::string, Scenarios> all;
  add_configuration(all["Configuration"]);
  add_starting(all["Starting"]);
  add_plugins(all["Plugins"]);
  add_transports(all["Transports"]);
  add_tables(all["Tables"]);
  add_calls(all["Calls"]);
  add_misuse(all["Misuse"]);
  add_commands(all["Commands"]);
  add_versions(all["Versions"]);
  add_hosts(all["Hosts"]);
  return all;
}

/// Where a message names the place of what is wrong, or the argument, that is what to correct.
bool needs_advice(const ReferenceRow& row) {
  return !row.codes.empty() && !row.message.starts_with("<where>: ") &&
         !row.message.starts_with("unknown environment variable ") &&
         row.message != "<argument> is NULL";
}

void expect_said(const ReferenceRow& row, const std::vector<Said>& said) {
  std::string all;
  std::set<std::string> seen;
  bool advised = false;
  for (const Said& one : said) {
    all += "  " + (one.code.empty() ? std::string("(printed)") : one.code) + " " + one.text + "\n";
    const std::size_t end = find_message(one.text, row.message);
    if (end == std::string::npos) continue;
    seen.insert(one.code);
    advised = advised || one.text.find("; try: ", end) != std::string::npos;
  }
  const std::set<std::string> wanted =
      row.codes.empty() ? std::set<std::string>{""}
                        : std::set<std::string>(row.codes.begin(), row.codes.end());
  for (const std::string& code : wanted) {
    EXPECT_TRUE(seen.contains(code))
        << row.where << ": nobody said " << (code.empty() ? "(printed)" : code) << "\n  "
        << row.message << "\nbut\n"
        << all;
  }
  if (needs_advice(row) && !seen.empty()) {
    EXPECT_TRUE(advised) << row.where << ": does not say what to try:\n" << all;
  }
}

class ScenarioTest : public testing::Test {
 public:
  ScenarioTest(Scenario scenario, std::vector<ReferenceRow> rows)
      : scenario_(std::move(scenario)), rows_(std::move(rows)) {}

  void TestBody() override {
    std::vector<Said> said;
    scenario_.play(said);
    if (IsSkipped() || HasFatalFailure()) return;
    for (const ReferenceRow& row : rows_)
      expect_said(row, said);
  }

 private:
  Scenario scenario_;
  std::vector<ReferenceRow> rows_;
};

class CompletenessTest : public testing::Test {
 public:
  CompletenessTest(std::set<std::string> without_scenario, std::set<std::string> without_row)
      : without_scenario_(std::move(without_scenario)), without_row_(std::move(without_row)) {}

  void TestBody() override {
    for (const std::string& row : without_scenario_)
      ADD_FAILURE() << row << "\n  no scenario provokes this message";
    for (const std::string& message : without_row_)
      ADD_FAILURE() << "no page has the row\n  " << message;
  }

 private:
  std::set<std::string> without_scenario_;
  std::set<std::string> without_row_;
};

void register_all() {
  std::map<std::string, ReferenceRow> rows;
  for (const ReferenceRow& row : all_rows()) {
    if (!rows.emplace(row.message, row).second) {
      throw std::runtime_error(row.where + ": the message has a row already: " + row.message);
    }
  }
  std::set<std::string> without_scenario;
  for (const auto& [message, row] : rows)
    without_scenario.insert(row.where + ": " + message);
  std::set<std::string> without_row;
  for (const auto& [suite, scenarios] : all_scenarios()) {
    for (const Scenario& scenario : scenarios) {
      std::vector<ReferenceRow> mine;
      for (const std::string& message : scenario.messages) {
        const auto found = rows.find(message);
        if (found == rows.end()) {
          without_row.insert(message);
          continue;
        }
        mine.push_back(found->second);
        without_scenario.erase(found->second.where + ": " + message);
      }
      testing::RegisterTest(suite.c_str(), scenario.name.c_str(), nullptr, nullptr, __FILE__,
                            __LINE__, [scenario, mine]() -> testing::Test* {
                              return std::make_unique<ScenarioTest>(scenario, mine).release();
                            });
    }
  }
  testing::RegisterTest(
      "Reference", "RowsAndScenariosMeet", nullptr, nullptr, __FILE__, __LINE__,
      [without_scenario, without_row]() -> testing::Test* {
        return std::make_unique<CompletenessTest>(without_scenario, without_row).release();
      });
}

TEST(Reference, PlaceholdersStandForTextOfOneLine) {
  EXPECT_NE(find_message("rank 1 of 2 died", "rank <rank> of <ranks> died"), std::string::npos);
  EXPECT_EQ(find_message("rank 1\n of 2 died", "rank <rank> of <ranks> died"), std::string::npos);
  EXPECT_EQ(find_message("rank  of 2 died!", "rank <rank>of 3"), std::string::npos);
  EXPECT_NE(find_message("a\nb c", "a...c"), std::string::npos);
  EXPECT_NE(find_message("x [a] (b)?", "[<list>] (b)?"), std::string::npos);
  EXPECT_EQ(find_message("xyz", "x.z"), std::string::npos);
  EXPECT_EQ(find_message("ab; try: c", "a<b>"), 2U);
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    weft::test::register_all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return RUN_ALL_TESTS();
}
