// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/basics.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace weft::gpu_bench {

std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* made = nullptr;
  const int length = vasprintf(&made, format, arguments);
  va_end(arguments);
  std::string result = length < 0 ? format : made;
  if (length >= 0) std::free(made);
  return result;
}

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw Failure{text("%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error))};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return text("%zu %s", bytes, kUnits[unit]);
}

std::string json_string(std::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += text("\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

void complain(const std::string& words) {
  std::fprintf(stderr, "%s: %s\n", kProgram, words.c_str());
}

}  // namespace weft::gpu_bench
