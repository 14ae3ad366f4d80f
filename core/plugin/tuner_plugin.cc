// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/plugin/tuner_plugin.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/plugin/answers.h"

namespace weft {

TunerPlugin::TunerPlugin(const Plugin& plugin, const weft_tuner_interface& table,
                         MissingFunctions missing)
    : plugin_(&plugin), table_(table), missing_(std::move(missing)) {}

Result<TunerPlugin> TunerPlugin::wrap(const Plugin& plugin) {
  using Table = weft_tuner_interface;
  TableReader<Table> reader(plugin, WEFT_TUNER_INTERFACE);
  WEFT_TRY(reader.read());
  reader.require(&Table::open, "open")
      .require(&Table::close, "close")
      .require(&Table::table, "table")
      .require(&Table::evaluate, "evaluate");
  WEFT_TRY(reader.check());
  reader.allow(&Table::report, "report")
      .allow(&Table::propose, "propose")
      .allow(&Table::adopt, "adopt")
      .allow(&Table::discard, "discard")
      .allow(&Table::explain, "explain");
  return TunerPlugin(plugin, reader.table(), reader.missing());
}

Error TunerPlugin::error(weft_result code, std::string_view function) const {
  return table_error(*plugin_, missing_, WEFT_TUNER_INTERFACE, code, function);
}

Result<weft_tuner*> TunerPlugin::open(const weft_tuner_open_info& info) const {
  plugin_->clear_error();
  weft_tuner* tuner = nullptr;
  const weft_result result = table_.open(plugin_->instance(), &info, &tuner);
  if (result != WEFT_OK) return fail(error(result, "open"));
  if (tuner == nullptr) return fail(plugin_->defect("open", "gave no tuner"));
  return tuner;
}

Result<TunerTable> TunerPlugin::table(weft_tuner* tuner) const {
  plugin_->clear_error();
  weft_tuner_table raw{};
  raw.struct_size = sizeof(raw);
  const weft_result result = table_.table(tuner, &raw);
  if (result != WEFT_OK) return fail(error(result, "table"));
  TunerTable table{.version = raw.version, .hash = raw.hash, .name = {}};
  WEFT_TRY_ASSIGN(table.name, checked_text(*plugin_, "table", "name", raw.name));
  return table;
}

Status TunerPlugin::check_answer(const weft_tuner_answer& answer,
                                 const weft_tuner_offer& offer) const {
  const auto bad = [&](std::string_view what) { return fail(plugin_->defect("evaluate", what)); };
  if (answer.id != offer.id) {
    return bad(fmt::format("answered on offer {} where offer {} stands", answer.id, offer.id));
  }
  const std::uint32_t step = std::max(1U, offer.channel_step);
  if (answer.channels != 0 &&
      (answer.channels < offer.min_channels || answer.channels > offer.max_channels ||
       answer.channels % step != 0)) {
    return bad(fmt::format("wants {} channels of an offer of {} to {}, in steps of {}",
                           answer.channels, offer.min_channels, offer.max_channels, step));
  }
  if (answer.threads != 0 &&
      (answer.threads < offer.min_threads || answer.threads > offer.max_threads)) {
    return bad(fmt::format("wants {} threads of an offer of {} to {}", answer.threads,
                           offer.min_threads, offer.max_threads));
  }
  if (answer.chunk != 0 && (answer.chunk < offer.min_chunk || answer.chunk > offer.max_chunk)) {
    return bad(fmt::format("wants chunks of {} bytes of an offer of {} to {}", answer.chunk,
                           offer.min_chunk, offer.max_chunk));
  }
  return {};
}

Result<std::vector<weft_tuner_answer>> TunerPlugin::evaluate(
    weft_tuner* tuner, const weft_tuner_question& question,
    std::span<const weft_tuner_offer> offers) const {
  plugin_->clear_error();
  std::vector<weft_tuner_answer> answers(offers.size());
  for (weft_tuner_answer& answer : answers) {
    answer.struct_size = sizeof(answer);
    answer.id = UINT32_MAX;  // An offer that is left out shows.
  }
  const weft_result result =
      table_.evaluate(tuner, &question, offers.data(), sizeof(weft_tuner_offer), offers.size(),
                      answers.data(), sizeof(weft_tuner_answer));
  if (result == WEFT_ERROR_INVALID_ARGUMENT) return std::vector<weft_tuner_answer>();
  if (result != WEFT_OK) return fail(error(result, "evaluate"));
  for (std::size_t i = 0; i < offers.size(); ++i)
    WEFT_TRY(check_answer(answers[i], offers[i]));
  return answers;
}

std::string TunerPlugin::explain(weft_tuner* tuner, const weft_tuner_question& question,
                                 const weft_tuner_offer& offer) const {
  if (!has("explain")) return {};
  std::array<char, 512> text{};
  if (table_.explain(tuner, &question, &offer, text.data(), text.size()) != WEFT_OK) return {};
  return checked_text(*plugin_, "explain", "text", text).value_or(std::string());
}

}  // namespace weft
