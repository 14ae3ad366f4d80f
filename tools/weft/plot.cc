// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tools/weft/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "core/config/units.h"

namespace weft::tool {
namespace {

constexpr double kWidth = 880;
constexpr double kHeight = 720;
constexpr double kLeft = 84;
constexpr double kRight = 856;
constexpr double kPanelHeight = 250;
constexpr std::array<double, 2> kPanelTops = {92, 398};
constexpr int kMostSizeLabels = 10;

// The colours differ for every kind of colour vision, and stand out from both backgrounds.
constexpr std::string_view kStyle = R"(
svg { font: 13px system-ui, sans-serif; color-scheme: light dark; }
.paper { fill: #ffffff; }
text { fill: #24292f; }
.title { font-size: 18px; font-weight: 600; }
.muted { fill: #57606a; }
.grid { stroke: #d8dee4; stroke-width: 1; }
.axis { stroke: #57606a; stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.s0 .line { stroke: #0067b8; }
.s0 .point { fill: #0067b8; }
.s1 .line { stroke: #c65102; }
.s1 .point { fill: #c65102; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; }
  text { fill: #e6edf3; }
  .muted { fill: #9198a1; }
  .grid { stroke: #2b3138; }
  .axis { stroke: #9198a1; }
  .s0 .line { stroke: #58a6ff; }
  .s0 .point { fill: #58a6ff; }
  .s1 .line { stroke: #ff9b50; }
  .s1 .point { fill: #ff9b50; }
}
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

/// A logarithmic axis from `low` to `high`, both above zero, onto pixels `from` to `to`.
struct Axis {
  double low = 1;
  double high = 10;
  double from = 0;
  double to = 1;

  [[nodiscard]] double place(double value) const {
    if (!(value > low)) return from;
    return from + (to - from) * (std::log(std::min(value, high)) - std::log(low)) /
                      (std::log(high) - std::log(low));
  }
};

struct Tick {
  double value;
  std::string label;
};

Axis size_axis(const std::vector<PlotPoint>& points) {
  double low = std::numeric_limits<double>::max();
  double high = 0;
  bool has_zero = false;
  for (const PlotPoint& point : points) {
    has_zero = has_zero || point.bytes == 0;
    if (point.bytes == 0) continue;
    low = std::min(low, static_cast<double>(point.bytes));
    high = std::max(high, static_cast<double>(point.bytes));
  }
  if (high == 0) low = high = 1;
  // A size alone stands in the middle; the size 0 needs room.
  if (low == high) {
    low /= 2;
    high *= 2;
  } else if (has_zero) {
    low /= 2;
  }
  return {.low = low, .high = high, .from = kLeft + 16, .to = kRight - 16};
}

std::vector<Tick> size_ticks(const std::vector<PlotPoint>& points, const Axis& axis) {
  std::vector<Tick> ticks;
  const bool has_zero = !points.empty() && points.front().bytes == 0;
  if (has_zero) ticks.push_back({axis.low, "0"});
  const int first = std::max(0, static_cast<int>(std::floor(std::log2(axis.low))) + has_zero);
  const int last = static_cast<int>(std::floor(std::log2(axis.high)));
  const int step = std::max(1, (last - first + kMostSizeLabels) / kMostSizeLabels);
  for (int exponent = first; exponent <= last; exponent += step) {
    if (std::exp2(exponent) < axis.low) continue;
    ticks.push_back({std::exp2(exponent), print_bytes(std::int64_t{1} << exponent)});
  }
  return ticks;
}

Axis value_axis(const std::vector<double>& values, double top) {
  double low = std::numeric_limits<double>::max();
  double high = 0;
  for (const double value : values) {
    if (!(value > 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (high == 0) low = high = 1;
  // To the next 1, 2 or 5.
  const auto outward = [](double value, bool up) {
    const double decade = std::pow(10, std::floor(std::log10(value)));
    double best = up ? decade * 10 : decade;
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double candidate = decade * digit;
      if (up ? candidate >= value && candidate < best : candidate <= value && candidate > best) {
        best = candidate;
      }
    }
    return best;
  };
  Axis axis{.low = outward(low, false),
            .high = outward(high, true),
            .from = top + kPanelHeight,
            .to = top};
  if (axis.low == axis.high) axis.high *= 10;
  return axis;
}

std::vector<Tick> value_ticks(const Axis& axis) {
  std::vector<Tick> ticks;
  const bool wide = axis.high / axis.low > 1500;
  for (int exponent = static_cast<int>(std::floor(std::log10(axis.low)));
       std::pow(10, exponent) <= axis.high * 1.001; ++exponent) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (wide && digit != 1) continue;
      const double value = digit * std::pow(10, exponent);
      if (value < axis.low * 0.999 || value > axis.high * 1.001) continue;
      ticks.push_back({value, fmt::format("{:.10g}", value)});
    }
  }
  return ticks;
}

/// A circle for the first series, a square for the second.
std::string marker(std::size_t series, double x, double y) {
  if (series == 0)
    return fmt::format(R"(<circle class="point" cx="{:.1f}" cy="{:.1f}" r="4")", x, y);
  return fmt::format(R"(<rect class="point" x="{:.1f}" y="{:.1f}" width="7" height="7")", x - 3.5,
                     y - 3.5);
}

std::string panel(const Plot& plot, double top, const Axis& sizes, std::string_view label,
                  std::string_view unit, double PlotPoint::* quantity) {
  std::vector<double> values;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points)
      values.push_back(point.*quantity);
  }
  const Axis axis = value_axis(values, top);
  const double bottom = top + kPanelHeight;
  std::string out;
  for (const Tick& tick : value_ticks(axis)) {
    const double y = axis.place(tick.value);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>\n"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kRight, y, kLeft - 8, y + 4.5, tick.label);
  }
  for (const Tick& tick : size_ticks(plot.series.front().points, sizes)) {
    const double x = sizes.place(tick.value);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        x, top, bottom, bottom + 18, tick.label);
  }
  out += fmt::format("<path class=\"axis\" fill=\"none\" d=\"M{0} {1}V{2}H{3}\"/>\n", kLeft, top,
                     bottom, kRight);
  out += fmt::format(
      "<text class=\"muted label\" x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" "
      "transform=\"rotate(-90 {0} {1})\">{2} ({3})</text>\n",
      22, top + kPanelHeight / 2, label, unit);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    std::string line;
    std::string points;
    for (const PlotPoint& point : series.points) {
      const double x = sizes.place(static_cast<double>(point.bytes));
      const double y = axis.place(point.*quantity);
      line += fmt::format("{:.1f},{:.1f} ", x, y);
      points +=
          fmt::format("{}><title>{}, {}: {:.4g} {}</title>{}\n", marker(i, x, y),
                      escaped(series.name), print_bytes(static_cast<std::int64_t>(point.bytes)),
                      point.*quantity, unit, i == 0 ? "</circle>" : "</rect>");
    }
    out += fmt::format("<g class=\"s{}\">\n<polyline class=\"line\" points=\"{}\"/>\n{}</g>\n", i,
                       line, points);
  }
  return out;
}

std::string legend(const Plot& plot) {
  std::string out;
  double x = kLeft;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    out += fmt::format(
        "<g class=\"s{}\"><line class=\"line\" x1=\"{}\" y1=\"74\" x2=\"{}\" y2=\"74\"/></g>\n"
        "<text x=\"{}\" y=\"78\">{}</text>\n",
        i, x, x + 24, x + 32, escaped(plot.series[i].name));
    x += 150;
  }
  return out;
}

}  // namespace

std::string to_svg(const Plot& plot) {
  if (plot.series.empty()) return {};
  const Axis sizes = size_axis(plot.series.front().points);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n<desc>{3}</desc>\n<style>{4}</style>\n"
      "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n"
      "<text class=\"title\" x=\"{5}\" y=\"32\">{2}</text>\n"
      "<text class=\"muted\" x=\"{5}\" y=\"54\">{3}</text>\n",
      kWidth, kHeight, escaped(plot.title), escaped(plot.subtitle), kStyle, kLeft);
  out += legend(plot);
  out += panel(plot, kPanelTops[0], sizes, "bus bandwidth", "GB/s", &PlotPoint::busbw);
  out += panel(plot, kPanelTops[1], sizes, "time of a call", "\u00b5s", &PlotPoint::us);
  out += fmt::format(
      "<text class=\"muted label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">size "
      "(bytes)</text>\n</svg>\n",
      (kLeft + kRight) / 2, kHeight - 26);
  return out;
}

}  // namespace weft::tool
