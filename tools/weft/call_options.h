// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The options of a subcommand that name a call: its element type, its reduction or its root.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/operation.h"

namespace CLI {
class App;
}

namespace weft::tool {

struct CallOptions {
  std::string type_text = "float32";
  std::string reduction_text = "sum";
  std::uint32_t root = 0;

  [[nodiscard]] weft_data_type type() const {
    for (const weft_data_type type : {WEFT_INT32, WEFT_FLOAT16, WEFT_BFLOAT16}) {
      if (type_text == data_type_name(type)) return type;
    }
    return WEFT_FLOAT32;
  }
  [[nodiscard]] weft_reduction reduction() const {
    return reduction_text == "max" ? WEFT_MAX : WEFT_SUM;
  }
};

/// Adds those that `operation` has; `options` outlives the parsing.
void add_call_options(CLI::App& command, Operation operation, CallOptions& options);

}  // namespace weft::tool
