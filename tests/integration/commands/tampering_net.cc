// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The example net plugin on a bad day, or watched: its calls of the kernel come through here. Where
// TAMPER=flip, one bit of every large message is turned over on its way; in any case the end of the
// process tells how many large messages it sent. Large is what no bookkeeping of a benchmark is.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>

namespace {

constexpr std::uint64_t kLarge = 4096;
constexpr std::size_t kHeaderBytes = 24;

struct Tally {
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::uint64_t> bytes{0};
  ~Tally() {
    std::fprintf(stderr, "sent %ju large messages of %ju bytes in all\n",
                 static_cast<std::uintmax_t>(messages.load()),
                 static_cast<std::uintmax_t>(bytes.load()));
  }
};

Tally& tally() {
  static Tally instance;
  return instance;
}

ssize_t watched_send(int fd, const void* data, std::size_t size, int flags) {
  const ssize_t sent = send(fd, data, size, flags);
  std::uint64_t announced = 0;
  if (size == kHeaderBytes && sent == static_cast<ssize_t>(size)) {
    std::memcpy(&announced, data, sizeof(announced));
  }
  if (announced >= kLarge) {
    ++tally().messages;
    tally().bytes += announced;
  }
  return sent;
}

ssize_t tampering_recv(int fd, void* data, std::size_t size, int flags) {
  const ssize_t got = recv(fd, data, size, flags);
  // Only tests start this, before any thread could change the environment.
  const char* wish = std::getenv("TAMPER");  // NOLINT(concurrency-mt-unsafe)
  if (size >= kLarge && got > 0 && wish != nullptr && std::strcmp(wish, "flip") == 0) {
    static_cast<char*>(data)[got / 2] ^= 0x10;
  }
  return got;
}

}  // namespace

// The plugin says ::send and ::recv.
#define send watched_send                      // NOLINT(readability-identifier-naming)
#define recv tampering_recv                    // NOLINT(readability-identifier-naming)
#include "examples/net-plugin/net_example.cc"  // NOLINT(bugprone-suspicious-include)
