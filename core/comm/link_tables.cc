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

template <class Entry>
bool are_alike(const Entry& one, const Entry& other) {
  static_assert(std::has_unique_object_representations_v<Entry>);
  return std::memcmp(&one, &other, sizeof(one)) == 0;
}

}  // namespace

template <class Entry>
Result<std::unique_ptr<DeviceTable<Entry>>> DeviceTable<Entry>::create(MemoryAccount& memory,
                                                                       std::size_t most) {
  const std::size_t bytes = most * sizeof(Entry);
  void* entries = nullptr;
  if (const weft_result result = memory.allocate(bytes, &entries); result != WEFT_OK) {
    return fail(device_error(
        memory.runtime(), result,
        fmt::format("cannot allocate {} bytes that kernels read connections from", bytes)));
  }
  return std::unique_ptr<DeviceTable>(new DeviceTable(memory, static_cast<Entry*>(entries)));
}

template <class Entry>
bool DeviceTable<Entry>::take(std::span<const Entry> entries) {
  const std::size_t both = std::min(entries.size(), known_.size());
  if (!std::ranges::equal(entries.first(both), std::span(known_).first(both), are_alike<Entry>)) {
    return false;
  }
  known_.insert(known_.end(), entries.begin() + static_cast<std::ptrdiff_t>(both), entries.end());
  return true;
}

template <class Entry>
Status DeviceTable<Entry>::bring(std::size_t count, DeviceStream* stream) {
  if (brought_ >= count) [[likely]]
    return {};
  DeviceRuntime& runtime = memory_.runtime();
  const std::uint64_t capture = runtime.capture_number(stream);
  if (capture != 0 && capture == capture_ && captured_ >= count) return {};
  // What launches to come have anyway needs nobody to bring it again.
  const auto rest = std::span<const Entry>(known_).subspan(brought_);
  const weft_result stored = runtime.store(stream, entries_ + brought_, std::as_bytes(rest));
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

template class DeviceTable<RingLinks>;
template class DeviceTable<ConnectionView>;

Result<LinkTable*> LinkTables::find(std::span<const RingLinks> links) {
  for (const auto& table : tables_) {
    if (table->take(links)) return table.get();
  }
  WEFT_TRY_ASSIGN(auto table, LinkTable::create(memory_, kMostPackedItems));
  table->take(links);
  tables_.push_back(std::move(table));
  return tables_.back().get();
}

std::uint16_t PairViews::add(const ConnectionView& view) {
  if (known_.size() >= most_) return kNoPlace;
  known_.push_back(view);
  return static_cast<std::uint16_t>(known_.size() - 1);
}

Result<const ConnectionView*> PairViews::bring(std::span<const PairTransfer> transfers,
                                               DeviceStream* stream) {
  if (transfers.size() <= kMostWholePairs || transfers.size() > kMostPackedPairs) return nullptr;
  std::size_t needed = 0;
  for (const PairTransfer& transfer : transfers) {
    if (transfer.view.cursor == nullptr) continue;  // a copy
    if (transfer.place == kNoPlace) return nullptr;
    needed = std::max(needed, transfer.place + std::size_t{1});
  }
  if (needed == 0) return nullptr;
  if (table_ == nullptr) {
    WEFT_TRY_ASSIGN(table_, DeviceTable<ConnectionView>::create(memory_, most_));
  }
  if (taken_ != known_.size()) table_->take(known_);
  taken_ = known_.size();
  WEFT_TRY(table_->bring(needed, stream));
  return table_->entries();
}

}  // namespace weft
