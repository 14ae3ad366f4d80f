// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/hop.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "bench/gpu/basics.h"
#include "bench/gpu/kernels.h"

namespace weft::gpu_bench {

namespace {

// A message begins with its number, in a line of its own.
constexpr size_t kNumberBytes = 64;
constexpr size_t kPayloads[] = {0, 512, 2048, 8192, 16384};
constexpr size_t kMostBytes = 16384;

void need(bool done, const char* call) {
  if (!done) throw Failure{text("%s: %s", call, std::strerror(errno))};
}

class Descriptor {
 public:
  explicit Descriptor(int fd, const char* call) : fd_(fd) { need(fd >= 0, call); }
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

/// Both ends of a connection over loopback.
class Connection {
 public:
  Connection()
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"),
        near_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"),
        far_(join(), "accept") {
    const int on = 1;
    for (const int fd : {near_.get(), far_.get()})
      need(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "setsockopt");
  }
  [[nodiscard]] int end_of(int gpu) const { return gpu == 0 ? near_.get() : far_.get(); }

 private:
  int join() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    need(bind(listener_.get(), raw, size) == 0, "bind");
    need(listen(listener_.get(), 1) == 0, "listen");
    need(getsockname(listener_.get(), raw, &size) == 0, "getsockname");
    need(connect(near_.get(), raw, size) == 0, "connect");
    return accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  }

