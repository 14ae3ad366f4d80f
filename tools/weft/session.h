// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Owners of the public API's handles, for subcommands that communicate. They use weft.h alone, as
// any application would.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weft/weft.h>

namespace weft::tool {

/// A call of the library failed; what() is the library's own text.
class CallFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The last error of the calling thread on `context`.
[[nodiscard]] std::string last_error(weft_context* context);

/// Throws CallFailed with the library's text unless `result` is WEFT_OK.
void check(weft_context* context, weft_result result, std::string_view doing);

struct ContextCloser {
  void operator()(weft_context* context) const { weft_context_destroy(context); }
};
struct CommCloser {
  void operator()(weft_comm* comm) const { weft_comm_destroy(comm); }
};
struct StreamCloser {
  void operator()(weft_stream* stream) const { weft_stream_destroy(stream); }
};
using ContextHandle = std::unique_ptr<weft_context, ContextCloser>;
using CommHandle = std::unique_ptr<weft_comm, CommCloser>;
using StreamHandle = std::unique_ptr<weft_stream, StreamCloser>;

[[nodiscard]] ContextHandle make_context();
[[nodiscard]] StreamHandle make_stream(weft_context* context);
/// Pairs of "section.key" and value that override the configuration.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// The communicator that the launcher's environment describes.
[[nodiscard]] CommHandle join_job(weft_context* context, const Settings& settings = {});

/// How the pair is joined, as the library says it.
[[nodiscard]] std::string describe_pair(weft_comm* comm, std::uint32_t a, std::uint32_t b);

/// Whether any launcher that Weft knows started this process as a rank of a job.
[[nodiscard]] bool in_job();
/// Whether `weft run` did, or somebody who gave it a rank by hand. (A shell on a cluster may
/// already be a rank of Slurm's.)
[[nodiscard]] bool in_weft_run();

}  // namespace weft::tool
