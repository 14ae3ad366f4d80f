// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/hop.h"

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

constexpr size_t kMessageBytes = 64;

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

/// Words in host memory, each in a line of its own, that a GPU reaches, too.
struct Words {
  alignas(128) uint64_t told;  // what its kernel sends
  alignas(128) uint64_t come;  // what has come for it
};

class HopProbe {
 public:
  HopProbe() {
    CHECK(cudaHostAlloc(&words_, 2 * sizeof(Words), cudaHostAllocPortable | cudaHostAllocMapped));
    std::memset(words_, 0, 2 * sizeof(Words));
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      CHECK(cudaStreamCreateWithFlags(&streams_[static_cast<size_t>(gpu)], cudaStreamNonBlocking));
    }
  }

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
    return median(times);
  }

 private:
  static constexpr uint32_t kTurns = 2000;
  static constexpr int kRounds = 7;

  static std::atomic_ref<uint64_t> word(uint64_t& of) { return std::atomic_ref(of); }

  double one_round(uint64_t before) {
    const auto begin = Clock::now();
    for (int gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      launch_bounce(streams_[static_cast<size_t>(gpu)], gpu == 0, &words_[gpu].told,
                    &words_[gpu].come, before, kTurns);
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
    std::array<uint64_t, kMessageBytes / sizeof(uint64_t)> message{};
    while (!over_.load(std::memory_order_relaxed)) {
      const uint64_t told = word(words_[gpu].told).load(std::memory_order_acquire);
      if (told == message[0]) continue;
      message[0] = told;
      if (send(connection_.end_of(gpu), message.data(), sizeof message, MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof message)) {
        broken_.store(errno);
        return;
      }
    }
  }

  void take_in(int gpu) {
    std::array<std::byte, kMessageBytes> message{};
    size_t have = 0;
    while (!over_.load(std::memory_order_relaxed)) {
      const ssize_t got =
          recv(connection_.end_of(gpu), message.data() + have, message.size() - have, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) {
        broken_.store(got == 0 ? ECONNRESET : errno);
        return;
      }
      have += static_cast<size_t>(got);
      if (have < message.size()) continue;
      have = 0;
      uint64_t told = 0;
      std::memcpy(&told, message.data(), sizeof told);
      word(words_[gpu].come).store(told, std::memory_order_release);
    }
  }

  void end(std::vector<std::thread>& threads) {
    over_.store(true);
    for (std::thread& thread : threads)
      thread.join();
  }

  Connection connection_;
  Words* words_ = nullptr;  // of each GPU
  std::array<cudaStream_t, 2> streams_{};
  std::atomic<bool> over_{false};
  std::atomic<int> broken_{0};  // errno of the thread that could not go on
};

}  // namespace

void probe_hop(const Options& options) {
  const double us = HopProbe().median_us();
  std::printf("link GPU 0 -> GPU 1 through TCP, %zu bytes %8.2f us\n", kMessageBytes, us);
  std::fflush(stdout);
  append_json(options, text("{\"kind\": \"link\", \"between\": \"GPU 0 -> GPU 1\", "
                            "\"what\": \"TCP on loopback\", \"bytes\": %zu, \"us\": %.2f}",
                            kMessageBytes, us));
}

}  // namespace weft::gpu_bench
