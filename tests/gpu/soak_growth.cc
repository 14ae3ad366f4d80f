// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/soak_growth.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <sstream>

#include "tests/gpu/device.h"
#include "tests/gpu/team.h"

namespace weft::gpu_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct Watched {
  const char* name;
  std::int64_t Usage::* what;
  std::int64_t allowed;
  bool bytes;
};
/// What the library keeps are the most blocks of each size that communicators ever had at once: a
/// round has up to 400 MiB, so one that has more of some size is no leak, while blocks that do not
/// suit the next would be more than that soon. Pages of a heap that has holes are no leak either.
constexpr std::array kWatched{Watched{"device memory", &Usage::device, 16 * kMiB, true},
                              Watched{"library memory", &Usage::in_use, 2 * kMiB, true},
                              Watched{"kept memory", &Usage::kept, 256 * kMiB, true},
                              Watched{"heap", &Usage::heap, 1 * kMiB, true},
                              Watched{"resident memory", &Usage::resident, 32 * kMiB, true},
                              Watched{"descriptors", &Usage::descriptors, 0, false},
                              Watched{"threads", &Usage::threads, 0, false}};

std::string amount(const Watched& kind, std::int64_t of) {
  std::ostringstream text;
  if (!kind.bytes) {
    text << of;
  } else {
    text.precision(2);
    text << std::fixed << static_cast<double>(of) / static_cast<double>(kMiB) << " MiB";
  }
  return text.str();
}

/// A number of /proc/self/status, such as "Threads:".
std::int64_t status_of_process(std::string_view name) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    std::int64_t number = 0;
    if (word == name && file >> number) return number;
  }
  throw Problem(WEFT_ERROR_SYSTEM, "/proc/self/status lacks " + std::string(name));
}

std::int64_t open_descriptors() {
  std::int64_t count = -1;  // the one that looks
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

}  // namespace

std::string text_of(const Usage& usage) {
  std::string text;
  for (const Watched& kind : kWatched)
    text +=
        (text.empty() ? "" : ", ") + std::string(kind.name) + ' ' + amount(kind, usage.*kind.what);
  return text;
}

std::int64_t device_bytes(const std::vector<int>& devices) {
  std::int64_t used = 0;
  for (const int device : devices) {
    if (options().host) break;
    std::size_t free = 0, total = 0;
    use_device(device);
    CUDA(cudaMemGetInfo(&free, &total));
    used += static_cast<std::int64_t>(total - free);
  }
  return used;
}

weft_device_memory library_memory(const std::vector<int>& devices) {
  weft_device_memory all{};
  for (const int device : devices) {
    weft_device_memory one{};
    one.struct_size = sizeof(one);
    check(weft_context_get_device_memory(context(), device, &one),
          "weft_context_get_device_memory");
    all.in_use += one.in_use;
    all.kept += one.kept;
    all.host_in_use += one.host_in_use;
    all.host_kept += one.host_kept;
  }
  return all;
}

void keep_little_of_what_is_freed() {
  constexpr int kLittle = 128 << 10;  // where glibc begins
  mallopt(M_MMAP_THRESHOLD, kLittle);
  mallopt(M_TRIM_THRESHOLD, kLittle);
}

Usage process_usage(const std::vector<int>& devices) {
  malloc_trim(0);
  const struct mallinfo2 heap = mallinfo2();
  const weft_device_memory library = library_memory(devices);
  const auto reached = static_cast<std::int64_t>(library.host_in_use + library.host_kept);
  return {.device = 0,
          .in_use = static_cast<std::int64_t>(library.in_use),
          .kept = static_cast<std::int64_t>(library.kept),
          .heap = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd),
          .mapped = static_cast<std::int64_t>(heap.hblkhd),
          .resident = status_of_process("VmRSS:") * 1024 - reached,
          .descriptors = open_descriptors(),
          .threads = status_of_process("Threads:")};
}

std::int64_t Growth::early(std::int64_t Usage::* what) const {
  std::int64_t most = 0;  // of nothing seen, too
  for (std::size_t i = seen_.size() / 4; i < seen_.size() / 2; ++i)
    most = std::max(most, seen_[i].*what);
  return most;
}

std::int64_t Growth::late(std::int64_t Usage::* what) const {
  if (seen_.empty()) return 0;
  std::int64_t least = seen_.back().*what;
  for (std::size_t i = seen_.size() * 3 / 4; i < seen_.size(); ++i)
    least = std::min(least, seen_[i].*what);
  return least;
}

std::string Growth::risen(const Usage& usage) const {
  std::string text;
  for (const Watched& kind : kWatched) {
    std::int64_t most = 0;
    std::int64_t mapped = 0;
    for (const Usage& seen : seen_) {
      most = std::max(most, seen.*kind.what);
      mapped = seen.mapped;
    }
    if (usage.*kind.what - most <= kind.allowed) continue;
    text += (text.empty() ? "" : ", ") + std::string(kind.name) + ' ' + amount(kind, most) +
            " -> " + amount(kind, usage.*kind.what);
    // One block, or many.
    if (kind.what != &Usage::heap) continue;
    text += ", of it mapped " + amount(kind, mapped) + " -> " + amount(kind, usage.mapped);
  }
  return text;
}

std::string Growth::grown() const {
  std::string text;
  for (const Watched& kind : kWatched) {
    const std::int64_t before = early(kind.what), after = late(kind.what);
    if (after - before <= kind.allowed) continue;
    text += (text.empty() ? "" : "; ") + std::string(kind.name) + " grew from at most " +
            amount(kind, before) + " to at least " + amount(kind, after);
  }
  return text;
}

std::string Growth::text() const {
  std::string text;
  for (const Watched& kind : kWatched)
    text += (text.empty() ? "" : ", ") + std::string(kind.name) + ' ' +
            amount(kind, early(kind.what)) + " -> " + amount(kind, late(kind.what));
  return text;
}

}  // namespace weft::gpu_test
