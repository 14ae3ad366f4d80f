// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Runs the suite on the plugin that the command line names, with a program for other processes:
// SUITE [gtest options] PLUGIN.so TRANSPORT-PEER
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

struct Paths {
  std::string plugin;
  std::string peer;
};

Paths& paths() {
  static Paths paths;
  return paths;
}

}  // namespace

const std::string& plugin_path() {
  return paths().plugin;
}
const std::string& peer_path() {
  return paths().peer;
}

}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fputs("usage: transport-suite [gtest options] PLUGIN.so TRANSPORT-PEER\n", stderr);
    return 2;
  }
  weft::test::paths() = {argv[1], argv[2]};
  return RUN_ALL_TESTS();
}
