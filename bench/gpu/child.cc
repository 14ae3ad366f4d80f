// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/child.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/prctl.h>
#include <thread>
#include <vector>

#include "bench/gpu/hop.h"
#include "bench/gpu/link.h"
#include "bench/gpu/rank.h"

namespace weft::gpu_bench {

namespace {

uint32_t run_rank(const Options& options, const std::string& mode, Board& board,
                  const LoadedLibraries& libraries, uint32_t rank) {
  try {
    return Rank(options, mode, board, libraries, rank).run();
  } catch (const Failure& failure) {
    std::printf("FAILED %s mode: rank %u: %s\n", mode.c_str(), rank, failure.what.c_str());
  } catch (const JobEnded&) {
    return 1;  // Who ended it has said why.
  }
  board.ended.store(1);
  return 1;
}

uint32_t run_threads(const Options& options, Board& board, const LoadedLibraries& libraries) {
  std::atomic<uint32_t> failures = 0;
  std::vector<std::thread> threads;
  threads.reserve(options.gpus);
  for (uint32_t rank = 0; rank < options.gpus; ++rank) {
    threads.emplace_back(
        [&, rank] { failures += run_rank(options, "thread", board, libraries, rank); });
  }
  for (std::thread& thread : threads)
    thread.join();
  return failures;
}

uint32_t run_link(const Options& options, Board& board) {
  copy_text(board.places[0].where, sizeof board.places[0].where, "measure the link");
  try {
    probe_link(options);
    probe_hop(options);
  } catch (const Failure& failure) {
    std::printf("FAILED link: %s\n", failure.what.c_str());
    return 1;
  }
  return 0;
}

/// Before any library looks there.
void choose_host(const Options& options) {
  if (options.hosts == 1) return;
  const std::string host = text("bench-%u", rank_of_role(options) * options.hosts / options.gpus);
  setenv("WEFT_HOST_ID", host.c_str(), 1);
  setenv("NCCL_HOSTID", host.c_str(), 1);
}

}  // namespace

int run_child(const Options& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Board& board = *map_board(options.board);
  uint32_t failures = 0;
  if (options.role == "link") {
    failures = run_link(options, board);
  } else {
    choose_host(options);
    const LoadedLibraries libraries(options);
    failures = options.role == "thread"
                   ? run_threads(options, board, libraries)
                   : run_rank(options, "process", board, libraries, rank_of_role(options));
  }
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}

}  // namespace weft::gpu_bench
