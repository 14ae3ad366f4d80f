// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/operations.h"

#include <algorithm>

namespace weft::gpu_bench {

namespace {

/// What a rank itself puts into a call.
Origin own_input(const Place& place) {
  return {place.rank, 1, place.shape.send_count, 0, place.shape.send_count};
}

Origin output(const Place& place) {
  const Shape& shape = place.shape;
  switch (place.operation.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      return {0, place.ranks, shape.recv_count, 0, shape.send_count};
    case OperationKind::kReduceScatter:
      return {0, place.ranks, shape.recv_count, place.rank * shape.count, shape.send_count};
    case OperationKind::kAllGather:
      return {0, 1, shape.count, 0, shape.send_count};
    case OperationKind::kBroadcast:
      return {kRoot, 1, shape.recv_count, 0, shape.send_count};
    case OperationKind::kAllToAll:
      return {0, 1, shape.count, place.rank * shape.count, shape.send_count};
    case OperationKind::kSendRecv:
      return {(place.rank + place.ranks - 1) % place.ranks, 1, shape.recv_count, 0,
              shape.send_count};
  }
  return {};
}

bool has_output(const Place& place) {
  return place.operation.kind != OperationKind::kReduce || place.rank == kRoot;
}

}  // namespace

const Operation* find_operation(std::string_view name) {
  const auto* const found =
      std::find_if(kOperations.begin(), kOperations.end(),
                   [&](const Operation& operation) { return name == operation.name; });
  return found == kOperations.end() ? nullptr : found;
}

double bus_factor(const Operation& operation, uint32_t ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return 2 * others;
    case OperationKind::kAllGather:
    case OperationKind::kReduceScatter:
    case OperationKind::kAllToAll:
      return others;
    case OperationKind::kBroadcast:
    case OperationKind::kReduce:
    case OperationKind::kSendRecv:
      return 1;
  }
  return 1;
}

Shape shape_of(const Operation& operation, uint32_t ranks, size_t bytes, size_t element_bytes) {
  constexpr size_t kBlockMultiple = 16;
  const auto blocks = [&] {
    const size_t block = bytes / ranks;
    const size_t multiple = block < kBlockMultiple ? element_bytes : kBlockMultiple;
    return block / multiple * multiple / element_bytes;
  };
  const size_t whole = bytes / element_bytes;
  switch (operation.kind) {
    case OperationKind::kAllGather:
      return {blocks(), blocks(), ranks * blocks(), ranks * blocks() * element_bytes};
    case OperationKind::kReduceScatter:
      return {blocks(), ranks * blocks(), blocks(), ranks * blocks() * element_bytes};
    case OperationKind::kAllToAll:
      return {blocks(), ranks * blocks(), ranks * blocks(), ranks * blocks() * element_bytes};
    case OperationKind::kAllReduce:
    case OperationKind::kBroadcast:
    case OperationKind::kReduce:
    case OperationKind::kSendRecv:
      return {whole, whole, whole, whole * element_bytes};
  }
  return {};
}

size_t Place::send_first() const {
  return in_place && operation.kind == OperationKind::kAllGather ? rank * shape.count : 0;
}

size_t Place::recv_first() const {
  return in_place && operation.kind == OperationKind::kReduceScatter ? rank * shape.count : 0;
}

std::vector<Region> regions_before(const Place& place) {
  // In place the other ranks of a broadcast have nothing but an output.
  const bool nothing_sent =
      place.in_place && place.operation.kind == OperationKind::kBroadcast && place.rank != kRoot;
  if (nothing_sent) return {};
  return {{place.in_place, place.send_first(), place.shape.send_count, Content::kInput,
           own_input(place)}};
}

std::vector<Region> regions_after(const Place& place) {
  const Shape& shape = place.shape;
  const Region sent{false, 0, shape.send_count, Content::kInput, own_input(place)};
  const Region received{true, place.recv_first(), shape.recv_count, Content::kOutput,
                        output(place)};
  if (!place.in_place) {
    if (has_output(place)) return {sent, received};
    return {sent, {true, 0, shape.recv_count, Content::kPoison, {}}};
  }
  if (!has_output(place)) return regions_before(place);
  if (place.operation.kind != OperationKind::kReduceScatter) return {received};
  // The other blocks are left alone.
  std::vector<Region> regions;
  const auto untouched = [&](size_t first, size_t end) {
    if (first == end) return;
    Origin origin = own_input(place);
    origin.offset = first;
    regions.push_back({true, first, end - first, Content::kInput, origin});
  };
  untouched(0, place.recv_first());
  regions.push_back(received);
  untouched(place.recv_first() + shape.recv_count, shape.send_count);
  return regions;
}

}  // namespace weft::gpu_bench
