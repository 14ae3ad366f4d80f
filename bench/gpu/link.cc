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

/// Who writes to whom, all at the same time.
struct Traffic {
  struct Way {
    int from, to;
  };
  const char* name;
  int of;  ///< Parts that the bytes have; each way takes one.
  std::vector<Way> ways;
};

/// What large sends, all-to-alls, and broadcasts from GPU 0 through one GPU after the other or
/// through all others at once, can have.
std::vector<Traffic> traffics(int gpus) {
  Traffic ring{"each -> next", 1, {}};
  for (int gpu = 0; gpu < gpus; ++gpu)
    ring.ways.push_back({gpu, (gpu + 1) % gpus});
  if (gpus == 2) return {ring};
  Traffic all{"all -> all", gpus - 1, {}};
  Traffic chain{"root -> next -> next", 1, {}};
  Traffic spread{"root -> all -> all", gpus - 1, {}};
  for (int gpu = 0; gpu < gpus; ++gpu) {
    if (gpu + 1 < gpus) chain.ways.push_back({gpu, gpu + 1});
    for (int way = 1; way < gpus; ++way) {
      const int peer = (gpu + way) % gpus;
      all.ways.push_back({gpu, peer});
      if (peer != 0) spread.ways.push_back({gpu, peer});
    }
  }
  return {ring, all, chain, spread};
}

/// Several GPUs at once.
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
    for (const Traffic& traffic : traffics(gpus_)) {
      for (const int ctas : {32, 64, 128}) {
        print(options, traffic.name, "SM write", ctas, kBytes,
              median_gbs(traffic, [&](const Gpu& own, Gpu& peer, int way, size_t at, size_t bytes) {
                launch_write_to_peer(own.streams[static_cast<size_t>(way)], ctas / own.ways,
                                     peer.to + at, own.from + at, bytes);
              }));
      }
      print(options, traffic.name, "copy engine", 0, kBytes,
            median_gbs(traffic, [&](const Gpu& own, Gpu& peer, int way, size_t at, size_t bytes) {
              CHECK(cudaMemcpyAsync(peer.to + at, own.from + at, bytes, cudaMemcpyDefault,
                                    own.streams[static_cast<size_t>(way)]));
            }));
    }
  }

 private:
  static constexpr size_t kBytes = size_t{768} << 20;  // that are all parts

  struct Gpu {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::vector<cudaStream_t> streams;  // one for each way
    std::vector<cudaEvent_t> joined;
    cudaEvent_t begin = nullptr, end = nullptr;
    int ways = 0;  // that it writes in this traffic
  };

  template <class Launch>
  void write(const Traffic& traffic, int gpu, Launch launch) {
    Gpu& own = all_[static_cast<size_t>(gpu)];
    const size_t part = kBytes / static_cast<size_t>(traffic.of) / 4096 * 4096;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaEventRecord(own.begin, own.streams[0]));
    int number = 0;
    for (const Traffic::Way& way : traffic.ways) {
      if (way.from != gpu) continue;
      const auto stream = static_cast<size_t>(number);
      if (number != 0) CHECK(cudaStreamWaitEvent(own.streams[stream], own.begin, 0));
      launch(own, all_[static_cast<size_t>(way.to)], number, part * stream, part);
      if (number != 0) {
        CHECK(cudaEventRecord(own.joined[stream], own.streams[stream]));
        CHECK(cudaStreamWaitEvent(own.streams[0], own.joined[stream], 0));
      }
      ++number;
    }
    CHECK(cudaEventRecord(own.end, own.streams[0]));
  }

  // Of the slowest GPU.
  template <class Launch>
  double median_gbs(const Traffic& traffic, Launch launch) {
    for (Gpu& own : all_)
      own.ways = 0;
    for (const Traffic::Way& way : traffic.ways)
      ++all_[static_cast<size_t>(way.from)].ways;
    std::vector<double> rates;
    for (int round = 0; round <= kRounds; ++round) {
      for (int gpu = 0; gpu < gpus_; ++gpu)
        write(traffic, gpu, launch);
      float slowest = 0;
      for (Gpu& own : all_) {
        CHECK(cudaEventSynchronize(own.end));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, own.begin, own.end));
        slowest = std::max(slowest, milliseconds);
      }
      if (round != 0) rates.push_back(static_cast<double>(kBytes) / slowest / 1e6);
    }
    return median(rates);
  }

  const int gpus_;
  std::vector<Gpu> all_;
};

