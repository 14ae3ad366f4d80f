// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/session.h"

#include <cstdlib>

#include "core/bootstrap/job_environment.h"
#include "core/bootstrap/launcher.h"

namespace weft::tool {

std::string last_error(weft_context* context) {
  std::string text(weft_last_error(context, nullptr, 0), '\0');
  weft_last_error(context, text.data(), text.size());
  if (!text.empty()) text.pop_back();
  return text;
}

void check(weft_context* context, weft_result result, std::string_view doing) {
  if (result == WEFT_OK) return;
  std::string text = last_error(context);
  if (text.empty()) text = weft_result_description(result);
  throw CallFailed(std::string(doing) + ": " + text);
}

ContextHandle make_context() {
  weft_context* context = nullptr;
  check(nullptr, weft_context_create(nullptr, &context), "cannot start weft");
  return ContextHandle(context);
}

StreamHandle make_stream(weft_context* context) {
  weft_stream* stream = nullptr;
  check(context, weft_stream_create(context, &stream), "cannot create a stream");
  return StreamHandle(stream);
}

CommHandle join_job(weft_context* context, const Settings& settings) {
  std::vector<const char*> words;
  for (const auto& [name, value] : settings) {
    words.push_back(name.c_str());
    words.push_back(value.c_str());
  }
  weft_comm_config config{};
  config.struct_size = sizeof(config);
  config.setting_count = static_cast<std::uint32_t>(settings.size());
  config.settings = words.data();
  weft_comm* comm = nullptr;
  check(context, weft_comm_init_env(context, settings.empty() ? nullptr : &config, &comm),
        "cannot join the job");
  return CommHandle(comm);
}

std::string describe_pair(weft_comm* comm, std::uint32_t a, std::uint32_t b) {
  std::string text(weft_comm_describe_pair(comm, a, b, nullptr, 0), '\0');
  if (text.empty()) return text;
  weft_comm_describe_pair(comm, a, b, text.data(), text.size());
  text.pop_back();
  return text;
}

bool in_job() {
  const EnvironmentMap environment = current_environment();
  const auto rank = environment.find(find_launcher(environment).rank);
  return rank != environment.end() && !rank->second.empty();
}

bool in_weft_run() {
  // Read before any thread is started.
  const char* const rank = std::getenv("WEFT_RANK");  // NOLINT(concurrency-mt-unsafe)
  return rank != nullptr && *rank != '\0';
}

}  // namespace weft::tool
