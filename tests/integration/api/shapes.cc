// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which calls there are to try.
#include <algorithm>
#include <sstream>

#include "tests/integration/api/trial.h"

namespace weft::test {
namespace {

#if defined(WEFT_FEW_SHAPES)
constexpr bool kFewShapes = true;
#else
constexpr bool kFewShapes = false;
#endif
// Where few are wanted: one in so many, prime to every cycle of what shapes are made of.
constexpr std::uint32_t kPartOfShapes = 11;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kReduce:
      return "reduce";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kGather:
      return "gather";
    case Kind::kScatter:
      return "scatter";
    case Kind::kAllToAllV:
      return "all_to_all_v";
    case Kind::kAllGatherV:
      return "all_gather_v";
    case Kind::kReduceScatterV:
      return "reduce_scatter_v";
  }
  return "?";
}

constexpr weft_data_type kReducedTypes[] = {
    WEFT_INT8,    WEFT_UINT8,   WEFT_INT32,   WEFT_UINT32,   WEFT_INT64,       WEFT_UINT64,
    WEFT_FLOAT16, WEFT_FLOAT32, WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2};

}  // namespace

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter ||
         kind == Kind::kReduceScatterV;
}

bool has_root(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather ||
         kind == Kind::kScatter;
}

bool can_be_in_place(Kind kind) {
  return kind != Kind::kAllToAll && kind != Kind::kAllToAllV;
}

bool has_blocks(Kind kind) {
  return kind != Kind::kAllReduce && kind != Kind::kBroadcast && kind != Kind::kReduce;
}

bool has_uneven_blocks(Kind kind) {
  return kind == Kind::kAllToAllV || kind == Kind::kAllGatherV || kind == Kind::kReduceScatterV;
}

std::size_t Shape::most_elements(std::uint32_t ranks) const {
  if (!has_blocks(kind)) return count;
  return (has_uneven_blocks(kind) ? kMostUneven * count + kMostGap : count) * ranks;
}

std::string Shape::describe() const {
  std::ostringstream text;
  text << name_of(kind) << " of " << count << " elements of type " << type;
  if (reduces(kind)) text << " by reduction " << reduction;
  if (premultiplied == Premultiplied::kNow) text << " of what was multiplied first";
  if (premultiplied == Premultiplied::kAtCall) text << " of what is multiplied at the call first";
  if (has_root(kind)) text << ", root " << root;
  text << (in_place ? ", in place" : ", out of place") << ", shifted by " << shift;
  if (!in_place) text << " and " << shift + recv_shift;
  if (values == Values::kAny) text << ", any values";
  if (omit_unused) text << ", unused buffers NULL";
  return text.str();
}

