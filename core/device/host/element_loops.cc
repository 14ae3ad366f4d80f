// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Chooses a variant of the element loops by the processor's features.
#include "core/device/host/element_loops.h"

#include <algorithm>
#include <cstring>

#include "core/device/host/element_loops_variants.h"

namespace weft::device {
namespace {

constexpr const ElementLoops* kVariants[] = {
    &kLoopsBaseline,
#ifdef WEFT_LOOPS_AVX2
    &kLoopsAvx2,
#endif
#ifdef WEFT_LOOPS_AVX512
    &kLoopsAvx512,
#endif
};

/// Variants stand in order of what they need, so those that run are a prefix.
std::size_t usable_variants() {
  std::size_t usable = 1;  // NOLINT(misc-const-correctness): depends on what was built
#ifdef WEFT_LOOPS_AVX2
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return usable;
  ++usable;
#ifdef WEFT_LOOPS_AVX512
  if (!__builtin_cpu_supports("avx512f")) return usable;
  ++usable;
#endif
#endif
  return usable;
}

}  // namespace

const ElementLoops& best_element_loops() {
  return *kVariants[usable_variants() - 1];
}

std::span<const ElementLoops* const> element_loop_variants() {
  return std::span(kVariants).first(usable_variants());
}

void copy_bytes(std::byte* first, std::byte* second, const std::byte* source, std::uint64_t bytes) {
  // Piece by piece, so that the second copy reads what the first left in the nearest cache.
  constexpr std::uint64_t kPiece = 16384;
  if (second == nullptr) {
    if (first != source) std::memcpy(first, source, bytes);
    return;
  }
  for (std::uint64_t at = 0; at < bytes; at += kPiece) {
    const std::uint64_t part = std::min(kPiece, bytes - at);
    if (first != source) std::memcpy(first + at, source + at, part);
    if (second != source) std::memcpy(second + at, source + at, part);
  }
}

}  // namespace weft::device
