// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Owners of the public API's handles, for tests that use it as an application does. What fails in
// here throws with the library's own text.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weft/weft.h>

namespace weft::test {

struct ContextCloser {
  void operator()(weft_context* context) const { weft_context_destroy(context); }
};
struct CommCloser {
  void operator()(weft_comm* comm) const { weft_comm_destroy(comm); }
};
struct StreamCloser {
  void operator()(weft_stream* stream) const { weft_stream_destroy(stream); }
};
struct GraphCloser {
  void operator()(weft_graph* graph) const { weft_graph_destroy(graph); }
};
using ContextHandle = std::unique_ptr<weft_context, ContextCloser>;
using CommHandle = std::unique_ptr<weft_comm, CommCloser>;
using StreamHandle = std::unique_ptr<weft_stream, StreamCloser>;
using GraphHandle = std::unique_ptr<weft_graph, GraphCloser>;

/// The whole text of the calling thread's last failure.
inline std::string last_error(weft_context* context) {
  std::string text(weft_last_error(context, nullptr, 0), '\0');
  weft_last_error(context, text.data(), text.size());
  text.pop_back();
  return text;
}

/// Throws unless the call went well.
inline void must(weft_context* context, weft_result result) {
  if (result == WEFT_OK) return;
  throw std::runtime_error(std::string(weft_result_name(result)) + ": " + last_error(context));
}

/// Between two looks at what goes on in the background, which may need this processor.
inline void look_later() {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// With the configuration file that is found, unless one is named.
inline ContextHandle make_context(const char* config_file = nullptr) {
  weft_context_options options{};
  options.struct_size = sizeof(options);
  options.config_file = config_file;
  weft_context* context = nullptr;
  must(nullptr, weft_context_create(&options, &context));
  return ContextHandle(context);
}

inline StreamHandle make_stream(weft_context* context) {
  weft_stream* stream = nullptr;
  must(context, weft_stream_create(context, &stream));
  return StreamHandle(stream);
}

/// What `calls` calls on `stream`, not made. A capture that fails is ended as well.
template <typename Calls>
GraphHandle capture(weft_context* context, weft_stream* stream, Calls calls) {
  must(context, weft_stream_begin_capture(stream));
  weft_graph* graph = nullptr;
  try {
    calls();
  } catch (...) {
    weft_stream_end_capture(stream, &graph);
    weft_graph_destroy(graph);
    throw;
  }
  must(context, weft_stream_end_capture(stream, &graph));
  return GraphHandle(graph);
}

/// Settings of a communicator: pairs of "section.key" and value.
class CommSettings {
 public:
  explicit CommSettings(std::vector<std::string> pairs = {}) : pairs_(std::move(pairs)) {
    if (pairs_.size() % 2 != 0) throw std::logic_error("a setting without a value");
    for (const std::string& text : pairs_)
      pointers_.push_back(text.c_str());
    config_.struct_size = sizeof(config_);
    config_.setting_count = static_cast<std::uint32_t>(pairs_.size() / 2);
    config_.settings = pointers_.data();
  }
  CommSettings(const CommSettings&) = delete;
  CommSettings& operator=(const CommSettings&) = delete;

  [[nodiscard]] const weft_comm_config* get() const { return &config_; }

 private:
  std::vector<std::string> pairs_;
  std::vector<const char*> pointers_;
  weft_comm_config config_{};
};

/// "p2p", "shm" or "net-socket" as the settings that allow nothing else.
inline std::vector<std::string> only_transport(const std::string& name) {
  if (name.starts_with("net-")) return {"transports.order", "net", "transports.net", name};
  return {"transports.order", name};
}

/// How two ranks are joined, as the library says it.
inline std::string describe_pair(weft_comm* comm, std::uint32_t a, std::uint32_t b) {
  std::string text(weft_comm_describe_pair(comm, a, b, nullptr, 0), '\0');
  if (text.empty()) return text;
  weft_comm_describe_pair(comm, a, b, text.data(), text.size());
  text.pop_back();
  return text;
}

/// A communicator whose ranks all belong to the calling thread.
inline std::vector<CommHandle> init_all(weft_context* context, const CommSettings& settings,
                                        std::uint32_t ranks) {
  std::vector<weft_comm*> raw(ranks);
  must(context, weft_comm_init_all(context, settings.get(), ranks, raw.data()));
  return {raw.begin(), raw.end()};
}

inline std::vector<StreamHandle> make_streams(weft_context* context, std::size_t count) {
  std::vector<StreamHandle> streams;
  for (std::size_t i = 0; i < count; ++i)
    streams.push_back(make_stream(context));
  return streams;
}

/// All ranks in this thread.
class LocalComms {
 public:
  LocalComms(weft_context* context, const weft_comm_config* settings, std::uint32_t ranks)
      : context_(context) {
    std::vector<weft_comm*> raw(ranks);
    must(context, weft_comm_init_all(context, settings, ranks, raw.data()));
    for (weft_comm* comm : raw) {
      comms_.emplace_back(comm);
      streams_.push_back(make_stream(context));
    }
  }
  [[nodiscard]] weft_comm* comm(std::size_t rank) const { return comms_[rank].get(); }
  [[nodiscard]] weft_stream* stream(std::size_t rank) const { return streams_[rank].get(); }
  void leave(std::size_t rank) { comms_[rank].reset(); }
  void synchronize() const {
    for (const StreamHandle& stream : streams_)
      must(context_, weft_stream_synchronize(stream.get()));
  }

 private:
  weft_context* context_;
  std::vector<StreamHandle> streams_;
  std::vector<CommHandle> comms_;
};

}  // namespace weft::test
