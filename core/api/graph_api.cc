// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The exported functions of captured calls, thin like those of api.cc.
#include <fmt/format.h>

#include <weft/weft.h>

#include "core/api/handles.h"

namespace {

using weft::Error;
using weft::api::answer;
using weft::api::guarded;
using weft::api::null_argument;

// The calls that a group holds back belong to the stream already, and are not made yet.
template <typename Function>
weft_result outside_of_groups(weft_context* owner, const char* name, Function&& function) {
  return guarded(owner, [&]() -> weft_result {
    weft::Context& context = *owner->context;
    if (context.open_group() != nullptr) {
      return context.remember(
          Error(WEFT_ERROR_INVALID_USAGE,
                fmt::format("{} inside a group: its calls are not made yet", name),
                "weft_group_end first"));
    }
    return function(context);
  });
}

}  // namespace

extern "C" {

weft_result weft_stream_begin_capture(weft_stream* stream) {
  if (stream == nullptr) return null_argument(nullptr, "stream");
  return outside_of_groups(stream->owner, "weft_stream_begin_capture", [&](weft::Context&) {
    return answer(stream->owner, stream->stream->begin_capture());
  });
}

weft_result weft_stream_end_capture(weft_stream* stream, weft_graph** out) {
  if (stream == nullptr) return null_argument(nullptr, "stream");
  if (out == nullptr) return null_argument(stream->owner, "out");
  return outside_of_groups(
      stream->owner, "weft_stream_end_capture", [&](weft::Context& context) -> weft_result {
        auto graph = stream->stream->end_capture();
        if (!graph) return context.remember(graph.error());
        *out = new weft_graph{.owner = stream->owner, .graph = std::move(*graph)};
        context.users().fetch_add(1);
        return WEFT_OK;
      });
}

weft_result weft_graph_launch(weft_graph* graph, weft_stream* stream) {
  if (graph == nullptr) return null_argument(stream != nullptr ? stream->owner : nullptr, "graph");
  if (stream == nullptr) return null_argument(graph->owner, "stream");
  return outside_of_groups(
      graph->owner, "weft_graph_launch", [&](weft::Context& context) -> weft_result {
        if (stream->owner != graph->owner) {
          return context.remember(Error(WEFT_ERROR_INVALID_ARGUMENT,
                                        "the stream belongs to another context than the graph",
                                        "make streams with the context of the graph"));
        }
        return answer(graph->owner, stream->stream->launch(*graph->graph));
      });
}

weft_result weft_graph_destroy(weft_graph* graph) {
  if (graph == nullptr) return WEFT_OK;
  weft_context* const owner = graph->owner;
  return guarded(owner, [&] {
    delete graph;
    owner->context->users().fetch_sub(1);
    return WEFT_OK;
  });
}

}  // extern "C"
