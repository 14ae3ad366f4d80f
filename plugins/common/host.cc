// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Error reports and parameters through the services of the host.
#include "plugins/common/host.h"

#include <cerrno>
#include <cstring>
#include <system_error>

namespace weft::plugins {

std::string errno_text(int error) {
  std::string text = std::generic_category().message(error);
  if (const char* name = strerrorname_np(error)) text += " (" + std::string(name) + ")";
  return text;
}

weft_result Host::fail(weft_result code, const std::string& what, const char* hint) const {
  services_->set_error(services_->instance, code, WEFT_SOURCE_PLUGIN, 0, what.c_str(), hint);
  return code;
}

weft_result Host::fail_peer(const std::string& what, const char* hint) const {
  services_->set_error(services_->instance, WEFT_ERROR_PEER, WEFT_SOURCE_PEER, 0, what.c_str(),
                       hint);
  return WEFT_ERROR_PEER;
}

weft_result Host::fail_errno(int error, const std::string& what, const char* hint) const {
  weft_result code = WEFT_ERROR_SYSTEM;
  if (error == ENOMEM || error == ENOSPC) code = WEFT_ERROR_OUT_OF_MEMORY;
  if (error == EMFILE || error == ENFILE) code = WEFT_ERROR_OUT_OF_RESOURCES;
  const std::string text = what + ": " + errno_text(error);
  services_->set_error(services_->instance, code, WEFT_SOURCE_ERRNO, error, text.c_str(), hint);
  return code;
}

void Host::log(weft_log_level level, const std::string& text) const {
  if (services_->log_enabled(services_->instance, level) == 0) return;
  services_->log(services_->instance, level, __FILE__, __LINE__, text.c_str());
}

bool Host::flag(const char* name, bool fallback) const {
  weft_parameter_value value{};
  value.struct_size = sizeof(value);
  if (services_->get_parameter(services_->instance, name, &value) != WEFT_OK) return fallback;
  return value.type == WEFT_PARAMETER_FLAG ? value.number != 0 : fallback;
}

std::string Host::text(const char* name, const char* fallback) const {
  weft_parameter_value value{};
  value.struct_size = sizeof(value);
  if (services_->get_parameter(services_->instance, name, &value) != WEFT_OK) return fallback;
  return value.type == WEFT_PARAMETER_TEXT && value.text != nullptr ? value.text : fallback;
}

}  // namespace weft::plugins
