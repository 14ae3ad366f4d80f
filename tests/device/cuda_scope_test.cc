// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Which CUDA context is current while Weft does something on a device, and which afterwards. It
// takes no GPU: of the CUDA runtime and the driver there is what that asks for.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gtest/gtest.h>

#include "core/device/cuda/scope.h"

namespace {

constexpr std::size_t kDevices = 2;
/// Their addresses are those of contexts.
std::array<std::array<char, 2>, kDevices> g_contexts{};
/// Which of a device's the runtime has: it makes another one after cudaDeviceReset.
std::array<std::size_t, kDevices> g_runtime_has{};
std::array<char, 1> g_made{};
CUcontext g_current = nullptr;
int g_sets = 0;
bool g_fails = false;

CUcontext runtime_context(std::size_t device) {
  return reinterpret_cast<CUcontext>(&g_contexts[device][g_runtime_has[device]]);
}
CUcontext made_context() {
  return reinterpret_cast<CUcontext>(&g_made[0]);
}

CUresult tell_current(CUcontext* context) {
  *context = g_current;
  return CUDA_SUCCESS;
}
CUresult make_current(CUcontext context) {
  g_current = context;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* /*result*/) {
  const std::string_view wanted = name;
  *function = nullptr;
  if (wanted == "cuCtxGetCurrent") *function = reinterpret_cast<void*>(tell_current);
  if (wanted == "cuCtxSetCurrent") *function = reinterpret_cast<void*>(make_current);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  ++g_sets;
  if (g_fails) return cudaErrorMemoryAllocation;
  g_current = runtime_context(static_cast<std::size_t>(device));
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t /*error*/) {
  return "error";
}
const char* cudaGetErrorString(cudaError_t /*error*/) {
  return "an error";
}
}

namespace weft::device::cuda {
namespace {

/// What is current within a Scope of the device, where `before` was, which comes back.
CUcontext current_within(std::int32_t device, CUcontext before) {
  g_current = before;
  CUcontext within = nullptr;
  {
    const Scope scope(device);
    within = g_current;
  }
  EXPECT_EQ(g_current, before);
  return within;
}

TEST(CudaScope, HasTheRuntimesContextWhicheverIsCurrent) {
  for (std::size_t device = 0; device < kDevices; ++device) {
    const auto index = static_cast<std::int32_t>(device);
    for (const CUcontext before :
         {CUcontext{nullptr}, made_context(), runtime_context(0), runtime_context(1)}) {
      EXPECT_EQ(current_within(index, before), runtime_context(device)) << "device " << device;
    }
  }
}

// Each call on a GPU has one: mostly there is nothing to do.
TEST(CudaScope, LeavesTheRuntimesContextAsItIs) {
  current_within(1, runtime_context(1));
  g_sets = 0;
  EXPECT_EQ(current_within(1, runtime_context(1)), runtime_context(1));
  EXPECT_EQ(g_sets, 0);
}

TEST(CudaScope, FindsTheNextOneAfterAReset) {
  current_within(0, runtime_context(0));
  g_runtime_has[0] = 1;
  EXPECT_EQ(current_within(0, runtime_context(0)), runtime_context(0));
  EXPECT_EQ(current_within(0, made_context()), runtime_context(0));
}

TEST(CudaScope, TakesNoOtherForTheOneThatThereCannotBe) {
  current_within(1, runtime_context(1));
  g_fails = true;
  EXPECT_EQ(current_within(1, made_context()), made_context());
  g_fails = false;
  EXPECT_EQ(current_within(1, made_context()), runtime_context(1));
}

}  // namespace
}  // namespace weft::device::cuda
