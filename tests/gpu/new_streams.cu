// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Whether ranks of one process that share a GPU get on while their streams are new: CUDA alone,
// nothing of the library is in it. A thread for each rank makes streams and launches kernels that
// wait for those of all others, as a collective call does. All have room on the GPU, and the driver
// has queues for all. In each way the streams are first used in another manner; what does not
// come to its end is told, ended by a word that the kernels look at, and tried again.
//
// It judges the driver, not a pattern: its status says only whether it could be asked. 0 it was; 1
// CUDA failed; 2 usage; 77 no CUDA device.
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

#include "tests/gpu/command_line.h"

namespace {

using weft::gpu_test::number_of;
using weft::gpu_test::usage_error;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMostRanks = 32;
constexpr std::uint32_t kMostStreams = 4;  // of a rank
constexpr std::uint32_t kLine = 32;        // words between the flags of two ranks
constexpr std::size_t kCopied = 2048;
constexpr std::uint32_t kLooks = 256;  // between two at the host's memory

constexpr const char* kUsage =
    "new_streams: whether ranks of one process that share a GPU get on while their streams are "
    "new\n"
    "  --seconds=N    for each way (10)\n"
    "  --ranks=N      threads, each a rank (4)\n"
    "  --streams=N    of each, between which its calls alternate at random (1)\n"
    "  --calls=N      at most, before it waits for all of them (8)\n"
    "  --others=N     streams beside them, which have been used and have nothing to do (0)\n"
    "  --copies       a call is a meeting, a copy and a meeting, instead of a meeting\n"
    "  --patience=N   milliseconds without an end that are told as a stop (1000)\n"
    "  --seed=N       of what is drawn (1)\n"
    "  --ways=A,B     these alone (all):\n";

// ---- kernels ----

struct Meeting {
  std::uint32_t* flags[kMostRanks];    // of each rank, a line for each other one
  const volatile std::uint32_t* ends;  // of the host: not zero once nobody is to wait any more
  volatile std::uint32_t* begun;       // of the host, of this rank
  std::uint32_t rank;
  std::uint32_t ranks;
  std::uint32_t number;
};

__device__ std::uint32_t load_acquire(const std::uint32_t* at) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ void store_release(std::uint32_t* at, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// One warp: a lane tells one rank that this one is here, and waits until that one is. Numbers rise.
__global__ void meet(Meeting meeting) {
  if (threadIdx.x == 0) *meeting.begun = meeting.number;
  const std::uint32_t other = threadIdx.x;
  if (other >= meeting.ranks) return;
  store_release(meeting.flags[other] + meeting.rank * kLine, meeting.number);
  const std::uint32_t* told = meeting.flags[meeting.rank] + other * kLine;
  for (std::uint32_t looks = 1; load_acquire(told) < meeting.number; ++looks) {
    if (looks % kLooks == 0 && *meeting.ends != 0) return;
  }
}

__global__ void nothing() {}

// ---- the host ----

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  std::cout << "new_streams: " << call << ": " << cudaGetErrorName(result) << ": "
            << cudaGetErrorString(result) << std::endl;
  _exit(1);  // other threads may wait for this one
}
#define CUDA(call) check(call, #call)

/// How the streams of a try are first used.
struct Way {
  const char* name;
  const char* text;
  enum class First : std::uint8_t {
    kCalls,
    kCopy,
    kKernel,
    kEvent,
    kWait,
    kInTurn
  } first = First::kCalls;
  bool before = true;           ///< All of that is over before any rank calls.
  bool is_awaited = true;       ///< Each thread waits for its own.
  bool locked = false;          ///< By one thread at a time.
  bool calls_locked = false;    ///< So is each call into CUDA but for waits.
  bool has_priorities = false;  ///< Each rank's streams have another one, as far as there are some.
  /// Whose streams are new; those of the others are the same in all tries.
  enum class New : std::uint8_t { kAll, kFirstRank, kNone } which = New::kAll;
  bool made_in_turn = false;  ///< By one thread.
};

using First = Way::First;
using New = Way::New;
constexpr std::array<Way, 17> kWays{{
    {.name = "calls", .text = "by the calls themselves, by all threads at once"},
    {.name = "locked-calls",
     .text = "by the calls, of which one thread at a time makes one",
     .calls_locked = true},
    {.name = "priorities",
     .text = "by the calls, and each rank's streams have another priority",
     .has_priorities = true},
    {.name = "copy",
     .text = "by a copy from the host each, before any call",
     .first = First::kCopy},
    {.name = "event", .text = "by an event each, before any call", .first = First::kEvent},
    {.name = "wait",
     .text = "by the wait for an event that is over, before any call",
     .first = First::kWait},
    {.name = "wait-beside",
     .text = "the same as the first of each thread's calls, for which nobody waits",
     .first = First::kWait,
     .before = false,
     .is_awaited = false},
    {.name = "kernel", .text = "by a kernel each, before any call", .first = First::kKernel},
    {.name = "locked-kernel",
     .text = "by a kernel each, one thread at a time, before any call",
     .first = First::kKernel,
     .locked = true},
    {.name = "in-turn",
     .text = "by a kernel each, all by one thread, before any call",
     .first = First::kInTurn},
    {.name = "kernel-beside",
     .text = "by a kernel each, for which its thread waits, while others may call already",
     .first = First::kKernel,
     .before = false},
    {.name = "locked-kernel-beside",
     .text = "the same, one thread at a time",
     .first = First::kKernel,
     .before = false,
     .locked = true},
    {.name = "locked-kernel-unawaited",
     .text = "the same, and nobody waits for the kernel",
     .first = First::kKernel,
     .before = false,
     .is_awaited = false,
     .locked = true},
    {.name = "all-locked",
     .text = "as locked-kernel-beside, and calls as locked-calls",
     .first = First::kKernel,
     .before = false,
     .locked = true,
     .calls_locked = true},
    {.name = "made-in-turn", .text = "by the calls, but made by one thread", .made_in_turn = true},
    {.name = "one-rank",
     .text = "by the calls, but those of the first rank alone are new",
     .which = New::kFirstRank},
    {.name = "kept", .text = "not at all: none is new", .which = New::kNone},
}};

struct Wanted {
  double seconds = 10;
  std::uint32_t ranks = 4;
  std::uint32_t streams = 1;
  std::uint32_t calls = 8;
  std::uint32_t others = 0;
  std::uint64_t seed = 1;
  std::chrono::milliseconds patience{1000};
  bool copies = false;
  std::vector<std::string_view> ways;  // empty: all
};

/// One way, tried for a while.
class Trial {
 public:
  Trial(const Wanted& wanted, const Way& way)
      : wanted_(wanted), way_(way), together_(wanted.ranks), ranks_(wanted.ranks) {
    void* host = nullptr;
    CUDA(cudaHostAlloc(&host, (1 + kMostRanks) * sizeof(std::uint32_t), cudaHostAllocDefault));
    ends_ = static_cast<volatile std::uint32_t*>(host);
    begun_ = ends_ + 1;
    for (std::uint32_t i = 0; i <= kMostRanks; ++i)
      ends_[i] = 0;
    for (Rank& rank : ranks_) {
      void* memory = nullptr;
      CUDA(cudaMalloc(&memory, kMostRanks * kLine * sizeof(std::uint32_t)));
      CUDA(cudaMemset(memory, 0, kMostRanks * kLine * sizeof(std::uint32_t)));
      rank.flags = static_cast<std::uint32_t*>(memory);
      CUDA(cudaMalloc(&memory, 2 * kCopied));
      rank.bytes = static_cast<std::byte*>(memory);
      rank.streams.resize(wanted.streams);
      CUDA(cudaEventCreateWithFlags(&rank.event, cudaEventDisableTiming));
    }
    for (std::uint32_t rank = 0; rank < wanted.ranks; ++rank) {
      if (is_new(rank)) continue;
      open_streams(rank);
      use_in_turn(rank);
    }
    others_.resize(wanted.others);
    for (cudaStream_t& stream : others_) {
      CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      use(stream);
      CUDA(cudaStreamSynchronize(stream));
    }
    CUDA(cudaEventCreateWithFlags(&over_before_, cudaEventDisableTiming));
    use(nullptr);
    CUDA(cudaEventRecord(over_before_, nullptr));
    CUDA(cudaDeviceSynchronize());
  }
  ~Trial() {
    for (std::uint32_t rank = 0; rank < wanted_.ranks; ++rank) {
      if (!is_new(rank)) close_streams(rank);
    }
    for (const Rank& rank : ranks_) {
      CUDA(cudaFree(rank.flags));
      CUDA(cudaFree(rank.bytes));
      CUDA(cudaEventDestroy(rank.event));
    }
    for (cudaStream_t stream : others_)
      CUDA(cudaStreamDestroy(stream));
    CUDA(cudaEventDestroy(over_before_));
    CUDA(cudaFreeHost(const_cast<std::uint32_t*>(ends_)));
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void run() {
    const Clock::time_point begin = Clock::now();
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < wanted_.ranks; ++rank) {
      threads.emplace_back([this, rank, begin] {
        CUDA(cudaSetDevice(0));
        do {
          attempt(rank);
          together_.arrive_and_wait();
          if (rank == 0) note(begin);
          together_.arrive_and_wait();
        } while (!over_);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }

  void tell() const {
    std::printf("%-24s %8u tries %5u stopped (%u: one rank alone had not come to it)  %s\n",
                way_.name, tries_, stops_, alone_, way_.text);
    std::fflush(stdout);
  }

 private:
  struct Rank {
    std::uint32_t* flags = nullptr;
    std::byte* bytes = nullptr;
    std::vector<cudaStream_t> streams;
    cudaEvent_t event = nullptr;
    std::uint32_t number = 0;  // of its latest meeting
  };

  [[nodiscard]] bool is_new(std::uint32_t rank) const {
    return way_.which == New::kAll || (way_.which == New::kFirstRank && rank == 0);
  }

  void open_streams(std::uint32_t rank) {
    int least = 0;
    int greatest = 0;  // the smaller number
    CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    const int priority =
        way_.has_priorities ? least - static_cast<int>(rank) % (least - greatest + 1) : least;
    for (cudaStream_t& stream : ranks_[rank].streams)
      CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  }
  void close_streams(std::uint32_t rank) {
    for (cudaStream_t stream : ranks_[rank].streams)
      CUDA(cudaStreamDestroy(stream));
  }

  static void use(cudaStream_t stream) {
    nothing<<<1, 1, 0, stream>>>();
    CUDA(cudaGetLastError());
  }
  void use_in_turn(std::uint32_t rank) {
    for (cudaStream_t stream : ranks_[rank].streams) {
      use(stream);
      CUDA(cudaStreamSynchronize(stream));
    }
  }
  void for_each_rank_by_one_thread(std::uint32_t own, void (Trial::*act)(std::uint32_t)) {
    together_.arrive_and_wait();
    for (std::uint32_t rank = 0; own == 0 && rank < wanted_.ranks; ++rank)
      (this->*act)(rank);
    together_.arrive_and_wait();
  }

  void first_use(std::uint32_t rank) {
    Rank& own = ranks_[rank];
    if (way_.first == First::kInTurn) {
      for_each_rank_by_one_thread(rank, &Trial::use_in_turn);
    } else if (way_.first != First::kCalls) {
      std::unique_lock lock(lock_, std::defer_lock);
      if (way_.locked) lock.lock();
      for (cudaStream_t stream : own.streams) {
        std::array<char, kCopied> host{};
        if (way_.first == First::kKernel) use(stream);
        if (way_.first == First::kWait) CUDA(cudaStreamWaitEvent(stream, over_before_, 0));
        if (way_.first == First::kEvent) CUDA(cudaEventRecord(own.event, stream));
        if (way_.first == First::kCopy) {
          CUDA(cudaMemcpyAsync(own.bytes, host.data(), kCopied, cudaMemcpyDefault, stream));
        }
        if (way_.is_awaited) await(stream);
      }
    }
    if (way_.before) together_.arrive_and_wait();
  }

  template <class Call>
  void locked(const Call& call) {
    std::unique_lock lock(lock_, std::defer_lock);
    if (way_.calls_locked) lock.lock();
    call();
  }

  void launch_meeting(std::uint32_t rank, cudaStream_t stream) {
    Meeting meeting{.flags = {},
                    .ends = ends_,
                    .begun = begun_ + rank,
                    .rank = rank,
                    .ranks = wanted_.ranks,
                    .number = ++ranks_[rank].number};
    for (std::uint32_t other = 0; other < wanted_.ranks; ++other)
      meeting.flags[other] = ranks_[other].flags;
    meet<<<1, 32, 0, stream>>>(meeting);
    CUDA(cudaGetLastError());
  }

  /// Calls that are alike on all ranks.
  void call(std::uint32_t rank) {
    Rank& own = ranks_[rank];
    std::mt19937_64 draws(wanted_.seed * 0x9E3779B97F4A7C15U + tries_);
    std::size_t last = draws() % own.streams.size();
    for (std::uint64_t calls = 1 + draws() % wanted_.calls; calls > 0; --calls) {
      const std::size_t next = draws() % own.streams.size();
      cudaStream_t stream = own.streams[next];
      locked([&] {
        if (next != last) {
          CUDA(cudaEventRecord(own.event, own.streams[last]));
          CUDA(cudaStreamWaitEvent(stream, own.event, 0));
        }
        launch_meeting(rank, stream);
        if (!wanted_.copies) return;
        CUDA(cudaMemcpyAsync(own.bytes + kCopied, own.bytes, kCopied, cudaMemcpyDefault, stream));
        launch_meeting(rank, stream);
      });
      last = next;
    }
  }

  /// Whoever waits for too long has all kernels of this try end.
  void await(cudaStream_t stream) {
    const Clock::time_point begin = Clock::now();
    cudaError_t state = cudaErrorNotReady;
    while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) {
      if (*ends_ != 0 || Clock::now() - begin < wanted_.patience) continue;
      const std::scoped_lock lock(ending_);
      if (*ends_ != 0) continue;
      count_who_came();
      *ends_ = 1;
    }
    CUDA(state);
  }

  void count_who_came() {
    std::vector<std::uint32_t> begun;
    for (std::uint32_t rank = 0; rank < wanted_.ranks; ++rank) {
      const std::uint32_t number = begun_[rank];
      begun.push_back(number);
    }
    const auto furthest = std::ranges::max(begun);
    const auto waiting = std::ranges::count(begun, furthest);
    if (waiting + 1 == static_cast<std::ptrdiff_t>(wanted_.ranks)) ++alone_;
  }

  void attempt(std::uint32_t rank) {
    Rank& own = ranks_[rank];
    if (way_.made_in_turn) {
      for_each_rank_by_one_thread(rank, &Trial::open_streams);
    } else if (is_new(rank)) {
      locked([&] { open_streams(rank); });
    }
    if (way_.which == New::kAll) first_use(rank);
    call(rank);
    for (cudaStream_t stream : own.streams)
      await(stream);
    together_.arrive_and_wait();  // nobody destroys a stream while others may wait
    if (is_new(rank)) locked([&] { close_streams(rank); });
  }

  /// After a try, by one thread while the others wait.
  void note(Clock::time_point begin) {
    ++tries_;
    if (*ends_ != 0) ++stops_;
    *ends_ = 0;
    over_ = std::chrono::duration<double>(Clock::now() - begin).count() >= wanted_.seconds;
  }

  const Wanted& wanted_;
  const Way& way_;
  std::barrier<> together_;
  std::vector<Rank> ranks_;  // each its thread's
  // Of the host, of which kernels look at the first and write the others.
  volatile std::uint32_t* ends_ = nullptr;
  volatile std::uint32_t* begun_ = nullptr;
  std::vector<cudaStream_t> others_;
  cudaEvent_t over_before_ = nullptr;
  std::mutex lock_;
  std::mutex ending_;
  // Written by one thread between two meetings of all, or under ending_.
  std::uint32_t tries_ = 0;
  std::uint32_t stops_ = 0;
  std::uint32_t alone_ = 0;
  bool over_ = false;
};

std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    names.push_back(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(names.back().size() + 1, list.size()));
  }
  return names;
}

bool is_way(std::string_view name) {
  return std::ranges::any_of(kWays, [&](const Way& way) { return way.name == name; });
}

Wanted parse(int argc, char** argv) {
  Wanted wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string_view name = argument.substr(0, argument.find('='));
    const std::string_view value = argument.substr(std::min(name.size() + 1, argument.size()));
    if (name == "--seconds") {
      wanted.seconds = number_of<double>(value);
    } else if (name == "--ranks") {
      wanted.ranks = number_of<std::uint32_t>(value);
    } else if (name == "--streams") {
      wanted.streams = number_of<std::uint32_t>(value);
    } else if (name == "--calls") {
      wanted.calls = number_of<std::uint32_t>(value);
    } else if (name == "--others") {
      wanted.others = number_of<std::uint32_t>(value);
    } else if (name == "--patience") {
      wanted.patience = std::chrono::milliseconds(number_of<std::uint32_t>(value));
    } else if (name == "--seed") {
      wanted.seed = number_of<std::uint64_t>(value);
    } else if (name == "--copies") {
      wanted.copies = true;
    } else if (name == "--ways") {
      wanted.ways = names_in(value);
    } else if (name == "--help") {
      std::cout << kUsage;
      for (const Way& way : kWays)
        std::printf("    %-24s %s\n", way.name, way.text);
      std::exit(0);
    } else {
      usage_error("unknown option " + std::string(argument));
    }
  }
  for (const std::string_view way : wanted.ways) {
    if (!is_way(way)) usage_error("there is no way called \"" + std::string(way) + '"');
  }
  if (wanted.ranks < 2 || wanted.ranks > kMostRanks) usage_error("there are 2 to 32 ranks");
  if (wanted.streams < 1 || wanted.streams > kMostStreams) usage_error("there are 1 to 4 streams");
  if (wanted.calls < 1) usage_error("there is one call at least");
  return wanted;
}

}  // namespace

int main(int argc, char** argv) {
  const Wanted wanted = parse(argc, argv);
  // As in gpu_test: queues for the streams of all ranks, and no kernel is loaded while others spin.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::cerr << "new_streams: no CUDA device can be used here\n";
    return 77;
  }
  std::cout << wanted.ranks << " ranks, " << wanted.streams << " streams each, up to "
            << wanted.calls << " calls, " << wanted.others << " other streams"
            << (wanted.copies ? " with copies" : "") << ", "
            << std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") << " queues, --seed=" << wanted.seed
            << "; streams are first used:" << std::endl;
  for (const Way& way : kWays) {
    if (!wanted.ways.empty() && std::ranges::count(wanted.ways, way.name) == 0) continue;
    const auto trial = std::make_unique<Trial>(wanted, way);
    trial->run();
    trial->tell();
  }
  return 0;
}
