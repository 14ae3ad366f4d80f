// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A benchmark as a picture: bandwidth and time over size, as SVG that needs nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::tool {

struct PlotPoint {
  std::uint64_t bytes = 0;
  double busbw = 0;  ///< GB/s
  double us = 0;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;  ///< By ascending size.
};

struct Plot {
  std::string title;
  std::string subtitle;
  std::vector<PlotSeries> series;  ///< At most two; all have the same sizes.
};

/// All axes are logarithmic; what no logarithm shows (size 0, bandwidth 0) lies on the edge.
[[nodiscard]] std::string to_svg(const Plot& plot);

}  // namespace weft::tool
