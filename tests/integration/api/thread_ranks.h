// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Ranks that are threads of one process.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"

namespace weft::test {

/// Joins `ranks` threads to one communicator and lets each `play(comm, stream, rank)`, with a
/// stream of its own, which throws what is wrong. Answers what any threw.
template <class Play>
std::vector<std::string> by_a_thread_each(weft_context* context, const CommSettings& settings,
                                          std::uint32_t ranks, const Play& play) {
  weft_unique_id id;
  must(context, weft_get_unique_id(context, &id));
  std::mutex mutex;
  std::vector<std::string> problems;
  const auto be_rank = [&](std::uint32_t rank) {
    try {
      const StreamHandle stream = make_stream(context);
      weft_comm* raw = nullptr;
      must(context, weft_comm_init_rank(context, settings.get(), ranks, &id, rank, &raw));
      const CommHandle comm(raw);
      play(comm.get(), stream.get(), rank);
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex);
      problems.push_back("rank " + std::to_string(rank) + ": " + error.what());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back(be_rank, rank);
  }
  return problems;
}

/// The same; each rank plays all shapes on its stream, one behind the other.
inline std::vector<std::string> shapes_by_a_thread_each(weft_context* context,
                                                        const CommSettings& settings,
                                                        std::uint32_t ranks,
                                                        const std::vector<Shape>& shapes) {
  const auto play = [&](weft_comm* comm, weft_stream* stream, std::uint32_t rank) {
    std::vector<std::unique_ptr<Trial>> trials;
    for (std::uint32_t i = 0; i < shapes.size(); ++i) {
      trials.push_back(std::make_unique<Trial>(shapes[i], rank, ranks, i));
      must(context, trials.back()->start(comm, stream));
    }
    must(context, weft_stream_synchronize(stream));
    for (const auto& trial : trials) {
      if (const std::string text = trial->wrong(); !text.empty()) throw std::runtime_error(text);
    }
  };
  return by_a_thread_each(context, settings, ranks, play);
}

}  // namespace weft::test
