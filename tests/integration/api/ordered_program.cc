// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank of a job: makes the calls of tests/integration/api/ordered_sums.h and says what is
// wrong with their results.
//
//   ordered-program SEED MOST [SETTING VALUE ...]    joins by the launcher's environment
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/ordered_sums.h"

namespace {

using namespace weft::test;  // NOLINT(google-build-using-namespace)

void run(const std::vector<std::string>& words) {
  const ContextHandle context = make_context();
  const CommSettings settings({words.begin() + 2, words.end()});
  weft_comm* raw = nullptr;
  must(context.get(), weft_comm_init_env(context.get(), settings.get(), &raw));
  const CommHandle comm(raw);
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  must(context.get(), weft_comm_rank(comm.get(), &rank));
  must(context.get(), weft_comm_size(comm.get(), &ranks));
  if (rank == 0) {
    for (std::uint32_t peer = 1; peer < ranks; ++peer)
      std::printf("pair 0 %u: %s\n", peer, describe_pair(comm.get(), 0, peer).c_str());
  }
  const auto sums = ordered_sums(ranks, std::stoul(words.at(1)));
  const auto wrong = wrong_sums(context.get(), comm.get(), sums, std::stoull(words.at(0)));
  for (const std::string& text : wrong)
    std::fprintf(stderr, "%s\n", text.c_str());
  if (!wrong.empty()) throw std::runtime_error("sums are not by rank numbers");
  std::printf("rank %u of %u: %zu calls by rank numbers\n", rank, ranks, sums.size());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("wants SEED MOST [SETTING VALUE ...]");
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ordered-program: %s\n", error.what());
    return 1;
  }
}
