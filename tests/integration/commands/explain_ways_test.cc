// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// `weft explain` of calls for which a program names the way.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/commands/commands.h"

namespace weft::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

Outcome explain(const std::vector<std::string>& words, const Variables& variables = {}) {
  std::vector<std::string> all = {"explain"};
  all.insert(all.end(), words.begin(), words.end());
  return weft(all, variables);
}

TEST(ExplainWays, TellsThePlanOfTheWayThatIsNamed) {
  const Outcome told = explain({"all_reduce", "8MiB", "-n", "3", "--algorithm", "tree",
                                "--protocol", "ll128", "--max-channels", "1"},
                               {{"WEFT_CHANNELS_MAX", "4"}});
  ASSERT_EQ(told.exit_status, 0) << told.describe();
  EXPECT_THAT(lines_of(told.out), Contains("  algorithm   tree"));
  EXPECT_THAT(lines_of(told.out), Contains("  protocol    ll128"));
  EXPECT_THAT(lines_of(told.out), Contains("  channels    1"));
  EXPECT_THAT(told.out, HasSubstr("the call's options allow 1 channel"));
  EXPECT_THAT(told.out, HasSubstr("ring, simple: not possible: the call's options leave it out"));
}

TEST(ExplainWays, RefusesAsTheCallWouldBe) {
  const Outcome told = explain({"broadcast", "8MiB", "--algorithm", "pat"});
  EXPECT_NE(told.exit_status, 0);
  EXPECT_THAT(told.err, HasSubstr("the call's options want broadcast as pat, which leaves no way: "
                                  "it can only go as ring with simple"));
}

TEST(ExplainWays, TellsWhereAnAllReduceByPatGoes) {
  const Outcome told = explain({"all_reduce", "8MiB", "-n", "5"},
                               {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "pat"}});
  ASSERT_EQ(told.exit_status, 0) << told.describe();
  EXPECT_THAT(lines_of(told.out), Contains("  algorithm   pat"));
  EXPECT_THAT(told.out, HasSubstr("each sends to the ranks that are so many places behind"));
  EXPECT_THAT(told.out, HasSubstr(", then back ahead, in each of "));
  const Outcome refused =
      explain({"all_reduce", "8MiB"}, {{"WEFT_COLLECTIVES_ALL_REDUCE_ALGORITHM", "pat"},
                                       {"WEFT_COLLECTIVES_DETERMINISTIC", "true"}});
  EXPECT_NE(refused.exit_status, 0);
  EXPECT_THAT(refused.err,
              HasSubstr("pat with simple: deterministic: it does not add up by rank numbers"));
}

// Which would have two channels.
TEST(ExplainWays, ATableOfCostsIsLimitedToo) {
  const ScratchFolder folder;
  const std::string table =
      folder.write("ring.yaml",
                   "version: 1\nrules:\n"
                   "  - {operation: all_reduce, algorithm: ring, latency_us: 0.25, channels: 2}\n");
  const Variables variables = {{"WEFT_CHANNELS_MAX", "4"}, {"WEFT_TUNER_TABLE", table}};
  for (const std::string most : {"0", "1"}) {
    const Outcome told = explain({"all_reduce", "8MiB", "--max-channels", most}, variables);
    ASSERT_EQ(told.exit_status, 0) << told.describe();
    EXPECT_THAT(lines_of(told.out), Contains("  algorithm   ring"));
    EXPECT_THAT(lines_of(told.out),
                Contains("  channels    " + std::string(most == "0" ? "2" : "1")));
  }
}

}  // namespace
}  // namespace weft::test
