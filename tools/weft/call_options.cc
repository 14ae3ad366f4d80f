// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/call_options.h"

#include <CLI/CLI.hpp>

namespace weft::tool {

void add_call_options(CLI::App& command, Operation operation, CallOptions& options) {
  command.add_option("--type", options.type_text, "Element type")
      ->check(CLI::IsMember({"float32", "int32", "float16", "bfloat16"}))
      ->capture_default_str();
  if (operation == Operation::kAllReduce) {
    command.add_option("--op", options.reduction_text, "Reduction")
        ->check(CLI::IsMember({"sum", "max"}))
        ->capture_default_str();
  } else {
    command.add_option("--root", options.root, "Rank that sends")->capture_default_str();
  }
}

}  // namespace weft::tool
