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
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
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

void wait_for(NetRank& net, std::uint64_t user) {
  for (net.poll(); !net.take(user); net.poll())
    std::this_thread::yield();
}

/// One of the two: what it sends goes out by `to`, and comes in by `from`.
struct Side {
  End& to;
  End& from;
  Bytes data;
  Bytes room;

  void expect() {
    if (from.receive(room, 1) != WEFT_OK) throw std::runtime_error("irecv");
  }
  void send() {
    if (to.send(data, 2) != WEFT_OK) throw std::runtime_error("isend");
    wait_for(to.rank(), 2);
  }
  void take() { wait_for(from.rank(), 1); }
};

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
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    weft::test::common_parameters()[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (const auto problem = weft::test::load_plugin_under_test(argv[1])) {
    std::fprintf(stderr, "net-hop: cannot load %s: %s\n", argv[1], problem->c_str());
    return 2;
  }
  const auto bytes = static_cast<std::size_t>(std::strtoull(argv[2], nullptr, 10));
  const auto rounds = static_cast<std::size_t>(std::strtoull(argv[3], nullptr, 10));
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
