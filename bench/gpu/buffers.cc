// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/buffers.h"

#include <algorithm>
#include <array>

#include "bench/gpu/basics.h"

namespace weft::gpu_bench {

namespace {

/// Buffers of a size together fill at least this, where they would lie in the L2 otherwise.
constexpr size_t kRotatedBytes = size_t{256} << 20;
constexpr size_t kAlignment = 512;
/// Of an arena: a whole number of the pages that windows are made of.
constexpr size_t kArenaMultiple = size_t{2} << 20;
/// Poison behind the last set: the others have it only where they leave room.
constexpr size_t kGuardBytes = 512;

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

size_t stride(size_t bytes) {
  return round_up(bytes, kAlignment);
}

const char* name_of(const Region& region) {
  switch (region.content) {
    case Content::kInput:
      return "input";
    case Content::kOutput:
      return "output";
    case Content::kPoison:
      return "a receive buffer that is not this rank's";
  }
  return "";
}

}  // namespace

void Buffers::allocate() {
  for (const size_t size : options_.sizes) {
    const size_t bytes =
        shape_of(options_.operation(), seat_.ranks, size, options_.type.bytes).bytes;
    if (bytes == 0) continue;
    arena_bytes_ =
        std::max(arena_bytes_, round_up(sets(bytes) * stride(bytes) + kGuardBytes, kArenaMultiple));
  }
  CHECK(cudaMalloc(&found_on_device_, kMostParts * sizeof(Mismatch)));
  CHECK(cudaMalloc(&plain_.send, arena_bytes_));
  CHECK(cudaMalloc(&plain_.recv, arena_bytes_));
}

size_t Buffers::sets(size_t bytes) const {
  return std::clamp<size_t>(kRotatedBytes / bytes, 1, options_.graph_calls);
}

Place Buffers::place(const Case& which) const {
  return {which.operation, which.shape, seat_.rank, seat_.ranks, which.in_place};
}

Call Buffers::call(const Arena& arena, const Case& which, size_t set) const {
  const Place where = place(which);
  const size_t offset = set * stride(which.shape.bytes);
  std::byte* const recv = arena.recv + offset;
  std::byte* const send = which.in_place ? recv : arena.send + offset;
  return {which.operation, options_.type, send + where.send_first() * options_.type.bytes,
          recv + where.recv_first() * options_.type.bytes, which.shape.count};
}

std::byte* Buffers::at(const Arena& arena, const Case& which, const Region& region,
                       size_t set) const {
  return (region.in_recv ? arena.recv : arena.send) + set * stride(which.shape.bytes) +
         region.first * options_.type.bytes;
}

size_t Buffers::tail_first(const Case& which) const {
  size_t end = 0;
  for (const Region& region : regions_after(place(which))) {
    if (region.in_recv) end = std::max(end, region.first + region.count);
  }
  return end * options_.type.bytes;
}

size_t Buffers::tail_bytes(const Case& which, size_t set) const {
  const bool last = set + 1 == sets(which.shape.bytes);
  return stride(which.shape.bytes) - tail_first(which) + (last ? kGuardBytes : 0);
}

void Buffers::fill(const Arena& arena, const Case& which, uint32_t seed) const {
  const size_t number = sets(which.shape.bytes);
  CHECK(cudaMemsetAsync(arena.recv, kPoisonByte, number * stride(which.shape.bytes) + kGuardBytes,
                        seat_.stream));
  const std::vector<Region> regions = regions_before(place(which));
  for (size_t set = 0; set < number; ++set) {
    for (const Region& region : regions) {
      launch_fill(seat_.stream, at(arena, which, region, set),
                  {options_.type.kind, region.count, region.origin, set}, inputs(seed));
    }
  }
}

void Buffers::compare(const Arena& arena, const Case& which, uint32_t seed) {
  const std::vector<Region> regions = regions_after(place(which));
  found_.assign(regions.size() + 1, kNoMismatch);
  const size_t found_bytes = found_.size() * sizeof(Mismatch);
  CHECK(cudaMemcpyAsync(found_on_device_, found_.data(), found_bytes, cudaMemcpyHostToDevice,
                        seat_.stream));
  for (size_t set = 0; set < sets(which.shape.bytes); ++set) {
    for (size_t i = 0; i < regions.size(); ++i) {
      const Region& region = regions[i];
      const std::byte* const got = at(arena, which, region, set);
      if (region.content == Content::kPoison) {
        const size_t bytes = region.count * options_.type.bytes;
        launch_compare_poison(seat_.stream, got, bytes, set * bytes, found_on_device_ + i);
      } else {
        launch_compare(seat_.stream, got, {options_.type.kind, region.count, region.origin, set},
                       inputs(seed), found_on_device_ + i);
      }
    }
    const size_t tail = tail_bytes(which, set);
    if (tail == 0) continue;
    launch_compare_poison(seat_.stream,
                          arena.recv + set * stride(which.shape.bytes) + tail_first(which), tail,
                          set * stride(which.shape.bytes), found_on_device_ + regions.size());
  }
  CHECK(cudaMemcpyAsync(found_.data(), found_on_device_, found_bytes, cudaMemcpyDeviceToHost,
                        seat_.stream));
}

uint64_t Buffers::mismatches() const {
  uint64_t sum = 0;
  for (const Mismatch& found : found_)
    sum += found.count;
  return sum;
}

std::string Buffers::describe(const Arena& arena, const Case& which, uint32_t seed) const {
  const std::vector<Region> regions = regions_after(place(which));
  const size_t number = sets(which.shape.bytes);
  std::string words;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Mismatch& found = found_[i];
    if (found.count == 0) continue;
    if (!words.empty()) words += "; ";
    if (i == regions.size()) {
      words += text(
          "%llu bytes behind the results are written, first byte %zu of buffer %zu", found.count,
          static_cast<size_t>(found.first % stride(which.shape.bytes)) + tail_first(which),
          static_cast<size_t>(found.first / stride(which.shape.bytes)));
    } else if (regions[i].content == Content::kPoison) {
      const size_t bytes = regions[i].count * options_.type.bytes;
      words += text("%llu bytes of %s are written, first byte %zu of buffer %zu", found.count,
                    name_of(regions[i]), static_cast<size_t>(found.first % bytes),
                    static_cast<size_t>(found.first / bytes));
    } else {
      words += text("%llu of %zu elements of the %s are wrong, first %s", found.count,
                    regions[i].count * number, name_of(regions[i]),
                    describe_element(arena, which, regions[i], seed, found.first).c_str());
    }
  }
  return words;
}

std::string Buffers::describe_element(const Arena& arena, const Case& which, const Region& region,
                                      uint32_t seed, uint64_t index) const {
  const size_t set = index / region.count;
  const size_t element = index % region.count;
  std::array<std::byte, sizeof(float)> got{};
  CHECK(cudaMemcpy(got.data(), at(arena, which, region, set) + element * options_.type.bytes,
                   options_.type.bytes, cudaMemcpyDeviceToHost));
  return text("%zu of buffer %zu: expected %.9g, got %.9g", element, set,
              static_cast<double>(value_of(inputs(seed), region.origin, set, element)),
              static_cast<double>(number_of_element(options_.type.kind, got.data())));
}

}  // namespace weft::gpu_bench
