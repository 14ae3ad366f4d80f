// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines NAME=VALUE as the environment that a launcher gives, and any bytes as a node list: what is
// let through is a rank of a job, and a name that can be asked for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/bootstrap/job_environment.h"
#include "core/bootstrap/node_list.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto node = weft::first_node(text)) {
    require(!node->empty() && node->size() <= 253);
    require(node->find_first_of("[], /\n") == std::string::npos);
  }
  weft::EnvironmentMap environment;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (const std::size_t equals = line.find('='); equals != std::string_view::npos)
      environment.emplace(line.substr(0, equals), line.substr(equals + 1));
    begin = end + 1;
  }
  const auto job = weft::read_job_environment(environment);
  if (!job) {
    require(!job.error().what().empty());
    return 0;
  }
  require(job->world_size > 0 && job->rank >= 0 && job->rank < job->world_size);
  require(job->root_port != 0 && !job->root_host.empty());
  return 0;
}
