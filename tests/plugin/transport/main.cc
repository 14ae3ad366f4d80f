// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Runs the suite on the plugin that the command line names: SUITE [gtest options] PLUGIN.so
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "tests/plugin/transport/suite.h"

namespace weft::test {
namespace {

std::string& stored_path() {
  static std::string path;
  return path;
}

}  // namespace

const std::string& plugin_path() {
  return stored_path();
}

}  // namespace weft::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fputs("usage: transport-suite [gtest options] PLUGIN.so\n", stderr);
    return 2;
  }
  weft::test::stored_path() = argv[1];
  return RUN_ALL_TESTS();
}
