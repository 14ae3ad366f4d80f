// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// What a process holds, again and again at moments that are alike: whether it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <weft/weft.h>

namespace weft::gpu_test {

struct Usage {
  /// Bytes of all devices that are not free, whoever holds them, but for what the library tells
  /// that it holds.
  std::int64_t device = 0;
  std::int64_t in_use = 0;    ///< Bytes of devices in use by the library,
  std::int64_t kept = 0;      ///< and kept by it for the next communicators.
  std::int64_t heap = 0;      ///< Bytes that malloc has given out,
  std::int64_t mapped = 0;    ///< of these what has a mapping of its own, being large.
  std::int64_t resident = 0;  ///< Bytes of the process in main memory, but for what devices reach.
  std::int64_t descriptors = 0;  ///< Open ones.
  std::int64_t threads = 0;
};
[[nodiscard]] std::string text_of(const Usage& usage);

[[nodiscard]] std::int64_t device_bytes(const std::vector<int>& devices);
/// Of all of them together, as the library tells it. All 0 of the host device.
[[nodiscard]] weft_device_memory library_memory(const std::vector<int>& devices);
/// Called first of all: malloc keeps less of what was freed, so that `resident` tells what is held.
/// Each thread's arena has a last block of up to twice the largest that was ever freed, which no
/// malloc_trim takes away (glibc raises M_TRIM_THRESHOLD so, mallopt(3)).
void keep_little_of_what_is_freed();
/// All of this process' own, and of the library's on these devices.
[[nodiscard]] Usage process_usage(const std::vector<int>& devices);

/// Compares the second quarter of what was seen with the last: the first is for what is made once
/// and kept. Grown is what is more in each moment of the last than in any of the second, so that
/// neither a peak nor a pause tells anything.
class Growth {
 public:
  void add(const Usage& usage) { seen_.push_back(usage); }

  /// What of it is more than ever before by more than is allowed, with numbers; empty if nothing.
  /// No failure, but where to look should it stay.
  [[nodiscard]] std::string risen(const Usage& usage) const;
  /// Fewer tell nothing.
  static constexpr std::size_t kLeast = 8;
  [[nodiscard]] bool can_tell() const { return seen_.size() >= kLeast; }
  /// What has grown by more than is allowed, with numbers; empty if nothing.
  [[nodiscard]] std::string grown() const;
  /// Everything in one line: the most of the second quarter, the least of the last.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::int64_t early(std::int64_t Usage::* what) const;
  [[nodiscard]] std::int64_t late(std::int64_t Usage::* what) const;

  std::vector<Usage> seen_;
};

}  // namespace weft::gpu_test
