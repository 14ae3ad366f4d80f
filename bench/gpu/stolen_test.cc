// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/stolen.h"

#include <gtest/gtest.h>

namespace weft::gpu_bench {

TEST(Stolen, IsOfAllProcessorsTogether) {
  EXPECT_EQ(
      stolen_ms_of("cpu  4167 0 4853 52167 12 0 838 316 0 0\ncpu0 1 0 1 1 0 0 0 9 0 0\n", 100),
      3160);
  EXPECT_EQ(stolen_ms_of("cpu  1 2 3 4 5 6 7 8", 1000), 8);
}

TEST(Stolen, IsNothingWhereTheSystemDoesNotTell) {
  EXPECT_EQ(stolen_ms_of("", 100), 0);
  EXPECT_EQ(stolen_ms_of("cpu  1 2 3 4\n", 100), 0);
  EXPECT_EQ(stolen_ms_of("cpu0 1 2 3 4 5 6 7 8\n", 100), 0);
  EXPECT_EQ(stolen_ms_of("cpu  1 2 3 4 5 6 7 8\n", 0), 0);
}

}  // namespace weft::gpu_bench
