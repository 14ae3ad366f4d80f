// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Tables of costs that cannot be read, and ranks that would plan differently.

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/integration/bad_days/plugin_folder.h"
#include "tests/integration/errors/scenario.h"

namespace weft::test {
namespace {

/// Ranks of one table, each of which must say so itself.
void join_by_table(const std::string& file, int ranks, std::vector<Said>& said) {
  Job job(ranks, {{"WEFT_TUNER_TABLE", file}});
  join_all(job, said);
  for (const Said& one : said) {
    EXPECT_EQ(one.code, "WEFT_ERROR_CONFIG") << one.text;
    EXPECT_EQ(one.text.find(" failed ("), std::string::npos) << one.text;
  }
}

}  // namespace

void add_tables(Scenarios& all) {
  all.push_back(
      {.name = "MissingTable",
       .messages = {"plugin tuner: cannot read the table <file>: <why>"},
       .play = [](std::vector<Said>& said) { join_by_table("/nonexistent/table.yaml", 4, said); }});
  all.push_back({.name = "WrongTable",
                 .messages = {"plugin tuner: <file>:<line>:<column>: <what>"},
                 .play = [](std::vector<Said>& said) {
                   const ScratchFolder folder;
                   join_by_table(folder.write("t.yaml", "version: 1\nrules:\n  - {use: never}\n"),
                                 4, said);
                 }});
  all.push_back(
      {.name = "TablesThatDiffer",
       .messages = {"ranks would plan differently: rank 0 by <table>, rank <rank> by <table>"},
       .play = [](std::vector<Said>& said) {
         const ScratchFolder folder;
         const std::string rule = "version: 1\nrules:\n  - {operation: all_reduce, use: never}\n";
         const Environment mpi{{"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"WEFT_SECRET", std::string(64, 'b')}};
         Environment first = mpi;
         first["OMPI_COMM_WORLD_RANK"] = "0";
         first["WEFT_TUNER_TABLE"] = folder.write("mine.yaml", rule);
         Environment second = mpi;
         second["OMPI_COMM_WORLD_RANK"] = "1";
         second["WEFT_TUNER_TABLE"] = folder.write("yours.yaml", rule + "# mine\n");
         Rank ranks[] = {Rank(first), Rank(second)};
         for (Rank& rank : ranks)
           rank.tell("join env");
         for (Rank& rank : ranks)
           said.push_back(said_in(rank.answer()));
       }});
  all.push_back({.name = "TableOnOneRankAlone",
                 .messages = {"rank <rank> cannot use its tuner: <why>"},
                 .play = [](std::vector<Said>& said) {
                   const Environment mpi{{"OMPI_COMM_WORLD_SIZE", "2"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                         {"WEFT_SECRET", std::string(64, 'c')}};
                   Environment first = mpi;
                   first["OMPI_COMM_WORLD_RANK"] = "0";
                   Environment second = mpi;
                   second["OMPI_COMM_WORLD_RANK"] = "1";
                   second["WEFT_TUNER_TABLE"] = "/nonexistent/table.yaml";
                   Rank ranks[] = {Rank(first), Rank(second)};
                   for (Rank& rank : ranks)
                     rank.tell("join env");
                   for (Rank& rank : ranks)
                     said.push_back(said_in(rank.answer()));
                 }});
  all.push_back(
      {.name = "TunerThatIsNone",
       .messages = {"plugin <plugin>: does not offer <interface>"},
       .play = [](std::vector<Said>& said) {
         Job job(2, {{"WEFT_TUNER_PLUGIN", "shm"}});
         join_all(job, said);
         for (const Said& one : said) {
           EXPECT_NE(one.text.find("tuner.plugin (WEFT_TUNER_PLUGIN): "), std::string::npos)
               << one.text;
         }
         Job other(2, {{"WEFT_TRANSPORTS_ORDER", "tuner"}});
         join_all(other, said);
       }});
  all.push_back(
      {.name = "MissingTuner",
       .messages = {"<key> (<where>): there is no plugin <plugin>: no <file> in <folders>"},
       .play = [](std::vector<Said>& said) {
         const PluginFolder folder;
         Job job(2, {{"WEFT_PLUGINS_PATH", folder.path()}, {"WEFT_TUNER_PLUGIN", "tuner"}});
         join_all(job, said);
       }});
  all.push_back({.name = "NoTuner",
                 .messages = {"there is no tuner, so the built-in costs count: <why>"},
                 .play = [](std::vector<Said>& said) {
                   const PluginFolder folder;
                   Job job(2, {{"WEFT_PLUGINS_PATH", folder.path()}});
                   join_all(job, said);
                   said.push_back({.code = {}, .text = job[0].process().err()});
                 }});
}

}  // namespace weft::test
