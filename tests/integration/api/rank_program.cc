// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank of a job, as a program of its own: joins as it is told, makes every call of the trials
// and says on standard output what came of it.
//
//   rank-program env SETTING VALUE ...              joins by the launcher's environment
//   rank-program background SETTING VALUE ...       the same, and waits for it by asking
//   rank-program make-id RANKS SETTING VALUE ...    is rank 0, and prints "id HEX" for the others
//   rank-program join HEX RANK RANKS SETTING VALUE ...
//   rank-program stop-and-receive HEX RANK RANKS SETTING VALUE ...
//       joins, says "joined", stops itself until it gets SIGCONT, and receives one number of rank 0
//   rank-program stop-with-window HEX RANK RANKS SETTING VALUE ...
//       the same, and registers a window before it says "joined"
//   rank-program stop-after-sum HEX RANK RANKS SETTING VALUE ...
//       the same, and makes an all-reduce of one number before it says "joined"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "tests/integration/api/exchange.h"
#include "tests/integration/api/handles.h"
#include "tests/integration/api/trial.h"

namespace {

using namespace weft::test;  // NOLINT(google-build-using-namespace)

std::string to_hex(const weft_unique_id& id) {
  std::string text;
  for (const std::uint8_t byte : id.bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    text += digits.data();
  }
  return text;
}

weft_unique_id from_hex(const std::string& text) {
  weft_unique_id id{};
  if (text.size() != 2 * sizeof(id.bytes)) throw std::runtime_error("an id of a wrong length");
  for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
    id.bytes[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

/// Until what goes on in the background has ended.
void wait_for(weft_context* context, weft_comm* comm) {
  weft_result state = WEFT_IN_PROGRESS;
  while (state == WEFT_IN_PROGRESS) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    must(context, weft_comm_get_async_error(comm, &state));
  }
  must(context, state);
}

/// The first calls of a handle that joined in the background go on there, too.
void must_start(weft_context* context, weft_comm* comm, weft_result started) {
  if (started == WEFT_IN_PROGRESS) {
    wait_for(context, comm);
  } else {
    must(context, started);
  }
}

CommHandle join(weft_context* context, const std::vector<std::string>& words) {
  const std::string& way = words.at(0);
  const std::size_t used = way == "env" || way == "background" ? 1 : way == "make-id" ? 2 : 4;
  const CommSettings settings({words.begin() + static_cast<std::ptrdiff_t>(used), words.end()});
  weft_comm* comm = nullptr;
  if (way == "env") {
    must(context, weft_comm_init_env(context, settings.get(), &comm));
  } else if (way == "background") {
    weft_comm_config config = *settings.get();
    config.nonblocking = 1;
    const weft_result started = weft_comm_init_env(context, &config, &comm);
    if (started != WEFT_IN_PROGRESS) must(context, started);
    CommHandle owner(comm);
    wait_for(context, comm);
    return owner;
  } else if (way == "make-id") {
    weft_unique_id id;
    must(context, weft_get_unique_id(context, &id));
    std::printf("id %s\n", to_hex(id).c_str());
    std::fflush(stdout);
    const auto ranks = static_cast<std::uint32_t>(std::stoul(words.at(1)));
    must(context, weft_comm_init_rank(context, settings.get(), ranks, &id, 0, &comm));
  } else {
    const weft_unique_id id = from_hex(words.at(1));
    const auto rank = static_cast<std::uint32_t>(std::stoul(words.at(2)));
    const auto ranks = static_cast<std::uint32_t>(std::stoul(words.at(3)));
    must(context, weft_comm_init_rank(context, settings.get(), ranks, &id, rank, &comm));
  }
  return CommHandle(comm);
}

void stop_and_receive(const std::vector<std::string>& words) {
  const ContextHandle context = make_context();
  const StreamHandle stream = make_stream(context.get());
  std::int32_t value = 0;
  const CommHandle comm = join(context.get(), words);
  if (words.at(0) == "stop-with-window") {
    weft_window* window = nullptr;  // The communicator's end is its end.
    must(context.get(), weft_window_register(comm.get(), &value, sizeof(value), &window));
  }
  if (words[0] == "stop-after-sum") {
    must(context.get(),
         weft_all_reduce(&value, &value, 1, WEFT_INT32, WEFT_SUM, comm.get(), stream.get()));
    must(context.get(), weft_stream_synchronize(stream.get()));
  }
  std::printf("joined\n");
  std::fflush(stdout);
  raise(SIGSTOP);
  must(context.get(), weft_recv(&value, 1, WEFT_INT32, 0, comm.get(), stream.get()));
  must(context.get(), weft_stream_synchronize(stream.get()));
  std::printf("received %d\n", value);
}

void run(const std::vector<std::string>& words) {
  const ContextHandle context = make_context();
  const StreamHandle stream = make_stream(context.get());
  const CommHandle comm = join(context.get(), words);
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  must(context.get(), weft_comm_rank(comm.get(), &rank));
  must(context.get(), weft_comm_size(comm.get(), &ranks));
  for (std::uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer != rank) {
      std::printf("pair %u %u: %s\n", rank, peer, describe_pair(comm.get(), rank, peer).c_str());
    }
  }
  std::vector<Shape> shapes = all_shapes(ranks, std::size_t{16} << 10);
  const std::vector<Shape> large = large_shapes(ranks, std::size_t{2} << 20);
  shapes.insert(shapes.end(), large.begin(), large.end());
  // Several at a time without waiting: the wire never runs dry between calls.
  constexpr std::size_t kBatch = 8;
  for (std::size_t first = 0; first < shapes.size(); first += kBatch) {
    std::vector<std::unique_ptr<Trial>> trials;
    for (std::size_t i = first; i < std::min(first + kBatch, shapes.size()); ++i) {
      trials.push_back(
          std::make_unique<Trial>(shapes[i], rank, ranks, static_cast<std::uint32_t>(i)));
      must_start(context.get(), comm.get(), trials.back()->start(comm.get(), stream.get()));
    }
    must(context.get(), weft_stream_synchronize(stream.get()));
    for (const auto& trial : trials) {
      if (const std::string text = trial->wrong(); !text.empty()) throw std::runtime_error(text);
    }
  }
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Exchange exchange(seed, rank, ranks, std::size_t{1} << 20);
    must_start(context.get(), comm.get(), exchange.start(context.get(), comm.get(), stream.get()));
    must(context.get(), weft_stream_synchronize(stream.get()));
    if (const std::string text = exchange.wrong(); !text.empty()) throw std::runtime_error(text);
  }
  if (weft_result ended = weft_comm_finalize(comm.get()); ended != WEFT_IN_PROGRESS) {
    must(context.get(), ended);
  }
  wait_for(context.get(), comm.get());
  std::printf("rank %u of %u: %zu calls were right\n", rank, ranks, shapes.size());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.at(0).starts_with("stop-")) {
      stop_and_receive(words);
    } else {
      run(words);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank-program: %s\n", error.what());
    return 1;
  }
}
