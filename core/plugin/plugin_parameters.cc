// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A plugin's parameter table as the configuration's.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/plugin/loader.h"

namespace weft {
namespace {

ParameterType type_of(weft_parameter_type type) {
  switch (type) {
    case WEFT_PARAMETER_FLAG:
      return ParameterType::kFlag;
    case WEFT_PARAMETER_INTEGER:
      return ParameterType::kInteger;
    case WEFT_PARAMETER_BYTES:
      return ParameterType::kBytes;
    case WEFT_PARAMETER_DURATION:
      return ParameterType::kDuration;
    case WEFT_PARAMETER_LIST:
      return ParameterType::kList;
    default:
      return ParameterType::kText;
  }
}

bool is_number(ParameterType type) {
  return type == ParameterType::kInteger || type == ParameterType::kBytes ||
         type == ParameterType::kDuration;
}

}  // namespace

Result<std::vector<Parameter>> parameters_of(const PluginInfo& info) {
  std::vector<Parameter> parameters;
  for (const PluginParameterInfo& line : info.parameters) {
    Parameter parameter;
    parameter.section = info.id;
    parameter.key = line.name;
    parameter.type = type_of(line.type);
    // Of sizes and durations the unit is part of the value.
    if (parameter.type == ParameterType::kInteger) parameter.unit = line.unit;
    if (is_number(parameter.type)) {
      parameter.minimum = line.minimum;
      parameter.maximum = line.maximum;
    }
    parameter.may_be_off = parameter.type == ParameterType::kDuration;
    parameter.of_context = true;  // whose plugins are initialised once
    parameter.default_text = line.default_value;
    parameter.help = line.help;
    if (line.name.find('.') != std::string::npos || line.name.find('-') != std::string::npos) {
      return fail(WEFT_ERROR_PLUGIN,
                  fmt::format("{}: the parameter {} has a name that is not lower-case words "
                              "joined by '_'",
                              info.file, line.name),
                  "update the plugin");
    }
    if (is_number(parameter.type) && line.minimum > line.maximum) {
      return fail(WEFT_ERROR_PLUGIN,
                  fmt::format("{}: the parameter {} is at least {} and at most {}", info.file,
                              line.name, line.minimum, line.maximum),
                  "update the plugin");
    }
    if (const auto sound = validate_parameter(parameter); !sound) {
      return fail(
          WEFT_ERROR_PLUGIN,
          fmt::format("{}: its parameter table is not sound: {}", info.file, sound.error().what()),
          "update the plugin");
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

}  // namespace weft