/// Each GPU writes so much to the next one, tells it, and waits until it has been told the same:
/// what sends of that size to the next rank can have, whose receivers' buffers all know. After
/// TrafficProbe, by which they reach each other.
class ExchangeProbe {
 public:
  explicit ExchangeProbe(int gpus) : all_(static_cast<size_t>(gpus)) {
    for (size_t gpu = 0; gpu < all_.size(); ++gpu) {
      Gpu& own = all_[gpu];
      CHECK(cudaSetDevice(static_cast<int>(gpu)));
      CHECK(cudaMalloc(&own.from, kMostBytes));
      CHECK(cudaMalloc(&own.to, kMostBytes));
      CHECK(cudaMalloc(&own.words, sizeof *own.words));
      CHECK(cudaMemset(own.words, 0, sizeof *own.words));
      CHECK(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking));
      CHECK(cudaEventCreate(&own.begin));
      CHECK(cudaEventCreate(&own.end));
      CHECK(cudaDeviceSynchronize());
    }
  }

  void run(const Options& options) {
    for (size_t bytes = size_t{8} << 20; bytes <= kMostBytes; bytes *= 2) {
      for (const int ctas : {32, 64, 128}) {
        const std::string what = text("SM write of %zu MiB, and a word each way", bytes >> 20);
        print(options, "each -> next", what.c_str(), ctas, bytes, median_gbs(ctas, bytes));
      }
    }
  }

 private:
  static constexpr size_t kMostBytes = size_t{32} << 20;
  static constexpr int kExchanges = 20;  // one after the other in a graph

  struct Gpu {
    std::byte* from = nullptr;
    std::byte* to = nullptr;
    ExchangeWords* words = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    cudaGraphExec_t graph = nullptr;
  };

  void capture(size_t gpu, int ctas, size_t bytes) {
    Gpu& own = all_[gpu];
    const Gpu& next = all_[(gpu + 1) % all_.size()];
    cudaGraph_t graph = nullptr;
    CHECK(cudaSetDevice(static_cast<int>(gpu)));
    CHECK(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kExchanges; ++i)
      launch_exchange(own.stream, ctas, next.to, own.from, bytes, own.words, next.words);
    CHECK(cudaStreamEndCapture(own.stream, &graph));
    CHECK(cudaGraphInstantiate(&own.graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
  }

  // Of the slowest GPU, per exchange.
  double median_gbs(int ctas, size_t bytes) {
    for (size_t gpu = 0; gpu < all_.size(); ++gpu)
      capture(gpu, ctas, bytes);
    std::vector<double> rates;
    for (int round = 0; round <= kRounds; ++round) {
      for (size_t gpu = 0; gpu < all_.size(); ++gpu) {
        Gpu& own = all_[gpu];
        CHECK(cudaSetDevice(static_cast<int>(gpu)));
        CHECK(cudaGraphLaunch(own.graph, own.stream));  // Who comes late is waited for in this one.
        CHECK(cudaEventRecord(own.begin, own.stream));
        CHECK(cudaGraphLaunch(own.graph, own.stream));
        CHECK(cudaEventRecord(own.end, own.stream));
      }
      float slowest = 0;
      for (const Gpu& own : all_) {
        CHECK(cudaEventSynchronize(own.end));
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, own.begin, own.end));
        slowest = std::max(slowest, milliseconds);
      }
      if (round != 0) {
        rates.push_back(static_cast<double>(bytes) * kExchanges / static_cast<double>(slowest) /
                        1e6);
      }
    }
    for (const Gpu& own : all_)
      CHECK(cudaGraphExecDestroy(own.graph));
    return median(rates);
  }

  std::vector<Gpu> all_;
};

}  // namespace

void probe_link(const Options& options) {
  LinkProbe().run(options);
  TrafficProbe(options.gpus).run(options);
  ExchangeProbe(options.gpus).run(options);
}

}  // namespace weft::gpu_bench
