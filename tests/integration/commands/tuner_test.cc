// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Tables of costs as operators use them: what a table says decides the plan, wrong and differing
// tables end the job with a message.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/commands/commands.h"

namespace weft::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kDirectFast =
    "version: 1\n"
    "rules:\n"
    "  - {operation: all_reduce, algorithm: direct, bytes: [0, 4KiB], latency_us: 0.25,\n"
    "     measured: [[1KiB, 0.3], [4KiB, 7]]}\n"
    "  - {operation: all_reduce, algorithm: ring, latency_us: 50, bandwidth_mbs: 1000}\n";
constexpr const char* kRingFast =
    "version: 1\n"
    "rules:\n"
    "  - {operation: all_reduce, algorithm: direct, latency_us: 50}\n"
    "  - {operation: all_reduce, algorithm: ring, latency_us: 0.25, channels: 2}\n";

Variables with_table(const std::string& file) {
  return {{"WEFT_BUFFERS_DIRECT", "64KiB"}, {"WEFT_CHANNELS_MAX", "4"}, {"WEFT_TUNER_TABLE", file}};
}

TEST(Tuner, TableDecidesThePlanThatRuns) {
  const ScratchFolder folder;
  const Variables direct = with_table(folder.write("direct.yaml", kDirectFast));
  Outcome outcome = weft({"explain", "all_reduce", "1KiB", "-n", "2"}, direct);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), Contains("  algorithm   direct"));
  EXPECT_THAT(lines_of(outcome.out), Contains("  reason      the fastest of 8 by direct.yaml"));
  EXPECT_THAT(outcome.out, HasSubstr("    ring, simple: 51.0 us, by the built-in costs "));
  EXPECT_THAT(outcome.out, HasSubstr("; direct.yaml:5\n"));
  EXPECT_THAT(outcome.out, HasSubstr("    direct, ll: 0.2 us, by the built-in costs "));
  EXPECT_THAT(outcome.out, HasSubstr("; measured 0.3 us at calibration, direct.yaml:3\n"));
  // Beyond the rule's range the built-in costs stand.
  outcome = weft({"explain", "all_reduce", "8KiB", "-n", "2"}, direct);
  EXPECT_THAT(lines_with(outcome.out, "    direct, ll: "),
              Contains(testing::Not(HasSubstr("built-in"))));

  const Variables ring = with_table(folder.write("ring.yaml", kRingFast));
  outcome = weft({"explain", "all_reduce", "1KiB", "-n", "2"}, ring);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out), Contains("  algorithm   ring"));
  EXPECT_THAT(lines_of(outcome.out), Contains("  channels    2"));
  EXPECT_THAT(outcome.out, HasSubstr("; 2 of 4 channels: ring.yaml wants 2\n"));
  // And it works.
  for (const Variables& variables : {direct, ring}) {
    outcome = weft_in_job(2,
                          {"bench", "all_reduce", "--max", "16KiB", "--factor", "8", "--iters", "2",
                           "--warmup", "1", "--check"},
                          variables);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
    EXPECT_THAT(lines_of(outcome.out), Contains("# Out of bounds values : 0 OK"));
  }
}

TEST(Tuner, PrefersAndRulesOut) {
  const ScratchFolder folder;
  const std::string prefer =
      "version: 1\nrules:\n"
      "  - {operation: all_reduce, algorithm: direct, latency_us: 1000, use: prefer}\n";
  Outcome outcome = weft({"explain", "all_reduce", "1KiB", "-n", "2"},
                         with_table(folder.write("prefer.yaml", prefer)));
  EXPECT_THAT(lines_of(outcome.out), Contains("  algorithm   direct")) << outcome.describe();
  EXPECT_THAT(outcome.out, HasSubstr("preferred by prefer.yaml:3\n"));
  const std::string never =
      "version: 1\nrules:\n  - {operation: all_reduce, algorithm: direct, use: never}\n";
  outcome = weft({"explain", "all_reduce", "64B", "-n", "2"},
                 with_table(folder.write("never.yaml", never)));
  EXPECT_THAT(lines_of(outcome.out), Contains("  algorithm   ring")) << outcome.describe();
  EXPECT_THAT(outcome.out, HasSubstr("ruled out by never.yaml:3\n"));
}

