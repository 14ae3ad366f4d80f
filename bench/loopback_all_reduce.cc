// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a host's loopback allows at best: an all-reduce of float32 by sum between two processes over
// two TCP connections, one each way, and nothing else. No library, no headers of messages, no other
// thread, no agreement; a process reads whenever there is something, adds it, and sends what it has
// added. Several lengths of writes are tried, and the fastest counts, which no library could know
// beforehand.
//
//   loopback-all-reduce BYTES CALLS WARMUP
//
// prints one JSON line, as bench/mpi_collectives.c does; bench/compare runs it in turn with the
// others.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

// More is read at a time than is added, so that sums of what came are on their way early.
constexpr std::size_t kMostRead = std::size_t{512} << 10;
constexpr std::size_t kAddedAtOnce = std::size_t{128} << 10;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "loopback-all-reduce: %s: %s\n", what, std::strerror(errno));
  std::_Exit(1);
}

void must(int result, const char* what) {
  if (result != 0) give_up(what);
}

/// A socket as net-socket has it within a host.
int tcp_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) give_up("socket");
  const int yes = 1;
  must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), "TCP_NODELAY");
  for (const char* const control : {"cubic", "reno"}) {
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control,
                   static_cast<socklen_t>(std::strlen(control))) == 0) {
      break;
    }
  }
  return fd;
}

/// One of both processes.
class Rank {
 public:
  Rank(int rank, int to, int from, std::size_t bytes)
      : rank_(rank),
        to_(to),
        from_(from),
        half_(bytes / 2),
        input_(bytes / sizeof(float)),
        output_(bytes / sizeof(float)),
        arrived_(half_ / sizeof(float)) {
    for (std::size_t i = 0; i < input_.size(); ++i)
      input_[i] = input_of(rank, i);
  }

  /// Sends the half that the other one adds and gets that of its own, then the same of sums.
  void all_reduce(std::size_t most_sent) {
    const std::size_t own = static_cast<std::size_t>(rank_) * half_;
    const std::size_t other = half_ - own;
    std::size_t sent = 0;
    std::size_t got = 0;
    std::size_t added = 0;
    while (sent < 2 * half_ || got < 2 * half_) {
      const std::size_t ready = sent < half_ ? half_ : half_ + added;
      if (sent < ready) {
        const std::byte* const from =
            sent < half_ ? at(input_, other + sent) : at(output_, own + sent - half_);
        sent +=
            moved(send(to_, from, std::min(most_sent, ready - sent), MSG_DONTWAIT | MSG_NOSIGNAL),
                  "send");
      }
      for (std::size_t came = 1; came != 0 && got < 2 * half_;) {
        std::byte* const into = got < half_ ? at(arrived_, got) : at(output_, other + got - half_);
        const std::size_t room = got < half_ ? half_ - got : 2 * half_ - got;
        came = moved(recv(from_, into, std::min(kMostRead, room), MSG_DONTWAIT), "recv");
        got += came;
        if (added < half_) added = add(own, added, std::min(got, half_));
      }
    }
  }

  [[nodiscard]] bool right() const {
    for (std::size_t i = 0; i < output_.size(); ++i) {
      if (output_[i] != input_of(0, i) + input_of(1, i)) return false;
    }
    return true;
  }

 private:
  static float input_of(int rank, std::size_t i) {
    return static_cast<float>(static_cast<std::size_t>(rank + 1) * (i % 1000));
  }
  static std::byte* at(std::vector<float>& values, std::size_t byte) {
    return reinterpret_cast<std::byte*>(values.data()) + byte;
  }
  static std::size_t moved(ssize_t result, const char* what) {
    if (result > 0) return static_cast<std::size_t>(result);
    if (result == 0 || (errno != EAGAIN && errno != EINTR)) give_up(what);
    return 0;
  }

  /// From byte `from` of its own half on, whole pieces of what there is; where they end.
  std::size_t add(std::size_t own, std::size_t from, std::size_t there) {
    const std::size_t to = there == half_ ? half_ : there / kAddedAtOnce * kAddedAtOnce;
    const std::size_t first = own / sizeof(float);
    for (std::size_t i = from / sizeof(float); i < to / sizeof(float); ++i)
      output_[first + i] = input_[first + i] + arrived_[i];
    return std::max(from, to);
  }

  int rank_;
  int to_;
  int from_;
  std::size_t half_;  ///< Bytes.
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> arrived_;
};

struct Ends {
  int to;
  int from;
};

/// Forks; each process gets its ends. The parent is rank 0.
int start(Ends& ends) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int listener = tcp_socket();
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  must(bind(listener, name, size), "bind");
  must(getsockname(listener, name, &size), "getsockname");
  must(listen(listener, 2), "listen");
  const pid_t child = fork();
  if (child < 0) give_up("fork");
  std::array<int, 2> links{};
  for (int& link : links) {
    if (child == 0) {
      link = tcp_socket();
      must(connect(link, name, size), "connect");
    } else {
      link = accept(listener, nullptr, nullptr);
      if (link < 0) give_up("accept");
      const int yes = 1;
      must(setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), "TCP_NODELAY");
    }
  }
  close(listener);
  ends =
      child == 0 ? Ends{.to = links[1], .from = links[0]} : Ends{.to = links[0], .from = links[1]};
  return child == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  if (words.size() != 4) {
    std::fprintf(stderr, "usage: loopback-all-reduce BYTES CALLS WARMUP\n");
    return 2;
  }
  const std::size_t bytes = std::strtoull(words[1], nullptr, 10);
  const auto calls = static_cast<int>(std::strtol(words[2], nullptr, 10));
  const auto warm_up = static_cast<int>(std::strtol(words[3], nullptr, 10));
  if (bytes == 0 || bytes % (2 * sizeof(float)) != 0 || calls < 1 || warm_up < 0) {
    std::fprintf(stderr, "loopback-all-reduce: BYTES must be a multiple of 8, CALLS at least 1\n");
    return 2;
  }
  Ends ends{};
  const int rank = start(ends);
  Rank self(rank, ends.to, ends.from, bytes);
  double best_us = std::numeric_limits<double>::infinity();
  std::size_t best_length = 0;
  for (std::size_t length = std::size_t{128} << 10; length <= std::size_t{1} << 20; length *= 2) {
    for (int call = 0; call < warm_up; ++call)
      self.all_reduce(length);
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call)
      self.all_reduce(length);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    const double us = took.count() / calls;
    if (us < best_us) {
      best_us = us;
      best_length = length;
    }
  }
  if (!self.right()) {
    std::fprintf(stderr, "loopback-all-reduce: a sum is wrong\n");
    return 1;
  }
  if (rank != 0) return 0;
  int status = 0;
  wait(&status);
  if (status != 0) return 1;
  std::printf(
      R"({"peer":"sockets","operation":"all_reduce","ranks":2,"bytes":%zu,"type":"float32",)"
      R"("in_place":false,"iterations":%d,"write_bytes":%zu,"time_us":%.4f})"
      "\n",
      bytes, calls, best_length, best_us);
  return 0;
}
