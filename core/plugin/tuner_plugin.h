// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A tuner plugin behind a full table. What it answers decides plans, so every answer is looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/plugin/plugin.h"
#include "core/plugin/table.h"
#include "plugin_api/tuner.h"

namespace weft {

/// Where a tuner's answers come from; see weft_tuner_table.
struct TunerTable {
  std::uint64_t version = 0;
  std::uint64_t hash = 0;
  std::string name;
};

/// Does not own the plugin, which outlives it. Threads as tuner.h says of each function.
class TunerPlugin {
 public:
  /// WEFT_ERROR_PLUGIN if the plugin offers no such interface, or lacks required functions.
  static Result<TunerPlugin> wrap(const Plugin& plugin);

  [[nodiscard]] const Plugin& plugin() const { return *plugin_; }
  [[nodiscard]] const std::string& id() const { return plugin_->id(); }
  /// Whether the plugin has the optional function of this name.
  [[nodiscard]] bool has(std::string_view function) const { return !missing_.contains(function); }

  [[nodiscard]] Result<weft_tuner*> open(const weft_tuner_open_info& info) const;
  void close(weft_tuner* tuner) const { table_.close(tuner); }
  [[nodiscard]] Result<TunerTable> table(weft_tuner* tuner) const;

  /// An answer on each offer, in their order, within what was offered. None where the plugin does
  /// not know the operation.
  [[nodiscard]] Result<std::vector<weft_tuner_answer>> evaluate(
      weft_tuner* tuner, const weft_tuner_question& question,
      std::span<const weft_tuner_offer> offers) const;

  /// One line; empty where the plugin has nothing to say.
  [[nodiscard]] std::string explain(weft_tuner* tuner, const weft_tuner_question& question,
                                    const weft_tuner_offer& offer) const;

 private:
  TunerPlugin(const Plugin& plugin, const weft_tuner_interface& table, MissingFunctions missing);
  [[nodiscard]] Error error(weft_result code, std::string_view function) const;
  [[nodiscard]] Status check_answer(const weft_tuner_answer& answer,
                                    const weft_tuner_offer& offer) const;

  const Plugin* plugin_;
  weft_tuner_interface table_;
  MissingFunctions missing_;
};

}  // namespace weft
