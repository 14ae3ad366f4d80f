// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Programs that have contexts of their own: Weft works in the one that the CUDA runtime has, leaves
// theirs current, and takes no streams of theirs but those of green contexts.
#include <string>

#include <cuda.h>

#include "tests/gpu/calls.h"

namespace weft::gpu_test {
namespace {

/// A function of the driver, as of a version of CUDA. Throws where the driver has none.
template <class Function>
Function* in_driver(const char* name, unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CUDA(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
  if (function == nullptr) throw Unsupported(WEFT_ERROR_UNSUPPORTED, name);
  return reinterpret_cast<Function*>(function);
}
template <class Function, class... Arguments>
void call_driver(const char* name, unsigned version, Arguments... arguments) {
  const CUresult answer = in_driver<Function>(name, version)(arguments...);
  if (answer != CUDA_SUCCESS)
    throw Problem(WEFT_ERROR_DEVICE, std::string(name) + ": " + std::to_string(answer));
}

CUcontext current() {
  CUcontext now = nullptr;
  call_driver<CUresult(CUcontext*)>("cuCtxGetCurrent", 12000, &now);
  return now;
}

/// A context of the program's own, current in this thread until it goes.
class MadeContext {
 public:
  explicit MadeContext(int device) {
    CUdevice number = 0;
    call_driver<CUresult(CUdevice*, int)>("cuDeviceGet", 12000, &number, device);
    call_driver<CUresult(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 10000, &made_, 0U, number);
  }
  MadeContext(const MadeContext&) = delete;
  MadeContext& operator=(const MadeContext&) = delete;
  ~MadeContext() { in_driver<CUresult(CUcontext)>("cuCtxDestroy", 12000)(made_); }
  [[nodiscard]] CUcontext get() const { return made_; }

 private:
  CUcontext made_ = nullptr;
};

/// A part of a device's multiprocessors, and a stream on them.
class GreenStream {
 public:
  explicit GreenStream(int device) {
    constexpr unsigned kProcessors = 16;
    CUdevice number = 0;
    CUdevResource all{};
    CUdevResource part{};
    unsigned parts = 1;
    CUdevResourceDesc description{};
    call_driver<CUresult(CUdevice*, int)>("cuDeviceGet", 12000, &number, device);
    call_driver<CUresult(CUdevice, CUdevResource*, CUdevResourceType)>(
        "cuDeviceGetDevResource", 12040, number, &all, CU_DEV_RESOURCE_TYPE_SM);
    call_driver<CUresult(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned,
                         unsigned)>("cuDevSmResourceSplitByCount", 12040, &part, &parts, &all,
                                    static_cast<CUdevResource*>(nullptr), 0U, kProcessors);
    call_driver<CUresult(CUdevResourceDesc*, CUdevResource*, unsigned)>(
        "cuDevResourceGenerateDesc", 12040, &description, &part, 1U);
    call_driver<CUresult(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>(
        "cuGreenCtxCreate", 12040, &context_, description, number,
        static_cast<unsigned>(CU_GREEN_CTX_DEFAULT_STREAM));
    call_driver<CUresult(CUstream*, CUgreenCtx, unsigned, int)>(
        "cuGreenCtxStreamCreate", 12050, &stream_, context_,
        static_cast<unsigned>(CU_STREAM_NON_BLOCKING), 0);
  }
  GreenStream(const GreenStream&) = delete;
  GreenStream& operator=(const GreenStream&) = delete;
  ~GreenStream() {
    cudaStreamDestroy(stream_);
    in_driver<CUresult(CUgreenCtx)>("cuGreenCtxDestroy", 12040)(context_);
  }
  [[nodiscard]] CUstream get() const { return stream_; }

 private:
  CUgreenCtx context_ = nullptr;
  CUstream stream_ = nullptr;
};

class Contexts : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SKIP_ON_HOST();
    SKIP_UNLESS_POSSIBLE(GetParam());
  }
  static weft_result wrap(int device, cudaStream_t stream) {
    weft_stream* wrapped = nullptr;
    const weft_result result = weft_stream_from_cuda(context(), device, stream, &wrapped);
    if (result == WEFT_OK) check(weft_stream_destroy(wrapped), "weft_stream_destroy");
    return result;
  }
};

// The first calls connect, and allocate.
TEST_P(Contexts, OfTheProgramAreLeftCurrent) {
  Team team(Mode::kThreads, GetParam());
  for (const std::size_t count : {std::size_t{100}, std::size_t{1} << 20U}) {
    Trial trial(team, {.type = kInt32, .count = count});
    trial.prepare(options().seed);
    team.each([&](Member& member) {
      const MadeContext made(member.device);
      trial.issue(member);
      EXPECT_EQ(current(), made.get());
      check(weft_stream_synchronize(member.stream), "weft_stream_synchronize");
      EXPECT_EQ(current(), made.get());
    });
    trial.check();
  }
}

TEST_P(Contexts, OfTheProgramHaveNoStreamsForCalls) {
  for (int device = 0; device < (GetParam().one_device ? 1 : 2); ++device) {
    use_device(device);
    const Stream own = open_stream(device);
    EXPECT_EQ(wrap(device, nullptr), WEFT_OK);
    if (!GetParam().one_device) {
      EXPECT_EQ(wrap(1 - device, own.cuda), WEFT_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(wrap(1 - device, nullptr), WEFT_OK);
    }
    {
      const MadeContext made(device);
      cudaStream_t stream = nullptr;
      CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      EXPECT_EQ(wrap(device, stream), WEFT_ERROR_INVALID_ARGUMENT);
      EXPECT_NE(last_error().find("context"), std::string::npos) << last_error();
      EXPECT_EQ(wrap(device, nullptr), WEFT_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(wrap(device, own.cuda), WEFT_OK);
      EXPECT_EQ(current(), made.get());
    }
    close_stream(device, own);
  }
}

TEST_P(Contexts, ThatAreGreenHaveStreamsForCalls) {
  Team team(Mode::kThreads, GetParam());
  Trial trial(team, {.type = kInt32, .count = 1000});
  trial.prepare(options().seed);
  team.each([&](Member& member) {
    const GreenStream green(member.device);
    weft_stream* stream = nullptr;
    check(weft_stream_from_cuda(context(), member.device, green.get(), &stream),
          "weft_stream_from_cuda");
    trial.issue(member, stream);
    check(weft_stream_synchronize(stream), "weft_stream_synchronize");
    check(weft_stream_destroy(stream), "weft_stream_destroy");
  });
  trial.check();
}

INSTANTIATE_TEST_SUITE_P(Gpu, Contexts, testing::ValuesIn(kPairs), layout_name<Layout>);

}  // namespace
}  // namespace weft::gpu_test