TEST(Tuner, TableIsFoundBesideTheFileThatNamesIt) {
  const ScratchFolder folder;
  static_cast<void>(folder.write("near.yaml", kRingFast));
  const std::string config = folder.write(
      "weft.yaml",
      "version: 1\nbuffers: {direct: 64KiB}\ntuner: {plugin: tuner, table: near.yaml}\n");
  const Outcome outcome =
      weft({"explain", "all_reduce", "1KiB", "-n", "2"}, {{"WEFT_CONFIG", config}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(outcome.out, HasSubstr("the fastest of 8 by near.yaml"));
}

TEST(Tuner, WrongTablesAreNamedByLineAndColumn) {
  const ScratchFolder folder;
  const std::string file = folder.write("wrong.yaml", "version: 1\nrules:\n  - {use: never}\n");
  Outcome outcome =
      weft_in_job(2, {"bench", "all_reduce", "--max", "8"}, {{"WEFT_TUNER_TABLE", file}});
  EXPECT_EQ(outcome.exit_status, 1);
  for (const char* rank : {"0", "1"}) {
    EXPECT_THAT(outcome.err, HasSubstr(std::string("rank ") + rank +
                                       " of 2 cannot join its communicator: plugin tuner: " + file +
                                       ":3:5: a rule needs an operation; try: "));
  }
  const std::string missing = folder.path() + "/missing.yaml";
  outcome = weft_in_job(2, {"bench", "all_reduce", "--max", "8"}, {{"WEFT_TUNER_TABLE", missing}});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("plugin tuner: cannot read the table " + missing +
                                     ": No such file or directory (ENOENT); try: "));
}

TEST(Tuner, RanksWithDifferentTablesNameBoth) {
  const ScratchFolder folder;
  const std::string mine = folder.write("mine.yaml", kRingFast);
  const std::string yours = folder.write("yours.yaml", kDirectFast);
  const Outcome outcome = run(job_of(3,
                                     "[ $WEFT_RANK = 2 ] && export WEFT_TUNER_TABLE=" + yours +
                                         "; exec " + WEFT_COMMAND + " bench all_reduce --max 8",
                                     {{"WEFT_TUNER_TABLE", mine}}));
  EXPECT_EQ(outcome.exit_status, 1) << outcome.describe();
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_THAT(lines_with(outcome.err, std::string("[") + rank + "] weft bench"),
                Contains(testing::ContainsRegex(
                    "rank 0 by the table mine.yaml of plugin tuner .version 1, hash "
                    "[0-9a-f]{16}., rank 2 by the table yours.yaml of plugin tuner .version 1, "
                    "hash [0-9a-f]{16}.; try: install the same")))
        << outcome.describe();
  }
}

TEST(Tuner, IsWarnedOfWhereItIsMissingAndRequiredWhereItWasNamed) {
  const ScratchFolder folder;
  // Copied: others may be allowed to write to a build folder, and then plugins are not loaded.
  const std::string shm = folder.path() + "/weft-shm.so";
  std::filesystem::copy_file(SHM_PLUGIN, shm);
  std::filesystem::permissions(shm, std::filesystem::perms(0644));
  Variables variables = {{"WEFT_PLUGINS_PATH", folder.path()}};
  Outcome outcome =
      weft_in_job(2, {"bench", "all_reduce", "--max", "8", "--iters", "1"}, variables);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(outcome.err,
              HasSubstr("WEFT warn comm: there is no tuner, so the built-in costs count: there is "
                        "no plugin tuner"));
  variables["WEFT_TUNER_PLUGIN"] = "none";
  outcome = weft_in_job(2, {"bench", "all_reduce", "--max", "8", "--iters", "1"}, variables);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("there is no tuner")));
  variables["WEFT_TUNER_PLUGIN"] = "tuner";
  outcome = weft_in_job(2, {"bench", "all_reduce", "--max", "8", "--iters", "1"}, variables);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("tuner.plugin (WEFT_TUNER_PLUGIN): there is no plugin tuner"));
  variables.erase("WEFT_TUNER_PLUGIN");
  variables["WEFT_TUNER_TABLE"] = folder.path() + "/a.yaml";
  outcome = weft_in_job(2, {"bench", "all_reduce", "--max", "8", "--iters", "1"}, variables);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("tuner.table (WEFT_TUNER_TABLE): there is no plugin tuner"));
}

