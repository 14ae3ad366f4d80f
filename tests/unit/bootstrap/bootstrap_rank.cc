// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A rank in a process of its own, to be killed by a test: bootstrap_rank ID RANK NRANKS MODE, with
// the unique id in hexadecimal. Modes: "idle" joins and waits, "gather" gathers for ever.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sodium.h>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "core/bootstrap/bootstrap.h"

int main(int argc, char** argv) {
  using namespace weft;
  if (argc != 5) return 2;
  UniqueId id;
  const std::string_view hex(argv[1]);
  if (sodium_hex2bin(reinterpret_cast<unsigned char*>(id.bytes.data()), id.bytes.size(), hex.data(),
                     hex.size(), nullptr, nullptr, nullptr) != 0) {
    return 2;
  }
  Logger log;
  auto reactor = Reactor::create();
  if (!reactor) return 3;
  BootstrapOptions options;
  options.timeout = std::chrono::seconds(20);
  options.host_label = "hostB";
  auto joined =
      Bootstrap::join(id, std::atoi(argv[2]), std::atoi(argv[3]), options, **reactor, log);
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().to_string().c_str());
    return 4;
  }
  const std::vector<std::byte> block(200'000);
  while (std::string_view(argv[4]) == "gather") {
    if (!(*joined)->all_gather(block, "rounds")) return 5;
  }
  while (true) {
    pause();
  }
}
