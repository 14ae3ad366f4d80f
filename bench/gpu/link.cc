// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/gpu/link.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "bench/gpu/basics.h"
#include "bench/gpu/kernels.h"

namespace weft::gpu_bench {

namespace {

constexpr int kRounds = 7;

void print(const Options& options, const char* between, const char* what, int ctas, size_t bytes,
           double gbs) {
  const std::string name = ctas == 0 ? what : text("%s, %d CTAs", what, ctas);
  std::printf("link %s, %-20s %8.1f GB/s\n", between, name.c_str(), gbs);
  std::fflush(stdout);
  append_json(options,
              text("{\"kind\": \"link\", \"between\": \"%s\", \"what\": \"%s\", \"ctas\": %d, "
                   "\"bytes\": %zu, \"gbs\": %.2f}",
                   between, what, ctas, bytes, gbs));
}

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
      print(options, kWhere, "SM write", ctas, kBytes,
            median_gbs([&] { launch_write_to_peer(stream_, ctas, to_, from_, kBytes); }));
    }
    print(options, kWhere, "copy engine", 0, kBytes,
          median_gbs([&] { CHECK(cudaMemcpyPeerAsync(to_, 1, from_, 0, kBytes, stream_)); }));
  }

 private:
  static constexpr size_t kBytes = size_t{512} << 20;
  static constexpr const char* kWhere = "GPU 0 -> GPU 1";

  template <class Launch>
  double median_gbs(Launch launch) {
    std::vector<double> rates;
    launch();
    for (int round = 0; round < kRounds; ++round) {
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

  std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

/// All GPUs at once, each to the next one or to all others: what large sends, and all-to-alls, can
/// have.
class TrafficProbe {
 public:
  explicit TrafficProbe(int gpus) : gpus_(gpus), all_(static_cast<size_t>(gpus)) {
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      Gpu& own = all_[static_cast<size_t>(gpu)];
      CHECK(cudaSetDevice(gpu));
      for (int peer = 0; peer < gpus_; ++peer) {
        if (peer == gpu) continue;
        // GPU 0 has asked for one before.
        const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer, 0);
        if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
          cudaGetLastError();
        } else {
          CHECK(enabled);
        }
        CHECK(cudaStreamCreateWithFlags(&own.streams.emplace_back(), cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&own.joined.emplace_back(), cudaEventDisableTiming));
      }
      CHECK(cudaMalloc(&own.from, kBytes));
      CHECK(cudaMalloc(&own.to, kBytes));
      CHECK(cudaMemset(own.from, gpu + 1, kBytes));
      CHECK(cudaEventCreate(&own.begin));
      CHECK(cudaEventCreate(&own.end));
      CHECK(cudaDeviceSynchronize());
    }
  }

  void run(const Options& options) {
    for (const int partners : {1, gpus_ - 1}) {
      const char* const between = partners == 1 ? "each -> next" : "all -> all";
      for (const int ctas : {32, 64, 128}) {
        print(options, between, "SM write", ctas, kBytes,
              median_gbs(partners, [&](const Gpu& own, Gpu& peer, int way, size_t part) {
                launch_write_to_peer(own.streams[static_cast<size_t>(way)], ctas / partners,
                                     peer.to + part * way, own.from + part * way, part);
              }));
      }
      print(options, between, "copy engine", 0, kBytes,
            median_gbs(partners, [&](const Gpu& own, Gpu& peer, int way, size_t part) {
              CHECK(cudaMemcpyAsync(peer.to + part * way, own.from + part * way, part,
                                    cudaMemcpyDefault, own.streams[static_cast<size_t>(way)]));
            }));
      if (gpus_ == 2) break;
    }
  }

 private:
  static constexpr size_t kBytes = size_t{768} << 20;  // that each GPU sends

  struct Gpu {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::vector<cudaStream_t> streams;  // one for each partner
    std::vector<cudaEvent_t> joined;
    cudaEvent_t begin = nullptr, end = nullptr;
  };

  // Of the slowest GPU.
  template <class Launch>
  double median_gbs(int partners, Launch launch) {
    const size_t part = kBytes / static_cast<size_t>(partners) / 4096 * 4096;
    std::vector<double> rates;
    for (int round = 0; round <= kRounds; ++round) {
      for (int gpu = 0; gpu < gpus_; ++gpu) {
        Gpu& own = all_[static_cast<size_t>(gpu)];
        CHECK(cudaSetDevice(gpu));
        CHECK(cudaEventRecord(own.begin, own.streams[0]));
        for (int way = 0; way < partners; ++way) {
          const auto at = static_cast<size_t>(way);
          if (way != 0) CHECK(cudaStreamWaitEvent(own.streams[at], own.begin, 0));
          launch(own, all_[static_cast<size_t>((gpu + 1 + way) % gpus_)], way, part);
          if (way == 0) continue;
          CHECK(cudaEventRecord(own.joined[at], own.streams[at]));
          CHECK(cudaStreamWaitEvent(own.streams[0], own.joined[at], 0));
        }
        CHECK(cudaEventRecord(own.end, own.streams[0]));
      }
      float slowest = 0;
      for (Gpu& own : all_) {
        CHECK(cudaEventSynchronize(own.end));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, own.begin, own.end));
        slowest = std::max(slowest, milliseconds);
      }
      const auto sent = static_cast<double>(part * static_cast<size_t>(partners));
      if (round != 0) rates.push_back(sent / static_cast<double>(slowest) / 1e6);
    }
    return median(rates);
  }

  const int gpus_;
  std::vector<Gpu> all_;
};

}  // namespace

void probe_link(const Options& options) {
  LinkProbe().run(options);
  TrafficProbe(options.gpus).run(options);
}

}  // namespace weft::gpu_bench
