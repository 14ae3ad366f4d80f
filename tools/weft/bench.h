// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One rank's part of `weft bench`: what it is asked for, and how it measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weft/weft.h>

#include "core/model/operation.h"
#include "plugins/tuner/table.h"
#include "tools/weft/bench_call.h"
#include "tools/weft/calibrate.h"
#include "tools/weft/call_options.h"
#include "tools/weft/plot.h"
#include "tools/weft/session.h"

namespace weft::tool {

struct BenchOptions {
  std::string min_text = "8";
  std::string max_text = "64MiB";
  std::uint32_t factor = 2;
  std::uint32_t iterations = 20;
  std::uint32_t warmup = 5;
  std::uint32_t rounds = 5;  ///< Of --ways.
  CallOptions call;
  bool in_place_only = false;
  bool check = false;
  bool ways = false;
  std::string json_file;
  std::string plot_file;
  std::string table_file;

  BenchCall timed;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  weft_data_type type = WEFT_FLOAT32;
  weft_reduction reduction = WEFT_SUM;
};

/// One row's half: out of place or in place.
struct Measurement {
  double us = 0;
  double algbw = 0;  ///< GB/s, bytes / time
  double busbw = 0;  ///< GB/s, as nccl-tests defines it for the operation
  std::uint64_t wrong = 0;
};

/// Throws: why, by errno. Right after a stream said so.
[[noreturn]] void cannot_write(const std::string& file);

/// This rank's part of the benchmark.
class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        repeats_{.warmup = options.warmup, .iterations = options.iterations},
        context_(make_context()),
        stream_(make_stream(context_.get())),
        comm_(join_job(context_.get(), options.table_file.empty() ? Settings() : untuned())) {
    check(context_.get(), weft_comm_rank(comm_.get(), &rank_), "cannot ask for the rank");
    check(context_.get(), weft_comm_size(comm_.get(), &ranks_), "cannot ask for the size");
    if (options_.call.root >= ranks_) {
      throw CallFailed(fmt::format("--root {} is not a rank of {}", options_.call.root, ranks_));
    }
  }

  /// Answers the number of wrong elements on all ranks.
  std::uint64_t run();
  /// Times every way that is possible, and writes a table of costs. Answers the same.
  std::uint64_t calibrate();
  /// Times the planner's choice and every way that is possible, in turn. Answers the same.
  std::uint64_t compare_ways();

 private:
  struct Contender;
  struct Repeats {
    std::uint32_t warmup;
    std::uint32_t iterations;
  };
  /// A table that is being made must not be asked, and need not be there.
  static Settings untuned() { return {{"tuner.plugin", "none"}}; }
  template <typename T>
  Measurement measure(std::uint64_t count, bool in_place);
  template <typename T>
  std::uint64_t verify(std::uint64_t count, bool in_place);
  Measurement measure_as_type(std::uint64_t count, bool in_place);
  struct Places {
    std::byte* send;
    std::byte* recv;
    std::uint64_t send_count;  ///< Elements.
    std::uint64_t recv_count;
  };
  const UnevenBlocks& uneven_blocks(std::uint64_t count);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> uneven_sources(std::uint64_t count);
  Places places_of(std::uint64_t count, std::size_t width, bool in_place);

  weft_result start(const void* send, void* recv, std::uint64_t count);
  weft_result start_collective(const void* send, void* recv, std::uint64_t count);
  weft_result send_and_receive(const void* send, void* recv, std::uint64_t count);
  void call(const void* send, void* recv, std::uint64_t count);
  std::vector<tuner::Sample> samples_of(const WayNames& way);
  [[nodiscard]] std::uint64_t hosts();
  void prepare(Contender& contender, std::uint64_t count);
  void warm_up(std::uint64_t count);
  void time_in_turn(std::vector<Contender>& contenders, std::uint64_t count);
  void write_contender(std::uint64_t bytes, const Contender& contender);
  double max_over_ranks(double value);
  std::uint64_t sum_over_ranks(std::uint64_t value);
  void make_buffers(std::size_t least);
  void open_json();
  void print_header() const;
  void print_row(std::uint64_t bytes, std::uint64_t count, const Measurement* out_of_place,
                 const Measurement* in_place) const;
  void print_wrong() const;
  [[nodiscard]] std::string half_row(const Measurement* half) const;
  void write_json(std::uint64_t bytes, bool in_place, const Measurement& half);
  [[nodiscard]] std::string transports() const;
  void write_plot(const std::vector<PlotPoint>& out_of_place,
                  const std::vector<PlotPoint>& in_place) const;

  const BenchOptions& options_;
  Repeats repeats_;  // of the next measurement
  ContextHandle context_;
  StreamHandle stream_;
  CommHandle comm_;
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 0;
  std::uint64_t wrong_ = 0;  // elements of all ranks, in all measurements
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  UnevenBlocks uneven_;  // of calls with uneven_count_ elements a block
  std::uint64_t uneven_count_ = 0;
  std::ofstream json_;
};

}  // namespace weft::tool