std::vector<Shape> all_shapes(std::uint32_t ranks, std::size_t step_bytes) {
  const std::size_t step = step_bytes / 4;
  std::vector<std::size_t> counts = {0,
                                     1,
                                     2,
                                     3,
                                     ranks - 1,
                                     ranks,
                                     ranks + 1,
                                     1023,
                                     step - 1,
                                     step,
                                     step + 1,
                                     (ranks * step) - 1,
                                     ranks * step,
                                     (ranks * step) + 1,
                                     (8 * ranks * step) + 5};
  std::ranges::sort(counts);
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  std::vector<Shape> shapes;
  std::size_t turn = 0;
  for (const std::size_t count : counts) {
    for (const weft_data_type type : {WEFT_FLOAT32, WEFT_INT32, WEFT_FLOAT16, WEFT_BFLOAT16}) {
      for (const weft_reduction reduction : {WEFT_SUM, WEFT_MAX}) {
        ++turn;
        if (kFewShapes && turn % 4 != 0) continue;
        shapes.push_back({.kind = Kind::kAllReduce,
                          .count = count,
                          .type = type,
                          .reduction = reduction,
                          .root = 0,
                          .in_place = turn % 2 == 1,
                          .shift = turn / 2 % 3});
      }
    }
    // 3 more turns, so that a count has 11, prime to the 6 ways to lie: each type and reduction
    // meets each of them.
    turn += 3;
    shapes.push_back({.kind = Kind::kBroadcast,
                      .count = count,
                      .type = turn % 2 == 0 ? WEFT_FLOAT32 : WEFT_INT32,
                      .reduction = WEFT_SUM,
                      .root = static_cast<std::uint32_t>(turn % ranks),
                      .in_place = turn / 2 % 2 == 1,
                      .shift = turn % 3});
  }
  // Each operation with each type and reduction, over counts around the borders of steps. Under
  // sanitizers a part of them: the kernels are the same for all.
  std::uint32_t place = 0;
  for (const Kind kind : {Kind::kReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce,
                          Kind::kAllToAll, Kind::kGather, Kind::kScatter, Kind::kAllToAllV,
                          Kind::kAllGatherV, Kind::kReduceScatterV}) {
    for (const weft_data_type type : kReducedTypes) {
      for (weft_reduction reduction = WEFT_SUM; reduction <= WEFT_AVG; ++reduction) {
        if (!reduces(kind) && reduction != WEFT_SUM) continue;
        ++place;
        if (kFewShapes && place % kPartOfShapes != 0) continue;
        shapes.push_back(
            {.kind = kind,
             .count = place % 7 == 0 ? step_bytes / width_of(type) + place % 3 : counts[place % 8],
             .type = type,
             .reduction = reduction,
             .root = has_root(kind) ? place % ranks : 0,
             .in_place = place % 2 == 1 && can_be_in_place(kind),
             .shift = place / 2 % 3});
      }
    }
    for (const weft_data_type type : kReducedTypes) {
      if (!reduces(kind)) break;
      ++place;
      if (kFewShapes && place % kPartOfShapes != 0) continue;
      const bool now = place / 2 % 2 == 0;
      shapes.push_back(
          {.kind = kind,
           .count = place % 5 == 0 ? 8 * step_bytes / width_of(type) + 3 : counts[place % 8],
           .type = type,
           .reduction = WEFT_SUM,
           .root = has_root(kind) ? place % ranks : 0,
           .in_place = place % 2 == 1,
           .shift = place % 3,
           .values = place % 3 == 0 ? Values::kAny : Values::kWhole,
           .premultiplied = now ? Premultiplied::kNow : Premultiplied::kAtCall});
    }
    for (const std::size_t count : counts) {
      // Blocks make it enough.
      if (count > (has_uneven_blocks(kind) ? step : ranks * step) + 1) continue;
      ++place;
      if (kFewShapes && place % 5 != 0) continue;
      shapes.push_back({.kind = kind,
                        .count = count,
                        .type = WEFT_FLOAT32,
                        .reduction = WEFT_SUM,
                        .root = has_root(kind) ? place % ranks : 0,
                        .in_place = place % 2 == 1 && can_be_in_place(kind),
                        .shift = place % 3});
    }
  }
  for (std::uint32_t root = 0; root < ranks; ++root) {
    for (const bool in_place : {false, true}) {
      shapes.push_back({.kind = root % 2 == 0 ? Kind::kBroadcast : Kind::kReduce,
                        .count = step + 7,
                        .type = WEFT_FLOAT32,
                        .reduction = WEFT_SUM,
                        .root = root,
                        .in_place = in_place,
                        .shift = 1});
    }
  }
  for (weft_data_type type = WEFT_INT8; type <= WEFT_FLOAT8_E5M2; ++type) {
    shapes.push_back({.kind = Kind::kBroadcast,
                      .count = 1001,
                      .type = type,
                      .reduction = WEFT_SUM,
                      .root = static_cast<std::uint32_t>(type) % ranks,
                      .in_place = false,
                      .shift = 1});
  }
  return shapes;
}

std::vector<Shape> large_shapes(std::uint32_t ranks, std::size_t bytes) {
  std::vector<Shape> shapes;
  for (const weft_data_type type : {WEFT_FLOAT32, WEFT_INT32, WEFT_FLOAT16, WEFT_BFLOAT16}) {
    const bool adds = type == WEFT_FLOAT32 || type == WEFT_BFLOAT16;
    shapes.push_back({.kind = Kind::kAllReduce,
                      .count = bytes / width_of(type),
                      .type = type,
                      .reduction = adds ? WEFT_SUM : WEFT_MAX,
                      .root = 0,
                      .in_place = !adds,
                      .shift = 0});
  }
  for (const Kind kind : {Kind::kBroadcast, Kind::kReduce, Kind::kAllGather, Kind::kReduceScatter,
                          Kind::kAllToAll, Kind::kGather, Kind::kScatter, Kind::kAllToAllV,
                          Kind::kAllGatherV, Kind::kReduceScatterV}) {
    const Shape whole{.kind = kind, .count = 1};
    shapes.push_back({.kind = kind,
                      .count = bytes / 4 / whole.most_elements(ranks),
                      .type = WEFT_FLOAT32,
                      .reduction = WEFT_SUM,
                      .root = has_root(kind) ? ranks - 1 : 0,
                      .in_place = false,
                      .shift = 0});
  }
  return shapes;
}

}  // namespace weft::test
