// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Times the operations of collective communication over the GPUs of this host: NCCL with plain
// buffers, NCCL with symmetric windows where it has kernels for them, and Weft, over
// windows too where that is asked for, in turn (A B C A B C) within one process, once with a thread
// for each GPU and once with a process for each. Small sizes are calls of a replayed graph, and
// eager calls besides; large ones are eager. Every size is checked on random input before it is
// timed: all that calls write, and that they write nothing else. What sizes and bandwidths mean is
// said in operations.h.
//
// It can measure two other things instead: what calls cost the thread that makes them
// (host_cost.cc), and how long ranks join and what their communicators take of a GPU (joins.cc).
//
// Three roles of one program. The supervisor, which the user starts, runs each operation in each
// mode as children of its own and ends them if they hang; a child is either all ranks as threads,
// or one rank, or the probe of the link. Ranks meet on a board in shared memory, in both modes
// alike.
//
// NCCL and Weft are loaded when the program runs: it needs neither to start, and one that fails
// does not stop the other. An operation that Weft refuses is reported as refused, with its words.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

#include "bench/gpu/basics.h"
#include "bench/gpu/child.h"
#include "bench/gpu/options.h"
#include "bench/gpu/report.h"
#include "bench/gpu/supervisor.h"

namespace weft::gpu_bench {

namespace {

/// Also sets options.gpus. False if there are too few.
bool find_gpus(Options& options) {
  int found = 0;
  const cudaError_t error = cudaGetDeviceCount(&found);
  if (error != cudaSuccess || found == 0) {
    complain(text("no CUDA device: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error)));
    return false;
  }
  const auto usable = std::min(static_cast<uint32_t>(found), kMaxRanks);
  if (options.gpus == 0) options.gpus = usable;
  if (options.gpus <= usable && usable >= 2) return true;
  complain(text("needs %u CUDA devices, found %d", std::max(options.gpus, 2U), found));
  return false;
}

/// Children append to it.
bool empty_json(const Options& options) {
  const char* file = options.json_file.c_str();
  if (options.json_file.empty() || truncate(file, 0) == 0 || errno == ENOENT) return true;
  complain(text("%s: %s", file, std::strerror(errno)));
  return false;
}

/// What each mode does, one after the other, each by children of its own: a name for it, and what
/// its children are told.
struct Part {
  std::string name;
  std::vector<std::string> arguments;
};

std::vector<Part> parts_of(const Options& options) {
  std::vector<Part> parts;
  if (options.measure == Measure::kJoins) {
    // What one library has taken of a GPU, or has made ready there, must not be the other's.
    for (const std::string& library : options.libraries) {
      if (library.ends_with("-window")) continue;
      parts.push_back({library + " joins", {"--libraries", library}});
    }
    return parts;
  }
  for (const std::string& operation : options.operations)
    parts.push_back({operation, {"--operations", operation}});
  return parts;
}

int supervise(Options options, const std::vector<std::string>& arguments) {
  if (!find_gpus(options) || !empty_json(options)) return 1;
  // Multicast takes a switch's resources from everybody on the host.
  if (!options.multicast) setenv("NCCL_NVLS_ENABLE", "0", 1);
  try {
    describe_machine(options, arguments);
  } catch (const Failure& failure) {
    complain(failure.what);
    return 1;
  }
  const Clock::time_point begin = Clock::now();
  Supervisor supervisor(options, arguments);
  bool good = true;
  if (options.limits) good &= supervisor.run("link", {}, {"link"});
  // Should the time not suffice, every operation was timed in the first mode.
  for (const std::string& mode : options.modes) {
    for (const Part& part : parts_of(options)) {
      std::vector<std::string> roles;
      if (mode == "thread") roles = {"thread"};
      for (uint32_t rank = 0; mode == "process" && rank < options.gpus; ++rank)
        roles.push_back(std::to_string(rank));
      const std::string name = text("%s, %s mode", part.name.c_str(), mode.c_str());
      const Clock::time_point started = Clock::now();
      std::printf("\n");
      if (!supervisor.run(name, part.arguments, roles)) {
        good = false;
        std::printf("FAILED: %s\n", name.c_str());
      }
      std::printf("%s took %.1f s\n", name.c_str(), seconds_since(started));
      std::fflush(stdout);
    }
  }
  std::printf("\n%s; %.1f s\n", good ? "all good" : "THERE WERE FAILURES", seconds_since(begin));
  return good ? 0 : 1;
}

}  // namespace

}  // namespace weft::gpu_bench

int main(int argc, char** argv) {
  using namespace weft::gpu_bench;
  const Options options = parse_options(argc, argv);
  if (!options.role.empty()) return run_child(options);
  return supervise(options, {argv, argv + argc});
}
