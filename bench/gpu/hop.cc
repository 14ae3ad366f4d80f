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
#include <future>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "bench/gpu/basics.h"
#include "bench/gpu/kernels.h"

namespace weft::gpu_bench {

namespace {

// A message begins with its number, in a line of its own.
constexpr size_t kNumberBytes = 64;
constexpr size_t kPayloads[] = {0, 512, 2048, 8192, 16384, 32768};
constexpr size_t kMostBytes = 32768;
// Less is not worth a connection more.
constexpr size_t kLeastDivided = 8192;

enum class Sending {
  kByTurns,  ///< A GPU answers what it got.
  kAtOnce,   ///< Both send, and receive then.
  kInCalls,  ///< So, and each time by a kernel of its own, as a library's calls.
};
constexpr std::pair<Sending, const char*> kNames[] = {
    {Sending::kByTurns, "GPU 0 -> GPU 1"},
    {Sending::kAtOnce, "GPU 0 <-> GPU 1"},
    {Sending::kInCalls, "GPU 0 <-> GPU 1, a kernel each"},
};
constexpr size_t kConnections[] = {1, 2, 4};

/// How messages go: of how many bytes of payload, by how many connections side by side each way,
/// which carry a part each.
struct Way {
  Sending sending;
  size_t payload;
  size_t connections;
};

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
  [[nodiscard]] int end_of(size_t gpu) const { return gpu == 0 ? near_.get() : far_.get(); }

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
  std::array<Message, 2> sent;  // by turns, as what is received
  std::array<Message, 2> received;
};

class HopProbe {
 public:
  explicit HopProbe(const Way& way)
      : way_(way),
        part_(way.payload / way.connections),
        bytes_(kNumberBytes + part_),
        connections_(2 * way.connections) {
    CHECK(cudaHostAlloc(&words_, 2 * kMostMailboxes * sizeof(Words),
                        cudaHostAllocPortable | cudaHostAllocMapped));
    std::memset(static_cast<void*>(words_), 0, 2 * kMostMailboxes * sizeof(Words));
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      CHECK(cudaSetDevice(static_cast<int>(gpu)));
      CHECK(cudaStreamCreateWithFlags(&streams_[gpu], cudaStreamNonBlocking));
      CHECK(cudaMalloc(&own_[gpu], kMostBytes));
      CHECK(cudaMemset(own_[gpu], static_cast<int>(gpu) + 1, kMostBytes));
      CHECK(cudaMalloc(&meetings_[gpu], sizeof *meetings_[gpu]));
      CHECK(cudaMemset(meetings_[gpu], 0, sizeof *meetings_[gpu]));
      CHECK(cudaDeviceSynchronize());
    }
  }
  ~HopProbe() {
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      static_cast<void>(cudaFree(meetings_[gpu]));
      static_cast<void>(cudaFree(own_[gpu]));
      static_cast<void>(cudaStreamDestroy(streams_[gpu]));
    }
    static_cast<void>(cudaFreeHost(words_));
  }
  HopProbe(const HopProbe&) = delete;
  HopProbe& operator=(const HopProbe&) = delete;

  /// Of a message one way, or of two that pass each other.
  double median_us() {
    std::vector<std::thread> threads;
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      for (size_t i = 0; i < way_.connections; ++i) {
        threads.emplace_back([this, gpu, i] { pass_on(gpu, i); });
        threads.emplace_back([this, gpu, i] { take_in(gpu, i); });
      }
    }
    std::vector<double> times;
    try {
      for (int round = 0; round < kRounds; ++round) {
        const double seconds = one_round(static_cast<uint64_t>(round) * kTurns);
        if (round != 0) times.push_back(seconds * 1e6 / (goes_both_ways() ? kTurns : 2.0 * kTurns));
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
  // Both are odd: so GPUs that send at once have each other's payload in the end.
  static constexpr uint32_t kTurns = 2001;
  static constexpr int kRounds = 9;

  static std::atomic_ref<uint64_t> word(uint64_t& of) { return std::atomic_ref(of); }
  // A connection goes one way: a thread that sends holds up who receives by the same socket.
  Connection& outgoing(size_t gpu, size_t connection) {
    return connections_[gpu * way_.connections + connection];
  }
  [[nodiscard]] bool goes_both_ways() const { return way_.sending != Sending::kByTurns; }
  Words& words_of(size_t gpu, size_t connection) {
    return words_[gpu * kMostMailboxes + connection];
  }

  // GPU 0 had ones, GPU 1 twos. Sent by turns what has gone round is GPU 0's.
  void check_payload() {
    for (size_t gpu = 0; gpu < 2; ++gpu) {
      const std::byte wanted{goes_both_ways() && gpu == 0 ? uint8_t{2} : uint8_t{1}};
      std::vector<std::byte> come(way_.payload);
      CHECK(cudaMemcpy(come.data(), own_[gpu], come.size(), cudaMemcpyDeviceToHost));
      if (std::ranges::all_of(come, [wanted](std::byte one) { return one == wanted; })) continue;
      throw Failure{text("messages of %zu bytes over loopback came with others", way_.payload)};
    }
  }

  Mailboxes mailboxes_of(size_t gpu) {
    Mailboxes boxes{
        .box = {}, .count = static_cast<uint32_t>(way_.connections), .meeting = meetings_[gpu]};
    for (size_t i = 0; i < way_.connections; ++i) {
      Words& words = words_of(gpu, i);
      boxes.box[i] = {
          .told = &words.told,
          .come = &words.come,
          .sent = {words.sent[0].payload.data(), words.sent[1].payload.data()},
          .received = {words.received[0].payload.data(), words.received[1].payload.data()},
          .own = own_[gpu] + i * part_ / sizeof(uint64_t),
          .words = static_cast<uint32_t>(part_ / sizeof(uint64_t))};
    }
    return boxes;
  }

  void launch(size_t gpu, uint64_t before) {
    CHECK(cudaSetDevice(static_cast<int>(gpu)));
    const Mailboxes boxes = mailboxes_of(gpu);
    const Turn by_turns = gpu == 0 ? Turn::kLeads : Turn::kFollows;
    const Turn turn = goes_both_ways() ? Turn::kBoth : by_turns;
    const uint32_t in_each = way_.sending == Sending::kInCalls ? 1 : kTurns;
    for (uint32_t done = 0; done < kTurns; done += in_each)
      launch_messages(streams_[gpu], turn, boxes, before + done, in_each);
    CHECK(cudaStreamSynchronize(streams_[gpu]));
  }

  double one_round(uint64_t before) {
    const auto begin = Clock::now();
    auto other = std::async(std::launch::async, [&] { launch(1, before); });
    launch(0, before);
    other.get();
    for (size_t i = 0; i < 2 * way_.connections; ++i) {
      const uint64_t come = word(words_of(i % 2, i / 2).come).load();
      if (come == before + kTurns) continue;
      const int broken = broken_.load();
      throw Failure{
          text("of %u messages over loopback to GPU %zu %llu came: %s", kTurns, i % 2,
               static_cast<unsigned long long>(come - before),
               broken == 0 ? "the others took more than two seconds" : std::strerror(broken))};
    }
    return seconds_since(begin);
  }

  void pass_on(size_t gpu, size_t connection) {
    Words& words = words_of(gpu, connection);
    const int fd = outgoing(gpu, connection).end_of(gpu);
    for (uint64_t number = 1; !over_.load(std::memory_order_relaxed);) {
      if (word(words.told).load(std::memory_order_acquire) < number) continue;
      Message& message = words.sent[number % 2];
      message.number[0] = number;
      const ssize_t sent = send(fd, &message, bytes_, MSG_NOSIGNAL);
      if (sent != static_cast<ssize_t>(bytes_)) {
        broken_.store(sent < 0 ? errno : EIO);
        return;
      }
      ++number;
    }
  }

  void take_in(size_t gpu, size_t connection) {
    Words& words = words_of(gpu, connection);
    const int fd = outgoing(1 - gpu, connection).end_of(gpu);
    size_t have = 0;
    for (uint64_t number = 1; !over_.load(std::memory_order_relaxed);) {
      auto* const to = reinterpret_cast<std::byte*>(&words.received[number % 2]);
      const ssize_t got = recv(fd, to + have, bytes_ - have, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) {
        broken_.store(got == 0 ? ECONNRESET : errno);
        return;
      }
      have += static_cast<size_t>(got);
      if (have < bytes_) continue;
      have = 0;
      word(words.come).store(words.received[number % 2].number[0], std::memory_order_release);
      ++number;
    }
  }

  void end(std::vector<std::thread>& threads) {
    over_.store(true);
    for (std::thread& thread : threads)
      thread.join();
  }

  const Way way_;
  const size_t part_;   // of the payload, that a connection carries
  const size_t bytes_;  // of a message
  std::vector<Connection> connections_;
  Words* words_ = nullptr;  // of each GPU's connections
  std::array<uint64_t*, 2> own_{};
  std::array<Meeting*, 2> meetings_{};
  std::array<cudaStream_t, 2> streams_{};
  std::atomic<bool> over_{false};
  std::atomic<int> broken_{0};  // errno of a thread that could not go on
};

}  // namespace

void probe_hop(const Options& options) {
  for (const auto& [sending, name] : kNames) {
    for (const size_t payload : kPayloads) {
      for (const size_t connections : kConnections) {
        if (connections > 1 && payload < kLeastDivided) continue;
        const double us = HopProbe({sending, payload, connections}).median_us();
        const size_t bytes = payload == 0 ? kNumberBytes : payload;
        std::printf("link %s through TCP, %5zu bytes%s, connections: %zu %8.2f us\n", name, bytes,
                    payload == 0 ? "" : " of payload", connections, us);
        std::fflush(stdout);
        append_json(options, text("{\"kind\": \"link\", \"between\": \"%s\", "
                                  "\"what\": \"TCP on loopback%s\", "
                                  "\"bytes\": %zu, \"connections\": %zu, \"us\": %.2f}",
                                  name, payload == 0 ? "" : ", payload copied by the GPUs", bytes,
                                  connections, us));
      }
    }
  }
}

}  // namespace weft::gpu_bench
