/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A tuner for the tests of its wrapper: each offer takes a microsecond for each place in the list,
 * and where the parameter `misbehave` says so, it answers nonsense.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin_api/tuner.h"

struct weft_plugin {
  const weft_host* host;
  char misbehave[64];
};
struct weft_tuner {
  weft_plugin* plugin;
};

static int misbehaves(const weft_tuner* tuner, const char* how) {
  return strcmp(tuner->plugin->misbehave, how) == 0;
}

static weft_result tuner_open(weft_plugin* plugin, const weft_tuner_open_info* info,
                              weft_tuner** out) {
  (void)info;
  if (strcmp(plugin->misbehave, "open-null") == 0) return WEFT_OK;
  if (strcmp(plugin->misbehave, "open-fails") == 0) {
    plugin->host->set_error(plugin->host->instance, WEFT_ERROR_CONFIG, WEFT_SOURCE_PLUGIN, 0,
                            "the table is of another machine", "calibrate anew");
    return WEFT_ERROR_CONFIG;
  }
  *out = (weft_tuner*)malloc(sizeof(**out));
  (*out)->plugin = plugin;
  return WEFT_OK;
}

static void tuner_close(weft_tuner* tuner) {
  free(tuner);
}

static weft_result tuner_table(weft_tuner* tuner, weft_tuner_table* out) {
  out->version = 7;
  out->hash = 42;
  strcpy(out->name, "by hand");
  if (misbehaves(tuner, "name-endless")) memset(out->name, 'x', sizeof(out->name));
  return WEFT_OK;
}

static weft_result tuner_evaluate(weft_tuner* tuner, const weft_tuner_question* question,
                                  const weft_tuner_offer* offers, uint64_t offer_stride,
                                  uint64_t count, weft_tuner_answer* answers,
                                  uint64_t answer_stride) {
  if (misbehaves(tuner, "evaluate-fails")) return WEFT_ERROR_SYSTEM;
  if (misbehaves(tuner, "evaluate-waits")) return WEFT_IN_PROGRESS;
  if (question->operation == WEFT_TUNER_SEND_RECV) return WEFT_ERROR_INVALID_ARGUMENT;
  for (uint64_t i = 0; i < count; ++i) {
    const weft_tuner_offer* offer =
        (const weft_tuner_offer*)((const char*)offers + i * offer_stride);
    weft_tuner_answer* answer = (weft_tuner_answer*)((char*)answers + i * answer_stride);
    if (misbehaves(tuner, "answer-missing") && i + 1 == count) continue;
    answer->id = misbehaves(tuner, "answer-swapped") ? count - 1 - i : offer->id;
    answer->time_ns = (i + 1) * 1000;
    if (misbehaves(tuner, "channels-many")) answer->channels = offer->max_channels + 1;
    if (misbehaves(tuner, "channels-odd")) answer->channels = offer->min_channels + 1;
    if (misbehaves(tuner, "threads-many")) answer->threads = 1U << 20;
    if (misbehaves(tuner, "chunk-huge")) answer->chunk = UINT64_MAX;
  }
  return WEFT_OK;
}

static weft_result tuner_explain(weft_tuner* tuner, const weft_tuner_question* question,
                                 const weft_tuner_offer* offer, char* text, uint64_t size) {
  (void)question;
  (void)offer;
  if (misbehaves(tuner, "explain-fails")) return WEFT_ERROR_SYSTEM;
  memset(text, 'x', size);
  if (!misbehaves(tuner, "explain-endless")) strcpy(text, "by\nhand");
  return WEFT_OK;
}

static const weft_tuner_interface kTuner = {
    .struct_size = sizeof(weft_tuner_interface),
    .reserved = 0,
    .open = tuner_open,
    .close = tuner_close,
    .table = tuner_table,
#ifndef FIXTURE_NO_EVALUATE
    .evaluate = tuner_evaluate,
#else
    .evaluate = NULL,
#endif
    .report = NULL,
    .propose = NULL,
    .adopt = NULL,
    .discard = NULL,
#ifndef FIXTURE_NO_EVALUATE
    .explain = tuner_explain,
#else
    .explain = NULL,
#endif
};

static weft_result plugin_init(const weft_host* host, weft_plugin** out) {
  weft_plugin* plugin = (weft_plugin*)calloc(1, sizeof(*plugin));
  plugin->host = host;
  weft_parameter_value value;
  memset(&value, 0, sizeof(value));
  value.struct_size = sizeof(value);
  if (host->get_parameter(host->instance, "misbehave", &value) == WEFT_OK) {
    strncpy(plugin->misbehave, value.text, sizeof(plugin->misbehave) - 1);
  }
  *out = plugin;
  return WEFT_OK;
}

static void plugin_deinit(weft_plugin* plugin) {
  free(plugin);
}

static const void* plugin_get_interface(weft_plugin* plugin, const char* id) {
  (void)plugin;
  return strcmp(id, WEFT_TUNER_INTERFACE) == 0 ? &kTuner : NULL;
}

static const weft_interface kInterfaces[] = {{sizeof(weft_interface), 0, WEFT_TUNER_INTERFACE}};

static const weft_parameter kParameters[] = {
    {sizeof(weft_parameter), WEFT_PARAMETER_TEXT, "misbehave", "", "", "What to do wrong.", 0, 0},
};

WEFT_PLUGIN_EXPORT const weft_plugin_descriptor weft_plugin_entry = {
    .magic = WEFT_PLUGIN_MAGIC,
    .struct_size = sizeof(weft_plugin_descriptor),
    .abi_version = WEFT_PLUGIN_ABI_VERSION,
    .abi_oldest = WEFT_PLUGIN_ABI_VERSION,
    .draft = WEFT_PLUGIN_DRAFT,
    .id = FIXTURE_ID,
    .version = "1.2.3",
    .vendor = "The Weft tests",
    .description = "A tuner for tests.",
    .interfaces = kInterfaces,
    .interface_count = 1,
    .interface_stride = sizeof(weft_interface),
    .parameters = kParameters,
    .parameter_count = 1,
    .parameter_stride = sizeof(weft_parameter),
    .init = plugin_init,
    .deinit = plugin_deinit,
    .get_interface = plugin_get_interface,
    .get_extension = NULL,
    .quiesce = NULL,
};
