// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Chooses a variant of the element loops by the processor's features.
#include "core/device/host/element_loops.h"

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

// Thread sanitizers see no access of more than 16 bytes: there the others would hide races.
#if defined(__SANITIZE_THREAD__)
#define WEFT_NARROW_LOOPS_ALONE
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_NARROW_LOOPS_ALONE
#endif
#endif

/// Variants stand in order of what they need, so those that run are a prefix.
std::size_t usable_variants() {
  std::size_t usable = 1;  // NOLINT(misc-const-correctness): depends on what was built
#if defined(WEFT_LOOPS_AVX2) && !defined(WEFT_NARROW_LOOPS_ALONE)
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

}  // namespace weft::device
