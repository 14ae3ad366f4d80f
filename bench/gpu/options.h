// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The command line.
#pragma once

#include <string>
#include <vector>

#include "bench/gpu/operations.h"

namespace weft::gpu_bench {

/// What a run is about.
enum class Measure {
  kTimes,     ///< Of operations.
  kHostCost,  ///< Of eager calls, for the thread that makes them.
  kJoins      ///< How long ranks join, and what memory of a GPU their communicators take.
};

struct Options {
  Measure measure = Measure::kTimes;
  std::vector<size_t> sizes;            // Empty: as the measure needs.
  std::vector<std::string> operations;  // The same.
  ElementType type = kTypes[0];
  std::vector<bool> in_place = {false};
  std::vector<std::string> modes = {"thread", "process"};
  std::vector<std::string> libraries;  // Empty: all that can be had.
  bool graph = false, eager = false;   // Neither: by size.
  uint32_t gpus = 0;                   // 0: all.
  uint32_t hosts = 1;                  // That processes take their GPUs for those of.
  uint32_t rounds = 7;
  uint32_t graph_calls = 20;
  std::string weft_folder;
  std::string nccl_file = "libnccl.so.2";
  std::string json_file;
  std::string commit;
  double limit = 230;
  double each_limit = 0;  // 0: none.
  bool limits = false;
  bool multicast = false;

  // Of a child, which has one operation, or one library whose ranks join.
  std::string role;  // "thread", "link" or a rank; empty: supervisor.
  int board = -1;

  /// The first: of a child the only one.
  [[nodiscard]] const Operation& operation() const { return *find_operation(operations.front()); }
};

/// Ends the program where it cannot be understood.
Options parse_options(int argc, char** argv);
/// The same for what a child's role says.
uint32_t rank_of_role(const Options& options);

/// Adds a line to the file of results, if there is one.
void append_json(const Options& options, const std::string& line);

}  // namespace weft::gpu_bench
