// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/stolen.h"

#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

namespace weft::gpu_bench {

double stolen_ms_of(std::string_view stat, long ticks) {
  // cpu user nice system idle iowait irq softirq steal ...
  constexpr int kBefore = 7;
  std::istringstream words{std::string(stat.substr(0, stat.find('\n')))};
  std::string name;
  double value = 0;
  words >> name;
  for (int i = 0; i <= kBefore; ++i)
    words >> value;
  return name == "cpu" && words && ticks > 0 ? value * 1e3 / static_cast<double>(ticks) : 0;
}

double stolen_ms() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return stolen_ms_of(line, sysconf(_SC_CLK_TCK));
}

}  // namespace weft::gpu_bench