TEST(Tuner, CalibrationFillsATableThatExplainReads) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/new.yaml";
  // As an operator would have it: the table is named before it exists.
  const Variables variables = with_table(file);
  const std::vector<std::string> words = {"--calibrate", file,      "--max", "4KiB",     "--factor",
                                          "8",           "--iters", "2",     "--warmup", "1"};
  const auto calibrate = [&](const char* operation) {
    std::vector<std::string> all = {"bench", operation};
    all.insert(all.end(), words.begin(), words.end());
    return weft_in_job(2, all, variables);
  };
  Outcome outcome = calibrate("all_reduce");
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(outcome.out, HasSubstr("      ring     simple "));
  EXPECT_THAT(outcome.out, HasSubstr("    direct         ll "));
  const std::string first = read_text(file);
  EXPECT_THAT(first, HasSubstr("ranks: 2, hosts: 1, bytes: [0, "));

  outcome = weft({"explain", "all_reduce", "512B", "-n", "2"}, variables);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  for (const char* way : {"    ring, simple: ", "    direct, ll: "}) {
    EXPECT_THAT(lines_with(outcome.out, way),
                Contains(testing::ContainsRegex("[0-9.]+ us.*; measured [0-9.]+ us at "
                                                "calibration, new.yaml:[0-9]+$")))
        << outcome.out;
  }
  // Of another number of ranks nothing is known.
  outcome = weft({"explain", "all_reduce", "512B", "-n", "3"}, variables);
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("measured"))) << outcome.describe();

  outcome = calibrate("broadcast");
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  const std::string second = read_text(file);
  EXPECT_THAT(second, StartsWith(first));
  EXPECT_THAT(second, HasSubstr("{operation: broadcast, algorithm: ring, protocol: simple, "));

  outcome = calibrate("all_reduce");
  ASSERT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_with(outcome.out, "# direct, ll:"), testing::IsEmpty()) << "nothing is refused";
  outcome = weft_in_job(2, {"bench", "all_reduce", "--max", "4KiB", "--iters", "1", "--check"},
                        variables);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
}

TEST(Tuner, CalibrationSaysWhatItCannotDo) {
  const ScratchFolder folder;
  const std::string file = folder.path() + "/new.yaml";
  Outcome outcome =
      weft_in_job(2, {"bench", "all_reduce", "--calibrate", file, "--max", "8", "--iters", "1"},
                  {{"WEFT_BUFFERS_DIRECT", "0"}});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.describe();
  EXPECT_THAT(lines_of(outcome.out),
              Contains("# direct, ll: not possible with 8 bytes: these ranks do not write into "
                       "each other's memory, or buffers.direct is 0"));
  const std::string nowhere = folder.path() + "/none/new.yaml";
  outcome = weft_in_job(2, {"bench", "all_reduce", "--calibrate", nowhere, "--max", "8"});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("weft bench: cannot make a file beside " + nowhere));
  const std::string wrong = folder.write("wrong.yaml", "version: 3\n");
  outcome = weft_in_job(2, {"bench", "all_reduce", "--calibrate", wrong, "--max", "8"});
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("weft bench: " + wrong + ":1:10: version \"3\" is not"));
  EXPECT_EQ(read_text(wrong), "version: 3\n");
}

}  // namespace
}  // namespace weft::test
