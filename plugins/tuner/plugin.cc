// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The entry of weft-tuner.so and its function table. Where no rule speaks, the host's own estimate
// stands: without a table nothing changes.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "plugins/common/host.h"
#include "plugins/tuner/table.h"

using weft::plugins::element;
using weft::plugins::guarded;
using weft::plugins::Host;

struct weft_plugin {
  explicit weft_plugin(const weft_host* services) : host(services) {}
  Host host;
};

struct weft_tuner {
  Host host;
  weft::tuner::Scene scene;
  weft::tuner::Table table;
};

namespace weft::tuner {
namespace {

std::string table_file(const Host& host) {
  weft_parameter_value value{};
  value.struct_size = sizeof(value);
  const weft_host& services = host.services();
  if (services.get_parameter(services.instance, "table", &value) != WEFT_OK) return {};
  return value.text != nullptr ? value.text : "";
}

/// Fills `out`; what is wrong is said to the host.
weft_result load_table(const Host& host, const std::string& file, Table& out) {
  if (file.empty()) return WEFT_OK;
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostTableBytes + 1, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream && !stream.eof()) {
    return host.fail(WEFT_ERROR_CONFIG,
                     fmt::format("cannot read the table {}: {}", file, plugins::errno_text(errno)),
                     "correct tuner.table, or put the file there on every host");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  try {
    out = parse_table(text, file);
  } catch (const BadTable& bad) {
    return host.fail(WEFT_ERROR_CONFIG, bad.what(), "plugins/tuner/README.md lists the keys");
  }
  return WEFT_OK;
}

weft_result open(weft_plugin* plugin, const weft_tuner_open_info* info, weft_tuner** out) {
  return guarded(plugin->host, [&]() -> weft_result {
    auto tuner = std::make_unique<weft_tuner>(
        plugin->host, Scene{.ranks = info->ranks, .hosts = info->hosts, .device = info->device},
        Table{});
    const weft_result loaded = load_table(plugin->host, table_file(plugin->host), tuner->table);
    if (loaded != WEFT_OK) return loaded;
    *out = tuner.release();
    return WEFT_OK;
  });
}

void close(weft_tuner* tuner) {
  const std::unique_ptr<weft_tuner> owner(tuner);
}

weft_result describe(weft_tuner* tuner, weft_tuner_table* out) {
  weft_tuner_table table{};
  table.version = tuner->table.hash == 0 ? 0 : 1;
  table.hash = tuner->table.hash;
  const std::string& name = tuner->table.name;
  name.copy(table.name, sizeof(table.name) - 1);
  plugins::write_out(table, out);
  return WEFT_OK;
}

weft_result evaluate(weft_tuner* tuner, const weft_tuner_question* question,
                     const weft_tuner_offer* offers, uint64_t offer_stride, uint64_t count,
                     weft_tuner_answer* answers, uint64_t answer_stride) {
  const auto rule_of = [&](uint64_t i) {
    const weft_tuner_offer* offer = element(offers, offer_stride, i);
    return tuner->table.find(tuner->scene, *question, offer->algorithm, offer->protocol);
  };
  bool any_preferred = false;
  for (uint64_t i = 0; i < count; ++i) {
    const Rule* rule = rule_of(i);
    any_preferred = any_preferred || (rule != nullptr && rule->use == Use::kPrefer);
  }
  for (uint64_t i = 0; i < count; ++i) {
    const weft_tuner_offer* offer = element(offers, offer_stride, i);
    const Rule* rule = rule_of(i);
    weft_tuner_answer answer{};
    answer.id = offer->id;
    if (rule != nullptr) {
      if (rule->cost) answer.time_ns = rule->cost->time_ns(question->bytes);
      // A table may be of a host with more channels than this job has.
      answer.channels = std::min(rule->channels, offer->max_channels);
    }
    const bool out_of_question =
        rule != nullptr ? rule->use == Use::kNever || (any_preferred && rule->use != Use::kPrefer)
                        : any_preferred;
    if (out_of_question) answer.time_ns = UINT64_MAX;
    auto* out = reinterpret_cast<weft_tuner_answer*>(reinterpret_cast<std::byte*>(answers) +
                                                     answer_stride * i);
    plugins::write_out(answer, out);
  }
  return WEFT_OK;
}

/// The sample nearest in size.
const Sample* nearest(const Rule& rule, std::uint64_t bytes) {
  const auto distance = [bytes](const Sample& sample) {
    return std::max(sample.bytes, bytes) - std::min(sample.bytes, bytes);
  };
  const auto found = std::ranges::min_element(rule.measured, {}, distance);
  return found == rule.measured.end() ? nullptr : &*found;
}

weft_result explain(weft_tuner* tuner, const weft_tuner_question* question,
                    const weft_tuner_offer* offer, char* text, uint64_t size) {
  return guarded(tuner->host, [&]() -> weft_result {
    const Rule* rule =
        tuner->table.find(tuner->scene, *question, offer->algorithm, offer->protocol);
    if (rule == nullptr || size == 0) return WEFT_AGAIN;
    std::string line;
    if (const Sample* sample = nearest(*rule, question->bytes)) {
      line = fmt::format("measured {:.1f} us at calibration",
                         static_cast<double>(sample->time_ns) / 1e3);
      if (sample->bytes != question->bytes) line += fmt::format(" with {} bytes", sample->bytes);
      line += ", ";
    }
    if (rule->use == Use::kPrefer) line += "preferred by ";
    if (rule->use == Use::kNever) line += "ruled out by ";
    line += fmt::format("{}:{}", tuner->table.name, rule->line);
    text[line.copy(text, size - 1)] = '\0';
    return WEFT_OK;
  });
}

constexpr weft_tuner_interface kInterface = {
    .struct_size = sizeof(weft_tuner_interface),
    .reserved = 0,
    .open = open,
    .close = close,
    .table = describe,
    .evaluate = evaluate,
    .report = nullptr,
    .propose = nullptr,
    .adopt = nullptr,
    .discard = nullptr,
    .explain = explain,
};

weft_result init(const weft_host* services, weft_plugin** out) {
  return guarded(Host(services), [&] {
    *out = std::make_unique<weft_plugin>(services).release();
    return weft_result{WEFT_OK};
  });
}

void deinit(weft_plugin* plugin) {
  const std::unique_ptr<weft_plugin> owner(plugin);
}

const void* get_interface(weft_plugin* /*plugin*/, const char* id) {
  return std::strcmp(id, WEFT_TUNER_INTERFACE) == 0 ? &kInterface : nullptr;
}

constexpr std::array<weft_interface, 1> kInterfaces = {{
    {.struct_size = sizeof(weft_interface), .reserved = 0, .id = WEFT_TUNER_INTERFACE},
}};

constexpr std::array<weft_parameter, 1> kParameters = {{
    {.struct_size = sizeof(weft_parameter),
     .type = WEFT_PARAMETER_TEXT,
     .name = "table",
     .unit = "",
     .default_value = "",
     .help = "Table of costs, a YAML file; empty: the host's own estimates.",
     .minimum = 0,
     .maximum = 0},
}};

}  // namespace
}  // namespace weft::tuner

WEFT_PLUGIN_EXPORT const weft_plugin_descriptor weft_plugin_entry = {
    .magic = WEFT_PLUGIN_MAGIC,
    .struct_size = sizeof(weft_plugin_descriptor),
    .abi_version = WEFT_PLUGIN_ABI_VERSION,
    .abi_oldest = WEFT_PLUGIN_ABI_VERSION,
    .draft = WEFT_PLUGIN_DRAFT,
    .id = "tuner",
    .version = "0.1.0",
    .vendor = "The Weft authors",
    .description = "Costs of operations, by a table that was calibrated.",
    .interfaces = weft::tuner::kInterfaces.data(),
    .interface_count = weft::tuner::kInterfaces.size(),
    .interface_stride = sizeof(weft_interface),
    .parameters = weft::tuner::kParameters.data(),
    .parameter_count = weft::tuner::kParameters.size(),
    .parameter_stride = sizeof(weft_parameter),
    .init = weft::tuner::init,
    .deinit = weft::tuner::deinit,
    .get_interface = weft::tuner::get_interface,
    .get_extension = nullptr,
    .quiesce = nullptr,
};
