// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Four ranks as threads of one process: each draws numbers of its own, and all learn the largest at
// each place. Weft's handles are owned by smart pointers, and its errors become exceptions.

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weft/weft.h>

namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kCount = 1000;

// The text of an error belongs to the thread that met it, and to its context.
void must(weft_context* context, weft_result result, const char* doing) {
  if (result == WEFT_OK) return;
  std::array<char, 1024> text{};
  weft_last_error(context, text.data(), text.size());
  throw std::runtime_error(std::string(doing) + ": " + weft_result_name(result) + ": " +
                           text.data());
}

// Calls a function of C as a deleter; its answer is of no use then.
template <auto kFunction>
struct Calls {
  template <typename T>
  void operator()(T* handle) const {
    (void)kFunction(handle);
  }
};
using Context = std::unique_ptr<weft_context, Calls<weft_context_destroy>>;
using Comm = std::unique_ptr<weft_comm, Calls<weft_comm_destroy>>;
using Stream = std::unique_ptr<weft_stream, Calls<weft_stream_destroy>>;

Context make_context() {
  weft_context* context = nullptr;
  must(nullptr, weft_context_create(nullptr, &context), "create a context");
  return Context(context);
}

Stream make_stream(weft_context* context) {
  weft_stream* stream = nullptr;
  must(context, weft_stream_create(context, &stream), "create a stream");
  return Stream(stream);
}

std::vector<float> largest(weft_context* context, const weft_unique_id& id, std::uint32_t rank,
                           const std::vector<float>& mine) {
  weft_comm* raw = nullptr;
  must(context, weft_comm_init_rank(context, nullptr, kRanks, &id, rank, &raw), "join");
  const Comm comm(raw);
  const Stream stream = make_stream(context);
  std::vector<float> result(mine.size());
  must(context,
       weft_all_reduce(mine.data(), result.data(), mine.size(), WEFT_FLOAT32, WEFT_MAX, comm.get(),
                       stream.get()),
       "all-reduce");
  must(context, weft_stream_synchronize(stream.get()), "wait for the all-reduce");
  return result;
}

std::vector<float> numbers_of(std::uint32_t rank) {
  std::mt19937 random(rank);
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> numbers(kCount);
  for (float& number : numbers)
    number = any(random);
  return numbers;
}

int run() {
  const Context context = make_context();
  weft_unique_id id{};
  must(context.get(), weft_get_unique_id(context.get(), &id), "make a unique id");

  std::array<std::vector<float>, kRanks> results;
  std::array<std::exception_ptr, kRanks> failures;
  {
    std::vector<std::jthread> threads;
    threads.reserve(kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          results[rank] = largest(context.get(), id, rank, numbers_of(rank));
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }

  std::vector<float> expected(kCount, -1);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> numbers = numbers_of(rank);
    for (std::size_t i = 0; i < kCount; ++i)
      expected[i] = numbers[i] > expected[i] ? numbers[i] : expected[i];
  }
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (results[rank] != expected) {
      std::fprintf(stderr, "rank %u got something else\n", rank);
      return 1;
    }
    std::printf("rank %u of %u: the maxima begin with %g\n", rank, kRanks,
                static_cast<double>(results[rank].front()));
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
