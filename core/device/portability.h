// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One mark for functions that run on the host and, where nvcc compiles them, on a GPU; one for
// loops whose arrays must stay in registers there. Everything in core/device outside host/ and
// cuda/ compiles with a plain C++20 compiler.
#pragma once

#if defined(__CUDACC__)
#define WEFT_HD __host__ __device__
#else
#define WEFT_HD
#endif
#if defined(__CUDA_ARCH__)
#define WEFT_UNROLL _Pragma("unroll")
#else
#define WEFT_UNROLL
#endif

// For what is seldom needed, many times over: inlined it would push what is needed out of a GPU's
// cache of instructions.
#if defined(__CUDACC__)
#define WEFT_HD_OUTLINE WEFT_HD __noinline__
#else
#define WEFT_HD_OUTLINE __attribute__((noinline))
#endif

// For what sources compiled for different instruction sets share: the linker would keep one body.
#define WEFT_HD_INLINE WEFT_HD __attribute__((always_inline)) inline
