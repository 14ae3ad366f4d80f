// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Runs a net suite against one plugin: PROGRAM PLUGIN.so [PARAMETER=VALUE...] [gtest options].
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "tests/plugin/net/net_rank.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s PLUGIN.so [PARAMETER=VALUE...] [options of GoogleTest]\n",
                 argv[0]);
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    if (const auto problem = weft::test::add_common_parameter(argv[i])) {
      std::fprintf(stderr, "%s\n", problem->c_str());
      return 2;
    }
  }
  if (const auto problem = weft::test::load_plugin_under_test(argv[1])) {
    std::fprintf(stderr, "cannot load %s: %s\n", argv[1], problem->c_str());
    return 2;
  }
  return RUN_ALL_TESTS();
}
