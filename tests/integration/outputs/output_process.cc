// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank in a process of its own, whose outputs the others map: output_process ID RANK NRANKS, with
// the unique id in hexadecimal. Its device is host memory, and what a kernel would do it does
// itself. Ends with 0 where all was as it should be, else it says what was not.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <sodium.h>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/bootstrap/bootstrap.h"
#include "core/comm/output_mappings.h"
#include "core/device/host/host_memory.h"
#include "core/device/shared_place.h"
#include "tests/device/lane_model.h"
#include "tests/support/piece_device.h"

namespace weft {
namespace {

constexpr std::size_t kPieces = 3;
constexpr std::size_t kOffset = 4096;
constexpr std::size_t kBytes = 2 * kExportGrain + 16;
constexpr std::chrono::seconds kPatience(60);

template <typename T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("it does not hold that " + what);
}

class Rank {
 public:
  Rank(const UniqueId& id, std::uint32_t rank, std::uint32_t ranks)
      : rank_(rank), ranks_(ranks), reactor_(value(Reactor::create())) {
    BootstrapOptions options;
    options.timeout = kPatience;
    bootstrap_ = value(Bootstrap::join(id, static_cast<int>(rank), static_cast<int>(ranks), options,
                                       *reactor_, log_));
    std::vector<std::uint64_t> pids;
    for (const std::uint64_t pid : gather(static_cast<std::uint64_t>(getpid())))
      pids.push_back(pid);
    timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const auto wake = [timer = timer_.get()] {
      const itimerspec times{.it_interval = {.tv_sec = 0, .tv_nsec = 50'000'000},
                             .it_value = {.tv_sec = 0, .tv_nsec = 1}};
      timerfd_settime(timer, 0, &times, nullptr);
    };
    mappings_ = std::make_unique<OutputMappings>(
        OutputSurroundings{.runtime = device_,
                           .log = log_,
                           .rank = rank,
                           .pids = std::move(pids),
                           .most_bytes = 4 * kPieces * kExportGrain,
                           .map = &map_,
                           .ended = &ended_,
                           .post =
                               [this](std::uint32_t to, std::vector<std::byte> letter) {
                                 bootstrap_->post(static_cast<int>(to), LetterSubject::kOutputs,
                                                  std::move(letter));
                               },
                           .brings =
                               [this](std::uint32_t to) {
                                 return bootstrap_->brings_letters(static_cast<int>(to));
                               },
                           .wake = wake,
                           .has_failed = [] { return false; }},
        value(ProcessWitness::create()));
    bootstrap_->on_letter(LetterSubject::kOutputs,
                          [this](int from, const std::vector<std::byte>& text) {
                            mappings_->take(static_cast<std::uint32_t>(from), text);
                          });
    bootstrap_->on_letter(LetterSubject::kPairs, [](int, const std::vector<std::byte>&) {});
    watch_ = value(reactor_->add(timer_.get(), EPOLLIN, [this](std::uint32_t) {
      std::uint64_t expirations = 0;
      static_cast<void>(read(timer_.get(), &expirations, sizeof(expirations)));
      mappings_->work();
    }));
    wake();
    output_ = device_.reserve_addresses(kPieces * kExportGrain);
    make(true);
  }
  ~Rank() {
    reactor_->remove(watch_);
    bootstrap_->leave();
    mappings_.reset();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void run() {
    expect(!call(), "the first call goes by slots");
    until_mapped();
    for (int i = 0; i < 200; ++i)
      expect(call(), "what is mapped stays so");
    // At the same addresses, by one rank or by all.
    for (std::uint32_t turn = 0; turn < 6; ++turn) {
      const bool mine = turn == ranks_ || turn % ranks_ == rank_;
      if (mine) {
        free();
        make(true);
      }
      expect(!call(), "other memory at the same address is not taken for that of before");
      until_mapped();
    }
    if (rank_ == 0) {
      free();
      make(false);
    }
    for (int i = 0; i < 50; ++i)
      expect(!call(), "what may not be exported goes by slots");
    // Who looks at the memory does so beside the calls.
    const auto told_by = std::chrono::steady_clock::now() + kPatience;
    while (rank_ == 0 && mappings_->last_refusal().empty() &&
           std::chrono::steady_clock::now() < told_by) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expect(rank_ != 0 || mappings_->last_refusal() == "not to be exported",
           "a rank knows why: " + mappings_->last_refusal());
    free();
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (mappings_->bytes_mapped() != 0 || mappings_->bytes_shared() != 0) {
      expect(std::chrono::steady_clock::now() < until, "freed memory goes back");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    gather(0);
  }

 private:
  std::vector<std::uint64_t> gather(std::uint64_t mine) {
    std::vector<std::uint64_t> words;
    for (const auto& block :
         value(bootstrap_->all_gather(std::as_bytes(std::span(&mine, 1)), "words"))) {
      words.push_back(0);
      if (block.size() == sizeof(words.back())) {
        std::memcpy(&words.back(), block.data(), block.size());
      }
    }
    return words;
  }
  void make(bool exportable) {
    for (std::size_t i = 0; i < kPieces; ++i)
      device_.map(output_ + i * kExportGrain, kExportGrain, exportable);
  }
  void free() {
    for (std::size_t i = 0; i < kPieces; ++i)
      device_.unmap(output_ + i * kExportGrain);
  }

  /// Whether it went by outputs: then this rank's was filled by the one before.
  bool call() {
    ++calls_;
    std::byte* const own = output_ + kOffset;
    const std::uint64_t offer = mappings_->offer(own, kBytes);
    const std::uint64_t number = offer != 0 ? mappings_->number_call() : 0;
    const std::vector<std::uint64_t> offers = gather(offer);
    const bool all = std::ranges::count(offers, 0U) == 0;
    if (all) {
      std::memset(own, 0, kBytes);
      gather(0);
      const std::uint32_t next = (rank_ + 1) % ranks_;
      std::atomic<std::uint32_t> abort{0};
      device::testing::LaneMemory memory(abort);
      std::byte* const there = device::shared_place(memory, map_, next, offers[next], kBytes);
      expect(there != nullptr, "what is offered is mapped");
      std::memset(there, static_cast<int>(calls_ + rank_), kBytes);
      gather(0);
      const auto due = static_cast<char>(calls_ + (rank_ + ranks_ - 1) % ranks_);
      expect(std::memcmp(own, std::string(kBytes, due).data(), kBytes) == 0,
             "the rank before has filled the output");
    }
    if (number != 0) std::atomic_ref(ended_).store(number, std::memory_order_release);
    return all;
  }
  void until_mapped() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!call())
      expect(std::chrono::steady_clock::now() < until, "outputs come to be mapped");
  }

  const std::uint32_t rank_;
  const std::uint32_t ranks_;
  Logger log_;
  test::PieceDevice device_;
  OutputMap map_{};
  std::uint64_t ended_ = 0;
  std::uint64_t calls_ = 0;
  std::byte* output_ = nullptr;
  UniqueFd timer_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<OutputMappings> mappings_;
  Reactor::WatchId watch_ = 0;
};

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  weft::UniqueId id;
  const std::string_view hex(argv[1]);
  if (sodium_hex2bin(reinterpret_cast<unsigned char*>(id.bytes.data()), id.bytes.size(), hex.data(),
                     hex.size(), nullptr, nullptr, nullptr) != 0) {
    return 2;
  }
  try {
    weft::Rank rank(id, static_cast<std::uint32_t>(std::atoi(argv[2])),
                    static_cast<std::uint32_t>(std::atoi(argv[3])));
    rank.run();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "rank %s: %s\n", argv[2], problem.what());
    return 1;
  }
  return 0;
}
