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
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "%s is not of the form PARAMETER=VALUE\n", argv[i]);
      return 2;
    }
    weft::test::common_parameters()[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (const auto problem = weft::test::load_plugin_under_test(argv[1])) {
    std::fprintf(stderr, "cannot load %s: %s\n", argv[1], problem->c_str());
    return 2;
  }
  return RUN_ALL_TESTS();
}
