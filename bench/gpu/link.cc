// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/link.h"

#include <cstdio>
#include <vector>

#include "bench/gpu/basics.h"
#include "bench/gpu/kernels.h"

namespace weft::gpu_bench {

namespace {

class LinkProbe {
 public:
  LinkProbe() {
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&to_, kBytes));
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceEnablePeerAccess(1, 0));
    CHECK(cudaMalloc(&from_, kBytes));
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
    constexpr uint64_t kCount = kBytes / sizeof(float);
    launch_fill(stream_, from_, {ElementKind::kFloat32, kCount, {0, 1, kCount, 0, kCount}, 0},
                {1, kTypes[0].range});
    CHECK(cudaStreamSynchronize(stream_));
  }

  void run(const Options& options) {
    for (const int ctas : {8, 16, 32, 132}) {
      print(options, "SM write", ctas,
            median_gbs([&] { launch_write_to_peer(stream_, ctas, to_, from_, kBytes); }));
    }
    print(options, "copy engine", 0,
          median_gbs([&] { CHECK(cudaMemcpyPeerAsync(to_, 1, from_, 0, kBytes, stream_)); }));
  }

 private:
  static constexpr size_t kBytes = size_t{512} << 20;

  template <class Launch>
  double median_gbs(Launch launch) {
    std::vector<double> rates;
    launch();
    for (int round = 0; round < 7; ++round) {
      CHECK(cudaEventRecord(begin_, stream_));
      launch();
      CHECK(cudaEventRecord(end_, stream_));
      CHECK(cudaStreamSynchronize(stream_));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
      rates.push_back(static_cast<double>(kBytes) / static_cast<double>(milliseconds) / 1e6);
    }
    return median(rates);
  }

  static void print(const Options& options, const char* what, int ctas, double gbs) {
    const std::string name = ctas == 0 ? what : text("%s, %d CTAs", what, ctas);
    std::printf("link GPU 0 -> GPU 1, %-20s %8.1f GB/s\n", name.c_str(), gbs);
    std::fflush(stdout);
    append_json(options, text("{\"kind\": \"link\", \"what\": \"%s\", \"ctas\": %d, "
                              "\"bytes\": %zu, \"gbs\": %.2f}",
                              what, ctas, kBytes, gbs));
  }

  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

void probe_link(const Options& options) {
  LinkProbe().run(options);
}

}  // namespace weft::gpu_bench