  Descriptor listener_;
  Descriptor near_;
  Descriptor far_;
};

/// In host memory, which a GPU reaches, too: what it sends, and what has come for it. Messages
/// begin with the number.
struct Message {
  alignas(128) std::array<uint64_t, kNumberBytes / sizeof(uint64_t)> number;
  std::array<uint64_t, kMostBytes / sizeof(uint64_t)> payload;
};
struct Words {
  alignas(128) uint64_t told;
  alignas(128) uint64_t come;
  Message sent;
  Message received;
};

class HopProbe {
 public:
  explicit HopProbe(size_t payload) : bytes_(kNumberBytes + payload), payload_(payload) {
    CHECK(cudaHostAlloc(&words_, 2 * sizeof(Words), cudaHostAllocPortable | cudaHostAllocMapped));
    std::memset(static_cast<void*>(words_), 0, 2 * sizeof(Words));
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(static_cast<int>(gpu)));
      CHECK(cudaStreamCreateWithFlags(&streams_[gpu], cudaStreamNonBlocking));
      CHECK(cudaMalloc(&own_[gpu], kMostBytes));
      CHECK(cudaMemset(own_[gpu], static_cast<int>(gpu) + 1, kMostBytes));
      CHECK(cudaDeviceSynchronize());
    }
  }
  ~HopProbe() {
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      static_cast<void>(cudaFree(own_[gpu]));
      static_cast<void>(cudaStreamDestroy(streams_[gpu]));
    }
    static_cast<void>(cudaFreeHost(words_));
  }
  HopProbe(const HopProbe&) = delete;
  HopProbe& operator=(const HopProbe&) = delete;

  double median_us() {
    std::vector<std::thread> threads;
    for (int gpu = 0; gpu < 2; ++gpu) {
      threads.emplace_back([this, gpu] { pass_on(gpu); });
      threads.emplace_back([this, gpu] { take_in(gpu); });
    }
    std::vector<double> times;
    try {
      for (int round = 0; round <= kRounds; ++round) {
        const double seconds = one_round(static_cast<uint64_t>(round) * kTurns);
        if (round != 0) times.push_back(seconds * 1e6 / (2.0 * kTurns));
      }
    } catch (...) {
      end(threads);
      throw;
    }
    end(threads);
    check_payload();
    return median(times);
  }

 private:
  static constexpr uint32_t kTurns = 2000;
  static constexpr int kRounds = 7;

  static std::atomic_ref<uint64_t> word(uint64_t& of) { return std::atomic_ref(of); }

  // GPU 0 had ones, GPU 1 twos: what has gone round is GPU 0's.
  void check_payload() {
    std::vector<std::byte> come(payload_);
    CHECK(cudaMemcpy(come.data(), own_[1], payload_, cudaMemcpyDeviceToHost));
    if (std::ranges::all_of(come, [](std::byte one) { return one == std::byte{1}; })) return;
    throw Failure{text("a message of %zu bytes over loopback came with others", payload_)};
  }

  double one_round(uint64_t before) {
    const auto begin = Clock::now();
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      Words& words = words_[gpu];
      const Mailbox box{.told = &words.told,
                        .come = &words.come,
                        .sent = words.sent.payload.data(),
                        .received = words.received.payload.data(),
                        .own = own_[static_cast<size_t>(gpu)],
                        .words = static_cast<uint32_t>(payload_ / sizeof(uint64_t))};
      launch_bounce(streams_[static_cast<size_t>(gpu)], gpu == 0, box, before, kTurns);
    }
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      CHECK(cudaStreamSynchronize(streams_[static_cast<size_t>(gpu)]));
    }
    if (const uint64_t come = word(words_[0].come).load(); come != before + kTurns) {
      const int broken = broken_.load();
      throw Failure{
          text("of %u messages over loopback from GPU to GPU %llu came back: %s", kTurns,
               static_cast<unsigned long long>(come - before),
               broken == 0 ? "the others took more than two seconds" : std::strerror(broken))};
    }
    return seconds_since(begin);
  }

  void pass_on(int gpu) {
    Words& words = words_[gpu];
    while (!over_.load(std::memory_order_relaxed)) {
      const uint64_t told = word(words.told).load(std::memory_order_acquire);
      if (told == words.sent.number[0]) continue;
      words.sent.number[0] = told;
      const ssize_t sent = send(connection_.end_of(gpu), &words.sent, bytes_, MSG_NOSIGNAL);
      if (sent == static_cast<ssize_t>(bytes_)) continue;
      broken_.store(sent < 0 ? errno : EIO);
      return;
    }
  }

  void take_in(int gpu) {
    Words& words = words_[gpu];
    auto* const to = reinterpret_cast<std::byte*>(&words.received);
    size_t have = 0;
    while (!over_.load(std::memory_order_relaxed)) {
      const ssize_t got = recv(connection_.end_of(gpu), to + have, bytes_ - have, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) {
        broken_.store(got == 0 ? ECONNRESET : errno);
        return;
      }
      have += static_cast<size_t>(got);
      if (have < bytes_) continue;
      have = 0;
      word(words.come).store(words.received.number[0], std::memory_order_release);
    }
  }

  void end(std::vector<std::thread>& threads) {
    over_.store(true);
    for (std::thread& thread : threads)
      thread.join();
  }

  const size_t bytes_;  // of a message
  const size_t payload_;
  Connection connection_;
  Words* words_ = nullptr;  // of each GPU
  std::array<uint64_t*, 2> own_{};
  std::array<cudaStream_t, 2> streams_{};
  std::atomic<bool> over_{false};
  std::atomic<int> broken_{0};  // errno of the thread that could not go on
};

}  // namespace

void probe_hop(const Options& options) {
  for (const size_t payload : kPayloads) {
    const double us = HopProbe(payload).median_us();
    const size_t bytes = payload == 0 ? kNumberBytes : payload;
    std::printf("link GPU 0 -> GPU 1 through TCP, %5zu bytes%s %8.2f us\n", bytes,
                payload == 0 ? "" : " of payload", us);
    std::fflush(stdout);
    append_json(options, text("{\"kind\": \"link\", \"between\": \"GPU 0 -> GPU 1\", "
                              "\"what\": \"TCP on loopback%s\", \"bytes\": %zu, \"us\": %.2f}",
                              payload == 0 ? "" : ", payload copied by the GPUs", bytes, us));
  }
}

}  // namespace weft::gpu_bench
