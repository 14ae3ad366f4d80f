// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/comm/link_tables.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/base/device_error.h"

namespace weft {
namespace {

bool are_alike(const RingLinks& one, const RingLinks& other) {
  static_assert(std::has_unique_object_representations_v<RingLinks>);
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

}  // namespace

Result<std::unique_ptr<LinkTable>> LinkTable::create(MemoryAccount& memory) {
  constexpr std::size_t kBytes = kMostPackedItems * sizeof(RingLinks);
  void* links = nullptr;
  if (const weft_result result = memory.allocate(kBytes, &links); result != WEFT_OK) {
    return fail(device_error(
        memory.runtime(), result,
        fmt::format("cannot allocate {} bytes that kernels read connections from", kBytes)));
  }
  return std::unique_ptr<LinkTable>(new LinkTable(memory, static_cast<RingLinks*>(links)));
}

bool LinkTable::take(std::span<const RingLinks> links) {
  const std::size_t both = std::min(links.size(), known_.size());
  if (!std::ranges::equal(links.first(both), std::span(known_).first(both), are_alike)) {
    return false;
  }
  known_.insert(known_.end(), links.begin() + static_cast<std::ptrdiff_t>(both), links.end());
  return true;
}

Status LinkTable::bring(std::size_t channels, DeviceStream* stream) {
  if (brought_ >= channels) [[likely]]
    return {};
  DeviceRuntime& runtime = memory_.runtime();
  const std::uint64_t capture = runtime.capture_number(stream);
  if (capture != 0 && capture == capture_ && captured_ >= channels) return {};
  const weft_result stored =
      runtime.store(stream, links_, std::as_bytes(std::span<const RingLinks>(known_)));
  if (stored != WEFT_OK) {
    return fail(device_error(runtime, stored, "cannot bring connections to the device"));
  }
  if (capture == 0) {
    brought_ = known_.size();
  } else {
    capture_ = capture;
    captured_ = known_.size();
  }
  return {};
}

Result<LinkTable*> LinkTables::find(std::span<const RingLinks> links) {
  for (const auto& table : tables_) {
    if (table->take(links)) return table.get();
  }
  WEFT_TRY_ASSIGN(auto table, LinkTable::create(memory_));
  table->take(links);
  tables_.push_back(std::move(table));
  return tables_.back().get();
}

}  // namespace weft
