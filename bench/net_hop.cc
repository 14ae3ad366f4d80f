// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// How long a message takes one way through a net plugin, by its ABI alone: two threads on a
// processor each send it forth and back, and poll while they wait, as threads of ports do. Each
// receives on another net than it sends on.
//
//   net-hop PLUGIN.so BYTES ROUNDS [PARAMETER=VALUE...]
//
// prints one JSON line. Compare two builds of a plugin by turns: processors of one machine differ
// from minute to minute.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugin/net/net_rank.h"

namespace {

using weft::test::Bytes;
using weft::test::End;
using weft::test::Link;
using weft::test::NetRank;

void stay_on(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  sched_setaffinity(0, sizeof one, &one);
}

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "net-hop: %s\n", what.c_str());
  std::_Exit(1);
}

void must(NetRank& net, weft_result result, const char* what) {
  if (result == WEFT_OK) return;
  give_up(std::string(what) + " answered " + std::to_string(result) + ": " +
          net.host().last_error().what);
}

void wait_for(NetRank& net, std::uint64_t user) {
  for (net.poll();; net.poll()) {
    if (const auto ended = net.take(user)) return must(net, ended->status, "a message");
    std::this_thread::yield();
  }
}

/// One of the two: what it sends goes out by `to`, and comes in by `from`.
struct Side {
  End& to;
  End& from;
  Bytes data;
  Bytes room;

  void expect() { must(from.rank(), from.receive(room, 1), "irecv"); }
  void send() {
    must(to.rank(), to.send(data, 2), "isend");
    wait_for(to.rank(), 2);
  }
  void take() { wait_for(from.rank(), 1); }
};

/// Reads a whole number from 1 on.
std::size_t count_of(const char* text) {
  std::size_t count = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, count);
  if (error != std::errc() || stop != end || count == 0) {
    give_up(std::string(text) + " is no number from 1 on");
  }
  return count;
}

double at(std::vector<double>& sorted, std::size_t percent) {
  return sorted[sorted.size() * percent / 100];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: net-hop PLUGIN.so BYTES ROUNDS [PARAMETER=VALUE...]\n");
    return 2;
  }
  for (int i = 4; i < argc; ++i) {
    if (const auto problem = weft::test::add_common_parameter(argv[i])) give_up(*problem);
  }
  const std::size_t bytes = count_of(argv[2]);
  const std::size_t rounds = count_of(argv[3]);
  if (const auto problem = weft::test::load_plugin_under_test(argv[1])) {
    give_up("cannot load " + std::string(argv[1]) + ": " + *problem);
  }
  NetRank here_out, here_in, there_out, there_in;
  Link forth = make_link(here_out, there_in);
  Link back = make_link(there_out, here_in);
  Side here{forth.sender, back.receiver, weft::test::pattern(bytes, 1), Bytes(bytes)};
  Side there{back.sender, forth.receiver, weft::test::pattern(bytes, 1), Bytes(bytes)};

  std::thread other([&] {
    stay_on(1);
    for (std::size_t i = 0; i < rounds; ++i) {
      there.expect();
      there.take();
      there.send();
    }
  });
  stay_on(0);
  std::vector<double> us;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    here.expect();
    here.send();
    here.take();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                     .count() /
                 2);
  }
  other.join();
  const bool right = here.room == here.data && there.room == there.data;
  std::ranges::sort(us);
  std::printf(
      "{\"bytes\": %zu, \"rounds\": %zu, \"one_way_us\": %.3f, \"tenth_us\": %.3f, \"right\": "
      "%s}\n",
      bytes, rounds, at(us, 50), at(us, 10), right ? "true" : "false");
  return right ? 0 : 1;
}
