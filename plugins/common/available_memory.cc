// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// MemAvailable and SwapFree of /proc/meminfo.
#include "plugins/common/available_memory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "plugins/common/owned.h"

namespace weft::plugins {
namespace {

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

/// "MemAvailable:   123 kB" in bytes.
std::uint64_t field(std::string_view text, std::string_view name, std::uint64_t absent) {
  const std::size_t found = text.find(name);
  if (found == std::string_view::npos) return absent;
  text.remove_prefix(found + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t kib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), kib);
  return error == std::errc() ? kib * 1024 : absent;
}

}  // namespace

std::uint64_t available_memory() {
  const OwnedFd file(::open("/proc/meminfo", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> bytes{};
  const ssize_t got = file ? ::read(file.get(), bytes.data(), bytes.size()) : -1;
  if (got <= 0) return kUnknown;
  const std::string_view text(bytes.data(), static_cast<std::size_t>(got));
  const std::uint64_t memory = field(text, "MemAvailable:", kUnknown);
  return memory == kUnknown ? kUnknown : memory + field(text, "SwapFree:", 0);
}

}  // namespace weft::plugins
